//! The progress that MCP servers report while they execute calls.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use holdpoint_engine::extension::excerpt;
use rmcp::model::{ProgressNotificationParam, ProgressToken};
use serde_json::{Map, json};

use crate::tool::CallReporter;

/// The name of the activity of a call, and its type.
const NAME: &str = "progress";
const KIND: &str = "PROGRESS";
const MESSAGE_BYTES_MAX: usize = 4096;

/// The calls of a session whose progress has readers, by the token of their request.
#[derive(Debug, Default)]
pub(super) struct ProgressListeners(Mutex<HashMap<ProgressToken, CallReporter>>);

/// Removes a listener when it is dropped.
pub(super) struct ProgressListener<'a> {
    listeners: &'a ProgressListeners,
    token: ProgressToken,
}

impl ProgressListeners {
    /// Adds a call. Its progress has a reader until the result is dropped.
    pub(super) fn add(&self, token: ProgressToken, reporter: &CallReporter) -> Option<ProgressListener<'_>> {
        if !reporter.is_active() {
            return None;
        }
        self.calls().insert(token.clone(), reporter.clone());
        Some(ProgressListener { listeners: self, token })
    }

    /// Reports a notification as an activity of its call. Progress of an unknown call is dropped.
    pub(super) fn report(&self, progress: &ProgressNotificationParam) {
        let calls = self.calls();
        let Some(reporter) = calls.get(&progress.progress_token) else { return };
        let mut content = Map::from_iter([("progress".to_owned(), json!(progress.progress))]);
        content.extend(progress.total.map(|total| ("total".to_owned(), json!(total))));
        let message = progress.message.as_deref().map(|text| excerpt(text, MESSAGE_BYTES_MAX));
        content.extend(message.map(|text| ("message".to_owned(), json!(text))));
        reporter.report(NAME, KIND, content);
    }

    fn calls(&self) -> MutexGuard<'_, HashMap<ProgressToken, CallReporter>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for ProgressListener<'_> {
    fn drop(&mut self) {
        self.listeners.calls().remove(&self.token);
    }
}
