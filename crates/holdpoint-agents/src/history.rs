//! Caches the messages that a thread had before a run started in it. The agent needs them at each step. They do not
//! change while the run is open, because no other run starts in the thread.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};

use holdpoint_core::RunRef;
use holdpoint_core::agent::Message;

use holdpoint_engine::{Engine, Error};

/// The maximum number of messages of earlier runs in a prompt.
const HISTORY_MAX: u64 = 200;
/// The maximum number of runs in the cache, and of bytes per run. A longer history is not cached.
const RUNS_MAX: usize = 1024;
const BYTES_MAX: usize = 4 * 1024;

type EarlierMessages = Arc<[Arc<Message>]>;

#[derive(Debug, Default)]
pub(crate) struct ThreadHistory(Mutex<HistoryCache>);

#[derive(Debug, Default)]
struct HistoryCache {
    by_run: HashMap<RunRef, EarlierMessages>,
    /// The runs in `by_run`, oldest first.
    order: VecDeque<RunRef>,
}

impl ThreadHistory {
    pub(crate) fn contains(&self, of: &RunRef) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).by_run.contains_key(of)
    }

    pub(crate) async fn load(
        &self,
        engine: &Engine,
        of: &RunRef,
        thread: &str,
    ) -> Result<EarlierMessages, Error> {
        let cached = self.0.lock().unwrap_or_else(PoisonError::into_inner).by_run.get(of).cloned();
        if let Some(past) = cached {
            return Ok(past);
        }
        let rows = engine.threads().messages_before(of, thread, HISTORY_MAX).await?;
        let past: EarlierMessages = rows.into_iter().map(|row| Arc::new(row.message)).collect();
        self.insert(of, past.clone());
        Ok(past)
    }

    pub(crate) fn insert(&self, of: &RunRef, past: EarlierMessages) {
        if past.iter().map(|message| approximate_bytes(message)).sum::<usize>() > BYTES_MAX {
            return;
        }
        let mut cache = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if cache.by_run.insert(of.clone(), past).is_none() {
            cache.order.push_back(of.clone());
        }
        while cache.order.len() > RUNS_MAX {
            let Some(oldest) = cache.order.pop_front() else { return };
            cache.by_run.remove(&oldest);
        }
    }
}

/// Returns the approximate size of a message in memory.
fn approximate_bytes(message: &Message) -> usize {
    serde_json::to_string(message).map_or(usize::MAX / 1024, |text| text.len())
}
