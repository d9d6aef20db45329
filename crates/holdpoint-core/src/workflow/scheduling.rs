//! Decides the next step of the graph: which node may begin, which node is skipped, and which back edge is taken.

use super::{Edge, Loop, TriggerRule, Workflow};
use crate::run::{EdgeOutcome, NodeStatus, Run};
use crate::workflow::expression::ExpressionScope;

/// The next step of the graph.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum GraphAction {
    /// The node at this position may begin.
    Begin(usize),
    /// The node at this position is skipped for this reason.
    Skip(usize, String),
    /// The condition of an edge to the node at this position failed with this message.
    ConditionFailed(usize, String),
    /// The back edge of the loop at this position in `Workflow::loops` is taken.
    TakeBackEdge(usize),
}

/// Returns the next action: a back edge that is taken, otherwise the action of the first node that begins or is
/// skipped, in the order of the file.
pub(crate) fn next_action(run: &Run) -> Option<GraphAction> {
    let is_pending = |position: &usize| run.nodes[*position].status == NodeStatus::Pending;
    let mut pending = (0..run.workflow.nodes.len()).filter(is_pending);
    if run.workflow.loops.is_empty() {
        return pending.find_map(|position| action_of_node(run, position));
    }
    next_back_edge(run).or_else(|| {
        let actions = pending.filter_map(|position| action_of_node(run, position)).collect::<Vec<_>>();
        let now = actions.iter().find(|action| !must_wait_for_loop(run, action)).cloned();
        // Two loops may wait for each other to end. If no node is active, the first action is taken.
        now.or_else(|| {
            actions.into_iter().next().filter(|_| !run.nodes.iter().any(|node| node.status.is_active()))
        })
    })
}

/// Returns the next action that begins no node.
pub(crate) fn next_consequence(run: &Run) -> Option<GraphAction> {
    let pending = (0..run.workflow.nodes.len()).filter(|at| run.nodes[*at].status == NodeStatus::Pending);
    let mut actions = pending.filter_map(|position| action_of_node(run, position));
    let begins = |action: &GraphAction| matches!(action, GraphAction::Begin(_));
    next_back_edge(run).or_else(|| actions.find(|action| !begins(action) && !must_wait_for_loop(run, action)))
}

/// Returns the nodes that may begin now, in the order of the file. Nodes that a back edge may still reset are left out.
pub(crate) fn ready_nodes(run: &Run) -> Vec<usize> {
    if next_back_edge(run).is_some() {
        return Vec::new();
    }
    let pending = (0..run.workflow.nodes.len()).filter(|at| run.nodes[*at].status == NodeStatus::Pending);
    let actions = pending
        .filter_map(|position| action_of_node(run, position))
        .filter(|action| !must_wait_for_loop(run, action));
    let begun = actions.filter_map(|action| match action {
        GraphAction::Begin(position) => Some(position),
        GraphAction::Skip(..) | GraphAction::ConditionFailed(..) | GraphAction::TakeBackEdge(_) => None,
    });
    begun.collect()
}

fn next_back_edge(run: &Run) -> Option<GraphAction> {
    run.workflow.loops.iter().enumerate().find_map(|(at, found)| match takes_back_edge(run, found) {
        Ok(true) if is_idle(run, found) => Some(GraphAction::TakeBackEdge(at)),
        Ok(_) => None,
        Err(why) => {
            let edge = &run.workflow.edges[found.edge];
            Some(GraphAction::ConditionFailed(edge.target, format!("condition of edge {}: {why}", edge.id)))
        }
    })
}

/// Returns whether the back edge of a loop is taken as soon as no node of the loop is active.
fn takes_back_edge(run: &Run, found: &Loop) -> Result<bool, String> {
    let edge = &run.workflow.edges[found.edge];
    Ok(match edge_state(run, found.edge, edge)? {
        EdgeState::Passed => edge.rule != TriggerRule::AnyFailed,
        EdgeState::Failed => edge.rule.admits_failure(),
        EdgeState::Open | EdgeState::Skipped => false,
    })
}

