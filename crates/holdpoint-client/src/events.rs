//! Streams of server-sent events that reconnect after a lost connection.

use std::fmt;
use std::io;
use std::time::{Duration, Instant};

use futures_util::StreamExt;
use futures_util::stream::{BoxStream, Stream, try_unfold, unfold};
use http::header::CONTENT_TYPE;
use serde::de::DeserializeOwned;
use sse_stream::SseStream;

use crate::error::Error;
use crate::request::Request;
use crate::resources::RunStatusOnly;
use crate::retry::{RECONNECT, RetryPolicy};
use crate::transport::next_chunk;

/// The time without data after which a connection counts as lost. On an idle stream the server sends comments more
/// often.
const SILENCE_MAX: Duration = Duration::from_secs(90);
/// The largest event that is read.
const EVENT_BYTES_MAX: usize = 64 << 20;

/// A stream of server-sent events. After a lost connection, the stream reconnects and continues after the last event
/// that it has returned.
pub struct EventStream {
    request: Request<()>,
    end: StreamEnd,
    reconnect: RetryPolicy,
    last_id: Option<String>,
    connection: Option<BoxStream<'static, Result<SseFrame, Error>>>,
    /// Attempts to connect since the last event.
    attempt: u32,
    /// The time of the last successful connection.
    connected_at: Option<Instant>,
    was_opened: bool,
    has_ended: bool,
    on_reconnect: Option<Box<OnReconnect>>,
}

/// Receives the error, if there is one, and the delay before the next attempt.
type OnReconnect = dyn FnMut(Option<&Error>, Duration) + Send;

/// The condition that ends a stream.
#[derive(Debug)]
pub(crate) enum StreamEnd {
    /// The run has ended. This request reads its status.
    OfRun(Box<Request<RunStatusOnly>>),
    /// The server closes the stream.
    AtClose,
    /// The stream has no end. A stream that the server closes is opened again.
    Never,
}

impl StreamEnd {
    /// Returns whether a stream that the server has closed is complete.
    async fn is_reached(&self) -> Result<bool, Error> {
        match self {
            Self::AtClose => Ok(true),
            Self::Never => Ok(false),
            Self::OfRun(snapshot) => match Request::clone(snapshot).await {
                Ok(run) => Ok(run.status.is_terminal()),
                Err(error) if error.is_transient() => Ok(false),
                Err(error) => Err(error),
            },
        }
    }
}

/// One server-sent event.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SseFrame {
    /// The id of the event. A later stream can continue after it.
    pub id: Option<String>,
    /// The type of the event.
    pub event: String,
    /// The data of the event, usually JSON.
    pub data: String,
}

impl SseFrame {
    /// Parses the data as JSON.
    pub fn parse<T: DeserializeOwned>(&self) -> Result<T, serde_json::Error> {
        serde_json::from_str(&self.data)
    }
}

impl EventStream {
    pub(crate) fn new(request: Request<()>, end: StreamEnd) -> Self {
        Self {
            request,
            end,
            reconnect: RECONNECT,
            last_id: None,
            connection: None,
            attempt: 0,
            connected_at: None,
            was_opened: false,
            has_ended: false,
            on_reconnect: None,
        }
    }

    /// Continues after this event instead of at the beginning.
    #[must_use]
    pub fn after(mut self, last_id: impl Into<String>) -> Self {
        self.last_id = Some(last_id.into());
        self
    }

    /// Sets the retries after a lost connection. The default is 8 retries within 10 to 22 seconds.
    #[must_use]
    pub fn reconnect(mut self, policy: RetryPolicy) -> Self {
        self.reconnect = policy;
        self
    }

    /// Calls `notify` with the error and the delay before each attempt to reconnect.
    #[must_use]
    pub fn on_reconnect(mut self, notify: impl FnMut(Option<&Error>, Duration) + Send + 'static) -> Self {
        self.on_reconnect = Some(Box::new(notify));
        self
    }

    /// Returns the id of the last event. A later stream can continue after it.
    pub fn last_id(&self) -> Option<&str> {
        self.last_id.as_deref()
    }

    /// Returns the next event, or None after the last one. Returns an error if the server refuses the stream or cannot
    /// be reached again.
    pub async fn next(&mut self) -> Result<Option<SseFrame>, Error> {
        loop {
            if self.has_ended {
                return Ok(None);
            }
            let lost = match &mut self.connection {
                // A request with a body is not repeated.
                None if self.was_opened && !self.request.is_get() => return Ok(None),
                None => match self.connect().await {
                    Ok(()) => continue,
                    // Only lost connections are retried, not the first connection.
                    Err(error) if error.is_transient() && self.attempt > 0 => Some(error),
                    Err(error) => return Err(error),
                },
                Some(connection) => match connection.next().await {
                    Some(Ok(frame)) => return Ok(Some(self.accept(frame))),
                    Some(Err(error)) if !error.is_transient() => {
                        self.has_ended = true;
                        return Err(error);
                    }
                    Some(Err(error)) => Some(error),
                    None if self.end.is_reached().await? => {
                        self.has_ended = true;
                        return Ok(None);
                    }
                    None => None,
                },
            };
            self.wait_to_reconnect(lost).await?;
        }
    }

