//! Registration and lookup of workflow definitions.

use std::sync::Arc;

use holdpoint_core::{TenantId, Workflow, WorkflowId};
use serde_json::Value;

use super::run_handle::default_tenant;
use super::{ATTEMPTS_MAX, Engine, Once, Workflows};
use crate::committer::{CommitReply, Work};
use crate::error::Error;
use crate::store::workflows::{self, WorkflowRevision, WorkflowSummary};
use crate::store::{self, keys};

/// The result of a registration.
#[derive(Clone, Debug)]
pub struct Registration {
    /// The workflow with its revision.
    pub workflow: Arc<Workflow>,
    /// False if the latest revision had the same definition.
    pub stored: bool,
}

/// The author of a definition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Author {
    /// A caller of the API. The quota for definitions applies.
    Caller,
    /// The operator, or the server itself.
    Operator,
}

impl Workflows<'_> {
    /// Returns whether conversation nodes are enabled.
    pub fn has_conversations(self) -> bool {
        self.engine.0.nodes.has_conversations()
    }

    /// Registers a definition for the tenant `default`: a JSON document, or one that
    /// [`Workflow::builder`](holdpoint_core::Workflow::builder) built. See [`Self::register`].
    pub async fn put(self, definition: impl Into<Value>) -> Result<Registration, Error> {
        self.register(&default_tenant()?, definition.into()).await
    }

    /// Registers a workflow that an extension offers, unless the tenant has a workflow with this id. Returns false if
    /// no extension offers it.
    pub async fn register_offered(self, tenant: &TenantId, id: &WorkflowId) -> Result<bool, Error> {
        let Some(offered) = self.engine.0.extensions.offered_workflow(tenant, id) else { return Ok(false) };
        if self.latest(tenant, id).await?.is_none() {
            self.register_for_operator(tenant, offered).await?;
        }
        Ok(true)
    }

    /// Registers a definition. An unchanged definition has no effect; a changed one with the same id is a new
    /// revision. Runs keep the revision they were started with.
    ///
    /// Completes even if the caller drops the future, so that new runs use the committed revision.
    pub async fn register(self, tenant: &TenantId, definition: Value) -> Result<Registration, Error> {
        self.engine.register_by(Author::Caller, tenant, definition, None).await
    }

    /// Registers a definition and writes a receipt.
    pub async fn register_once(
        self,
        tenant: &TenantId,
        definition: Value,
        once: Option<Once<Registration>>,
    ) -> Result<Registration, Error> {
        self.engine.register_by(Author::Caller, tenant, definition, once).await
    }

    /// Registers a definition of the operator or of the server itself. The quota for definitions does not apply.
    pub async fn register_for_operator(
        self,
        tenant: &TenantId,
        definition: Value,
    ) -> Result<Registration, Error> {
        self.engine.register_by(Author::Operator, tenant, definition, None).await
    }

    /// Parses and checks a definition without storing it.
    pub fn check(self, definition: &Value, revision: u64) -> Result<Workflow, Error> {
        self.engine.0.nodes.check(definition, revision).map_err(Error::InvalidWorkflow)
    }

    /// Returns the latest revision of a definition.
    pub async fn get(self, tenant: &TenantId, id: &WorkflowId) -> Result<WorkflowRevision, Error> {
        workflows::latest(&self.engine.0.db, tenant, id).await?.ok_or(Error::NotFound("workflow"))
    }

    /// Lists the latest revisions of a tenant's definitions. Reads summaries only; a revision that was stored
    /// before summaries existed is read once to create its summary.
    pub async fn list(self, tenant: &TenantId, limit: u64) -> Result<Vec<WorkflowSummary>, Error> {
        let mut listed = Vec::new();
        let mut filled = Vec::new();
        for (mut summary, named) in workflows::summaries(&self.engine.0.db, tenant, limit).await? {
            if !named {
                let found =
                    workflows::revision(&self.engine.0.db, tenant, &summary.id, summary.revision).await?;
                let definition = found.map(|found| found.definition).unwrap_or_default();
                (summary.name, summary.version) = workflows::names(&definition);
                filled.push(workflows::name(tenant, &summary));
            }
            listed.push(summary);
        }
        if !filled.is_empty() {
            self.engine.write(filled).await?;
        }
        Ok(listed)
    }

    /// Returns a revision of a workflow.
    pub async fn revision(
        self,
        tenant: &TenantId,
        id: &WorkflowId,
        revision: u64,
    ) -> Result<Arc<Workflow>, Error> {
        self.engine.0.registry.revision(&self.engine.0.db, tenant, id, revision).await
    }

    /// Returns the newest revision of a workflow.
    pub async fn latest(self, tenant: &TenantId, id: &WorkflowId) -> Result<Option<Arc<Workflow>>, Error> {
        self.engine.0.registry.latest(&self.engine.0.db, tenant, id).await
    }

    /// Returns the definition of a workflow, or the definition that an extension offers. Does not register it.
    pub async fn definition(self, tenant: &TenantId, id: &WorkflowId) -> Result<Value, Error> {
        match self.get(tenant, id).await {
            Ok(registered) => Ok(registered.definition),
            Err(Error::NotFound(what)) => {
                self.engine.0.extensions.offered_workflow(tenant, id).ok_or(Error::NotFound(what))
            }
            Err(error) => Err(error),
        }
    }
}

impl Engine {
    pub(super) async fn register_by(
        &self,
        author: Author,
        tenant: &TenantId,
        definition: Value,
        once: Option<Once<Registration>>,
    ) -> Result<Registration, Error> {
        let (engine, tenant) = (self.clone(), tenant.clone());
        let registering =
            tokio::spawn(async move { engine.register_checked(author, &tenant, definition, once).await });
        registering.await.map_err(|error| store::Error::Failed(error.to_string()))?
    }

    async fn register_checked(
        &self,
        author: Author,
        tenant: &TenantId,
        definition: Value,
        once: Option<Once<Registration>>,
    ) -> Result<Registration, Error> {
        let (engine, once) = (self.clone(), once.as_ref());
        // Compiling patterns is slow; it must not block other requests.
        let checking = tokio::task::spawn_blocking(move || {
            engine.workflows().check(&definition, 1).map(|flow| (flow, definition))
        });
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

    /// Stores a revision. Returns false if a concurrent registration stored this revision first.
    async fn store_revision(
        &self,
        tenant: &TenantId,
        registration: &Registration,
        definition: &Value,
        once: Option<&Once<Registration>>,
    ) -> Result<bool, Error> {
        let workflow = &registration.workflow;
        let (revision, definition) = (workflow.revision, definition.clone());
        let registered =
            WorkflowRevision { revision, definition, created_at: self.now(), loops_checked: true };
        let tenant_row = keys::insert_tenant(tenant, self.now());
        let summary = workflows::summarize(tenant, &workflow.id, &registered);
        let row = workflows::insert(tenant, &workflow.id, &registered);
        let rows = vec![tenant_row, summary, row];
        Ok(matches!(self.submit(Work::Plain(rows), once, registration).await?, CommitReply::Touched(1)))
    }
}
