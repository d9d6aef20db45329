//! Agents: replies, calls that wait for somebody, decisions in any order, and what is said meanwhile.

use holdpoint_core::agent::{
    Act, Agent, Asking, Behaviour, CallFlaw, CallRequest, CallStatus, Gate, Message, Next, Reply,
    ResumeDecisionAction, ResumePolicy, Resumption, Role, SuspendTicket, Suspension, Ticket, ToolCall,
    ToolCallResume, ToolCallResumeMode, Usage,
};
use holdpoint_core::{Answer, Command, InterruptId, NodeStatus, Outcome, Refusal, Start, Status};
use serde_json::{Value, json};

use crate::story::{Story, on};
use crate::words::{
    accept, ada, answer, answer_by, begin, cancel, done, expire, finish, node, node_id, start_of, workflow,
};

pub(crate) const AGENT: &str = "agent";

pub(crate) fn user(id: &str) -> Message {
    Message::new(id, Role::User, "please")
}

pub(crate) fn act<const N: usize>(acts: [Act; N]) -> Command {
    Command::Act { node: node_id(AGENT), acts: acts.into() }
}

pub(crate) fn say(id: &str) -> Command {
    Command::Say { node: node_id(AGENT), messages: vec![user(id)] }
}

/// The model replies to the first `seen` messages, and wants these calls.
pub(crate) fn reply(seen: usize, calls: &[(&str, Behaviour)]) -> Act {
    let step = seen;
    let mut message = Message::new(format!("reply-{step}"), Role::Assistant, "hm");
    let call = |(id, _): &(&str, Behaviour)| CallRequest {
        id: (*id).to_owned(),
        name: "send".to_owned(),
        arguments: json!({ "to": id }),
    };
    message.calls = calls.iter().map(call).collect();
    let gate = |(_, behaviour): &(&str, Behaviour)| Gate {
        behaviour: *behaviour,
        why: None,
        idempotent: false,
        client: false,
    };
    let gates = calls.iter().map(gate).collect();
    let usage = Usage { input_tokens: 3, output_tokens: 2 };
    Act::Reply(Box::new(Reply { message, gates, usage, model: "m".to_owned(), seen, took_ms: None }))
}

pub(crate) fn suspend(story: &Story, id: &str) -> Act {
    let ticket = Ticket::permission(format!("perm:{id}"), call(story, id), &Asking::default());
    Act::Suspend { call: id.to_owned(), ticket: Box::new(ticket) }
}

pub(crate) fn begin_call(id: &str) -> Act {
    Act::Begin { call: id.to_owned(), arguments: None }
}

pub(crate) fn returned(id: &str) -> Act {
    Act::Return { call: id.to_owned(), status: CallStatus::Succeeded, content: json!("sent") }
}

pub(crate) fn wait(policy: ResumePolicy) -> Command {
    finish(AGENT, Outcome::Suspended { policy })
}

pub(crate) fn agent(story: &Story) -> &Agent {
    story.run().node_state(&node_id(AGENT)).and_then(|state| state.agent.as_deref()).expect("an agent")
}

pub(crate) fn call<'a>(story: &'a Story, id: &str) -> &'a ToolCall {
    agent(story).call(id).expect("a call")
}

pub(crate) fn status(story: &Story, id: &str) -> CallStatus {
    call(story, id).status
}

/// An agent that was told something and has begun.
pub(crate) fn at_work() -> Story {
    let start = Start { messages: Some(Box::new((node_id(AGENT), vec![user("u1")]))), ..start_of(json!({})) };
    on(workflow([node(AGENT)], [])).given([Command::Start(Box::new(start)), begin(AGENT)])
}

/// Two calls wait for somebody, as interrupts 1 and 2.
pub(crate) fn two_wait(policy: ResumePolicy) -> Story {
    let story = at_work().when(act([reply(1, &[("c1", Behaviour::Ask), ("c2", Behaviour::Ask)])])).accepted();
    let asks = act([suspend(&story, "c1"), suspend(&story, "c2")]);
    story.when(asks).accepted().when(wait(policy)).accepted()
}

