//! Models behind an HTTP endpoint. Replies are streamed by default. Transient errors are retried within the timeout of
//! the reply; a complete reply is never requested again. Each API has a file below.

use std::collections::BTreeSet;
use std::fmt;
use std::time::Duration;

use holdpoint_engine::outgoing::{Method, Outgoing, OutgoingRequest, ResponseBody, StreamedResponse, Url};
use serde_json::Value;
use tokio::time::Instant;

use super::SecretText;
use super::{BadModel, DeltaHandler, Model, ModelError, ModelPrompt, ModelReply, ReplyDelta, ReplyFuture};

mod anthropic_messages;
mod api;
mod assembly;
mod attachments;
mod chat_completions;
mod conversation;
mod events;
mod failure;
mod media_data;
mod openai_responses;
mod options;
mod retry;
mod settings;

pub use api::EndpointApi;
pub use attachments::AttachmentRules;
pub(crate) use media_data::check as check_media;
pub use settings::{EndpointSettings, HeaderText};

use assembly::ReplyAssembly;
use events::EventParser;
use failure::{AttemptFailure, HiddenSecrets};

/// The limit of bytes on the wire per byte of content. In a stream, each word has a JSON envelope.
const ENVELOPE_FACTOR: usize = 128;
/// The limit of one event or document, as a factor of the limit for content, and the bytes added to it.
const EVENT_FACTOR: usize = 8;
const EVENT_BYTES_EXTRA: usize = 64 * 1024;
/// The number of bytes of an error response after which reading stops.
const ERROR_BYTES_MAX: usize = 64 * 1024;
/// The longest wait for the token counts of a complete reply.
const USAGE_WAIT_MAX: Duration = Duration::from_secs(5);

/// A model behind an HTTP endpoint.
pub struct EndpointModel {
    settings: EndpointSettings,
    url: Url,
    outgoing: Outgoing,
}

impl fmt::Debug for EndpointModel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EndpointModel").field("settings", &self.settings).finish_non_exhaustive()
    }
}

impl EndpointModel {
    /// Creates a model. The policy of `outgoing` must allow the address in `settings`.
    pub fn new(settings: EndpointSettings, outgoing: Outgoing) -> Result<Self, BadModel> {
        let flaw = |message: String| BadModel::new("baseUrl", message);
        let mut url = outgoing.check_url(&settings.base_url).map_err(|refused| flaw(refused.to_string()))?;
        url.path_segments_mut()
            .map_err(|()| flaw("must be a URL that can have a path".to_owned()))?
            .pop_if_empty()
            .extend(settings.api.path());
        Ok(Self { settings, url, outgoing })
    }

    async fn reply(
        &self,
        prompt: &ModelPrompt,
        listener: DeltaHandler<'_>,
    ) -> Result<ModelReply, ModelError> {
        let until = Instant::now() + Duration::from_millis(self.settings.timeout_ms);
        let body = self.settings.api.body(&self.settings, prompt);
        let mut failed = 0;
        loop {
            let mut has_deltas = false;
            let mut forward = |delta| {
                has_deltas = true;
                listener(delta);
            };
            let failure = match self.attempt(&body, until, &mut forward).await {
                Ok(reply) => return Ok(reply),
                Err(failure) => failure,
            };
            let Some(wait) = self.retry_delay(failed, &failure, until) else { return Err(failure.error) };
            tracing::debug!(model = %self.settings.model, error = %failure.error, ?wait, "retrying a call of a model");
            if has_deltas {
                listener(ReplyDelta::Restarted);
            }
            tokio::time::sleep(wait).await;
            failed += 1;
        }
    }

    fn retry_delay(&self, failed: u32, failure: &AttemptFailure, until: Instant) -> Option<Duration> {
        if !failure.is_retryable || u64::from(failed) >= self.settings.retries {
            return None;
        }
        let requested_ms = match &failure.error {
            ModelError::Unavailable { retry_after_ms, .. } => *retry_after_ms,
            _ => None,
        };
        let base = Duration::from_millis(self.settings.retry_base_ms);
        let left = until.saturating_duration_since(Instant::now());
        retry::delay(failed, base, requested_ms, left, retry::jitter())
    }

