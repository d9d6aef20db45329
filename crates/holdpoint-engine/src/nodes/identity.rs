//! `core.identity`, and the node types that mark a point in the graph. Their outputs are their inputs.

use holdpoint_core::workflow::{self, DefinitionFlaw};

use super::{Outputs, PureNode, config_flaw, unknown_config};
use crate::context::{Context, Stop};

pub(super) struct IdentityNode;

impl PureNode for IdentityNode {
    fn run(&self, context: &mut Context) -> Result<Outputs, Stop> {
        Ok(context.inputs.clone())
    }
}

/// `core.start`, `core.end`, `core.parallel`, `core.merge`. Edges and trigger rules define concurrency and joins; these
/// nodes only mark a point in the graph.
pub(super) struct PassThroughNode {
    settings: &'static [&'static str],
}

impl PassThroughNode {
    pub(super) fn new(settings: &'static [&'static str]) -> Self {
        Self { settings }
    }
}

impl PureNode for PassThroughNode {
    fn check(&self, node: &workflow::Node) -> Vec<DefinitionFlaw> {
        let mut flaws = unknown_config(node, self.settings);
        let mode = node.config.get("mode").filter(|_| self.settings.contains(&"mode"));
        if mode.is_some_and(|mode| mode != "all" && mode != "any") {
            flaws.push(config_flaw(node, "mode", "must be all or any"));
        }
        flaws
    }

    fn run(&self, context: &mut Context) -> Result<Outputs, Stop> {
        Ok(context.inputs.clone())
    }
}
