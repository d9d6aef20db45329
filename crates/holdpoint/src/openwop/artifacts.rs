//! Handler that returns artifacts: the outputs of nodes with an artifact type.

use std::borrow::Cow;

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use holdpoint_api::artifacts::Artifact;
use holdpoint_core::{NodeStatus, Run};

use super::documents::redact_map;
use crate::app::App;
use crate::auth::CanReadArtifacts;
use crate::body::InPath;
use crate::error::ApiError;

pub(crate) async fn show(
    State(app): State<App>,
    CanReadArtifacts(caller): CanReadArtifacts,
    InPath((run, artifact)): InPath<(String, String)>,
) -> Result<Response, ApiError> {
    let run = app.engine.runs().get(&caller.run(&run)?).await?;
    let found = describe(&run, &artifact).ok_or_else(|| ApiError::not_found("artifact"))?;
    Ok(Json(found).into_response())
}

/// Describes the newest version of an artifact. Earlier versions are in the events of the node.
fn describe<'a>(run: &'a Run, artifact: &'a str) -> Option<Artifact<'a>> {
    let nodes = run.workflow.nodes.iter().zip(&run.nodes);
    let mut made = nodes.filter(|(node, _)| node.artifact_type.is_some());
    let (node, state) = made.find(|(node, _)| run.artifact_id(&node.id) == artifact)?;
    let (data, version) = match state.status {
        NodeStatus::Completed => (&state.outputs, state.visit),
        // The node is in a later visit: the output of the previous visit is the newest.
        _ if state.visit > 1 => (&state.outputs_before, state.visit - 1),
        _ => return None,
    };
    Some(Artifact {
        artifact_id: Cow::Borrowed(artifact),
        artifact_type: Cow::Borrowed(node.artifact_type.as_deref()?),
        run_id: run.id.clone(),
        node_id: node.id.clone(),
        version: version.to_string(),
        created_at: state.ended_at.map(Into::into),
        data: data.as_object().map(|values| redact_map(run, values)).unwrap_or_default(),
    })
}
