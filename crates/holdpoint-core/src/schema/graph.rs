//! A schema as a graph: one node for each subschema, with references as edges.

use std::collections::HashMap;

use jsonschema::Validator;
use serde_json::{Map, Value, json};

use super::pattern::SchemaPattern;
use super::references::{self, Anchors, Subschema, address};

/// Keywords without a subschema. The crate `jsonschema` checks them.
const ASSERTIONS: [&str; 15] = [
    "type",
    "enum",
    "const",
    "multipleOf",
    "maximum",
    "exclusiveMaximum",
    "minimum",
    "exclusiveMinimum",
    "maxLength",
    "minLength",
    "maxItems",
    "minItems",
    "maxProperties",
    "minProperties",
    "required",
];

pub(super) type NodeIndex = usize;

#[derive(Default)]
pub(super) struct SchemaGraph {
    pub(super) nodes: Vec<SchemaNode>,
    pub(super) assertions: Vec<Assertions>,
    pub(super) patterns: Vec<SchemaPattern>,
}

/// One subschema.
#[derive(Default)]
pub(super) struct SchemaNode {
    /// Set for the schema `false`.
    pub(super) rejects_all: bool,
    /// Set if the node is the target of a reference. Results of such nodes are cached.
    pub(super) is_shared: bool,
    pub(super) assertions: Option<usize>,
    pub(super) keywords: Vec<Keyword>,
    /// The target, if the subschema consists only of a reference.
    pub(super) alias: Option<NodeIndex>,
}

pub(super) struct Assertions {
    pub(super) validator: Validator,
    pub(super) bytes: usize,
}

pub(super) enum Keyword {
    Pattern(usize),
    UniqueItems,
    Ref(NodeIndex),
    AllOf(Vec<NodeIndex>),
    AnyOf(Vec<NodeIndex>),
    OneOf(Vec<NodeIndex>),
    Not(NodeIndex),
    If {
        test: NodeIndex,
        then: Option<NodeIndex>,
        otherwise: Option<NodeIndex>,
    },
    Dependent(Vec<(String, NodeIndex)>),
    Members {
        named: HashMap<String, NodeIndex>,
        matching: Vec<(usize, NodeIndex)>,
        others: Option<NodeIndex>,
    },
    MemberNames(NodeIndex),
    Items {
        first: Vec<NodeIndex>,
        others: Option<NodeIndex>,
    },
    Contains {
        item: NodeIndex,
        min: u64,
        max: u64,
    },
    UnevaluatedMembers(NodeIndex),
    UnevaluatedItems(NodeIndex),
}

impl SchemaNode {
    /// Returns true if the node has a keyword that depends on the members or items that the others evaluated. It is the
    /// last keyword.
    pub(super) fn needs_evaluated(&self) -> bool {
        matches!(self.keywords.last(), Some(Keyword::UnevaluatedMembers(_) | Keyword::UnevaluatedItems(_)))
    }
}

impl Keyword {
    fn targets(&self) -> Vec<NodeIndex> {
        match self {
            Self::Pattern(_) | Self::UniqueItems => Vec::new(),
            Self::AllOf(all) | Self::AnyOf(all) | Self::OneOf(all) => all.clone(),
            Self::If { test, then, otherwise } => {
                [Some(*test), *then, *otherwise].into_iter().flatten().collect()
            }
            Self::Dependent(all) => all.iter().map(|(_, node)| *node).collect(),
            Self::Members { named, matching, others } => {
                let matching = matching.iter().map(|(_, node)| *node);
                named.values().copied().chain(matching).chain(*others).collect()
            }
            Self::Items { first, others } => first.iter().copied().chain(*others).collect(),
            Self::Ref(node)
            | Self::Not(node)
            | Self::MemberNames(node)
            | Self::Contains { item: node, .. }
            | Self::UnevaluatedMembers(node)
            | Self::UnevaluatedItems(node) => vec![*node],
        }
    }
}

impl SchemaGraph {
    /// Builds the graph of a valid JSON Schema. Node 0 is the schema itself.
    pub(super) fn build(schema: &Value) -> Result<Self, String> {
        if references::is_ambiguous(schema) {
            return Err("uses $dynamicRef beside $id in a subschema, which is not supported".to_owned());
        }
        let mut builder = GraphBuilder::new(schema);
        builder.node(Subschema::root(schema));
        while let Some((id, place)) = builder.open.pop() {
            if let Value::Object(members) = place.schema {
                builder.fill(id, place, members)?;
            }
        }
        builder.finish()
    }

