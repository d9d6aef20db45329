//! Rules for agents: limits of replies, ids of calls, completion, requests, variables and messages.

use holdpoint_core::agent::{
    AgentAction, Behaviour, CallStatus, ReplyRecord, ResumePolicy, Ticket, ToolCallError,
};
use holdpoint_core::{
    Answer, Command, Event, InterruptId, InterruptRequest, Kind, NodeOutcome, Principal, Refusal,
    StartRequest, Status, limits,
};
use serde_json::{Value, json};

use crate::agents::{
    AGENT, act, agent, begin_call, call, reply, returned, send_message, started_agent, status, suspend, user,
    wait,
};
use crate::story::{Story, on};
use crate::vocabulary::*;

const AS_DECIDED: ResumePolicy = ResumePolicy::AsDecided;

fn names(count: usize) -> Vec<String> {
    (0..count).map(|n| format!("c{n}")).collect()
}

/// Returns a reply with calls of these ids.
fn reply_with_calls(seen: usize, names: &[String]) -> AgentAction {
    let calls: Vec<_> = names.iter().map(|name| (name.as_str(), Behaviour::Allow)).collect();
    reply(seen, &calls)
}

fn one_call() -> Story {
    started_agent().given([act([reply(1, &[("c1", Behaviour::Allow)])])])
}

#[test]
fn a_reply_with_too_many_calls_is_refused() {
    started_agent().when(act([reply_with_calls(1, &names(limits::CALLS_PER_REPLY_MAX))])).accepted();
    let many = names(limits::CALLS_PER_REPLY_MAX + 1);
    started_agent().when(act([reply_with_calls(1, &many)])).refused_for("reply");
    let many = names(limits::CALLS_PER_REPLY_MAX + 2);
    started_agent().when(act([reply_with_calls(1, &many)])).refused_for("reply");
}

#[test]
fn a_reply_must_have_one_policy_for_each_call() {
    let AgentAction::Reply(whole) = reply(1, &[("c1", Behaviour::Ask)]) else { panic!("a reply") };
    let without_policies = ReplyRecord { policies: Vec::new(), ..*whole.clone() };
    started_agent().when(act([AgentAction::Reply(Box::new(without_policies))])).refused_for("reply");
    let two_policies = vec![whole.policies[0].clone(), whole.policies[0].clone()];
    started_agent()
        .when(act([AgentAction::Reply(Box::new(ReplyRecord { policies: two_policies, ..*whole }))]))
        .refused_for("reply");
}

#[test]
fn call_ids_are_non_empty_and_unique_in_an_agent() {
    started_agent().when(act([reply(1, &[("", Behaviour::Allow)])])).refused_for("reply.calls");
    let ended = one_call().given([act([begin_call("c1"), returned("c1")])]);
    ended.when(act([reply(3, &[("c1", Behaviour::Allow)])])).refused_for("reply.calls");
    let ended = one_call().given([act([begin_call("c1"), returned("c1")])]);
    ended.when(act([reply(3, &[("c2", Behaviour::Allow)])])).accepted();
}

#[test]
fn a_call_returns_with_a_final_status() {
    let back = |status| act([AgentAction::Return { call: "c1".to_owned(), status, content: json!("x") }]);
    for status in [CallStatus::New, CallStatus::Running] {
        let begun = one_call().given([act([begin_call("c1")])]);
        let refused = begun.when(back(status));
        let from = CallStatus::Running;
        match status {
            CallStatus::Running => refused.refused_for("status"),
            to => refused.refused(Refusal::BadCall(ToolCallError::InvalidTransition {
                call: "c1".to_owned(),
                from,
                to,
            })),
        };
    }
    for ended in [CallStatus::Succeeded, CallStatus::Failed, CallStatus::Cancelled] {
        let story = one_call().given([act([begin_call("c1")])]).when(back(ended)).accepted();
        assert_eq!(status(&story, "c1"), ended);
    }
}

#[test]
fn an_agent_ends_only_without_open_calls_and_unread_messages() {
    one_call().when(done(AGENT)).refused(Refusal::NodeNotRunning);
    let begun = one_call().given([act([begin_call("c1")])]);
    begun.when(done(AGENT)).refused(Refusal::NodeNotRunning);
    // The model has not seen the result of the call yet.
    let ended = one_call().given([act([begin_call("c1"), returned("c1")])]);
    let ended = ended.when(done(AGENT)).refused(Refusal::NodeNotRunning);
    ended.given([act([reply(3, &[])])]).when(done(AGENT)).accepted().status_is(Status::Completed);
    // A node that never called a model needs no reply to end.
    started_agent().when(done(AGENT)).accepted().status_is(Status::Completed);
}

#[test]
fn agents_set_variables_and_add_to_them() {
    let changed = |name: &str, previous: Option<Value>, next: Value| Event::VariableChanged {
        node: node_id(AGENT),
        name: name.to_owned(),
        previous,
        next,
    };
    let set = |value: Value| AgentAction::SetVariable { name: "n".to_owned(), value };
    let add = |value: i64| AgentAction::AddToVariable { name: "n".to_owned(), value };
    started_agent()
        .when(act([set(json!(2)), add(3), add(-1)]))
        .then([
            changed("n", None, json!(2)),
            changed("n", Some(json!(2)), json!(5)),
            changed("n", Some(json!(5)), json!(4)),
        ])
        .variables_are(&json!({"n": 4}))
        .when(act([set(json!(4))]))
        .then([])
        .when(act([set(json!("x")), add(7)]))
        .accepted()
        .variables_are(&json!({"n": 7}));
}