#[test]
fn an_agent_without_calls_replies_and_is_done() {
    let story = at_work();
    assert_eq!(agent(&story).next(ResumePolicy::AsDecided), Next::Model);
    let story = story.when(act([reply(1, &[])])).accepted();
    assert_eq!(agent(&story).next(ResumePolicy::AsDecided), Next::Finish);
    assert_eq!(agent(&story).usage.total(), 5);
    story.when(done(AGENT)).accepted().status_is(Status::Completed);
}

#[test]
fn what_is_said_while_the_model_thinks_is_replied_to_before_the_end() {
    let story = at_work().when(say("u2")).accepted().when(act([reply(1, &[])])).accepted();
    let story = story.when(done(AGENT)).refused(Refusal::NodeNotRunning);
    assert_eq!(agent(&story).next(ResumePolicy::AsDecided), Next::Model);
    story.when(act([reply(3, &[])])).accepted().when(done(AGENT)).accepted().status_is(Status::Completed);
}

#[test]
fn waiting_calls_are_ordinary_interrupts_and_hold_the_run() {
    let story = two_wait(ResumePolicy::AsDecided)
        .status_is(Status::WaitingApproval)
        .node_is(AGENT, &NodeStatus::Waiting(InterruptId(1)))
        .next_is("nothing");
    assert_eq!(story.run().open_interrupts().count(), 2);
    let asked = story.run().interrupt(InterruptId(2)).expect("the second");
    assert_eq!(asked.data["toolCall"], json!({ "id": "c2", "name": "send", "arguments": { "to": "c2" } }));
    assert_eq!(asked.data["suspension"]["id"], "perm_c2");
    assert_eq!(asked.data["resumeMode"], "replay_tool_call");
}

#[test]
fn each_decision_wakes_the_agent_whichever_comes_first() {
    let story = two_wait(ResumePolicy::AsDecided).when(accept(2)).accepted().next_is("enter agent");
    assert_eq!((status(&story, "c1"), status(&story, "c2")), (CallStatus::Suspended, CallStatus::Resuming));
    let Next::Calls(ready) = agent(&story).next(ResumePolicy::AsDecided) else { panic!("nothing to do") };
    assert_eq!(ready.iter().map(|call| call.id.as_str()).collect::<Vec<_>>(), ["c2"]);
    let story = story.when(act([begin_call("c2"), returned("c2")])).accepted();
    assert_eq!(agent(&story).next(ResumePolicy::AsDecided), Next::Wait);
    story
        .when(wait(ResumePolicy::AsDecided))
        .accepted()
        .node_is(AGENT, &NodeStatus::Waiting(InterruptId(1)))
        .when(accept(1))
        .accepted()
        .next_is("enter agent");
}

#[test]
fn an_agent_that_waits_for_all_goes_on_with_the_last_decision() {
    let story = two_wait(ResumePolicy::WaitAll).when(accept(2)).accepted().next_is("nothing");
    assert_eq!(agent(&story).next(ResumePolicy::WaitAll), Next::Wait);
    let story = story.when(accept(1)).accepted().next_is("enter agent");
    let Next::Calls(ready) = agent(&story).next(ResumePolicy::WaitAll) else { panic!("nothing to do") };
    assert_eq!(ready.len(), 2);
}

#[test]
fn a_decision_that_comes_before_the_agent_waits_is_not_missed() {
    let story = at_work().when(act([reply(1, &[("c1", Behaviour::Ask)])])).accepted();
    let asks = act([suspend(&story, "c1")]);
    story
        .when(asks)
        .accepted()
        .when(accept(1))
        .accepted()
        .when(wait(ResumePolicy::AsDecided))
        .refused(Refusal::NodeNotRunning)
        .next_is("enter agent");
}

