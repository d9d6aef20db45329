//! Grants for clients, which use them for effects outside of Holdpoint.

use std::sync::Arc;

use holdpoint_core::{
    Interrupt, InterruptId, NodeId, Refusal, Run, RunParameters, RunRef, Status, UnusableGrant, Workflow,
    workflow,
};

use super::{Engine, Grants, Workflows};
use crate::error::Error;
use crate::permitted_effects::{GrantNote, PermittedEffect};
use crate::store::grants::{self, Consumption};

/// A grant, and its use by a client.
#[derive(Clone, Debug)]
pub struct GrantRecord {
    /// The run of the interrupt.
    pub run: Arc<Run>,
    /// The interrupt whose decision is the grant.
    pub interrupt: InterruptId,
    /// The use by a client, if the grant was used.
    pub consumed: Option<Consumption>,
}

impl Grants<'_> {
    /// Returns the grant of an interrupt, or `NotFound` if its decision is not a grant.
    pub async fn get(self, of: &RunRef, interrupt: InterruptId) -> Result<GrantRecord, Error> {
        let run = self.engine.runs().get(of).await?;
        granted(&run, interrupt)?;
        let consumed = grants::by_id(self.engine.db(), &of.tenant, &run.grant_id(interrupt)).await?;
        Ok(GrantRecord { run, interrupt, consumed })
    }

    /// Uses a grant for an effect outside of Holdpoint. Only the first idempotency key succeeds; the same key succeeds
    /// again. `digest` is that of the payload that the client acts on.
    pub async fn consume(
        self,
        of: &RunRef,
        interrupt: InterruptId,
        digest: &str,
        by: &str,
        key_hash: String,
    ) -> Result<GrantRecord, Error> {
        let run = self.engine.runs().get(of).await?;
        let asked = granted(&run, interrupt)?;
        let id = run.grant_id(interrupt);
        // A client that repeats its own use gets the recorded use, regardless of the state of the run.
        let known = grants::by_id(self.engine.db(), &of.tenant, &id).await?;
        if known.is_none_or(|used| used.key_hash != key_hash) {
            check_usable(&run, asked, digest)?;
        } else if !asked.grants_digest(digest) {
            return Err(Refusal::PayloadMismatch.into());
        }
        let used = Consumption { by: by.to_owned(), at: self.engine.now(), key_hash: key_hash.clone() };
        self.engine.write(vec![grants::insert(&of.tenant, &id, &used)]).await?;
        // Read back instead of counting changed rows: an earlier commit may have succeeded although its reply was lost.
        let consumed = grants::by_id(self.engine.db(), &of.tenant, &id).await?;
        match consumed {
            Some(used) if used.key_hash == key_hash => {
                Ok(GrantRecord { run, interrupt, consumed: Some(used) })
            }
            Some(used) => Err(Refusal::GrantUsed { by: used.by, at: used.at }.into()),
            None => Err(Error::Busy),
        }
    }
}

impl Workflows<'_> {
    /// Returns the effects that a gate of a workflow permits.
    pub fn permits(self, workflow: &Workflow, gate: &NodeId) -> Vec<PermittedEffect> {
        self.engine.nodes().permitted_effects(workflow, gate)
    }

    /// Returns the notes for operators about the grants of a workflow.
    pub fn grant_notes(self, workflow: &Workflow) -> Vec<GrantNote> {
        self.engine.nodes().grant_notes(workflow)
    }
}

impl Engine {
    /// Returns the grants that the start of a run depended on. Versions before grants did not store them with a child
    /// run or its forks; for those, the grants are read from the uses in the parent run.
    pub(crate) async fn carried_grants(
        &self,
        of: &RunRef,
        started: &RunParameters,
    ) -> Result<Vec<String>, Error> {
        let (mut child, mut started) = (of.run.clone(), Arc::new(started.clone()));
        while started.grants.is_empty() {
            let older_copy = started.fork.as_ref().filter(|fork| fork.copied.is_none());
            let (above, is_parent) = match (&started.parent, older_copy) {
                (Some(parent), _) => (parent.run.clone(), true),
                (None, Some(fork)) => (fork.source.clone(), false),
                (None, None) => break,
            };
            let run = match self.runs().get(&RunRef { tenant: of.tenant.clone(), run: above.clone() }).await {
                Ok(run) => run,
                Err(Error::NotFound(_)) => break,
                Err(error) => return Err(error),
            };
            let used = run.grants_used_for_child(&child);
            if is_parent && !used.is_empty() {
                return Ok(used);
            }
            let Some(next) = run.started.clone() else { break };
            (child, started) = (above, next);
        }
        Ok(started.grants.clone())
    }

    /// Checks that an effect at a node of a run can use the grants that it depends on.
    pub(crate) async fn check_grants(
        &self,
        of: &RunRef,
        run: &Run,
        node: &workflow::Node,
    ) -> Result<Result<(), UnusableGrant>, Error> {
        if let Err(grant) = run.usable_grants(&node.id) {
            return Ok(Err(grant));
        }
        let Some(started) = run.started.as_ref().filter(|_| node.needs_grant) else { return Ok(Ok(())) };
        match &started.fork {
            Some(fork) if fork.copied.is_none() && !self.carried_grants(of, started).await?.is_empty() => {
                Ok(Err(UnusableGrant::of_parent(&fork.source)))
            }
            Some(_) | None => Ok(Ok(())),
        }
    }
}

fn granted(run: &Run, interrupt: InterruptId) -> Result<&Interrupt, Error> {
    run.interrupt(interrupt).filter(|asked| asked.is_granted()).ok_or(Error::NotFound("grant"))
}

fn check_usable(run: &Run, asked: &Interrupt, digest: &str) -> Result<(), Refusal> {
    if let Some(fork) = run.started.as_ref().and_then(|started| started.fork.as_ref())
        && asked.taken_over
    {
        return Err(UnusableGrant::of_gate(&asked.node, &fork.source).into());
    }
    if run.status() == Status::Cancelled {
        return Err(Refusal::RunFinished(Status::Cancelled));
    }
    if asked.grants_digest(digest) && asked.data_matches_digest() {
        Ok(())
    } else {
        Err(Refusal::PayloadMismatch)
    }
}