#[test]
fn an_agent_cannot_set_a_variable_to_another_type_than_declared() {
    let declared = json!({"name": "n", "type": "number"});
    let flow = workflow_with([node(AGENT)], [], [declared]);
    let story = on(flow).given([start(), begin(AGENT)]);
    story
        .when(act([AgentAction::SetVariable { name: "n".to_owned(), value: json!("x") }]))
        .refused_for("variables.n");
}

#[test]
fn messages_beyond_the_limit_of_an_agent_are_refused() {
    let messages = |count: usize| (0..count).map(|n| user(&format!("m{n}"))).collect::<Vec<_>>();
    let send_messages =
        |count: usize| Command::SendMessages { node: node_id(AGENT), messages: messages(count) };
    // The agent has one message from the start.
    started_agent().when(send_messages(limits::MESSAGES_MAX - 1)).accepted();
    started_agent().when(send_messages(limits::MESSAGES_MAX)).refused_for("messages");
    started_agent().when(send_messages(limits::MESSAGES_MAX + 1)).refused_for("messages");
    let twice = started_agent().given([send_messages(1)]);
    twice.when(send_messages(limits::MESSAGES_MAX - 2)).accepted();
    let twice = started_agent().given([send_messages(1)]);
    twice.when(send_messages(limits::MESSAGES_MAX - 1)).refused_for("messages");
    started_agent()
        .when(Command::SendMessages { node: node_id(AGENT), messages: Vec::new() })
        .refused_for("messages");
}

#[test]
fn messages_to_an_unknown_node_are_refused() {
    let messages = Some(Box::new((node_id("unknown"), vec![user("u1")])));
    let start = Command::Start(Box::new(StartRequest { messages, ..start_request(json!({})) }));
    on(workflow([node(AGENT)], [])).when(start).refused_for("node");
    started_agent()
        .when(Command::SendMessages { node: node_id("unknown"), messages: vec![user("u2")] })
        .refused_for("node");
}

#[test]
fn messages_to_an_ended_node_of_a_running_run_are_refused() {
    let messages = Some(Box::new((node_id(AGENT), vec![user("u1")])));
    let start = Command::Start(Box::new(StartRequest { messages, ..start_request(json!({})) }));
    let story = on(workflow([node(AGENT), node("after")], [edge(AGENT, "after")]));
    let story = story.given([start, begin(AGENT), act([reply(1, &[])]), done(AGENT)]);
    story.when(send_message("u2")).refused(Refusal::NodeNotRunning);
}

/// Returns the suspension of the first call with this request.
fn suspend_with(story: &Story, kind: Kind, data: Value) -> AgentAction {
    let AgentAction::Suspend { call, ticket } = suspend(story, "c1") else { panic!("a suspension") };
    let mut whole = ticket.request.data.clone();
    for (name, value) in object(data) {
        whole[name] = value;
    }
    let request = InterruptRequest { key: ticket.request.key.clone(), ..InterruptRequest::new(kind, whole) };
    AgentAction::Suspend { call, ticket: Box::new(Ticket { request, mode: ticket.mode }) }
}

fn events_of(kind: Kind, data: Value) -> Vec<String> {
    let story = started_agent().given([act([reply(1, &[("c1", Behaviour::Ask)])])]);
    let known = story.log().len();
    let asked = suspend_with(&story, kind, data);
    let story = story.when(act([asked])).accepted();
    assert_eq!(call(&story, "c1").interrupt.expect("it waits").id, InterruptId(1));
    story.log()[known..].iter().map(|(_, event)| event.name().to_owned()).collect()
}

#[test]
fn a_request_about_a_call_has_the_events_of_its_kind() {
    let (asked, waits) = ("interrupt.requested", "holdpoint.tool.suspended");
    assert_eq!(events_of(Kind::Approval, json!({})), [asked, "approval.requested", waits]);
    let governed = json!({"gateId": "g", "requiredRole": "release", "actions": ["accept", "reject"]});
    assert_eq!(events_of(Kind::Approval, governed), [asked, waits]);
    let question = json!({"questions": [{"id": "q", "question": "How many?"}]});
    assert_eq!(events_of(Kind::Clarification, question), [asked, "clarification.requested", waits]);
    assert_eq!(events_of(Kind::Custom, json!({"customKind": "pick"})), [asked, waits]);
}

