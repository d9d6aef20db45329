//! Evaluation of a value by a schema graph, within a budget of work.
//!
//! The result of a subschema that is the target of references is cached for each part of the value. So the work grows
//! with the size of the schema times the size of the value, not exponentially.

use std::collections::HashMap;

use serde_json::Value;

use super::graph::{Keyword, NodeIndex, SchemaGraph};
use super::parts::{Part, SchemaFault, are_unique, mark, merge, size};
use super::references::address;
use crate::limits;

/// The reason why the evaluation of a value stopped without a result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum EvaluationError {
    TooMuchWork,
    TooDeep,
    /// The linear regex engine cannot run this pattern.
    Unsupported(usize),
}

type EvalResult = Result<Option<SchemaFault>, EvaluationError>;

pub(super) fn evaluate(graph: &SchemaGraph, value: &Value) -> EvalResult {
    let budget = limits::SCHEMA_WORK_MAX + limits::SCHEMA_WORK_PER_VALUE_MAX * size(value);
    let budget = budget.min(limits::SCHEMA_WORK_CEILING);
    let mut evaluation = Evaluation { graph, budget, depth: 0, cache: HashMap::new() };
    evaluation.evaluate_node(0, Part { value, level: 0 }, &mut [])
}

struct Evaluation<'g> {
    graph: &'g SchemaGraph,
    budget: u64,
    depth: usize,
    cache: HashMap<CacheKey, CachedResult>,
}

/// A shared node, the address of a part of the value, and a flag that is true if the evaluated members or items are
/// requested.
type CacheKey = (NodeIndex, usize, bool);

#[derive(Clone)]
enum CachedResult {
    /// The node is being evaluated.
    Open,
    Fault(SchemaFault),
    /// The members or items that were evaluated, if they are requested.
    Passed(Vec<bool>),
}

