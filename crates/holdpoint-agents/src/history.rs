//! Caches the messages that a thread had before its latest run. The agent needs them at each step. They do not change
//! once the run has started: the earlier runs have ended, and later runs sort after it. So the history of the next run
//! is this one with the messages since then.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};

use holdpoint_core::agent::{Message, Role};
use holdpoint_core::{RunId, RunRef, TenantId};

use holdpoint_engine::{Engine, Error};

/// The maximum size of the cache, and of one thread in it. A longer history is not cached.
const BYTES_MAX: usize = 16 * 1024 * 1024;
const THREAD_BYTES_MAX: usize = 256 * 1024;
/// The size of an entry without messages.
const ENTRY_BYTES: usize = 512;

type Messages = Vec<Arc<Message>>;

/// The last messages of a thread before a run.
#[derive(Clone, Debug)]
struct CachedHistory {
    run: RunId,
    messages: Arc<Messages>,
    /// The position of the last message.
    last: Option<Position>,
    /// The number of messages that were read at most.
    limit: u32,
    /// The approximate size in memory.
    bytes: usize,
}

/// The position of a message: its run and its sequence.
type Position = (RunId, u64);

#[derive(Debug, Default)]
pub(crate) struct ThreadHistory(Mutex<HistoryCache>);

#[derive(Debug, Default)]
struct HistoryCache {
    by_thread: HashMap<ThreadKey, CachedHistory>,
    /// The threads in `by_thread`, oldest first.
    order: VecDeque<ThreadKey>,
    bytes: usize,
}

type ThreadKey = (TenantId, String);

/// Messages for the cache, with the position of the last one and the number that was read at most.
struct CachedMessages {
    messages: Messages,
    last: Option<Position>,
    limit: u32,
}

impl ThreadHistory {
    /// Returns whether the history of a run can be returned without a query.
    pub(crate) fn contains(&self, of: &RunRef, thread: &str) -> bool {
        self.get(of, thread).is_some_and(|cached| cached.run == of.run)
    }

    /// Returns the last messages before a run, at most `limit`. They begin with a message to the agent, so that no
    /// result is without its call.
    pub(crate) async fn load(
        &self,
        engine: &Engine,
        of: &RunRef,
        thread: &str,
        limit: u32,
    ) -> Result<Messages, Error> {
        let cached = self.get(of, thread).filter(|cached| [limit, u32::MAX].contains(&cached.limit));
        let messages = match cached {
            Some(cached) if cached.run == of.run => cached.messages,
            Some(cached) if cached.run < of.run => self.load_after(engine, of, thread, cached, limit).await?,
            Some(_) | None => self.load_all(engine, of, thread, limit).await?,
        };
        let is_cut = messages.len() == limit as usize;
        Ok(if is_cut { from_input(&messages) } else { messages.to_vec() })
    }

    async fn load_all(
        &self,
        engine: &Engine,
        of: &RunRef,
        thread: &str,
        limit: u32,
    ) -> Result<Arc<Messages>, Error> {
        let rows = engine.threads().messages_before(of, thread, None, limit).await?;
        let last = rows.last().map(|row| (row.run.clone(), row.seq));
        let messages = rows.into_iter().map(|row| Arc::new(row.message)).collect();
        Ok(self.insert(of, thread, CachedMessages { messages, last, limit }))
    }

    /// Returns the cached messages with those since then. If a run has branched off an earlier one, the last cached
    /// message can have left the thread; then all messages are read.
    async fn load_after(
        &self,
        engine: &Engine,
        of: &RunRef,
        thread: &str,
        cached: CachedHistory,
        limit: u32,
    ) -> Result<Arc<Messages>, Error> {
        let since = cached.last.as_ref().map(|(run, seq)| (run, *seq));
        let mut rows = engine.threads().messages_before(of, thread, since, limit).await?;
        let is_whole = rows.len() == limit as usize;
        if let Some((run, seq)) = since.filter(|_| !is_whole) {
            if rows.first().is_none_or(|first| (&first.run, first.seq) != (run, seq)) {
                return self.load_all(engine, of, thread, limit).await;
            }
            rows.remove(0);
        }
        let last = rows.last().map(|row| (row.run.clone(), row.seq)).or(cached.last);
        let new = rows.into_iter().map(|row| Arc::new(row.message));
        let mut messages: Messages = match is_whole {
            true => new.collect(),
            false => cached.messages.iter().cloned().chain(new).collect(),
        };
        messages.drain(..messages.len().saturating_sub(limit as usize));
        Ok(self.insert(of, thread, CachedMessages { messages, last, limit }))
    }

