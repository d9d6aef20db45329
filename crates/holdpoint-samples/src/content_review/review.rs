//! `contentReview.review`: opens an interrupt with a draft, and chooses the branch of the answer.

use holdpoint_core::workflow::{self, DefinitionFlaw};
use holdpoint_core::{InterruptRequest, Kind};
use holdpoint_engine::extension::{config_ms, unknown_config};
use holdpoint_engine::{Context, Outputs, PureNode, Stop};
use serde_json::{Value, json};

use super::draft::revisions_allowed;
use super::payload::{
    Feedback, KIND, ReviewAction, ReviewDecision, ReviewRequest, decision_schema, displayed_url,
};
use super::{input, outputs, required_input};

pub(super) struct ReviewNode;

/// The outcome of a review.
struct ReviewOutcome {
    action: ReviewAction,
    /// The draft after the review.
    draft: String,
    /// The text that the reviewer edited, if it must be reviewed again.
    edited: Option<String>,
    reason: Option<String>,
    feedback: Vec<Feedback>,
}

impl PureNode for ReviewNode {
    fn grants_effects(&self, _node: &workflow::Node) -> bool {
        true
    }

    fn is_gate(&self) -> bool {
        true
    }

    fn check(&self, node: &workflow::Node) -> Vec<DefinitionFlaw> {
        let mut flaws = unknown_config(node, &["timeoutMs"]);
        flaws.extend(config_ms(node, "timeoutMs").err());
        flaws
    }

    fn run(&self, context: &mut Context) -> Result<Outputs, Stop> {
        let shown = review_request(context)?;
        let mut request = InterruptRequest::new(Kind::Custom, json!({ "customKind": KIND, "data": shown }));
        request.resume_schema = Some(decision_schema(shown.revision));
        request.timeout_ms = context.config().get("timeoutMs").and_then(Value::as_u64);
        let revision = shown.revision;
        let outcome = match context.interrupt(request) {
            Ok(answer) => apply_decision(shown, parse_decision(answer)?),
            Err(Stop::TimedOut) => reject(shown, Some("nobody decided in time".to_owned())),
            Err(other) => return Err(other),
        };
        context.choose(outcome.action.as_str());
        Ok(outputs([
            ("decision", &outcome.action),
            ("draft", &outcome.draft),
            ("revision", &revision),
            ("edited", &outcome.edited),
            ("reason", &outcome.reason),
            ("feedback", &outcome.feedback),
        ]))
    }
}

fn review_request(context: &Context) -> Result<ReviewRequest, Stop> {
    let url: Option<String> = input(context, "publishUrl")?;
    Ok(ReviewRequest {
        draft: required_input(context, "draft")?,
        revision: required_input(context, "revision")?,
        max_revisions: revisions_allowed(context)?,
        checks: input(context, "checks")?.unwrap_or_default(),
        feedback: input(context, "feedback")?.unwrap_or_default(),
        publish_to: url.map(|url| displayed_url(&url)).transpose()?,
    })
}

fn parse_decision(answer: Value) -> Result<ReviewDecision, Stop> {
    let unreadable = |error: serde_json::Error| Stop::failed("invalid_decision", error.to_string());
    serde_json::from_value(answer).map_err(unreadable)
}

fn apply_decision(shown: ReviewRequest, decision: ReviewDecision) -> ReviewOutcome {
    match decision.action {
        ReviewAction::Approve => ReviewOutcome {
            action: ReviewAction::Approve,
            draft: decision.draft.unwrap_or(shown.draft),
            edited: None,
            reason: decision.feedback,
            feedback: shown.feedback,
        },
        ReviewAction::Reject => reject(shown, decision.feedback),
        ReviewAction::Revise if shown.revision >= shown.max_revisions => {
            let remark = decision.feedback.map(|text| format!("; the last remark was: {text}"));
            let reason = format!(
                "rejected automatically: one more revision was asked for, and maxRevisions allows {}{}",
                shown.max_revisions,
                remark.unwrap_or_default()
            );
            reject(shown, Some(reason))
        }
        ReviewAction::Revise => {
            let mut feedback = shown.feedback;
            feedback.extend(decision.feedback.map(|text| Feedback { revision: shown.revision, text }));
            let (action, draft, edited) = (ReviewAction::Revise, shown.draft, decision.draft);
            ReviewOutcome { action, draft, edited, reason: None, feedback }
        }
    }
}

fn reject(shown: ReviewRequest, reason: Option<String>) -> ReviewOutcome {
    ReviewOutcome {
        action: ReviewAction::Reject,
        draft: shown.draft,
        edited: None,
        reason,
        feedback: shown.feedback,
    }
}
