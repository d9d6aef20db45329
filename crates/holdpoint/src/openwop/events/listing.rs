//! The events of a run as one JSON document. A long log is sent page by page, so that memory does not grow with its
//! length.

use axum::body::Body;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use futures_util::StreamExt;
use futures_util::stream::{once, unfold};
use tokio::time::Instant;

use crate::error::ApiError;
use crate::openwop::log::{LogReader, UnreadFrames};
use crate::openwop::stream_modes::StreamModes;

pub(super) struct EventListing {
    reader: LogReader,
    modes: StreamModes,
    /// Events that were read and are not written yet.
    buffered: Option<UnreadFrames>,
    /// Set if the document has the member `isComplete`.
    with_completion: bool,
    stage: ListingStage,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum ListingStage {
    NotStarted,
    /// The beginning of the document is written.
    Opened,
    /// At least one event is written.
    Filled,
    Closed,
}

impl EventListing {
    pub(super) fn new(reader: LogReader, modes: StreamModes) -> Self {
        Self { reader, modes, buffered: None, with_completion: false, stage: ListingStage::NotStarted }
    }

    #[must_use]
    pub(super) fn with_completion(mut self) -> Self {
        self.with_completion = true;
        self
    }

    /// Waits until an event can be shown, the log ends, or the deadline passes.
    pub(super) async fn wait(&mut self, deadline: Instant) -> Result<(), ApiError> {
        while let Ok(next) = tokio::time::timeout_at(deadline, self.reader.next()).await {
            match next? {
                Some(rest) if rest.shown(self.modes).next().is_none() => {}
                rest => {
                    self.buffered = rest;
                    break;
                }
            }
        }
        Ok(())
    }

    #[expect(clippy::disallowed_methods, reason = "the list ends with the log as it is now")]
    pub(super) async fn into_response(mut self) -> Result<Response, ApiError> {
        let first = self.next_chunk().await?.unwrap_or_default();
        let body = if self.stage == ListingStage::Closed {
            Body::from(first)
        } else {
            let rest = unfold(self, |mut listing| async move {
                let chunk = listing.next_chunk().await.transpose()?;
                Some((chunk.map_err(|error| std::io::Error::other(format!("{error:?}"))), listing))
            });
            Body::from_stream(once(async { Ok(first) }).chain(rest.boxed()))
        };
        Ok(([(header::CONTENT_TYPE, "application/json")], body).into_response())
    }

    /// Returns the next part of the document, or None after its end.
    async fn next_chunk(&mut self) -> Result<Option<Bytes>, ApiError> {
        if self.stage == ListingStage::Closed {
            return Ok(None);
        }
        let mut text = Vec::new();
        if self.stage == ListingStage::NotStarted {
            text.extend_from_slice(b"{\"events\":[");
            self.stage = ListingStage::Opened;
        }
        let rest = match self.buffered.take() {
            Some(rest) => Some(rest),
            None => self.reader.read().await?,
        };
        for document in rest.iter().flat_map(|rest| rest.shown(self.modes)) {
            if self.stage == ListingStage::Filled {
                text.push(b',');
            }
            text.extend_from_slice(document);
            self.stage = ListingStage::Filled;
        }
        if !self.reader.has_unread() {
            text.push(b']');
            if self.with_completion {
                text.extend_from_slice(format!(",\"isComplete\":{}", self.reader.ended()).as_bytes());
            }
            text.push(b'}');
            self.stage = ListingStage::Closed;
        }
        Ok(Some(text.into()))
    }
}
