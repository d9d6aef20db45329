//! The session folders on this machine and their owners. If another machine ends a handle, the folder on this machine
//! must be deleted.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use holdpoint_core::{RunId, TenantId};
use serde::{Deserialize, Serialize};

use super::super::LockedHandle;
use super::orphaned_processes;
use super::session_folder::write_atomically;

const FILE: &str = "owner.json";
/// The maximum number of folders that one call lists.
const FOLDERS_MAX: usize = 10_000;

/// The owner of a folder, as stored in the folder.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct FolderOwner {
    tenant: String,
    state_key: String,
    run: String,
}

impl FolderOwner {
    pub(super) fn of(handle: &LockedHandle) -> Self {
        let (tenant, state_key) = (handle.tenant().to_owned(), handle.state_key().to_owned());
        Self { tenant, state_key, run: handle.run().to_owned() }
    }

    pub(super) fn write(&self, root: &Path) -> io::Result<()> {
        let path = root.join(FILE);
        if path.exists() {
            return Ok(());
        }
        write_atomically(&path, serde_json::to_string(self).unwrap_or_default().as_bytes())
    }
}

/// A session folder on this machine.
pub(crate) struct LocalSession {
    pub tenant: TenantId,
    pub state_key: String,
    pub run: RunId,
    root: PathBuf,
}

impl LocalSession {
    fn read(root: PathBuf) -> Option<Self> {
        let FolderOwner { tenant, state_key, run } =
            serde_json::from_slice(&fs::read(root.join(FILE)).ok()?).ok()?;
        Some(Self { tenant: TenantId::parse(&tenant).ok()?, state_key, run: RunId::parse(&run).ok()?, root })
    }

    /// Kills the processes of the folder and deletes it.
    pub(crate) async fn delete(self) {
        let deleting = tokio::task::spawn_blocking(move || {
            if let Ok(root) = self.root.canonicalize() {
                orphaned_processes::sweep(&root);
            }
            fs::remove_dir_all(&self.root)
        });
        if !matches!(deleting.await, Ok(Ok(()))) {
            tracing::warn!("cannot delete the folder of an ended session; retrying later");
        }
    }
}

/// Returns every folder with a readable owner file.
pub(crate) async fn list(folder: PathBuf) -> Vec<LocalSession> {
    let reading = tokio::task::spawn_blocking(move || {
        let entries = fs::read_dir(folder).into_iter().flatten().flatten().take(FOLDERS_MAX);
        entries.filter_map(|entry| LocalSession::read(entry.path())).collect()
    });
    reading.await.unwrap_or_default()
}
