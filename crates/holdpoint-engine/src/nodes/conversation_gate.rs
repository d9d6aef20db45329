//! `core.conversationGate`: opens a conversation, requests a number of turns, and closes it.

use holdpoint_core::workflow::{self, DefinitionFlaw};
use holdpoint_core::{ASSIGNEE_MEMBERS, InterruptRequest, Kind};
use serde_json::{Map, Value, json};

use super::{Outputs, PureNode, config_flaw, config_ms, config_text, unknown_config};
use crate::context::{Context, Stop};

pub(super) struct ConversationGate;

const KNOWN: [&str; 7] =
    ["lifecycle", "mockAutoResume", "turnCount", "title", "prompt", "outcomeSchema", "timeoutMs"];

/// The only supported lifecycle.
const LIFECYCLE: &str = "open-exchange-close";
const TURNS_MAX: u64 = 100;

impl PureNode for ConversationGate {
    fn is_gate(&self) -> bool {
        true
    }

    fn check(&self, node: &workflow::Node) -> Vec<DefinitionFlaw> {
        let mut flaws = unknown_config(node, &[&KNOWN[..], &ASSIGNEE_MEMBERS[..]].concat());
        flaws.extend(config_ms(node, "timeoutMs").err());
        flaws.extend(["title", "prompt"].iter().filter_map(|field| config_text(node, field).err()));
        if node.config.get("lifecycle").is_some_and(|lifecycle| lifecycle != LIFECYCLE) {
            flaws.push(config_flaw(node, "lifecycle", format!("must be {LIFECYCLE}")));
        }
        if node.config.get("mockAutoResume").is_some_and(|flag| !flag.is_boolean()) {
            flaws.push(config_flaw(node, "mockAutoResume", "must be true or false"));
        }
        if node
            .config
            .get("turnCount")
            .is_some_and(|turns| turns.as_u64().is_none_or(|count| count > TURNS_MAX))
        {
            flaws.push(config_flaw(
                node,
                "turnCount",
                format!("must be a whole number from 0 to {TURNS_MAX}"),
            ));
        }
        if let Err(bad) = turn(node, "at registration").check() {
            flaws.push(config_flaw(node, bad.field.trim_start_matches("data."), bad.message));
        }
        flaws
    }

    fn run(&self, context: &mut Context) -> Result<Outputs, Stop> {
        let name = context.conversation_name();
        let node = context.node().clone();
        let mut opening = json!({"conversationId": name});
        if let Some(title) = node.config.get("title") {
            opening["title"] = title.clone();
        }
        context.interrupt(InterruptRequest::new(Kind::ConversationStart, opening))?;
        let turns = node.config.get("turnCount").and_then(Value::as_u64).unwrap_or(1);
        let mut outcomes = Vec::new();
        for _ in 0..turns {
            outcomes.push(context.interrupt(turn(&node, &name))?);
        }
        let id = context.conversation_id(&name);
        context.interrupt(InterruptRequest::new(Kind::ConversationClose, json!({"conversationId": name})))?;
        let outputs =
            [("conversationId", json!(id)), ("turnCount", json!(turns)), ("outcomes", json!(outcomes))];
        Ok(outputs.into_iter().map(|(name, value)| (name.to_owned(), value)).collect())
    }
}

/// Returns the request of one turn. With `mockAutoResume` the engine answers it.
fn turn(node: &workflow::Node, name: &str) -> InterruptRequest {
    let mut data = Map::new();
    data.insert("conversationId".to_owned(), json!(name));
    data.insert("prompt".to_owned(), node.config.get("prompt").cloned().unwrap_or(json!(node.name)));
    let members = ["outcomeSchema"].into_iter().chain(ASSIGNEE_MEMBERS);
    data.extend(members.filter_map(|name| Some((name.to_owned(), node.config.get(name)?.clone()))));
    let mut request = InterruptRequest::new(Kind::ConversationExchange, Value::Object(data));
    request.timeout_ms = node.config.get("timeoutMs").and_then(Value::as_u64);
    if node.config.get("mockAutoResume") == Some(&Value::Bool(true)) {
        request.simulated_answer = Some(json!({"mock": true}));
    }
    request
}
