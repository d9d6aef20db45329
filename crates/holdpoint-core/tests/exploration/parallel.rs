//! Explores every order in which the nodes of two branches begin, end, wait and are resumed, with pauses, settlements and
//! a cancellation. In every order a running node sees the variables of the moment at which it began or was resumed, the
//! last writer wins, and the run ends with all nodes.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;

use holdpoint_core::{
    Answer, Command, Completion, Drain, Effect, Event, InterruptId, InterruptRequest, Kind, NodeOutcome,
    NodeStatus, NodeWork, Owner, Principal, Refusal, Resolution, Run, RunId, StartRequest, Status, TenantId,
    Workflow, decide,
};
use serde_json::{Map, Value, json};

use crate::world::START_TIME;

/// Enough for the longest order: each of five nodes begins and ends, the gate waits, is answered and continues.
const DEPTH: usize = 18;

#[derive(Clone, Copy, Debug)]
enum Move {
    /// The worker does the work at this place of the list of ready work.
    Work(usize),
    Settle,
    Answer,
    Pause(Drain),
    Resume,
    Cancel,
}

const MOVES: [Move; 9] = [
    Move::Work(0),
    Move::Work(1),
    Move::Work(2),
    Move::Settle,
    Move::Answer,
    Move::Pause(Drain::DrainCurrentNode),
    Move::Pause(Drain::Immediate),
    Move::Resume,
    Move::Cancel,
];

/// A run of two branches: `slow`, and `fast` with a gate behind it. Both lead to `join`; `never` is skipped.
#[derive(Clone)]
struct Branches {
    run: Run,
    log: Vec<Event>,
    /// The variables that each running node saw when it began or was resumed.
    seen: BTreeMap<usize, Arc<Value>>,
}

fn workflow() -> Workflow {
    let node = |id: &str| json!({"id": id, "typeId": "core.noop", "name": id, "config": {}, "inputs": {}});
    let edge = |source: &str, target: &str| json!({"id": format!("{source}-{target}"), "sourceNodeId": source, "targetNodeId": target});
    let mut never = edge("fast", "never");
    never["sourceOutput"] = json!("other");
    let mut behind = edge("never", "join");
    behind["triggerRule"] = json!("none_failed");
    let nodes = ["slow", "fast", "gate", "never", "join"].map(node);
    let definition = json!({
        "id": "flow", "name": "Flow", "version": "1", "triggers": [], "metadata": {}, "settings": {},
        "variables": [], "nodes": nodes,
        "edges": [edge("fast", "gate"), edge("gate", "join"), edge("slow", "join"), never, behind],
    });
    Workflow::parse(&definition, 1).expect("a valid definition")
}

impl Branches {
    fn new() -> Self {
        let run = Run::new(RunId::parse("r").expect("a run id"), Arc::new(workflow()));
        let mut new = Self { run, log: Vec::new(), seen: BTreeMap::new() };
        let tenant = TenantId::parse("t").expect("a tenant id");
        let start = StartRequest::new(Owner { tenant, principal: "olga".to_owned() });
        new.submit(&Command::Start(Box::new(start))).expect("a run");
        new
    }

    fn submit(&mut self, command: &Command) -> Result<(), Refusal> {
        for event in decide(&self.run, command, START_TIME)? {
            let ran = self.running();
            self.run.apply(&event, START_TIME);
            let runs = self.running();
            self.seen.retain(|position, _| runs.contains(position));
            for new in runs.difference(&ran) {
                self.seen.insert(*new, self.run.variables.clone());
            }
            self.log.push(event);
        }
        Ok(())
    }

    fn running(&self) -> BTreeSet<usize> {
        let nodes = self.run.nodes.iter().enumerate();
        nodes.filter(|(_, node)| node.status == NodeStatus::Running).map(|(position, _)| position).collect()
    }

    fn apply_move(&mut self, step: Move) -> Result<(), Refusal> {
        let by = || Principal::named("olga");
        match step {
            Move::Work(place) => self.work(place),
            Move::Settle if self.run.is_settled() => Err(Refusal::NodeNotRunning),
            Move::Settle => self.submit(&Command::Settle),
            Move::Answer => {
                let answer = Answer::new(json!("go"), by());
                self.submit(&Command::Resolve { answers: BTreeMap::from([(InterruptId(1), answer)]) })
            }
            Move::Pause(drain) => self.submit(&Command::Pause { reason: None, drain, by: by() }),
            Move::Resume => self.submit(&Command::Resume { by: by() }),
            Move::Cancel => self.submit(&Command::Cancel { reason: None, by: by() }),
        }
    }

