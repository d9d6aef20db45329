//! Reads the last messages of a thread: for agents from the table of messages, for workflows from the logs of their
//! runs. Reads no more messages than the caller needs, so that the cost does not grow with the thread.

use std::collections::HashMap;
use std::sync::Arc;

use holdpoint_api::agui::Message;
use holdpoint_core::agent::{self, in_prompt_order};
use holdpoint_core::{Run, RunId, RunRef, TenantId};
use holdpoint_engine::{Engine, ThreadMessage};

use super::messages;
use super::target::AgUiTarget;
use crate::error::ApiError;

/// The number of messages per query.
const PAGE: usize = 250;
/// The maximum number of runs of a workflow that are read, newest first.
const RUNS_MAX: u64 = 50;

/// The last messages of a thread, oldest first.
#[derive(Debug, Default)]
pub(super) struct History {
    entries: Vec<HistoryEntry>,
    /// The maximum number of messages in a snapshot.
    limit: usize,
    /// Set if the thread has older messages.
    is_cut: bool,
}

/// A message, its run, and the sequence of its event.
#[derive(Debug)]
struct HistoryEntry {
    run: RunId,
    seq: u64,
    message: Message,
}

/// A thread whose messages are read.
#[derive(Clone, Copy, Debug)]
pub(super) struct ThreadSource<'a> {
    pub engine: &'a Engine,
    pub tenant: &'a TenantId,
    pub thread: &'a str,
    pub target: &'a AgUiTarget,
}

/// Returns the last runs of a thread, newest first, at most [`RUNS_MAX`]. Leaves out runs that a branch has abandoned.
pub(super) async fn lineage(
    engine: &Engine,
    tenant: &TenantId,
    thread: &str,
) -> Result<Vec<Arc<Run>>, ApiError> {
    let (mut runs, mut until): (Vec<Arc<Run>>, Option<RunId>) = (Vec::new(), None);
    for summary in engine.threads().runs(tenant, thread, None, RUNS_MAX).await? {
        if until.as_ref().is_some_and(|until| summary.run > *until) {
            continue;
        }
        let run = engine.runs().get(&RunRef { tenant: tenant.clone(), run: summary.run }).await?;
        until = run.started.as_ref().and_then(|started| started.branch_of.clone());
        runs.push(run);
    }
    Ok(runs)
}

impl ThreadSource<'_> {
    /// Reads the last messages of the thread, at most `limit` of an agent.
    pub(super) async fn read(self, limit: usize) -> Result<History, ApiError> {
        match self.target {
            AgUiTarget::Agent { .. } => self.read_messages(limit).await,
            AgUiTarget::Workflow(_) => self.read_logs().await,
        }
    }

    async fn read_messages(self, limit: usize) -> Result<History, ApiError> {
        let Self { engine, tenant, thread, .. } = self;
        let (mut all, mut bytes): (Vec<ThreadMessage>, usize) = (Vec::new(), 0);
        let mut history = History { limit, ..History::default() };
        while !history.is_cut {
            let before = all.last().map(|first| (first.run.clone(), first.seq));
            let before = before.as_ref().map(|(run, seq)| (run, *seq));
            // One message more shows whether the thread has older ones.
            let count = PAGE.min(limit + 1 - all.len());
            let page = engine.threads().last_messages(tenant, thread, before, count as u64).await?;
            bytes += page.iter().map(|found| messages::estimate_bytes(&found.message)).sum::<usize>();
            let is_first = page.len() < count;
            all.extend(page);
            if is_first {
                break;
            }
            history.is_cut = all.len() > limit || bytes >= messages::BYTES_MAX;
        }
        all.truncate(limit);
        all.reverse();
        let found: Vec<_> = all.into_iter().map(|one| (one.run, one.seq, Arc::new(one.message))).collect();
        for of_run in found.chunk_by(|(one, ..), (other, ..)| one == other) {
            let seqs: HashMap<*const agent::Message, u64> =
                of_run.iter().map(|(_, seq, message)| (Arc::as_ptr(message), *seq)).collect();
            let messages: Vec<_> = of_run.iter().map(|(.., message)| message.clone()).collect();
            let Some((run, ..)) = of_run.first() else { continue };
            for message in in_prompt_order(&messages) {
                let seq = seqs.get(&Arc::as_ptr(&message)).copied().unwrap_or_default();
                let entry = |message| HistoryEntry { run: run.clone(), seq, message };
                history.entries.extend(messages::of_agent(run, &message).into_iter().map(entry));
            }
        }
        Ok(history)
    }

    async fn read_logs(self) -> Result<History, ApiError> {
        let Self { engine, tenant, thread, .. } = self;
        let mut history = History { limit: messages::MESSAGES_MAX, ..History::default() };
        let mut runs = Vec::new();
        let mut count = 0;
        for run in lineage(engine, tenant, thread).await? {
            if count >= messages::MESSAGES_MAX {
                history.is_cut = true;
                break;
            }
            let of = RunRef { tenant: tenant.clone(), run: run.id.clone() };
            let (mut log, mut next) = (Vec::new(), 0);
            loop {
                let page = engine.events().list(&of, next).await?;
                let Some(last) = page.last() else { break };
                next = last.seq + 1;
                log.extend(page);
            }
            let initial = Run::new(of.run.clone(), run.workflow.clone());
            let found = messages::of_workflow(initial, &log);
            count += found.len();
            runs.push((of.run, found));
        }
        history.is_cut |= runs.len() as u64 == RUNS_MAX;
        for (run, found) in runs.into_iter().rev() {
            let entry = |(seq, message)| HistoryEntry { run: run.clone(), seq, message };
            history.entries.extend(found.into_iter().map(entry));
        }
        Ok(history)
    }
}

