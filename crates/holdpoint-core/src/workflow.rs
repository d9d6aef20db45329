//! Workflow definitions in OpenWOP's JSON format: parsed once, validated whole, then only looked up.

use std::collections::{BTreeMap, HashMap};

use serde_json::{Map, Value};

use crate::schema::{Schema, check_patterns};
use crate::{NodeId, WorkflowId};

mod channel;
mod condition;
mod expression;
mod graph;
mod loops;
mod parse;
mod ports;
mod turns;

pub use channel::Channel;
pub use condition::Condition;
pub use expression::{Expression, Scope};
pub use loops::Loop;
pub use ports::NoInput;
pub(crate) use ports::{readable_variables, resolve_inputs};
pub(crate) use turns::{Turn, beginnable, judge_edge, next_turn};

/// How ids of workflows begin that are agents: one node each, registered as agents are. No other workflow can be named so.
pub const AGENT_PREFIX: &str = "agent:";

/// How ids of workflows begin that stand for a graph of a provider; the rest is what it is called there.
pub const PROVIDER_PREFIXES: [&str; 2] = ["langgraph:", "claude:"];

/// What an agent or a graph of a provider is registered as has a word before it that no other workflow can have.
fn is_id(text: &str) -> bool {
    let named = |name: &str, others: &str| {
        !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || others.contains(c))
    };
    let of_provider = PROVIDER_PREFIXES.iter().find_map(|prefix| text.strip_prefix(prefix));
    match (text.strip_prefix(AGENT_PREFIX), of_provider) {
        (Some(name), _) => named(name, "-_."),
        (None, Some(name)) => named(name, "-_./"),
        (None, None) => {
            let rest = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_' || c == '-';
            text.starts_with(|first: char| first.is_ascii_lowercase()) && text.chars().all(rest)
        }
    }
}

/// A definition that passed every check. Nodes and edges keep the order of the file.
#[derive(Debug)]
pub struct Workflow {
    pub id: WorkflowId,
    pub name: String,
    pub version: String,
    /// Counts registrations under this id; a run keeps the revision it was started with.
    pub revision: u64,
    pub nodes: Vec<Node>,
    pub edges: Vec<Edge>,
    pub variables: Vec<Variable>,
    pub settings: Settings,
    pub channels: BTreeMap<String, Channel>,
    /// What kind of data its runs deal with, by the word of its author.
    pub compliance_class: Option<String>,
    /// The edges that lead back, in the order of the file.
    pub loops: Vec<Loop>,
    /// The registration has checked that no loop repeats an effect with one grant. False for revisions from before grants.
    pub loops_checked: bool,
    configurable_schema: Option<Schema>,
    /// Nodes that no path from a beginning leads to.
    unreached: Vec<usize>,
    index: HashMap<NodeId, usize>,
    /// Edges by their target; those that lead back are left out.
    incoming: Vec<Vec<usize>>,
    /// All edges by their source.
    outgoing: Vec<Vec<usize>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// How long a run may take.
    pub timeout_ms: Option<u64>,
    /// How often a node is tried again that does not say so itself.
    pub max_retries: u32,
    /// How often one way back may be taken.
    pub max_loopback_iterations: u32,
}

#[derive(Clone, Debug)]
pub struct Node {
    pub id: NodeId,
    pub type_id: String,
    pub name: String,
    pub config: Map<String, Value>,
    pub inputs: BTreeMap<String, PortValue>,
    pub disabled: bool,
    pub artifact_type: Option<String>,
    /// How often it is tried again, where it says so itself.
    pub max_retries: Option<u32>,
    /// False for `grant: "none"`: the effects of the node need no grant of the gates before it.
    pub needs_grant: bool,
}

/// Where an input port takes its value from.
#[derive(Clone, Debug)]
pub enum PortValue {
    Static(Value),
    Variable {
        name: String,
        optional: bool,
    },
    /// `back`: only a way back leads here from the node, so the value is that of its visit before.
    Connection {
        node: NodeId,
        output: String,
        optional: bool,
        back: bool,
    },
    Expression(Expression),
}

#[derive(Clone, Debug)]
pub struct Edge {
    pub id: String,
    pub source: usize,
    pub target: usize,
    pub condition: Option<Condition>,
    pub rule: TriggerRule,
    /// The way out of its source that it belongs to, where that chooses one.
    pub source_output: Option<String>,
}

/// When an edge lets its target run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum TriggerRule {
    AllSuccess,
    AnySuccess,
    AllComplete,
    NoneFailed,
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

    /// Whether the target may run although the source failed, so that the failure does not end the run.
    pub fn admits_failure(self) -> bool {
        matches!(self, Self::AnyFailed | Self::AllComplete)
    }
}

