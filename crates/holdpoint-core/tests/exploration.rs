//! Every order of a few moves around small gates: votes of those who may and those who may not, questions, silence,
//! pauses, cancellations. Whatever the order, a gate is decided once, by those who may, and then nothing is left.
//!
//! States that differ in nothing that a later move could see are looked at once.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use holdpoint_core::{
    Answer, Command, Drain, Event, Interrupt, InterruptId, Kind, NodeId, Obligation, Outcome, Owner, Parent,
    Principal, Refusal, Request, Resolution, Run, RunError, RunId, Start, Status, TenantId, Timer, Timestamp,
    Work, Workflow, WorkflowId, decide, react,
};
use serde_json::{Value, json};

const DAWN: Timestamp = Timestamp(1_700_000_000_000);
const DEADLINE_MS: u64 = 100;
const DEPTH: usize = 6;
const GATE: InterruptId = InterruptId(1);
/// Ann and Bob are listed, Carol has a listed role. Olga is listed and started the run; Mallory is nobody.
const ELIGIBLE: [&str; 3] = ["ann", "bob", "carol"];

#[derive(Clone, Copy, Debug)]
enum Move {
    Vote(&'static str, &'static str),
    Ask(&'static str),
    AnswerAsk,
    /// The deadline comes, and its timer fires or does not yet.
    Tick,
    Expire,
    Pause,
    Resume,
    Cancel,
    CancelWithParent,
    /// The node is entered again and does what the decision says.
    Work,
}

const MOVES: [Move; 16] = [
    Move::Vote("ann", "accept"),
    Move::Vote("ann", "reject"),
    Move::Vote("bob", "accept"),
    Move::Vote("bob", "reject"),
    Move::Vote("carol", "accept"),
    Move::Vote("olga", "accept"),
    Move::Vote("mallory", "reject"),
    Move::Ask("ann"),
    Move::AnswerAsk,
    Move::Tick,
    Move::Expire,
    Move::Pause,
    Move::Resume,
    Move::Cancel,
    Move::CancelWithParent,
    Move::Work,
];

#[derive(Clone)]
struct World {
    run: Run,
    now: Timestamp,
    log: Vec<(Timestamp, Event)>,
    timers: Vec<(Timer, Timestamp)>,
}

fn principal(name: &str) -> Principal {
    let roles = if name == "carol" { vec!["boss".to_owned()] } else { Vec::new() };
    Principal { roles, ..Principal::named(name) }
}

fn gate() -> NodeId {
    NodeId::parse("gate").expect("a node id")
}

impl World {
    fn new(required: u64, policy: &str) -> Self {
        let definition = json!({
            "id": "f", "name": "f", "version": "1", "edges": [], "triggers": [], "variables": [],
            "metadata": {}, "settings": {},
            "nodes": [{"id": "gate", "typeId": "gate", "name": "gate", "config": {}, "inputs": {}}],
        });
        let workflow = Arc::new(Workflow::parse(&definition, 1).expect("a sound definition"));
        let run = Run::unborn(RunId::parse("r").expect("a run id"), workflow);
        let mut world = Self { run, now: DAWN, log: Vec::new(), timers: Vec::new() };
        let (tenant, principal) = (TenantId::parse("acme").expect("a tenant id"), "olga".to_owned());
        let parent = Parent {
            run: RunId::parse("above").expect("a run id"),
            workflow: WorkflowId::parse("f").expect("a workflow id"),
            node: gate(),
            depth: 1,
        };
        let start = Start { parent: Some(parent), ..Start::new(Owner { tenant, principal }) };
        let data = json!({
            "artifactId": "a", "artifactType": "t", "title": "?", "actions": ["accept", "reject", "ask"],
            "requiredApprovals": required, "rejectionPolicy": policy, "requesterMayNotApprove": true,
            "approversList": ["ann", "bob", "role:boss", "olga"],
        });
        let request = Request {
            key: Some("k".to_owned()),
            timeout_ms: Some(DEADLINE_MS),
            ..Request::new(Kind::Approval, data)
        };
        let asked = Outcome::Asked(Box::new(request));
        for command in [
            Command::Start(start),
            Command::Begin { node: gate() },
            Command::Finish { node: gate(), outcome: asked },
        ] {
            world.tell(&command).expect("the gate is reached");
        }
        world
    }

