//! The execution of one sequence: its runs, the payloads that approvers agreed to, and a log of all steps.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::approvers::link_credential;
use crate::flows::clerk;
use crate::harness::Response;
use crate::plan::{Plan, Step, StepKind};
use crate::routes::{Class, class};
use crate::world::{Call, Caller, Side, World};

const RUNS_MAX: usize = 9;

/// A run of the sequence, with the sequence's own record of its requesters.
#[derive(Clone, Debug)]
pub(crate) struct Run {
    pub id: String,
    pub requesters: BTreeSet<String>,
    /// The run that started this one.
    pub parent: Option<String>,
    pub thread: String,
    pub state_key: Option<String>,
}

/// An approval that the server accepted, with the payload that the approver agreed to.
#[derive(Clone, Debug)]
pub(crate) struct Vote {
    pub run: String,
    pub interrupt: String,
    pub voter: String,
    /// The payload that the approver was shown, or its edited form.
    pub agreed: Value,
    /// True if the voter was a requester of the run at that time and requesters may not approve.
    pub excluded: bool,
}

/// A successful consumption of a grant.
#[derive(Clone, Debug)]
pub(crate) struct Consumption {
    pub grant: String,
    pub by: String,
    pub key: String,
    pub bogus: bool,
}

pub(crate) struct Sequence<'w> {
    pub world: &'w World,
    pub plan: Plan,
    /// The marker in every payload of this sequence.
    pub marker: String,
    /// The id of the workflow or agent.
    pub flow: String,
    pub runs: Vec<Run>,
    pub votes: Vec<Vote>,
    /// Credentials of approvers that belong to this sequence: `link:ID`.
    pub links: BTreeSet<String>,
    pub consumed: Vec<Consumption>,
    pub webhook: Option<String>,
    /// True after an attacker has registered another revision: no run is started after that.
    pub redefined: bool,
    pub steps: Vec<String>,
    pub violations: Vec<String>,
}

impl<'w> Sequence<'w> {
    pub(crate) fn execute(world: &'w World, plan: &Plan, marker: &str) -> Self {
        let flow = if plan.own && plan.shape.name() != "holdpoint-hold" {
            format!("{}-{marker}", plan.shape.name())
        } else {
            plan.shape.name().to_owned()
        };
        let mut sequence = Self {
            world,
            plan: plan.clone(),
            marker: marker.to_owned(),
            flow,
            runs: Vec::new(),
            votes: Vec::new(),
            links: BTreeSet::new(),
            consumed: Vec::new(),
            webhook: None,
            redefined: false,
            steps: Vec::new(),
            violations: Vec::new(),
        };
        sequence.define_own();
        for step in &plan.steps {
            sequence.step(step);
        }
        sequence.settle_all();
        sequence.try_all_tokens();
        sequence
    }

    fn define_own(&mut self) {
        if self.flow == self.plan.shape.name() {
            return;
        }
        let (world, url) = (self.world, &self.world.ledger.url);
        let call = match self.plan.shape.definition(&self.flow, url) {
            Some(flow) => Call::of("putWorkflow").at("workflowId", &*self.flow).body(flow),
            None => Call::of("putAgent").at("agentId", &*self.flow).body(clerk(&self.flow, url, "ask")),
        };
        let put = world.call(&world.admin, &call);
        assert_eq!(put.status, 201, "{put:?}");
    }

    fn step(&mut self, step: &Step) {
        if step.kind != StepKind::Start && self.runs.is_empty() {
            return;
        }
        match step.kind {
            StepKind::Start => self.start(step),
            StepKind::Vote => self.vote(step),
            StepKind::VoteAndFork => self.vote_and_fork(step),
            StepKind::Fork => self.fork(step),
            StepKind::Pause | StepKind::Resume => self.pause_or_resume(step),
            StepKind::Cancel => self.cancel(step),
            StepKind::Answer => self.attack_answer(step),
            StepKind::Redefine => self.redefine(step),
            StepKind::Consume => self.consume(step),
            StepKind::Message => self.send_message(step),
            StepKind::Webhook => self.register_webhook(step),
            StepKind::Probe => self.probe(step),
            StepKind::Settle => self.settle(step),
        }
    }