    /// Converts the stream into a `futures` stream, which ends after an error.
    pub fn into_stream(self) -> impl Stream<Item = Result<SseFrame, Error>> + Send {
        unfold(Some(self), |state| async {
            let mut events = state?;
            match events.next().await {
                Ok(Some(frame)) => Some((Ok(frame), Some(events))),
                Ok(None) => None,
                Err(error) => Some((Err(error), None)),
            }
        })
    }

    fn accept(&mut self, frame: SseFrame) -> SseFrame {
        self.attempt = 0;
        if frame.id.is_some() {
            self.last_id.clone_from(&frame.id);
        }
        frame
    }

    async fn connect(&mut self) -> Result<(), Error> {
        let mut request = self.request.clone();
        if let Some(id) = &self.last_id {
            request = request.header("last-event-id", id);
        }
        self.was_opened = true;
        let response = request.open("text/event-stream").await?;
        let client = request.client().clone();
        let kind =
            response.headers().get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
        if !kind.starts_with("text/event-stream") {
            return Err(client.invalid(format!("its type is {kind:?}, not text/event-stream")));
        }
        self.connected_at = Some(Instant::now());
        let state = (response.into_body(), EventSize::default());
        let bytes = try_unfold(state, |(mut body, mut size)| async {
            match tokio::time::timeout(SILENCE_MAX, next_chunk(&mut body)).await {
                Ok(Ok(Some(chunk))) if size.add(&chunk) > EVENT_BYTES_MAX => {
                    Err(io::ErrorKind::InvalidData.into())
                }
                Ok(Ok(chunk)) => Ok(chunk.map(|chunk| (chunk, (body, size)))),
                Ok(Err(reason)) => Err(io::Error::other(reason)),
                Err(_) => Err(io::ErrorKind::TimedOut.into()),
            }
        });
        let frames = SseStream::from_bytes_stream(bytes).filter_map(move |read| {
            let frame = match read {
                Ok(sse) => sse
                    .data
                    .map(|data| Ok(SseFrame { id: sse.id, event: sse.event.unwrap_or_default(), data })),
                Err(error) if error.to_string().contains(&io::ErrorKind::InvalidData.to_string()) => {
                    Some(Err(client.invalid(format!("an event has more than {EVENT_BYTES_MAX} bytes"))))
                }
                Err(error) => Some(Err(client.broken(error.to_string()))),
            };
            std::future::ready(frame)
        });
        self.connection = Some(frames.boxed());
        Ok(())
    }

    async fn wait_to_reconnect(&mut self, lost: Option<Error>) -> Result<(), Error> {
        self.connection = None;
        // A connection that has lasted for some time shows that the server can be reached.
        if self.connected_at.take().is_some_and(|at| at.elapsed() > self.reconnect.delay_max) {
            self.attempt = 0;
        }
        let retry_after = lost.as_ref().and_then(Error::refusal).and_then(|refusal| refusal.retry_after);
        let Some(delay) = self.reconnect.delay(self.attempt, retry_after) else {
            return Err(
                lost.unwrap_or_else(|| self.request.client().broken("the stream ended early".to_owned()))
            );
        };
        self.attempt += 1;
        if let Some(notify) = &mut self.on_reconnect {
            notify(lost.as_ref(), delay);
        }
        tokio::time::sleep(delay).await;
        Ok(())
    }
}

/// Counts the bytes of the event that is being received.
#[derive(Default)]
struct EventSize {
    bytes: usize,
    ends_line: bool,
}

impl EventSize {
    /// Adds a chunk and returns the size. An empty line ends an event.
    fn add(&mut self, chunk: &[u8]) -> usize {
        let ends_event =
            chunk.windows(2).any(|pair| pair == b"\n\n") || (self.ends_line && chunk.starts_with(b"\n"));
        self.bytes = if ends_event { 0 } else { self.bytes + chunk.len() };
        self.ends_line = chunk.ends_with(b"\n");
        self.bytes
    }
}

impl fmt::Debug for EventStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("EventStream");
        shown.field("request", &self.request).field("last_id", &self.last_id).finish_non_exhaustive()
    }
}