    fn work(&mut self, place: usize) -> Result<(), Refusal> {
        let Some(work) = self.run.ready_work().get(place).copied() else {
            return Err(Refusal::NodeNotRunning);
        };
        let node = self.run.workflow.nodes[work.position()].id.clone();
        match work {
            NodeWork::Begin(_) => self.submit(&Command::Begin { node, effect: Effect::None }),
            NodeWork::Enter(position) => {
                let outcome = self.outcome(position);
                self.submit(&Command::Finish { node, outcome })
            }
        }
    }

    /// Returns the outcome of a node: the gate waits for its answer, and every other node writes its name.
    fn outcome(&self, position: usize) -> NodeOutcome {
        let node = &self.run.workflow.nodes[position];
        let asked = self.run.interrupt(InterruptId(1));
        match (node.id.as_str(), asked.map(|asked| &asked.resolution)) {
            ("gate", None) => {
                let request = InterruptRequest::new(Kind::Custom, json!({"customKind": "go"}));
                NodeOutcome::Asked(Box::new(InterruptRequest { key: Some("k".to_owned()), ..request }))
            }
            ("gate", Some(None)) => NodeOutcome::Joined(InterruptId(1)),
            ("gate", Some(Some(Resolution::TimedOut { .. }))) => unreachable!("the gate has no deadline"),
            ("fast", _) => self.writes("fast", Some("gate")),
            (name, _) => self.writes(name, None),
        }
    }

    fn writes(&self, name: &str, branch: Option<&str>) -> NodeOutcome {
        let outputs = Map::from_iter([(name.to_owned(), json!(true)), ("last".to_owned(), json!(name))]);
        let branch = branch.map(str::to_owned);
        NodeOutcome::Completed(Box::new(Completion { branch, ..Completion::of(outputs) }))
    }

    fn check(&self) {
        for position in self.running() {
            let node = &self.run.workflow.nodes[position];
            assert_eq!(self.run.variables_of(node), self.seen[&position], "{}: {:?}", node.id, self.log);
        }
        let mut ended = self.log.iter().filter_map(|event| match event {
            Event::NodeCompleted { node, .. } => Some(json!(node.as_str())),
            _ => None,
        });
        assert_eq!(self.run.variables.get("last").cloned(), ended.next_back(), "the last writer wins");
        let log = self.log.iter().map(|event| (START_TIME, event));
        assert_eq!(Run::replay(self.run.id.clone(), self.run.workflow.clone(), log), self.run);
        if self.run.status() == Status::Completed {
            let names: Vec<_> = self.run.nodes.iter().map(|node| json!(node.status.name())).collect();
            assert_eq!(names, ["completed", "completed", "completed", "skipped", "completed"]);
        }
    }

    /// Returns the part of the state that later moves depend on, as text.
    fn fingerprint(&self) -> String {
        let run = &self.run;
        let nodes: Vec<_> = run.nodes.iter().map(|node| (&node.status, &node.unseen)).collect();
        let pauses = (run.paused.is_some(), run.draining.is_some());
        format!("{:?}", (nodes, &run.variables, pauses, run.status(), run.interrupts.len(), &self.seen))
    }
}

#[test]
fn in_every_order_of_two_branches_nodes_see_stable_variables_and_the_run_ends() {
    let (mut states, mut ends, mut both) = (HashSet::new(), BTreeSet::new(), 0);
    let mut frontier = vec![Branches::new()];
    for _ in 0..DEPTH {
        let mut next_frontier = Vec::new();
        for world in &frontier {
            for step in MOVES {
                let mut next = world.clone();
                match next.apply_move(step) {
                    Err(_) => assert_eq!(next.run, world.run, "a refusal changed the run"),
                    Ok(()) if states.insert(next.fingerprint()) => {
                        next.check();
                        both += usize::from(next.running().len() == 2);
                        ends.insert(next.run.status().as_str());
                        next_frontier.push(next);
                    }
                    Ok(()) => {}
                }
            }
        }
        frontier = next_frontier;
    }
    assert_eq!(frontier.len(), 0, "every order was explored to its end");
    assert!(both > 20, "{both} states with two running nodes");
    for end in ["completed", "cancelled", "paused", "waiting-input", "running"] {
        assert!(ends.contains(end), "{end}: {ends:?}");
    }
}
