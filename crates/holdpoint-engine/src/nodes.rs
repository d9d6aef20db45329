//! Node types: the traits for their code, and the list of the built-in types. Each type has a file in `nodes/`.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use holdpoint_core::workflow::{self, DefinitionFlaw};
use holdpoint_core::{Effect, Run};
use serde_json::{Map, Value};

use crate::context::{Context, EffectContext, Stop};
use crate::engine::Engine;
use crate::{approval_check, permitted_effects};

mod approval_gate;
mod call_prompt;
mod channel_write;
mod clarification_gate;
mod conditional;
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
mod noop;
mod sub_workflow;
mod variables;

/// The named values that a node produces. Later nodes can read them, and they become variables of the run.
pub type Outputs = Map<String, Value>;

/// A node without effects. It may be executed any number of times, so any process executes it as soon as it can start,
/// and commits its result together with the change that made it ready.
pub trait PureNode: Send + Sync {
    /// Returns all flaws of a node of this type. They are found when the definition is registered.
    fn check(&self, node: &workflow::Node) -> Vec<DefinitionFlaw> {
        let _ = node;
        Vec::new()
    }

    /// Returns the capabilities of the engine that the node needs. They are checked when the node is executed, because
    /// a definition may be written for another engine.
    fn requires(&self) -> &'static [&'static str] {
        &[]
    }

    /// Returns true if the node only opens an interrupt. Such a node is executed before nodes with effects that could
    /// start at the same time.
    fn is_gate(&self) -> bool {
        false
    }

    /// Returns true if decisions at this node are grants, so that the node can permit effects.
    fn grants_effects(&self, node: &workflow::Node) -> bool {
        let _ = node;
        false
    }

    /// Returns true if the node starts child runs. Such a node uses the grants of the gates before it, like a node with
    /// effects.
    #[doc(hidden)]
    fn starts_runs(&self) -> bool {
        false
    }

    /// Executes the node.
    fn run(&self, context: &mut Context) -> Result<Outputs, Stop>;
}

/// A node with effects. A worker that has claimed the run's dispatch executes it. After every interruption the node is
/// executed again from its start. It performs its effects in [`EffectContext::step`]s, which are not repeated.
pub trait Node: Send + Sync + 'static {
    /// Returns all flaws of a node of this type. They are found when the definition is registered.
    fn check(&self, node: &workflow::Node) -> Vec<DefinitionFlaw> {
        let _ = node;
        Vec::new()
    }

    /// Returns the id of the gate whose grant the node needs, from the node's config. Registration checks that the gate
    /// comes before the node; the node calls [`Context::check_approved`] before its effect.
    fn approved_by<'a>(&self, node: &'a workflow::Node) -> Option<&'a str> {
        let _ = node;
        None
    }

    /// Returns true if the node that `approved_by` names can approve the effect. By default this is an approval gate.
    fn accepts_gate(&self, gate: &workflow::Node) -> bool {
        permitted_effects::is_approval_gate(gate)
    }

    /// Returns true if the node stores a reference to outside state in a handle. The handle then expires as soon as the
    /// run fails or is cancelled. Nodes of a run that use its handle execute one at a time.
    fn uses_handle(&self) -> bool {
        false
    }

    /// Returns the capabilities that the node needs, as for a [`PureNode`].
    fn requires(&self) -> &'static [&'static str] {
        &[]
    }

    /// Returns true if the node itself commits its record before each effect. Then no commit is needed before it is
    /// executed.
    #[doc(hidden)]
    fn commits_before_effects(&self) -> bool {
        false
    }

    /// Returns true if the node can be executed in the change that activates its run until it needs a claim, or to its
    /// end. Before it waits for anything outside the process, it must call [`EffectContext::require_claim`] or commit.
    #[doc(hidden)]
    fn begins_without_claim(&self, engine: &Engine, run: &Run, node: &workflow::Node) -> bool {
        let _ = (engine, run, node);
        false
    }

    /// Executes the node.
    fn run(&self, context: &mut EffectContext) -> impl Future<Output = Result<Outputs, Stop>> + Send;
}

/// The capabilities that this engine provides to nodes.
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

type NodeFuture<'a> = Pin<Box<dyn Future<Output = Result<Outputs, Stop>> + Send + 'a>>;

