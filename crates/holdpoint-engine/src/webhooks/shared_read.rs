//! Coalesces concurrent reads of one value: callers that arrive while a read runs share the next one.

use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::Mutex;

/// The reads of one value.
#[derive(Debug)]
pub(super) struct SharedRead<T> {
    calls: AtomicU64,
    last: Mutex<LastRead<T>>,
}

#[derive(Debug)]
struct LastRead<T> {
    /// The number of calls before the read began.
    calls: u64,
    value: Option<T>,
}

impl<T> Default for SharedRead<T> {
    fn default() -> Self {
        Self { calls: AtomicU64::new(0), last: Mutex::new(LastRead { calls: 0, value: None }) }
    }
}

impl<T: Clone> SharedRead<T> {
    /// Returns a value that was read after the call began: by another call that waited too, or with `read`.
    pub(super) async fn read<E>(&self, read: impl Future<Output = Result<T, E>>) -> Result<T, E> {
        let call = self.calls.fetch_add(1, Ordering::SeqCst) + 1;
        let mut last = self.last.lock().await;
        if let Some(value) = last.value.as_ref().filter(|_| last.calls >= call) {
            return Ok(value.clone());
        }
        let calls = self.calls.load(Ordering::SeqCst);
        let value = read.await?;
        *last = LastRead { calls, value: Some(value.clone()) };
        Ok(value)
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use tokio::sync::Notify;

    use super::*;

    #[tokio::test]
    async fn calls_that_arrive_during_a_read_share_the_next_one() {
        let (shared, stored, reads) = (SharedRead::default(), Cell::new(1), Cell::new(0));
        let (begun, proceed) = (Notify::new(), Notify::new());
        let read = async || {
            reads.set(reads.get() + 1);
            let found = stored.get();
            begun.notify_one();
            proceed.notified().await;
            Ok::<_, ()>(found)
        };
        let change = async {
            begun.notified().await;
            stored.set(2);
            proceed.notify_one();
            begun.notified().await;
            stored.set(3);
            proceed.notify_one();
        };
        let later = async || {
            tokio::task::yield_now().await;
            shared.read(read()).await
        };
        let found = tokio::join!(shared.read(read()), later(), later(), later(), change);
        assert_eq!((found.0, found.1, found.2, found.3), (Ok(1), Ok(2), Ok(2), Ok(2)));
        assert_eq!(reads.get(), 2);
        proceed.notify_one();
        assert_eq!(shared.read(read()).await, Ok(3), "a value of an earlier call is not returned");
    }

    #[tokio::test]
    async fn a_read_that_fails_or_is_dropped_is_not_shared() {
        let shared = SharedRead::default();
        let failed = shared.read(async { Err::<u8, _>("broken") }).await;
        assert_eq!(failed, Err("broken"));
        let stuck = tokio::time::timeout(
            std::time::Duration::ZERO,
            shared.read(std::future::pending::<Result<u8, ()>>()),
        );
        assert!(stuck.await.is_err());
        assert_eq!(shared.read(async { Ok::<_, ()>(7) }).await, Ok(7));
    }
}
