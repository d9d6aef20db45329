//! Grants for clients, which use them for effects outside of Holdpoint.

use std::sync::Arc;

use holdpoint_core::{
    Interrupt, InterruptId, NodeId, NotTransferable, Refusal, Run, RunRef, Status, Workflow,
};

use super::Engine;
use crate::error::Error;
use crate::permits::{GrantNote, Permit};
use crate::store::grants::{self, Consumption};

/// A grant, and its use by a client.
#[derive(Clone, Debug)]
pub struct GrantRecord {
    pub run: Arc<Run>,
    pub interrupt: InterruptId,
    pub consumed: Option<Consumption>,
}

impl Engine {
    /// Returns the grant of an interrupt, or `NotFound` if its decision is not a grant.
    pub async fn grant(&self, of: &RunRef, interrupt: InterruptId) -> Result<GrantRecord, Error> {
        let run = self.run(of).await?;
        granted(&run, interrupt)?;
        let consumed = grants::by_id(self.db(), &of.tenant, &run.grant_id(interrupt)).await?;
        Ok(GrantRecord { run, interrupt, consumed })
    }

    /// Uses a grant for an effect outside of Holdpoint. Only the first idempotency key succeeds; the same key succeeds
    /// again. `digest` is that of the payload that the client acts on.
    pub async fn consume_grant(
        &self,
        of: &RunRef,
        interrupt: InterruptId,
        digest: &str,
        (by, key_hash): (&str, String),
    ) -> Result<GrantRecord, Error> {
        let run = self.run(of).await?;
        check_usable(&run, granted(&run, interrupt)?, digest)?;
        let id = run.grant_id(interrupt);
        let used = Consumption { by: by.to_owned(), at: self.now(), key_hash: key_hash.clone() };
        self.write(vec![grants::insert(&of.tenant, &id, &used)]).await?;
        // Read back instead of counting changed rows: an earlier commit may have succeeded although its reply was lost.
        let consumed = grants::by_id(self.db(), &of.tenant, &id).await?;
        match consumed {
            Some(used) if used.key_hash == key_hash => {
                Ok(GrantRecord { run, interrupt, consumed: Some(used) })
            }
            Some(used) => Err(Refusal::GrantUsed { by: used.by, at: used.at }.into()),
            None => Err(Error::Busy),
        }
    }

    /// Returns the effects that a gate of a workflow permits.
    pub fn permits(&self, workflow: &Workflow, gate: &NodeId) -> Vec<Permit> {
        self.nodes().permits(workflow, gate)
    }

    /// Returns the notes for operators about the grants of a workflow.
    pub fn grant_notes(&self, workflow: &Workflow) -> Vec<GrantNote> {
        self.nodes().grant_notes(workflow)
    }
}

fn granted(run: &Run, interrupt: InterruptId) -> Result<&Interrupt, Error> {
    run.interrupt(interrupt).filter(|asked| asked.is_granted()).ok_or(Error::NotFound("grant"))
}

fn check_usable(run: &Run, asked: &Interrupt, digest: &str) -> Result<(), Refusal> {
    if let Some(fork) = run.started.as_ref().and_then(|started| started.fork.as_ref())
        && asked.taken_over
    {
        let (gate, source_run) = (format!("gate {}", asked.node), fork.source.clone());
        return Err(NotTransferable { gate, source_run }.into());
    }
    if run.status() == Status::Cancelled {
        return Err(Refusal::RunFinished(Status::Cancelled));
    }
    if asked.grants_digest(digest) && asked.is_as_shown() { Ok(()) } else { Err(Refusal::PayloadMismatch) }
}
