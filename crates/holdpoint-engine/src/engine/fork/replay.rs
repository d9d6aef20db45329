//! Tells a run again: facts come from the record, nodes are run, and what they come to is held against the record.
//! Nothing outside is touched.

use std::collections::BTreeMap;
use std::sync::Arc;

use holdpoint_core::agent::Act;
use holdpoint_core::{
    Answer, Command, Event, InterruptId, NodeStatus, Outcome, Refusal, Run, Timestamp, Work, decide, limits,
};

use super::happen;
use super::record::Record;
use crate::advance::Draft;
use crate::engine::Engine;
use crate::error::Error;
use crate::nodes::NodeType;
use crate::worker::Holder;

pub(super) struct Replay<'e> {
    engine: &'e Engine,
    record: &'e Record,
    pub run: Arc<Run>,
    /// What is written so far, commit by commit as in the source.
    pub rows: Vec<(Timestamp, Vec<Event>)>,
    /// The next place in the record.
    at: usize,
    /// Before this place the record is right, whatever the nodes say.
    until: usize,
}

/// How the record was left.
#[derive(Debug, Default)]
pub(super) struct Ended {
    /// The first difference.
    pub diverged: Option<Event>,
    /// What the run came to instead, or came to beyond a record that was cut.
    pub rest: Vec<Event>,
}

impl<'e> Replay<'e> {
    pub(super) fn new(engine: &'e Engine, record: &'e Record, unborn: Run, from_seq: u64) -> Self {
        let until = usize::try_from(from_seq).unwrap_or(usize::MAX);
        Self { engine, record, run: Arc::new(unborn), rows: Vec::new(), at: 0, until }
    }

    /// Goes through the record to its end, or to the first difference.
    pub(super) async fn tell(&mut self) -> Result<Ended, Error> {
        // Nodes are run again from where the source was last at rest.
        let rest = self.record.rest(self.until);
        while (self.at as u64) < rest && self.at < self.record.events.len() {
            self.take();
        }
        while let Some(next) = self.record.events.get(self.at) {
            if next.event.is_fact() || self.is_of_tool(&next.event) {
                self.take();
                continue;
            }
            match self.derive(&next.event, next.at).await? {
                Derived::Events(events) => {
                    if let Some(ended) = self.compare(events) {
                        return Ok(ended);
                    }
                }
                Derived::Nothing(_) if self.at < self.until => self.take(),
                Derived::Nothing(found) => return Ok(self.diverged(found.to_owned(), Vec::new())),
            }
        }
        Ok(Ended::default())
    }

    /// What tools change in the state of a run came from outside, as what they return did; what other nodes change, they work out.
    fn is_of_tool(&self, event: &Event) -> bool {
        let Event::VariableChanged { node, .. } = event else { return false };
        self.run.node_state(node).is_some_and(|state| state.agent.is_some())
    }

    /// Something is left where the record ends in the middle, or where it differs.
    fn compare(&mut self, events: Vec<Event>) -> Option<Ended> {
        let mut alike = true;
        let mut derived = events.into_iter();
        while let Some(event) = derived.next() {
            if self.at >= self.record.events.len() {
                let rest = std::iter::once(event).chain(derived).filter(|_| alike).collect();
                return Some(Ended { diverged: None, rest });
            }
            match self.record.same(self.at, &event, &self.run.id) {
                Some(event) => self.write(event),
                None if self.at < self.until => {
                    alike = false;
                    self.take();
                }
                None => {
                    let found = event.name().to_owned();
                    return Some(self.diverged(found, std::iter::once(event).chain(derived).collect()));
                }
            }
        }
        None
    }

    fn diverged(&self, found: String, rest: Vec<Event>) -> Ended {
        let expected = self.record.events.get(self.at).map_or("", |one| one.event.name()).to_owned();
        let (source, at_sequence) = (self.record.source.clone(), self.at as u64);
        Ended { diverged: Some(Event::ReplayDiverged { source, at_sequence, expected, found }), rest }
    }

    /// What the run comes to by itself now.
    async fn derive(&self, recorded: &Event, at: Timestamp) -> Result<Derived, Error> {
        let mut draft = Draft::new(self.run.clone(), at);
        if self.run.started.is_none() {
            draft.decide(&Command::Start(Box::new(self.record.start.clone())))?;
            return Ok(Derived::Events(draft.events));
        }
        // Whoever finishes a node does not ask whose turn it is.
        let named = recorded.outcome_of().and_then(|node| self.run.workflow.position(node));
        let running = named.filter(|position| self.run.nodes[*position].status == NodeStatus::Running);
        let work = running.map(Work::Enter).or_else(|| self.begun(recorded)).or_else(|| self.run.next_work());
        let decided = match work {
            None => return Ok(Derived::Nothing("nothing")),
            Some(Work::Begin(position)) => {
                let node = &self.run.workflow.nodes[position];
                let effect = self.engine.nodes().effect_of(node);
                draft.decide(&Command::Begin { node: node.id.clone(), effect })
            }
            Some(Work::Enter(position)) => {
                let done = enter(self.engine, &draft, position).await;
                match done.or_else(|| Some((Vec::new(), failed_outside(recorded)?))) {
                    Some((acts, outcome)) => {
                        draft.act(position, acts).and_then(|()| draft.finish(position, outcome))
                    }
                    None => return Ok(Derived::Nothing("a step that is not recorded")),
                }
            }
        };
        Ok(match decided {
            Ok(()) if !draft.events.is_empty() => Derived::Events(draft.events),
            Ok(()) | Err(_) => Derived::Nothing("nothing"),
        })
    }

