//! Where the engine gets the time from. Tests hold the hands of a manual clock.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use holdpoint_core::Timestamp;

#[derive(Clone, Debug)]
pub enum Clock {
    System,
    Manual(Arc<AtomicI64>),
}

impl Clock {
    /// A clock that stands still at `ms` until it is advanced.
    pub fn manual(ms: i64) -> Self {
        Self::Manual(Arc::new(AtomicI64::new(ms)))
    }

    pub fn now(&self) -> Timestamp {
        match self {
            Self::System => {
                let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
                Timestamp(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
            }
            Self::Manual(ms) => Timestamp(ms.load(Ordering::SeqCst)),
        }
    }

    /// Moves a manual clock forward; the system's clock moves by itself.
    pub fn advance(&self, ms: i64) {
        if let Self::Manual(now) = self {
            now.fetch_add(ms, Ordering::SeqCst);
        }
    }
}
