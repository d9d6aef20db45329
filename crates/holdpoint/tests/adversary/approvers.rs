//! Approvers read an open interrupt and answer it on one of several routes. Some of them try to approve runs that they
//! started themselves, and some send unknown members.

use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::harness::Response;
use crate::plan::Step;
use crate::sequence::{Run, Sequence, Vote, succeeded};
use crate::world::{Call, Caller};

/// An open interrupt as an approver sees it, and the answer to it.
struct Ballot {
    run: Run,
    node: String,
    interrupt: String,
    data: Value,
    digest: Value,
    value: Value,
    /// The payload that the approver agrees to; `None` if the answer does not approve.
    agreed: Option<Value>,
}

impl<'w> Sequence<'w> {
    pub(crate) fn vote(&mut self, step: &Step) {
        let who = self.approver(step);
        let Some(ballot) = self.ballot(step, who) else { return };
        let Some(call) = self.ballot_call(step, who, &ballot) else { return };
        // A link needs no credential.
        let sender = if call.operation == "resolveByToken" { self.world.anonymous() } else { who };
        let answer = self.world.call(sender, &call);
        self.record_step(who, &call, &answer);
        self.record(who, &ballot, &answer);
    }

    /// Answers as an approver while another principal forks the run.
    pub(crate) fn vote_and_fork(&mut self, step: &Step) {
        let who = self.approver(step);
        let Some(ballot) = self.ballot(step, who) else { return };
        let Some((forker, fork)) = self.fork_call(step) else { return };
        let (world, vote) = (self.world, direct_answer(&ballot));
        let (voted, forked) = std::thread::scope(|scope| {
            let voted = scope.spawn(|| world.call(who, &vote));
            let forked = world.call(forker, &fork);
            (voted.join().unwrap(), forked)
        });
        self.record_step(who, &vote, &voted);
        self.record(who, &ballot, &voted);
        self.record_step(forker, &fork, &forked);
        self.add_copy(step, forker, &forked);
    }