/// In all functions, `evaluated` has a flag for each member or item that a keyword has evaluated. It is empty if the
/// flags are not requested, and undefined after a fault.
impl Evaluation<'_> {
    fn spend(&mut self, work: usize) -> Result<(), EvaluationError> {
        self.budget = self.budget.checked_sub(work as u64).ok_or(EvaluationError::TooMuchWork)?;
        Ok(())
    }

    fn evaluate_node(&mut self, node: NodeIndex, part: Part<'_>, evaluated: &mut [bool]) -> EvalResult {
        let mut id = node;
        self.spend(1)?;
        while let Some(target) = self.graph.nodes[id].alias {
            self.spend(1)?;
            id = target;
        }
        let node = &self.graph.nodes[id];
        if !node.is_shared && !node.needs_evaluated() {
            return self.apply(id, part, evaluated);
        }
        let key = (id, address(part.value), !evaluated.is_empty());
        if node.is_shared
            && let Some(fault) = self.look_up(key, evaluated)?
        {
            return Ok(fault);
        }
        let wants = node.needs_evaluated() || !evaluated.is_empty();
        let mut own = vec![false; if wants { part.length() } else { 0 }];
        self.spend(4 + own.len() / 16)?;
        let fault = self.apply(id, part, &mut own)?;
        merge(evaluated, &own);
        if node.is_shared {
            own.truncate(evaluated.len());
            self.cache.insert(key, fault.map_or(CachedResult::Passed(own), CachedResult::Fault));
        }
        Ok(fault)
    }

    /// Returns the cached result of an earlier evaluation. On a miss, marks the node as open and returns None.
    fn look_up(
        &mut self,
        key: CacheKey,
        evaluated: &mut [bool],
    ) -> Result<Option<Option<SchemaFault>>, EvaluationError> {
        self.spend(evaluated.len() / 16)?;
        match self.cache.get(&key) {
            Some(CachedResult::Fault(fault)) => Ok(Some(Some(*fault))),
            Some(CachedResult::Passed(known)) => {
                merge(evaluated, known);
                Ok(Some(None))
            }
            // The schema refers to itself for the same part of the value: that adds no condition.
            Some(CachedResult::Open) => Ok(Some(None)),
            None => {
                // The work that stands for the memory of the cache entry.
                self.spend(2)?;
                self.cache.insert(key, CachedResult::Open);
                Ok(None)
            }
        }
    }

    fn apply(&mut self, id: NodeIndex, part: Part<'_>, evaluated: &mut [bool]) -> EvalResult {
        if self.depth == limits::SCHEMA_EVALUATION_LEVELS_MAX {
            return Err(EvaluationError::TooDeep);
        }
        self.depth += 1;
        let node = &self.graph.nodes[id];
        let mut own =
            SchemaFault { node: id, keyword: None, address: address(part.value), level: part.level };
        let mut fault = None;
        if node.rejects_all || !self.passes_assertions(id, part.value)? {
            fault = Some(own);
        }
        for (position, keyword) in node.keywords.iter().enumerate() {
            if fault.is_some() {
                break;
            }
            own.keyword = Some(position);
            fault = self.keyword(keyword, part, own, evaluated)?;
        }
        self.depth -= 1;
        Ok(fault)
    }

    fn passes_assertions(&mut self, id: NodeIndex, value: &Value) -> Result<bool, EvaluationError> {
        let Some(assertions) = self.graph.nodes[id].assertions else { return Ok(true) };
        let assertions = &self.graph.assertions[assertions];
        self.spend(1 + assertions.bytes / 16 + value.as_str().map_or(0, str::len) / 64)?;
        Ok(assertions.validator.is_valid(value))
    }

    fn keyword(
        &mut self,
        keyword: &Keyword,
        part: Part<'_>,
        own: SchemaFault,
        evaluated: &mut [bool],
    ) -> EvalResult {
        match keyword {
            Keyword::Pattern(pattern) => self.pattern(*pattern, part, own),
            Keyword::UniqueItems => self.unique_items(part, own),
            Keyword::Ref(node) => self.evaluate_node(*node, part, evaluated),
            Keyword::AllOf(nodes) => self.all(nodes, part, evaluated),
            Keyword::AnyOf(nodes) => self.any_of(nodes, part, own, evaluated),
            Keyword::OneOf(nodes) => self.one_of(nodes, part, own, evaluated),
            Keyword::Not(node) => Ok(self.evaluate_node(*node, part, &mut [])?.is_none().then_some(own)),
            Keyword::If { test, then, otherwise } => {
                let passes = self.any(&[*test], 1, part, own, evaluated)?.0 == 1;
                self.all(if passes { then } else { otherwise }.as_slice(), part, evaluated)
            }
            Keyword::Dependent(schemas) => self.dependent(schemas, part, evaluated),
            Keyword::Members { named, matching, others } => {
                self.members(named, matching, *others, part, evaluated)
            }
            Keyword::MemberNames(node) => self.member_names(*node, part, own),
            Keyword::Items { first, others } => self.items(first, *others, part, evaluated),
            Keyword::Contains { item, min, max } => {
                let found = self.count_matches(*item, part, evaluated)?;
                Ok(found.is_some_and(|found| found < *min || found > *max).then_some(own))
            }
            Keyword::UnevaluatedMembers(node) => self.unevaluated_members(*node, part, evaluated),
            Keyword::UnevaluatedItems(node) => self.unevaluated_items(*node, part, evaluated),
        }
    }

    fn all(&mut self, nodes: &[NodeIndex], part: Part<'_>, evaluated: &mut [bool]) -> EvalResult {
        for node in nodes {
            let fault = self.evaluate_node(*node, part, evaluated)?;
            if fault.is_some() {
                return Ok(fault);
            }
        }
        Ok(None)
    }

    fn any_of(
        &mut self,
        nodes: &[NodeIndex],
        part: Part<'_>,
        own: SchemaFault,
        evaluated: &mut [bool],
    ) -> EvalResult {
        // After a match, other subschemas matter only for the members and items that they evaluate.
        let limit = if evaluated.is_empty() { 1 } else { nodes.len() };
        let (matches, fault) = self.any(nodes, limit, part, own, evaluated)?;
        Ok((matches == 0).then_some(fault))
    }

    fn one_of(
        &mut self,
        nodes: &[NodeIndex],
        part: Part<'_>,
        own: SchemaFault,
        evaluated: &mut [bool],
    ) -> EvalResult {
        match self.any(nodes, 2, part, own, evaluated)? {
            (0, fault) => Ok(Some(fault)),
            (1, _) => Ok(None),
            (_, _) => Ok(Some(own)),
        }
    }

    /// Returns the number of matching subschemas, counted up to a limit, and the fault in the innermost part.
    fn any(
        &mut self,
        nodes: &[NodeIndex],
        limit: usize,
        part: Part<'_>,
        own: SchemaFault,
        evaluated: &mut [bool],
    ) -> Result<(usize, SchemaFault), EvaluationError> {
        let (mut matches, mut innermost) = (0, own);
        for node in nodes {
            let mut seen = vec![false; evaluated.len()];
            self.spend(seen.len() / 16)?;
            match self.evaluate_node(*node, part, &mut seen)? {
                None => {
                    matches += 1;
                    merge(evaluated, &seen);
                }
                Some(fault) if fault.level > innermost.level => innermost = fault,
                Some(_) => {}
            }
            if matches == limit {
                break;
            }
        }
        Ok((matches, innermost))
    }

    fn dependent(
        &mut self,
        schemas: &[(String, NodeIndex)],
        part: Part<'_>,
        evaluated: &mut [bool],
    ) -> EvalResult {
        let Value::Object(members) = part.value else { return Ok(None) };
        self.spend(schemas.len())?;
        let present = schemas.iter().filter(|(name, _)| members.contains_key(name));
        let present: Vec<NodeIndex> = present.map(|(_, node)| *node).collect();
        self.all(&present, part, evaluated)
    }

    fn members(
        &mut self,
        named: &HashMap<String, NodeIndex>,
        matching: &[(usize, NodeIndex)],
        others: Option<NodeIndex>,
        part: Part<'_>,
        evaluated: &mut [bool],
    ) -> EvalResult {
        let Value::Object(members) = part.value else { return Ok(None) };
        for (position, (name, value)) in members.iter().enumerate() {
            self.spend(1)?;
            let mut targets: Vec<NodeIndex> = named.get(name).copied().into_iter().collect();
            self.add_matching(&mut targets, matching, name)?;
            if targets.is_empty() {
                targets.extend(others);
            }
            if !targets.is_empty() {
                mark(evaluated, position);
            }
            let fault = self.all(&targets, part.inner(value), &mut [])?;
            if fault.is_some() {
                return Ok(fault);
            }
        }
        Ok(None)
    }

    fn add_matching(
        &mut self,
        targets: &mut Vec<NodeIndex>,
        matching: &[(usize, NodeIndex)],
        name: &str,
    ) -> Result<(), EvaluationError> {
        if matching.is_empty() {
            return Ok(());
        }
        let name = Value::String(name.to_owned());
        for (pattern, node) in matching {
            if self.matches(*pattern, &name)? {
                targets.push(*node);
            }
        }
        Ok(())
    }

    /// Evaluates the names of the members. They are not parts of the value, so their results are not cached.
    fn member_names(&mut self, node: NodeIndex, part: Part<'_>, own: SchemaFault) -> EvalResult {
        let Value::Object(members) = part.value else { return Ok(None) };
        for name in members.keys() {
            let name = Value::String(name.clone());
            let known = std::mem::take(&mut self.cache);
            let fault = self.evaluate_node(node, Part { value: &name, level: part.level }, &mut [])?;
            self.cache = known;
            if fault.is_some() {
                return Ok(Some(own));
            }
        }
        Ok(None)
    }

    fn items(
        &mut self,
        first: &[NodeIndex],
        others: Option<NodeIndex>,
        part: Part<'_>,
        evaluated: &mut [bool],
    ) -> EvalResult {
        let Value::Array(items) = part.value else { return Ok(None) };
        for (position, item) in items.iter().enumerate() {
            let Some(target) = first.get(position).copied().or(others) else { break };
            mark(evaluated, position);
            let fault = self.evaluate_node(target, part.inner(item), &mut [])?;
            if fault.is_some() {
                return Ok(fault);
            }
        }
        Ok(None)
    }

    /// Returns the number of matching items, or None if the value is not an array.
    fn count_matches(
        &mut self,
        node: NodeIndex,
        part: Part<'_>,
        evaluated: &mut [bool],
    ) -> Result<Option<u64>, EvaluationError> {
        let Value::Array(items) = part.value else { return Ok(None) };
        let mut found = 0;
        for (position, item) in items.iter().enumerate() {
            if self.evaluate_node(node, part.inner(item), &mut [])?.is_none() {
                found += 1;
                mark(evaluated, position);
            }
        }
        Ok(Some(found))
    }

    fn unevaluated_members(&mut self, node: NodeIndex, part: Part<'_>, evaluated: &mut [bool]) -> EvalResult {
        let Value::Object(members) = part.value else { return Ok(None) };
        for (seen, value) in evaluated.iter_mut().zip(members.values()) {
            if !std::mem::replace(seen, true) {
                let fault = self.evaluate_node(node, part.inner(value), &mut [])?;
                if fault.is_some() {
                    return Ok(fault);
                }
            }
        }
        Ok(None)
    }

    fn unevaluated_items(&mut self, node: NodeIndex, part: Part<'_>, evaluated: &mut [bool]) -> EvalResult {
        let Value::Array(items) = part.value else { return Ok(None) };
        for (seen, item) in evaluated.iter_mut().zip(items) {
            if !std::mem::replace(seen, true) {
                let fault = self.evaluate_node(node, part.inner(item), &mut [])?;
                if fault.is_some() {
                    return Ok(fault);
                }
            }
        }
        Ok(None)
    }

    fn pattern(&mut self, pattern: usize, part: Part<'_>, own: SchemaFault) -> EvalResult {
        if !part.value.is_string() {
            return Ok(None);
        }
        Ok((!self.matches(pattern, part.value)?).then_some(own))
    }

    fn matches(&mut self, pattern: usize, text: &Value) -> Result<bool, EvaluationError> {
        let compiled = &self.graph.patterns[pattern];
        self.spend(compiled.work(text.as_str().unwrap_or_default()))?;
        compiled.matches(text).ok_or(EvaluationError::Unsupported(pattern))
    }

    fn unique_items(&mut self, part: Part<'_>, own: SchemaFault) -> EvalResult {
        let Value::Array(items) = part.value else { return Ok(None) };
        self.spend(usize::try_from(2 * size(part.value)).unwrap_or(usize::MAX))?;
        Ok((!are_unique(items)).then_some(own))
    }
}
