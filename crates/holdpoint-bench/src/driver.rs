//! The HTTP client of the benchmarks: one thread, many requests in flight, no retries.

use std::time::{Duration, Instant};

use holdpoint_cli::connection::Settings;
use holdpoint_client::api::ids::{Status, StrictValue};
use holdpoint_client::api::interrupts::ResolveInterrupt;
use holdpoint_client::api::runs::CreateRun;
use holdpoint_client::api::workflows::WorkflowDefinition;
use holdpoint_client::{Client, EventStream, RetryPolicy};
use serde_json::Value;

use super::Failure;
use super::definitions::{gate, noop, workflow};
use super::measure::Metrics;

const WORKFLOW: &str = "bench-cycle";
/// The time within which a run must reach the expected status.
const WAIT_MAX: Duration = Duration::from_secs(60);
const POLL_FIRST: Duration = Duration::from_millis(2);
const POLL_MAX: Duration = Duration::from_millis(50);

pub(super) struct Driver {
    pub(super) client: Client,
    answer: ResolveInterrupt,
}

impl Driver {
    pub(super) fn new(settings: Settings) -> Result<Self, Failure> {
        let client = settings.builder().retry(RetryPolicy::OFF).build()?;
        let accept = StrictValue(Value::from_iter([("action", "accept")]));
        let answer = ResolveInterrupt { resume_value: accept, ..ResolveInterrupt::default() };
        Ok(Self { client, answer })
    }

    /// Registers the workflow of the approval cycle.
    pub(super) async fn register_cycle_workflow(&self) -> Result<(), Failure> {
        let nodes = vec![noop("before"), gate("Benchmark", []), noop("after")];
        self.register(&workflow(WORKFLOW, "Benchmark of the approval cycle", nodes)).await
    }

    pub(super) async fn register(&self, workflow: &WorkflowDefinition) -> Result<(), Failure> {
        self.client.workflows().put(&workflow.id, workflow).await?;
        Ok(())
    }

    /// Creates a run and returns when it waits for approval.
    pub(super) async fn park(&self) -> Result<String, Failure> {
        let run = self.create().await?;
        self.wait_for_status(&run, Status::WaitingApproval).await?;
        Ok(run)
    }

    pub(super) async fn create(&self) -> Result<String, Failure> {
        self.start(WORKFLOW).await
    }

    pub(super) async fn start(&self, workflow: &str) -> Result<String, Failure> {
        let run = CreateRun { workflow_id: workflow.to_owned(), ..CreateRun::default() };
        Ok(self.client.runs().create(&run).await?.run_id.to_string())
    }

    pub(super) async fn accept(&self, run: &str) -> Result<(), Failure> {
        self.client.interrupts().resolve(run, "gate", &self.answer).await?;
        Ok(())
    }

    /// Waits until a run has this status.
    pub(super) async fn wait_for_status(&self, run: &str, status: Status) -> Result<(), Failure> {
        let request = self.client.runs().status(run);
        let (begun, mut delay) = (Instant::now(), POLL_FIRST);
        loop {
            let found = request.clone().await?.status;
            if found == status {
                return Ok(());
            }
            if found.is_terminal() || begun.elapsed() > WAIT_MAX {
                let (found, status) = (found.as_str(), status.as_str());
                return Err(Failure::refused(format!("run {run} is {found} and not {status}")));
            }
            // The delay doubles, so that polls add little load.
            tokio::time::sleep(delay).await;
            delay = (delay * 2).min(POLL_MAX);
        }
    }

    /// Returns the metrics of the server. The result is empty if the server does not publish them.
    pub(super) async fn metrics(&self) -> Metrics {
        let text = self.client.get::<()>("/metrics").text().await;
        text.map(|text| Metrics::parse(&text)).unwrap_or_default()
    }

    pub(super) async fn memory(&self) -> Option<f64> {
        self.metrics().await.get("process_resident_memory_bytes")
    }
}

/// Reads a stream until an event of this type arrives.
pub(super) async fn wait_for_event(events: &mut EventStream, kind: &str) -> Result<(), Failure> {
    let reading = async {
        while let Some(frame) = events.next().await? {
            if frame.event == kind {
                return Ok(());
            }
        }
        Err(Failure::refused(format!("the run ended without {kind}")))
    };
    let late = |_| Failure::broken(format!("{kind} did not arrive within {} s", WAIT_MAX.as_secs()));
    tokio::time::timeout(WAIT_MAX, reading).await.map_err(late)?
}
