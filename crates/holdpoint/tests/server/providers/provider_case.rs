//! The parts of the contract tests that differ between providers.

use std::path::{Path, PathBuf};

use serde_json::Value;

/// A provider with a graph that drafts a text, asks for a review, revises the text on request, and sends it once it is
/// approved.
pub(crate) trait ProviderCase {
    fn graph(&self) -> &'static str;
    fn input(&self) -> Value;
    /// The kind of its interrupts.
    fn kind(&self) -> &'static str;
    fn revise(&self) -> Value;
    fn approve(&self) -> Value;
    /// An answer that the provider rejects, if it validates answers.
    fn invalid_answer(&self) -> Option<Value>;
    /// The content of the operator's providers file.
    fn settings(&self) -> Value;
    /// The number of texts that were sent.
    fn sent(&self) -> usize;
    /// The input of a further turn. It leads to an interrupt of the same kind.
    fn next_input(&self) -> Value {
        self.input()
    }
    /// Checks that the output of the second turn depends on the first one.
    fn assert_continued(&self, _second_output: &Value) {}
    /// The program of the server, if it is not the published one.
    fn program(&self) -> Option<PathBuf> {
        None
    }
    /// The environment of the server.
    fn environment(&self) -> Vec<(&'static str, String)> {
        Vec::new()
    }
    /// Writes the files that the settings refer to.
    fn prepare(&self, _folder: &Path) {}
    /// Returns the provider's internal ids and secrets, which must not be visible anywhere. `data` is the data folder
    /// of the server.
    fn internal_names(&self, data: &Path) -> Vec<String>;
    /// Stores the current internal names: the provider may delete them later.
    fn remember_internal_names(&self, data: &Path) {
        let _ = self.internal_names(data);
    }
}

/// A file with one line for each text that was sent.
pub(crate) struct SentFile(
    PathBuf,
    #[expect(dead_code, reason = "deletes the folder on drop")] tempfile::TempDir,
);

impl SentFile {
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
