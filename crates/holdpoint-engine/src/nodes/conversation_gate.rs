//! `core.conversationGate`: opens a conversation, asks a few times, and closes it.

use holdpoint_core::workflow::{self, Flaw};
use holdpoint_core::{Kind, PEOPLE, Request};
use serde_json::{Map, Value, json};

use super::{Outputs, PureNode, config_flaw, config_ms, config_text, unknown_config};
use crate::context::{Context, Stop};

pub(super) struct ConversationGate;

const KNOWN: [&str; 7] =
    ["lifecycle", "mockAutoResume", "turnCount", "title", "prompt", "outcomeSchema", "timeoutMs"];

/// The only one there is.
const LIFECYCLE: &str = "open-exchange-close";
const TURNS_MAX: u64 = 100;

impl PureNode for ConversationGate {
    fn asks(&self) -> bool {
        true
    }

    fn check(&self, node: &workflow::Node) -> Vec<Flaw> {
        let mut flaws = unknown_config(node, &[&KNOWN[..], &PEOPLE[..]].concat());
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
        context.interrupt(Request::new(Kind::ConversationStart, opening))?;
        let turns = node.config.get("turnCount").and_then(Value::as_u64).unwrap_or(1);
        let mut said = Vec::new();
        for _ in 0..turns {
            said.push(context.interrupt(turn(&node, &name))?);
        }
        let id = context.conversation_id(&name);
        context.interrupt(Request::new(Kind::ConversationClose, json!({"conversationId": name})))?;
        let outputs = [("conversationId", json!(id)), ("turnCount", json!(turns)), ("outcomes", json!(said))];
        Ok(outputs.into_iter().map(|(name, value)| (name.to_owned(), value)).collect())
    }
}

/// One turn. With `mockAutoResume` the host plays the other side.
fn turn(node: &workflow::Node, name: &str) -> Request {
    let mut data = Map::new();
    data.insert("conversationId".to_owned(), json!(name));
    data.insert("prompt".to_owned(), node.config.get("prompt").cloned().unwrap_or(json!(node.name)));
    let members = ["outcomeSchema"].into_iter().chain(PEOPLE);
    data.extend(members.filter_map(|name| Some((name.to_owned(), node.config.get(name)?.clone()))));
    let mut request = Request::new(Kind::ConversationExchange, Value::Object(data));
    request.timeout_ms = node.config.get("timeoutMs").and_then(Value::as_u64);
    if node.config.get("mockAutoResume") == Some(&Value::Bool(true)) {
        request.rehearsed = Some(json!({"mock": true}));
    }
    request
}