/// The object-safe form of [`Node`].
pub(crate) trait ErasedNode: Send + Sync {
    fn check(&self, node: &workflow::Node) -> Vec<DefinitionFlaw>;
    fn approved_by<'a>(&self, node: &'a workflow::Node) -> Option<&'a str>;
    fn accepts_gate(&self, gate: &workflow::Node) -> bool;
    fn uses_handle(&self) -> bool;
    fn commits_before_effects(&self) -> bool;
    fn begins_without_claim(&self, engine: &Engine, run: &Run, node: &workflow::Node) -> bool;
    fn run<'a>(&'a self, context: &'a mut EffectContext) -> NodeFuture<'a>;
}

impl<T: Node> ErasedNode for T {
    fn check(&self, node: &workflow::Node) -> Vec<DefinitionFlaw> {
        Node::check(self, node)
    }

    fn approved_by<'a>(&self, node: &'a workflow::Node) -> Option<&'a str> {
        Node::approved_by(self, node)
    }

    fn accepts_gate(&self, gate: &workflow::Node) -> bool {
        Node::accepts_gate(self, gate)
    }

    fn uses_handle(&self) -> bool {
        Node::uses_handle(self)
    }

    fn commits_before_effects(&self) -> bool {
        Node::commits_before_effects(self)
    }

    fn begins_without_claim(&self, engine: &Engine, run: &Run, node: &workflow::Node) -> bool {
        Node::begins_without_claim(self, engine, run, node)
    }

    fn run<'a>(&'a self, context: &'a mut EffectContext) -> NodeFuture<'a> {
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

/// The node types of this engine by their `typeId`, and whether conversations are enabled.
#[derive(Clone)]
pub struct NodeTypes {
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
        types.pure("core.identity", identity::IdentityNode);
        types.pure("core.start", identity::PassThroughNode::new(&[]));
        types.pure("core.end", identity::PassThroughNode::new(&[]));
        types.pure("core.parallel", identity::PassThroughNode::new(&[]));
        types.pure("core.merge", identity::PassThroughNode::new(&["mode"]));
        types.pure("core.conditional", conditional::ConditionalNode);
        types.pure("core.loop", loop_node::LoopNode);
        types.pure("core.setVariable", variables::SetVariable);
        types.pure("core.getVariable", variables::GetVariable);
        types.pure("core.channelWrite", channel_write::ChannelWriteNode);
        types.pure("core.subWorkflow", sub_workflow::SubWorkflow);
        types.pure("core.control.subWorkflow", sub_workflow::SubWorkflow);
        types.pure("core.ai.callPrompt", call_prompt::CallPromptNode);
        types.pure("core.delay", delay::DelayNode);
        types.pure("core.fail", fail::FailNode);
        types.pure("core.approvalGate", approval_gate::ApprovalGate);
        types.pure("core.openwop.governance.approvalGate", governed_gate::GovernedGate);
        types.pure("core.clarificationGate", clarification_gate::ClarificationGate);
        types.pure("core.interrupt", interrupt::InterruptNode);
        types.pure("core.hold", hold::HoldGate);
        types.pure("core.conversationGate", conversation_gate::ConversationGate);
        types.effect("core.http", http::HttpNode::default());
        types
    }

    /// Adds a node type without effects.
    pub fn pure(&mut self, type_id: &str, node: impl PureNode + 'static) {
        self.by_id.insert(type_id.to_owned(), NodeType::Pure(Arc::new(node)));
    }

    /// Adds a node type with effects.
    pub fn effect(&mut self, type_id: &str, node: impl Node) {
        self.by_id.insert(type_id.to_owned(), NodeType::Effect(Arc::new(node)));
    }

    pub(crate) fn names(&self) -> impl Iterator<Item = String> {
        self.by_id.keys().cloned()
    }

    pub(crate) fn get(&self, type_id: &str) -> Option<&NodeType> {
        self.by_id.get(type_id)
    }

    /// See [`PureNode::is_gate`].
    pub(crate) fn is_gate(&self, node: &workflow::Node) -> bool {
        matches!(self.get(&node.type_id), Some(NodeType::Pure(pure)) if pure.is_gate())
    }

    /// Returns whether decisions at the node are grants.
    pub(crate) fn grants_effects(&self, node: &workflow::Node) -> bool {
        matches!(self.get(&node.type_id), Some(NodeType::Pure(pure)) if pure.grants_effects(node))
    }

    /// Returns whether a node of the workflow stores a reference to outside state in a handle.
    pub(crate) fn use_handles(&self, workflow: &workflow::Workflow) -> bool {
        workflow.nodes.iter().any(|node| self.uses_handle(node))
    }

    /// See [`Node::uses_handle`].
    pub(crate) fn uses_handle(&self, node: &workflow::Node) -> bool {
        matches!(self.get(&node.type_id), Some(NodeType::Effect(effect)) if effect.uses_handle())
    }

    /// Returns the effect class of a node: nodes with effects and nodes that start child runs act outside of their run.
    pub(crate) fn effect_of(&self, node: &workflow::Node) -> Effect {
        match self.get(&node.type_id) {
            Some(NodeType::Effect(_)) => Effect::Outside,
            Some(NodeType::Pure(pure)) if pure.starts_runs() => Effect::Outside,
            Some(NodeType::Pure(_)) | None => Effect::None,
        }
    }

    /// Parses a definition and checks its nodes with their types.
    pub(crate) fn check(
        &self,
        definition: &Value,
        revision: u64,
    ) -> Result<workflow::Workflow, Vec<DefinitionFlaw>> {
        let workflow = workflow::Workflow::parse(definition, revision)?;
        let flaws = self.flaws(&workflow);
        if flaws.is_empty() { Ok(workflow) } else { Err(flaws) }
    }

    /// Returns the flaws that the node types find in a parsed definition.
    pub(crate) fn flaws(&self, workflow: &workflow::Workflow) -> Vec<DefinitionFlaw> {
        let mut flaws: Vec<DefinitionFlaw> =
            workflow.nodes.iter().flat_map(|node| self.node_flaws(node)).collect();
        flaws.extend(workflow.nodes.iter().filter_map(|node| match self.get(&node.type_id)? {
            NodeType::Effect(effect) => {
                let accepts = |gate: &workflow::Node| effect.accepts_gate(gate);
                approval_check::find_gate_flaw(workflow, node, effect.approved_by(node)?, accepts)
            }
            NodeType::Pure(_) => None,
        }));
        flaws.extend(self.grant_flaws(workflow));
        flaws.extend(self.capability_flaws(workflow));
        flaws
    }

    fn node_flaws(&self, node: &workflow::Node) -> Vec<DefinitionFlaw> {
        match self.get(&node.type_id) {
            Some(NodeType::Pure(pure)) => pure.check(node),
            Some(NodeType::Effect(effect)) => effect.check(node),
            None => {
                let known: Vec<&str> = self.by_id.keys().map(String::as_str).collect();
                let message =
                    format!("{:?} is not a known node type; known: {}", node.type_id, known.join(", "));
                vec![DefinitionFlaw::of_node(&node.id, "typeId", message)]
            }
        }
    }
}

