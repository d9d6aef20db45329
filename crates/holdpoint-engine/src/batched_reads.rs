//! Coalesces concurrent reads of runs: callers that arrive while enough queries run share the next query.

use std::collections::{BTreeSet, HashMap};
use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError};

use holdpoint_core::RunRef;
use tokio::sync::oneshot;

use crate::store::events::StoredLog;
use crate::store::{Database, Error, events, runs};

/// A value that one query reads for many runs.
pub(crate) trait BatchRead: Clone + Send + Sync + 'static {
    /// The maximum number of runs in one query.
    const BATCH_MAX: usize;
    /// The maximum number of concurrent queries.
    const CONCURRENT_MAX: usize;

    /// Reads the values of these runs. Runs that do not exist are missing in the result.
    fn read_batch(
        db: &Database,
        of: &[RunRef],
    ) -> impl Future<Output = Result<HashMap<RunRef, Self>, Error>> + Send;
}

/// The number of stored events of a run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EventCount(pub u64);

impl BatchRead for EventCount {
    const BATCH_MAX: usize = 500;
    const CONCURRENT_MAX: usize = 1;

    async fn read_batch(db: &Database, of: &[RunRef]) -> Result<HashMap<RunRef, Self>, Error> {
        Ok(runs::sequences(db, of).await?.into_iter().map(|(of, seq)| (of, Self(seq))).collect())
    }
}

/// The stored log of a run. Batches are small and several queries run at once, because some logs are long.
impl BatchRead for Arc<StoredLog> {
    const BATCH_MAX: usize = 32;
    const CONCURRENT_MAX: usize = 3;

    async fn read_batch(db: &Database, of: &[RunRef]) -> Result<HashMap<RunRef, Self>, Error> {
        let logs = events::logs(db, of).await?;
        Ok(logs.into_iter().map(|(of, stored)| (of, Self::new(stored))).collect())
    }
}

/// Queue of reads of one kind. Each reader task executes one batch after another.
#[derive(Debug)]
pub(crate) struct BatchedReads<T> {
    queue: Mutex<ReadQueue<T>>,
}

#[derive(Debug)]
struct ReadQueue<T> {
    requests: Vec<ReadRequest<T>>,
    /// The number of reader tasks. Each looks at the queue again after its query.
    readers: usize,
}

#[derive(Debug)]
struct ReadRequest<T> {
    of: RunRef,
    reply: oneshot::Sender<Result<Option<T>, Error>>,
}

impl<T> Default for BatchedReads<T> {
    fn default() -> Self {
        Self { queue: Mutex::new(ReadQueue { requests: Vec::new(), readers: 0 }) }
    }
}

/// Unregisters a reader task that ends by a panic or with the runtime, so that the next caller starts a new one. If it
/// was the last reader, the waiting callers get an error.
struct ReaderGuard<'a, T> {
    of: &'a BatchedReads<T>,
    is_active: bool,
}

impl<T> Drop for ReaderGuard<'_, T> {
    fn drop(&mut self) {
        if self.is_active {
            let mut queue = self.of.lock();
            queue.readers -= 1;
            if queue.readers == 0 {
                queue.requests.clear();
            }
        }
    }
}

impl<T: BatchRead> BatchedReads<T> {
    /// Returns the value that a query read after the call began, or `None` if the run does not exist.
    pub(crate) async fn read(self: &Arc<Self>, db: &Database, of: &RunRef) -> Result<Option<T>, Error> {
        let (reply, answer) = oneshot::channel();
        let start = {
            let mut queue = self.lock();
            queue.requests.push(ReadRequest { of: of.clone(), reply });
            let start = queue.readers < T::CONCURRENT_MAX;
            queue.readers += usize::from(start);
            start
        };
        if start {
            // Reads on a separate task, because the caller can drop this future.
            tokio::spawn(self.clone().run_reader(db.clone()));
        }
        answer.await.map_err(|_| Error::Closed)?
    }

    async fn run_reader(self: Arc<Self>, db: Database) {
        let mut guard = ReaderGuard { of: &self, is_active: true };
        loop {
            let batch: Vec<ReadRequest<T>> = {
                let mut queue = self.lock();
                if queue.requests.is_empty() {
                    // The reader ends under the same lock, so that no caller enqueues a read for it.
                    queue.readers -= 1;
                    guard.is_active = false;
                    return;
                }
                let most = queue.requests.len().min(T::BATCH_MAX);
                queue.requests.drain(..most).collect()
            };
            let of: BTreeSet<&RunRef> = batch.iter().map(|request| &request.of).collect();
            let of: Vec<RunRef> = of.into_iter().cloned().collect();
            let found = T::read_batch(&db, &of).await;
            for ReadRequest { of, reply } in batch {
                let answer = match &found {
                    Ok(found) => Ok(found.get(&of).cloned()),
                    Err(error) => Err(error.copied()),
                };
                // An error means that the caller no longer waits.
                let _ = reply.send(answer);
            }
        }
    }
}

impl<T> BatchedReads<T> {
    fn lock(&self) -> std::sync::MutexGuard<'_, ReadQueue<T>> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::Semaphore;

    use super::*;
    use crate::engine::{Engine, Options};
    use crate::location::Location;

    /// `BEGUN` counts started queries. `SLOW` and `DOOMED` let the queries for `slow` and `doomed` continue.
    static BEGUN: Semaphore = Semaphore::const_new(0);
    static SLOW: Semaphore = Semaphore::const_new(0);
    static DOOMED: Semaphore = Semaphore::const_new(0);

    #[derive(Clone, Debug, PartialEq)]
    struct TestValue;

    impl BatchRead for TestValue {
        const BATCH_MAX: usize = 1;
        const CONCURRENT_MAX: usize = 2;

        async fn read_batch(_: &Database, of: &[RunRef]) -> Result<HashMap<RunRef, Self>, Error> {
            BEGUN.add_permits(1);
            match of[0].run.as_str() {
                "slow" => SLOW.acquire().await.unwrap().forget(),
                "doomed" => {
                    DOOMED.acquire().await.unwrap().forget();
                    panic!("doomed");
                }
                _ => {}
            }
            Ok(of.iter().map(|of| (of.clone(), Self)).collect())
        }
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn waiting_reads_complete_if_one_of_several_readers_panics() {
        let folder = tempfile::tempdir().unwrap();
        let engine = Engine::open(Options::new(Location::Sqlite(folder.path().join("db"))).manual_worker())
            .await
            .unwrap();
        let reads = Arc::new(BatchedReads::<TestValue>::default());
        let read = |run: &str| {
            let (reads, db) = (reads.clone(), engine.db().clone());
            let tenant = holdpoint_core::TenantId::parse("default").unwrap();
            let of = RunRef { tenant, run: holdpoint_core::RunId::parse(run).unwrap() };
            tokio::spawn(async move { reads.read(&db, &of).await })
        };
        let slow = read("slow");
        BEGUN.acquire().await.unwrap().forget();
        let doomed = read("doomed");
        BEGUN.acquire().await.unwrap().forget();
        let other = read("other");
        while reads.lock().requests.is_empty() {
            tokio::task::yield_now().await;
        }
        DOOMED.add_permits(1);
        assert!(matches!(doomed.await.unwrap(), Err(Error::Closed)), "the reply channel is closed");
        while reads.lock().readers > 1 {
            tokio::task::yield_now().await;
        }
        SLOW.add_permits(1);
        assert_eq!(slow.await.unwrap().unwrap(), Some(TestValue));
        assert_eq!(other.await.unwrap().unwrap(), Some(TestValue));
        engine.close().await;
    }
}
