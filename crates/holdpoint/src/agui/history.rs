//! Reads the last part of what was said in a thread: of agents from the table of messages, of workflows from the logs of
//! their runs. The limits are those of a snapshot, so that a request costs the same however long its thread is.

use std::collections::BTreeMap;
use std::sync::Arc;

use holdpoint_api::agui::Message;
use holdpoint_core::agent::{self, in_prompt_order};
use holdpoint_core::{Run, RunId, RunRef, TenantId};
use holdpoint_engine::{Engine, Said};

use super::messages;
use super::target::Target;
use crate::error::ApiError;

/// Messages read at a time.
const PAGE: u64 = 250;
/// Runs of a workflow in a thread that are told, the last ones.
const RUNS_MAX: u64 = 50;

/// The last messages of a thread, oldest first.
#[derive(Debug, Default)]
pub(super) struct History {
    said: Vec<Entry>,
    /// Set if the thread has older messages.
    is_cut: bool,
}

/// A message, the run in which it was said, and the number of the event that says it.
#[derive(Debug)]
struct Entry {
    run: RunId,
    seq: u64,
    message: Message,
}

impl History {
    pub(super) async fn read(
        engine: &Engine,
        tenant: &TenantId,
        thread: &str,
        target: &Target,
    ) -> Result<Self, ApiError> {
        match target {
            Target::Agent { .. } => Self::of_agent(engine, tenant, thread).await,
            Target::Workflow(_) => Self::of_workflow(engine, tenant, thread).await,
        }
    }

    async fn of_agent(engine: &Engine, tenant: &TenantId, thread: &str) -> Result<Self, ApiError> {
        let (mut all, mut bytes): (Vec<Said>, usize) = (Vec::new(), 0);
        let mut history = Self::default();
        loop {
            let before = all.last().map(|first| (first.run.clone(), first.seq));
            let before = before.as_ref().map(|(run, seq)| (run, *seq));
            let page = engine.last_messages(tenant, thread, before, PAGE).await?;
            bytes += page.iter().map(|said| messages::weight(&said.message)).sum::<usize>();
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
                one.iter().map(|said| (said.message.id.as_str(), said.seq)).collect();
            let said: Vec<_> = one.iter().map(|said| Arc::new(said.message.clone())).collect();
            let run = one.first().map(|first| &first.run);
            for message in in_prompt_order(&said) {
                let seq = seqs.get(message.id.as_str()).copied().unwrap_or_default();
                let shown = run.map(|run| (run.clone(), messages::of_agent(run, &message)));
                history.said.extend(shown.map(|(run, message)| Entry { run, seq, message }));
            }
        }
        Ok(history)
    }

    async fn of_workflow(engine: &Engine, tenant: &TenantId, thread: &str) -> Result<Self, ApiError> {
        let mut history = Self::default();
        let mut runs = Vec::new();
        let mut count = 0;
        for summary in engine.thread_runs(tenant, thread, None, RUNS_MAX).await? {
            if count >= messages::MESSAGES_MAX {
                history.is_cut = true;
                break;
            }
            let of = RunRef { tenant: tenant.clone(), run: summary.run };
            let run = engine.run(&of).await?;
            let (mut log, mut next) = (Vec::new(), 0);
            loop {
                let page = engine.events(&of, next).await?;
                let Some(last) = page.last() else { break };
                next = last.seq + 1;
                log.extend(page);
            }
            let unborn = Run::unborn(of.run.clone(), run.workflow.clone());
            let said = messages::of_workflow(unborn, &log);
            count += said.len();
            runs.push((of.run, said));
        }
        history.is_cut |= runs.len() as u64 == RUNS_MAX;
        for (run, said) in runs.into_iter().rev() {
            let entry = |(seq, message)| Entry { run: run.clone(), seq, message };
            history.said.extend(said.into_iter().map(entry));
        }
        Ok(history)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.said.is_empty()
    }

    #[cfg(test)]
    pub(super) fn of(said: Vec<Message>, is_cut: bool) -> Self {
        let run = RunId::parse("r").unwrap();
        let entry = |message| Entry { run: run.clone(), seq: 0, message };
        Self { said: said.into_iter().map(entry).collect(), is_cut }
    }

    /// Returns whether the thread has messages that are older than these.
    pub(super) fn is_cut(&self) -> bool {
        self.is_cut
    }

    pub(super) fn told(&self) -> impl Iterator<Item = &Message> {
        self.said.iter().map(|entry| &entry.message).filter(|message| is_told(message))
    }

    pub(super) fn snapshot(self) -> Vec<Message> {
        let said: Vec<Message> = self.said.into_iter().map(|entry| entry.message).collect();
        messages::snapshot(&said)
    }

    /// Returns the thread as it was when this run was as it is, and behind it what is told to the run now.
    pub(super) fn with(mut self, run: &Run, new: &[agent::Message]) -> Vec<Message> {
        self.said.retain(|entry| entry.run != run.id || entry.seq < run.seq);
        let new = new.iter().map(|message| messages::of_agent(&run.id, message));
        self.said.extend(new.map(|message| Entry { run: run.id.clone(), seq: run.seq, message }));
        self.snapshot()
    }

    /// Returns the thread as it was when the run began, with what was told to the run before it said anything: the rest is
    /// told again, in its order.
    pub(super) fn before(mut self, run: &RunId) -> Vec<Message> {
        let is_reply = |entry: &Entry| entry.run == *run && !is_told(&entry.message);
        let reply = self.said.iter().position(is_reply).unwrap_or(self.said.len());
        let entries = self.said.into_iter().enumerate();
        let kept = entries.filter(|(at, entry)| entry.run != *run || *at < reply);
        self.said = kept.map(|(_, entry)| entry).collect();
        self.snapshot()
    }
}

/// Returns true for messages to an agent, and false for those of agents and tools.
fn is_told(message: &Message) -> bool {
    match message {
        Message::Developer { .. } | Message::System { .. } | Message::User { .. } => true,
        Message::Assistant { .. } | Message::Tool { .. } => false,
    }
}
