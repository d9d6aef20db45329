//! `core.approvalGate`: requests an approval. If it is granted, the decision is the output. If it is rejected or times
//! out, the node fails.

use holdpoint_core::workflow::{self, DefinitionFlaw};
use holdpoint_core::{ASSIGNEE_MEMBERS, InterruptRequest, Kind, RunError};
use serde_json::{Map, Value, json};

use super::{Outputs, PureNode, config_ms, unknown_config};
use crate::context::{Context, Stop};
use crate::permitted_effects::COVERS;

pub(super) struct ApprovalGate;

/// The error code of a gate that was rejected or timed out.
const REJECTED: &str = "approval_rejected";

/// Config members that are copied into the request, in addition to [`ASSIGNEE_MEMBERS`].
const SHOWN: [&str; 7] =
    ["description", "actions", "requiredApprovals", "rejectionPolicy", "artifactType", "profile", COVERS];

/// Config members that are not copied. `onTimeout` is accepted and ignored: a timeout never grants an approval.
const OTHERS: [&str; 4] = ["title", "artifactId", "timeoutMs", "onTimeout"];

impl PureNode for ApprovalGate {
    fn is_gate(&self) -> bool {
        true
    }

    fn grants_effects(&self, _node: &workflow::Node) -> bool {
        true
    }

    fn check(&self, node: &workflow::Node) -> Vec<DefinitionFlaw> {
        let mut flaws = unknown_config(node, &[&SHOWN[..], &ASSIGNEE_MEMBERS[..], &OTHERS[..]].concat());
        flaws.extend(config_ms(node, "timeoutMs").err());
        if let Err(bad) = request(node, "at registration", &Map::new()).check() {
            let field = bad.field.strip_prefix("data.").unwrap_or(&bad.field);
            flaws.push(DefinitionFlaw::of_node(&node.id, format!("config.{field}"), bad.message));
        }
        flaws
    }

    fn run(&self, context: &mut Context) -> Result<Outputs, Stop> {
        let request = request(context.node(), &context.artifact_id(), &context.inputs);
        decide(context, request, "feedback")
    }
}

/// Requests a decision and returns the outputs of the gate, or its failure. `why` is the member of the answer that
/// contains the reason for a rejection.
pub(super) fn decide(context: &mut Context, request: InterruptRequest, why: &str) -> Result<Outputs, Stop> {
    let (answer, request) = match context.request_interrupt(request) {
        Err(Stop::TimedOut) => {
            let message = "no decision was made before the deadline; a timeout is not an approval";
            return Err(Stop::Failed(RunError::timed_out(REJECTED, message)));
        }
        other => other?,
    };
    match answer.get("action").and_then(Value::as_str) {
        Some("reject") => {
            let why = answer.get(why).and_then(Value::as_str).unwrap_or("no reason was given");
            Err(Stop::failed(REJECTED, format!("the approval was rejected: {why}")))
        }
        _ => Ok(context.gate_outputs(request.outputs(&answer))),
    }
}

fn request(node: &workflow::Node, artifact_id: &str, inputs: &Map<String, Value>) -> InterruptRequest {
    let text = |field: &str| node.config.get(field).cloned();
    let mut data = Map::new();
    data.insert("artifactId".to_owned(), text("artifactId").unwrap_or(json!(artifact_id)));
    data.insert("artifactType".to_owned(), json!(node.artifact_type.as_deref().unwrap_or("workflow.node")));
    data.insert("title".to_owned(), text("title").unwrap_or(json!(node.name)));
    data.insert("actions".to_owned(), json!(["accept", "reject"]));
    for field in SHOWN.into_iter().chain(ASSIGNEE_MEMBERS) {
        if let Some(value) = node.config.get(field) {
            data.insert(field.to_owned(), value.clone());
        }
    }
    let artifact = inputs.get("artifact").cloned().unwrap_or_else(|| Value::Object(inputs.clone()));
    if !inputs.is_empty() {
        data.insert("artifactData".to_owned(), artifact);
    }
    let mut request = InterruptRequest::new(Kind::Approval, Value::Object(data));
    request.timeout_ms = node.config.get("timeoutMs").and_then(Value::as_u64);
    request
}
