//! Node types: what a node does when its turn comes. One file each below.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use holdpoint_core::workflow::{self, Flaw};
use holdpoint_core::{Effect, Run};
use serde_json::{Map, Value};

use crate::agent::AgentNode;
use crate::approved;
use crate::context::{Context, EffectContext, Stop};
use crate::engine::Engine;
use crate::providers::ProviderNode;
use crate::store::handles;

mod approval_gate;
mod call_prompt;
mod channel_write;
mod clarification_gate;
mod conditional;
pub mod content_review;
mod conversation_gate;
mod conversations;
mod delay;
mod fail;
mod governed_gate;
pub(crate) mod hold;
pub(crate) mod http;
mod identity;
mod interrupt;
mod loop_node;
mod mock_agent;
mod noop;
mod requires_missing;
mod sub_workflow;
mod variables;

/// What a node hands on: named values that later nodes and the run's variables can see.
pub type Outputs = Map<String, Value>;

/// A node without outside effects. It may run any number of times, so it runs at once, wherever its turn comes up,
/// and is written together with what caused it.
pub trait PureNode: Send + Sync {
    /// Everything wrong with a definition that uses this type, found when it is registered.
    fn check(&self, node: &workflow::Node) -> Vec<Flaw> {
        let _ = node;
        Vec::new()
    }

    /// Capabilities of the engine without which the node fails. Asked for when it runs: a definition may be written
    /// for an engine that has them.
    fn requires(&self) -> &'static [&'static str] {
        &[]
    }

    /// Returns whether the node does nothing but ask: then it is entered before nodes with effects that could begin as well.
    fn asks(&self) -> bool {
        false
    }

    /// Returns whether the node starts other runs. Such a node uses the grants of the gates before it, like a node with
    /// effects.
    #[doc(hidden)]
    fn starts_runs(&self) -> bool {
        false
    }

    fn run(&self, context: &mut Context) -> Result<Outputs, Stop>;
}

/// A node that may touch the world outside. It runs in a worker that holds the run's dispatch, is entered again
/// from its start after every pause, and keeps its effects in [`EffectContext::step`]s, which are not repeated.
pub trait Node: Send + Sync + 'static {
    fn check(&self, node: &workflow::Node) -> Vec<Flaw> {
        let _ = node;
        Vec::new()
    }

    /// The gate without whose grant the node does nothing, if its config names one. That there is such a gate before
    /// it is checked when the definition is registered; the node asks [`Context::check_approved`] before it acts.
    fn approved_by<'a>(&self, node: &'a workflow::Node) -> Option<&'a str> {
        let _ = node;
        None
    }

    /// As for a [`PureNode`].
    fn requires(&self) -> &'static [&'static str] {
        &[]
    }

    /// The node commits what it has done by itself before anything happens outside, so that nothing needs to be on disk
    /// when it is entered.
    #[doc(hidden)]
    fn writes_first(&self) -> bool {
        false
    }

    /// Nothing outside happens at this node, whatever it comes to: then it needs no worker, and is run and written as a
    /// [`PureNode`] is.
    #[doc(hidden)]
    fn stays_inside(&self, engine: &Engine, run: &Run, node: &workflow::Node) -> bool {
        let _ = (engine, run, node);
        false
    }

    fn run(&self, context: &mut EffectContext) -> impl Future<Output = Result<Outputs, Stop>> + Send;
}

/// What nodes may require of this engine.
const PROVIDED: [&str; 5] = ["interrupts", "timers", "channels", "sub-workflows", "steps"];

pub(crate) fn check_provided(required: &[&str]) -> Result<(), Stop> {
    match required.iter().find(|name| !PROVIDED.contains(name)) {
        Some(missing) => Err(Stop::failed(
            "capability_not_provided",
            format!("the node requires {missing}, which this engine does not provide"),
        )),
        None => Ok(()),
    }
}

type Execution<'a> = Pin<Box<dyn Future<Output = Result<Outputs, Stop>> + Send + 'a>>;