#[test]
fn a_request_about_a_call_must_be_valid_and_have_a_new_key() {
    let story = started_agent().given([act([reply(1, &[("c1", Behaviour::Ask), ("c2", Behaviour::Ask)])])]);
    let first = suspend_with(&story, Kind::Approval, json!({}));
    let AgentAction::Suspend { ticket, .. } = &first else { panic!("a suspension") };
    let second = AgentAction::Suspend { call: "c2".to_owned(), ticket: ticket.clone() };
    story.when(act([first, second])).refused_for("key");
    let story = started_agent().given([act([reply(1, &[("c1", Behaviour::Ask)])])]);
    let invalid = suspend_with(&story, Kind::Approval, json!({"actions": []}));
    let story = story.when(act([invalid])).refused_for("invalid_interrupt");
    assert_eq!(status(&story, "c1"), CallStatus::New);
}

#[test]
fn a_new_message_retracts_undecided_calls_and_keeps_decided_ones() {
    let story = started_agent().given([act([reply(1, &[("c1", Behaviour::Ask), ("c2", Behaviour::Ask)])])]);
    let both = act([suspend(&story, "c1"), suspend(&story, "c2")]);
    let story = story.given([both, wait(AS_DECIDED), accept(1)]).when(send_message("u2")).accepted();
    assert_eq!((status(&story, "c1"), status(&story, "c2")), (CallStatus::Resuming, CallStatus::Cancelled));
    let taken_back = story.run().interrupt(InterruptId(2)).expect("an interrupt");
    let Some(holdpoint_core::Resolution::Answered { value, by, .. }) = &taken_back.resolution else {
        panic!("open")
    };
    assert_eq!((by.as_str(), &value["action"]), ("system:host", &json!("reject")));
    assert!(!taken_back.is_granted());
}

#[test]
fn an_agent_waits_for_its_oldest_open_interrupt() {
    let story = started_agent().given([act([reply(1, &[("c1", Behaviour::Ask), ("c2", Behaviour::Ask)])])]);
    let both = act([suspend(&story, "c2"), suspend(&story, "c1")]);
    for (policy, all) in [(AS_DECIDED, false), (ResumePolicy::WaitAll, true)] {
        let story = started_agent()
            .given([act([reply(1, &[("c1", Behaviour::Ask), ("c2", Behaviour::Ask)])]), both.clone()]);
        let waits = Event::NodeSuspended { node: node_id(AGENT), interrupt: InterruptId(1), all };
        story.when(wait(policy)).then([waits]);
    }
    // An agent without an open interrupt or child run cannot wait.
    one_call().when(wait(AS_DECIDED)).refused(Refusal::NodeNotRunning);
    on(workflow([node(AGENT)], []))
        .given([start(), begin(AGENT)])
        .when(wait(AS_DECIDED))
        .refused(Refusal::NodeNotRunning);
    assert_eq!(agent(&one_call()).suspended_calls().count(), 0);
}

#[test]
fn an_agent_that_waits_for_all_calls_continues_when_all_are_decided() {
    let story = started_agent().given([act([reply(1, &[("c1", Behaviour::Ask), ("c2", Behaviour::Ask)])])]);
    let both = act([suspend(&story, "c1"), suspend(&story, "c2")]);
    let story = story.given([both, accept(1)]);
    let story = story.when(wait(ResumePolicy::WaitAll)).accepted().next_is("nothing");
    let story = story.given([answer_by(Principal::named("eve"), 2, json!({"action": "accept"}))]);
    story.next_is("enter agent").when(wait(ResumePolicy::WaitAll)).refused(Refusal::NodeNotRunning);
}

#[test]
fn kinds_that_return_at_once_have_no_deadline() {
    let timed = |kind, data| InterruptRequest { timeout_ms: Some(1000), ..request(kind, data) };
    let opened = timed(Kind::ConversationStart, json!({"conversationId": "c"}));
    let story = waiting_for(opened);
    assert_eq!(story.run().interrupt(InterruptId(1)).map(|asked| asked.timeout_ms), Some(None));
    let story = waiting_for(InterruptRequest { timeout_ms: Some(1000), ..approval() });
    assert_eq!(story.run().interrupt(InterruptId(1)).map(|asked| asked.timeout_ms), Some(Some(1000)));
}

fn waiting_for(request: InterruptRequest) -> Story {
    on(gate_then_after()).given([start(), begin("gate"), ask("gate", request)])
}

#[test]
fn a_decision_id_is_unique_over_all_interrupts_of_a_run() {
    let named = |interrupt: u32| {
        let value = json!({"action": "accept"});
        let answer = Answer { decision: Some("d".to_owned()), ..Answer::new(value, ada()) };
        Command::Resolve { answers: [(InterruptId(interrupt), answer)].into() }
    };
    let story = started_agent().given([act([reply(1, &[("c1", Behaviour::Ask), ("c2", Behaviour::Ask)])])]);
    let both = act([suspend(&story, "c1"), suspend(&story, "c2")]);
    let story = story.given([both]).given([named(2)]).when(named(2)).then([]);
    story.when(named(1)).refused(Refusal::DecisionConflict("d".to_owned()));
}

#[test]
fn an_outcome_of_a_node_that_does_not_run_is_refused() {
    let suspended = finish("after", NodeOutcome::Suspended { policy: AS_DECIDED });
    waiting_for(approval()).when(suspended).refused(Refusal::NodeNotRunning);
    waiting_for(approval()).when(act([begin_call("c1")])).refused(Refusal::NodeNotRunning);
}
