//! Workflow definitions in the JSON format of OpenWOP. A definition is parsed and validated once.

use std::collections::{BTreeMap, HashMap};

use serde_json::{Map, Value};

use crate::schema::{Schema, check_patterns};
use crate::{NodeId, WorkflowId};

mod builder;
mod channel;
mod condition;
mod expression;
mod graph;
mod loops;
mod parse;
mod ports;
mod scheduling;

pub use builder::{Approval, Form, Input, InvalidDefinition, Step, WorkflowBuilder, WorkflowDefinition};
pub use channel::Channel;
pub use condition::EdgeCondition;
pub use expression::{Expression, ExpressionScope};
pub use loops::Loop;
pub use ports::InputError;
pub(crate) use ports::{readable_variables, resolve_inputs};
pub(crate) use scheduling::{GraphAction, evaluate_edge, next_action, next_consequence, ready_nodes};

/// The prefix of the workflow ids of agents. An agent is registered as a workflow with one node. No other workflow id
/// can have this prefix.
pub const AGENT_PREFIX: &str = "agent:";

/// Returns the kind of the provider (the part before the colon, such as `langgraph`) and the name of the graph. Returns
/// `None` if the id is not the id of a provider's graph.
pub fn provider_graph(id: &str) -> Option<(&str, &str)> {
    id.split_once(':').filter(|_| !id.starts_with(AGENT_PREFIX))
}

/// Returns whether a text is a valid workflow id. Ids of agents and of provider graphs have a prefix with a colon.
fn is_id(text: &str) -> bool {
    let named = |name: &str, others: &str| {
        !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || others.contains(c))
    };
    let plain = |text: &str| {
        let rest = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_' || c == '-';
        text.starts_with(|first: char| first.is_ascii_lowercase()) && text.chars().all(rest)
    };
    match (text.strip_prefix(AGENT_PREFIX), provider_graph(text)) {
        (Some(name), _) => named(name, "-_."),
        (None, Some((kind, name))) => plain(kind) && named(name, "-_./"),
        (None, None) => plain(text),
    }
}

/// A validated workflow definition. Nodes and edges keep the order of the file.
#[derive(Debug)]
pub struct Workflow {
    /// The id of the workflow.
    pub id: WorkflowId,
    /// The name for people.
    pub name: String,
    /// The version that the author gave.
    pub version: String,
    /// The number of the registration under this id. A run keeps the revision that it was started with.
    pub revision: u64,
    /// The nodes.
    pub nodes: Vec<Node>,
    /// The edges.
    pub edges: Vec<Edge>,
    /// The declared variables.
    pub variables: Vec<Variable>,
    /// The settings.
    pub settings: Settings,
    /// The declared channels by name.
    pub channels: BTreeMap<String, Channel>,
    /// The class of the data that runs process, as the author declares it.
    pub compliance_class: Option<String>,
    /// The loops, one for each back edge, in the order of the file.
    pub loops: Vec<Loop>,
    /// True if the registration checked that no loop repeats an effect with one grant. False for revisions that were
    /// registered before this check existed.
    pub loops_checked: bool,
    configurable_schema: Option<Schema>,
    /// The nodes that no path from an entry node leads to.
    unreachable: Vec<usize>,
    index: HashMap<NodeId, usize>,
    /// The edges by target, without back edges.
    incoming: Vec<Vec<usize>>,
    /// All edges by source.
    outgoing: Vec<Vec<usize>>,
}

/// The settings of a workflow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The timeout of a run.
    pub timeout_ms: Option<u64>,
    /// The number of retries of a node that sets no number itself.
    pub max_retries: u32,
    /// The number of times that a back edge may be taken.
    pub max_loopback_iterations: u32,
    /// The number of nodes with effects that a run executes at a time. With 1, all nodes execute one at a time.
    pub max_parallel_nodes: u32,
}

/// A node of a workflow.
#[derive(Clone, Debug)]
pub struct Node {
    /// The id of the node.
    pub id: NodeId,
    /// The node type, which names the code that executes the node.
    pub type_id: String,
    /// The name for people.
    pub name: String,
    /// The configuration of the node type.
    pub config: Map<String, Value>,
    /// The sources of the input ports.
    pub inputs: BTreeMap<String, PortValue>,
    /// True if the node is skipped.
    pub disabled: bool,
    /// The type of the artifact that the node creates.
    pub artifact_type: Option<String>,
    /// The number of retries, if the node sets it.
    pub max_retries: Option<u32>,
    /// False for `grant: "none"`: the effects of the node need no grant of the gates before it.
    pub needs_grant: bool,
}

