//! Effects of a change on related runs: child runs that it starts or ends, and the parent that waits for it. All of
//! them are part of one commit.

use holdpoint_core::{ChildInterrupt, ChildResult, ChildRunState, Obligation, Run, RunEnd, RunRef, Status};
use serde_json::{Map, Value};

use super::Engine;
use crate::draft::RunDraft;
use crate::error::Error;
use crate::truncate::truncate;

mod changes;

pub(super) use changes::FamilyChanges;

/// The maximum number of descendants that end with a run in one commit. The others end in later commits.
pub(super) const CASCADE_MAX: usize = 256;

/// The parts of a run's state before a change that decide about changes of related runs and dispatches.
#[derive(Clone, Debug)]
pub(crate) struct PriorState {
    pub seq: u64,
    /// The state that the parent knows.
    pub(super) shown: ShownState,
    idle: bool,
    /// True if a node waits for an operator because its dispatch was abandoned.
    stranded: bool,
}

/// The state of a run that its parent records. Constant for a run without a parent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ShownState {
    pub status: Status,
    interrupts: Vec<ChildInterrupt>,
}

impl ShownState {
    /// The state of a run of which the parent has recorded nothing.
    pub(super) const UNKNOWN: Self = Self { status: Status::Running, interrupts: Vec::new() };

    pub(super) fn of(run: &Run) -> Self {
        match run.parent() {
            Some(_) => Self { status: hide_pending(run.status()), interrupts: run.interrupts_for_parent() },
            None => Self::UNKNOWN,
        }
    }
}

/// The place where the parent of a run is looked up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ParentLookup {
    /// The cache, and the store if the cache does not have it.
    Store,
    CacheOnly,
}

impl PriorState {
    pub(crate) fn of(run: &Run) -> Self {
        let (idle, stranded) =
            (run.next_work().is_none(), run.nodes.iter().any(holdpoint_core::NodeState::waits_for_operator));
        Self { seq: run.seq, shown: ShownState::of(run), idle, stranded }
    }

    /// Returns whether the run had no live dispatch: it was idle, or its dispatch was abandoned.
    fn has_no_dispatch(&self) -> bool {
        self.idle || self.stranded
    }

    /// Returns whether a change needs a new dispatch. A run with remaining work has an active dispatch, whose
    /// worker sees the change before it can finish, unless that dispatch was abandoned.
    pub(crate) fn wakes(&self, draft: &RunDraft) -> bool {
        let is_revived = self.stranded && !draft.events.is_empty() && draft.run.next_work().is_some();
        is_revived || self.idle && draft.obligations.contains(&Obligation::Activate)
    }
}

/// Maps `Pending` to `Running`: the parent is not notified when a run begins.
fn hide_pending(status: Status) -> Status {
    if status == Status::Pending { Status::Running } else { status }
}

/// Returns whether a run was cancelled with its parent. The parent is not notified then.
fn ended_with_parent(run: &Run) -> bool {
    matches!(&run.end, Some(RunEnd::Cancelled { parent: Some(_), .. }))
}

/// Returns whether a run has failed or was cancelled, which ends its child runs.
fn ends_children(run: &Run) -> bool {
    match &run.end {
        Some(RunEnd::Failed { .. } | RunEnd::Cancelled { .. }) => true,
        Some(RunEnd::Completed { .. }) | None => false,
    }
}

/// Returns the child runs that end with this run.
fn cascading_children(run: &Run) -> impl Iterator<Item = &ChildRunState> {
    run.children.iter().map(AsRef::as_ref).filter(|child| child.cascade && child.result.is_none())
}

/// Returns the result of a child run for its parent.
pub(super) fn child_result(parent: &Run, child: &Run) -> Option<ChildResult> {
    let error = match child.end.as_ref()? {
        RunEnd::Failed { error, .. } => Some(error.clone()),
        RunEnd::Completed { .. } | RunEnd::Cancelled { .. } => None,
    };
    let known = parent.children.iter().find(|known| known.run == child.id)?;
    if known.call.is_some() {
        return Some(ChildResult { outputs: tool_result(child), error });
    }
    let node = parent.workflow.position(&known.node).map(|position| &parent.workflow.nodes[position])?;
    let wanted = node.config.get("outputMapping").and_then(Value::as_object);
    let wanted = wanted.into_iter().flat_map(|mapping| mapping.values()).filter_map(Value::as_str);
    let outputs = wanted.filter_map(|name| Some((name.to_owned(), child.variables.get(name)?.clone())));
    Some(ChildResult { outputs: outputs.collect(), error })
}

/// Returns the result of a child run for the tool call that started it.
fn tool_result(child: &Run) -> Map<String, Value> {
    if child.status() != Status::Completed {
        return Map::new();
    }
    let shown = child.outputs().into_iter().filter(|(name, _)| !child.is_hidden(name)).collect();
    match truncate(Value::Object(shown)) {
        Value::Object(members) => members,
        // `truncate` returns an object for an object.
        _ => Map::new(),
    }
}

impl Engine {
    /// Returns whether a run must end because its parent ended or abandoned it in a commit with too many child runs.
    pub(crate) async fn must_end_with_parent(
        &self,
        of: &RunRef,
        run: &Run,
        lookup: ParentLookup,
    ) -> Result<bool, Error> {
        let Some(parent) = run.parent().filter(|_| !run.finished()) else { return Ok(false) };
        let above = RunRef { tenant: of.tenant.clone(), run: parent.run.clone() };
        let above = match lookup {
            ParentLookup::Store => match self.runs().get(&above).await {
                Ok(above) => Some(above),
                Err(Error::NotFound(_)) => None,
                Err(error) => return Err(error),
            },
            ParentLookup::CacheOnly => self.0.cache.get(&above),
        };
        let Some(above) = above else { return Ok(false) };
        let given_up = above.child(&of.run).is_some_and(|child| child.abandoned);
        Ok(given_up || (ends_children(&above) && cascading_children(&above).any(|child| child.run == of.run)))
    }
}
