//! `contentReview.review`: shows a draft to somebody, and goes the way of the answer.

use holdpoint_core::workflow::{self, Flaw};
use holdpoint_core::{Kind, Request};
use serde_json::{Value, json};

use super::payload::{Action, Feedback, KIND, ReviewDecision, ReviewRequest, decision_schema, shown_place};
use super::writing::revisions_allowed;
use super::{input, needed, outputs};
use crate::context::{Context, Stop};
use crate::nodes::{Outputs, PureNode, config_ms, unknown_config};

pub(super) struct Review;

/// What became of a review.
struct Verdict {
    action: Action,
    /// As it is after the reviewer has had it.
    draft: String,
    /// What the reviewer made of it, where it is to be shown again.
    edited: Option<String>,
    reason: Option<String>,
    feedback: Vec<Feedback>,
}

impl PureNode for Review {
    fn asks(&self) -> bool {
        true
    }

    fn check(&self, node: &workflow::Node) -> Vec<Flaw> {
        let mut flaws = unknown_config(node, &["timeoutMs"]);
        flaws.extend(config_ms(node, "timeoutMs").err());
        flaws
    }

    fn run(&self, context: &mut Context) -> Result<Outputs, Stop> {
        let shown = shown(context)?;
        let mut request = Request::new(Kind::Custom, json!({ "customKind": KIND, "data": shown }));
        request.resume_schema = Some(decision_schema(shown.revision));
        request.timeout_ms = context.config().get("timeoutMs").and_then(Value::as_u64);
        let revision = shown.revision;
        let verdict = match context.interrupt(request) {
            Ok(answer) => judged(shown, read(answer)?),
            Err(Stop::TimedOut) => rejected(shown, Some("nobody decided in time".to_owned())),
            Err(other) => return Err(other),
        };
        context.choose(verdict.action.as_str());
        Ok(outputs([
            ("decision", &verdict.action),
            ("draft", &verdict.draft),
            ("revision", &revision),
            ("edited", &verdict.edited),
            ("reason", &verdict.reason),
            ("feedback", &verdict.feedback),
        ]))
    }
}

fn shown(context: &Context) -> Result<ReviewRequest, Stop> {
    let url: Option<String> = input(context, "publishUrl")?;
    Ok(ReviewRequest {
        draft: needed(context, "draft")?,
        revision: needed(context, "revision")?,
        max_revisions: revisions_allowed(context)?,
        checks: input(context, "checks")?.unwrap_or_default(),
        feedback: input(context, "feedback")?.unwrap_or_default(),
        publish_to: url.map(|url| shown_place(&url)).transpose()?,
    })
}

fn read(answer: Value) -> Result<ReviewDecision, Stop> {
    let unreadable = |error: serde_json::Error| Stop::failed("invalid_decision", error.to_string());
    serde_json::from_value(answer).map_err(unreadable)
}

fn judged(shown: ReviewRequest, decision: ReviewDecision) -> Verdict {
    match decision.action {
        Action::Approve => Verdict {
            action: Action::Approve,
            draft: decision.draft.unwrap_or(shown.draft),
            edited: None,
            reason: decision.feedback,
            feedback: shown.feedback,
        },
        Action::Reject => rejected(shown, decision.feedback),
        Action::Revise if shown.revision >= shown.max_revisions => {
            let remark = decision.feedback.map(|text| format!("; the last remark was: {text}"));
            let reason = format!(
                "rejected automatically: one more revision was asked for, and maxRevisions allows {}{}",
                shown.max_revisions,
                remark.unwrap_or_default()
            );
            rejected(shown, Some(reason))
        }
        Action::Revise => {
            let mut feedback = shown.feedback;
            feedback.extend(decision.feedback.map(|text| Feedback { revision: shown.revision, text }));
            let (action, draft, edited) = (Action::Revise, shown.draft, decision.draft);
            Verdict { action, draft, edited, reason: None, feedback }
        }
    }
}

fn rejected(shown: ReviewRequest, reason: Option<String>) -> Verdict {
    Verdict { action: Action::Reject, draft: shown.draft, edited: None, reason, feedback: shown.feedback }
}
