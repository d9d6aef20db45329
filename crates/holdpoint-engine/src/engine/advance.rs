//! Advances a run inside the change that wakes it: executes its nodes in memory until it ends, waits or needs outside
//! effects, and reports child runs that cannot start.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures_util::FutureExt;
use holdpoint_core::{
    ChildInterruptChanges, ChildResult, Command, NodeWork, Obligation, Owner, Parent, Run, RunError, RunId,
    RunRef, StartRequest, Status, Timestamp,
};
use uuid::Uuid;

use super::Engine;
use super::families::child_result;
use crate::committer::MailboxAction;
use crate::draft::RunDraft;
use crate::error::Error;
use crate::nodes::NodeType;
use crate::trace::SpanContext;
use crate::worker::{DryPurpose, DryResult, NodeResult, execute_dry};

/// The number of effect nodes that one change executes. The caller waits for them.
const INLINE_NODES_MAX: usize = 16;

/// The start of a child run.
pub(super) enum ChildStart {
    Started(Box<RunDraft>),
    Failed(RunError),
}

impl Engine {
    /// Activates a run if its change wakes it: executes its nodes in the same change until it needs outside effects.
    /// Queues a dispatch if work is left for a worker, or if the caller delayed the activation. Otherwise records a
    /// performed dispatch in the thread of the run; most workflows are in no thread and need no row.
    pub(super) async fn activate(&self, draft: &mut RunDraft) -> Result<(), Error> {
        if !draft.wakes() {
            return self.advance_beside_worker(draft).await;
        }
        if draft.dispatch_options().is_delayed(draft.now) && draft.run.next_work().is_some() {
            draft.mail = MailboxAction::Enqueue(Uuid::now_v7().to_string());
            return Ok(());
        }
        self.advance(draft).await?;
        let mut entered = 0;
        while entered < INLINE_NODES_MAX && self.execute_internal_node(draft).await? {
            self.advance(draft).await?;
            entered += 1;
        }
        draft.mail = match draft.run.next_work() {
            Some(_) => MailboxAction::Enqueue(Uuid::now_v7().to_string()),
            None if draft.run.is_in_thread() => MailboxAction::Performed(Uuid::now_v7().to_string()),
            None => MailboxAction::Activated,
        };
        Ok(())
    }

    /// Executes nodes without effects of a run that has a live dispatch: they do not wait for the nodes of its worker.
    /// The worker begins the nodes with effects after them.
    async fn advance_beside_worker(&self, draft: &mut RunDraft) -> Result<(), Error> {
        let is_active = draft.run.starts > 0 && draft.run.next_work().is_some();
        if is_active && draft.obligations.contains(&Obligation::Activate) {
            self.advance(draft).await?;
        }
        Ok(())
    }

    /// Executes pure nodes until the run ends, waits or needs outside effects. Reports a child run whose start fails,
    /// such as for a missing workflow or invalid inputs, to the run at once.
    pub(crate) async fn advance(&self, draft: &mut RunDraft) -> Result<(), Error> {
        let mut looked_at = 0;
        loop {
            draft.execute_pure_nodes(&self.0.nodes)?;
            if !self.report_failed_child_starts(draft, &mut looked_at).await? {
                return Ok(());
            }
        }
    }

    /// Executes the next effect node until it needs a claim, if the node can begin without one. Returns whether the node
    /// finished. If it did not, a worker continues after its recorded actions; the worker also counts panics.
    async fn execute_internal_node(&self, draft: &mut RunDraft) -> Result<bool, Error> {
        let begins = |work: NodeWork| {
            let node = &draft.run.workflow.nodes[work.position()];
            match self.nodes().get(&node.type_id) {
                Some(NodeType::Effect(effect)) => effect.begins_without_claim(self, &draft.run, node),
                Some(NodeType::Pure(_)) | None => false,
            }
        };
        if !draft.run.next_work().is_some_and(begins) {
            return Ok(false);
        }
        let Some(work) = draft.begin_next()? else { return Ok(false) };
        let position = work.position();
        let entering = Box::pin(execute_dry(self, draft, position, DryPurpose::Activation));
        Ok(match AssertUnwindSafe(entering).catch_unwind().await {
            Ok(DryResult::Ended(NodeResult { actions, outcome })) => {
                draft.record_actions(position, actions).and_then(|()| draft.finish(position, outcome)).is_ok()
            }
            Ok(DryResult::Stopped(actions)) => {
                // After a refusal the worker executes the node from its start.
                let _ = draft.record_actions(position, actions);
                false
            }
            Err(_) => false,
        })
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
            let interrupts = ChildInterruptChanges::default();
            Command::Child { child: child.clone(), status: Status::Failed, interrupts, result }
        };
        Ok(match self.draft_child_start(&parent.run, child, parent.now).await? {
            ChildStart::Failed(error) => Some(failed(error)),
            ChildStart::Started(started_run) if started_run.run.finished() => Some(Command::Child {
                child: child.clone(),
                status: started_run.run.status(),
                interrupts: ChildInterruptChanges::default(),
                result: child_result(&parent.run, &started_run.run),
            }),
            ChildStart::Started(_) => None,
        })
    }

    /// Creates the draft of a child run with its start, or the error why it cannot start.
    pub(super) async fn draft_child_start(
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
            parent: Some(Parent::of_child(parent, &known.node, self.ancestors(tenant, parent).await?)),
            forked_by: started.forked_by.clone(),
            grants: parent.grants_for_child(&known.node, known.call.as_deref()),
            requested_by: parent.inherited_requesters(),
            credentials: started.credentials.clone(),
            dispatch: started.dispatch.inherited(),
            ..StartRequest::new(started.owner.clone())
        };
        let mut draft = RunDraft::new(of, Arc::new(Run::new(child.clone(), workflow)), now);
        match draft.decide(&Command::Start(Box::new(start))) {
            Ok(()) => Ok(ChildStart::Started(Box::new(draft))),
            Err(refusal) => refused(refusal.code().as_str(), refusal.to_string()),
        }
    }
}
