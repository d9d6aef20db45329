//! Replies of agents with low confidence: the agent does not act on them until a person has ratified them.

use holdpoint_core::agent::{
    Agent, AgentAction, AgentStep, Behaviour, CallPolicy, CallRequest, CallStatus, Message, ReplyRecord,
    ResumePolicy, Role, Usage,
};
use holdpoint_core::{
    AgentDecision, Command, Event, InterruptId, NodeOutcome, Refusal, StartRequest, Status,
};
use serde_json::{Value, json};

use crate::story::{Story, on};
use crate::vocabulary::{answer, begin, finish, node, node_id, start_request, workflow};

const AGENT: &str = "agent";

fn act(acts: impl Into<Vec<AgentAction>>) -> Command {
    Command::Act { node: node_id(AGENT), actions: acts.into() }
}

/// Returns a reply with one call and this confidence.
fn reply_with_confidence(confidence: f64) -> Command {
    let mut message = Message::new("reply-1", Role::Assistant, "I pay.");
    let arguments = json!({ "to": "bob" });
    message.calls = vec![CallRequest { id: "c1".to_owned(), name: "pay".to_owned(), arguments }];
    let decision = AgentDecision {
        agent: "clerk".to_owned(),
        decision: message.decision(),
        confidence: Some(confidence),
    };
    let question = decision.escalation_below(0.7).map(|mut request| {
        request.key = Some("k1".to_owned());
        Box::new(request)
    });
    let gates = vec![CallPolicy { behaviour: Behaviour::Allow, why: None, idempotent: false, client: false }];
    let (usage, model) = (Usage::default(), "m".to_owned());
    let reply = ReplyRecord { message, policies: gates, usage, model, seen: 1, took_ms: None };
    act([AgentAction::Reply(Box::new(reply)), AgentAction::Decide { decision: Box::new(decision), question }])
}

fn proposed_decision() -> Value {
    let call = json!({ "id": "c1", "name": "pay", "arguments": { "to": "bob" } });
    json!({ "text": "I pay.", "calls": [call] })
}

fn started_agent() -> Story {
    let message = Message::new("u1", Role::User, "please");
    let start = StartRequest {
        messages: Some(Box::new((node_id(AGENT), vec![message]))),
        ..start_request(json!({}))
    };
    on(workflow([node(AGENT)], [])).given([Command::Start(Box::new(start)), begin(AGENT)])
}

fn suspend() -> Command {
    finish(AGENT, NodeOutcome::Suspended { policy: ResumePolicy::AsDecided })
}

/// Returns a story in which a reply waits for ratification.
fn waiting_reply() -> Story {
    started_agent().given([reply_with_confidence(0.3), suspend()]).status_is(Status::WaitingApproval)
}

fn agent(story: &Story) -> &Agent {
    story.run().node_state(&node_id(AGENT)).and_then(|state| state.agent.as_deref()).expect("an agent")
}

fn next(story: &Story) -> AgentStep {
    agent(story).next_step(ResumePolicy::AsDecided)
}

fn call_is_next(story: &Story) -> bool {
    matches!(next(story), AgentStep::Calls(calls) if calls.len() == 1 && calls[0].status == CallStatus::New)
}

#[test]
fn a_reply_with_enough_confidence_continues_without_an_interrupt() {
    let story = started_agent().when(reply_with_confidence(0.7)).accepted();
    assert!(call_is_next(&story));
    assert_eq!(story.run().interrupts.len(), 0);
}

#[test]
fn the_calls_of_a_reply_wait_for_its_ratification() {
    let story = started_agent().when(reply_with_confidence(0.3)).accepted();
    assert_eq!(next(&story), AgentStep::Wait);
    let ended = finish(AGENT, NodeOutcome::Completed(Box::default()));
    let story = story.when(ended).refused(Refusal::NodeNotRunning);
    let story = story.when(suspend()).then([Event::NodeSuspended {
        node: node_id(AGENT),
        interrupt: InterruptId(1),
        all: false,
    }]);
    let asked = story.run().interrupts[0].clone();
    let data = json!({ "agentId": "clerk", "threshold": 0.7, "observed": 0.3, "decision": proposed_decision(), "messageId": "reply-1" });
    assert_eq!(*asked.data, data);
}

#[test]
fn an_accepting_or_equal_answer_ratifies_the_reply() {
    for value in [json!({ "action": "accept" }), json!({ "action": "ratify" }), proposed_decision()] {
        let story = waiting_reply().when(answer(1, value)).accepted();
        assert!(call_is_next(&story));
        assert_eq!(agent(&story).unratified, None);
    }
}

#[test]
fn a_different_answer_overrules_the_reply_and_cancels_its_calls() {
    for value in [json!("Ask him first"), json!({ "action": "reject" }), Value::Null, json!(false)] {
        let story = waiting_reply().when(answer(1, value.clone())).accepted();
        assert_eq!(next(&story), AgentStep::Overruled, "{value}");
        let ended = finish(AGENT, NodeOutcome::Completed(Box::default()));
        let story = story.when(ended).refused(Refusal::NodeNotRunning);
        let story = story.when(suspend()).refused(Refusal::NodeNotRunning);
        let story = story.when(act([AgentAction::Overrule])).accepted();
        assert_eq!(agent(&story).call("c1").map(|call| call.status), Some(CallStatus::Cancelled));
        assert_eq!(next(&story), AgentStep::Model);
        let message = agent(&story).messages.last().expect("a message").clone();
        let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        assert!(message.text().ends_with(&format!("decided instead: {text}")), "{message:?}");
        assert_eq!((message.role, message.by.is_some()), (Role::User, true));
        story.when(act([AgentAction::Overrule])).refused(Refusal::NodeNotRunning);
    }
}

#[test]
fn a_ratification_that_arrives_before_the_agent_waits_is_not_lost() {
    let story = started_agent().given([reply_with_confidence(0.3), answer(1, json!({ "action": "accept" }))]);
    let story = story.when(suspend()).refused(Refusal::NodeNotRunning);
    assert!(call_is_next(&story));
}

#[test]
fn a_new_message_retracts_the_reply() {
    let send_message = || Command::SendMessages {
        node: node_id(AGENT),
        messages: vec![Message::new("u2", Role::User, "never mind")],
    };
    let before = waiting_reply().when(send_message()).accepted();
    let after = waiting_reply().given([answer(1, json!("no"))]).when(send_message()).accepted();
    for (story, messages) in [(before, 4), (after, 5)] {
        assert_eq!(agent(&story).call("c1").map(|call| call.status), Some(CallStatus::Cancelled));
        assert_eq!((next(&story), story.run().open_interrupts().count()), (AgentStep::Model, 0));
        assert_eq!(
            agent(&story).messages.len(),
            messages,
            "includes the decision that replaced the reply, if there was one"
        );
    }
}