    /// Records that a thread is new: its first run has no history.
    pub(crate) fn insert_new(&self, of: &RunRef, thread: &str) {
        self.insert(of, thread, CachedMessages { messages: Vec::new(), last: None, limit: u32::MAX });
    }

    fn get(&self, of: &RunRef, thread: &str) -> Option<CachedHistory> {
        let key = (of.tenant.clone(), thread.to_owned());
        self.0.lock().unwrap_or_else(PoisonError::into_inner).by_thread.get(&key).cloned()
    }

    fn insert(&self, of: &RunRef, thread: &str, new: CachedMessages) -> Arc<Messages> {
        let CachedMessages { messages, last, limit } = new;
        let messages = Arc::new(messages);
        let bytes = ENTRY_BYTES + messages.iter().map(|message| approximate_bytes(message)).sum::<usize>();
        if bytes <= THREAD_BYTES_MAX {
            let (run, messages) = (of.run.clone(), messages.clone());
            let history = CachedHistory { run, messages, last, limit, bytes };
            let key = (of.tenant.clone(), thread.to_owned());
            self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(key, history);
        }
        messages
    }
}

impl HistoryCache {
    fn insert(&mut self, key: ThreadKey, history: CachedHistory) {
        self.bytes += history.bytes;
        match self.by_thread.insert(key.clone(), history) {
            Some(replaced) => self.bytes -= replaced.bytes,
            None => self.order.push_back(key),
        }
        while self.bytes > BYTES_MAX {
            let Some(oldest) = self.order.pop_front() else { return };
            self.bytes -= self.by_thread.remove(&oldest).map_or(0, |removed| removed.bytes);
        }
    }
}

/// Returns the messages from the first message to the agent on; without one, from the first reply on.
fn from_input(messages: &[Arc<Message>]) -> Messages {
    let position = |roles: &[Role]| messages.iter().position(|message| roles.contains(&message.role));
    let first = position(&[Role::User, Role::System]).or_else(|| position(&[Role::Assistant]));
    messages[first.unwrap_or(messages.len())..].to_vec()
}

/// Returns the approximate size of a message in memory.
fn approximate_bytes(message: &Message) -> usize {
    let text = message.content.as_str().map(str::len);
    let is_plain = message.calls.is_empty() && message.metadata.is_empty();
    match text.filter(|_| is_plain) {
        Some(length) => size_of::<Message>() + length,
        None => serde_json::to_string(message).map_or(usize::MAX / 1024, |text| text.len()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ids_from_input(roles: &[Role]) -> Vec<String> {
        let named = |(at, role): (usize, &Role)| Arc::new(Message::new(at.to_string(), *role, ""));
        let messages: Messages = roles.iter().enumerate().map(named).collect();
        from_input(&messages).iter().map(|message| message.id.clone()).collect()
    }

    fn new_messages(messages: Messages) -> CachedMessages {
        CachedMessages { messages, last: None, limit: 200 }
    }

    #[test]
    fn the_cache_has_a_maximum_size_and_keeps_the_newest_threads() {
        let history = ThreadHistory::default();
        let of = RunRef { tenant: TenantId::parse("t").unwrap(), run: RunId::parse("r").unwrap() };
        let message = || Arc::new(Message::new("m", Role::User, "x".repeat(THREAD_BYTES_MAX / 4)));
        let count = BYTES_MAX / THREAD_BYTES_MAX * 2;
        for number in 0..count {
            history.insert(&of, &number.to_string(), new_messages(vec![message(), message(), message()]));
            history.insert(&of, &number.to_string(), new_messages(vec![message(), message()]));
        }
        let cached: Vec<bool> = (0..count).map(|number| history.contains(&of, &number.to_string())).collect();
        assert!(!cached[0] && cached[count - 1]);
        let cache = history.0.lock().unwrap();
        let sum: usize = cache.by_thread.values().map(|entry| entry.bytes).sum();
        assert_eq!((cache.bytes, cache.order.len()), (sum, cache.by_thread.len()));
        assert!(sum <= BYTES_MAX && sum > BYTES_MAX / 2, "{sum}");
        drop(cache);
        history.insert(&of, "large", new_messages((0..5).map(|_| message()).collect()));
        assert!(!history.contains(&of, "large"));
    }

    #[test]
    fn a_cut_history_begins_with_a_message_to_the_agent() {
        use Role::{Assistant, System, Tool, User};
        assert_eq!(ids_from_input(&[Tool, Assistant, Tool, User, Assistant]), ["3", "4"]);
        assert_eq!(ids_from_input(&[Tool, System, User]), ["1", "2"]);
        assert_eq!(ids_from_input(&[Tool, Assistant, Tool]), ["1", "2"], "a run with very many calls");
        assert!(ids_from_input(&[Tool, Tool]).is_empty());
    }
}
