//! Reads the last messages of a thread: for agents from the table of messages, for workflows from the logs of their
//! runs. Stops when the messages fill a snapshot, so that the cost does not grow with the thread.

use std::collections::BTreeMap;
use std::sync::Arc;

use holdpoint_api::agui::Message;
use holdpoint_core::agent::{self, in_prompt_order};
use holdpoint_core::{Run, RunId, RunRef, TenantId};
use holdpoint_engine::{Engine, ThreadMessage};

use super::messages;
use super::target::AgUiTarget;
use crate::error::ApiError;

/// The number of messages per query.
const PAGE: u64 = 250;
/// The maximum number of runs of a workflow that are read, newest first.
const RUNS_MAX: u64 = 50;

/// The last messages of a thread, oldest first.
#[derive(Debug, Default)]
pub(super) struct History {
    entries: Vec<HistoryEntry>,
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

impl History {
    pub(super) async fn read(
        engine: &Engine,
        tenant: &TenantId,
        thread: &str,
        target: &AgUiTarget,
    ) -> Result<Self, ApiError> {
        match target {
            AgUiTarget::Agent { .. } => Self::of_agent(engine, tenant, thread).await,
            AgUiTarget::Workflow(_) => Self::of_workflow(engine, tenant, thread).await,
        }
    }

    async fn of_agent(engine: &Engine, tenant: &TenantId, thread: &str) -> Result<Self, ApiError> {
        let (mut all, mut bytes): (Vec<ThreadMessage>, usize) = (Vec::new(), 0);
        let mut history = Self::default();
        loop {
            let before = all.last().map(|first| (first.run.clone(), first.seq));
            let before = before.as_ref().map(|(run, seq)| (run, *seq));
            let page = engine.threads().last_messages(tenant, thread, before, PAGE).await?;
            bytes += page.iter().map(|found| messages::estimate_bytes(&found.message)).sum::<usize>();
            let is_first = (page.len() as u64) < PAGE;
            all.extend(page);
            history.is_cut =
                !is_first && (all.len() >= messages::MESSAGES_MAX || bytes >= messages::BYTES_MAX);
            if is_first || history.is_cut {
                break;
            }
        }
        all.reverse();
        for one in all.chunk_by(|one, other| one.run == other.run) {
            let seqs: BTreeMap<&str, u64> =
                one.iter().map(|found| (found.message.id.as_str(), found.seq)).collect();
            let found: Vec<_> = one.iter().map(|found| Arc::new(found.message.clone())).collect();
            let run = one.first().map(|first| &first.run);
            for message in in_prompt_order(&found) {
                let seq = seqs.get(message.id.as_str()).copied().unwrap_or_default();
                let shown = run.map(|run| (run.clone(), messages::of_agent(run, &message)));
                history.entries.extend(shown.map(|(run, message)| HistoryEntry { run, seq, message }));
            }
        }
        Ok(history)
    }

    async fn of_workflow(engine: &Engine, tenant: &TenantId, thread: &str) -> Result<Self, ApiError> {
        let mut history = Self::default();
        let mut runs = Vec::new();
        let mut count = 0;
        for summary in engine.threads().runs(tenant, thread, None, RUNS_MAX).await? {
            if count >= messages::MESSAGES_MAX {
                history.is_cut = true;
                break;
            }
            let of = RunRef { tenant: tenant.clone(), run: summary.run };
            let run = engine.runs().get(&of).await?;
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

    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    #[cfg(test)]
    pub(super) fn of(messages: Vec<Message>, is_cut: bool) -> Self {
        let run = RunId::parse("r").unwrap();
        let entry = |message| HistoryEntry { run: run.clone(), seq: 0, message };
        Self { entries: messages.into_iter().map(entry).collect(), is_cut }
    }

    /// Returns whether the thread has messages that are older than these.
    pub(super) fn is_cut(&self) -> bool {
        self.is_cut
    }

    /// Returns the messages to the agent: those of users, systems and developers.
    pub(super) fn input_messages(&self) -> impl Iterator<Item = &Message> {
        self.entries.iter().map(|entry| &entry.message).filter(|message| is_input(message))
    }

    pub(super) fn snapshot(self) -> Vec<Message> {
        let found: Vec<Message> = self.entries.into_iter().map(|entry| entry.message).collect();
        messages::snapshot(&found)
    }

    /// Returns the thread up to this state of the run, followed by new messages for the run.
    pub(super) fn with_new(mut self, run: &Run, new: &[agent::Message]) -> Vec<Message> {
        self.entries.retain(|entry| entry.run != run.id || entry.seq < run.seq);
        let new = new.iter().map(|message| messages::of_agent(&run.id, message));
        self.entries.extend(new.map(|message| HistoryEntry { run: run.id.clone(), seq: run.seq, message }));
        self.snapshot()
    }

    /// Returns the thread before the first reply of the run, including the messages that the run got until then. The
    /// stream of the run repeats all later messages in order.
    pub(super) fn before_run(mut self, run: &RunId) -> Vec<Message> {
        let is_reply = |entry: &HistoryEntry| entry.run == *run && !is_input(&entry.message);
        let reply = self.entries.iter().position(is_reply).unwrap_or(self.entries.len());
        let entries = self.entries.into_iter().enumerate();
        let kept = entries.filter(|(at, entry)| entry.run != *run || *at < reply);
        self.entries = kept.map(|(_, entry)| entry).collect();
        self.snapshot()
    }
}

/// Returns whether a message is addressed to an agent. Messages of agents and tools are not.
fn is_input(message: &Message) -> bool {
    match message {
        Message::Developer { .. } | Message::System { .. } | Message::User { .. } => true,
        Message::Assistant { .. } | Message::Tool { .. } => false,
    }
}
