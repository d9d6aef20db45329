//! The progress of calls. A tool reports it while the call is at work; front ends show it as an activity.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use holdpoint_core::agent::ActivityReport;
use holdpoint_core::limits;
use serde_json::{Map, Value};
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};

/// The number of activities that wait for their commit. Reports of further ones are dropped.
const PENDING_MAX: usize = 64;

/// Reports the progress of one call. Reports are for readers: the server may drop or merge them.
#[derive(Clone, Debug, Default)]
pub struct CallReporter {
    call: String,
    queue: Option<Arc<ReportQueue>>,
}

/// The reports that are not committed. A later report of an activity replaces an earlier one.
#[derive(Debug, Default)]
pub(crate) struct ReportQueue {
    pending: Mutex<BTreeMap<String, ActivityReport>>,
    added: Notify,
}

impl CallReporter {
    pub(crate) fn new(call: &str, queue: Arc<ReportQueue>) -> Self {
        Self { call: call.to_owned(), queue: Some(queue) }
    }

    /// Returns true if reports have a reader.
    pub fn is_active(&self) -> bool {
        self.queue.is_some()
    }

    /// Reports an activity of the call. `name` is unique in the call; a later report with the same name replaces the
    /// content. `kind` is the type by which front ends choose a view. A report above the limits is dropped.
    pub fn report(&self, name: &str, kind: &str, content: Map<String, Value>) {
        let Some(queue) = &self.queue else { return };
        let id = format!("{}:{name}", self.call);
        let fits = |text: &str| (1..=limits::ACTIVITY_CHARS_MAX).contains(&text.chars().count());
        let bytes = serde_json::to_string(&content).map_or(usize::MAX, |text| text.len());
        let mut pending = queue.pending();
        let has_place = pending.contains_key(&id) || pending.len() < PENDING_MAX;
        if !(fits(&id) && fits(kind) && bytes <= limits::ACTIVITY_BYTES_MAX && has_place) {
            return;
        }
        let (kind, call) = (kind.to_owned(), Some(self.call.clone()));
        pending.insert(id.clone(), ActivityReport { id, kind, content, call });
        queue.added.notify_one();
    }
}

impl ReportQueue {
    /// Waits for reports, at least until an instant, and takes them.
    pub(crate) async fn take(&self, not_before: Instant) -> Vec<ActivityReport> {
        loop {
            let added = self.added.notified();
            if !self.pending().is_empty() {
                break;
            }
            added.await;
        }
        sleep_until(not_before).await;
        std::mem::take(&mut *self.pending()).into_values().collect()
    }

    fn pending(&self) -> MutexGuard<'_, BTreeMap<String, ActivityReport>> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn content(value: Value) -> Map<String, Value> {
        value.as_object().cloned().unwrap()
    }

    #[tokio::test]
    async fn the_last_report_of_an_activity_is_taken() {
        let queue = Arc::new(ReportQueue::default());
        let reporter = CallReporter::new("c1", queue.clone());
        for done in 1..=3 {
            reporter.report("copy", "PROGRESS", content(json!({"done": done})));
        }
        reporter.report("scan", "PROGRESS", Map::new());
        let taken = queue.take(Instant::now()).await;
        let shown: Vec<_> = taken.iter().map(|one| (one.id.as_str(), one.content.get("done"))).collect();
        assert_eq!(shown, [("c1:copy", Some(&json!(3))), ("c1:scan", None)]);
        assert_eq!(taken[0].call.as_deref(), Some("c1"));
    }

    #[tokio::test]
    async fn reports_above_the_limits_are_dropped() {
        let queue = Arc::new(ReportQueue::default());
        let reporter = CallReporter::new("c1", queue.clone());
        reporter.report("a", "", Map::new());
        reporter.report("a", "A", content(json!({"text": "x".repeat(limits::ACTIVITY_BYTES_MAX)})));
        for at in 0..2 * PENDING_MAX {
            reporter.report(&at.to_string(), "A", Map::new());
        }
        assert_eq!(queue.take(Instant::now()).await.len(), PENDING_MAX);
        let inactive = CallReporter::default();
        inactive.report("a", "A", Map::new());
        assert!(!inactive.is_active());
    }
}