fn is_idle(run: &Run, found: &Loop) -> bool {
    std::iter::zip(&found.region, &run.nodes).all(|(member, state)| !member || !state.status.is_active())
}

/// Returns whether an action must wait for a loop: a node that a back edge is about to reset must not begin, and a node
/// after a loop must not be skipped while the loop may still iterate.
fn must_wait_for_loop(run: &Run, action: &GraphAction) -> bool {
    let (position, skipped) = match action {
        GraphAction::Begin(position) => (*position, false),
        GraphAction::Skip(position, _) => (*position, true),
        GraphAction::ConditionFailed(..) | GraphAction::TakeBackEdge(_) => return false,
    };
    run.workflow.loops.iter().filter(|found| found.region[position]).any(|found| {
        let source = &run.nodes[run.workflow.edges[found.edge].source];
        takes_back_edge(run, found) == Ok(true)
            || (skipped && found.exits[position] && !source.status.has_ended())
    })
}

/// The state of an incoming edge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum EdgeState {
    Open,
    Passed,
    Failed,
    Skipped,
}

/// The set of the states that some edges have.
#[derive(Clone, Copy, Debug, Default)]
struct EdgeStates([bool; 4]);

impl EdgeStates {
    fn add(&mut self, state: EdgeState) {
        self.0[state as usize] = true;
    }

    fn contains(self, state: EdgeState) -> bool {
        self.0[state as usize]
    }

    fn is_empty(self) -> bool {
        self.0 == [false; 4]
    }
}

/// The result of a trigger rule for its edges.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TriggerResult {
    Wait,
    Run,
    Never,
}

fn action_of_node(run: &Run, position: usize) -> Option<GraphAction> {
    let workflow: &Workflow = &run.workflow;
    if workflow.nodes[position].disabled {
        return Some(GraphAction::Skip(position, "disabled".to_owned()));
    }
    let mut states = [EdgeStates::default(); TriggerRule::ALL.len()];
    for (at, edge) in workflow.incoming(position) {
        match edge_state(run, at, edge) {
            Ok(state) => states[edge.rule as usize].add(state),
            Err(why) => {
                return Some(GraphAction::ConditionFailed(
                    position,
                    format!("condition of edge {}: {why}", edge.id),
                ));
            }
        }
    }
    // Edges with the same rule are evaluated together. A node with several rules must satisfy all of them.
    let mut result = TriggerResult::Run;
    for (_, rule) in TriggerRule::ALL {
        let of_rule = states[rule as usize];
        if of_rule.is_empty() {
            continue;
        }
        match evaluate_rule(rule, of_rule) {
            TriggerResult::Never => {
                return Some(GraphAction::Skip(position, "no incoming edge lets it run".to_owned()));
            }
            TriggerResult::Wait => result = TriggerResult::Wait,
            TriggerResult::Run => {}
        }
    }
    (result == TriggerResult::Run).then_some(GraphAction::Begin(position))
}

/// Returns the outcome of an edge after its source node completed.
pub(crate) fn evaluate_edge(run: &Run, edge: &Edge, branch: Option<&str>) -> EdgeOutcome {
    if let (Some(branch), Some(name)) = (branch, &edge.source_output)
        && name != branch
    {
        return EdgeOutcome::NotTaken;
    }
    let Some(condition) = &edge.condition else { return EdgeOutcome::Taken };
    let outputs = &run.nodes[edge.source].outputs;
    let status = serde_json::Value::from("completed");
    let scope = ExpressionScope::new()
        .root("status", &status)
        .root("output", outputs)
        .root("variables", &run.variables)
        .fallback(outputs)
        .fallback(&run.variables);
    match condition.holds(&scope) {
        Ok(true) => EdgeOutcome::Taken,
        Ok(false) => EdgeOutcome::NotTaken,
        Err(error) => EdgeOutcome::Failed(error.to_string()),
    }
}

