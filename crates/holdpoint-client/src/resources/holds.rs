//! Holds and grants.

use std::time::{Duration, Instant};

use holdpoint_api::grants::{ConsumeGrant, Grant};
use holdpoint_api::holds::{CreateHold, Hold, ShowHold};
use holdpoint_api::ids::{HoldStatus, encode_segment};

use super::EARLY_PAUSE;
use crate::retry::RECONNECT;
use crate::{Client, Error, Request};

/// The time that one request of [`Holds::wait`] waits on the server, in seconds.
const WAIT_SECONDS: u64 = 30;
/// The time that a response may take beyond the wait itself.
const WAIT_MARGIN: Duration = Duration::from_secs(30);

/// Creates holds: interrupts without a workflow.
#[derive(Clone, Copy, Debug)]
pub struct Holds<'a>(pub(super) &'a Client);

impl Holds<'_> {
    /// Creates a hold.
    pub fn create(self, hold: &CreateHold) -> Request<Hold> {
        self.0.post("/v1/holds").body(hold)
    }

    /// Returns a hold. With `wait`, the server delays the response until the answer or the end of this time.
    pub fn get(self, hold: &str, query: &ShowHold) -> Request<Hold> {
        let timeout = Duration::from_secs(query.wait.unwrap_or_default()).saturating_add(WAIT_MARGIN);
        self.0.get(format!("/v1/holds/{}", encode_segment(hold))).query(query).timeout(timeout)
    }

    /// Cancels a hold.
    pub fn cancel(self, hold: &str) -> Request<Hold> {
        self.0.delete(format!("/v1/holds/{}", encode_segment(hold)))
    }

    /// Waits until a hold is answered, times out or is cancelled, and returns it. Add a limit with
    /// `tokio::time::timeout`.
    pub async fn wait(self, hold: &str) -> Result<Hold, Error> {
        let mut attempt = 0;
        loop {
            let asked = Instant::now();
            match self.get(hold, &ShowHold { wait: Some(WAIT_SECONDS) }).await {
                Ok(found) if found.status != HoldStatus::Waiting => return Ok(found),
                // A server that shuts down responds immediately.
                Ok(_) if asked.elapsed() < Duration::from_secs(1) => tokio::time::sleep(EARLY_PAUSE).await,
                Ok(_) => attempt = 0,
                Err(error) if error.is_transient() => RECONNECT.sleep_or_fail(&mut attempt, error).await?,
                Err(error) => return Err(error),
            }
        }
    }
}

/// Reads and uses grants: the right to perform one effect once.
#[derive(Clone, Copy, Debug)]
pub struct Grants<'a>(pub(super) &'a Client);

impl Grants<'_> {
    /// Returns a grant with its uses.
    pub fn get(self, grant: &str) -> Request<Grant> {
        self.0.get(format!("/v1/grants/{}", encode_segment(grant)))
    }

    /// Uses a grant for one effect. The server refuses the second use with 409.
    pub fn consume(self, grant: &str, effect: &ConsumeGrant) -> Request<Grant> {
        self.0
            .post(format!("/v1/grants/{}:consume", encode_segment(grant)))
            .body(effect)
            .random_idempotency_key()
    }
}
