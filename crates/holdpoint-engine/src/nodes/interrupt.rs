//! `core.interrupt`: any interrupt, written out in its config.

use holdpoint_core::workflow::{self, Flaw};
use holdpoint_core::{Kind, Request, RunError};
use serde_json::Value;

use super::{Outputs, PureNode, config_ms, unknown_config};
use crate::context::{Context, Stop};

pub(super) struct Interrupt;

impl PureNode for Interrupt {
    fn check(&self, node: &workflow::Node) -> Vec<Flaw> {
        let mut flaws = unknown_config(node, &["kind", "data", "key", "resumeSchema", "timeoutMs"]);
        flaws.extend(config_ms(node, "timeoutMs").err());
        if node.config.get("key").is_some_and(|key| !key.is_string()) {
            flaws.push(Flaw::of_node(&node.id, "config.key", "must be a string"));
        }
        match request(node) {
            Ok(request) => flaws.extend(
                request
                    .check()
                    .err()
                    .map(|bad| Flaw::of_node(&node.id, format!("config.{}", bad.field), bad.message)),
            ),
            Err(flaw) => flaws.push(flaw),
        }
        flaws
    }

    fn run(&self, context: &mut Context) -> Result<Outputs, Stop> {
        let request = request(context.node())
            .map_err(|flaw| Stop::Failed(RunError::new("invalid_interrupt", flaw.to_string())))?;
        let answer = context.interrupt(request)?;
        let mut outputs = Outputs::new();
        outputs.insert("value".to_owned(), answer);
        Ok(outputs)
    }
}

fn request(node: &workflow::Node) -> Result<Request, Flaw> {
    let text = node.config.get("kind").and_then(Value::as_str).unwrap_or_default();
    let kind = Kind::parse(text).ok_or_else(|| unknown_kind(node, text))?;
    let mut request = Request::new(kind, node.config.get("data").cloned().unwrap_or(Value::Null));
    request.key = node.config.get("key").and_then(Value::as_str).map(str::to_owned);
    request.resume_schema = node.config.get("resumeSchema").cloned();
    request.timeout_ms = node.config.get("timeoutMs").and_then(Value::as_u64);
    Ok(request)
}

fn unknown_kind(node: &workflow::Node, text: &str) -> Flaw {
    let known: Vec<&str> = Kind::ALL.iter().map(|kind| kind.as_str()).collect();
    let mut flaw = Flaw::of_node(&node.id, "config.kind", format!("must be one of {}", known.join(", ")));
    flaw.capability = match text {
        "conversation.start" | "conversation.exchange" | "conversation.close" => {
            Some("conversationPrimitive")
        }
        "low-confidence" => Some("agents"),
        _ => None,
    };
    flaw
}
