//! Registered definitions, parsed once. A revision never changes, so what is parsed stays right.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use holdpoint_core::{TenantId, Workflow, WorkflowId};

use crate::error::Error;
use crate::store::{self, Database, unreadable, workflows};

/// Parsed definitions kept in memory; all are dropped when there are more, which is rare and cheap to repair.
const PARSED_MAX: usize = 1000;

#[derive(Debug, Default)]
pub(crate) struct Registry {
    parsed: Mutex<Parsed>,
}

#[derive(Debug, Default)]
struct Parsed {
    revisions: HashMap<(TenantId, WorkflowId, u64), Arc<Workflow>>,
    latest: HashMap<(TenantId, WorkflowId), Arc<Workflow>>,
}

impl Registry {
    pub(crate) async fn latest(
        &self,
        db: &Database,
        tenant: &TenantId,
        id: &WorkflowId,
    ) -> Result<Option<Arc<Workflow>>, Error> {
        let key = (tenant.clone(), id.clone());
        if let Some(workflow) = self.lock().latest.get(&key) {
            return Ok(Some(workflow.clone()));
        }
        let Some(registered) = workflows::latest(db, tenant, id).await? else { return Ok(None) };
        let workflow = parse(&registered)?;
        self.put(tenant, workflow.clone());
        Ok(Some(workflow))
    }

    pub(crate) async fn revision(
        &self,
        db: &Database,
        tenant: &TenantId,
        id: &WorkflowId,
        revision: u64,
    ) -> Result<Arc<Workflow>, Error> {
        let key = (tenant.clone(), id.clone(), revision);
        if let Some(workflow) = self.lock().revisions.get(&key) {
            return Ok(workflow.clone());
        }
        let registered = workflows::revision(db, tenant, id, revision).await?;
        let workflow = parse(&registered.ok_or(Error::NotFound("workflow revision"))?)?;
        let mut parsed = self.lock();
        parsed.make_room();
        parsed.revisions.insert(key, workflow.clone());
        Ok(workflow)
    }

    /// Remembers a definition that is the latest of its id.
    pub(crate) fn put(&self, tenant: &TenantId, workflow: Arc<Workflow>) {
        let mut parsed = self.lock();
        parsed.make_room();
        let newer = (tenant.clone(), workflow.id.clone());
        let known = parsed.latest.get(&newer).map_or(0, |known| known.revision);
        if known <= workflow.revision {
            parsed.latest.insert(newer, workflow.clone());
        }
        parsed.revisions.insert((tenant.clone(), workflow.id.clone(), workflow.revision), workflow);
    }

    /// Another node knows of a newer one.
    pub(crate) fn forget_latest(&self, tenant: &TenantId, id: &WorkflowId) {
        self.lock().latest.remove(&(tenant.clone(), id.clone()));
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Parsed> {
        self.parsed.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Parsed {
    fn make_room(&mut self) {
        if self.revisions.len() >= PARSED_MAX || self.latest.len() >= PARSED_MAX {
            self.revisions.clear();
            self.latest.clear();
        }
    }
}

fn parse(registered: &workflows::Registered) -> Result<Arc<Workflow>, store::Error> {
    // What was accepted once must stay readable.
    let parsed = Workflow::restore(&registered.definition, registered.revision);
    let mut workflow = parsed.map_err(|flaws| {
        let first = flaws.first().map(ToString::to_string).unwrap_or_default();
        unreadable("workflow", first)
    })?;
    workflow.loops_checked = registered.loops_checked;
    Ok(Arc::new(workflow))
}