/// The source of the value of an input port.
#[derive(Clone, Debug)]
pub enum PortValue {
    /// A constant.
    Static(Value),
    /// A variable.
    Variable {
        /// The name of the variable.
        name: String,
        /// True if the port may have no value.
        optional: bool,
    },
    /// An output of another node.
    Connection {
        /// The node with the output.
        node: NodeId,
        /// The name of the output.
        output: String,
        /// True if the port may have no value.
        optional: bool,
        /// True if only paths with a back edge lead from that node to this one. If its current visit has no such
        /// output, the value comes from its previous visit.
        back: bool,
    },
    /// An expression over the variables.
    Expression(Expression),
}

/// An edge between two nodes.
#[derive(Clone, Debug)]
pub struct Edge {
    /// The id of the edge.
    pub id: String,
    /// The position of the source node.
    pub source: usize,
    /// The position of the target node.
    pub target: usize,
    /// The condition under which the edge is taken.
    pub condition: Option<EdgeCondition>,
    /// The trigger rule of the target for this edge.
    pub rule: TriggerRule,
    /// The branch of the source node that the edge belongs to, if the source node chooses a branch.
    pub source_output: Option<String>,
}

/// The rule that decides when the target of an edge may execute.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum TriggerRule {
    /// All sources completed and their edges are taken.
    AllSuccess,
    /// At least one source completed and its edge is taken.
    AnySuccess,
    /// All sources have ended.
    AllComplete,
    /// All sources have ended and none failed.
    NoneFailed,
    /// At least one source failed.
    AnyFailed,
}

impl TriggerRule {
    const ALL: [(&'static str, TriggerRule); 5] = [
        ("all_success", Self::AllSuccess),
        ("any_success", Self::AnySuccess),
        ("all_complete", Self::AllComplete),
        ("none_failed", Self::NoneFailed),
        ("any_failed", Self::AnyFailed),
    ];

    /// Returns whether the target may execute after a failure of the source, so that the failure does not fail the run.
    pub fn admits_failure(self) -> bool {
        matches!(self, Self::AnyFailed | Self::AllComplete)
    }
}

/// A declared variable.
#[derive(Clone, Debug, PartialEq)]
pub struct Variable {
    /// The name of the variable.
    pub name: String,
    /// The type of the variable.
    pub kind: VariableKind,
    /// True if a run must have a value other than null.
    pub required: bool,
    /// The default value.
    pub default: Option<Value>,
    /// True if the value is not shown to clients.
    pub sensitive: bool,
}

/// The type of a variable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VariableKind {
    /// A string.
    String,
    /// A number.
    Number,
    /// A boolean.
    Boolean,
    /// An object.
    Object,
    /// An array.
    Array,
}

impl VariableKind {
    const ALL: [(&'static str, VariableKind); 5] = [
        ("string", Self::String),
        ("number", Self::Number),
        ("boolean", Self::Boolean),
        ("object", Self::Object),
        ("array", Self::Array),
    ];

    /// Returns the name of the type in a definition.
    pub fn as_str(self) -> &'static str {
        Self::ALL.iter().find(|(_, kind)| *kind == self).map_or("", |(name, _)| name)
    }

    /// Returns whether a value has this type.
    pub fn admits(self, value: &Value) -> bool {
        match self {
            Self::String => value.is_string(),
            Self::Number => value.is_number(),
            Self::Boolean => value.is_boolean(),
            Self::Object => value.is_object(),
            Self::Array => value.is_array(),
        }
    }
}

/// A flaw of a workflow definition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DefinitionFlaw {
    /// The node with the flaw, if it is in a node.
    pub node: Option<NodeId>,
    /// The member, as a path from the node or from the top of the document.
    pub field: String,
    /// The message.
    pub message: String,
    /// The protocol capability that the definition requires and this version does not support.
    pub capability: Option<&'static str>,
}

impl DefinitionFlaw {
    /// Creates a flaw of a node.
    pub fn of_node(node: &NodeId, field: impl Into<String>, message: impl Into<String>) -> Self {
        Self { node: Some(node.clone()), field: field.into(), message: message.into(), capability: None }
    }

