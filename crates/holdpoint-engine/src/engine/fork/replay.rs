//! Replay of a run: outside data comes from the record, nodes execute again, and their events are compared with the
//! record. A replay has no outside effects.

use std::collections::BTreeMap;
use std::sync::Arc;

use holdpoint_core::{
    Answer, Command, Event, InterruptId, NodeOutcome, NodeStatus, NodeWork, Refusal, Run, RunRef, Timestamp,
    decide, limits,
};

use super::apply_event;
use super::record::SourceLog;
use crate::draft::RunDraft;
use crate::engine::Engine;
use crate::error::Error;
use crate::nodes::NodeType;
use crate::worker::{DryPurpose, DryResult, NodeResult, execute_dry};

/// The state of a replay.
pub(super) struct ForkReplay<'e> {
    engine: &'e Engine,
    record: &'e SourceLog,
    of: RunRef,
    pub run: Arc<Run>,
    /// The events so far, grouped by the commits of the source.
    pub rows: Vec<(Timestamp, Vec<Event>)>,
    /// The next position in the record.
    at: usize,
    /// Before this position, recorded events replace derived ones that differ.
    until: usize,
}

/// The end of a replay.
#[derive(Debug, Default)]
pub(super) struct ReplayEnd {
    /// The event that reports the first difference.
    pub diverged: Option<Event>,
    /// The derived events after the difference or after the end of a truncated record.
    pub rest: Vec<Event>,
}

impl<'e> ForkReplay<'e> {
    pub(super) fn new(
        engine: &'e Engine,
        record: &'e SourceLog,
        of: RunRef,
        new_run: Run,
        from_seq: u64,
    ) -> Self {
        let until = usize::try_from(from_seq).unwrap_or(usize::MAX);
        Self { engine, record, of, run: Arc::new(new_run), rows: Vec::new(), at: 0, until }
    }

    /// Replays the record to its end or to the first difference.
    pub(super) async fn compare_all(&mut self) -> Result<ReplayEnd, Error> {
        // Copies events up to the start of the last commit before `until`, and executes nodes from there on.
        let rest = self.record.last_commit_start(self.until);
        while (self.at as u64) < rest && self.at < self.record.events.len() {
            self.copy_next();
        }
        while let Some(next) = self.record.events.get(self.at) {
            if next.event.is_external() || self.is_tool_write(&next.event) {
                self.copy_next();
                continue;
            }
            match self.derive(&next.event, next.at).await? {
                Derivation::Events(events) => {
                    if let Some(ended) = self.compare(events) {
                        return Ok(ended);
                    }
                }
                Derivation::Nothing(_) if self.at < self.until => self.copy_next(),
                Derivation::Nothing(found) => return Ok(self.diverged(found.to_owned(), Vec::new())),
            }
        }
        Ok(ReplayEnd::default())
    }

    /// Returns whether a tool of an agent wrote the variable. Such a write is outside data, like the result of the
    /// tool; other nodes derive their writes.
    fn is_tool_write(&self, event: &Event) -> bool {
        let Event::VariableChanged { node, .. } = event else { return false };
        self.run.node_state(node).is_some_and(|state| state.agent.is_some())
    }

    /// Compares derived events with the record. Returns the end of the replay if the record ends or differs.
    fn compare(&mut self, events: Vec<Event>) -> Option<ReplayEnd> {
        let mut alike = true;
        let mut derived = events.into_iter();
        while let Some(event) = derived.next() {
            if self.at >= self.record.events.len() {
                let rest = std::iter::once(event).chain(derived).filter(|_| alike).collect();
                return Some(ReplayEnd { diverged: None, rest });
            }
            match self.record.matching_event(self.at, &event, &self.run.id) {
                Some(event) => self.append(event),
                None if self.at < self.until => {
                    alike = false;
                    self.copy_next();
                }
                None => {
                    let found = event.name().to_owned();
                    return Some(self.diverged(found, std::iter::once(event).chain(derived).collect()));
                }
            }
        }
        None
    }