    /// Sends a request as a step of the sequence. A 2xx of an operation that is denied to attackers is a violation.
    pub(crate) fn send(&mut self, who: &Caller, call: &Call) -> Response {
        let answer = self.world.call(who, call);
        self.record_step(who, call, &answer);
        answer
    }

    pub(crate) fn record_step(&mut self, who: &Caller, call: &Call, answer: &Response) {
        // A token is long; its id identifies it.
        let shown = |(place, value): &(&str, String)| match *place {
            "token" => link_credential(value),
            _ => value.clone(),
        };
        let places: Vec<String> = call.places.iter().map(shown).collect();
        let body = call.body.as_ref().map(Value::to_string).unwrap_or_default();
        let text = format!(
            "{}: {} {}{} {body} -> {} {}",
            who.label(),
            call.operation,
            places.join(" "),
            call.query,
            answer.status,
            answer.code()
        );
        if who.side == Side::Attacker && class(call.operation) == Class::Denied && succeeded(answer) {
            self.violations.push(format!("an attacker got {} from {}", answer.status, call.operation));
        }
        self.steps.push(text);
    }

    pub(crate) fn run(&self, step: &Step) -> Run {
        self.runs[step.run % self.runs.len()].clone()
    }

    pub(crate) fn add_run(&mut self, id: &str, requesters: BTreeSet<String>) -> &mut Run {
        if let Some(at) = self.runs.iter().position(|run| run.id == id) {
            return &mut self.runs[at];
        }
        let (id, thread) = (id.to_owned(), id.to_owned());
        self.runs.push(Run { id, requesters, parent: None, thread, state_key: None });
        self.runs.last_mut().unwrap()
    }

    fn start(&mut self, step: &Step) {
        if self.redefined || self.runs.len() >= RUNS_MAX {
            return;
        }
        let world = self.world;
        let who = match step.who % 7 {
            5 => &world.requester,
            6 => &world.approvers[2],
            at => &world.attackers[at],
        };
        let payment = self.payment();
        let (thread, message) = (format!("{}-{}", self.marker, self.runs.len()), &self.marker);
        let messages = json!([{"id": "m1", "role": "user", "content": message}]);
        let ag_ui = json!({"threadId": thread, "runId": "r", "messages": messages, "forwardedProps": {"inputs": {"payment": payment}}});
        let (call, id) = match (self.plan.shape.name(), step.way % 8) {
            ("holdpoint-hold", _) => {
                let body = json!({"title": "Pay?", "data": payment, "tags": [self.marker]});
                (Call::of("createHold").body(body), "/holdId")
            }
            (_, 7) => (Call::of("runAgent").at("agentId", &*self.flow).body(ag_ui), ""),
            ("clerk", _) => {
                let body = json!({"threadId": thread, "message": message, "tags": [self.marker]});
                (Call::of("startAgent").at("agentId", &*self.flow).body(body), "/runId")
            }
            (_, 6) => {
                let input = json!({ "payment": payment });
                let body = json!({"graph": format!("native:{}", self.flow), "stateKey": thread, "input": input, "waitMs": 5000});
                (Call::of("chat").body(body), "/interrupt/data/artifactId")
            }
            (_, way) => {
                let mut body =
                    json!({"workflowId": self.flow, "inputs": {"payment": payment}, "tags": [self.marker]});
                // The callback gets a link that acts for the approver. It may answer if requesters may.
                if way % 2 == 1 && (who.side != Side::Approver || self.plan.shape.excludes_requesters()) {
                    body["callbackUrl"] = json!(format!("{}/attacker", world.ledger.url));
                }
                (Call::of("createRun").body(body), "/runId")
            }
        };
        let answer = self.send(who, &call);
        let found = match call.operation {
            "runAgent" => first_interrupt(&answer.body).map(|id| id.rsplit_once(':').unwrap().0.to_owned()),
            "chat" => answer
                .body
                .pointer(id)
                .and_then(Value::as_str)
                .map(|id| id.rsplit_once(':').unwrap().0.to_owned()),
            _ => answer.body.pointer(id).and_then(Value::as_str).map(str::to_owned),
        };
        let Some(found) = found.filter(|_| succeeded(&answer)) else {
            panic!("cannot start: {:?}", self.steps.last());
        };
        let run = self.add_run(&found, BTreeSet::from([who.principal.clone()]));
        match call.operation {
            "runAgent" | "startAgent" => run.thread = thread,
            "chat" => run.state_key = Some(thread),
            _ => {}
        }
    }

