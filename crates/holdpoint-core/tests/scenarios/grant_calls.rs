//! Grants of tool calls: a call uses the decision about itself and the decisions of the gates before its agent.

use holdpoint_core::agent::{
    AgentAction, Behaviour, CallStatus, Message, ResumePolicy, Role, ToolCallResumeMode,
};
use holdpoint_core::{
    Answer, Command, Event, InterruptId, Refusal, RunId, StartRequest, UnusableGrant, WorkflowId,
};
use serde_json::{Value, json};

use crate::agents::{
    AGENT, act, begin_call, reply, returned, started_agent, status, suspend, suspended_tool, tool_ticket,
    wait,
};
use crate::grants::{begin_effect, full_approval, interrupt, node_started_using, uses_of};
use crate::story::{Story, on};
use crate::vocabulary::*;

const AS_DECIDED: ResumePolicy = ResumePolicy::AsDecided;

fn tool_begun(call: &str, uses: &[u32]) -> Event {
    let uses = uses.iter().copied().map(InterruptId).collect();
    Event::ToolBegun { node: node_id(AGENT), call: call.to_owned(), arguments: None, uses }
}

fn of_call(call: &str) -> (String, u32, Option<String>) {
    (AGENT.to_owned(), 1, Some(call.to_owned()))
}

fn usable(story: &Story, call: &str) -> Result<Vec<InterruptId>, UnusableGrant> {
    story.run().usable_grants_of_call(&node_id(AGENT), call)
}

fn not_transferable(gate: &str) -> UnusableGrant {
    UnusableGrant::NotTransferable {
        gate: format!("gate {gate}"),
        source_run: RunId::parse("run-1").expect("a run id"),
    }
}

/// Returns a story in which these calls wait for approval.
fn suspended_calls(story: Story, calls: &[&str]) -> Story {
    let requested_calls: Vec<_> = calls.iter().map(|call| (*call, Behaviour::Ask)).collect();
    let mut story = story.when(act([reply(1, &requested_calls)])).accepted();
    for call in calls {
        let asks = act([suspend(&story, call)]);
        story = story.when(asks).accepted();
    }
    story.when(wait(AS_DECIDED)).accepted()
}

/// Returns a story with an agent after a gate that was accepted as interrupt 1.
fn agent_after_gate() -> Story {
    let message = Message::new("u1", Role::User, "please");
    let messages = Some(Box::new((node_id(AGENT), vec![message])));
    on(workflow([node("gate"), node(AGENT)], [edge("gate", AGENT)])).given([
        Command::Start(Box::new(StartRequest { messages, ..start_request(json!({})) })),
        begin("gate"),
        ask("gate", full_approval()),
        accept(1),
        done("gate"),
        begin_effect(AGENT),
    ])
}

#[test]
fn an_allowed_call_uses_the_decision_about_itself() {
    let story = suspended_calls(started_agent(), &["c1", "c2"]).given([accept(1), accept(2)]);
    assert!(!interrupt(&story, 1).is_gate(), "a decision about a call is a gate for that call only");
    assert_eq!(story.run().usable_grants(&node_id(AGENT)), Ok(Vec::new()));
    let story = story.when(act([begin_call("c2")])).then([tool_begun("c2", &[2])]);
    assert_eq!((uses_of(&story, 1), uses_of(&story, 2)), (Vec::new(), vec![of_call("c2")]));
    let story = story.when(act([begin_call("c1")])).then([tool_begun("c1", &[1])]);
    assert_eq!(uses_of(&story, 1), [of_call("c1")]);
}

