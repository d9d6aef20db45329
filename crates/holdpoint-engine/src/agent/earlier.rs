//! What was said in a thread before a run began in it. No run begins there while another is open, so that this stays as it
//! is; and an agent wants it at each of its steps.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};

use holdpoint_core::RunRef;
use holdpoint_core::agent::Message;

use crate::store::{Database, Error, messages};

/// Messages that a model is shown of earlier runs.
const HISTORY_MAX: u64 = 200;
/// Runs whose past is remembered, and how much text of each; a longer one is read each time.
const RUNS_MAX: usize = 1024;
const BYTES_MAX: usize = 4 * 1024;

type Past = Arc<[Arc<Message>]>;

#[derive(Debug, Default)]
pub(crate) struct Earlier(Mutex<Remembered>);

#[derive(Debug, Default)]
struct Remembered {
    by_run: HashMap<RunRef, Past>,
    /// Oldest first.
    order: VecDeque<RunRef>,
}

impl Earlier {
    pub(crate) fn knows(&self, of: &RunRef) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).by_run.contains_key(of)
    }

    pub(crate) async fn of(&self, db: &Database, of: &RunRef, thread: &str) -> Result<Past, Error> {
        let remembered = self.0.lock().unwrap_or_else(PoisonError::into_inner).by_run.get(of).cloned();
        if let Some(past) = remembered {
            return Ok(past);
        }
        let said = messages::before(db, &of.tenant, thread, &of.run, HISTORY_MAX).await?;
        let past: Past = said.into_iter().map(|said| Arc::new(said.message)).collect();
        self.put(of, past.clone());
        Ok(past)
    }

    pub(crate) fn put(&self, of: &RunRef, past: Past) {
        if past.iter().map(|message| weight(message)).sum::<usize>() > BYTES_MAX {
            return;
        }
        let mut remembered = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if remembered.by_run.insert(of.clone(), past).is_none() {
            remembered.order.push_back(of.clone());
        }
        while remembered.order.len() > RUNS_MAX {
            let Some(oldest) = remembered.order.pop_front() else { return };
            remembered.by_run.remove(&oldest);
        }
    }
}

/// About what a message takes up.
fn weight(message: &Message) -> usize {
    serde_json::to_string(message).map_or(usize::MAX / 1024, |text| text.len())
}
