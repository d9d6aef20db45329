//! `core.channelWrite`: writes a value to a channel of the run.

use holdpoint_core::Reducer;
use holdpoint_core::workflow::{self, DefinitionFlaw};
use serde_json::Value;

use super::{Outputs, PureNode, config_count, config_flaw, config_ms, config_text, unknown_config};
use crate::context::{ChannelOptions, Context, Stop};

pub(super) struct ChannelWriteNode;

impl PureNode for ChannelWriteNode {
    fn check(&self, node: &workflow::Node) -> Vec<DefinitionFlaw> {
        let mut flaws = unknown_config(node, &["channelName", "reducer", "ttlMs", "maxSize", "value"]);
        match config_text(node, "channelName") {
            Ok(Some(_)) => {}
            Ok(None) => flaws.push(config_flaw(node, "channelName", "is missing")),
            Err(flaw) => flaws.push(flaw),
        }
        if !node.config.contains_key("value") && !node.inputs.contains_key("value") {
            flaws.push(config_flaw(node, "value", "is missing, and so is the input value"));
        }
        flaws.extend(options(node).err());
        flaws
    }

    fn run(&self, context: &mut Context) -> Result<Outputs, Stop> {
        let invalid = |why: String| Stop::failed("invalid_channel_write", why);
        let options = options(context.node()).map_err(|flaw| invalid(flaw.to_string()))?;
        let channel =
            context.config().get("channelName").and_then(Value::as_str).unwrap_or_default().to_owned();
        let value = context.inputs.get("value").or_else(|| context.config().get("value")).cloned();
        let value = value.ok_or_else(|| invalid("the input value is not set".to_owned()))?;
        context.write_channel(channel, value, options);
        Ok(Outputs::new())
    }
}

fn options(node: &workflow::Node) -> Result<ChannelOptions, DefinitionFlaw> {
    let reducer = match config_text(node, "reducer")? {
        None => None,
        Some(text) => Some(Reducer::parse(text).ok_or_else(|| {
            let known = Reducer::ALL.map(Reducer::as_str);
            config_flaw(node, "reducer", format!("must be one of {}", known.join(", ")))
        })?),
    };
    // A TTL of 0 means that entries do not expire.
    let ttl_ms = config_ms(node, "ttlMs")?.filter(|ms| *ms > 0);
    Ok(ChannelOptions { reducer, ttl_ms, max_size: config_count(node, "maxSize")? })
}