/// Rejects unknown config members. Otherwise a gate with a misspelt `timeoutMs` would have no deadline.
pub fn unknown_config(node: &workflow::Node, known: &[&str]) -> Vec<DefinitionFlaw> {
    let unknown = node.config.keys().filter(|name| !known.contains(&name.as_str()));
    let message = format!("is not a setting of {}; known: {}", node.type_id, known.join(", "));
    unknown.map(|name| DefinitionFlaw::of_node(&node.id, format!("config.{name}"), message.clone())).collect()
}

/// Returns a flaw of a member of a node's config.
pub fn config_flaw(node: &workflow::Node, field: &str, message: impl Into<String>) -> DefinitionFlaw {
    DefinitionFlaw::of_node(&node.id, format!("config.{field}"), message)
}

/// Reads an optional non-empty string from a node's config.
pub fn config_text<'a>(node: &'a workflow::Node, field: &str) -> Result<Option<&'a str>, DefinitionFlaw> {
    match node.config.get(field) {
        None => Ok(None),
        Some(Value::String(text)) if !text.is_empty() => Ok(Some(text)),
        Some(_) => Err(config_flaw(node, field, "must be a non-empty string")),
    }
}

/// Reads an optional whole number, 1 or more, from a node's config.
pub fn config_count(node: &workflow::Node, field: &str) -> Result<Option<u64>, DefinitionFlaw> {
    match node.config.get(field) {
        None => Ok(None),
        Some(value) => value
            .as_u64()
            .filter(|count| *count > 0)
            .map(Some)
            .ok_or_else(|| config_flaw(node, field, "must be a whole number, 1 or more")),
    }
}

/// Reads an optional number of milliseconds, 0 or more, from a node's config.
pub fn config_ms(node: &workflow::Node, field: &str) -> Result<Option<u64>, DefinitionFlaw> {
    match node.config.get(field) {
        None => Ok(None),
        Some(value) => value.as_u64().map(Some).ok_or_else(|| {
            DefinitionFlaw::of_node(
                &node.id,
                format!("config.{field}"),
                "must be a whole number of milliseconds, 0 or more",
            )
        }),
    }
}