    fn tell(&mut self, command: &Command) -> Result<(), Refusal> {
        for event in decide(&self.run, command, self.now)? {
            for obligation in react(&self.run, &event, self.now) {
                match obligation {
                    Obligation::SetTimer { timer, due } => self.timers.push((timer, due)),
                    Obligation::ClearTimer { timer, due } => {
                        let set = self.timers.iter().position(|known| *known == (timer.clone(), due));
                        self.timers.swap_remove(set.expect("only a timer that was set is cleared"));
                    }
                    Obligation::Activate | Obligation::StartChild { .. } | Obligation::CancelChild { .. } => {
                    }
                }
            }
            self.run.apply(&event, self.now);
            self.log.push((self.now, event));
        }
        Ok(())
    }

    fn make(&mut self, step: Move) -> Result<(), Refusal> {
        let says = |name: &str, value: Value| Command::Resolve {
            answers: BTreeMap::from([(GATE, Answer::new(value, principal(name)))]),
        };
        let by = || principal("ann");
        let command = match step {
            Move::Vote(name, action) => says(name, json!({"action": action})),
            Move::Ask(name) => says(name, json!({"action": "ask", "question": "Why?"})),
            Move::AnswerAsk => {
                Command::AnswerAsk { interrupt: GATE, ask: 1, answer: "So.".to_owned(), by: by() }
            }
            Move::Tick => {
                self.now = DAWN.plus_ms(DEADLINE_MS);
                return Ok(());
            }
            Move::Expire => Command::Expire { interrupt: GATE },
            Move::Pause => Command::Pause { reason: None, drain: Drain::DrainCurrentNode, by: by() },
            Move::Resume => Command::Resume { by: by() },
            Move::Cancel => Command::Cancel { reason: None, by: by() },
            Move::CancelWithParent => Command::CancelWithParent,
            Move::Work => match self.run.next_work() {
                Some(Work::Enter(_)) => Command::Finish { node: gate(), outcome: self.outcome() },
                Some(Work::Begin(_)) | None => return Ok(()),
            },
        };
        self.tell(&command)
    }

    /// What a gate makes of its decision.
    fn outcome(&self) -> Outcome {
        match &self.asked().resolution {
            Some(Resolution::Answered { value, .. }) if value["action"] == "accept" => {
                Outcome::Completed(Box::default())
            }
            _ => Outcome::Failed(RunError::new("approval_rejected", "no")),
        }
    }

    fn asked(&self) -> &Interrupt {
        self.run.interrupt(GATE).expect("asked")
    }

