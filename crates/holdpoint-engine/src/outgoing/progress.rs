//! The progress of a call. A timeout error names the current stage.

use std::fmt;
use std::sync::atomic::{AtomicU8, Ordering};

/// A stage of an outgoing call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallStage {
    /// Waiting for a free slot.
    Turn,
    /// Resolving the host name.
    Name,
    /// Connecting.
    Connection,
    /// Performing the TLS handshake.
    Handshake,
    /// Waiting for the response.
    Answer,
    /// Reading the response body.
    Body,
}

impl CallStage {
    const ALL: [Self; 6] =
        [Self::Turn, Self::Name, Self::Connection, Self::Handshake, Self::Answer, Self::Body];
}

impl fmt::Display for CallStage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Turn => "waiting for a free slot",
            Self::Name => "resolving the host name",
            Self::Connection => "connecting",
            Self::Handshake => "performing the TLS handshake",
            Self::Answer => "waiting for the response",
            Self::Body => "reading the response",
        })
    }
}

/// The current stage, shared by the call and its timeout.
#[derive(Debug, Default)]
pub(super) struct CallProgress(AtomicU8);

impl CallProgress {
    pub(super) fn enter(&self, stage: CallStage) {
        self.0.store(stage as u8, Ordering::Relaxed);
    }

    pub(super) fn stage(&self) -> CallStage {
        CallStage::ALL[usize::from(self.0.load(Ordering::Relaxed))]
    }
}
