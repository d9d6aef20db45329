//! Whose the folders of sessions are. A handle may be ended by a node on another machine, and what lies here must go then,
//! too.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use holdpoint_core::{RunId, TenantId};
use serde::{Deserialize, Serialize};

use super::super::Case;
use super::folder::write_whole;
use super::leftovers;

const FILE: &str = "owner.json";
/// Folders that are looked at in one go.
const MOST: usize = 10_000;

/// Whose a folder is, as it is written down in it.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Owner {
    tenant: String,
    state_key: String,
    run: String,
}

impl Owner {
    pub(super) fn of(case: &Case) -> Self {
        let (tenant, state_key) = (case.tenant().to_owned(), case.state_key().to_owned());
        Self { tenant, state_key, run: case.run().to_owned() }
    }

    pub(super) fn put(&self, root: &Path) -> io::Result<()> {
        let path = root.join(FILE);
        if path.exists() {
            return Ok(());
        }
        write_whole(&path, serde_json::to_string(self).unwrap_or_default().as_bytes())
    }
}

/// A folder on this machine.
pub(crate) struct Session {
    pub tenant: TenantId,
    pub state_key: String,
    pub run: RunId,
    root: PathBuf,
}

impl Session {
    fn read(root: PathBuf) -> Option<Self> {
        let Owner { tenant, state_key, run } =
            serde_json::from_slice(&fs::read(root.join(FILE)).ok()?).ok()?;
        Some(Self { tenant: TenantId::parse(&tenant).ok()?, state_key, run: RunId::parse(&run).ok()?, root })
    }

    /// Kills what still runs there, and deletes it.
    pub(crate) async fn delete(self) {
        let deleting = tokio::task::spawn_blocking(move || {
            if let Ok(root) = self.root.canonicalize() {
                leftovers::sweep(&root);
            }
            fs::remove_dir_all(&self.root)
        });
        if !matches!(deleting.await, Ok(Ok(()))) {
            tracing::warn!("a folder of a session that has ended could not be deleted; it is tried again");
        }
    }
}

/// Every folder that says whose it is.
pub(crate) async fn all(folder: PathBuf) -> Vec<Session> {
    let reading = tokio::task::spawn_blocking(move || {
        let entries = fs::read_dir(folder).into_iter().flatten().flatten().take(MOST);
        entries.filter_map(|entry| Session::read(entry.path())).collect()
    });
    reading.await.unwrap_or_default()
}
