//! How far a call has come, so that one that runs out of time can say where.

use std::fmt;
use std::sync::atomic::{AtomicU8, Ordering};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    Turn,
    Name,
    Connection,
    Handshake,
    Answer,
    Body,
}

impl Stage {
    const ALL: [Self; 6] =
        [Self::Turn, Self::Name, Self::Connection, Self::Handshake, Self::Answer, Self::Body];
}

impl fmt::Display for Stage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Turn => "the call waited for its turn",
            Self::Name => "its name was looked up",
            Self::Connection => "the connection was opened",
            Self::Handshake => "the TLS handshake was under way",
            Self::Answer => "its answer was waited for",
            Self::Body => "its answer was read",
        })
    }
}

/// Shared by the call and whoever ends it.
#[derive(Debug, Default)]
pub(super) struct Progress(AtomicU8);

impl Progress {
    pub(super) fn at(&self, stage: Stage) {
        self.0.store(stage as u8, Ordering::Relaxed);
    }

    pub(super) fn stage(&self) -> Stage {
        Stage::ALL[usize::from(self.0.load(Ordering::Relaxed))]
    }
}
