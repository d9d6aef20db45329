//! The body of an answer, as it comes. It holds the connection and the turn of its call: whoever drops it closes the
//! socket and lets the next call have its turn.

use std::convert::Infallible;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::{Body as _, Incoming};
use hyper::client::conn::http1::SendRequest;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::Instant;

use super::Error;
use super::error::excerpt;
use super::progress::Stage;

/// What moves the bytes of a connection. Never done: what ends a connection is told to whoever reads.
pub(super) type Driving = Pin<Box<dyn Future<Output = Infallible> + Send>>;

/// What came back, whatever its status, up to where its body begins.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    /// Names in lower case. Values that are not text are left out.
    pub headers: Vec<(String, String)>,
    pub body: Body,
}

pub struct Body {
    pub(super) origin: String,
    pub(super) incoming: Incoming,
    pub(super) driving: Driving,
    /// Without it the connection would think that nobody wants anything any more.
    pub(super) sender: SendRequest<Full<Bytes>>,
    pub(super) turn: Option<OwnedSemaphorePermit>,
    pub(super) bytes_max: usize,
    pub(super) bytes_read: usize,
    pub(super) patience: Option<Patience>,
}

/// How long is waited for the pieces of a body.
#[derive(Clone, Copy, Debug)]
pub(super) struct Patience {
    pub(super) until: Instant,
    /// The whole call's, to be told.
    pub(super) within: Duration,
    /// For one piece.
    pub(super) idle: Duration,
}

impl Body {
    /// The next bytes, or nothing at the end. Whoever gives up waiting loses none. After an error nothing sensible comes.
    pub async fn next(&mut self) -> Result<Option<Bytes>, Error> {
        let Some(patience) = self.patience else { return self.piece().await };
        let now = Instant::now();
        let left = patience.until.saturating_duration_since(now);
        let (wait, told) =
            if left <= patience.idle { (left, patience.within) } else { (patience.idle, patience.idle) };
        let origin = self.origin.clone();
        let in_time = tokio::time::timeout(wait, self.piece()).await;
        in_time.map_err(|_| super::timed_out(origin, told, Stage::Body))?
    }

    /// All that is left of it.
    pub async fn read(&mut self) -> Result<Vec<u8>, Error> {
        let mut bytes = Vec::new();
        while let Some(piece) = self.next().await? {
            bytes.extend_from_slice(&piece);
        }
        Ok(bytes)
    }

    async fn piece(&mut self) -> Result<Option<Bytes>, Error> {
        let announced = usize::try_from(self.incoming.size_hint().lower()).unwrap_or(usize::MAX);
        if self.bytes_read.saturating_add(announced) > self.bytes_max {
            return Err(self.too_large());
        }
        loop {
            let frame = tokio::select! {
                frame = self.incoming.frame() => frame,
                never = &mut self.driving => match never {},
            };
            let Some(frame) = frame else { return Ok(None) };
            let frame =
                frame.map_err(|error| Error::Broken { origin: self.origin.clone(), why: excerpt(&error) })?;
            let Ok(data) = frame.into_data() else { continue };
            self.bytes_read += data.len();
            if self.bytes_read > self.bytes_max {
                return Err(self.too_large());
            }
            return Ok(Some(data));
        }
    }

    fn too_large(&self) -> Error {
        Error::BodyTooLarge { origin: self.origin.clone(), bytes_max: self.bytes_max }
    }
}

impl fmt::Debug for Body {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let held = (self.turn.is_some(), self.sender.is_closed());
        f.debug_struct("Body")
            .field("origin", &self.origin)
            .field("bytes_read", &self.bytes_read)
            .field("has_turn_and_is_closed", &held)
            .finish_non_exhaustive()
    }
}
