//! `core.identity`, and the nodes that mark a place in the graph: their outputs are their inputs, whatever they are.

use holdpoint_core::workflow::{self, Flaw};

use super::{Outputs, PureNode, config_flaw, unknown_config};
use crate::context::{Context, Stop};

pub(super) struct Identity;

impl PureNode for Identity {
    fn run(&self, context: &mut Context) -> Result<Outputs, Stop> {
        Ok(context.inputs.clone())
    }
}

/// `core.start`, `core.end`, `core.parallel`, `core.merge`. What begins side by side and what waits for whom is said
/// by the edges; the nodes only give it a name.
pub(super) struct Passage {
    settings: &'static [&'static str],
}

impl Passage {
    pub(super) fn new(settings: &'static [&'static str]) -> Self {
        Self { settings }
    }
}

impl PureNode for Passage {
    fn check(&self, node: &workflow::Node) -> Vec<Flaw> {
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
