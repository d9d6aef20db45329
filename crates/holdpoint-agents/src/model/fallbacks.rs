//! A model with fallbacks: other models that are called in order while the models before them are not available.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::{DeltaHandler, Model, ModelError, ModelPrompt, ModelReply, ReplyDelta, ReplyFuture};

/// A model and its fallbacks.
pub(super) struct FallbackModel {
    first: Arc<dyn Model>,
    fallbacks: Vec<Arc<dyn Model>>,
}

/// Returns a model that calls the fallbacks in order while the models before them are not available.
pub fn with_fallbacks(first: Arc<dyn Model>, fallbacks: Vec<Arc<dyn Model>>) -> Arc<dyn Model> {
    if fallbacks.is_empty() { first } else { Arc::new(FallbackModel { first, fallbacks }) }
}

impl FallbackModel {
    async fn reply(
        &self,
        prompt: &ModelPrompt,
        listener: DeltaHandler<'_>,
    ) -> Result<ModelReply, ModelError> {
        let mut has_deltas = false;
        let mut forward = |delta: ReplyDelta| {
            has_deltas = delta != ReplyDelta::Restarted;
            listener(delta);
        };
        let first = match self.first.reply(prompt, &mut forward).await {
            Err(error) if is_unavailable(&error) => error,
            ended => return ended,
        };
        for (model, number) in self.fallbacks.iter().zip(1..) {
            tracing::warn!(number, error = %first, "a model is not available; calling a fallback");
            if has_deltas {
                listener(ReplyDelta::Restarted);
            }
            has_deltas = false;
            let mut forward = |delta: ReplyDelta| {
                has_deltas = delta != ReplyDelta::Restarted;
                listener(delta);
            };
            match model.reply(prompt, &mut forward).await {
                Ok(reply) => return Ok(reply),
                // A refusal is a decision about the conversation. Another model must not overrule it.
                Err(refused @ ModelError::Refused(_)) => return Err(refused),
                Err(error) => tracing::warn!(number, %error, "a fallback failed"),
            }
        }
        // The run waits for the first model, as without fallbacks.
        Err(first)
    }

    fn all(&self) -> impl Iterator<Item = &Arc<dyn Model>> {
        std::iter::once(&self.first).chain(&self.fallbacks)
    }
}

/// Returns true if the model cannot be reached, is overloaded or does not reply in time.
fn is_unavailable(error: &ModelError) -> bool {
    match error {
        ModelError::Unavailable { .. } | ModelError::TimedOut(_) => true,
        ModelError::ContextOverflow(_)
        | ModelError::Refused(_)
        | ModelError::Unauthorized(_)
        | ModelError::BadRequest(_)
        | ModelError::BadReply(_) => false,
    }
}

impl Model for FallbackModel {
    fn reply<'a>(&'a self, prompt: &'a ModelPrompt, listener: DeltaHandler<'a>) -> ReplyFuture<'a> {
        Box::pin(self.reply(prompt, listener))
    }

    fn is_instant(&self) -> bool {
        self.all().all(|model| model.is_instant())
    }

    fn check_content(&self, content: &serde_json::Value) -> Result<(), String> {
        self.all().try_for_each(|model| model.check_content(content))
    }

    fn media_types(&self) -> BTreeSet<String> {
        let accepted = self.all().map(|model| model.media_types());
        accepted.reduce(|all, one| &all & &one).unwrap_or_default()
    }

    fn reports_token_probabilities(&self) -> bool {
        self.all().all(|model| model.reports_token_probabilities())
    }
}
