//! The reports of running calls.

use std::sync::Arc;

use holdpoint_core::agent::AgentAction;
use tokio::time::{Duration, Instant};

use crate::tool::{CallReporter, ReportQueue};

/// The shortest time between two commits of reports.
const INTERVAL: Duration = Duration::from_millis(200);

/// The reports of calls that are made together.
#[derive(Debug)]
pub(super) struct CallReports {
    queue: Option<Arc<ReportQueue>>,
    /// The earliest time of the next commit.
    next: Instant,
}

impl CallReports {
    pub(super) fn new() -> Self {
        Self { queue: Some(Arc::default()), next: Instant::now() }
    }

    /// Returns reports that are dropped.
    pub(super) fn none() -> Self {
        Self { queue: None, next: Instant::now() }
    }

    pub(super) fn reporter(&self, call: &str) -> CallReporter {
        self.queue.as_ref().map_or_else(CallReporter::default, |queue| CallReporter::new(call, queue.clone()))
    }

    /// Waits for reports, and returns them as actions. Never returns if nothing is reported.
    pub(super) async fn take(&mut self) -> Vec<AgentAction> {
        let Some(queue) = &self.queue else { return std::future::pending().await };
        let reports = queue.take(self.next).await;
        self.next = Instant::now() + INTERVAL;
        reports.into_iter().map(|report| AgentAction::Report(Box::new(report))).collect()
    }
}
