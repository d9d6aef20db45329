//! The attempts of one tool call.

use std::future::Future;
use std::pin::Pin;

use super::DueCall;
use crate::tool::{Call, CallOutcome, ToolError};

/// The maximum number of attempts of an idempotent call. Only a call with an unknown outcome is attempted again.
const TRIES_MAX: u32 = 3;

/// A call and its result.
type DueFuture<'a> = Pin<Box<dyn Future<Output = (&'a DueCall, Result<CallOutcome, ToolError>)> + Send + 'a>>;

/// Makes a call. Repeats an idempotent call with an unknown outcome.
pub(super) fn execute_call<'a>(one: &'a DueCall, call: &'a Call) -> DueFuture<'a> {
    Box::pin(async move {
        let Some(owner) = &one.owner else {
            return (one, Err(ToolError::NotCalled(format!("there is no tool {}", call.name))));
        };
        let mut tried = 1;
        loop {
            match owner.call(call).await {
                Err(ToolError::Unknown(_)) if one.idempotent && tried < TRIES_MAX => tried += 1,
                // The server may have received an earlier attempt.
                Err(ToolError::Unreachable(why)) if tried > 1 => return (one, Err(ToolError::Unknown(why))),
                result => return (one, result),
            }
        }
    })
}