#[derive(Clone, Debug, PartialEq)]
pub struct Variable {
    pub name: String,
    pub kind: VariableKind,
    pub required: bool,
    pub default: Option<Value>,
    /// Kept from everybody who reads the run from outside.
    pub sensitive: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VariableKind {
    String,
    Number,
    Boolean,
    Object,
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

    pub fn as_str(self) -> &'static str {
        Self::ALL.iter().find(|(_, kind)| *kind == self).map_or("", |(name, _)| name)
    }

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

/// One thing wrong with a definition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Flaw {
    /// The node it is about, when it is about one.
    pub node: Option<NodeId>,
    /// The member, as a path from the node or from the top.
    pub field: String,
    pub message: String,
    /// The protocol capability that a definition needs and this build does not offer.
    pub capability: Option<&'static str>,
}

impl Flaw {
    pub fn of_node(node: &NodeId, field: impl Into<String>, message: impl Into<String>) -> Self {
        Self { node: Some(node.clone()), field: field.into(), message: message.into(), capability: None }
    }

    pub fn at_top(field: impl Into<String>, message: impl Into<String>) -> Self {
        Self { node: None, field: field.into(), message: message.into(), capability: None }
    }
}

impl std::fmt::Display for Flaw {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if let Some(node) = &self.node {
            write!(f, "node {node}, ")?;
        }
        write!(f, "{}: {}", self.field, self.message)
    }
}

impl Workflow {
    /// Parses and validates a definition. Every flaw is reported, not only the first.
    pub fn parse(definition: &Value, revision: u64) -> Result<Self, Vec<Flaw>> {
        check_patterns(definition).map_err(|why| vec![Flaw::at_top("(document)", why)])?;
        Self::parse_with(definition, revision, Schema::register)
    }

    fn parse_with(
        definition: &Value,
        revision: u64,
        compile_schema: parse::CompileSchema,
    ) -> Result<Self, Vec<Flaw>> {
        let mut workflow = parse::workflow(definition, revision, compile_schema)?;
        let flaws = graph::flaws(&workflow);
        graph::mark_ways_back(&mut workflow);
        if flaws.is_empty() { Ok(workflow) } else { Err(flaws) }
    }

    /// Reads a definition that was registered once, perhaps by a version that kept some members without a look at them.
    /// Those that make no sense are left out, as they were then: its runs must go on. Limits on new schemas do not apply.
    pub fn restore(definition: &Value, revision: u64) -> Result<Self, Vec<Flaw>> {
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

    pub fn position(&self, id: &NodeId) -> Option<usize> {
        self.index.get(id).copied()
    }

    pub fn node(&self, id: &NodeId) -> Option<&Node> {
        self.position(id).map(|position| &self.nodes[position])
    }

    /// Why options are not what the workflow wants; a JSON pointer into them and a message.
    pub(crate) fn check_configurable(&self, options: &Map<String, Value>) -> Result<(), (String, String)> {
        let check = |schema: &Schema| schema.check(&Value::Object(options.clone()));
        self.configurable_schema.as_ref().map_or(Ok(()), check)
    }

    /// Whether its runs may hold what not everybody should see, as far as its author says.
    pub fn is_sensitive(&self) -> bool {
        self.compliance_class.as_ref().is_some_and(|class| class != "public")
            || self.variables.iter().any(|variable| variable.sensitive)
            || self.channels.values().any(|channel| channel.sensitive)
    }

    pub fn is_channel(&self, name: &str) -> bool {
        self.channels.contains_key(name)
    }

    /// How often a way back may be taken. A `core.loop` counts for itself.
    pub(crate) fn loop_limit(&self, of: &Loop) -> Option<u32> {
        let target = &self.nodes[self.edges[of.edge].target];
        (target.type_id != "core.loop").then_some(self.settings.max_loopback_iterations)
    }

    /// The edges that lead to a node, with their positions. Ways back do not count.
    pub(crate) fn incoming(&self, position: usize) -> impl Iterator<Item = (usize, &Edge)> {
        self.incoming[position].iter().map(|edge| (*edge, &self.edges[*edge]))
    }

    pub(crate) fn outgoing(&self, position: usize) -> impl Iterator<Item = &Edge> {
        self.outgoing[position].iter().map(|edge| &self.edges[*edge])
    }
}

/// The same registration is the same workflow; definitions never change under their revision.
impl PartialEq for Workflow {
    fn eq(&self, other: &Self) -> bool {
        self.id == other.id && self.revision == other.revision
    }
}
