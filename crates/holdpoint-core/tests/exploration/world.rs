//! A run that stands at a small gate, and every move that can be made around it.

use std::collections::BTreeMap;
use std::sync::Arc;

use holdpoint_core::{
    Answer, Command, Drain, Effect, Event, Interrupt, InterruptId, Kind, NodeId, Obligation, Outcome, Owner,
    Parent, Principal, Refusal, Request, Resolution, Run, RunError, RunId, Start, TenantId, Timer, Timestamp,
    Work, Workflow, WorkflowId, decide, react,
};
use serde_json::{Value, json};

pub(crate) const DAWN: Timestamp = Timestamp(1_700_000_000_000);
pub(crate) const DEADLINE_MS: u64 = 100;
pub(crate) const GATE: InterruptId = InterruptId(1);

#[derive(Clone, Copy, Debug)]
pub(crate) enum Move {
    Vote(&'static str, &'static str),
    /// The same over a signed link in that name.
    Link(&'static str, &'static str),
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

/// What can happen around every gate.
const AROUND: [Move; 8] = [
    Move::AnswerAsk,
    Move::Tick,
    Move::Expire,
    Move::Pause,
    Move::Resume,
    Move::Cancel,
    Move::CancelWithParent,
    Move::Work,
];

/// Ann and Bob are listed, Carol has a listed role. Olga is listed and started the run; Mallory is nobody.
const PLAIN: [Move; 8] = [
    Move::Vote("ann", "accept"),
    Move::Vote("ann", "reject"),
    Move::Vote("bob", "accept"),
    Move::Vote("bob", "reject"),
    Move::Vote("carol", "accept"),
    Move::Vote("olga", "accept"),
    Move::Vote("mallory", "reject"),
    Move::Ask("ann"),
];

/// Ann, Bob and Olga have the role that is required, and Olga started the run. Carol has the one that overrides and no
/// other; Mallory has a role that means nothing here.
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
    Move::Ask("ann"),
    Move::Ask("mallory"),
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
        own.iter().copied().chain(AROUND)
    }

    /// Who may do what.
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
        let workflow = Arc::new(Workflow::parse(&definition, 1).expect("a sound definition"));
        let run = Run::unborn(RunId::parse("r").expect("a run id"), workflow);
        let mut world = Self { gate: rules, run, now: DAWN, log: Vec::new(), timers: Vec::new() };
        let (tenant, principal) = (TenantId::parse("acme").expect("a tenant id"), "olga".to_owned());
        let parent = Parent {
            run: RunId::parse("above").expect("a run id"),
            workflow: WorkflowId::parse("f").expect("a workflow id"),
            node: gate(),
            depth: 1,
        };
        let start = Start { parent: Some(parent), ..Start::new(Owner { tenant, principal }) };
        let request = Request {
            key: Some("k".to_owned()),
            timeout_ms: Some(DEADLINE_MS),
            ..Request::new(Kind::Approval, rules.data())
        };
        let asked = Outcome::Asked(Box::new(request));
        for command in [
            Command::Start(Box::new(start)),
            Command::Begin { node: gate(), effect: Effect::None },
            Command::Finish { node: gate(), outcome: asked },
        ] {
            world.tell(&command).expect("the gate is reached");
        }
        world
    }

    /// A refusal that is written down is one all the same.
    fn tell(&mut self, command: &Command) -> Result<(), Refusal> {
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

    pub(crate) fn make(&mut self, step: Move) -> Result<(), Refusal> {
        let by = |name: &str| self.gate.principal(name);
        let member = if self.gate.governed { "decision" } else { "action" };
        let word = |name: &str, word: &str| Answer::new(json!({member: word, "reason": "so"}), by(name));
        let resolve = |answer: Answer| Command::Resolve { answers: BTreeMap::from([(GATE, answer)]) };
        let command = match step {
            Move::Vote(name, said) => resolve(word(name, said)),
            Move::Link(name, said) => resolve(Answer { by_link: true, ..word(name, said) }),
            Move::Ask(name) => resolve(Answer::new(json!({"action": "ask", "question": "Why?"}), by(name))),
            Move::AnswerAsk => {
                Command::AnswerAsk { interrupt: GATE, ask: 1, answer: "So.".to_owned(), by: by("olga") }
            }
            Move::Tick => {
                self.now = DAWN.plus_ms(DEADLINE_MS);
                return Ok(());
            }
            Move::Expire => Command::Expire { interrupt: GATE },
            Move::Pause => Command::Pause { reason: None, drain: Drain::DrainCurrentNode, by: by("ann") },
            Move::Resume => Command::Resume { by: by("ann") },
            Move::Cancel => Command::Cancel { reason: None, by: by("ann") },
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
        if self.granted() {
            Outcome::Completed(Box::default())
        } else {
            Outcome::Failed(RunError::new("approval_rejected", "no"))
        }
    }

    /// Whether the decision is there, and lets the run pass.
    pub(crate) fn granted(&self) -> bool {
        match &self.asked().resolution {
            Some(Resolution::Answered { value, .. }) => {
                value["action"] == "accept" || value["action"] == "override"
            }
            Some(Resolution::TimedOut { .. }) | None => false,
        }
    }

    pub(crate) fn asked(&self) -> &Interrupt {
        self.run.interrupt(GATE).expect("asked")
    }

    pub(crate) fn count(&self, name: &str) -> usize {
        self.log.iter().filter(|(_, event)| event.name() == name).count()
    }

    /// Everything that a later move could see. How many were turned away is only counted, up to more than can be here.
    pub(crate) fn seen(&self) -> String {
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
