//! Agents whose model is not sure of its reply: nothing comes of it until somebody has ratified it.

use holdpoint_core::agent::{
    Act, Agent, Behaviour, CallRequest, CallStatus, Gate, Message, Next, Reply, ResumePolicy, Role, Usage,
};
use holdpoint_core::{Command, Decision, Event, InterruptId, Outcome, Refusal, Start, Status};
use serde_json::{Value, json};

use crate::story::{Story, on};
use crate::words::{answer, begin, finish, node, node_id, start_of, workflow};

const AGENT: &str = "agent";

fn act(acts: impl Into<Vec<Act>>) -> Command {
    Command::Act { node: node_id(AGENT), acts: acts.into() }
}

/// A reply with one call, of which the model is this sure.
fn unsure(confidence: f64) -> Command {
    let mut message = Message::new("reply-1", Role::Assistant, "I pay.");
    let arguments = json!({ "to": "bob" });
    message.calls = vec![CallRequest { id: "c1".to_owned(), name: "pay".to_owned(), arguments }];
    let decision =
        Decision { agent: "clerk".to_owned(), decision: message.decision(), confidence: Some(confidence) };
    let question = decision.escalation_below(0.7).map(|mut request| {
        request.key = Some("k1".to_owned());
        Box::new(request)
    });
    let gates = vec![Gate { behaviour: Behaviour::Allow, why: None, idempotent: false, client: false }];
    let (usage, model) = (Usage::default(), "m".to_owned());
    let reply = Reply { message, gates, usage, model, seen: 1, took_ms: None };
    act([Act::Reply(Box::new(reply)), Act::Decide { decision: Box::new(decision), question }])
}

fn shown() -> Value {
    let call = json!({ "id": "c1", "name": "pay", "arguments": { "to": "bob" } });
    json!({ "text": "I pay.", "calls": [call] })
}

fn at_work() -> Story {
    let message = Message::new("u1", Role::User, "please");
    let start = Start { messages: Some(Box::new((node_id(AGENT), vec![message]))), ..start_of(json!({})) };
    on(workflow([node(AGENT)], [])).given([Command::Start(Box::new(start)), begin(AGENT)])
}

fn waits() -> Command {
    finish(AGENT, Outcome::Suspended { policy: ResumePolicy::AsDecided })
}

/// It has replied, is not sure, and waits.
fn waiting() -> Story {
    at_work().given([unsure(0.3), waits()]).status_is(Status::WaitingApproval)
}

fn agent(story: &Story) -> &Agent {
    story.run().node_state(&node_id(AGENT)).and_then(|state| state.agent.as_deref()).expect("an agent")
}

fn next(story: &Story) -> Next {
    agent(story).next(ResumePolicy::AsDecided)
}

fn makes_its_call(story: &Story) -> bool {
    matches!(next(story), Next::Calls(calls) if calls.len() == 1 && calls[0].status == CallStatus::New)
}

#[test]
fn a_reply_that_is_sure_enough_is_told_and_goes_on() {
    let story = at_work().when(unsure(0.7)).accepted();
    assert!(makes_its_call(&story));
    assert_eq!(story.run().interrupts.len(), 0);
}

#[test]
fn nothing_comes_of_a_reply_that_waits_to_be_ratified() {
    let story = at_work().when(unsure(0.3)).accepted();
    assert_eq!(next(&story), Next::Wait);
    let ended = finish(AGENT, Outcome::Completed(Box::default()));
    let story = story.when(ended).refused(Refusal::NodeNotRunning);
    let story = story.when(waits()).then([Event::NodeSuspended {
        node: node_id(AGENT),
        interrupt: InterruptId(1),
        all: false,
    }]);
    let asked = story.run().interrupts[0].clone();
    let data = json!({ "agentId": "clerk", "threshold": 0.7, "observed": 0.3, "decision": shown(), "messageId": "reply-1" });
    assert_eq!(asked.data, data);
}

#[test]
fn whoever_accepts_or_says_the_same_lets_it_go_on_as_replied() {
    for value in [json!({ "action": "accept" }), json!({ "action": "ratify" }), shown()] {
        let story = waiting().when(answer(1, value)).accepted();
        assert!(makes_its_call(&story));
        assert_eq!(agent(&story).doubt, None);
    }
}

#[test]
fn whoever_says_something_else_is_heard_and_the_calls_are_not_made() {
    for value in [json!("Ask him first"), json!({ "action": "reject" }), Value::Null, json!(false)] {
        let story = waiting().when(answer(1, value.clone())).accepted();
        assert_eq!(next(&story), Next::Overruled, "{value}");
        let ended = finish(AGENT, Outcome::Completed(Box::default()));
        let story = story.when(ended).refused(Refusal::NodeNotRunning);
        let story = story.when(waits()).refused(Refusal::NodeNotRunning);
        let story = story.when(act([Act::Overrule])).accepted();
        assert_eq!(agent(&story).call("c1").map(|call| call.status), Some(CallStatus::Cancelled));
        assert_eq!(next(&story), Next::Model);
        let told = agent(&story).messages.last().expect("a message").clone();
        let said = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        assert!(told.text().ends_with(&format!("decided instead: {said}")), "{told:?}");
        assert_eq!((told.role, told.by.is_some()), (Role::User, true));
        story.when(act([Act::Overrule])).refused(Refusal::NodeNotRunning);
    }
}

#[test]
fn an_answer_that_comes_before_the_agent_waits_is_not_lost() {
    let story = at_work().given([unsure(0.3), answer(1, json!({ "action": "accept" }))]);
    let story = story.when(waits()).refused(Refusal::NodeNotRunning);
    assert!(makes_its_call(&story));
}

#[test]
fn whoever_goes_on_talking_takes_the_reply_back() {
    let say = || Command::Say {
        node: node_id(AGENT),
        messages: vec![Message::new("u2", Role::User, "never mind")],
    };
    let before = waiting().when(say()).accepted();
    let after = waiting().given([answer(1, json!("no"))]).when(say()).accepted();
    for (story, messages) in [(before, 4), (after, 5)] {
        assert_eq!(agent(&story).call("c1").map(|call| call.status), Some(CallStatus::Cancelled));
        assert_eq!((next(&story), story.run().open_interrupts().count()), (Next::Model, 0));
        assert_eq!(agent(&story).messages.len(), messages, "with what was decided instead, where it was");
    }
}
