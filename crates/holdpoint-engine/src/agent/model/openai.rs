//! Models behind any endpoint that speaks chat completions. A reply is read as it comes; what may pass is tried again
//! within the time that a reply has, and a reply that is complete is never asked for twice.

use std::fmt;
use std::time::Duration;

use tokio::time::Instant;

use super::key::Secret;
use super::{BadModel, Delta, Listener, Model, ModelError, Prompt, Reply, Replying};
use crate::outgoing::{Answer, Body, Method, Outgoing, Request, Url};

mod assembly;
mod events;
mod failure;
mod request;
mod retry;
mod settings;
mod wire;

pub use settings::{HeaderText, Settings};

use assembly::Assembly;
use events::Events;
use failure::{Failure, Hidden};

/// How much more a reply takes on the wire than what it says: each word comes in an envelope.
const ENVELOPE_FACTOR: usize = 128;
/// How much one event, or a document, may take beyond what it says.
const EVENT_FACTOR: usize = 8;
const EVENT_BYTES_EXTRA: usize = 64 * 1024;
/// What is read of an answer that is an error.
const ERROR_BYTES_MAX: usize = 64 * 1024;
/// How long is waited for the costs of a reply that is complete.
const LINGER: Duration = Duration::from_secs(5);

pub struct OpenAi {
    settings: Settings,
    url: Url,
    outgoing: Outgoing,
}

impl fmt::Debug for OpenAi {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OpenAi").field("settings", &self.settings).finish_non_exhaustive()
    }
}

impl OpenAi {
    /// Calls go where the policy of `outgoing` lets them, which is the choice of whoever made it.
    pub fn new(settings: Settings, outgoing: Outgoing) -> Result<Self, BadModel> {
        let flaw = |message: String| BadModel::new("baseUrl", message);
        let mut url = outgoing.check_url(&settings.base_url).map_err(|refused| flaw(refused.to_string()))?;
        url.path_segments_mut()
            .map_err(|()| flaw("must be able to have a path".to_owned()))?
            .pop_if_empty()
            .extend(["chat", "completions"]);
        Ok(Self { settings, url, outgoing })
    }

    async fn reply(&self, prompt: &Prompt, listener: Listener<'_>) -> Result<Reply, ModelError> {
        let until = Instant::now() + Duration::from_millis(self.settings.timeout_ms);
        let body = request::body(&self.settings, prompt);
        let mut failed = 0;
        loop {
            let mut heard = false;
            let mut listening = |delta| {
                heard = true;
                listener(delta);
            };
            let failure = match self.attempt(&body, until, &mut listening).await {
                Ok(reply) => return Ok(reply),
                Err(failure) => failure,
            };
            let Some(wait) = self.wait(failed, &failure, until) else { return Err(failure.error) };
            tracing::debug!(model = %self.settings.model, error = %failure.error, ?wait, "a model is asked again");
            if heard {
                listener(Delta::Restarted);
            }
            tokio::time::sleep(wait).await;
            failed += 1;
        }
    }

    fn wait(&self, failed: u32, failure: &Failure, until: Instant) -> Option<Duration> {
        if !failure.again || u64::from(failed) >= self.settings.retries {
            return None;
        }
        let asked_ms = match &failure.error {
            ModelError::Unavailable { retry_after_ms, .. } => *retry_after_ms,
            _ => None,
        };
        let base = Duration::from_millis(self.settings.retry_base_ms);
        let left = until.saturating_duration_since(Instant::now());
        retry::wait(failed, base, asked_ms, left, retry::jitter())
    }

    async fn attempt(&self, body: &[u8], until: Instant, listener: Listener<'_>) -> Result<Reply, Failure> {
        let (headers, hidden) = self.headers().await?;
        let left = until.saturating_duration_since(Instant::now()).max(Duration::from_millis(1));
        let request = Request {
            method: Method::Post,
            url: self.url.to_string(),
            headers,
            body: body.to_vec(),
            timeout_ms: u64::try_from(left.as_millis()).unwrap_or(u64::MAX),
            body_bytes_max: self.settings.reply_bytes_max.saturating_mul(ENVELOPE_FACTOR),
        };
        let idle = Duration::from_millis(self.settings.idle_timeout_ms);
        let answer = self.outgoing.stream(request, idle).await;
        let mut answer = answer.map_err(|error| self.failed(error, until))?;
        if !(200..300).contains(&answer.status) {
            return Err(refusal(&mut answer, &hidden).await);
        }
        self.read(&mut answer.body, until, &hidden, listener).await
    }

