//! `core.openwop.governance.approvalGate`: requests an approval from principals with a role or a scope. If it is
//! granted or overridden, the decision is the output. If it is rejected or times out, the node fails, and edges for
//! failures apply.

use holdpoint_core::workflow::{self, DefinitionFlaw};
use holdpoint_core::{InterruptRequest, Kind};
use serde_json::{Map, Value, json};

use super::approval_gate::decide;
use super::{Outputs, PureNode, config_count, config_flaw, config_ms, unknown_config};
use crate::context::{Context, Stop};
use crate::permitted_effects::COVERS;

pub(super) struct GovernedGate;

/// Config members that are copied into the request.
const SHOWN: [&str; 10] = [
    "title",
    "description",
    "requiredRole",
    "requiredScope",
    "quorum",
    "override",
    "overrideBypassesQuorum",
    "rejectionPolicy",
    "requesterMayNotApprove",
    COVERS,
];

const OTHERS: [&str; 3] = ["timeoutSec", "timeoutMs", "resumeSchema"];

impl PureNode for GovernedGate {
    fn is_gate(&self) -> bool {
        true
    }

    fn grants_effects(&self, _node: &workflow::Node) -> bool {
        true
    }

    fn check(&self, node: &workflow::Node) -> Vec<DefinitionFlaw> {
        let mut flaws = unknown_config(node, &[&SHOWN[..], &OTHERS[..]].concat());
        flaws.extend(config_count(node, "quorum").err());
        flaws.extend(timeout_ms(node).err());
        if let Err(bad) = request(node, "at registration", &Map::new()).check() {
            let field = bad.field.strip_prefix("data.").unwrap_or(&bad.field);
            let field = if field == "requiredApprovals" { "quorum" } else { field };
            flaws.push(config_flaw(node, field, bad.message));
        }
        flaws
    }

    fn run(&self, context: &mut Context) -> Result<Outputs, Stop> {
        let request = request(context.node(), &context.artifact_id(), &context.inputs);
        decide(context, request, "reason")
    }
}

fn request(node: &workflow::Node, artifact_id: &str, inputs: &Map<String, Value>) -> InterruptRequest {
    let mut data = Map::from_iter([
        ("gateId".to_owned(), json!(node.id)),
        ("artifactId".to_owned(), json!(artifact_id)),
        ("artifactType".to_owned(), json!(node.artifact_type.as_deref().unwrap_or("workflow.node"))),
        ("title".to_owned(), json!(node.name)),
        ("actions".to_owned(), json!(["accept", "reject"])),
    ]);
    for field in SHOWN {
        if let Some(value) = node.config.get(field) {
            data.insert(field.to_owned(), value.clone());
        }
    }
    if let Some(quorum) = node.config.get("quorum") {
        data.insert("requiredApprovals".to_owned(), quorum.clone());
    }
    if !inputs.is_empty() {
        let artifact = inputs.get("artifact").cloned().unwrap_or_else(|| Value::Object(inputs.clone()));
        data.insert("artifactData".to_owned(), artifact);
    }
    let mut request = InterruptRequest::new(Kind::Approval, Value::Object(data));
    request.timeout_ms = timeout_ms(node).ok().flatten();
    request.resume_schema = Some(node.config.get("resumeSchema").cloned().unwrap_or_else(decision_schema));
    request
}

/// Returns the timeout, which the config has in seconds or in milliseconds.
fn timeout_ms(node: &workflow::Node) -> Result<Option<u64>, DefinitionFlaw> {
    let ms = config_ms(node, "timeoutMs")?;
    let Some(seconds) = node.config.get("timeoutSec") else { return Ok(ms) };
    if ms.is_some() {
        return Err(config_flaw(node, "timeoutSec", "cannot be combined with timeoutMs; give one of them"));
    }
    let ms = seconds.as_u64().and_then(|seconds| seconds.checked_mul(1000));
    ms.map(Some)
        .ok_or_else(|| config_flaw(node, "timeoutSec", "must be a whole number of seconds, 0 or more"))
}

fn decision_schema() -> Value {
    json!({
        "type": "object", "required": ["decision"],
        "properties": {"decision": {"enum": ["granted", "rejected"]}, "reason": {"type": "string"}},
    })
}
