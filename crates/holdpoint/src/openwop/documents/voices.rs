//! Documents of what is said around questions: votes, questions of approvers, turns of conversations, decisions of
//! agents.

use holdpoint_core::{Event, InterruptId, NodeId, Run, Via};
use holdpoint_engine::Recorded;
use serde_json::{Value, json};

use super::Description;

pub(super) fn describe<'a>(run: &'a Run, recorded: &'a Recorded) -> Description<'a> {
    match &recorded.event {
        Event::VoteCast { interrupt, value, by, via, .. } => {
            let mut payload = of_interrupt(run, *interrupt);
            payload["action"] = json!(value.get("action"));
            payload["decidedBy"] = json!(by);
            payload["decidedAt"] = json!(value.get("decidedAt"));
            acted(&mut payload, value.get("actedBy").and_then(Value::as_str));
            put_via(&mut payload, via.as_ref());
            ("holdpoint.vote.cast", node_of(run, *interrupt), payload)
        }
        Event::VoteRepeated { interrupt, action, by, acted_by, via } => {
            let mut payload = of_interrupt(run, *interrupt);
            payload["action"] = json!(action);
            payload["decidedBy"] = json!(by);
            acted(&mut payload, acted_by.as_deref());
            put_via(&mut payload, via.as_ref());
            ("holdpoint.vote.repeated", node_of(run, *interrupt), payload)
        }
        Event::AskRaised { interrupt, ask, question, by, acted_by, via } => {
            let mut payload = of_interrupt(run, *interrupt);
            payload["askId"] = json!(ask);
            payload["question"] = json!(question);
            payload["askedBy"] = json!(by);
            acted(&mut payload, acted_by.as_deref());
            put_via(&mut payload, via.as_ref());
            ("holdpoint.ask.raised", node_of(run, *interrupt), payload)
        }
        Event::AskAnswered { interrupt, ask, answer, by } => {
            let mut payload = of_interrupt(run, *interrupt);
            payload["askId"] = json!(ask);
            payload["answer"] = json!(answer);
            payload["answeredBy"] = json!(by);
            ("holdpoint.ask.answered", node_of(run, *interrupt), payload)
        }
        Event::AgentDecided { node, agent, decision, confidence, flaw, message } => {
            let mut payload =
                json!({"nodeId": node, "agentId": agent, "decision": decision, "via": Via::agent()});
            if let Some(confidence) = confidence {
                payload["confidence"] = json!(confidence);
            }
            if let Some(flaw) = flaw {
                payload["flaw"] = json!(flaw);
            }
            if let Some(message) = message {
                payload["messageId"] = json!(message);
            }
            ("agent.decided", Some(node), payload)
        }
        _ => of_conversation(run, recorded),
    }
}

/// Adds the credential of a decision, if it is known. Decisions of older versions have none.
pub(super) fn put_via(payload: &mut Value, via: Option<&Via>) {
    if let Some(via) = via {
        payload["via"] = json!(via);
    }
}

fn of_conversation<'a>(run: &'a Run, recorded: &'a Recorded) -> Description<'a> {
    match &recorded.event {
        Event::ConversationOpened { interrupt, .. } => {
            let mut payload = conversation(run, *interrupt, &["title", "initialPrompt"]);
            payload["openedBy"] = json!(run.owner().map(|owner| &owner.principal));
            ("conversation.opened", node_of(run, *interrupt), payload)
        }
        Event::ConversationExchanged { interrupt } => {
            let mut payload = conversation(run, *interrupt, &["turnIndex"]);
            let resolution = run.interrupt(*interrupt).and_then(|asked| asked.resolution.as_ref());
            if let Some(holdpoint_core::Resolution::Answered { value, .. }) = resolution {
                payload["outcome"] = value.clone();
            }
            ("conversation.exchanged", node_of(run, *interrupt), payload)
        }
        Event::ConversationClosed { interrupt } => {
            let mut payload = conversation(run, *interrupt, &["reason"]);
            let known = payload["conversationId"].as_str().and_then(|id| run.conversation(Some(id)));
            payload["turnCount"] = json!(known.map(|known| known.turns));
            ("conversation.closed", node_of(run, *interrupt), payload)
        }
        // The caller sends only those above.
        _ => ("", None, Value::Null),
    }
}

/// Who spoke, where it was for somebody else.
fn acted(payload: &mut Value, by: Option<&str>) {
    if let Some(by) = by {
        payload["actedBy"] = json!(by);
    }
}

fn of_interrupt(run: &Run, id: InterruptId) -> Value {
    json!({"nodeId": node_of(run, id), "interruptId": run.interrupt_name(id)})
}

fn node_of(run: &Run, id: InterruptId) -> Option<&NodeId> {
    run.interrupt(id).map(|asked| &asked.node)
}

fn conversation(run: &Run, id: InterruptId, members: &[&str]) -> Value {
    let mut payload = json!({});
    let data = run.interrupt(id).map(|asked| &asked.data);
    for member in ["conversationId"].iter().chain(members) {
        if let Some(value) = data.and_then(|data| data.get(*member)) {
            payload[*member] = value.clone();
        }
    }
    payload
}
