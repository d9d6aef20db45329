//! `core.clarificationGate`: asks questions and hands the answers on.

use holdpoint_core::workflow::{self, Flaw};
use holdpoint_core::{Kind, Request};
use serde_json::{Map, Value};

use super::{Outputs, PureNode, config_ms, unknown_config};
use crate::context::{Context, Stop};

pub(super) struct ClarificationGate;

impl PureNode for ClarificationGate {
    fn check(&self, node: &workflow::Node) -> Vec<Flaw> {
        let mut flaws = unknown_config(node, &["questions", "contextType", "timeoutMs"]);
        flaws.extend(config_ms(node, "timeoutMs").err());
        if let Err(bad) = request(node).check() {
            let field = bad.field.strip_prefix("data.").unwrap_or(&bad.field);
            flaws.push(Flaw::of_node(&node.id, format!("config.{field}"), bad.message));
        }
        flaws
    }

    fn run(&self, context: &mut Context) -> Result<Outputs, Stop> {
        let answer = context.interrupt(request(context.node()))?;
        Ok(answer.as_object().cloned().unwrap_or_default())
    }
}

fn request(node: &workflow::Node) -> Request {
    let shown = ["questions", "contextType"].into_iter();
    let data: Map<String, Value> =
        shown.filter_map(|field| Some((field.to_owned(), node.config.get(field)?.clone()))).collect();
    let mut request = Request::new(Kind::Clarification, Value::Object(data));
    request.timeout_ms = node.config.get("timeoutMs").and_then(Value::as_u64);
    request
}
