//! Whose turn it is: which node may begin, which can never begin, given how the others ended.

use super::{Edge, Loop, TriggerRule, Workflow};
use crate::run::{NodeStatus, Run, Verdict};
use crate::workflow::expression::Scope;

/// What the graph wants next.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Turn {
    Begin(usize),
    Skip(usize, String),
    /// A condition could not be evaluated: the run cannot tell which way to go.
    Stuck(usize, String),
    /// The way back at this place in `Workflow::loops` is taken.
    Back(usize),
}

/// The first thing that can be decided: a way back, else about a node, in the order of the file.
pub(crate) fn next_turn(run: &Run) -> Option<Turn> {
    let untouched = |position: &usize| run.nodes[*position].status == NodeStatus::Pending;
    let mut pending = (0..run.workflow.nodes.len()).filter(untouched);
    if run.workflow.loops.is_empty() {
        return pending.find_map(|position| turn_of(run, position));
    }
    next_way_back(run).or_else(|| {
        let turns = pending.filter_map(|position| turn_of(run, position)).collect::<Vec<_>>();
        let now = turns.iter().find(|turn| !is_early(run, turn)).cloned();
        // Two loops may wait for one another to be left. Where nothing else is going on, the first one gives in.
        now.or_else(|| {
            turns.into_iter().next().filter(|_| !run.nodes.iter().any(|node| node.status.is_at_work()))
        })
    })
}

/// Returns every node that may begin now, in the order of the file. Nodes that a way back may begin anew are left out.
pub(crate) fn beginnable(run: &Run) -> Vec<usize> {
    if next_way_back(run).is_some() {
        return Vec::new();
    }
    let pending = (0..run.workflow.nodes.len()).filter(|at| run.nodes[*at].status == NodeStatus::Pending);
    let turns = pending.filter_map(|position| turn_of(run, position)).filter(|turn| !is_early(run, turn));
    let begun = turns.filter_map(|turn| match turn {
        Turn::Begin(position) => Some(position),
        Turn::Skip(..) | Turn::Stuck(..) | Turn::Back(_) => None,
    });
    begun.collect()
}

fn next_way_back(run: &Run) -> Option<Turn> {
    run.workflow.loops.iter().enumerate().find_map(|(at, found)| match way_back(run, found) {
        Ok(true) if is_quiet(run, found) => Some(Turn::Back(at)),
        Ok(_) => None,
        Err(why) => {
            let edge = &run.workflow.edges[found.edge];
            Some(Turn::Stuck(edge.target, format!("condition of edge {}: {why}", edge.id)))
        }
    })
}

/// Whether a way back is to be taken, once its region is quiet.
fn way_back(run: &Run, found: &Loop) -> Result<bool, String> {
    let edge = &run.workflow.edges[found.edge];
    Ok(match flow(run, found.edge, edge)? {
        Flow::Passed => edge.rule != TriggerRule::AnyFailed,
        Flow::Failed => edge.rule.admits_failure(),
        Flow::Open | Flow::Skipped => false,
    })
}

fn is_quiet(run: &Run, found: &Loop) -> bool {
    std::iter::zip(&found.region, &run.nodes).all(|(member, state)| !member || !state.status.is_at_work())
}

/// What is about to begin anew must not begin now; and what a loop leads out to must not be given up while the loop
/// may still come round.
fn is_early(run: &Run, turn: &Turn) -> bool {
    let (position, skipped) = match turn {
        Turn::Begin(position) => (*position, false),
        Turn::Skip(position, _) => (*position, true),
        Turn::Stuck(..) | Turn::Back(_) => return false,
    };
    run.workflow.loops.iter().filter(|found| found.region[position]).any(|found| {
        let source = &run.nodes[run.workflow.edges[found.edge].source];
        way_back(run, found) == Ok(true) || (skipped && found.exits[position] && !source.status.has_ended())
    })
}

/// How an incoming edge stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Flow {
    Open,
    Passed,
    Failed,
    Skipped,
}

/// What a trigger rule says of its edges.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ruling {
    Wait,
    Run,
    Never,
}

fn turn_of(run: &Run, position: usize) -> Option<Turn> {
    let workflow: &Workflow = &run.workflow;
    if workflow.nodes[position].disabled {
        return Some(Turn::Skip(position, "disabled".to_owned()));
    }
    let mut flows: Vec<(TriggerRule, Flow)> = Vec::new();
    for (at, edge) in workflow.incoming(position) {
        match flow(run, at, edge) {
            Ok(flow) => flows.push((edge.rule, flow)),
            Err(why) => return Some(Turn::Stuck(position, format!("condition of edge {}: {why}", edge.id))),
        }
    }
    // Edges of one rule are judged together; a node with several rules needs all of them.
    let mut ruling = Ruling::Run;
    for (_, rule) in TriggerRule::ALL {
        let of_rule: Vec<Flow> =
            flows.iter().filter(|(other, _)| *other == rule).map(|(_, flow)| *flow).collect();
        if of_rule.is_empty() {
            continue;
        }
        match judge(rule, &of_rule) {
            Ruling::Never => return Some(Turn::Skip(position, "no incoming edge lets it run".to_owned())),
            Ruling::Wait => ruling = Ruling::Wait,
            Ruling::Run => {}
        }
    }
    (ruling == Ruling::Run).then_some(Turn::Begin(position))
}

