//! Effects of a change on related runs: child runs that it starts or ends, and the parent that waits for it. All of
//! them are part of one commit.

use std::sync::Arc;

use holdpoint_core::{
    ChildResult, ChildRunState, Command, Event, Obligation, Owner, Parent, Run, RunEnd, RunError, RunId,
    RunRef, StartRequest, Status, TenantId, Timestamp,
};
use serde_json::{Map, Value};

use super::Engine;
use crate::agent::tool::truncate;
use crate::committer::{Change, MailboxAction, Precondition};
use crate::draft::RunDraft;
use crate::error::Error;
use crate::trace::SpanContext;

mod changes;

use changes::FamilyChanges;

/// The maximum number of descendants that end with a run in one commit. The others end in later commits.
pub(super) const CASCADE_MAX: usize = 256;

/// The parts of a run's state before a change that decide about changes of related runs and dispatches.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PriorState {
    pub seq: u64,
    /// The status that the parent knows.
    shown: Status,
    idle: bool,
    /// True if a node waits for an operator because its dispatch was abandoned.
    stranded: bool,
}

impl PriorState {
    pub(crate) fn of(run: &Run) -> Self {
        let (idle, stranded) =
            (run.next_work().is_none(), run.nodes.iter().any(holdpoint_core::NodeState::waits_for_operator));
        Self { seq: run.seq, shown: status_for_parent(run), idle, stranded }
    }

    /// Returns whether a change needs a new dispatch. A run with remaining work has an active dispatch, whose
    /// worker sees the change before it can finish, unless that dispatch was abandoned.
    pub(crate) fn wakes(&self, draft: &RunDraft) -> bool {
        let is_revived = self.stranded && !draft.events.is_empty() && draft.run.next_work().is_some();
        is_revived || self.idle && draft.obligations.contains(&Obligation::Activate)
    }
}

/// Returns the status that a parent sees. Constant for a run without a parent.
fn status_for_parent(run: &Run) -> Status {
    match parent_of(run) {
        Some(_) => hide_pending(run.status()),
        None => Status::Running,
    }
}

/// Maps `Pending` to `Running`: the parent is not notified when a run begins.
fn hide_pending(status: Status) -> Status {
    if status == Status::Pending { Status::Running } else { status }
}

