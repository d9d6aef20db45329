//! A cache of parsed workflow definitions. A revision never changes, so entries stay valid.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use holdpoint_core::{TenantId, Workflow, WorkflowId};

use crate::error::Error;
use crate::store::{self, Database, unreadable, workflows};

/// The maximum number of cached definitions. The whole cache is cleared at this limit, which is rare.
const PARSED_MAX: usize = 1000;

#[derive(Debug, Default)]
pub(crate) struct WorkflowRegistry {
    parsed: Mutex<ParsedWorkflows>,
}

#[derive(Debug, Default)]
struct ParsedWorkflows {
    revisions: HashMap<(TenantId, WorkflowId, u64), Arc<Workflow>>,
    latest: HashMap<(TenantId, WorkflowId), Arc<Workflow>>,
}

impl WorkflowRegistry {
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

    /// Adds a definition that is the latest of its id.
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

    /// Removes the latest revision, because another process has registered a newer one.
    pub(crate) fn forget_latest(&self, tenant: &TenantId, id: &WorkflowId) {
        self.lock().latest.remove(&(tenant.clone(), id.clone()));
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, ParsedWorkflows> {
        self.parsed.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ParsedWorkflows {
    fn make_room(&mut self) {
        if self.revisions.len() >= PARSED_MAX || self.latest.len() >= PARSED_MAX {
            self.revisions.clear();
            self.latest.clear();
        }
    }
}

fn parse(registered: &workflows::WorkflowRevision) -> Result<Arc<Workflow>, store::Error> {
    // Accepted definitions must stay readable, so later checks are not applied.
    let parsed = Workflow::restore(&registered.definition, registered.revision);
    let mut workflow = parsed.map_err(|flaws| {
        let first = flaws.first().map(ToString::to_string).unwrap_or_default();
        unreadable("workflow", first)
    })?;
    workflow.loops_checked = registered.loops_checked;
    Ok(Arc::new(workflow))
}
