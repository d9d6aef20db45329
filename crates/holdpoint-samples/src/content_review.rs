//! The node types of the graph `content-review`, which writes a text, checks it with rules, shows it to a reviewer, and
//! publishes it only after an approval. Only this graph uses the types in `payload.rs`.

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use holdpoint_engine::extension::NodeTypes;
use holdpoint_engine::{Context, Outputs, Stop};

mod check;
mod draft;
mod payload;
mod publish;
mod review;

pub use payload::{CheckResult, Feedback, ReviewAction, ReviewDecision, ReviewRequest};

/// The type of the node that publishes.
pub(crate) const PUBLISH: &str = "contentReview.publish";
/// The type of the node that must have approved the publication.
pub(crate) const REVIEW: &str = "contentReview.review";

/// The default and the maximum of the number of revisions in a run. With this maximum and the limits for remarks and
/// drafts, the data of a review stays below the limit for the data of an interrupt.
const REVISIONS_DEFAULT: u64 = 3;
const REVISIONS_MAX: u64 = 10;
const REMARK_CHARS_MAX: usize = 2000;
/// The limit of a draft in bytes of JSON. A draft fits into an answer, so a reviewer can edit the whole draft.
const DRAFT_BYTES_MAX: usize = 60 * 1024;

pub(super) fn add_to(types: &mut NodeTypes) {
    types.pure("contentReview.draft", draft::DraftNode);
    types.pure("contentReview.check", check::CheckNode);
    types.pure(REVIEW, review::ReviewNode);
    types.pure("contentReview.revise", draft::ReviseNode);
    types.effect(PUBLISH, publish::PublishNode);
}

fn invalid(message: impl Into<String>) -> Stop {
    Stop::failed("invalid_input", message)
}

/// Parses an input. None if it is missing or null.
fn input<T: DeserializeOwned>(context: &Context, name: &str) -> Result<Option<T>, Stop> {
    match context.inputs.get(name) {
        None | Some(Value::Null) => Ok(None),
        Some(value) => serde_json::from_value(value.clone())
            .map(Some)
            .map_err(|error| invalid(format!("the input {name}: {error}"))),
    }
}

fn required_input<T: DeserializeOwned>(context: &Context, name: &str) -> Result<T, Stop> {
    input(context, name)?.ok_or_else(|| invalid(format!("the input {name} is missing")))
}

/// Checks that a draft is not empty and not too large to be shown, edited and published.
fn check_draft(draft: String) -> Result<String, Stop> {
    if draft.trim().is_empty() {
        return Err(invalid("the draft is empty"));
    }
    let bytes = json!(draft).to_string().len();
    if bytes > DRAFT_BYTES_MAX {
        return Err(invalid(format!("the draft has {bytes} bytes as JSON; the limit is {DRAFT_BYTES_MAX}")));
    }
    Ok(draft)
}

fn outputs<const N: usize>(members: [(&str, &dyn ErasedValue); N]) -> Outputs {
    let present = members.into_iter().map(|(name, value)| (name.to_owned(), value.value()));
    present.filter(|(_, value)| !value.is_null()).collect()
}

/// A value that can be an output.
trait ErasedValue {
    fn value(&self) -> Value;
}

impl<T: Serialize> ErasedValue for T {
    fn value(&self) -> Value {
        json!(self)
    }
}
