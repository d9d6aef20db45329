//! Registering definitions and finding them again.

use std::sync::Arc;

use holdpoint_core::{TenantId, Workflow, WorkflowId};
use serde_json::Value;

use super::{ATTEMPTS_MAX, Engine};
use crate::committer::Reply;
use crate::error::Error;
use crate::store::keys;
use crate::store::workflows::{self, Registered};

impl Engine {
    /// Registers a definition. The same one again changes nothing; another under the same id is a new revision, and
    /// runs keep the revision they were started with. True when something was stored.
    pub async fn register(
        &self,
        tenant: &TenantId,
        definition: Value,
    ) -> Result<(Arc<Workflow>, bool), Error> {
        for _ in 0..ATTEMPTS_MAX {
            let workflow = self.check(&definition, 1)?;
            let latest = workflows::latest(&self.0.db, tenant, &workflow.id).await?;
            let revision = match latest {
                Some(known) if known.definition == definition => {
                    return Ok((Arc::new(self.check(&definition, known.revision)?), false));
                }
                Some(known) => known.revision + 1,
                None => 1,
            };
            let workflow = Arc::new(self.check(&definition, revision)?);
            let registered = Registered { revision, definition: definition.clone(), created_at: self.now() };
            let tenant_row = keys::insert_tenant(tenant, self.now());
            let row = workflows::insert(tenant, &workflow.id, &registered);
            match self.write(vec![tenant_row, row]).await? {
                Reply::Conflict(_) => {}
                Reply::Done(_) | Reply::Claimed(_) => {
                    self.0.registry.put(tenant, workflow.clone());
                    return Ok((workflow, true));
                }
            }
        }
        Err(Error::Busy)
    }

    /// Parses and checks a definition without storing it.
    pub fn check(&self, definition: &Value, revision: u64) -> Result<Workflow, Error> {
        let workflow = Workflow::parse(definition, revision).map_err(Error::InvalidWorkflow)?;
        let flaws = self.0.nodes.flaws(&workflow);
        if flaws.is_empty() { Ok(workflow) } else { Err(Error::InvalidWorkflow(flaws)) }
    }

    pub async fn workflow(&self, tenant: &TenantId, id: &WorkflowId) -> Result<Registered, Error> {
        workflows::latest(&self.0.db, tenant, id).await?.ok_or(Error::NotFound("workflow"))
    }

    pub async fn workflows(&self, tenant: &TenantId, limit: u64) -> Result<Vec<Registered>, Error> {
        Ok(workflows::all(&self.0.db, tenant, limit).await?)
    }

    pub(super) async fn workflow_revision(
        &self,
        tenant: &TenantId,
        id: &WorkflowId,
        revision: u64,
    ) -> Result<Arc<Workflow>, Error> {
        self.0.registry.revision(&self.0.db, tenant, id, revision).await
    }
}