/// What an edge's condition says right after its source completed.
pub(crate) fn judge_edge(run: &Run, edge: &Edge, branch: Option<&str>) -> Verdict {
    if let (Some(branch), Some(way)) = (branch, &edge.source_output)
        && way != branch
    {
        return Verdict::NotTaken;
    }
    let Some(condition) = &edge.condition else { return Verdict::Taken };
    let outputs = &run.nodes[edge.source].outputs;
    let status = serde_json::Value::from("completed");
    let scope = Scope::new()
        .root("status", &status)
        .root("output", outputs)
        .root("variables", &run.variables)
        .fallback(outputs)
        .fallback(&run.variables);
    match condition.holds(&scope) {
        Ok(true) => Verdict::Taken,
        Ok(false) => Verdict::NotTaken,
        Err(error) => Verdict::Broken(error.to_string()),
    }
}

fn flow(run: &Run, position: usize, edge: &Edge) -> Result<Flow, String> {
    match &run.nodes[edge.source].status {
        NodeStatus::Completed => match &run.conditions[position] {
            Some(Verdict::Taken) => Ok(Flow::Passed),
            Some(Verdict::NotTaken) => Ok(Flow::Skipped),
            Some(Verdict::Broken(why)) => Err(why.clone()),
            None => Ok(Flow::Open),
        },
        NodeStatus::Failed => Ok(Flow::Failed),
        NodeStatus::Skipped => Ok(Flow::Skipped),
        NodeStatus::Pending
        | NodeStatus::Running
        | NodeStatus::Waiting(_)
        | NodeStatus::Sleeping(_)
        | NodeStatus::Awaiting(_) => Ok(Flow::Open),
    }
}

fn judge(rule: TriggerRule, flows: &[Flow]) -> Ruling {
    let any = |wanted: Flow| flows.contains(&wanted);
    let waiting = any(Flow::Open);
    let when_closed = |yes: bool| match (waiting, yes) {
        (true, _) => Ruling::Wait,
        (false, true) => Ruling::Run,
        (false, false) => Ruling::Never,
    };
    match rule {
        TriggerRule::AllSuccess if any(Flow::Failed) || any(Flow::Skipped) => Ruling::Never,
        TriggerRule::AllSuccess | TriggerRule::AllComplete => when_closed(true),
        TriggerRule::AnySuccess if any(Flow::Passed) => Ruling::Run,
        TriggerRule::AnyFailed if any(Flow::Failed) => Ruling::Run,
        TriggerRule::AnySuccess | TriggerRule::AnyFailed => when_closed(false),
        TriggerRule::NoneFailed if any(Flow::Failed) => Ruling::Never,
        TriggerRule::NoneFailed => when_closed(true),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_rule_waits_runs_or_gives_up_as_its_name_says() {
        use Flow::{Failed, Open, Passed, Skipped};
        use TriggerRule::{AllComplete, AllSuccess, AnyFailed, AnySuccess, NoneFailed};
        let table: [(TriggerRule, &[Flow], Ruling); 18] = [
            (AllSuccess, &[Passed, Passed], Ruling::Run),
            (AllSuccess, &[Passed, Open], Ruling::Wait),
            (AllSuccess, &[Open, Failed], Ruling::Never),
            (AllSuccess, &[Passed, Skipped], Ruling::Never),
            (AnySuccess, &[Open, Passed], Ruling::Run),
            (AnySuccess, &[Open, Failed], Ruling::Wait),
            (AnySuccess, &[Skipped, Failed], Ruling::Never),
            (AllComplete, &[Passed, Open], Ruling::Wait),
            (AllComplete, &[Failed, Skipped], Ruling::Run),
            (NoneFailed, &[Passed, Skipped], Ruling::Run),
            (NoneFailed, &[Passed, Open], Ruling::Wait),
            (NoneFailed, &[Failed, Open], Ruling::Never),
            (AnyFailed, &[Failed, Open], Ruling::Run),
            (AnyFailed, &[Passed, Open], Ruling::Wait),
            (AnyFailed, &[Passed, Skipped], Ruling::Never),
            (AnyFailed, &[Failed], Ruling::Run),
            (AllSuccess, &[Skipped], Ruling::Never),
            (AnySuccess, &[Passed], Ruling::Run),
        ];
        for (rule, flows, ruling) in table {
            assert_eq!(judge(rule, flows), ruling, "{rule:?} {flows:?}");
        }
    }
}