#[test]
fn an_edited_call_is_granted_and_a_rejected_one_is_not() {
    let after = |value: Value| suspended_calls(started_agent(), &["c1"]).given([answer(1, value)]);
    let edited = json!({"name": "send", "arguments": {"to": "bob"}});
    let story = after(json!({"action": "edit-accept", "editedArtifactData": edited}));
    assert_eq!(usable(&story, "c1"), Ok(vec![InterruptId(1)]));
    let story = after(json!({"action": "reject"}));
    assert_eq!(
        (usable(&story, "c1"), story.run().grant_of_call(&node_id(AGENT), "c1")),
        (Ok(Vec::new()), None)
    );
}

#[test]
fn a_call_that_is_begun_again_is_one_use() {
    let story = suspended_calls(started_agent(), &["c1"]).given([accept(1), act([begin_call("c1")])]);
    let story = story.later(5).given([act([begin_call("c1")]), act([returned("c1")])]);
    assert_eq!(uses_of(&story, 1), [of_call("c1")]);
}

#[test]
fn each_call_after_a_gate_is_a_use_of_its_grant() {
    let story = suspended_calls(agent_after_gate(), &["c1", "c2"]).given([accept(2), accept(3)]);
    let story = story.when(act([begin_call("c1"), begin_call("c2")]));
    let story = story.then([tool_begun("c1", &[1, 2]), tool_begun("c2", &[1, 3])]);
    let of_agent = (AGENT.to_owned(), 1, None);
    assert_eq!(uses_of(&story, 1), [of_agent, of_call("c1"), of_call("c2")]);
    assert_eq!((uses_of(&story, 2), uses_of(&story, 3)), (vec![of_call("c1")], vec![of_call("c2")]));
}

#[test]
fn a_call_without_approval_uses_the_grants_of_the_gates_only() {
    let story = agent_after_gate().given([act([reply(1, &[("c1", Behaviour::Allow)])])]);
    story.when(act([begin_call("c1")])).then([tool_begun("c1", &[1])]);
    let story = started_agent().given([act([reply(1, &[("c1", Behaviour::Allow)])])]);
    let story = story.when(act([begin_call("c1")])).then([tool_begun("c1", &[])]);
    assert_eq!(usable(&story, "unknown"), Ok(Vec::new()));
}

#[test]
fn an_answer_to_a_tool_lets_its_call_continue_but_is_not_a_grant() {
    let story = suspended_tool(ToolCallResumeMode::ReplayToolCall);
    assert!(!interrupt(&story, 1).is_gate() && !interrupt(&story, 1).is_granted());
    let bob = || holdpoint_core::Principal { name: "bob".into(), ..ada() };
    let resumed = story.when(answer_by(bob(), 1, json!({"action": "resume", "result": 3}))).accepted();
    assert_eq!(usable(&resumed, "c1"), Ok(vec![InterruptId(1)]));
    assert!(interrupt(&resumed, 1).allows_call() && !interrupt(&resumed, 1).is_granted());
    let story = suspended_tool(ToolCallResumeMode::ReplayToolCall);
    let cancelled = story.when(answer_by(bob(), 1, json!({"action": "cancel"}))).accepted();
    assert_eq!(usable(&cancelled, "c1"), Ok(Vec::new()));
}

#[test]
fn a_copy_cannot_begin_a_call_that_was_allowed_in_its_source() {
    let source = suspended_calls(started_agent(), &["c1"]).given([accept(1)]);
    for copy in [source.branched(source.log().len()), source.replayed()] {
        assert_eq!(usable(&copy, "c1"), Err(not_transferable(AGENT)));
        assert_eq!(copy.run().grants_for_child(&node_id(AGENT), Some("c1")), Vec::<String>::new());
        let refusal = Refusal::UnusableGrant(not_transferable(AGENT));
        let copy = copy.when(act([begin_call("c1")])).refused(refusal.clone());
        let start = AgentAction::StartRun { call: "c1".to_owned(), workflow: refund(), arguments: None };
        let copy = copy.when(act([start])).refused(refusal);
        assert_eq!((status(&copy, "c1"), uses_of(&copy, 1)), (CallStatus::Resuming, Vec::new()));
    }
    let begun = source.given([act([begin_call("c1")])]);
    let copy = begun.branched(begun.log().len());
    copy.when(act([begin_call("c1")])).refused(Refusal::UnusableGrant(not_transferable(AGENT)));
}

