//! The node types of the graph `content-review`: a text is written, looked over by rules, shown to somebody, and published
//! only if that person says so. What they say to each other is typed in `payload.rs`; nothing else knows these types.

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::{NodeTypes, Outputs};
use crate::context::{Context, Stop};
use crate::outgoing::{Outgoing, Policy};

mod checking;
mod payload;
mod publish;
mod review;
mod writing;

pub use payload::{Action, CheckResult, Feedback, ReviewDecision, ReviewRequest};

/// A node that publishes, and the type of node that must have said so.
pub(crate) const PUBLISH: &str = "contentReview.publish";
pub(crate) const REVIEW: &str = "contentReview.review";

/// Revisions that a run may allow, where it says nothing and at most. With the most characters of a remark and the most
/// bytes of a text, everything that a reviewer is shown stays below the limit of an interrupt's data.
const REVISIONS_DEFAULT: u64 = 3;
const REVISIONS_MAX: u64 = 10;
const REMARK_CHARS_MAX: usize = 2000;
/// Of a text as JSON: as much as fits into an answer, so that everything that is shown can be edited.
const DRAFT_BYTES_MAX: usize = 60 * 1024;

pub(super) fn add_to(types: &mut NodeTypes) {
    types.pure("contentReview.draft", writing::Draft);
    types.pure("contentReview.check", checking::Check);
    types.pure(REVIEW, review::Review);
    types.pure("contentReview.revise", writing::Revise);
    types.effect(PUBLISH, publish::Publish::new(Outgoing::new(Policy::default())));
}

/// The node that publishes, under another guard.
pub(crate) fn publishing(outgoing: Outgoing) -> impl super::Node {
    publish::Publish::new(outgoing)
}

fn invalid(message: impl Into<String>) -> Stop {
    Stop::failed("invalid_input", message)
}

/// An input as what it should be; nothing where it is missing or null.
fn input<T: DeserializeOwned>(context: &Context, name: &str) -> Result<Option<T>, Stop> {
    match context.inputs.get(name) {
        None | Some(Value::Null) => Ok(None),
        Some(value) => serde_json::from_value(value.clone())
            .map(Some)
            .map_err(|error| invalid(format!("the input {name}: {error}"))),
    }
}

fn needed<T: DeserializeOwned>(context: &Context, name: &str) -> Result<T, Stop> {
    input(context, name)?.ok_or_else(|| invalid(format!("the input {name} is missing")))
}

/// A text that can be shown, edited and sent.
fn sound(draft: String) -> Result<String, Stop> {
    if draft.trim().is_empty() {
        return Err(invalid("the draft is empty"));
    }
    let bytes = json!(draft).to_string().len();
    if bytes > DRAFT_BYTES_MAX {
        return Err(invalid(format!("the draft has {bytes} bytes as JSON; {DRAFT_BYTES_MAX} are the most")));
    }
    Ok(draft)
}

fn outputs<const N: usize>(members: [(&str, &dyn ErasedValue); N]) -> Outputs {
    let present = members.into_iter().map(|(name, value)| (name.to_owned(), value.value()));
    present.filter(|(_, value)| !value.is_null()).collect()
}

/// Whatever can stand in outputs.
trait ErasedValue {
    fn value(&self) -> Value;
}

impl<T: Serialize> ErasedValue for T {
    fn value(&self) -> Value {
        json!(self)
    }
}