    /// Returns the number of subschemas after each reference is replaced by its target. A reference back to a schema
    /// that contains it counts as one.
    pub(super) fn unfolded_size(&self) -> u64 {
        const OPEN: u64 = 0;
        let mut sizes: Vec<Option<u64>> = vec![None; self.nodes.len()];
        let mut path = vec![0];
        while let Some(id) = path.last().copied() {
            let targets: Vec<NodeIndex> = self.nodes[id].keywords.iter().flat_map(Keyword::targets).collect();
            if sizes[id].is_none() {
                sizes[id] = Some(OPEN);
                path.extend(targets.iter().filter(|target| sizes[**target].is_none()));
                continue;
            }
            path.pop();
            if sizes[id] == Some(OPEN) {
                let inner = targets.iter().map(|target| sizes[*target].unwrap_or(OPEN).max(1));
                sizes[id] = Some(inner.fold(1, u64::saturating_add));
            }
        }
        sizes[0].unwrap_or(OPEN)
    }
}

struct GraphBuilder<'s> {
    graph: SchemaGraph,
    anchors: Anchors<'s>,
    /// Nodes by the address of their subschema.
    known: HashMap<usize, NodeIndex>,
    assertions: Vec<Value>,
    known_assertions: HashMap<String, usize>,
    known_patterns: HashMap<String, usize>,
    open: Vec<(NodeIndex, Subschema<'s>)>,
}

impl<'s> GraphBuilder<'s> {
    fn new(schema: &'s Value) -> Self {
        Self {
            graph: SchemaGraph::default(),
            anchors: Anchors::collect(schema),
            known: HashMap::new(),
            assertions: Vec::new(),
            known_assertions: HashMap::new(),
            known_patterns: HashMap::new(),
            open: Vec::new(),
        }
    }

    fn node(&mut self, place: Subschema<'s>) -> NodeIndex {
        let key = address(place.schema);
        if let Some(known) = self.known.get(&key) {
            return *known;
        }
        let id = self.graph.nodes.len();
        let rejects_all = place.schema == &Value::Bool(false);
        self.graph.nodes.push(SchemaNode { rejects_all, ..SchemaNode::default() });
        self.known.insert(key, id);
        self.open.push((id, place));
        id
    }

    fn fill(
        &mut self,
        id: NodeIndex,
        place: Subschema<'s>,
        members: &'s Map<String, Value>,
    ) -> Result<(), String> {
        self.graph.nodes[id].assertions = self.assertions(members);
        let mut keywords = Vec::new();
        if let Some(text) = members.get("pattern").and_then(Value::as_str) {
            keywords.push(Keyword::Pattern(self.pattern(text)));
        }
        if members.get("uniqueItems") == Some(&Value::Bool(true)) {
            keywords.push(Keyword::UniqueItems);
        }
        keywords.extend(self.of_objects(place, members));
        keywords.extend(self.of_arrays(place, members));
        keywords.extend(self.in_place(place, members)?);
        // These keywords need the results of all others, so they are last.
        let one = |name: &str| members.get(name).map(|schema| place.of(schema));
        keywords.extend(one("unevaluatedProperties").map(|at| Keyword::UnevaluatedMembers(self.node(at))));
        keywords.extend(one("unevaluatedItems").map(|at| Keyword::UnevaluatedItems(self.node(at))));
        let node = &mut self.graph.nodes[id];
        if let (None, [Keyword::Ref(target)]) = (node.assertions, &keywords[..]) {
            node.alias = Some(*target);
        }
        node.keywords = keywords;
        Ok(())
    }

    fn of_objects(&mut self, place: Subschema<'s>, members: &'s Map<String, Value>) -> Vec<Keyword> {
        let mut keywords = Vec::new();
        let named: HashMap<String, NodeIndex> =
            self.by_name(place, members, "properties").into_iter().collect();
        let matching = self.by_name(place, members, "patternProperties");
        let matching: Vec<(usize, NodeIndex)> =
            matching.into_iter().map(|(text, node)| (self.pattern(&text), node)).collect();
        let others = members.get("additionalProperties").map(|schema| self.node(place.of(schema)));
        if !named.is_empty() || !matching.is_empty() || others.is_some() {
            keywords.push(Keyword::Members { named, matching, others });
        }
        if let Some(names) = members.get("propertyNames") {
            keywords.push(Keyword::MemberNames(self.node(place.of(names))));
        }
        let mut dependent = self.by_name(place, members, "dependentSchemas");
        for list in ["dependentRequired", "dependencies"] {
            for (name, needed) in members.get(list).and_then(Value::as_object).into_iter().flatten() {
                let node = match needed {
                    Value::Array(_) => self.requirement(needed),
                    _ => self.node(place.of(needed)),
                };
                dependent.push((name.clone(), node));
            }
        }
        if !dependent.is_empty() {
            keywords.push(Keyword::Dependent(dependent));
        }
        keywords
    }

