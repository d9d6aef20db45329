//! The clock of the engine. Tests use a manual clock.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use holdpoint_core::Timestamp;

/// The source of the current time.
#[derive(Clone, Debug)]
pub enum Clock {
    /// The clock of the operating system.
    System,
    /// A clock that moves only by [`Clock::advance`], in milliseconds since the Unix epoch.
    Manual(Arc<AtomicI64>),
}

impl Clock {
    /// Returns a manual clock that shows `ms`.
    pub fn manual(ms: i64) -> Self {
        Self::Manual(Arc::new(AtomicI64::new(ms)))
    }

    /// Returns the current time.
    pub fn now(&self) -> Timestamp {
        match self {
            Self::System => {
                let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
                Timestamp(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
            }
            Self::Manual(ms) => Timestamp(ms.load(Ordering::SeqCst)),
        }
    }

    /// Moves a manual clock forward. Has no effect on the system clock.
    pub fn advance(&self, ms: i64) {
        if let Self::Manual(now) = self {
            now.fetch_add(ms, Ordering::SeqCst);
        }
    }
}
