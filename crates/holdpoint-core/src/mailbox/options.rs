//! The options of an activation that a caller chooses.

use serde::{Deserialize, Serialize};

use super::{MAX_ATTEMPTS_DEFAULT, PRIORITY_DEFAULT, RunDispatch};
use crate::refusal::Refusal;
use crate::{Timestamp, limits};

/// The prefix of the deduplication keys that the engine creates. Callers cannot use it.
pub const RESERVED_KEY_PREFIX: &str = "requeue:";

/// The options of the dispatch that a start or an input creates. Later activations of the run have the priority and the
/// number of attempts of its start, and after messages at most the normal priority.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DispatchOptions {
    /// The priority; 0 is claimed first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority: Option<u8>,
    /// The time from which the dispatch can be claimed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub available_at: Option<Timestamp>,
    /// The deduplication key. The thread rejects another dispatch with this key while this one is queued or claimed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dedupe_key: Option<String>,
    /// The number of attempts after which the dispatch becomes a dead letter.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_attempts: Option<u32>,
}

impl DispatchOptions {
    /// Returns true if no option is set.
    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }

    /// Checks the limits of the options.
    pub fn check(&self, now: Timestamp) -> Result<(), Refusal> {
        let refuse =
            |field: &str, message: String| Err(Refusal::invalid(format!("dispatch.{field}"), message));
        if self.max_attempts.is_some_and(|count| !(1..=limits::DISPATCH_ATTEMPTS_MAX).contains(&count)) {
            return refuse("maxAttempts", format!("must be 1 to {}", limits::DISPATCH_ATTEMPTS_MAX));
        }
        if self.available_at.is_some_and(|at| at > now.plus_ms(limits::DISPATCH_DELAY_MS_MAX)) {
            let days = limits::DISPATCH_DELAY_MS_MAX / (24 * 60 * 60 * 1000);
            return refuse("availableAt", format!("must not be more than {days} days in the future"));
        }
        let Some(key) = &self.dedupe_key else { return Ok(()) };
        let max = limits::DISPATCH_KEY_CHARS_MAX;
        if key.trim().is_empty() || key.chars().count() > max || key.contains(char::is_control) {
            return refuse(
                "dedupeKey",
                format!("must be 1 to {max} characters, not blank and without control characters"),
            );
        }
        if key.starts_with(RESERVED_KEY_PREFIX) {
            return refuse(
                "dedupeKey",
                format!("must not begin with {RESERVED_KEY_PREFIX}; the server uses this prefix"),
            );
        }
        Ok(())
    }

    /// Checks the options of a change of a run that has started. Only a start can be delayed: a run that waits for the
    /// delay of an input would not react to answers and further inputs.
    pub fn check_started(&self, now: Timestamp) -> Result<(), Refusal> {
        if self.is_delayed(now) {
            let message = "delayMs and availableAt delay only the start of a run, and this run has started; send the request without them";
            return Err(Refusal::invalid("dispatch", message));
        }
        self.check(now)
    }

    /// Returns true if the dispatch cannot be claimed yet.
    pub fn is_delayed(&self, now: Timestamp) -> bool {
        self.available_at.is_some_and(|at| at > now)
    }

    /// Returns true if the priority is above the normal one.
    pub fn is_urgent(&self) -> bool {
        self.priority.is_some_and(|priority| priority < PRIORITY_DEFAULT)
    }

    /// Returns the options that later activations and child runs of a run with these options have.
    pub fn inherited(&self) -> Self {
        Self { priority: self.priority, max_attempts: self.max_attempts, ..Self::default() }
    }

    /// Returns these options with at most the normal priority.
    #[must_use]
    pub fn not_urgent(self) -> Self {
        Self { priority: self.priority.map(|priority| priority.max(PRIORITY_DEFAULT)), ..self }
    }

    /// Returns these options, and for priority and attempts that are not set those of the start of the run.
    #[must_use]
    pub fn or(self, start: &Self) -> Self {
        Self {
            priority: self.priority.or(start.priority),
            max_attempts: self.max_attempts.or(start.max_attempts),
            ..self
        }
    }

    /// Returns a new dispatch with these options.
    pub fn apply(&self, row: RunDispatch) -> RunDispatch {
        RunDispatch {
            priority: self.priority.unwrap_or(PRIORITY_DEFAULT),
            available_at: self.available_at.map_or(row.available_at, |at| at.max(row.available_at)),
            dedupe_key: self.dedupe_key.clone(),
            max_attempts: self.max_attempts.unwrap_or(MAX_ATTEMPTS_DEFAULT),
            ..row
        }
    }
}