    /// Returns the payload of every call of this sequence.
    pub(crate) fn payment(&self) -> Value {
        let mut payment = json!({"to": "supplier", "amount": 100, "marker": self.marker});
        if self.plan.flaky {
            payment["flaky"] = json!(true);
        }
        payment
    }

    pub(crate) fn fork(&mut self, step: &Step) {
        let Some((who, call)) = self.fork_call(step) else { return };
        let answer = self.send(who, &call);
        self.add_copy(step, who, &answer);
    }

    /// Returns the next fork: by an attacker with the permission, a requester or an approver, from a random event.
    pub(crate) fn fork_call(&self, step: &Step) -> Option<(&'w Caller, Call)> {
        if self.runs.len() >= RUNS_MAX {
            return None;
        }
        let who = match step.who % 6 {
            4 => &self.world.requester,
            5 => &self.world.approvers[2],
            at => &self.world.attackers[at + 1],
        };
        let run = self.run(step);
        let from = step.more % (self.log(&run.id).len() + 1);
        let body = match step.way % 3 {
            0 => json!({"mode": "replay", "fromSeq": from}),
            1 => json!({"mode": "replay"}),
            _ if step.way.is_multiple_of(4) => {
                let overlay =
                    json!({"configurable": {"payment": {"to": "mallory"}}, "metadata": {"approved": true}});
                json!({"mode": "branch", "fromSeq": from, "runOptionsOverlay": overlay})
            }
            _ => json!({"mode": "branch", "fromSeq": from}),
        };
        Some((who, Call::of("forkRun").at("runId", run.id).body(body)))
    }

    pub(crate) fn add_copy(&mut self, step: &Step, who: &Caller, answer: &Response) {
        if let Some(copy) = answer.body["runId"].as_str().filter(|_| answer.status == 201) {
            let mut requesters = self.run(step).requesters;
            requesters.insert(who.principal.clone());
            self.add_run(copy, requesters);
            let copied = format!(" = {copy}");
            self.steps.last_mut().unwrap().push_str(&copied);
        }
    }

    fn pause_or_resume(&mut self, step: &Step) {
        let who = &self.world.attackers[2 + step.who % 3];
        let operation = if step.kind == StepKind::Pause { "pauseRun" } else { "resumeRun" };
        let mut call = Call::of(operation).at("runId", self.run(step).id);
        if step.kind == StepKind::Pause {
            let policy = if step.way.is_multiple_of(2) { "immediate" } else { "drain-current-node" };
            call = call.body(json!({ "drainPolicy": policy }));
        }
        self.send(who, &call);
    }

    fn cancel(&mut self, step: &Step) {
        let run = self.run(step);
        let call = match step.way % 6 {
            0 | 1 => Call::of("cancelRun").at("runId", run.id),
            2 => Call::of("bulkCancel").body(json!({"runIds": [run.id]})),
            3 => Call::of("cancelThread").at("threadId", run.thread).body(json!({})),
            4 => Call::of("interruptThread").at("threadId", run.thread).body(json!({})),
            _ => match run.state_key {
                Some(key) => Call::of("cancelChat").at("stateKey", key),
                None => Call::of("cancelHold").at("holdId", run.id),
            },
        };
        self.send(&self.world.attackers[2 + step.who % 3], &call);
    }
}

/// Returns true if a request succeeded. An AG-UI stream reports a refusal in its events.
pub(crate) fn succeeded(answer: &Response) -> bool {
    (200..300).contains(&answer.status)
        && !answer.body.as_str().is_some_and(|text| text.contains("RUN_ERROR"))
}

/// Returns the id of the first interrupt at the end of an AG-UI stream.
fn first_interrupt(stream: &Value) -> Option<String> {
    let frames = stream.as_str()?.split("\n\n").filter_map(|frame| frame.strip_prefix("data: "));
    let mut events = frames.filter_map(|frame| serde_json::from_str::<Value>(frame).ok());
    let end = events.find(|event| event["type"] == "RUN_FINISHED")?;
    Some(end["outcome"]["interrupts"][0]["id"].as_str()?.to_owned())
}