    fn approver(&self, step: &Step) -> &'w Caller {
        &self.world.approvers[step.who % self.world.approvers.len()]
    }

    /// Reads an open interrupt of the run and chooses an answer.
    fn ballot(&self, step: &Step, who: &Caller) -> Option<Ballot> {
        let run = self.run(step);
        let shown = self.world.call(who, &Call::of("listInterrupts").at("runId", &*run.id)).body;
        let open = shown["interrupts"].as_array()?.iter().filter(|one| one["status"] == "open");
        let open: Vec<&Value> = open.filter(|one| one["kind"] == "approval").collect();
        let asked = open.get(step.more % open.len().max(1))?;
        let text = |name: &str| asked[name].as_str().unwrap().to_owned();
        let data = asked["data"].clone();
        let (value, agreed) = self.choice(step, &data);
        let digest = asked["digest"].clone();
        Some(Ballot {
            run,
            node: text("nodeId"),
            interrupt: text("interruptId"),
            data,
            digest,
            value,
            agreed,
        })
    }

    /// Returns an answer, mostly an approval, and the payload that it approves.
    fn choice(&self, step: &Step, data: &Value) -> (Value, Option<Value>) {
        let artifact = &data["artifactData"];
        let is_call = data["artifactType"] == "tool.call";
        let shown = if is_call { &artifact["arguments"] } else { artifact };
        let offers =
            |action: &str| data["actions"].as_array().is_some_and(|all| all.contains(&json!(action)));
        let is_governed = data.get("requiredRole").is_some();
        let (mut value, agreed) = match step.more / 64 % 12 {
            0 if is_governed => (json!({"decision": "rejected", "reason": "no"}), None),
            0 => (json!({"action": "reject"}), None),
            1 if offers("ask") => (json!({"action": "ask", "question": "Why?"}), None),
            2 if offers("edit-accept") => {
                let mut edited = shown.clone();
                edited["to"] = json!("edited");
                let sent = if is_call { json!({ "arguments": edited }) } else { edited.clone() };
                (json!({"action": "edit-accept", "editedArtifactData": sent}), Some(edited))
            }
            _ if is_governed => (json!({"decision": "granted"}), Some(shown.clone())),
            _ => (json!({"action": "accept"}), Some(shown.clone())),
        };
        if (step.way / 8).is_multiple_of(3) {
            let forged = json!({"to": "mallory", "amount": 1_000_000, "marker": self.marker});
            value["payment"] = forged.clone();
            value["arguments"] = forged.clone();
            value["variables"] = json!({"payment": forged});
            value["amount"] = json!(7);
        }
        (value, agreed)
    }

    /// Builds the request that answers, on one of several routes. Returns `None` if the route needs a link and there is
    /// none.
    fn ballot_call(&mut self, step: &Step, who: &Caller, ballot: &Ballot) -> Option<Call> {
        let run = &ballot.run;
        match step.way % 8 {
            1 => {
                let mut call = Call::of("resolveApproval").at("runId", &*run.id).at("nodeId", &*ballot.node);
                call.query = format!("?interruptId={}", ballot.interrupt);
                Some(call.body(ballot.value.clone()))
            }
            2 => {
                let wanted = json!({"interruptId": ballot.interrupt});
                let mint =
                    Call::of("mintToken").at("runId", &*run.id).at("nodeId", &*ballot.node).body(wanted);
                let minted = self.send(who, &mint);
                let token = minted.body["token"].as_str()?.to_owned();
                Some(self.by_link(&token, ballot))
            }
            3 => {
                let shown = self.world.call(who, &Call::of("getRun").at("runId", &*run.id)).body;
                let interrupt = &shown["interrupt"];
                let token = interrupt["interruptToken"].as_str()?.to_owned();
                (interrupt["interruptId"] == *ballot.interrupt).then(|| self.by_link(&token, ballot))
            }
            // A paused run would keep the stream open.
            4 if self.snapshot(&run.id)["status"] != "paused" => {
                let own = format!("{}:{}", run.id, ballot.interrupt.rsplit_once(':')?.1);
                let approved = ballot.agreed.is_some();
                let mut payload = json!({"approved": approved, "payment": {"to": "mallory"}});
                if ballot.value["action"] == "edit-accept" {
                    payload = ballot.value.clone();
                }
                let entry = json!({"interruptId": own, "status": "resolved", "payload": payload});
                let input = json!({"threadId": run.thread, "runId": "r2", "messages": [], "resume": [entry]});
                Some(Call::of("runAgent").at("agentId", &*self.flow).body(input))
            }
            5 if run.state_key.is_some() => {
                let key = run.state_key.clone()?;
                let resume = format!("{}-{}", who.principal, step.more);
                let body =
                    json!({"stateKey": key, "resumeId": resume, "resumeValue": ballot.value, "waitMs": 200});
                Some(Call::of("chat").body(body))
            }
            6 if ballot.data["artifactType"] == "tool.call" => {
                let call = ballot.data["artifactId"].as_str()?;
                let action = if ballot.agreed.is_some() { "resume" } else { "cancel" };
                let mut body = json!({"toolCallId": call, "action": action});
                if ballot.value["action"] == "edit-accept" {
                    body["result"] = ballot.value["editedArtifactData"].clone();
                }
                Some(Call::of("decideCall").at("runId", &*run.id).body(body))
            }
            _ => Some(direct_answer(ballot)),
        }
    }

    fn by_link(&mut self, token: &str, ballot: &Ballot) -> Call {
        self.links.insert(link_credential(token));
        let body = json!({"resumeValue": ballot.value, "digest": ballot.digest});
        Call::of("resolveByToken").at("token", token).body(body)
    }

    /// Records the payload that the approver agreed to, unless the answer was refused.
    fn record(&mut self, who: &Caller, ballot: &Ballot, answer: &Response) {
        // A stream may report that the run failed after the answer was accepted.
        let is_stream = answer.status == 200 && answer.body.is_string();
        let Some(agreed) = ballot.agreed.clone().filter(|_| succeeded(answer) || is_stream) else { return };
        let (run, interrupt, voter) =
            (ballot.run.id.clone(), ballot.interrupt.clone(), who.principal.clone());
        let excluded = self.plan.shape.excludes_requesters() && ballot.run.requesters.contains(&voter);
        if excluded && succeeded(answer) {
            self.violations.push(format!("{voter} is a requester of {run} and its approval was accepted"));
        }
        self.votes.push(Vote { run, interrupt, voter, agreed, excluded });
    }
}

/// Returns the request that answers with the digest of the payload that was shown.
fn direct_answer(ballot: &Ballot) -> Call {
    let body = json!({"resumeValue": ballot.value, "digest": ballot.digest, "interruptId": ballot.interrupt});
    Call::of("resolveInterrupt").at("runId", &*ballot.run.id).at("nodeId", &*ballot.node).body(body)
}

/// Returns the id of the link of this token, as `via` shows it.
pub(crate) fn link_credential(token: &str) -> String {
    let digest = Sha256::digest(token.as_bytes());
    let hex: String = digest.iter().take(8).map(|byte| format!("{byte:02x}")).collect();
    format!("link:lnk_{hex}")
}