    /// Creates a flaw at the top level of the definition.
    pub fn at_top(field: impl Into<String>, message: impl Into<String>) -> Self {
        Self { node: None, field: field.into(), message: message.into(), capability: None }
    }
}

impl std::fmt::Display for DefinitionFlaw {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if let Some(node) = &self.node {
            write!(f, "node {node}, ")?;
        }
        write!(f, "{}: {}", self.field, self.message)
    }
}

impl Workflow {
    /// Parses and validates a definition. Returns all flaws, not only the first.
    pub fn parse(definition: &Value, revision: u64) -> Result<Self, Vec<DefinitionFlaw>> {
        check_patterns(definition).map_err(|why| vec![DefinitionFlaw::at_top("(document)", why)])?;
        Self::parse_with(definition, revision, Schema::register)
    }

    fn parse_with(
        definition: &Value,
        revision: u64,
        compile_schema: parse::CompileSchema,
    ) -> Result<Self, Vec<DefinitionFlaw>> {
        let mut workflow = parse::workflow(definition, revision, compile_schema)?;
        let flaws = graph::flaws(&workflow);
        graph::mark_back_connections(&mut workflow);
        if flaws.is_empty() { Ok(workflow) } else { Err(flaws) }
    }

    /// Parses a stored definition. An earlier version may have registered it without checking its settings, channels
    /// and `configurableSchema`. If the definition is invalid, it is parsed again without these members, so that its
    /// runs can continue. Limits for new schemas do not apply.
    pub fn restore(definition: &Value, revision: u64) -> Result<Self, Vec<DefinitionFlaw>> {
        let parse = |definition: &Value| Self::parse_with(definition, revision, Schema::compile);
        parse(definition).or_else(|flaws| {
            let mut plain = definition.clone();
            let Some(top) = plain.as_object_mut() else { return Err(flaws) };
            top.insert("settings".to_owned(), Value::Object(Map::new()));
            top.shift_remove("channels");
            top.shift_remove("configurableSchema");
            for node in top.get_mut("nodes").and_then(Value::as_array_mut).into_iter().flatten() {
                node.as_object_mut().map(|members| members.shift_remove("settings"));
            }
            parse(&plain)
        })
    }

    /// Returns the position of a node.
    pub fn position(&self, id: &NodeId) -> Option<usize> {
        self.index.get(id).copied()
    }

    /// Returns the node with this id.
    pub fn node(&self, id: &NodeId) -> Option<&Node> {
        self.position(id).map(|position| &self.nodes[position])
    }

    /// Checks the options of a run against the `configurableSchema`. The error is a JSON pointer into the options and a
    /// message.
    pub(crate) fn check_configurable(&self, options: &Map<String, Value>) -> Result<(), (String, String)> {
        let check = |schema: &Schema| schema.check(&Value::Object(options.clone()));
        self.configurable_schema.as_ref().map_or(Ok(()), check)
    }

    /// Returns whether the definition declares sensitive data: by its compliance class, a variable or a channel.
    pub fn is_sensitive(&self) -> bool {
        self.compliance_class.as_ref().is_some_and(|class| class != "public")
            || self.variables.iter().any(|variable| variable.sensitive)
            || self.channels.values().any(|channel| channel.sensitive)
    }

    /// Returns whether a channel has this name.
    pub fn is_channel(&self, name: &str) -> bool {
        self.channels.contains_key(name)
    }

    /// Returns the number of times that a back edge may be taken. A `core.loop` node counts its iterations itself.
    pub(crate) fn loop_limit(&self, of: &Loop) -> Option<u32> {
        let target = &self.nodes[self.edges[of.edge].target];
        (target.type_id != "core.loop").then_some(self.settings.max_loopback_iterations)
    }

    /// Returns the edges to a node with their positions, without back edges.
    pub(crate) fn incoming(&self, position: usize) -> impl Iterator<Item = (usize, &Edge)> {
        self.incoming[position].iter().map(|edge| (*edge, &self.edges[*edge]))
    }

    pub(crate) fn outgoing(&self, position: usize) -> impl Iterator<Item = &Edge> {
        self.outgoing[position].iter().map(|edge| &self.edges[*edge])
    }
}

/// Two workflows are equal if they are the same revision: a revision never changes.
impl PartialEq for Workflow {
    fn eq(&self, other: &Self) -> bool {
        self.id == other.id && self.revision == other.revision
    }
}
