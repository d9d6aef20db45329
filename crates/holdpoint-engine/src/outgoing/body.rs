//! The body of a response, read in parts. It owns the connection and the slot of its call: dropping it closes the
//! socket and releases the slot.

use std::fmt;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::body::{Body as _, Incoming};
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::Instant;

use super::Error;
use super::connection::HttpConnection;
use super::error::excerpt;
use super::progress::CallStage;

/// A response with any status, whose body is not yet read.
#[derive(Debug)]
pub struct StreamedResponse {
    /// The HTTP status.
    pub status: u16,
    /// Header names in lower case, with values. Values that are not text are left out.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub body: ResponseBody,
}

/// The body of a response. It is read in parts.
pub struct ResponseBody {
    pub(super) origin: String,
    pub(super) incoming: Incoming,
    pub(super) connection: HttpConnection,
    pub(super) permit: Option<OwnedSemaphorePermit>,
    pub(super) bytes_max: usize,
    pub(super) bytes_read: usize,
    pub(super) timeouts: Option<BodyTimeouts>,
}

/// The time limits for reading a body.
#[derive(Clone, Copy, Debug)]
pub(super) struct BodyTimeouts {
    pub(super) until: Instant,
    /// Time limit of the whole call, for the error message.
    pub(super) within: Duration,
    /// Time limit for one part.
    pub(super) idle: Duration,
}

impl ResponseBody {
    /// Returns the next part, or None at the end. Cancel safe. Must not be called after an error.
    pub async fn next(&mut self) -> Result<Option<Bytes>, Error> {
        let Some(timeouts) = self.timeouts else { return self.next_frame().await };
        let now = Instant::now();
        let left = timeouts.until.saturating_duration_since(now);
        let (wait, limit) =
            if left <= timeouts.idle { (left, timeouts.within) } else { (timeouts.idle, timeouts.idle) };
        let origin = self.origin.clone();
        let in_time = tokio::time::timeout(wait, self.next_frame()).await;
        in_time.map_err(|_| super::timed_out(origin, limit, CallStage::Body))?
    }

    /// Reads the rest of the body.
    pub async fn read(&mut self) -> Result<Vec<u8>, Error> {
        let mut bytes = Vec::new();
        while let Some(piece) = self.next().await? {
            bytes.extend_from_slice(&piece);
        }
        Ok(bytes)
    }

    async fn next_frame(&mut self) -> Result<Option<Bytes>, Error> {
        let announced = usize::try_from(self.incoming.size_hint().lower()).unwrap_or(usize::MAX);
        if self.bytes_read.saturating_add(announced) > self.bytes_max {
            return Err(self.too_large());
        }
        loop {
            let frame = self.connection.drive(self.incoming.frame()).await;
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

impl fmt::Debug for ResponseBody {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = (self.permit.is_some(), self.connection.is_closed());
        f.debug_struct("ResponseBody")
            .field("origin", &self.origin)
            .field("bytes_read", &self.bytes_read)
            .field("has_permit_and_is_closed", &state)
            .finish_non_exhaustive()
    }
}
