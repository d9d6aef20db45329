//! The target of an AG-UI path: an agent or a workflow.

use holdpoint_core::workflow::AGENT_PREFIX;
use holdpoint_core::{TenantId, WorkflowId};
use holdpoint_engine::{Engine, Error};

use crate::error::ApiError;

/// The agent or workflow that a request runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum AgUiTarget {
    Agent { id: String, workflow: WorkflowId },
    Workflow(WorkflowId),
}

impl AgUiTarget {
    pub(super) async fn find(engine: &Engine, tenant: &TenantId, id: &str) -> Result<Self, ApiError> {
        if let Ok(workflow) = WorkflowId::parse(&format!("{AGENT_PREFIX}{id}"))
            && exists(engine, tenant, &workflow).await?
        {
            return Ok(Self::Agent { id: id.to_owned(), workflow });
        }
        // The prefix is reserved for agents, so an id with the prefix is not the id of a workflow.
        if let Ok(workflow) = WorkflowId::parse(id)
            && !id.starts_with(AGENT_PREFIX)
            && exists(engine, tenant, &workflow).await?
        {
            return Ok(Self::Workflow(workflow));
        }
        Err(ApiError::not_found("agent"))
    }

    /// Returns the workflow of the runs.
    pub(super) fn workflow(&self) -> &WorkflowId {
        match self {
            Self::Agent { workflow, .. } | Self::Workflow(workflow) => workflow,
        }
    }
}

async fn exists(engine: &Engine, tenant: &TenantId, workflow: &WorkflowId) -> Result<bool, ApiError> {
    match engine.workflows().definition(tenant, workflow).await {
        Ok(_) => Ok(true),
        Err(Error::NotFound(_)) => Ok(false),
        Err(error) => Err(error.into()),
    }
}
