//! Folds what is asked, what approvers say on the way to a decision, and the decision.

use std::sync::Arc;

use serde_json::{Value, json};

use super::Run;
use crate::event::Event;
use crate::interrupt::{Ask, AudienceRule, Compiled, Heard, Interrupt, Kind, Reply, Resolution, Vote};
use crate::{InterruptId, NodeId, Timestamp};

impl Run {
    pub(super) fn ask(&mut self, event: &Event, at: Timestamp) {
        let Event::InterruptRequested { id, node, kind, key, data, resume_schema, timeout_ms, digest } =
            event
        else {
            return;
        };
        if *kind == Kind::ConversationExchange {
            self.count_turn(data);
        }
        self.doubt(node, *kind, *id);
        let visit = self.node_state(node).map_or(1, |state| state.visit);
        self.interrupts.push(Arc::new(Interrupt {
            id: *id,
            node: node.clone(),
            visit,
            kind: *kind,
            key: key.clone(),
            data: data.clone(),
            resume_schema: resume_schema.clone(),
            timeout_ms: *timeout_ms,
            digest: digest.clone(),
            requested_at: at,
            counts_from: self.live_from(at),
            votes: Vec::new(),
            repeated: 0,
            denied: 0,
            asks: Vec::new(),
            heard: None,
            resolution: None,
            taken_over: false,
            uses: Vec::new(),
            audience: self.audience_rule(),
            compiled: Compiled::default(),
        }));
    }

    /// Returns the effect of `audience` in this run. Runs of versions that did not record theirs keep the older rule.
    fn audience_rule(&self) -> AudienceRule {
        let version = self.started.as_ref().and_then(|started| started.engine_version);
        if version.is_some() { AudienceRule::Informs } else { AudienceRule::Restricts }
    }

    /// Votes, questions and whoever was turned away: what comes before a decision.
    pub(super) fn hear_approver(&mut self, event: &Event, at: Timestamp) {
        if let Event::VoteCast { interrupt, value, by, decision, copied, via } = event {
            let copied = *copied || self.is_copied(at);
            let (by, value, decision, via) = (by.clone(), value.clone(), decision.clone(), via.clone());
            let vote = Vote { by, value, at, decision, copied, via };
            self.touch_interrupt(*interrupt, |asked| {
                asked.votes.push(vote);
                asked.heard = Some(Heard::Voted);
            });
        } else if let Event::VoteRepeated { interrupt, .. } = event {
            self.touch_interrupt(*interrupt, |asked| {
                asked.repeated = asked.repeated.saturating_add(1);
                asked.heard = Some(Heard::Repeated);
            });
        } else if let Event::AuthorizationDecided { interrupt, allowed: false, .. } = event {
            self.touch_interrupt(*interrupt, |asked| asked.denied = asked.denied.saturating_add(1));
        } else if let Event::AskRaised { interrupt, ask, question, by, acted_by, via } = event {
            let heard = Some(Heard::Asked(*ask));
            let (question, by, acted_by) = (question.clone(), by.clone(), acted_by.clone());
            let ask = Ask { id: *ask, question, by, acted_by, via: via.clone(), at, reply: None };
            self.touch_interrupt(*interrupt, |asked| {
                asked.asks.push(ask);
                asked.heard = heard;
            });
            self.show_asks(*interrupt);
        } else if let Event::AskAnswered { interrupt, ask, answer, by } = event {
            let reply = Reply { text: answer.clone(), by: by.clone(), at };
            self.touch_interrupt(*interrupt, |asked| {
                if let Some(known) = asked.asks.iter_mut().find(|known| known.id == *ask) {
                    known.reply = Some(reply);
                }
            });
            self.show_asks(*interrupt);
        }
    }

    pub(super) fn close(&mut self, id: InterruptId, event: &Event, at: Timestamp) {
        let resolution = Resolution::of(event, at);
        let taken_over = matches!(event, Event::InterruptResolved { copied: true, .. }) || self.is_copied(at);
        self.touch_interrupt(id, |asked| {
            asked.taken_over = taken_over;
            if let Event::InterruptResolved { value, by, vote, via, .. } = event
                && asked.kind == Kind::Approval
                && asked.required_approvals() > 1
            {
                let (by, value, via) = (by.clone(), vote.as_ref().unwrap_or(value).clone(), via.clone());
                asked.votes.push(Vote { by, value, at, decision: None, copied: taken_over, via });
            }
            asked.resolution = Some(resolution);
            // Nobody answers it any more.
            asked.compiled = Compiled::default();
        });
        self.release_calls(id);
        self.settle_doubt(id);
    }

    pub(super) fn touch_interrupt(&mut self, id: InterruptId, change: impl FnOnce(&mut Interrupt)) {
        if let Some(interrupt) = self.interrupts.iter_mut().find(|interrupt| interrupt.id == id) {
            change(Arc::make_mut(interrupt));
        }
    }

    /// Questions and answers of all visits of a node, where nodes and readers can see them.
    fn show_asks(&mut self, id: InterruptId) {
        let Some(node) = self.interrupt(id).map(|asked| asked.node.clone()) else { return };
        let asked = self.interrupts.iter().filter(|interrupt| interrupt.node == node);
        let exchanges =
            asked.flat_map(|interrupt| interrupt.asks.iter().map(|ask| exchange(interrupt.id, ask)));
        let exchanges = exchanges.collect();
        let name = asks_variable(&node);
        if !self.channels.contains(&name) {
            self.set_variable(&name, &Value::Array(exchanges));
        }
    }
}

/// The variable in which the questions of a node's approvers are kept.
fn asks_variable(node: &NodeId) -> String {
    format!("_askExchanges:{node}")
}

fn exchange(interrupt: InterruptId, ask: &Ask) -> Value {
    let mut shown = json!({
        "interrupt": interrupt.to_string(), "id": ask.id, "question": ask.question, "askedBy": ask.by,
        "askedAt": ask.at.to_string(),
    });
    if let Some(reply) = &ask.reply {
        shown["answer"] = json!(reply.text);
        shown["answeredBy"] = json!(reply.by);
        shown["answeredAt"] = json!(reply.at.to_string());
    }
    shown
}