impl History {
    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    #[cfg(test)]
    pub(super) fn of(messages: Vec<Message>, is_cut: bool) -> Self {
        let run = RunId::parse("r").unwrap();
        let entry = |message| HistoryEntry { run: run.clone(), seq: 0, message };
        Self { entries: messages.into_iter().map(entry).collect(), limit: messages::MESSAGES_MAX, is_cut }
    }

    /// Returns whether the thread has messages that are older than these.
    pub(super) fn is_cut(&self) -> bool {
        self.is_cut
    }

    pub(super) fn messages(&self) -> impl Iterator<Item = &Message> {
        self.entries.iter().map(|entry| &entry.message)
    }

    /// Returns whether all messages were added to the run in this state or later.
    pub(super) fn is_after(&self, run: &RunId, seq: u64) -> bool {
        self.entries.iter().all(|entry| entry.run == *run && entry.seq >= seq)
    }

    /// Returns the messages to the agent: those of users, systems and developers.
    pub(super) fn input_messages(&self) -> impl Iterator<Item = &Message> {
        self.messages().filter(|message| is_input(message))
    }

    /// Returns the messages of a run and of those before it.
    pub(super) fn until(mut self, run: &RunId) -> Self {
        self.entries.retain(|entry| entry.run <= *run);
        self
    }

    pub(super) fn snapshot(self) -> Vec<Message> {
        let found = self.entries.into_iter().map(|entry| entry.message).collect();
        messages::snapshot(found, self.limit)
    }

    /// Returns the thread up to this state of the run, followed by new messages for the run.
    pub(super) fn with_new(mut self, run: &Run, new: &[agent::Message]) -> Self {
        self.entries.retain(|entry| entry.run != run.id || entry.seq < run.seq);
        let new = new.iter().flat_map(|message| messages::of_agent(&run.id, message));
        self.entries.extend(new.map(|message| HistoryEntry { run: run.id.clone(), seq: run.seq, message }));
        self
    }

    /// Returns the thread before the first reply of the run, including the messages that the run got until then. The
    /// stream of the run repeats all later messages in order.
    pub(super) fn before_run(mut self, run: &RunId) -> Self {
        let is_reply = |entry: &HistoryEntry| entry.run == *run && !is_input(&entry.message);
        let reply = self.entries.iter().position(is_reply).unwrap_or(self.entries.len());
        let entries = self.entries.into_iter().enumerate();
        let kept = entries.filter(|(at, entry)| entry.run != *run || *at < reply);
        self.entries = kept.map(|(_, entry)| entry).collect();
        self
    }
}

/// Returns whether a message is addressed to an agent. Messages of agents and tools are not.
fn is_input(message: &Message) -> bool {
    match message {
        Message::Developer { .. } | Message::System { .. } | Message::User { .. } => true,
        Message::Assistant { .. } | Message::Reasoning { .. } | Message::Tool { .. } => false,
    }
}
