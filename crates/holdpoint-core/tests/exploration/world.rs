//! A run that waits at a gate, and every move at that gate.

use std::collections::BTreeMap;
use std::sync::Arc;

use holdpoint_core::{
    Answer, Command, Drain, Effect, Event, Interrupt, InterruptId, InterruptRequest, Kind, NodeId,
    NodeOutcome, NodeWork, Obligation, Owner, Parent, Principal, Refusal, Resolution, Run, RunError, RunId,
    StartRequest, TenantId, Timer, Timestamp, Workflow, WorkflowId, decide, react,
};
use serde_json::{Value, json};

pub(crate) const START_TIME: Timestamp = Timestamp(1_700_000_000_000);
pub(crate) const DEADLINE_MS: u64 = 100;
pub(crate) const GATE: InterruptId = InterruptId(1);

#[derive(Clone, Copy, Debug)]
pub(crate) enum Move {
    Vote(&'static str, &'static str),
    /// A vote over a signed link in that name.
    Link(&'static str, &'static str),
    AskSideQuestion(&'static str),
    AnswerSideQuestion,
    /// The clock reaches the deadline. `Expire` fires the timer.
    Tick,
    Expire,
    Pause,
    Resume,
    Cancel,
    CancelWithParent,
    /// The node is entered again and executes the decision.
    Work,
}

/// The moves at every gate.
const COMMON_MOVES: [Move; 8] = [
    Move::AnswerSideQuestion,
    Move::Tick,
    Move::Expire,
    Move::Pause,
    Move::Resume,
    Move::Cancel,
    Move::CancelWithParent,
    Move::Work,
];

/// Ann and Bob are listed, Carol has a listed role. Olga is listed and started the run; Mallory is not eligible.
const PLAIN: [Move; 8] = [
    Move::Vote("ann", "accept"),
    Move::Vote("ann", "reject"),
    Move::Vote("bob", "accept"),
    Move::Vote("bob", "reject"),
    Move::Vote("carol", "accept"),
    Move::Vote("olga", "accept"),
    Move::Vote("mallory", "reject"),
    Move::AskSideQuestion("ann"),
];

/// Ann, Bob and Olga have the required role, and Olga started the run. Carol has the role for overrides only. Mallory
/// has another role.
const GOVERNED: [Move; 12] = [
    Move::Vote("ann", "granted"),
    Move::Vote("ann", "rejected"),
    Move::Vote("ann", "overridden"),
    Move::Vote("bob", "granted"),
    Move::Vote("bob", "rejected"),
    Move::Vote("carol", "overridden"),
    Move::Vote("carol", "granted"),
    Move::Vote("olga", "granted"),
    Move::Vote("mallory", "rejected"),
    Move::Link("ann", "granted"),
    Move::AskSideQuestion("ann"),
    Move::AskSideQuestion("mallory"),
];

/// The rules of a gate.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Gate {
    pub required: u64,
    pub policy: &'static str,
    pub governed: bool,
    /// An override decides alone.
    pub bypass: bool,
}

impl Gate {
    pub(crate) fn plain(required: u64, policy: &'static str) -> Self {
        Self { required, policy, governed: false, bypass: false }
    }

    pub(crate) fn governed(required: u64, policy: &'static str, bypass: bool) -> Self {
        Self { required, policy, governed: true, bypass }
    }

    pub(crate) fn moves(self) -> impl Iterator<Item = Move> {
        let own: &[Move] = if self.governed { &GOVERNED } else { &PLAIN };
        own.iter().copied().chain(COMMON_MOVES)
    }

    /// Returns true if this principal may take this action.
    pub(crate) fn admits(self, name: &str, action: &str) -> bool {
        match (self.governed, action) {
            (false, _) => ["ann", "bob", "carol"].contains(&name),
            (true, "override") => name == "carol",
            (true, _) => ["ann", "bob"].contains(&name),
        }
    }

    fn data(self) -> Value {
        let mut data = json!({
            "artifactId": "a", "artifactType": "t", "title": "?", "actions": ["accept", "reject", "ask"],
            "requiredApprovals": self.required, "rejectionPolicy": self.policy, "requesterMayNotApprove": true,
        });
        if self.governed {
            data["gateId"] = json!("gate");
            data["requiredRole"] = json!("release");
            data["override"] = json!({"requiredRole": "owner"});
            data["overrideBypassesQuorum"] = json!(self.bypass);
        } else {
            data["approversList"] = json!(["ann", "bob", "role:boss", "olga"]);
        }
        data
    }

    fn principal(self, name: &str) -> Principal {
        let role = match (self.governed, name) {
            (false, "carol") => Some("boss"),
            (true, "ann" | "bob" | "olga") => Some("release"),
            (true, "carol") => Some("owner"),
            (true, "mallory") => Some("releases"),
            _ => None,
        };
        Principal { roles: role.map(str::to_owned).into_iter().collect(), ..Principal::named(name) }
    }
}

#[derive(Clone)]
pub(crate) struct World {
    pub gate: Gate,
    pub run: Run,
    pub now: Timestamp,
    pub log: Vec<(Timestamp, Event)>,
    pub timers: Vec<(Timer, Timestamp)>,
}

fn gate() -> NodeId {
    NodeId::parse("gate").expect("a node id")
}