fn parent_of(run: &Run) -> Option<&Parent> {
    run.started.as_ref().and_then(|started| started.parent.as_ref())
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
fn child_result(parent: &Run, child: &Run) -> Option<ChildResult> {
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
    /// Executes pure nodes until the run ends, waits or needs outside effects. Reports a child run whose start fails,
    /// such as for a missing workflow or invalid inputs, to the run at once.
    pub(crate) async fn advance_draft(&self, draft: &mut RunDraft) -> Result<(), Error> {
        let mut looked_at = 0;
        loop {
            draft.advance(&self.0.nodes)?;
            if !self.report_failed_child_starts(draft, &mut looked_at).await? {
                return Ok(());
            }
        }
    }

    /// Reports child runs that fail or end at their start. Returns whether there was one. Skips the obligations before
    /// `looked_at`.
    pub(crate) async fn report_failed_child_starts(
        &self,
        draft: &mut RunDraft,
        looked_at: &mut usize,
    ) -> Result<bool, Error> {
        let mut reported = false;
        let obligations = draft.obligations.get(*looked_at..).unwrap_or_default().to_vec();
        *looked_at = draft.obligations.len();
        for obligation in obligations {
            if let Obligation::StartChild { child } = obligation
                && let Some(report) = self.child_start_failure(draft, &child).await?
            {
                reported |= draft.decide(&report).is_ok();
            }
        }
        Ok(reported)
    }

    /// Returns the report about a child run that cannot start or that ends at its start.
    async fn child_start_failure(&self, parent: &RunDraft, child: &RunId) -> Result<Option<Command>, Error> {
        let failed = |error: RunError| {
            let result = Some(ChildResult { error: Some(error), ..ChildResult::default() });
            Command::Child { child: child.clone(), status: Status::Failed, result }
        };
        Ok(match self.draft_child_start(&parent.run, child, parent.now).await? {
            ChildStart::Failed(error) => Some(failed(error)),
            ChildStart::Started(started_run) if started_run.run.finished() => Some(Command::Child {
                child: child.clone(),
                status: started_run.run.status(),
                result: child_result(&parent.run, &started_run.run),
            }),
            ChildStart::Started(_) => None,
        })
    }

    /// Creates the draft of a child run with its start, or the error why it cannot start.
    async fn draft_child_start(
        &self,
        parent: &Run,
        child: &RunId,
        now: Timestamp,
    ) -> Result<ChildStart, Error> {
        let refused = |code: &str, message: String| Ok(ChildStart::Failed(RunError::new(code, message)));
        let known = parent.children.iter().find(|known| known.run == *child);
        let (Some(known), Some(started)) = (known, parent.started.as_ref()) else {
            return refused("child_not_found", format!("the parent has no child run {child}"));
        };
        let Owner { tenant, .. } = &started.owner;
        let Some(workflow) = self.0.registry.latest(&self.0.db, tenant, &known.workflow).await? else {
            return refused("workflow_not_found", format!("there is no workflow {}", known.workflow));
        };
        if let Some(missing) = self.0.nodes.capability_flaws(&workflow).first() {
            return refused("capability_not_provided", missing.to_string());
        }
        let of = RunRef { tenant: tenant.clone(), run: child.clone() };
        if self.stored_event_count(&of).await?.is_some() {
            return refused("run_id_taken", format!("the run id {child} is already in use"));
        }
        if let Err(error) = self.admit_child(&of, parent).await? {
            return Ok(ChildStart::Failed(error));
        }
        let start = StartRequest {
            inputs: known.inputs.clone(),
            configurable: started.configurable.clone(),
            tags: started.tags.clone(),
            // The spans of the child run belong to the span of the node that starts it.
            trace: Some(SpanContext::of_visit(tenant, parent, &known.node, known.visit).to_string()),
            trace_state: started.trace_state.clone(),
            engine_version: started.engine_version.map(|_| Self::VERSION),
            parent: Some(Parent {
                run: parent.id.clone(),
                workflow: parent.workflow.id.clone(),
                node: known.node.clone(),
                depth: started.parent.as_ref().map_or(0, |above| above.depth) + 1,
            }),
            forked_by: started.forked_by.clone(),
            grants: parent.grants_for_child(&known.node, known.call.as_deref()),
            requested_by: parent.inherited_requesters(),
            credentials: started.credentials.clone(),
            ..StartRequest::new(started.owner.clone())
        };
        let mut draft = RunDraft::new(Arc::new(Run::new(child.clone(), workflow)), now);
        match draft.decide(&Command::Start(Box::new(start))) {
            Ok(()) => Ok(ChildStart::Started(Box::new(draft))),
            Err(refusal) => refused(refusal.code().as_str(), refusal.to_string()),
        }
    }

    /// Returns whether a run must end because its parent ended or abandoned it in a commit with too many child runs.
    /// Reads only the cache, unless `sure`.
    pub(crate) async fn must_end_with_parent(
        &self,
        of: &RunRef,
        run: &Run,
        sure: bool,
    ) -> Result<bool, Error> {
        let Some(parent) = parent_of(run).filter(|_| !run.finished()) else { return Ok(false) };
        let above = RunRef { tenant: of.tenant.clone(), run: parent.run.clone() };
        let above = match sure {
            true => match self.run(&above).await {
                Ok(above) => Some(above),
                Err(Error::NotFound(_)) => None,
                Err(error) => return Err(error),
            },
            false => self.0.cache.get(&above),
        };
        let Some(above) = above else { return Ok(false) };
        let given_up = above.child(&of.run).is_some_and(|child| child.abandoned);
        Ok(given_up || (ends_children(&above) && cascading_children(&above).any(|child| child.run == of.run)))
    }

    /// Returns the change of a run and of all related runs, its own first. Returns the precondition that failed, if a
    /// concurrent change interfered.
    pub(super) async fn collect_family_changes(
        &self,
        of: &RunRef,
        before: PriorState,
        draft: RunDraft,
        mail: MailboxAction,
    ) -> Result<Result<Vec<Change>, Precondition>, Error> {
        let related = |obligation: &Obligation| match obligation {
            Obligation::StartChild { .. } | Obligation::CancelChild { .. } => true,
            Obligation::Activate | Obligation::SetTimer { .. } | Obligation::ClearTimer { .. } => false,
        };
        if before.shown == status_for_parent(&draft.run) && !draft.obligations.iter().any(related) {
            return Ok(Ok(vec![new_change(of.clone(), before.seq, draft, mail)]));
        }
        self.collect_changes(of.tenant.clone(), vec![(of.run.clone(), before, draft, mail)]).await
    }

    /// Returns several changes of one tenant with the changes of all related runs, the given ones first.
    pub(super) async fn collect_changes(
        &self,
        tenant: TenantId,
        causes: Vec<(RunId, PriorState, RunDraft, MailboxAction)>,
    ) -> Result<Result<Vec<Change>, Precondition>, Error> {
        let mut family = FamilyChanges::new(self, tenant, self.now());
        causes.into_iter().for_each(|(run, before, draft, mail)| family.add_cause(run, before, draft, mail));
        if let Some(failed) = family.collect().await? {
            return Ok(Err(failed));
        }
        Ok(Ok(family.changes()))
    }
}

/// The start of a child run.
enum ChildStart {
    Started(Box<RunDraft>),
    Failed(RunError),
}

pub(super) fn new_change(of: RunRef, before: u64, draft: RunDraft, mail: MailboxAction) -> Change {
    let history: Vec<(Timestamp, Vec<Event>)> = Vec::new();
    let RunDraft { from, run, events, obligations, now } = draft;
    let (runs_to_activate, exclusive, cause) = (Vec::new(), false, None);
    Change {
        of,
        before,
        from,
        after: run,
        history,
        events: events.into(),
        obligations,
        mail,
        runs_to_activate,
        at: now,
        exclusive,
        cause,
    }
}