    async fn attempt(
        &self,
        body: &[u8],
        until: Instant,
        listener: DeltaHandler<'_>,
    ) -> Result<ModelReply, AttemptFailure> {
        let (headers, hidden) = self.headers().await?;
        let left = until.saturating_duration_since(Instant::now()).max(Duration::from_millis(1));
        let request = OutgoingRequest {
            method: Method::Post,
            url: self.url.to_string(),
            headers,
            body: body.to_vec(),
            timeout_ms: u64::try_from(left.as_millis()).unwrap_or(u64::MAX),
            body_bytes_max: self.settings.reply_bytes_max.saturating_mul(ENVELOPE_FACTOR),
        };
        let idle = Duration::from_millis(self.settings.idle_timeout_ms);
        let answer = self.outgoing.stream(request, idle).await;
        let mut answer = answer.map_err(|error| self.call_failure(error, until))?;
        if !(200..300).contains(&answer.status) {
            return Err(read_error(&mut answer, &hidden).await);
        }
        self.read(&mut answer.body, until, &hidden, listener).await
    }

    /// Returns the headers of a request, and the secrets in them.
    async fn headers(&self) -> Result<(Vec<(String, String)>, HiddenSecrets), AttemptFailure> {
        let missing = |why: &str| AttemptFailure::permanent(ModelError::Unauthorized(why.to_owned()));
        let accept = if self.settings.stream { "text/event-stream" } else { "application/json" };
        let mut headers = vec![
            ("content-type".to_owned(), "application/json".to_owned()),
            ("accept".to_owned(), accept.to_owned()),
        ];
        let fixed = self.settings.api.headers().iter();
        headers.extend(fixed.map(|(name, value)| ((*name).to_owned(), (*value).to_owned())));
        let mut hidden = HiddenSecrets::default();
        // Some endpoints have keys in the query.
        self.url.query_pairs().for_each(|(_, value)| hidden.add(SecretText::new(value)));
        if let Some(key) = &self.settings.api_key {
            let key = key.read().await.map_err(missing)?;
            let header = self.settings.api.key_header(key.expose());
            headers.push((header.name.to_owned(), header.value));
            hidden.add(key);
        }
        for (name, text) in &self.settings.headers {
            let text: SecretText = match text {
                HeaderText::Text(text) => text.clone(),
                HeaderText::Key(key) => key.read().await.map_err(missing)?,
            };
            headers.retain(|(set, _)| !set.eq_ignore_ascii_case(name));
            headers.push((name.clone(), text.expose().to_owned()));
            hidden.add(text);
        }
        Ok((headers, hidden))
    }

    /// Reads the reply from a body, which is one JSON document if it begins with a brace, otherwise a stream of events.
    async fn read(
        &self,
        body: &mut ResponseBody,
        until: Instant,
        hidden: &HiddenSecrets,
        listener: DeltaHandler<'_>,
    ) -> Result<ModelReply, AttemptFailure> {
        let limit = self.settings.reply_bytes_max;
        let event_bytes_max = limit.saturating_mul(EVENT_FACTOR).saturating_add(EVENT_BYTES_EXTRA);
        let mut assembly = ReplyAssembly::new(limit);
        let mut events = EventParser::new(event_bytes_max);
        let mut document: Option<Vec<u8>> = None;
        let mut begun = false;
        while let Some(piece) = self.next_bytes(body, &assembly, until).await? {
            let first = piece.iter().find(|byte| !byte.is_ascii_whitespace()).filter(|_| !begun);
            begun = begun || first.is_some();
            if first == Some(&b'{') {
                document = Some(Vec::new());
            }
            if let Some(document) = &mut document {
                document.extend_from_slice(&piece);
                if document.len() > event_bytes_max {
                    return Err(AttemptFailure::too_large(limit));
                }
                continue;
            }
            let was_complete = assembly.is_complete();
            let taken =
                events.push(&piece).map_err(|_| AttemptFailure::too_large(limit)).and_then(|complete| {
                    complete.iter().try_for_each(|data| self.add_event(&mut assembly, data, hidden, listener))
                });
            match taken {
                Ok(()) if !assembly.is_done() => {}
                Err(failure) if !was_complete => return Err(failure),
                Ok(()) | Err(_) => break,
            }
        }
        match document {
            Some(document) => self.settings.api.add_document(&mut assembly, &document, hidden, listener)?,
            None if assembly.is_done() => {}
            // A closed connection can leave an incomplete event. `finish` checks if the reply is complete without it.
            None => {
                if let Some(data) = events.finish()
                    && let Err(failure) = self.add_event(&mut assembly, &data, hidden, listener)
                    && !is_incomplete_reply(&failure)
                {
                    return Err(failure);
                }
            }
        }
        assembly.finish(&self.settings, hidden)
    }

