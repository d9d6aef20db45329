//! Whose turn it is: which node may begin, which can never begin, given how the others ended.

use super::{Edge, TriggerRule, Workflow};
use crate::run::{NodeStatus, Run};
use crate::workflow::expression::Scope;

/// What the graph wants next.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Turn {
    Begin(usize),
    Skip(usize, String),
    /// A condition could not be evaluated: the run cannot tell which way to go.
    Stuck(usize, String),
}

/// The first node, in the order of the file, about which something can be decided.
pub(crate) fn next_turn(run: &Run) -> Option<Turn> {
    let untouched = |position: &usize| run.nodes[*position].status == NodeStatus::Pending;
    (0..run.workflow.nodes.len()).filter(untouched).find_map(|position| turn_of(run, position))
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
enum Verdict {
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
    for edge in workflow.incoming(position) {
        match flow(run, edge) {
            Ok(flow) => flows.push((edge.rule, flow)),
            Err(why) => return Some(Turn::Stuck(position, format!("condition of edge {}: {why}", edge.id))),
        }
    }
    // Edges of one rule are judged together; a node with several rules needs all of them.
    let mut verdict = Verdict::Run;
    for (_, rule) in TriggerRule::ALL {
        let of_rule: Vec<Flow> =
            flows.iter().filter(|(other, _)| *other == rule).map(|(_, flow)| *flow).collect();
        if of_rule.is_empty() {
            continue;
        }
        match judge(rule, &of_rule) {
            Verdict::Never => return Some(Turn::Skip(position, "no incoming edge lets it run".to_owned())),
            Verdict::Wait => verdict = Verdict::Wait,
            Verdict::Run => {}
        }
    }
    (verdict == Verdict::Run).then_some(Turn::Begin(position))
}

fn flow(run: &Run, edge: &Edge) -> Result<Flow, String> {
    match &run.nodes[edge.source].status {
        NodeStatus::Completed => match &edge.condition {
            None => Ok(Flow::Passed),
            Some(condition) => {
                let outputs = &run.nodes[edge.source].outputs;
                let status = serde_json::Value::from("completed");
                let scope = Scope::new()
                    .root("status", &status)
                    .root("output", outputs)
                    .root("variables", &run.variables)
                    .fallback(outputs)
                    .fallback(&run.variables);
                let holds = condition.holds(&scope).map_err(|error| error.to_string())?;
                Ok(if holds { Flow::Passed } else { Flow::Skipped })
            }
        },
        NodeStatus::Failed => Ok(Flow::Failed),
        NodeStatus::Skipped => Ok(Flow::Skipped),
        NodeStatus::Pending | NodeStatus::Running | NodeStatus::Waiting(_) | NodeStatus::Sleeping(_) => {
            Ok(Flow::Open)
        }
    }
}

fn judge(rule: TriggerRule, flows: &[Flow]) -> Verdict {
    let any = |wanted: Flow| flows.contains(&wanted);
    let waiting = any(Flow::Open);
    let when_closed = |yes: bool| match (waiting, yes) {
        (true, _) => Verdict::Wait,
        (false, true) => Verdict::Run,
        (false, false) => Verdict::Never,
    };
    match rule {
        TriggerRule::AllSuccess if any(Flow::Failed) || any(Flow::Skipped) => Verdict::Never,
        TriggerRule::AllSuccess | TriggerRule::AllComplete => when_closed(true),
        TriggerRule::AnySuccess if any(Flow::Passed) => Verdict::Run,
        TriggerRule::AnyFailed if any(Flow::Failed) => Verdict::Run,
        TriggerRule::AnySuccess | TriggerRule::AnyFailed => when_closed(false),
        TriggerRule::NoneFailed if any(Flow::Failed) => Verdict::Never,
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
        let table: [(TriggerRule, &[Flow], Verdict); 18] = [
            (AllSuccess, &[Passed, Passed], Verdict::Run),
            (AllSuccess, &[Passed, Open], Verdict::Wait),
            (AllSuccess, &[Open, Failed], Verdict::Never),
            (AllSuccess, &[Passed, Skipped], Verdict::Never),
            (AnySuccess, &[Open, Passed], Verdict::Run),
            (AnySuccess, &[Open, Failed], Verdict::Wait),
            (AnySuccess, &[Skipped, Failed], Verdict::Never),
            (AllComplete, &[Passed, Open], Verdict::Wait),
            (AllComplete, &[Failed, Skipped], Verdict::Run),
            (NoneFailed, &[Passed, Skipped], Verdict::Run),
            (NoneFailed, &[Passed, Open], Verdict::Wait),
            (NoneFailed, &[Failed, Open], Verdict::Never),
            (AnyFailed, &[Failed, Open], Verdict::Run),
            (AnyFailed, &[Passed, Open], Verdict::Wait),
            (AnyFailed, &[Passed, Skipped], Verdict::Never),
            (AnyFailed, &[Failed], Verdict::Run),
            (AllSuccess, &[Skipped], Verdict::Never),
            (AnySuccess, &[Passed], Verdict::Run),
        ];
        for (rule, flows, verdict) in table {
            assert_eq!(judge(rule, flows), verdict, "{rule:?} {flows:?}");
        }
    }
}
