//! How an engine is opened: where it keeps its data, which clock it reads, which nodes it knows.

use crate::clock::Clock;
use crate::committer::Fault;
use crate::nodes::{Node, NodeTypes, PureNode};
use crate::store::Location;

/// How to open an engine.
#[derive(Debug)]
pub struct Options {
    pub(super) location: Location,
    pub(super) clock: Clock,
    pub(super) nodes: NodeTypes,
    pub(super) fault: Option<Fault>,
}

impl Options {
    pub fn new(location: Location) -> Self {
        Self { location, clock: Clock::System, nodes: NodeTypes::built_in(), fault: None }
    }

    #[must_use]
    pub fn clock(mut self, clock: Clock) -> Self {
        self.clock = clock;
        self
    }

    /// Adds a node type with outside effects.
    #[must_use]
    pub fn node(mut self, type_id: &str, node: impl Node) -> Self {
        self.nodes.effect(type_id, node);
        self
    }

    /// Adds a node type without outside effects.
    #[must_use]
    pub fn pure_node(mut self, type_id: &str, node: impl PureNode + 'static) -> Self {
        self.nodes.pure(type_id, node);
        self
    }

    /// Stops writing at a chosen commit, as a crash would. For tests of recovery.
    #[must_use]
    pub fn fault(mut self, stop: Fault) -> Self {
        self.fault = Some(stop);
        self
    }
}
