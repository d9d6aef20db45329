//! What differs between providers, for whoever tells the same story of each.

use std::path::{Path, PathBuf};

use serde_json::Value;

/// A provider with a graph that writes something, has it read, rewrites it as often as it is asked to, and sends it out
/// once it is approved.
pub(crate) trait Side {
    fn graph(&self) -> &'static str;
    fn input(&self) -> Value;
    /// What it asks.
    fn kind(&self) -> &'static str;
    fn revise(&self) -> Value;
    fn approve(&self) -> Value;
    /// An answer that does not fit, if it has any idea of what fits.
    fn unfit(&self) -> Option<Value>;
    /// What the operator's file says.
    fn settings(&self) -> Value;
    /// How often something was sent out.
    fn sent(&self) -> usize;
    /// Puts files beside the settings that they name.
    fn prepare(&self, _folder: &Path) {}
    /// What the provider calls its own: nobody may ever see it. The server's data are in `data`.
    fn names(&self, data: &Path) -> Vec<String>;
    /// Remembers the names of now: the provider may forget them.
    fn note_names(&self, data: &Path) {
        let _ = self.names(data);
    }
}

/// Something that is sent out, as lines of a file.
pub(crate) struct Post(PathBuf, #[expect(dead_code, reason = "deletes it at last")] tempfile::TempDir);

impl Post {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        Self(folder.path().join("sent"), folder)
    }

    pub(crate) fn path(&self) -> &str {
        self.0.to_str().unwrap()
    }

    pub(crate) fn count(&self) -> usize {
        std::fs::read_to_string(&self.0).map_or(0, |text| text.lines().count())
    }
}