#[test]
fn calls_end_once_and_go_only_where_they_may() {
    let story = at_work().when(act([reply(1, &[("c1", Behaviour::Allow)])])).accepted();
    let story = story.when(act([begin_call("c1"), returned("c1")])).accepted();
    let ended =
        |to| Refusal::BadCall(CallFlaw::Illegal { call: "c1".into(), from: CallStatus::Succeeded, to });
    let story = story.when(act([returned("c1")])).refused(ended(CallStatus::Succeeded));
    let story = story.when(act([begin_call("c1")])).refused(ended(CallStatus::Running));
    let unknown = Refusal::BadCall(CallFlaw::Unknown("c9".into()));
    story.when(act([returned("c9")])).refused(unknown);
    // A call that waits is not begun behind the back of whoever decides.
    let story = two_wait(ResumePolicy::AsDecided).when(accept(1)).accepted();
    let waits = CallFlaw::Illegal { call: "c2".into(), from: CallStatus::Suspended, to: CallStatus::Running };
    story.when(act([begin_call("c2")])).refused(Refusal::BadCall(waits));
}

#[test]
fn a_reply_with_a_bad_part_leaves_nothing() {
    let twice = [("c1", Behaviour::Ask), ("c1", Behaviour::Ask)];
    let story = at_work().when(act([reply(1, &twice)])).refused_for("reply.calls");
    assert_eq!(agent(&story).steps, 0);
}

#[test]
fn a_decision_told_again_changes_nothing_and_another_one_under_its_name_is_refused() {
    let named = |interrupt: u32, name: &str, value: Value| {
        let answer = Answer { decision: Some(name.to_owned()), ..Answer::new(value, ada()) };
        Command::Resolve { answers: [(InterruptId(interrupt), answer)].into() }
    };
    let yes = || json!({ "action": "accept" });
    two_wait(ResumePolicy::AsDecided)
        .when(named(1, "d1", yes()))
        .accepted()
        .when(named(1, "d1", yes()))
        .then([])
        .when(named(1, "d1", json!({ "action": "reject" })))
        .refused(Refusal::DecisionConflict("d1".into()))
        .when(named(2, "d1", yes()))
        .refused(Refusal::DecisionConflict("d1".into()))
        .when(named(1, "d2", yes()))
        .refused(Refusal::AlreadyResolved)
        .when(named(2, "d2", yes()))
        .accepted();
}

#[test]
fn going_on_talking_takes_waiting_calls_back() {
    let story = two_wait(ResumePolicy::WaitAll).when(say("u2")).accepted().next_is("enter agent");
    assert_eq!((status(&story, "c1"), status(&story, "c2")), (CallStatus::Cancelled, CallStatus::Cancelled));
    assert_eq!(story.run().open_interrupts().count(), 0);
    assert_eq!(agent(&story).next(ResumePolicy::WaitAll), Next::Model);
    story.when(accept(1)).refused(Refusal::AlreadyResolved);
}

#[test]
fn nothing_is_said_to_an_agent_that_is_done() {
    let story = at_work().when(act([reply(1, &[])])).accepted().when(done(AGENT)).accepted();
    story.when(say("u2")).refused(Refusal::RunFinished(Status::Completed));
    let story = two_wait(ResumePolicy::AsDecided).when(cancel()).accepted();
    story.when(accept(1)).refused(Refusal::InterruptCancelled);
}

fn resumption(story: &Story, id: &str) -> Resumption {
    let call = call(story, id);
    let asked = story.run().interrupt(call.waiting.expect("it waited").interrupt).expect("an interrupt");
    call.resumption(asked).expect("somebody has decided")
}

#[test]
fn a_permission_lets_the_call_run_as_shown_as_edited_or_not_at_all() {
    let after = |value: Value| {
        let story = two_wait(ResumePolicy::AsDecided).when(answer(1, value)).accepted();
        resumption(&story, "c1")
    };
    assert_eq!(after(json!({ "action": "accept" })), Resumption::Run { arguments: json!({ "to": "c1" }) });
    let edited = json!({ "name": "send", "arguments": { "to": "bob" } });
    let edited = json!({ "action": "edit-accept", "editedArtifactData": edited });
    assert_eq!(after(edited), Resumption::Run { arguments: json!({ "to": "bob" }) });
    let refused = json!({ "action": "reject", "feedback": "not on a Friday" });
    assert_eq!(after(refused), Resumption::Cancel { reason: "not on a Friday".into() });
}

