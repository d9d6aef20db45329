//! `contentReview.publish`: the only node of the graph that reaches anybody outside. Before it does, it looks up for itself
//! what the reviewer was shown and said, and publishes that text or none.

use holdpoint_core::workflow::{self, Flaw};
use holdpoint_core::{NodeId, NodeStatus, Resolution, Run, RunError};
use serde_json::{Value, json};

use super::payload::{Action, KIND, ReviewDecision, ReviewRequest, shown_place};
use super::{PUBLISH, input, invalid, needed, outputs};
use crate::approved::{self, APPROVED_BY};
use crate::context::{EffectContext, Stop};
use crate::nodes::{Node, Outputs, config_flaw, config_text, http, unknown_config};
use crate::outgoing::{Method, Outgoing, Request, activity_key};

const TIMEOUT_MS: u64 = 30_000;
/// Of an answer that nobody keeps.
const ANSWER_BYTES_MAX: usize = 256 * 1024;

pub(super) struct Publish(Outgoing);

impl Publish {
    pub(super) fn new(outgoing: Outgoing) -> Self {
        Self(outgoing)
    }
}

impl Node for Publish {
    fn check(&self, node: &workflow::Node) -> Vec<Flaw> {
        let mut flaws = unknown_config(node, &[APPROVED_BY]);
        match config_text(node, APPROVED_BY) {
            Ok(Some(_)) => {}
            Ok(None) => {
                flaws.push(config_flaw(node, APPROVED_BY, "is missing: nothing is published unreviewed"));
            }
            Err(flaw) => flaws.push(flaw),
        }
        flaws
    }

    fn approved_by<'a>(&self, node: &'a workflow::Node) -> Option<&'a str> {
        node.config.get(APPROVED_BY).and_then(Value::as_str)
    }

    async fn run(&self, context: &mut EffectContext) -> Result<Outputs, Stop> {
        let (draft, revision): (String, u64) = (needed(context, "draft")?, needed(context, "revision")?);
        let url: Option<String> = input(context, "publishUrl")?;
        let place = url.as_deref().map(shown_place).transpose()?;
        let approval = Approval::at(context.run(), Node::approved_by(self, context.node()))?;
        approval.check(&draft, revision, place.as_deref())?;
        if let Some(url) = url {
            let request = request(context, url, &json!({ "draft": draft, "revision": revision }))?;
            let outgoing = self.0.clone();
            context.step("publish", || async move { sent(&outgoing, request).await }).await?;
        }
        Ok(outputs([
            ("published", &true),
            ("decision", &Action::Approve),
            ("draft", &draft),
            ("revision", &revision),
            ("reason", &approval.said.feedback),
        ]))
    }
}

/// What was shown and said at a review, in the visit that led here.
struct Approval {
    shown: ReviewRequest,
    said: ReviewDecision,
}

impl Approval {
    fn at(run: &Run, review: Option<&str>) -> Result<Self, Stop> {
        let review = review.and_then(|review| NodeId::parse(review).ok());
        let review = review.ok_or_else(|| mismatch("no review is named"))?;
        let completed = run.node_state(&review).is_some_and(|state| state.status == NodeStatus::Completed);
        let asked =
            run.interrupt_of_node(&review).filter(|asked| completed && asked.data["customKind"] == KIND);
        let asked = asked.ok_or_else(|| mismatch("the review has not approved anything"))?;
        approved::check_as_shown(asked)?;
        let Some(Resolution::Answered { value, .. }) = &asked.resolution else {
            return Err(mismatch("nobody has answered the review"));
        };
        let unreadable = |error: serde_json::Error| mismatch(&error.to_string());
        Ok(Self {
            shown: serde_json::from_value(asked.data["data"].clone()).map_err(unreadable)?,
            said: serde_json::from_value(value.clone()).map_err(unreadable)?,
        })
    }

    fn check(&self, draft: &str, revision: u64, place: Option<&str>) -> Result<(), Stop> {
        if self.said.action != Action::Approve {
            return Err(mismatch("the review did not approve it"));
        }
        if self.said.draft.as_ref().unwrap_or(&self.shown.draft) != draft || self.shown.revision != revision {
            return Err(mismatch("another text was approved than the one to be published"));
        }
        if self.shown.publish_to.as_deref() != place {
            return Err(mismatch("it was approved for another place"));
        }
        Ok(())
    }
}

fn mismatch(why: &str) -> Stop {
    Stop::failed("approval_mismatch", format!("nothing was published: {why}"))
}

fn request(context: &EffectContext, url: String, body: &Value) -> Result<Request, Stop> {
    let started = context.started().ok_or_else(|| invalid("the run was never started"))?;
    let (tenant, run, node) = (&started.owner.tenant, context.run_id(), &context.node().id);
    let key = activity_key(tenant, run, node, context.visit(), PUBLISH);
    let mut headers =
        vec![("content-type".to_owned(), "application/json".to_owned()), ("idempotency-key".to_owned(), key)];
    headers.extend(context.trace_headers());
    let body = body.to_string().into_bytes();
    let (timeout_ms, body_bytes_max) = (TIMEOUT_MS, ANSWER_BYTES_MAX);
    Ok(Request { method: Method::Post, url, headers, body, timeout_ms, body_bytes_max })
}

async fn sent(outgoing: &Outgoing, request: Request) -> Result<Value, Stop> {
    let origin = outgoing.check_url(&request.url).map_err(http::refused)?.origin().ascii_serialization();
    let response = outgoing.send(request).await.map_err(http::failed)?;
    if (200..300).contains(&response.status) {
        return Ok(json!({ "status": response.status }));
    }
    let message = format!("{origin} answered the publication with the status {}", response.status);
    let retryable = matches!(response.status, 408 | 429 | 500..=599);
    Err(Stop::Failed(RunError { retryable, ..RunError::new("http_status", message) }))
}
