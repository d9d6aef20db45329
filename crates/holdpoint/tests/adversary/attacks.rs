//! Attackers answer without permission, use foreign tokens, replace definitions, consume grants, send messages to
//! agents, register webhooks and call every other operation.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::flows::{Shape, clerk};
use crate::plan::Step;
use crate::routes::{Class, OPERATIONS};
use crate::sequence::{Consumption, Run, Sequence, succeeded};
use crate::world::{Call, Caller};

/// Operations with their own kind of step, because they start runs or are harmless only in some sequences.
const NOT_PROBED: [&str; 12] = [
    "createRun",
    "forkRun",
    "startAgent",
    "createHold",
    "chat",
    "runAgent",
    "tellRun",
    "sayInThread",
    "putWorkflow",
    "putAgent",
    "consumeGrant",
    "createWebhook",
];

impl<'w> Sequence<'w> {
    fn attacker(&self, step: &Step) -> &'w Caller {
        &self.world.attackers[step.who % self.world.attackers.len()]
    }

    /// Tries to answer as an attacker that knows every id of a run.
    pub(crate) fn attack_answer(&mut self, step: &Step) {
        let (who, run) = (self.attacker(step), self.run(step));
        let asked = self.interrupts(&run.id);
        let Some(asked) = asked.get(step.more % asked.len().max(1)) else { return };
        let id = asked["interruptId"].as_str().unwrap();
        let node = asked["nodeId"].as_str().unwrap();
        let value = json!({"action": "accept", "decision": "granted", "decidedBy": "ann", "voter": "ann"});
        let value = if step.more.is_multiple_of(2) { json!({"action": "accept"}) } else { value };
        let at_node = |operation| Call::of(operation).at("runId", &*run.id).at("nodeId", node);
        let decision = json!({"toolCallId": asked["data"]["artifactId"], "action": "resume"});
        let call = match step.way % 9 {
            0 => at_node("resolveInterrupt").body(json!({"resumeValue": value, "interruptId": id})),
            1 => at_node("resolveApproval").body(value),
            2 => at_node("mintToken").body(json!({"interruptId": id, "for": "ann"})),
            3 => Call::of("decideCall").at("runId", &*run.id).body(decision),
            4 => Call::of("decideInThread").at("threadId", &*run.thread).body(decision),
            5 => {
                let payload = json!({"approved": true});
                let entry = json!({"interruptId": id, "status": "resolved", "payload": payload});
                let input = json!({"threadId": run.thread, "runId": "r3", "messages": [], "resume": [entry]});
                Call::of("runAgent").at("agentId", &*self.flow).body(input)
            }
            6 => {
                let key = run.state_key.clone().unwrap_or_else(|| run.id.clone());
                let body = json!({"stateKey": key, "resumeId": "m", "resumeValue": value, "waitMs": 100});
                Call::of("chat").body(body)
            }
            _ => {
                let Some(token) = self.stolen_token(step, &run, node, id) else { return };
                Call::of("resolveByToken").at("token", token).body(json!({ "resumeValue": value }))
            }
        };
        let answer = self.send(who, &call);
        if ["runAgent", "chat"].contains(&call.operation) && succeeded(&answer) {
            self.violations.push(format!("an attacker resumed a run with {}", call.operation));
        }
    }

    /// Returns a token that must not answer: read-only, altered, from a callback, or from a snapshot that the attacker
    /// read.
    fn stolen_token(&mut self, step: &Step, run: &Run, node: &str, id: &str) -> Option<String> {
        let ann = &self.world.approvers[0];
        let mint = |intent: &str| {
            let wanted = json!({"interruptId": id, "intent": intent});
            Call::of("mintToken").at("runId", &*run.id).at("nodeId", node).body(wanted)
        };
        match step.more / 9 % 4 {
            0 => Some(self.send(ann, &mint("inspect")).body["token"].as_str()?.to_owned()),
            1 => {
                let mut token =
                    self.send(ann, &mint("resolve")).body["token"].as_str()?.to_owned().into_bytes();
                let at = step.more % token.len();
                token[at] = if token[at] == b'A' { b'B' } else { b'A' };
                String::from_utf8(token).ok()
            }
            2 => self.world.ledger.tokens(&run.id).pop(),
            _ => {
                let shown =
                    self.world.call(self.attacker(step), &Call::of("getRun").at("runId", &*run.id)).body;
                Some(shown["interrupt"]["interruptToken"].as_str()?.to_owned())
            }
        }
    }

    /// Tries every token that was sent to the attacker for a run of this sequence.
    pub(crate) fn try_all_tokens(&mut self) {
        let tokens: Vec<String> =
            self.runs.iter().flat_map(|run| self.world.ledger.tokens(&run.id)).take(4).collect();
        for token in tokens {
            let call = Call::of("resolveByToken").at("token", token);
            self.send(self.world.anonymous(), &call.body(json!({"resumeValue": {"action": "accept"}})));
        }
        if let Some(webhook) = self.webhook.take() {
            self.send(&self.world.attackers[4], &Call::of("deleteWebhook").at("webhookId", webhook));
        }
    }

    pub(crate) fn redefine(&mut self, step: &Step) {
        if self.flow == self.plan.shape.name() {
            return;
        }
        let url = &self.world.ledger.url;
        let call = if self.plan.shape.is_workflow() {
            let forged = self.plan.shape.forged(&self.flow, url, step.way);
            Call::of("putWorkflow").at("workflowId", &*self.flow).body(forged)
        } else {
            let forged = clerk(&self.flow, &format!("{url}/forged"), "allow");
            Call::of("putAgent").at("agentId", &*self.flow).body(forged)
        };
        let answer = self.send(&self.world.attackers[3 + step.who % 3], &call);
        self.redefined |= succeeded(&answer);
    }

    /// Consumes a grant as a client does for an effect outside Holdpoint.
    pub(crate) fn consume(&mut self, step: &Step) {
        let run = self.run(step);
        let asked = self.interrupts(&run.id).len();
        let grant = format!("{}:i{}", run.id, 1 + step.more / 4 % asked.max(1));
        let world = self.world;
        let shown = world.call(&world.admin, &Call::of("getGrant").at("grantId", &*grant)).body;
        let digest = match step.way % 4 {
            0 => shown["shownDigest"].clone(),
            1 => json!("sha256:00"),
            _ => shown["digest"].clone(),
        };
        let bogus = digest == "sha256:00";
        let digest = if digest.is_string() { digest } else { json!("sha256:11") };
        let who = if step.who.is_multiple_of(2) { &world.requester } else { &world.attackers[step.who % 5] };
        let key = format!("{}-{}", self.marker, step.more / 2 % 2);
        let mut call = Call::of("consumeGrant").at("grantId", &*grant).body(json!({ "digest": digest }));
        call.key = Some(key.clone());
        let answer = self.send(who, &call);
        if succeeded(&answer) {
            let grant = answer.body["grantId"].as_str().unwrap_or_default().to_owned();
            self.consumed.push(Consumption { grant, by: who.principal.clone(), key, bogus });
        }
    }

    pub(crate) fn send_message(&mut self, step: &Step) {
        if !matches!(self.plan.shape, Shape::Agent | Shape::GatedAgent) || self.redefined {
            return;
        }
        let run = self.run(step);
        let who = match step.who % 6 {
            5 => &self.world.approvers[2],
            at => &self.world.attackers[at],
        };
        let message = format!("{} and more", self.marker);
        let mode = ["queue", "steer", "interrupt_then_queue", "resume_open_run"][step.more % 4];
        let call = match step.way % 2 {
            0 => Call::of("tellRun").at("runId", &*run.id).body(json!({ "message": message })),
            _ => {
                let body = json!({"message": message, "mode": mode});
                Call::of("sayInThread").at("threadId", &*run.thread).body(body)
            }
        };
        let answer = self.send(who, &call);
        if let Some(continued) = answer.body["runId"].as_str().filter(|_| succeeded(&answer)) {
            let known = self.add_run(continued, BTreeSet::new());
            known.requesters.insert(who.principal.clone());
            known.thread = run.thread;
        }
    }

    pub(crate) fn register_webhook(&mut self, step: &Step) {
        let who = &self.world.attackers[if step.who.is_multiple_of(4) { step.who % 6 } else { 4 }];
        let events = ["interrupt.requested", "approval.requested", "interrupt.resolved", "node.suspended"];
        let url = format!("{}/attacker", self.world.ledger.url);
        let body = json!({"url": url, "events": events, "tags": [self.marker]});
        let answer = self.send(who, &Call::of("createWebhook").body(body));
        if let Some(webhook) = answer.body["webhookId"].as_str() {
            self.webhook = Some(webhook.to_owned());
        }
    }

    /// Calls one of the other operations with ids of this sequence.
    pub(crate) fn probe(&mut self, step: &Step) {
        let probed = |(id, class): &&(&'static str, Class)| {
            !matches!(class, Class::Skipped(_)) && !NOT_PROBED.contains(id)
        };
        let operations: Vec<&str> = OPERATIONS.iter().filter(probed).map(|(id, _)| *id).collect();
        let operation = operations[step.more % operations.len()];
        let run = self.run(step);
        let mut call = self.fill_path(Call::of(operation), &run);
        call.body = self.body_of(operation, &run);
        if operation == "pollEvents" {
            call.query = "?timeout=1".to_owned();
        }
        self.send(self.attacker(step), &call);
    }

    fn fill_path(&self, call: Call, run: &Run) -> Call {
        let node = match self.plan.shape {
            Shape::Agent => "agent",
            Shape::Hold => "hold",
            _ => "gate",
        };
        let tokens = self.world.ledger.tokens(&run.id);
        let dispatch = || {
            let call = Call::of("listDispatches").at("threadId", &*run.thread);
            let queue = self.world.call(&self.world.admin, &call).body;
            queue["dispatches"][0]["dispatchId"].as_str().unwrap_or("none").to_owned()
        };
        let dispatch = if call.operation.contains("Dispatch") { dispatch() } else { String::new() };
        call.at("runId", &*run.id)
            .at("nodeId", node)
            .at("askId", "1")
            .at("artifactId", format!("{}:{node}", run.id))
            .at("threadId", &*run.thread)
            .at("dispatchId", dispatch)
            .at("workflowId", &*self.flow)
            .at("agentId", &*self.flow)
            .at("stateKey", run.state_key.clone().unwrap_or_else(|| run.id.clone()))
            .at("holdId", &*run.id)
            .at("grantId", format!("{}:i1", run.id))
            .at("keyId", self.world.key_of_approver())
            .at("sessionId", self.world.session_of_approver())
            .at("webhookId", self.webhook.clone().unwrap_or_else(|| "none".to_owned()))
            .at("deliveryId", "none")
            .at("triggerId", "none")
            .at("token", tokens.last().cloned().unwrap_or_else(|| "none".to_owned()))
    }

    fn body_of(&self, operation: &str, run: &Run) -> Option<Value> {
        let accept = json!({"action": "accept"});
        Some(match operation {
            "resolveInterrupt" | "resolveByToken" => json!({ "resumeValue": accept }),
            "resolveApproval" => accept,
            "decideCall" | "decideInThread" => json!({"toolCallId": "c1", "action": "resume"}),
            "createKey" => json!({"principal": "ann", "scopes": ["approvals:respond"]}),
            "createSession" => json!({"key": "hp_none"}),
            "createSessionLink" => json!({"keyId": self.world.key_of_approver()}),
            "bulkCancel" => json!({"runIds": [run.id]}),
            "answerAsk" => json!({"answer": "Because."}),
            "sendEvent" => json!({"eventType": "approval", "eventId": self.marker, "payload": accept}),
            "replayDeliveries" => json!({"from": "2020-01-01T00:00:00Z", "to": "2099-01-01T00:00:00Z"}),
            "rotateKey" | "rotateSecrets" | "rotateWebhook" | "mintToken" | "cancelThread"
            | "interruptThread" => json!({}),
            _ => return None,
        })
    }
}
