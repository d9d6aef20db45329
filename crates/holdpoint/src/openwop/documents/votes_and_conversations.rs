//! Documents of votes, side questions, conversation turns and decisions of agents.

use std::borrow::Cow;

use holdpoint_api::payloads::{
    AgentDecided, AskAnswered, AskRaised, ConversationClosed, ConversationExchanged, ConversationOpened,
    EventPayload, VoteCast, VoteRepeated,
};
use holdpoint_core::{Event, Interrupt, InterruptId, NodeId, Resolution, Run, Via};
use holdpoint_engine::RecordedEvent;
use serde_json::Value;

use super::Description;
use super::interrupts::shown_metadata;

pub(super) fn describe<'a>(run: &'a Run, recorded: &'a RecordedEvent) -> Description<'a> {
    match &recorded.event {
        Event::VoteCast { interrupt, value, by, via, client_metadata, .. } => {
            let node = node_of(run, *interrupt);
            let payload = VoteCast {
                acted_by: value.get("actedBy").and_then(Value::as_str).map(Cow::Borrowed),
                action: value.get("action").map(Cow::Borrowed),
                client_metadata: shown_metadata(run, client_metadata),
                decided_at: value.get("decidedAt").map(Cow::Borrowed),
                decided_by: Cow::Borrowed(by),
                interrupt_id: run.interrupt_name(*interrupt),
                node_id: node.cloned(),
                via: via.clone(),
            };
            ("holdpoint.vote.cast", node, payload.into())
        }
        Event::VoteRepeated { interrupt, action, by, acted_by, via } => {
            let node = node_of(run, *interrupt);
            let payload = VoteRepeated {
                acted_by: acted_by.as_deref().map(Cow::Borrowed),
                action: Cow::Borrowed(action),
                decided_by: Cow::Borrowed(by),
                interrupt_id: run.interrupt_name(*interrupt),
                node_id: node.cloned(),
                via: via.clone(),
            };
            ("holdpoint.vote.repeated", node, payload.into())
        }
        Event::AskRaised { interrupt, ask, question, by, acted_by, via } => {
            let node = node_of(run, *interrupt);
            let payload = AskRaised {
                acted_by: acted_by.as_deref().map(Cow::Borrowed),
                ask_id: *ask,
                asked_by: Cow::Borrowed(by),
                interrupt_id: run.interrupt_name(*interrupt),
                node_id: node.cloned(),
                question: Cow::Borrowed(question),
                via: via.clone(),
            };
            ("holdpoint.ask.raised", node, payload.into())
        }
        Event::AskAnswered { interrupt, ask, answer, by } => {
            let node = node_of(run, *interrupt);
            let payload = AskAnswered {
                answer: Cow::Borrowed(answer),
                answered_by: Cow::Borrowed(by),
                ask_id: *ask,
                interrupt_id: run.interrupt_name(*interrupt),
                node_id: node.cloned(),
            };
            ("holdpoint.ask.answered", node, payload.into())
        }
        Event::AgentDecided { node, agent, decision, confidence, flaw, message } => {
            let payload = AgentDecided {
                agent_id: Cow::Borrowed(agent),
                confidence: *confidence,
                decision: Cow::Borrowed(decision),
                flaw: flaw.as_deref().map(Cow::Borrowed),
                message_id: message.as_deref().map(Cow::Borrowed),
                node_id: node.clone(),
                via: Via::agent(),
            };
            ("agent.decided", Some(node), payload.into())
        }
        _ => describe_conversation(run, recorded),
    }
}

fn describe_conversation<'a>(run: &'a Run, recorded: &'a RecordedEvent) -> Description<'a> {
    match &recorded.event {
        Event::ConversationOpened { interrupt, .. } => {
            let asked = run.interrupt(*interrupt);
            let payload = ConversationOpened {
                conversation_id: member(asked, "conversationId"),
                initial_prompt: member(asked, "initialPrompt"),
                opened_by: run.owner().map(|owner| Cow::Borrowed(&*owner.principal)),
                title: member(asked, "title"),
            };
            ("conversation.opened", node_of(run, *interrupt), payload.into())
        }
        Event::ConversationExchanged { interrupt } => {
            let asked = run.interrupt(*interrupt);
            let payload = ConversationExchanged {
                conversation_id: member(asked, "conversationId"),
                outcome: match asked.and_then(|asked| asked.resolution.as_ref()) {
                    Some(Resolution::Answered { value, .. }) => Some(Cow::Borrowed(value)),
                    Some(Resolution::TimedOut { .. }) | None => None,
                },
                turn_index: member(asked, "turnIndex"),
            };
            ("conversation.exchanged", node_of(run, *interrupt), payload.into())
        }
        Event::ConversationClosed { interrupt } => {
            let asked = run.interrupt(*interrupt);
            let id = member(asked, "conversationId");
            let known = id.as_deref().and_then(Value::as_str).and_then(|id| run.conversation(Some(id)));
            let payload = ConversationClosed {
                reason: member(asked, "reason"),
                turn_count: known.map(|known| known.turns),
                conversation_id: id,
            };
            ("conversation.closed", node_of(run, *interrupt), payload.into())
        }
        // Not reached: the caller passes only the events above.
        _ => ("", None, EventPayload::Other(Value::Null)),
    }
}

fn node_of(run: &Run, id: InterruptId) -> Option<&NodeId> {
    run.interrupt(id).map(|asked| &asked.node)
}

fn member<'a>(asked: Option<&'a Interrupt>, name: &str) -> Option<Cow<'a, Value>> {
    asked.and_then(|asked| asked.data.get(name)).map(Cow::Borrowed)
}