impl World {
    pub(crate) fn new(rules: Gate) -> Self {
        let definition = json!({
            "id": "f", "name": "f", "version": "1", "edges": [], "triggers": [], "variables": [],
            "metadata": {}, "settings": {},
            "nodes": [{"id": "gate", "typeId": "gate", "name": "gate", "config": {}, "inputs": {}}],
        });
        let workflow = Arc::new(Workflow::parse(&definition, 1).expect("a valid definition"));
        let run = Run::new(RunId::parse("r").expect("a run id"), workflow);
        let mut world = Self { gate: rules, run, now: START_TIME, log: Vec::new(), timers: Vec::new() };
        let (tenant, principal) = (TenantId::parse("acme").expect("a tenant id"), "olga".to_owned());
        let parent = Parent {
            run: RunId::parse("above").expect("a run id"),
            workflow: WorkflowId::parse("f").expect("a workflow id"),
            node: gate(),
            depth: 1,
            above: Vec::new(),
        };
        let start = StartRequest { parent: Some(parent), ..StartRequest::new(Owner { tenant, principal }) };
        let request = InterruptRequest {
            key: Some("k".to_owned()),
            timeout_ms: Some(DEADLINE_MS),
            ..InterruptRequest::new(Kind::Approval, rules.data())
        };
        let asked = NodeOutcome::Asked(Box::new(request));
        for command in [
            Command::Start(Box::new(start)),
            Command::Begin { node: gate(), effect: Effect::None },
            Command::Finish { node: gate(), outcome: asked },
        ] {
            world.submit(&command).expect("the gate is reached");
        }
        world
    }

    /// Applies a command. Returns a recorded denial as a refusal.
    fn submit(&mut self, command: &Command) -> Result<(), Refusal> {
        let events = decide(&self.run, command, self.now)?;
        let denial = events.iter().find_map(Event::denial);
        for event in events {
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
        denial.map_or(Ok(()), Err)
    }

    pub(crate) fn apply_move(&mut self, step: Move) -> Result<(), Refusal> {
        let by = |name: &str| self.gate.principal(name);
        let member = if self.gate.governed { "decision" } else { "action" };
        let vote = |name: &str, action: &str| Answer::new(json!({member: action, "reason": "so"}), by(name));
        let resolve = |answer: Answer| Command::Resolve { answers: BTreeMap::from([(GATE, answer)]) };
        let command = match step {
            Move::Vote(name, action) => resolve(vote(name, action)),
            Move::Link(name, action) => resolve(Answer { by_link: true, ..vote(name, action) }),
            Move::AskSideQuestion(name) => {
                resolve(Answer::new(json!({"action": "ask", "question": "Why?"}), by(name)))
            }
            Move::AnswerSideQuestion => Command::AnswerSideQuestion {
                interrupt: GATE,
                ask: 1,
                answer: "So.".to_owned(),
                by: by("olga"),
            },
            Move::Tick => {
                self.now = START_TIME.plus_ms(DEADLINE_MS);
                return Ok(());
            }
            Move::Expire => Command::Expire { interrupt: GATE },
            Move::Pause => Command::Pause { reason: None, drain: Drain::DrainCurrentNode, by: by("ann") },
            Move::Resume => Command::Resume { by: by("ann") },
            Move::Cancel => Command::Cancel { reason: None, by: by("ann") },
            Move::CancelWithParent => Command::CancelWithParent,
            Move::Work => match self.run.next_work() {
                Some(NodeWork::Enter(_)) => Command::Finish { node: gate(), outcome: self.outcome() },
                Some(NodeWork::Begin(_)) | None => return Ok(()),
            },
        };
        self.submit(&command)
    }

    /// Returns the outcome of the gate after its decision.
    fn outcome(&self) -> NodeOutcome {
        if self.granted() {
            NodeOutcome::Completed(Box::default())
        } else {
            NodeOutcome::Failed(RunError::new("approval_rejected", "no"))
        }
    }

    /// Returns true if the gate was decided with an accept or an override.
    pub(crate) fn granted(&self) -> bool {
        match &self.interrupt().resolution {
            Some(Resolution::Answered { value, .. }) => {
                value["action"] == "accept" || value["action"] == "override"
            }
            Some(Resolution::TimedOut { .. }) | None => false,
        }
    }

    pub(crate) fn interrupt(&self) -> &Interrupt {
        self.run.interrupt(GATE).expect("an interrupt")
    }

    pub(crate) fn count(&self, name: &str) -> usize {
        self.log.iter().filter(|(_, event)| event.name() == name).count()
    }

    /// Returns the part of the state that later moves depend on, as text. The number of denials is left out: no move
    /// depends on it.
    pub(crate) fn fingerprint(&self) -> String {
        let asked = self.interrupt();
        let votes: Vec<_> = asked.votes.iter().map(|vote| (&vote.by, vote.action())).collect();
        let asks: Vec<_> = asked.side_questions.iter().map(|ask| ask.answer.is_some()).collect();
        let ended = &self.run.end;
        let closed = asked.resolution.as_ref().map(|resolution| match resolution {
            Resolution::Answered { value, .. } => value["action"].clone(),
            Resolution::TimedOut { .. } => json!("timeout"),
        });
        let (paused, node) = (self.run.paused.is_some(), &self.run.nodes[0].status);
        format!("{:?}", (self.now, votes, asked.repeated, asks, closed, ended, paused, node))
    }
}
