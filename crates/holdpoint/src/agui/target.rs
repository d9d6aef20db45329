//! Whom a path means: an agent, or else a workflow.

use holdpoint_core::workflow::AGENT_PREFIX;
use holdpoint_core::{TenantId, WorkflowId};
use holdpoint_engine::{Engine, Error};

use crate::error::ApiError;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Target {
    Agent { id: String, workflow: WorkflowId },
    Workflow(WorkflowId),
}

impl Target {
    pub(super) async fn find(engine: &Engine, tenant: &TenantId, id: &str) -> Result<Self, ApiError> {
        if let Ok(workflow) = WorkflowId::parse(&format!("{AGENT_PREFIX}{id}"))
            && is_there(engine, tenant, &workflow).await?
        {
            return Ok(Self::Agent { id: id.to_owned(), workflow });
        }
        // Names of agents are taken by nothing else: who names one so does not mean a workflow.
        if let Ok(workflow) = WorkflowId::parse(id)
            && !id.starts_with(AGENT_PREFIX)
            && is_there(engine, tenant, &workflow).await?
        {
            return Ok(Self::Workflow(workflow));
        }
        Err(ApiError::not_found("agent"))
    }

    /// What its runs are runs of.
    pub(super) fn workflow(&self) -> &WorkflowId {
        match self {
            Self::Agent { workflow, .. } | Self::Workflow(workflow) => workflow,
        }
    }
}

async fn is_there(engine: &Engine, tenant: &TenantId, workflow: &WorkflowId) -> Result<bool, ApiError> {
    match engine.definition(tenant, workflow).await {
        Ok(_) => Ok(true),
        Err(Error::NotFound(_)) => Ok(false),
        Err(error) => Err(error.into()),
    }
}
