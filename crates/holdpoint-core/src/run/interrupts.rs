//! Folds the events of interrupts: requests, votes, side questions, denials and resolutions.

use std::sync::Arc;

use serde_json::{Value, json};

use super::Run;
use crate::event::Event;
use crate::interrupt::{
    AudienceRule, CompiledSchemas, Interrupt, Kind, Resolution, SideQuestion, SideQuestionAnswer,
    UndecidedAnswer, Vote,
};
use crate::{InterruptId, NodeId, Timestamp};

impl Run {
    /// Adds an open interrupt.
    pub(super) fn add_interrupt(&mut self, event: &Event, at: Timestamp) {
        let Event::InterruptRequested { id, node, kind, key, data, resume_schema, timeout_ms, digest } =
            event
        else {
            return;
        };
        if *kind == Kind::ConversationExchange {
            self.count_turn(data);
        }
        self.open_low_confidence(node, *kind, *id);
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
            side_questions: Vec::new(),
            undecided_answer: None,
            resolution: None,
            taken_over: false,
            uses: Vec::new(),
            audience: self.audience_rule(),
            compiled: CompiledSchemas::default(),
        }));
    }

    /// Returns the effect of `audience` in this run. Runs that do not record their engine version keep the older rule.
    fn audience_rule(&self) -> AudienceRule {
        let version = self.started.as_ref().and_then(|started| started.engine_version);
        if version.is_some() { AudienceRule::Informs } else { AudienceRule::Restricts }
    }

    /// Folds the events before a decision: votes, side questions and denials.
    pub(super) fn apply_approver_event(&mut self, event: &Event, at: Timestamp) {
        if let Event::VoteCast { interrupt, value, by, decision, copied, via, client_metadata } = event {
            let copied = *copied || self.is_copied(at);
            let (by, value, decision, via) = (by.clone(), value.clone(), decision.clone(), via.clone());
            let client_metadata = client_metadata.clone();
            let vote = Vote { by, value, at, decision, copied, via, client_metadata };
            self.update_interrupt(*interrupt, |asked| {
                asked.votes.push(vote);
                asked.undecided_answer = Some(UndecidedAnswer::Voted);
            });
        } else if let Event::VoteRepeated { interrupt, .. } = event {
            self.update_interrupt(*interrupt, |asked| {
                asked.repeated = asked.repeated.saturating_add(1);
                asked.undecided_answer = Some(UndecidedAnswer::Repeated);
            });
        } else if let Event::AuthorizationDecided { interrupt, allowed: false, .. } = event {
            self.update_interrupt(*interrupt, |asked| asked.denied = asked.denied.saturating_add(1));
        } else if let Event::AskRaised { interrupt, ask, question, by, acted_by, via } = event {
            let undecided = Some(UndecidedAnswer::Asked(*ask));
            let (question, by, acted_by) = (question.clone(), by.clone(), acted_by.clone());
            let ask = SideQuestion { id: *ask, question, by, acted_by, via: via.clone(), at, answer: None };
            self.update_interrupt(*interrupt, |asked| {
                asked.side_questions.push(ask);
                asked.undecided_answer = undecided;
            });
            self.write_side_questions(*interrupt);
        } else if let Event::AskAnswered { interrupt, ask, answer, by } = event {
            let reply = SideQuestionAnswer { text: answer.clone(), by: by.clone(), at };
            self.update_interrupt(*interrupt, |asked| {
                if let Some(known) = asked.side_questions.iter_mut().find(|known| known.id == *ask) {
                    known.answer = Some(reply);
                }
            });
            self.write_side_questions(*interrupt);
        }
    }

    /// Closes an interrupt with an answer or a timeout.
    pub(super) fn close_interrupt(&mut self, id: InterruptId, event: &Event, at: Timestamp) {
        let resolution = Resolution::of(event, at);
        let taken_over = matches!(event, Event::InterruptResolved { copied: true, .. }) || self.is_copied(at);
        self.update_interrupt(id, |asked| {
            asked.taken_over = taken_over;
            if let Event::InterruptResolved { value, by, vote, via, client_metadata, .. } = event
                && asked.kind == Kind::Approval
                && asked.required_approvals() > 1
            {
                let (by, value, via) = (by.clone(), vote.as_ref().unwrap_or(value).clone(), via.clone());
                let client_metadata = client_metadata.clone();
                let decision = None;
                asked.votes.push(Vote { by, value, at, decision, copied: taken_over, via, client_metadata });
            }
            asked.resolution = Some(resolution);
            // A closed interrupt accepts no answers, so the compiled schemas are not needed.
            asked.compiled = CompiledSchemas::default();
        });
        self.resume_calls(id);
        self.close_low_confidence(id);
    }

    pub(super) fn update_interrupt(&mut self, id: InterruptId, change: impl FnOnce(&mut Interrupt)) {
        if let Some(interrupt) = self.interrupts.iter_mut().find(|interrupt| interrupt.id == id) {
            change(Arc::make_mut(interrupt));
        }
    }

    /// Writes the side questions of all visits of a node to a variable that nodes and clients can read.
    fn write_side_questions(&mut self, id: InterruptId) {
        let Some(node) = self.interrupt(id).map(|asked| asked.node.clone()) else { return };
        let asked = self.interrupts.iter().filter(|interrupt| interrupt.node == node);
        let exchanges = asked
            .flat_map(|interrupt| interrupt.side_questions.iter().map(|ask| exchange(interrupt.id, ask)));
        let exchanges = exchanges.collect();
        let name = side_questions_variable(&node);
        if !self.channels.contains(&name) {
            self.keep_variables_of_siblings(&node);
            self.set_variable(&name, &Value::Array(exchanges));
        }
    }
}

/// Returns the name of the variable with the side questions of a node.
fn side_questions_variable(node: &NodeId) -> String {
    format!("_askExchanges:{node}")
}

fn exchange(interrupt: InterruptId, ask: &SideQuestion) -> Value {
    let mut shown = json!({
        "interrupt": interrupt.to_string(), "id": ask.id, "question": ask.question, "askedBy": ask.by,
        "askedAt": ask.at.to_string(),
    });
    if let Some(reply) = &ask.answer {
        shown["answer"] = json!(reply.text);
        shown["answeredBy"] = json!(reply.by);
        shown["answeredAt"] = json!(reply.at.to_string());
    }
    shown
}