    fn of_arrays(&mut self, place: Subschema<'s>, members: &'s Map<String, Value>) -> Vec<Keyword> {
        let mut keywords = Vec::new();
        let first = self.listed(place, members, "prefixItems");
        let others = members.get("items").map(|schema| self.node(place.of(schema)));
        if !first.is_empty() || others.is_some() {
            keywords.push(Keyword::Items { first, others });
        }
        if let Some(item) = members.get("contains") {
            let bound = |name: &str| members.get(name).and_then(Value::as_f64).map(|bound| bound as u64);
            let (min, max) = (bound("minContains").unwrap_or(1), bound("maxContains").unwrap_or(u64::MAX));
            keywords.push(Keyword::Contains { item: self.node(place.of(item)), min, max });
        }
        keywords
    }

    fn in_place(
        &mut self,
        place: Subschema<'s>,
        members: &'s Map<String, Value>,
    ) -> Result<Vec<Keyword>, String> {
        let mut keywords = Vec::new();
        for name in ["$ref", "$dynamicRef"] {
            if let Some(reference) = members.get(name).and_then(Value::as_str) {
                let target = self.node(place.follow(reference, &self.anchors)?);
                self.graph.nodes[target].is_shared = true;
                keywords.push(Keyword::Ref(target));
            }
        }
        let mut all = |name: &str| members.get(name).map(|_| self.listed(place, members, name));
        keywords.extend(all("allOf").map(Keyword::AllOf));
        keywords.extend(all("anyOf").map(Keyword::AnyOf));
        keywords.extend(all("oneOf").map(Keyword::OneOf));
        let mut one = |name: &str| members.get(name).map(|schema| self.node(place.of(schema)));
        keywords.extend(one("not").map(Keyword::Not));
        if let Some(test) = one("if") {
            keywords.push(Keyword::If { test, then: one("then"), otherwise: one("else") });
        }
        Ok(keywords)
    }

    fn by_name(
        &mut self,
        place: Subschema<'s>,
        members: &'s Map<String, Value>,
        keyword: &str,
    ) -> Vec<(String, NodeIndex)> {
        let schemas = members.get(keyword).and_then(Value::as_object).into_iter().flatten();
        schemas.map(|(name, schema)| (name.clone(), self.node(place.of(schema)))).collect()
    }

    fn listed(
        &mut self,
        place: Subschema<'s>,
        members: &'s Map<String, Value>,
        keyword: &str,
    ) -> Vec<NodeIndex> {
        let schemas = members.get(keyword).and_then(Value::as_array).into_iter().flatten();
        schemas.map(|schema| self.node(place.of(schema))).collect()
    }

    fn requirement(&mut self, names: &Value) -> NodeIndex {
        let members = Map::from_iter([("required".to_owned(), names.clone())]);
        let assertions = self.assertions(&members);
        self.graph.nodes.push(SchemaNode { assertions, ..SchemaNode::default() });
        self.graph.nodes.len() - 1
    }

    /// Returns the index of the assertions of a subschema. Equal assertions share one validator.
    fn assertions(&mut self, members: &Map<String, Value>) -> Option<usize> {
        let chosen: Map<String, Value> = ASSERTIONS
            .iter()
            .filter_map(|name| Some(((*name).to_owned(), members.get(*name)?.clone())))
            .collect();
        if chosen.is_empty() {
            return None;
        }
        let schema = Value::Object(chosen);
        let text = schema.to_string();
        if let Some(known) = self.known_assertions.get(&text) {
            return Some(*known);
        }
        let id = self.assertions.len();
        self.known_assertions.insert(text, id);
        self.assertions.push(schema);
        Some(id)
    }

    /// Compiles all assertions at once, as definitions of one document.
    fn finish(mut self) -> Result<SchemaGraph, String> {
        let named = |(id, schema): (usize, &Value)| (id.to_string(), schema.clone());
        let definitions: Map<String, Value> = self.assertions.iter().enumerate().map(named).collect();
        let document = json!({ "$defs": definitions });
        let validators = jsonschema::draft202012::options().build_map(&document);
        let validators = validators.map_err(|error| format!("is not a JSON Schema: {error}"))?;
        for (id, schema) in self.assertions.iter().enumerate() {
            let validator = validators.get(&format!("#/$defs/{id}")).cloned();
            let validator = validator.ok_or("has assertions that cannot be compiled")?;
            self.graph.assertions.push(Assertions { validator, bytes: schema.to_string().len() });
        }
        Ok(self.graph)
    }

    fn pattern(&mut self, text: &str) -> usize {
        if let Some(known) = self.known_patterns.get(text) {
            return *known;
        }
        let id = self.graph.patterns.len();
        self.graph.patterns.push(SchemaPattern::new(text));
        self.known_patterns.insert(text.to_owned(), id);
        id
    }
}