fn edge_state(run: &Run, position: usize, edge: &Edge) -> Result<EdgeState, String> {
    match &run.nodes[edge.source].status {
        NodeStatus::Completed => match &run.edge_outcomes[position] {
            Some(EdgeOutcome::Taken) => Ok(EdgeState::Passed),
            Some(EdgeOutcome::NotTaken) => Ok(EdgeState::Skipped),
            Some(EdgeOutcome::Failed(why)) => Err(why.clone()),
            None => Ok(EdgeState::Open),
        },
        NodeStatus::Failed => Ok(EdgeState::Failed),
        NodeStatus::Skipped => Ok(EdgeState::Skipped),
        NodeStatus::Pending
        | NodeStatus::Running
        | NodeStatus::Waiting(_)
        | NodeStatus::Sleeping(_)
        | NodeStatus::Awaiting(_) => Ok(EdgeState::Open),
    }
}

fn evaluate_rule(rule: TriggerRule, states: EdgeStates) -> TriggerResult {
    let any = |wanted: EdgeState| states.contains(wanted);
    let waiting = any(EdgeState::Open);
    let when_closed = |yes: bool| match (waiting, yes) {
        (true, _) => TriggerResult::Wait,
        (false, true) => TriggerResult::Run,
        (false, false) => TriggerResult::Never,
    };
    match rule {
        TriggerRule::AllSuccess if any(EdgeState::Failed) || any(EdgeState::Skipped) => TriggerResult::Never,
        TriggerRule::AllSuccess | TriggerRule::AllComplete => when_closed(true),
        TriggerRule::AnySuccess if any(EdgeState::Passed) => TriggerResult::Run,
        TriggerRule::AnyFailed if any(EdgeState::Failed) => TriggerResult::Run,
        TriggerRule::AnySuccess | TriggerRule::AnyFailed => when_closed(false),
        TriggerRule::NoneFailed if any(EdgeState::Failed) => TriggerResult::Never,
        TriggerRule::NoneFailed => when_closed(true),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_trigger_rule_waits_runs_or_never_runs() {
        use EdgeState::{Failed, Open, Passed, Skipped};
        use TriggerRule::{AllComplete, AllSuccess, AnyFailed, AnySuccess, NoneFailed};
        let table: [(TriggerRule, &[EdgeState], TriggerResult); 18] = [
            (AllSuccess, &[Passed, Passed], TriggerResult::Run),
            (AllSuccess, &[Passed, Open], TriggerResult::Wait),
            (AllSuccess, &[Open, Failed], TriggerResult::Never),
            (AllSuccess, &[Passed, Skipped], TriggerResult::Never),
            (AnySuccess, &[Open, Passed], TriggerResult::Run),
            (AnySuccess, &[Open, Failed], TriggerResult::Wait),
            (AnySuccess, &[Skipped, Failed], TriggerResult::Never),
            (AllComplete, &[Passed, Open], TriggerResult::Wait),
            (AllComplete, &[Failed, Skipped], TriggerResult::Run),
            (NoneFailed, &[Passed, Skipped], TriggerResult::Run),
            (NoneFailed, &[Passed, Open], TriggerResult::Wait),
            (NoneFailed, &[Failed, Open], TriggerResult::Never),
            (AnyFailed, &[Failed, Open], TriggerResult::Run),
            (AnyFailed, &[Passed, Open], TriggerResult::Wait),
            (AnyFailed, &[Passed, Skipped], TriggerResult::Never),
            (AnyFailed, &[Failed], TriggerResult::Run),
            (AllSuccess, &[Skipped], TriggerResult::Never),
            (AnySuccess, &[Passed], TriggerResult::Run),
        ];
        for (rule, states, result) in table {
            let mut set = EdgeStates::default();
            states.iter().for_each(|state| set.add(*state));
            assert_eq!(evaluate_rule(rule, set), result, "{rule:?} {states:?}");
        }
    }
}
