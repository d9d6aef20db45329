//! `core.clarificationGate`: asks questions and hands the answers on.

use holdpoint_core::workflow::{self, Flaw};
use holdpoint_core::{Kind, PEOPLE, Request};
use serde_json::{Map, Value};

use super::{Outputs, PureNode, config_ms, unknown_config};
use crate::context::{Context, Stop};

pub(super) struct ClarificationGate;

/// Config members that are part of what is asked as they are, besides those about people.
const SHOWN: [&str; 2] = ["questions", "contextType"];

impl PureNode for ClarificationGate {
    fn asks(&self) -> bool {
        true
    }

    fn check(&self, node: &workflow::Node) -> Vec<Flaw> {
        let mut flaws = unknown_config(node, &[&SHOWN[..], &PEOPLE[..], &["timeoutMs"]].concat());
        flaws.extend(config_ms(node, "timeoutMs").err());
        if let Err(bad) = request(node).check() {
            let field = bad.field.strip_prefix("data.").unwrap_or(&bad.field);
            flaws.push(Flaw::of_node(&node.id, format!("config.{field}"), bad.message));
        }
        flaws
    }

    fn run(&self, context: &mut Context) -> Result<Outputs, Stop> {
        let request = request(context.node());
        let answer = context.interrupt(request.clone())?;
        Ok(context.gate_outputs(request.outputs(&answer)))
    }
}

fn request(node: &workflow::Node) -> Request {
    let shown = |field: &str| Some((field.to_owned(), node.config.get(field)?.clone()));
    let data: Map<String, Value> = SHOWN.into_iter().chain(PEOPLE).filter_map(shown).collect();
    let mut request = Request::new(Kind::Clarification, Value::Object(data));
    request.timeout_ms = node.config.get("timeoutMs").and_then(Value::as_u64);
    request
}
