//! Registering definitions and finding them again.

use std::sync::Arc;

use holdpoint_core::{TenantId, Workflow, WorkflowId};
use serde_json::Value;

use super::{ATTEMPTS_MAX, Engine, Once};
use crate::committer::{Reply, Work};
use crate::error::Error;
use crate::store::workflows::{self, Registered, WorkflowSummary};
use crate::store::{self, keys};

/// A definition that was registered.
#[derive(Clone, Debug)]
pub struct Registration {
    pub workflow: Arc<Workflow>,
    /// False if the latest revision had the same definition.
    pub stored: bool,
}

/// The author of a definition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Author {
    /// A caller of the API. The quota for definitions holds.
    Caller,
    /// The operator or the host itself.
    Operator,
}

impl Engine {
    /// Registers a definition. The same one again changes nothing; another under the same id is a new revision, and
    /// runs keep the revision they were started with.
    ///
    /// Goes on when the caller goes away: what is committed must also be what new runs see.
    pub async fn register(&self, tenant: &TenantId, definition: Value) -> Result<Registration, Error> {
        self.register_by(Author::Caller, tenant, definition, None).await
    }

    /// Registers a definition and writes a receipt.
    pub async fn register_once(
        &self,
        tenant: &TenantId,
        definition: Value,
        once: Option<Once<Registration>>,
    ) -> Result<Registration, Error> {
        self.register_by(Author::Caller, tenant, definition, once).await
    }

    /// Registers a definition of the operator or of the host itself. It is stored also if the tenant has used up its quota
    /// for definitions.
    pub async fn register_for_operator(
        &self,
        tenant: &TenantId,
        definition: Value,
    ) -> Result<Registration, Error> {
        self.register_by(Author::Operator, tenant, definition, None).await
    }

    pub(super) async fn register_by(
        &self,
        author: Author,
        tenant: &TenantId,
        definition: Value,
        once: Option<Once<Registration>>,
    ) -> Result<Registration, Error> {
        let (engine, tenant) = (self.clone(), tenant.clone());
        let registering =
            tokio::spawn(async move { engine.register_whole(author, &tenant, definition, once).await });
        registering.await.map_err(|error| store::Error::Failed(error.to_string()))?
    }

    async fn register_whole(
        &self,
        author: Author,
        tenant: &TenantId,
        definition: Value,
        once: Option<Once<Registration>>,
    ) -> Result<Registration, Error> {
        let (engine, once) = (self.clone(), once.as_ref());
        // Compiling patterns takes time that other requests should not wait for.
        let checking =
            tokio::task::spawn_blocking(move || engine.check(&definition, 1).map(|flow| (flow, definition)));
        let (workflow, definition) =
            checking.await.map_err(|error| store::Error::Failed(error.to_string()))??;
        let mut registration = Registration { workflow: Arc::new(workflow), stored: true };
        for _ in 0..ATTEMPTS_MAX {
            // The workflow is shared only after it is stored.
            let Some(workflow) = Arc::get_mut(&mut registration.workflow) else { break };
            let latest = workflows::latest(&self.0.db, tenant, &workflow.id).await?;
            let unchanged = latest.as_ref().is_some_and(|known| known.definition == definition);
            let known = latest.as_ref().map_or(0, |known| known.revision);
            workflow.revision = if unchanged { known } else { known + 1 };
            workflow.loops_checked = !unchanged || latest.is_some_and(|known| known.loops_checked);
            registration.stored = !unchanged;
            if unchanged {
                self.keep_unchanged(once, &registration).await?;
            } else if author == Author::Caller {
                self.admit_definition(tenant).await?;
            }
            if unchanged || self.store_revision(tenant, &registration, &definition, once).await? {
                self.0.registry.put(tenant, registration.workflow.clone());
                return Ok(registration);
            }
        }
        Err(Error::Busy)
    }

    /// False when somebody else took the revision.
    async fn store_revision(
        &self,
        tenant: &TenantId,
        registration: &Registration,
        definition: &Value,
        once: Option<&Once<Registration>>,
    ) -> Result<bool, Error> {
        let workflow = &registration.workflow;
        let (revision, definition) = (workflow.revision, definition.clone());
        let registered = Registered { revision, definition, created_at: self.now(), loops_checked: true };
        let tenant_row = keys::insert_tenant(tenant, self.now());
        let summary = workflows::summarize(tenant, &workflow.id, &registered);
        let row = workflows::insert(tenant, &workflow.id, &registered);
        let rows = vec![tenant_row, summary, row];
        Ok(matches!(self.submit(Work::Plain(rows), once, registration).await?, Reply::Touched(1)))
    }

    /// Parses and checks a definition without storing it.
    pub fn check(&self, definition: &Value, revision: u64) -> Result<Workflow, Error> {
        self.0.nodes.check(definition, revision).map_err(Error::InvalidWorkflow)
    }

    pub async fn workflow(&self, tenant: &TenantId, id: &WorkflowId) -> Result<Registered, Error> {
        workflows::latest(&self.0.db, tenant, id).await?.ok_or(Error::NotFound("workflow"))
    }

    /// Lists the latest revisions of a tenant's definitions without reading the definitions. Of revisions that were
    /// stored before there were summaries, each definition is read once.
    pub async fn workflows(&self, tenant: &TenantId, limit: u64) -> Result<Vec<WorkflowSummary>, Error> {
        let mut listed = Vec::new();
        let mut filled = Vec::new();
        for (mut summary, named) in workflows::summaries(&self.0.db, tenant, limit).await? {
            if !named {
                let found = workflows::revision(&self.0.db, tenant, &summary.id, summary.revision).await?;
                let definition = found.map(|found| found.definition).unwrap_or_default();
                (summary.name, summary.version) = workflows::names(&definition);
                filled.push(workflows::name(tenant, &summary));
            }
            listed.push(summary);
        }
        if !filled.is_empty() {
            self.write(filled).await?;
        }
        Ok(listed)
    }

    pub(crate) async fn workflow_revision(
        &self,
        tenant: &TenantId,
        id: &WorkflowId,
        revision: u64,
    ) -> Result<Arc<Workflow>, Error> {
        self.0.registry.revision(&self.0.db, tenant, id, revision).await
    }
}