    /// The node that the record begins here, if its turn has come: of several that may begin, the record knows the order.
    fn begun(&self, recorded: &Event) -> Option<Work> {
        let Event::NodeStarted { node, .. } = recorded else { return None };
        let begins = Work::Begin(self.run.workflow.position(node)?);
        self.run.ready_work().into_iter().find(|work| *work == begins)
    }

    fn take(&mut self) {
        if let Some(next) = self.record.events.get(self.at) {
            self.write(next.event.clone());
        }
    }

    /// With the time that the source has at this place.
    fn write(&mut self, event: Event) {
        let at = self.record.events.get(self.at).map_or(self.run.updated_at, |one| one.at);
        Arc::make_mut(&mut self.run).apply(&event, at);
        match self.rows.last_mut() {
            Some((_, row)) if !self.record.starts.contains(&(self.at as u64)) => row.push(event),
            _ => self.rows.push((at, vec![event])),
        }
        self.at += 1;
    }
}

enum Derived {
    Events(Vec<Event>),
    /// And why.
    Nothing(&'static str),
}

/// Runs one node; nothing when it wants to do something outside that is not on record.
async fn enter(engine: &Engine, draft: &Draft, position: usize) -> Option<(Vec<Act>, Outcome)> {
    let node = &draft.run.workflow.nodes[position];
    match engine.nodes().get(&node.type_id) {
        Some(NodeType::Pure(pure)) => Some((Vec::new(), draft.perform(position, pure.clone().as_ref()))),
        Some(NodeType::Effect(_)) | None => {
            let holder = Holder::replaying(engine.clone(), draft.now);
            holder.enter(draft.run.clone(), position).await
        }
    }
}

/// A step that failed leaves no record but the failure of its node.
fn failed_outside(recorded: &Event) -> Option<Outcome> {
    match recorded {
        Event::NodeFailed { error, .. } | Event::NodeRetried { error, .. } => {
            Some(Outcome::Failed(error.clone()))
        }
        _ => None,
    }
}

/// After a difference: what the record knows of the same questions and steps is still true, the rest is live. A question
/// is the same when the same is shown.
pub(super) async fn go_on(engine: &Engine, draft: &mut Draft, record: &Record) -> Result<(), Error> {
    let unborn = Run::unborn(draft.run.id.clone(), draft.run.workflow.clone());
    let (answers, steps) = (record.answers(&draft.run.id), record.steps(unborn));
    for _ in 0..=limits::NODE_EXECUTIONS_MAX {
        engine.carry_on(draft).await?;
        let run = draft.run.clone();
        // The next vote, where votes are counted.
        let said = run.open_interrupts().filter(|_| !run.finished()).filter_map(|asked| {
            Some((asked.id, answers.get(&asked.key)?.get(asked.votes.len())?.again(asked)))
        });
        // A question that takes no answer from the record stays open, and keeps none of the others open.
        if said.into_iter().any(|(id, said)| answer(draft, id, said).is_ok()) {
            continue;
        }
        let Some(work) = draft.begin_next()? else { return Ok(()) };
        let position = work.position();
        let node = draft.run.workflow.nodes[position].id.clone();
        let state = &draft.run.nodes[position];
        let known = steps.get(&(node.clone(), state.visit)).into_iter().flatten();
        let missing: Vec<_> = known.filter(|(name, _)| !state.steps.contains_key(name)).cloned().collect();
        for (name, result) in missing {
            happen(draft, Event::StepRecorded { node: node.clone(), name, result, took_ms: None });
        }
        match enter(engine, draft, position).await {
            Some((acts, outcome)) => {
                draft.act(position, acts)?;
                draft.finish(position, outcome)?;
            }
            None => return Ok(()),
        }
    }
    Ok(())
}

fn answer(draft: &mut Draft, id: InterruptId, answer: Answer) -> Result<(), Refusal> {
    let command = Command::Resolve { answers: BTreeMap::from([(id, answer)]) };
    // Which roles somebody held is not on record; that they were turned away here never happened.
    match decide(&draft.run, &command, draft.now)?.iter().find_map(Event::denial) {
        Some(refusal) => Err(refusal),
        None => draft.decide(&command),
    }
}
