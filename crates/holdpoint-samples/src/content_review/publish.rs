//! `contentReview.publish`: the only node of the graph with an effect. It reads the shown draft and the answer from the
//! review interrupt, and publishes only the text that was approved there.

use holdpoint_core::workflow::{self, DefinitionFlaw};
use holdpoint_core::{NodeId, NodeStatus, Resolution, Run, RunError};
use holdpoint_engine::extension::{
    APPROVED_BY, call_failed, call_refused, check_as_shown, config_flaw, config_text, unknown_config,
};
use holdpoint_engine::outgoing::{Method, Outgoing, OutgoingRequest, activity_key};
use holdpoint_engine::{EffectContext, Node, Outputs, Stop};
use serde_json::{Value, json};

use super::payload::{KIND, ReviewAction, ReviewDecision, ReviewRequest, displayed_url};
use super::{PUBLISH, REVIEW, input, invalid, outputs, required_input};

const TIMEOUT_MS: u64 = 30_000;
/// The limit of the response in bytes. The response is not recorded.
const RESPONSE_BYTES_MAX: usize = 256 * 1024;

pub(super) struct PublishNode;

impl Node for PublishNode {
    fn check(&self, node: &workflow::Node) -> Vec<DefinitionFlaw> {
        let mut flaws = unknown_config(node, &[APPROVED_BY]);
        match config_text(node, APPROVED_BY) {
            Ok(Some(_)) => {}
            Ok(None) => {
                flaws.push(config_flaw(node, APPROVED_BY, "is missing: a publication requires a review"));
            }
            Err(flaw) => flaws.push(flaw),
        }
        flaws
    }

    fn approved_by<'a>(&self, node: &'a workflow::Node) -> Option<&'a str> {
        node.config.get(APPROVED_BY).and_then(Value::as_str)
    }

    /// A review is not an approval. Only this node can read the answers of a review.
    fn accepts_gate(&self, gate: &workflow::Node) -> bool {
        gate.type_id == REVIEW
    }

    async fn run(&self, context: &mut EffectContext) -> Result<Outputs, Stop> {
        let (draft, revision): (String, u64) =
            (required_input(context, "draft")?, required_input(context, "revision")?);
        let url: Option<String> = input(context, "publishUrl")?;
        let place = url.as_deref().map(displayed_url).transpose()?;
        let approval = ReviewApproval::at(context.run(), Node::approved_by(self, context.node()))?;
        approval.check(&draft, revision, place.as_deref())?;
        if let Some(url) = url {
            let request = request(context, url, &json!({ "draft": draft, "revision": revision }))?;
            let outgoing = context.engine().outgoing().clone();
            context.step("publish", || async move { send(&outgoing, request).await }).await?;
        }
        Ok(outputs([
            ("published", &true),
            ("decision", &ReviewAction::Approve),
            ("draft", &draft),
            ("revision", &revision),
            ("reason", &approval.decision.feedback),
        ]))
    }
}

/// The payload and the answer of the last visit of the review.
struct ReviewApproval {
    shown: ReviewRequest,
    decision: ReviewDecision,
}

impl ReviewApproval {
    fn at(run: &Run, review: Option<&str>) -> Result<Self, Stop> {
        let review = review.and_then(|review| NodeId::parse(review).ok());
        let review = review.ok_or_else(|| mismatch("the config names no review"))?;
        let completed = run.node_state(&review).is_some_and(|state| state.status == NodeStatus::Completed);
        let interrupt = run
            .interrupt_of_node(&review)
            .filter(|interrupt| completed && interrupt.data["customKind"] == KIND);
        let interrupt = interrupt.ok_or_else(|| mismatch("the review is not completed"))?;
        check_as_shown(interrupt)?;
        let Some(Resolution::Answered { value, .. }) = &interrupt.resolution else {
            return Err(mismatch("the review has no answer"));
        };
        let unreadable = |error: serde_json::Error| mismatch(&error.to_string());
        Ok(Self {
            shown: serde_json::from_value(interrupt.data["data"].clone()).map_err(unreadable)?,
            decision: serde_json::from_value(value.clone()).map_err(unreadable)?,
        })
    }

    fn check(&self, draft: &str, revision: u64, place: Option<&str>) -> Result<(), Stop> {
        if self.decision.action != ReviewAction::Approve {
            return Err(mismatch("the reviewer did not approve the text"));
        }
        if self.decision.draft.as_ref().unwrap_or(&self.shown.draft) != draft
            || self.shown.revision != revision
        {
            return Err(mismatch("the approved text differs from the text to publish"));
        }
        if self.shown.publish_to.as_deref() != place {
            return Err(mismatch("the text was approved for another address"));
        }
        Ok(())
    }
}

fn mismatch(why: &str) -> Stop {
    Stop::failed("approval_mismatch", format!("the text was not published: {why}"))
}

fn request(context: &EffectContext, url: String, body: &Value) -> Result<OutgoingRequest, Stop> {
    let started = context.started().ok_or_else(|| invalid("the run was never started"))?;
    let (tenant, run, node) = (&started.owner.tenant, context.run_id(), &context.node().id);
    let key = activity_key(tenant, run, node, context.visit(), PUBLISH);
    let mut headers =
        vec![("content-type".to_owned(), "application/json".to_owned()), ("idempotency-key".to_owned(), key)];
    headers.extend(context.trace_headers());
    let body = body.to_string().into_bytes();
    let (timeout_ms, body_bytes_max) = (TIMEOUT_MS, RESPONSE_BYTES_MAX);
    Ok(OutgoingRequest { method: Method::Post, url, headers, body, timeout_ms, body_bytes_max })
}

async fn send(outgoing: &Outgoing, request: OutgoingRequest) -> Result<Value, Stop> {
    let origin = outgoing.check_url(&request.url).map_err(call_refused)?.origin().ascii_serialization();
    let response = outgoing.send(request).await.map_err(call_failed)?;
    if (200..300).contains(&response.status) {
        return Ok(json!({ "status": response.status }));
    }
    let message = format!("{origin} answered the publication with the status {}", response.status);
    let retryable = matches!(response.status, 408 | 429 | 500..=599);
    Err(Stop::Failed(RunError { retryable, ..RunError::new("http_status", message) }))
}
