//! Runs and their events.

use std::time::{Duration, Instant};

use holdpoint_api::EmptyBody;
use holdpoint_api::agents::{MessageAccepted, TellRun};
use holdpoint_api::artifacts::{Artifact, DebugBundle, ShowDebugBundle};
use holdpoint_api::decisions::{CallDecided, DecideCall, RunWaitingState};
use holdpoint_api::events::{EventList, EventPage, PollEvents, StreamEvents};
use holdpoint_api::ids::{Status, encode_segment};
use holdpoint_api::runs::{
    BulkCancel, BulkCancelled, CancelRun, CreateRun, ForkRun, ListRuns, PauseRun, RunCreated, RunForked,
    RunList, RunPaused, RunResumed, RunStatusNow,
};
use holdpoint_api::snapshot::RunSnapshot;
use serde::Deserialize;

use super::EARLY_PAUSE;
use crate::events::{EventStream, StreamEnd};
use crate::retry::RECONNECT;
use crate::{Client, Error, Request};

/// The time that one poll of [`Runs::wait`] waits on the server, in seconds.
const POLL_SECONDS: u64 = 30;
/// The time that a response may take beyond the poll itself.
const POLL_MARGIN: Duration = Duration::from_secs(30);

/// The status in a snapshot of a run. Other members of the response are ignored.
#[derive(Clone, Copy, Debug, Deserialize)]
pub struct RunStatusOnly {
    /// The status.
    pub status: Status,
}

/// Starts, reads and controls runs.
#[derive(Clone, Copy, Debug)]
pub struct Runs<'a>(pub(super) &'a Client);

impl Runs<'_> {
    /// Starts a run.
    pub fn create(self, run: &CreateRun) -> Request<RunCreated> {
        self.0.post("/v1/runs").body(run)
    }

    /// Starts a run, unless another run with the same scope is unfinished: then the server refuses with 409.
    pub fn create_in_scope(self, run: &CreateRun) -> Request<RunCreated> {
        self.0.post("/v1/runs").body(run).header("x-dedup", "enforce")
    }

    /// Lists runs, the newest first.
    pub fn list(self, filter: &ListRuns) -> Request<RunList> {
        self.0.get("/v1/runs").query(filter)
    }

    /// Returns the snapshot of a run.
    pub fn get(self, run: &str) -> Request<RunSnapshot<'static>> {
        self.0.get(format!("/v1/runs/{}", encode_segment(run)))
    }

    /// Returns only the status of a run, which is faster to parse than [`Self::get`].
    pub fn status(self, run: &str) -> Request<RunStatusOnly> {
        self.0.get(format!("/v1/runs/{}", encode_segment(run)))
    }

    /// Cancels a run.
    pub fn cancel(self, run: &str, cancel: &CancelRun) -> Request<RunStatusNow> {
        self.0.post(format!("/v1/runs/{}/cancel", encode_segment(run))).body(cancel)
    }

    /// Cancels several runs.
    pub fn cancel_all(self, cancel: &BulkCancel) -> Request<BulkCancelled> {
        self.0.post("/v1/runs:bulk-cancel").body(cancel)
    }

    /// Pauses a run.
    pub fn pause(self, run: &str, pause: &PauseRun) -> Request<RunPaused> {
        self.0.post(format!("/v1/runs/{}:pause", encode_segment(run))).body(pause)
    }

    /// Resumes a paused run.
    pub fn resume(self, run: &str) -> Request<RunResumed> {
        self.0.post(format!("/v1/runs/{}:resume", encode_segment(run))).body(&EmptyBody {})
    }

    /// Starts a run from the events of another run.
    pub fn fork(self, run: &str, fork: &ForkRun) -> Request<RunForked> {
        self.0.post(format!("/v1/runs/{}:fork", encode_segment(run))).body(fork)
    }

    /// Returns an artifact of a run.
    pub fn artifact(self, run: &str, artifact: &str) -> Request<Artifact<'static>> {
        self.0.get(format!("/v1/runs/{}/artifacts/{}", encode_segment(run), encode_segment(artifact)))
    }

    /// Returns the debug bundle of a run: its state and its events, with secrets masked.
    pub fn debug_bundle(self, run: &str, query: &ShowDebugBundle) -> Request<DebugBundle> {
        self.0.get(format!("/v1/runs/{}/debug-bundle", encode_segment(run))).query(query)
    }

    /// Lists the events of a run so far.
    pub fn list_events(self, run: &str, query: &StreamEvents) -> Request<EventList> {
        self.0.get(format!("/v1/runs/{}/events", encode_segment(run))).query(query)
    }

    /// Returns the events after a sequence number. The server waits for an event if there is none.
    pub fn poll(self, run: &str, query: &PollEvents) -> Request<EventPage> {
        let timeout = Duration::from_secs(query.timeout.unwrap_or(POLL_SECONDS)).saturating_add(POLL_MARGIN);
        self.0.get(format!("/v1/runs/{}/events/poll", encode_segment(run))).query(query).timeout(timeout)
    }

    /// Watches the events of a run from its start to its end. Reconnects after a lost connection.
    pub fn watch(self, run: &str, query: &StreamEvents) -> EventStream {
        let request = self.0.get(format!("/v1/runs/{}/events", encode_segment(run))).query(query);
        EventStream::new(request, StreamEnd::OfRun(Box::new(self.status(run))))
    }

    /// Waits until a run has ended or waits for an answer, and returns it. Has no time limit; add one with
    /// `tokio::time::timeout`.
    pub async fn wait(self, run: &str) -> Result<RunSnapshot<'static>, Error> {
        let (mut last_sequence, mut attempt) = (None, 0);
        loop {
            let asked = Instant::now();
            let query = PollEvents { last_sequence, timeout: Some(POLL_SECONDS), ..PollEvents::default() };
            let page = match self.poll(run, &query).await {
                Ok(page) => page,
                Err(error) if error.is_transient() => {
                    RECONNECT.sleep_or_fail(&mut attempt, error).await?;
                    continue;
                }
                Err(error) => return Err(error),
            };
            let snapshot = self.get(run).await?;
            if snapshot.status.is_terminal() || snapshot.status.is_waiting() {
                return Ok(snapshot);
            }
            match page.events.last() {
                Some(event) => last_sequence = i64::try_from(event.sequence).ok(),
                // A server that shuts down responds immediately.
                None if asked.elapsed() < Duration::from_secs(1) => tokio::time::sleep(EARLY_PAUSE).await,
                None => attempt = 0,
            }
        }
    }

    /// Returns the tool calls that wait for a decision.
    pub fn waiting(self, run: &str) -> Request<RunWaitingState> {
        self.0.get(format!("/v1/runs/{}/waiting", encode_segment(run)))
    }

    /// Decides a tool call of an agent.
    pub fn decide(self, run: &str, decision: &DecideCall) -> Request<CallDecided> {
        self.0.post(format!("/v1/runs/{}/decision", encode_segment(run))).body(decision)
    }

    /// Sends a message to the agent of a run.
    pub fn send_message(self, run: &str, input: &TellRun) -> Request<MessageAccepted> {
        self.0.post(format!("/v1/runs/{}/inputs", encode_segment(run))).body(input)
    }
}
