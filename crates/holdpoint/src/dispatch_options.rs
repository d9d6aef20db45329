//! The dispatch options of requests, for every protocol.

use holdpoint_api::mailbox::DispatchOptions as Requested;
use holdpoint_core::mailbox::DispatchOptions;
use holdpoint_core::{Timestamp, limits};

use crate::auth::Caller;
use crate::error::ApiError;

/// The scope for priorities above the normal one. Such a dispatch is served before those of all other tenants.
pub(crate) const PRIORITIZE: &str = "runs:prioritize";

/// The thread of a request: it decides whether a deduplication key has an effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DispatchTarget {
    /// A thread that other requests can name.
    Thread,
    /// A new thread of the run alone.
    NewRun,
}

/// Returns the options of a request, if the caller may use them.
pub(crate) fn check_options(
    caller: &Caller,
    requested: Option<Requested>,
    target: DispatchTarget,
    now: Timestamp,
) -> Result<DispatchOptions, ApiError> {
    let Some(requested) = requested else { return Ok(DispatchOptions::default()) };
    let invalid = |field: &str, message: &str| Err(ApiError::invalid(&format!("dispatch.{field}"), message));
    if requested.dedupe_key.is_some() && target == DispatchTarget::NewRun {
        let message = "has no effect, because this run is alone in its thread; use scopeId with X-Dedup: enforce, or an Idempotency-Key";
        return invalid("dedupeKey", message);
    }
    let Ok(priority) = requested.priority.map(u8::try_from).transpose() else {
        return invalid("priority", "must be 0 to 255");
    };
    let available_at = match (requested.delay_ms, requested.available_at) {
        (Some(_), Some(_)) => {
            return invalid("availableAt", "cannot be combined with delayMs; give one of them");
        }
        (Some(ms), None) if ms > limits::DISPATCH_DELAY_MS_MAX => {
            return invalid("delayMs", "must not be more than a year");
        }
        (Some(ms), None) => Some(now.plus_ms(ms)),
        (None, at) => at.map(|at| at.0),
    };
    let options = DispatchOptions {
        priority,
        available_at: available_at.filter(|at| *at > now),
        dedupe_key: requested.dedupe_key,
        // A number that is too large is refused by the check of the limit.
        max_attempts: requested.max_attempts.map(|count| u32::try_from(count).unwrap_or(u32::MAX)),
    };
    options.check(now)?;
    if options.is_urgent() {
        caller.clone().require_scope(PRIORITIZE)?;
    }
    Ok(options)
}