    /// Everything that a later move could see.
    fn seen(&self) -> String {
        let asked = self.asked();
        let votes: Vec<_> = asked.votes.iter().map(|vote| (&vote.by, vote.action())).collect();
        let asks: Vec<_> = asked.asks.iter().map(|ask| ask.reply.is_some()).collect();
        let ended = &self.run.end;
        let closed = asked.resolution.as_ref().map(|resolution| match resolution {
            Resolution::Answered { value, .. } => value["action"].clone(),
            Resolution::TimedOut { .. } => json!("silence"),
        });
        let (paused, node) = (self.run.paused.is_some(), &self.run.nodes[0].status);
        format!("{:?}", (self.now, votes, asked.repeated, asks, closed, ended, paused, node))
    }
}

/// What the explored orders came to.
#[derive(Default)]
struct Reached {
    /// How many moves were still to be made when a state was looked at.
    states: HashMap<String, usize>,
    ends: BTreeSet<String>,
}

fn explore(world: &World, left: usize, rule: (u64, &str), reached: &mut Reached) {
    if left == 0 {
        return;
    }
    for step in MOVES {
        let mut next = world.clone();
        let result = next.make(step);
        check_refusal(world, step, &result);
        if let Err(refusal) = &result {
            assert_eq!(next.run, world.run, "{step:?} was refused and changed something: {refusal:?}");
            reached.ends.insert(format!("refused: {}", refusal.code()));
        }
        let known = reached.states.insert(next.seen(), left);
        if known.is_none() {
            check(&next, rule, reached);
        }
        match known.filter(|before| *before >= left) {
            Some(before) => drop(reached.states.insert(next.seen(), before)),
            None => explore(&next, left - 1, rule, reached),
        }
    }
}

fn check_refusal(world: &World, step: Move, result: &Result<(), Refusal>) {
    let open = world.asked().is_open() && !world.run.finished();
    match step {
        Move::Vote("olga", _) if open && world.now == DAWN => {
            assert_eq!(*result, Err(Refusal::OwnRequest("olga".to_owned())));
        }
        Move::Vote("mallory", _) if open && world.now == DAWN => {
            assert_eq!(*result, Err(Refusal::NotAnApprover("mallory".to_owned())));
        }
        Move::Vote(..) | Move::Ask(_) | Move::AnswerAsk | Move::Expire if !open => {
            assert!(result.is_err(), "{step:?} after the end: {:?}", world.log);
        }
        Move::Vote(..) | Move::Ask(_) if world.now > DAWN => {
            assert_eq!(*result, Err(Refusal::Expired), "too late");
        }
        _ => {}
    }
}

fn check(world: &World, (required, policy): (u64, &str), reached: &mut Reached) {
    let (asked, run) = (world.asked(), &world.run);
    let closings: Vec<&Event> = world
        .log
        .iter()
        .map(|(_, event)| event)
        .filter(|event| matches!(event, Event::InterruptResolved { .. } | Event::InterruptTimedOut { .. }))
        .collect();
    assert!(closings.len() <= 1, "decided twice: {closings:?}");
    assert_eq!(closings.is_empty(), asked.is_open());

    let voters: BTreeSet<&str> = asked.votes.iter().map(|vote| vote.by.as_str()).collect();
    assert_eq!(voters.len(), asked.votes.len(), "somebody counted twice: {:?}", asked.votes);
    assert!(voters.iter().all(|name| ELIGIBLE.contains(name)), "{voters:?}");

    let count = |action: &str| asked.votes.iter().filter(|vote| vote.action() == action).count() as u64;
    let (accepts, rejects) = (count("accept"), count("reject"));
    let vetoed = if policy == "majority" { rejects > required / 2 } else { rejects > 0 };
    match &asked.resolution {
        Some(Resolution::Answered { value, by, at }) => {
            assert!(ELIGIBLE.contains(&by.as_str()), "decided by {by}");
            assert!(*at < DAWN.plus_ms(DEADLINE_MS), "decided too late");
            let granted = value["action"] == "accept";
            // One approval is the decision itself; more are counted.
            assert!(required == 1 || (if granted { accepts == required && !vetoed } else { vetoed }));
        }
        Some(Resolution::TimedOut { at }) => assert!(*at >= DAWN.plus_ms(DEADLINE_MS), "too early"),
        None => assert!(required == 1 || (accepts < required && !vetoed), "it should have been decided"),
    }

    let waits = asked.is_open() && !run.finished();
    let expected = if waits { vec![(Timer::Interrupt(GATE), DAWN.plus_ms(DEADLINE_MS))] } else { Vec::new() };
    assert_eq!(world.timers, expected, "a timer for what still waits, and no other");

    let status = match (run.finished(), run.paused.is_some(), waits) {
        (true, _, _) => run.status(),
        (false, true, _) => Status::Paused,
        (false, false, true) => Status::WaitingApproval,
        (false, false, false) => Status::Running,
    };
    assert_eq!(run.status(), status);
    let granted =
        matches!(&asked.resolution, Some(Resolution::Answered { value, .. }) if value["action"] == "accept");
    assert!(run.status() != Status::Completed || granted, "completed without a grant");
    let again =
        Run::replay(run.id.clone(), run.workflow.clone(), world.log.iter().map(|(at, event)| (*at, event)));
    assert_eq!(again, *run, "the log is the run");
    reached.ends.insert(run.status().as_str().to_owned());
    reached.ends.extend(world.log.last().map(|(_, event)| event.name().to_owned()));
}

#[test]
fn in_every_order_a_gate_is_decided_once_and_by_those_who_may() {
    for rule in [(1, "single-veto"), (2, "single-veto"), (2, "majority"), (3, "majority")] {
        let mut reached = Reached::default();
        explore(&World::new(rule.0, rule.1), DEPTH, rule, &mut reached);
        let ends = &reached.ends;
        let mut expected = vec![
            "completed",
            "failed",
            "cancelled",
            "paused",
            "waiting-approval",
            "holdpoint.ask.answered",
            "refused: forbidden",
            "refused: interrupt_already_resolved",
            "refused: interrupt_cancelled",
            "refused: interrupt_gone",
            "refused: not_due",
        ];
        if rule.0 > 1 {
            expected.extend(["holdpoint.vote.cast", "holdpoint.vote.repeated", "refused: already_voted"]);
        }
        for end in expected {
            assert!(ends.contains(end), "{rule:?} never came to {end}: {ends:?}");
        }
        assert!(reached.states.len() > 400, "{rule:?}: only {} states", reached.states.len());
    }
}