    fn diverged(&self, found: String, rest: Vec<Event>) -> ReplayEnd {
        let expected = self.record.events.get(self.at).map_or("", |one| one.event.name()).to_owned();
        let (source, at_sequence) = (self.record.source.clone(), self.at as u64);
        ReplayEnd { diverged: Some(Event::ReplayDiverged { source, at_sequence, expected, found }), rest }
    }

    /// Derives the next events of the run.
    async fn derive(&self, recorded: &Event, at: Timestamp) -> Result<Derivation, Error> {
        let mut draft = RunDraft::new(self.of.clone(), self.run.clone(), at);
        if self.run.started.is_none() {
            draft.decide(&Command::Start(Box::new(self.record.start.clone())))?;
            return Ok(Derivation::Events(draft.events));
        }
        // The outcome of a running node is derived regardless of the order of work.
        let named = recorded.executed_node().and_then(|node| self.run.workflow.position(node));
        let running = named.filter(|position| self.run.nodes[*position].status == NodeStatus::Running);
        let named = running.map(NodeWork::Enter).or_else(|| self.recorded_begin(recorded));
        if named.is_none() && !self.run.is_settled() {
            draft.decide(&Command::Settle)?;
            return Ok(Derivation::Events(draft.events));
        }
        let decided = match named.or_else(|| self.run.next_work()) {
            None => return Ok(Derivation::Nothing("nothing")),
            Some(NodeWork::Begin(position)) => {
                let node = &self.run.workflow.nodes[position];
                let effect = self.engine.nodes().effect_of(node);
                draft.decide(&Command::Begin { node: node.id.clone(), effect })
            }
            Some(NodeWork::Enter(position)) => {
                return Ok(self.derive_outcome(draft, position, recorded).await);
            }
        };
        Ok(derivation(draft, decided))
    }

    /// Derives the outcome of a running node.
    async fn derive_outcome(&self, draft: RunDraft, position: usize, recorded: &Event) -> Derivation {
        let mut older = RunDraft::new(draft.of.clone(), draft.run.clone(), draft.now);
        let derived = self.enter(draft, position, recorded).await;
        if self.run.nodes[position].unseen.is_none() || self.matches(&derived) {
            return derived;
        }
        // In runs of older versions, a node saw the changes of the nodes that ended before it was entered.
        Arc::make_mut(&mut older.run).nodes[position].unseen = None;
        let seen = self.enter(older, position, recorded).await;
        if self.matches(&seen) { seen } else { derived }
    }

    async fn enter(&self, mut draft: RunDraft, position: usize, recorded: &Event) -> Derivation {
        let done = execute_node(self.engine, &draft, position).await;
        let Some(NodeResult { actions, outcome }) =
            done.or_else(|| failed_outside(recorded).map(NodeResult::from))
        else {
            return Derivation::Nothing("a step that is not recorded");
        };
        let decided = draft.record_actions(position, actions).and_then(|()| draft.finish(position, outcome));
        derivation(draft, decided)
    }

    /// Returns whether derived events match the record at this position.
    fn matches(&self, derived: &Derivation) -> bool {
        let Derivation::Events(events) = derived else { return false };
        let mut events = events.iter().enumerate();
        events.all(|(place, event)| {
            let at = self.at + place;
            at >= self.record.events.len() || self.record.matching_event(at, event, &self.run.id).is_some()
        })
    }

    /// Returns the node that begins in the record at this position, if it is ready. The record decides the order of
    /// several ready nodes.
    fn recorded_begin(&self, recorded: &Event) -> Option<NodeWork> {
        let Event::NodeStarted { node, .. } = recorded else { return None };
        let begins = NodeWork::Begin(self.run.workflow.position(node)?);
        self.run.ready_work().into_iter().find(|work| *work == begins)
    }

    fn copy_next(&mut self) {
        if let Some(next) = self.record.events.get(self.at) {
            self.append(next.event.clone());
        }
    }