/// `Node` behind a pointer.
pub(crate) trait ErasedNode: Send + Sync {
    fn check(&self, node: &workflow::Node) -> Vec<Flaw>;
    fn approved_by<'a>(&self, node: &'a workflow::Node) -> Option<&'a str>;
    fn writes_first(&self) -> bool;
    fn stays_inside(&self, engine: &Engine, run: &Run, node: &workflow::Node) -> bool;
    fn run<'a>(&'a self, context: &'a mut EffectContext) -> Execution<'a>;
}

impl<T: Node> ErasedNode for T {
    fn check(&self, node: &workflow::Node) -> Vec<Flaw> {
        Node::check(self, node)
    }

    fn approved_by<'a>(&self, node: &'a workflow::Node) -> Option<&'a str> {
        Node::approved_by(self, node)
    }

    fn writes_first(&self) -> bool {
        Node::writes_first(self)
    }

    fn stays_inside(&self, engine: &Engine, run: &Run, node: &workflow::Node) -> bool {
        Node::stays_inside(self, engine, run, node)
    }

    fn run<'a>(&'a self, context: &'a mut EffectContext) -> Execution<'a> {
        Box::pin(async move {
            check_provided(Node::requires(self))?;
            Node::run(self, context).await
        })
    }
}

#[derive(Clone)]
pub(crate) enum NodeType {
    Pure(Arc<dyn PureNode>),
    Effect(Arc<dyn ErasedNode>),
}

/// Every node type this engine knows, by its `typeId`, and whether it has conversations.
#[derive(Clone)]
pub(crate) struct NodeTypes {
    by_id: BTreeMap<String, NodeType>,
    conversations: bool,
}

impl std::fmt::Debug for NodeTypes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_set().entries(self.by_id.keys()).finish()
    }
}

impl NodeTypes {
    pub(crate) fn built_in() -> Self {
        let mut types = Self { by_id: BTreeMap::new(), conversations: true };
        types.pure("core.noop", noop::Noop);
        types.pure("core.identity", identity::Identity);
        types.pure("core.start", identity::Passage::new(&[]));
        types.pure("core.end", identity::Passage::new(&[]));
        types.pure("core.parallel", identity::Passage::new(&[]));
        types.pure("core.merge", identity::Passage::new(&["mode"]));
        types.pure("core.conditional", conditional::Conditional);
        types.pure("core.loop", loop_node::LoopNode);
        types.pure("core.setVariable", variables::SetVariable);
        types.pure("core.getVariable", variables::GetVariable);
        types.pure("core.channelWrite", channel_write::Write);
        types.pure("core.subWorkflow", sub_workflow::SubWorkflow);
        types.pure("core.control.subWorkflow", sub_workflow::SubWorkflow);
        types.pure("core.ai.callPrompt", call_prompt::CallPrompt);
        types.pure("conformance.requiresMissing", requires_missing::RequiresMissing);
        types.pure("core.delay", delay::Delay);
        types.pure("core.fail", fail::Fail);
        types.pure("core.approvalGate", approval_gate::ApprovalGate);
        types.pure("core.openwop.governance.approvalGate", governed_gate::GovernedGate);
        types.pure("core.clarificationGate", clarification_gate::ClarificationGate);
        types.pure("core.interrupt", interrupt::Interrupt);
        types.pure("core.hold", hold::Hold);
        types.pure("core.conversationGate", conversation_gate::ConversationGate);
        types.pure("core.conformance.mock-agent", mock_agent::MockAgent);
        types.effect("core.http", http::Http::default());
        types.effect("core.agent", AgentNode);
        types.effect(handles::NODE_TYPE, ProviderNode);
        content_review::add_to(&mut types);
        types
    }

    pub(crate) fn pure(&mut self, type_id: &str, node: impl PureNode + 'static) {
        self.by_id.insert(type_id.to_owned(), NodeType::Pure(Arc::new(node)));
    }

    pub(crate) fn effect(&mut self, type_id: &str, node: impl Node) {
        self.by_id.insert(type_id.to_owned(), NodeType::Effect(Arc::new(node)));
    }

    pub(crate) fn names(&self) -> impl Iterator<Item = String> {
        self.by_id.keys().cloned()
    }

    pub(crate) fn get(&self, type_id: &str) -> Option<&NodeType> {
        self.by_id.get(type_id)
    }