#[test]
fn a_copy_that_gets_a_new_approval_of_the_call_can_begin_it() {
    let source = suspended_calls(started_agent(), &["c1"]).given([accept(1)]);
    let copy = source.branched(source.log().len());
    let ticket = {
        let AgentAction::Suspend { call, mut ticket } = suspend(&copy, "c1") else { panic!("a suspension") };
        ticket.request.key = Some("again".to_owned());
        AgentAction::Suspend { call, ticket }
    };
    let copy = copy.given([act([ticket]), wait(AS_DECIDED), accept(2)]);
    assert_eq!(usable(&copy, "c1"), Ok(vec![InterruptId(2)]));
    let copy = copy.when(act([begin_call("c1")])).then([tool_begun("c1", &[2])]);
    assert_eq!((uses_of(&copy, 1), uses_of(&copy, 2)), (Vec::new(), vec![of_call("c1")]));
}

#[test]
fn an_answer_to_the_tool_in_a_copy_does_not_replace_the_approval_of_the_call() {
    let source = suspended_calls(started_agent(), &["c1"]).given([accept(1), act([begin_call("c1")])]);
    let ticket = tool_ticket(&source, ToolCallResumeMode::ReplayToolCall);
    let source = source.given([act([AgentAction::Suspend { call: "c1".into(), ticket }]), wait(AS_DECIDED)]);
    let copy = source.branched(source.log().len());
    let bob = holdpoint_core::Principal::named("bob");
    let copy = copy.given([answer_by(bob, 2, json!({"action": "resume", "result": 3}))]);
    assert!(interrupt(&copy, 2).allows_call() && !interrupt(&copy, 2).taken_over);
    assert_eq!(usable(&copy, "c1"), Err(not_transferable(AGENT)));
}

#[test]
fn a_call_that_was_approved_in_a_copy_still_needs_the_grant_of_the_copied_gate() {
    let source = suspended_calls(agent_after_gate(), &["c1"]);
    let copy = source.branched(source.log().len()).given([accept(2)]);
    assert!(!interrupt(&copy, 2).taken_over);
    assert_eq!(usable(&copy, "c1"), Err(not_transferable("gate")));
    copy.when(act([begin_call("c1")])).refused(Refusal::UnusableGrant(not_transferable("gate")));
}

fn refund() -> WorkflowId {
    WorkflowId::parse("refund").expect("a workflow id")
}

#[test]
fn a_child_run_of_a_call_inherits_its_grants() {
    let story = suspended_calls(agent_after_gate(), &["c1"]).given([accept(2)]);
    let start = AgentAction::StartRun { call: "c1".to_owned(), workflow: refund(), arguments: None };
    let story = story.when(act([start])).accepted();
    assert_eq!(story.run().grants_for_child(&node_id(AGENT), Some("c1")), ["run-1:i1", "run-1:i2"]);
    assert_eq!(story.run().grants_for_child(&node_id(AGENT), None), ["run-1:i1"]);
    assert_eq!(uses_of(&story, 2), [of_call("c1")]);
}

#[test]
fn a_repeated_decision_about_a_call_is_recognized_by_its_decision_id() {
    let named = |value: Value| {
        let answer = Answer { decision: Some("d1".to_owned()), ..Answer::new(value, ada()) };
        Command::Resolve { answers: [(InterruptId(1), answer)].into() }
    };
    let story = suspended_calls(started_agent(), &["c1"]).given([named(json!({"action": "accept"}))]);
    let story = story.when(named(json!({"action": "accept"}))).then([]);
    assert_eq!(uses_of(&story, 1), []);
    assert_eq!(node_started_using(AGENT, &[]), node_started(AGENT));
}