    /// Appends an event with the recorded time of this position.
    fn append(&mut self, event: Event) {
        let at = self.record.events.get(self.at).map_or(self.run.updated_at, |one| one.at);
        Arc::make_mut(&mut self.run).apply(&event, at);
        match self.rows.last_mut() {
            Some((_, row)) if !self.record.commit_starts.contains(&(self.at as u64)) => row.push(event),
            _ => self.rows.push((at, vec![event])),
        }
        self.at += 1;
    }
}

/// The result of one step of the derivation.
enum Derivation {
    Events(Vec<Event>),
    /// No events, with the text for the report of the difference.
    Nothing(&'static str),
}

/// Returns the events of a derivation.
fn derivation(draft: RunDraft, decided: Result<(), Refusal>) -> Derivation {
    match decided {
        Ok(()) if !draft.events.is_empty() => Derivation::Events(draft.events),
        Ok(()) | Err(_) => Derivation::Nothing("nothing"),
    }
}

/// Executes one node. Returns `None` if it needs an outside effect that is not recorded.
async fn execute_node(engine: &Engine, draft: &RunDraft, position: usize) -> Option<NodeResult> {
    let node = &draft.run.workflow.nodes[position];
    match engine.nodes().get(&node.type_id) {
        Some(NodeType::Pure(pure)) => Some(draft.execute_pure(position, pure.clone().as_ref()).into()),
        Some(NodeType::Effect(_)) | None => {
            match execute_dry(engine, draft, position, DryPurpose::Replay).await {
                DryResult::Ended(result) => Some(result),
                DryResult::Stopped(_) => None,
            }
        }
    }
}

/// Returns the recorded failure of a node. A failed step has no other record.
fn failed_outside(recorded: &Event) -> Option<NodeOutcome> {
    match recorded {
        Event::NodeFailed { error, .. } | Event::NodeRetried { error, .. } => {
            Some(NodeOutcome::Failed(error.clone()))
        }
        _ => None,
    }
}

/// Continues after a difference: takes answers to the same interrupts and results of the same steps from the record and
/// executes the rest live. Interrupts are the same if they show the same payload.
pub(super) async fn continue_with_record(
    engine: &Engine,
    draft: &mut RunDraft,
    record: &SourceLog,
) -> Result<(), Error> {
    let new_run = Run::new(draft.run.id.clone(), draft.run.workflow.clone());
    let (answers, steps) = (record.answers(&draft.run.id), record.steps(new_run));
    for _ in 0..=limits::NODE_EXECUTIONS_MAX {
        engine.advance(draft).await?;
        let run = draft.run.clone();
        // For a quorum, the next recorded vote.
        let answered = run.open_interrupts().filter(|_| !run.finished()).filter_map(|asked| {
            Some((asked.id, answers.get(&asked.key)?.get(asked.votes.len())?.to_answer(asked)))
        });
        // An interrupt that refuses the recorded answer stays open; the others continue.
        if answered.into_iter().any(|(id, answered)| answer(draft, id, answered).is_ok()) {
            continue;
        }
        let Some(work) = draft.begin_next()? else { return Ok(()) };
        let position = work.position();
        let node = draft.run.workflow.nodes[position].id.clone();
        let state = &draft.run.nodes[position];
        let known = steps.get(&(node.clone(), state.visit)).into_iter().flatten();
        let missing: Vec<_> = known.filter(|(name, _)| !state.steps.contains_key(name)).cloned().collect();
        for (name, result) in missing {
            apply_event(draft, Event::StepRecorded { node: node.clone(), name, result, took_ms: None });
        }
        match execute_node(engine, draft, position).await {
            Some(NodeResult { actions, outcome }) => {
                draft.record_actions(position, actions)?;
                draft.finish(position, outcome)?;
            }
            None => return Ok(()),
        }
    }
    Ok(())
}

fn answer(draft: &mut RunDraft, id: InterruptId, answer: Answer) -> Result<(), Refusal> {
    let command = Command::Resolve { answers: BTreeMap::from([(id, answer)]) };
    // The roles of a principal are not recorded. A refusal because of a missing role must not be recorded.
    match decide(&draft.run, &command, draft.now)?.iter().find_map(Event::denial) {
        Some(refusal) => Err(refusal),
        None => draft.decide(&command),
    }
}