    /// With everything in them that must not be told.
    async fn headers(&self) -> Result<(Vec<(String, String)>, Hidden), Failure> {
        let missing = |why: &str| Failure::for_good(ModelError::Unauthorized(why.to_owned()));
        let accept = if self.settings.stream { "text/event-stream" } else { "application/json" };
        let mut headers = vec![
            ("content-type".to_owned(), "application/json".to_owned()),
            ("accept".to_owned(), accept.to_owned()),
        ];
        let mut hidden = Hidden::default();
        // Some endpoints take keys there.
        self.url.query_pairs().for_each(|(_, value)| hidden.add(Secret::new(value)));
        if let Some(key) = &self.settings.api_key {
            let key = key.read().await.map_err(missing)?;
            headers.push(("authorization".to_owned(), format!("Bearer {}", key.expose())));
            hidden.add(key);
        }
        for (name, text) in &self.settings.headers {
            let text: Secret = match text {
                HeaderText::Text(text) => text.clone(),
                HeaderText::Key(key) => key.read().await.map_err(missing)?,
            };
            headers.retain(|(set, _)| !set.eq_ignore_ascii_case(name));
            headers.push((name.clone(), text.expose().to_owned()));
            hidden.add(text);
        }
        Ok((headers, hidden))
    }

    /// A stream of events, or a document: no event begins with a brace.
    async fn read(
        &self,
        body: &mut Body,
        until: Instant,
        hidden: &Hidden,
        listener: Listener<'_>,
    ) -> Result<Reply, Failure> {
        let most = self.settings.reply_bytes_max;
        let event_bytes_max = most.saturating_mul(EVENT_FACTOR).saturating_add(EVENT_BYTES_EXTRA);
        let mut assembly = Assembly::new(most);
        let mut events = Events::new(event_bytes_max);
        let mut document: Option<Vec<u8>> = None;
        let mut begun = false;
        while let Some(piece) = self.piece(body, &assembly, until).await? {
            let first = piece.iter().find(|byte| !byte.is_ascii_whitespace()).filter(|_| !begun);
            begun = begun || first.is_some();
            if first == Some(&b'{') {
                document = Some(Vec::new());
            }
            if let Some(document) = &mut document {
                document.extend_from_slice(&piece);
                if document.len() > event_bytes_max {
                    return Err(Failure::too_large(most));
                }
                continue;
            }
            let was_complete = assembly.is_complete();
            let taken = events.push(&piece).map_err(|_| Failure::too_large(most)).and_then(|complete| {
                complete.iter().try_for_each(|data| take(&mut assembly, data, hidden, listener))
            });
            match taken {
                Ok(()) if !assembly.is_done() => {}
                Err(failure) if !was_complete => return Err(failure),
                Ok(()) | Err(_) => break,
            }
        }
        match document {
            Some(document) => assembly.document(&document, hidden, listener)?,
            None if assembly.is_done() => {}
            // Half an event is what a cut leaves; whether the reply was complete without it is seen at its end.
            None => {
                if let Some(data) = events.end()
                    && let Err(failure) = take(&mut assembly, &data, hidden, listener)
                    && !is_cut(&failure)
                {
                    return Err(failure);
                }
            }
        }
        assembly.end(&self.settings.model, hidden)
    }

    /// The next bytes. A reply that is complete is not lost any more, whatever becomes of the rest.
    async fn piece(
        &self,
        body: &mut Body,
        assembly: &Assembly,
        until: Instant,
    ) -> Result<Option<bytes::Bytes>, Failure> {
        if assembly.is_complete() {
            let rest = tokio::time::timeout(LINGER, body.next()).await;
            return Ok(rest.ok().and_then(Result::ok).flatten());
        }
        body.next().await.map_err(|error| match error {
            crate::outgoing::Error::Broken { .. } => {
                Failure::bad_reply("the connection broke before it was complete")
            }
            error => self.failed(error, until),
        })
    }

    fn failed(&self, error: crate::outgoing::Error, until: Instant) -> Failure {
        // The call was given whole milliseconds, so it may end a little before.
        let over = until.saturating_duration_since(Instant::now()) < Duration::from_millis(2);
        let over = over.then_some(self.settings.timeout_ms);
        Failure::of_call(error, over)
    }
}

impl Model for OpenAi {
    fn reply<'a>(&'a self, prompt: &'a Prompt, listener: Listener<'a>) -> Replying<'a> {
        Box::pin(self.reply(prompt, listener))
    }
}

/// One event. Nothing that follows a complete reply can spoil it.
fn take(
    assembly: &mut Assembly,
    data: &[u8],
    hidden: &Hidden,
    listener: Listener<'_>,
) -> Result<(), Failure> {
    let was_complete = assembly.is_complete();
    assembly.event(data, hidden, listener).or_else(|failure| if was_complete { Ok(()) } else { Err(failure) })
}

fn is_cut(failure: &Failure) -> bool {
    matches!(failure.error, ModelError::BadReply(_)) && failure.again
}

/// An answer with another status than success. What cannot be read of it is not missed.
async fn refusal(answer: &mut Answer, hidden: &Hidden) -> Failure {
    let mut body = Vec::new();
    while let Ok(Some(piece)) = answer.body.next().await {
        body.extend_from_slice(&piece);
        if body.len() > ERROR_BYTES_MAX {
            break;
        }
    }
    let asked_ms = failure::asked_wait_ms(&answer.headers);
    Failure::said(Some(answer.status), &String::from_utf8_lossy(&body), asked_ms, hidden)
}
