//! Events as one JSON document. What does not fit a page goes out page by page, so that the length of a log is no
//! matter of memory.

use axum::body::Body;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use futures_util::StreamExt;
use futures_util::stream::{once, unfold};
use tokio::time::Instant;

use crate::error::ApiError;
use crate::openwop::log::{Reader, Rest};
use crate::openwop::mode::Modes;

pub(super) struct Listing {
    reader: Reader,
    modes: Modes,
    /// Read and not written yet.
    waiting: Option<Rest>,
    /// Whether to say that there will be no more.
    tells_end: bool,
    stage: Stage,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    Nothing,
    /// Written so far: the beginning.
    Opened,
    /// At least one event.
    Filled,
    Closed,
}

impl Listing {
    pub(super) fn new(reader: Reader, modes: Modes) -> Self {
        Self { reader, modes, waiting: None, tells_end: false, stage: Stage::Nothing }
    }

    #[must_use]
    pub(super) fn tells_end(mut self) -> Self {
        self.tells_end = true;
        self
    }

    /// Until there is something to show, nothing will come, or the time is up.
    pub(super) async fn wait(&mut self, deadline: Instant) -> Result<(), ApiError> {
        while let Ok(next) = tokio::time::timeout_at(deadline, self.reader.next()).await {
            match next? {
                Some(rest) if rest.shown(self.modes).next().is_none() => {}
                rest => {
                    self.waiting = rest;
                    break;
                }
            }
        }
        Ok(())
    }

    #[expect(clippy::disallowed_methods, reason = "the list ends with the log as it is now")]
    pub(super) async fn into_response(mut self) -> Result<Response, ApiError> {
        let first = self.chunk().await?.unwrap_or_default();
        let body = if self.stage == Stage::Closed {
            Body::from(first)
        } else {
            let rest = unfold(self, |mut listing| async move {
                let chunk = listing.chunk().await.transpose()?;
                Some((chunk.map_err(|error| std::io::Error::other(format!("{error:?}"))), listing))
            });
            Body::from_stream(once(async { Ok(first) }).chain(rest.boxed()))
        };
        Ok(([(header::CONTENT_TYPE, "application/json")], body).into_response())
    }

    /// The next piece of the document; nothing behind its end.
    async fn chunk(&mut self) -> Result<Option<Bytes>, ApiError> {
        if self.stage == Stage::Closed {
            return Ok(None);
        }
        let mut text = Vec::new();
        if self.stage == Stage::Nothing {
            text.extend_from_slice(b"{\"events\":[");
            self.stage = Stage::Opened;
        }
        let rest = match self.waiting.take() {
            Some(rest) => Some(rest),
            None => self.reader.read().await?,
        };
        for document in rest.iter().flat_map(|rest| rest.shown(self.modes)) {
            if self.stage == Stage::Filled {
                text.push(b',');
            }
            text.extend_from_slice(document);
            self.stage = Stage::Filled;
        }
        if !self.reader.behind() {
            text.push(b']');
            if self.tells_end {
                text.extend_from_slice(format!(",\"isComplete\":{}", self.reader.ended()).as_bytes());
            }
            text.push(b'}');
            self.stage = Stage::Closed;
        }
        Ok(Some(text.into()))
    }
}
