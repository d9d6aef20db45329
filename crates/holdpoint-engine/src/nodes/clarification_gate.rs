//! `core.clarificationGate`: opens a clarification. The answers are its outputs.

use holdpoint_core::workflow::{self, DefinitionFlaw};
use holdpoint_core::{ASSIGNEE_MEMBERS, InterruptRequest, Kind};
use serde_json::{Map, Value};

use super::{Outputs, PureNode, config_ms, unknown_config};
use crate::context::{Context, Stop};

pub(super) struct ClarificationGate;

/// Config members that are copied into the request, in addition to [`ASSIGNEE_MEMBERS`].
const SHOWN: [&str; 2] = ["questions", "contextType"];

impl PureNode for ClarificationGate {
    fn is_gate(&self) -> bool {
        true
    }

    fn check(&self, node: &workflow::Node) -> Vec<DefinitionFlaw> {
        let mut flaws = unknown_config(node, &[&SHOWN[..], &ASSIGNEE_MEMBERS[..], &["timeoutMs"]].concat());
        flaws.extend(config_ms(node, "timeoutMs").err());
        if let Err(bad) = request(node).check() {
            let field = bad.field.strip_prefix("data.").unwrap_or(&bad.field);
            flaws.push(DefinitionFlaw::of_node(&node.id, format!("config.{field}"), bad.message));
        }
        flaws
    }

    fn run(&self, context: &mut Context) -> Result<Outputs, Stop> {
        let request = request(context.node());
        let (answer, request) = context.request_interrupt(request)?;
        Ok(context.gate_outputs(request.outputs(&answer)))
    }
}

fn request(node: &workflow::Node) -> InterruptRequest {
    let shown = |field: &str| Some((field.to_owned(), node.config.get(field)?.clone()));
    let data: Map<String, Value> = SHOWN.into_iter().chain(ASSIGNEE_MEMBERS).filter_map(shown).collect();
    let mut request = InterruptRequest::new(Kind::Clarification, Value::Object(data));
    request.timeout_ms = node.config.get("timeoutMs").and_then(Value::as_u64);
    request
}