#[test]
fn silence_cancels_a_call_and_is_not_told_as_a_refusal() {
    let story = at_work().when(act([reply(1, &[("c1", Behaviour::Ask)])])).accepted();
    let asking = Asking { timeout_ms: Some(1000), ..Asking::default() };
    let ticket = Box::new(Ticket::permission("k".into(), call(&story, "c1"), &asking));
    let story = story.when(act([Act::Suspend { call: "c1".into(), ticket }])).accepted();
    let story = story.when(wait(ResumePolicy::AsDecided)).accepted().later(1000).when(expire(1)).accepted();
    let Resumption::Cancel { reason } = resumption(&story.next_is("enter agent"), "c1") else {
        panic!("runs")
    };
    assert!(reason.contains("no refusal"), "{reason}");
}

/// A tool asks for something itself, with an answer that must be a whole number.
pub(crate) fn tool_waits(mode: ToolCallResumeMode) -> Story {
    let story = at_work().when(act([reply(1, &[("c1", Behaviour::Allow)]), begin_call("c1")])).accepted();
    let ticket = ticket_of_tool(&story, mode);
    let story = story.when(act([Act::Suspend { call: "c1".into(), ticket }])).accepted();
    story.when(wait(ResumePolicy::AsDecided)).accepted().status_is(Status::WaitingInput)
}

/// A ticket with which the tool of the call `c1` asks bob for a number.
pub(crate) fn ticket_of_tool(story: &Story, mode: ToolCallResumeMode) -> Box<Ticket> {
    let suspension = Suspension {
        id: "s1".into(),
        action: "pick".into(),
        message: "How many?".into(),
        parameters: Value::Null,
        response_schema: Some(json!({ "type": "integer" })),
    };
    let pending = holdpoint_core::agent::PendingToolCall {
        id: "c1".into(),
        name: "send".into(),
        arguments: json!({ "to": "c1" }),
    };
    let wanted = SuspendTicket { suspension, pending, resume_mode: mode };
    let asking =
        Asking { people: crate::words::object(json!({ "approversList": ["bob"] })), ..Asking::default() };
    Box::new(Ticket::of_tool("k".into(), call(story, "c1"), &asking, &wanted))
}

#[test]
fn what_a_tool_wants_to_know_is_its_result_its_arguments_or_only_a_go() {
    use ToolCallResumeMode::{PassDecisionToTool, ReplayToolCall, UseDecisionAsToolResult};
    let bob = || holdpoint_core::Principal { name: "bob".into(), ..ada() };
    let expected = [
        (ReplayToolCall, Resumption::Run { arguments: json!({ "to": "c1" }) }),
        (UseDecisionAsToolResult, Resumption::Result(json!(3))),
        (PassDecisionToTool, Resumption::Run { arguments: json!({ "to": "c1", "decision": 3 }) }),
    ];
    for (mode, expected) in expected {
        let resume = ToolCallResume {
            decision_id: "d".into(),
            action: ResumeDecisionAction::Resume,
            result: json!(3),
            reason: None,
            updated_at: 0,
        };
        let story = tool_waits(mode);
        let value = resume.answer(story.run().interrupt(InterruptId(1)).expect("asked"));
        let story = story.when(answer_by(bob(), 1, value)).accepted();
        assert_eq!(resumption(&story, "c1"), expected);
        let cancel =
            ToolCallResume { action: ResumeDecisionAction::Cancel, reason: Some("no".into()), ..resume };
        let story = tool_waits(mode);
        let value = cancel.answer(story.run().interrupt(InterruptId(1)).expect("asked"));
        let story = story.when(answer_by(bob(), 1, value)).accepted();
        assert_eq!(resumption(&story, "c1"), Resumption::Cancel { reason: "no".into() });
    }
}

#[test]
fn an_answer_that_breaks_the_tools_schema_leaves_the_question_open() {
    let bob = || holdpoint_core::Principal { name: "bob".into(), ..ada() };
    let story = tool_waits(ToolCallResumeMode::PassDecisionToTool);
    let bad = json!({ "action": "resume", "result": "three" });
    let story = story.when(answer_by(bob(), 1, bad));
    let story = story.refused_for("resumeValue/result");
    let good = json!({ "action": "resume", "result": 3 });
    let story = story.when(answer(1, good.clone())).refused(Refusal::NotAnApprover("ada".into()));
    story.when(answer_by(bob(), 1, good)).accepted().next_is("enter agent");
}
