//! Server-sent events, across lost connections.

use std::fmt;
use std::io;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::{BoxStream, Stream, try_unfold, unfold};
use holdpoint_api::ids::Status;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use sse_stream::SseStream;

use crate::error::Error;
use crate::request::Request;
use crate::retry::RetryPolicy;
use crate::transport::next_chunk;

/// Tries for about twenty seconds, which is enough for a server to restart.
const RECONNECT: RetryPolicy =
    RetryPolicy { retries: 8, delay_first: Duration::from_millis(200), delay_max: Duration::from_secs(5) };

/// The server sends a comment on an idle stream more often than this.
const SILENCE_MAX: Duration = Duration::from_secs(90);

/// A stream of server-sent events. When the connection is lost, the stream connects again and continues after the last
/// event that it has returned.
pub struct EventStream {
    request: Request<()>,
    end: End,
    reconnect: RetryPolicy,
    last_id: Option<String>,
    connection: Option<BoxStream<'static, Result<Frame, Error>>>,
    /// Attempts to connect since the last event.
    attempt: u32,
    has_ended: bool,
    on_reconnect: Option<Box<OnReconnect>>,
}

/// Gets the error, if there is one, and the delay before the next attempt.
type OnReconnect = dyn FnMut(Option<&Error>, Duration) + Send;

/// How a stream recognises its end.
#[derive(Debug)]
pub(crate) enum End {
    /// The run has ended. This request tells its status.
    OfRun(Box<Request<RunStatus>>),
    /// The server closes the stream.
    AtClose,
    /// The stream has no end. A stream that the server closes is opened again.
    Never,
}

impl End {
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

/// The status in a snapshot of a run.
#[derive(Debug, Deserialize)]
pub(crate) struct RunStatus {
    pub(crate) status: Status,
}

/// One server-sent event.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Frame {
    pub id: Option<String>,
    /// The type of the event.
    pub event: String,
    pub data: String,
}

impl Frame {
    /// Parses the data.
    pub fn parse<T: DeserializeOwned>(&self) -> Result<T, serde_json::Error> {
        serde_json::from_str(&self.data)
    }
}

impl EventStream {
    pub(crate) fn new(request: Request<()>, end: End) -> Self {
        Self {
            request,
            end,
            reconnect: RECONNECT,
            last_id: None,
            connection: None,
            attempt: 0,
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

    /// Sets how often the stream connects again after it has lost its connection, instead of for about twenty seconds.
    #[must_use]
    pub fn reconnect(mut self, policy: RetryPolicy) -> Self {
        self.reconnect = policy;
        self
    }

    /// Calls `notify` before each new attempt to connect, with the error and the delay.
    #[must_use]
    pub fn on_reconnect(mut self, notify: impl FnMut(Option<&Error>, Duration) + Send + 'static) -> Self {
        self.on_reconnect = Some(Box::new(notify));
        self
    }

    /// Returns the id of the last event, with which a later stream can continue.
    pub fn last_id(&self) -> Option<&str> {
        self.last_id.as_deref()
    }

    /// Returns the next event, or None after the last one. Returns an error if the server refuses the stream, or if it
    /// cannot be reached for about twenty seconds.
    pub async fn next(&mut self) -> Result<Option<Frame>, Error> {
        loop {
            if self.has_ended {
                return Ok(None);
            }
            let lost = match &mut self.connection {
                None => match self.connect().await {
                    Ok(()) => continue,
                    // The first connection must succeed at once; a later one may need time.
                    Err(error) if error.is_transient() && self.attempt > 0 => Some(error),
                    Err(error) => return Err(error),
                },
                Some(connection) => match connection.next().await {
                    Some(Ok(frame)) => return Ok(Some(self.accept(frame))),
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

    /// Turns the stream into a `futures` stream. It ends after an error.
    pub fn into_stream(self) -> impl Stream<Item = Result<Frame, Error>> + Send {
        unfold(Some(self), |state| async {
            let mut events = state?;
            match events.next().await {
                Ok(Some(frame)) => Some((Ok(frame), Some(events))),
                Ok(None) => None,
                Err(error) => Some((Err(error), None)),
            }
        })
    }

    fn accept(&mut self, frame: Frame) -> Frame {
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
        let response = request.open("text/event-stream").await?;
        let client = request.client().clone();
        let bytes = try_unfold(response.into_body(), |mut body| async {
            match tokio::time::timeout(SILENCE_MAX, next_chunk(&mut body)).await {
                Ok(Ok(chunk)) => Ok(chunk.map(|chunk| (chunk, body))),
                Ok(Err(reason)) => Err(io::Error::other(reason)),
                Err(_) => Err(io::ErrorKind::TimedOut.into()),
            }
        });
        let frames = SseStream::from_bytes_stream(bytes).filter_map(move |read| {
            let frame = match read {
                Ok(sse) => {
                    sse.data.map(|data| Ok(Frame { id: sse.id, event: sse.event.unwrap_or_default(), data }))
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
        let Some(delay) = self.reconnect.delay(self.attempt, None) else {
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

impl fmt::Debug for EventStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("EventStream");
        shown.field("path", &self.request.path()).field("last_id", &self.last_id).finish_non_exhaustive()
    }
}
