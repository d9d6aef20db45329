//! Confidence of models that report none: the model rates its reply, or the probabilities of its tokens count.

use std::collections::BTreeSet;
use std::sync::Arc;

use holdpoint_core::agent::{CallRequest, Message, Role};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{
    DeltaHandler, FinishReason, Model, ModelError, ModelPrompt, ModelReply, ReplyDelta, ReplyFuture, ToolSpec,
};

/// The tool with which a model rates its reply. It is never executed or recorded.
const RATING_TOOL: &str = "report_confidence";
const RATING_INSTRUCTION: &str = "With every reply, also call the tool report_confidence in the same turn. Its \
    argument `confidence` is your confidence that the reply is correct and does what was requested: a number from 0 \
    (certainly wrong) to 1 (certainly right).";
const RATING_RESULT: &str = "The confidence is recorded. Now give the reply itself.";

/// The source of the confidence of a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ConfidenceRule {
    /// The model states its confidence with a tool call. A reply without a valid rating has the confidence 0.
    SelfRated,
    /// The confidence is the mean probability of the tokens of the text. A text without probabilities has the
    /// confidence 0.
    Logprobs,
}

/// A model whose replies have a confidence.
struct RatedModel {
    model: Arc<dyn Model>,
    rule: ConfidenceRule,
}

/// Returns a model whose replies have a confidence. Fails with the reason if the model does not support the rule.
pub fn with_confidence(model: Arc<dyn Model>, rule: ConfidenceRule) -> Result<Arc<dyn Model>, String> {
    if rule == ConfidenceRule::Logprobs && !model.reports_token_probabilities() {
        return Err("logprobs requires models with the provider \"openai\"; use self_rated".to_owned());
    }
    Ok(Arc::new(RatedModel { model, rule }))
}

impl RatedModel {
    async fn reply(
        &self,
        prompt: &ModelPrompt,
        listener: DeltaHandler<'_>,
    ) -> Result<ModelReply, ModelError> {
        match self.rule {
            ConfidenceRule::SelfRated => self.reply_with_rating(prompt, listener).await,
            ConfidenceRule::Logprobs => self.reply_with_probabilities(prompt, listener).await,
        }
    }

    async fn reply_with_probabilities(
        &self,
        prompt: &ModelPrompt,
        listener: DeltaHandler<'_>,
    ) -> Result<ModelReply, ModelError> {
        let mut prompt = prompt.clone();
        prompt.options.insert("logprobs".to_owned(), true.into());
        let mut reply = self.model.reply(&prompt, listener).await?;
        let unknown = || (!reply.text.trim().is_empty()).then_some(0.0);
        reply.confidence = reply.confidence.or(reply.token_probability).or_else(unknown);
        Ok(reply)
    }

    async fn reply_with_rating(
        &self,
        prompt: &ModelPrompt,
        listener: DeltaHandler<'_>,
    ) -> Result<ModelReply, ModelError> {
        if prompt.tools.iter().any(|tool| tool.name == RATING_TOOL) {
            let why = format!("the tool name {RATING_TOOL} is reserved for the confidence of the model");
            return Err(ModelError::BadRequest(why));
        }
        let mut prompt = prompt.clone();
        prompt.tools.push(Arc::new(rating_tool()));
        let own = prompt.instructions.take().map(|own| format!("{own}\n\n")).unwrap_or_default();
        prompt.instructions = Some(own + RATING_INSTRUCTION);
        let mut ratings = BTreeSet::new();
        let mut without_ratings = |delta: ReplyDelta| match &delta {
            ReplyDelta::Call { index, name: Some(name), .. } if name == RATING_TOOL => {
                ratings.insert(*index);
            }
            ReplyDelta::Call { index, .. } if ratings.contains(index) => {}
            ReplyDelta::Restarted => {
                ratings.clear();
                listener(delta);
            }
            ReplyDelta::Call { .. } | ReplyDelta::Text(_) | ReplyDelta::Reasoning { .. } => listener(delta),
        };
        let mut reply = self.model.reply(&prompt, &mut without_ratings).await?;
        let mut rating = take_rating(&mut reply);
        if let Some(rated) = rating
            && reply.text.trim().is_empty()
            && reply.calls.is_empty()
        {
            // The model expects a result of the tool before it replies.
            prompt.messages.extend(rating_messages(rated).map(Arc::new));
            let first = reply.usage;
            if !reply.reasoning.is_empty() {
                without_ratings(ReplyDelta::Restarted);
            }
            reply = self.model.reply(&prompt, &mut without_ratings).await?;
            reply.usage.add(first);
            rating = Some(take_rating(&mut reply).map_or(rated, |again| again.min(rated)));
            if reply.text.trim().is_empty() && reply.calls.is_empty() {
                return Err(ModelError::BadReply(
                    "the model called report_confidence but sent no reply".to_owned(),
                ));
            }
        }
        reply.confidence = Some(reply.confidence.or(rating).unwrap_or(0.0));
        Ok(reply)
    }
}

impl Model for RatedModel {
    fn reply<'a>(&'a self, prompt: &'a ModelPrompt, listener: DeltaHandler<'a>) -> ReplyFuture<'a> {
        Box::pin(self.reply(prompt, listener))
    }

    fn is_instant(&self) -> bool {
        self.model.is_instant()
    }

    fn check_content(&self, content: &Value) -> Result<(), String> {
        self.model.check_content(content)
    }

    fn media_types(&self) -> BTreeSet<String> {
        self.model.media_types()
    }
}

/// Removes the ratings from a reply and returns the lowest one. An invalid rating counts as 0.
fn take_rating(reply: &mut ModelReply) -> Option<f64> {
    let (ratings, calls): (Vec<CallRequest>, Vec<CallRequest>) =
        std::mem::take(&mut reply.calls).into_iter().partition(|call| call.name == RATING_TOOL);
    reply.calls = calls;
    if reply.calls.is_empty() && reply.finish == FinishReason::Calls {
        reply.finish = FinishReason::Stop;
    }
    let valid = |call: CallRequest| {
        let number = call.arguments.get("confidence").and_then(Value::as_f64);
        number.filter(|number| (0.0..=1.0).contains(number)).unwrap_or(0.0)
    };
    ratings.into_iter().map(valid).reduce(f64::min)
}

/// Returns the rating and its result as messages.
fn rating_messages(rating: f64) -> [Message; 2] {
    const CALL: &str = "confidence";
    let arguments = json!({ "confidence": rating });
    let call = CallRequest { id: CALL.to_owned(), name: RATING_TOOL.to_owned(), arguments };
    let reply = Message { calls: vec![call], ..Message::new("rating", Role::Assistant, "") };
    let result = Message::new("rating-result", Role::Tool, RATING_RESULT);
    [reply, Message { call_id: Some(CALL.to_owned()), ..result }]
}

fn rating_tool() -> ToolSpec {
    let confidence = json!({"type": "number", "minimum": 0, "maximum": 1});
    ToolSpec {
        name: RATING_TOOL.to_owned(),
        description: "Reports your confidence in the reply of this turn.".to_owned(),
        parameters: json!({
            "type": "object", "properties": {"confidence": confidence}, "required": ["confidence"],
        }),
        idempotent: true,
        primary: None,
    }
}