    /// Adds an event to the reply. Errors after a complete reply are ignored.
    fn add_event(
        &self,
        assembly: &mut ReplyAssembly,
        data: &[u8],
        hidden: &HiddenSecrets,
        listener: DeltaHandler<'_>,
    ) -> Result<(), AttemptFailure> {
        let was_complete = assembly.is_complete();
        let added = self.settings.api.add_event(assembly, data, hidden, listener);
        added.or_else(|failure| if was_complete { Ok(()) } else { Err(failure) })
    }

    /// Reads the next bytes. After the reply is complete, errors count as the end of the body.
    async fn next_bytes(
        &self,
        body: &mut ResponseBody,
        assembly: &ReplyAssembly,
        until: Instant,
    ) -> Result<Option<bytes::Bytes>, AttemptFailure> {
        if assembly.is_complete() {
            let rest = tokio::time::timeout(USAGE_WAIT_MAX, body.next()).await;
            return Ok(rest.ok().and_then(Result::ok).flatten());
        }
        body.next().await.map_err(|error| match error {
            holdpoint_engine::outgoing::Error::Broken { .. } => {
                AttemptFailure::bad_reply("the connection was closed before the reply was complete")
            }
            error => self.call_failure(error, until),
        })
    }

    fn call_failure(&self, error: holdpoint_engine::outgoing::Error, until: Instant) -> AttemptFailure {
        // The timeout of the call was rounded to milliseconds, so the call may time out slightly early.
        let over = until.saturating_duration_since(Instant::now()) < Duration::from_millis(2);
        let over = over.then_some(self.settings.timeout_ms);
        AttemptFailure::from_call(error, over)
    }
}

impl Model for EndpointModel {
    fn reply<'a>(&'a self, prompt: &'a ModelPrompt, listener: DeltaHandler<'a>) -> ReplyFuture<'a> {
        Box::pin(self.reply(prompt, listener))
    }

    fn check_content(&self, content: &Value) -> Result<(), String> {
        self.settings.attachments.check(content)
    }

    fn media_types(&self) -> BTreeSet<String> {
        self.settings.attachments.types.iter().cloned().collect()
    }

    fn reports_token_probabilities(&self) -> bool {
        self.settings.api == EndpointApi::ChatCompletions
    }
}

fn is_incomplete_reply(failure: &AttemptFailure) -> bool {
    matches!(failure.error, ModelError::BadReply(_)) && failure.is_retryable
}

/// Reads an error response. Errors while reading its body are ignored.
async fn read_error(answer: &mut StreamedResponse, hidden: &HiddenSecrets) -> AttemptFailure {
    let mut body = Vec::new();
    while let Ok(Some(piece)) = answer.body.next().await {
        body.extend_from_slice(&piece);
        if body.len() > ERROR_BYTES_MAX {
            break;
        }
    }
    let requested_ms = failure::requested_wait_ms(&answer.headers);
    AttemptFailure::from_response(Some(answer.status), &String::from_utf8_lossy(&body), requested_ms, hidden)
}