    /// See [`PureNode::asks`].
    pub(crate) fn asks(&self, node: &workflow::Node) -> bool {
        matches!(self.get(&node.type_id), Some(NodeType::Pure(pure)) if pure.asks())
    }

    /// Returns whether a node acts outside of its run.
    pub(crate) fn effect_of(&self, node: &workflow::Node) -> Effect {
        match self.get(&node.type_id) {
            Some(NodeType::Effect(_)) => Effect::Outside,
            Some(NodeType::Pure(pure)) if pure.starts_runs() => Effect::Outside,
            Some(NodeType::Pure(_)) | None => Effect::None,
        }
    }

    /// Parses a definition and asks the node types about their nodes.
    pub(crate) fn check(&self, definition: &Value, revision: u64) -> Result<workflow::Workflow, Vec<Flaw>> {
        let workflow = workflow::Workflow::parse(definition, revision)?;
        let flaws = self.flaws(&workflow);
        if flaws.is_empty() { Ok(workflow) } else { Err(flaws) }
    }

    /// What the node types say of a definition that is well formed.
    pub(crate) fn flaws(&self, workflow: &workflow::Workflow) -> Vec<Flaw> {
        let mut flaws: Vec<Flaw> = workflow.nodes.iter().flat_map(|node| self.node_flaws(node)).collect();
        flaws.extend(workflow.nodes.iter().filter_map(|node| match self.get(&node.type_id)? {
            NodeType::Effect(effect) => approved::flaw(workflow, node, effect.approved_by(node)?),
            NodeType::Pure(_) => None,
        }));
        flaws.extend(self.grant_flaws(workflow));
        flaws.extend(self.missing(workflow));
        flaws
    }

    fn node_flaws(&self, node: &workflow::Node) -> Vec<Flaw> {
        match self.get(&node.type_id) {
            Some(NodeType::Pure(pure)) => pure.check(node),
            Some(NodeType::Effect(effect)) => effect.check(node),
            None => {
                let known: Vec<&str> = self.by_id.keys().map(String::as_str).collect();
                let message =
                    format!("{:?} is not a known node type; known: {}", node.type_id, known.join(", "));
                vec![Flaw::of_node(&node.id, "typeId", message)]
            }
        }
    }
}

/// A misspelt setting would otherwise be ignored, and a gate would wait without its deadline.
pub(crate) fn unknown_config(node: &workflow::Node, known: &[&str]) -> Vec<Flaw> {
    let strange = node.config.keys().filter(|name| !known.contains(&name.as_str()));
    let message = format!("is not a setting of {}; known: {}", node.type_id, known.join(", "));
    strange.map(|name| Flaw::of_node(&node.id, format!("config.{name}"), message.clone())).collect()
}

/// A flaw in a member of a node's config.
pub(crate) fn config_flaw(node: &workflow::Node, field: &str, message: impl Into<String>) -> Flaw {
    Flaw::of_node(&node.id, format!("config.{field}"), message)
}

/// A non-empty text in a node's config.
pub(crate) fn config_text<'a>(node: &'a workflow::Node, field: &str) -> Result<Option<&'a str>, Flaw> {
    match node.config.get(field) {
        None => Ok(None),
        Some(Value::String(text)) if !text.is_empty() => Ok(Some(text)),
        Some(_) => Err(config_flaw(node, field, "must be a non-empty string")),
    }
}

/// An optional whole number, 1 or more.
pub(crate) fn config_count(node: &workflow::Node, field: &str) -> Result<Option<u64>, Flaw> {
    match node.config.get(field) {
        None => Ok(None),
        Some(value) => value
            .as_u64()
            .filter(|count| *count > 0)
            .map(Some)
            .ok_or_else(|| config_flaw(node, field, "must be a whole number, 1 or more")),
    }
}

/// An optional non-negative whole number in a node's config.
pub(crate) fn config_ms(node: &workflow::Node, field: &str) -> Result<Option<u64>, Flaw> {
    match node.config.get(field) {
        None => Ok(None),
        Some(value) => value.as_u64().map(Some).ok_or_else(|| {
            Flaw::of_node(
                &node.id,
                format!("config.{field}"),
                "must be a whole number of milliseconds, 0 or more",
            )
        }),
    }
}
