//! Agents: replies, suspended calls, decisions in any order, and messages that arrive in between.

use holdpoint_core::agent::{
    Agent, AgentAction, AgentStep, ApprovalSettings, Behaviour, CallPolicy, CallRequest, CallStatus, Message,
    ReplyRecord, ResumeDecisionAction, ResumePolicy, Resumption, Role, SuspendTicket, Suspension, Ticket,
    ToolCall, ToolCallError, ToolCallResume, ToolCallResumeMode, Usage,
};
use holdpoint_core::{Answer, Command, InterruptId, NodeOutcome, NodeStatus, Refusal, StartRequest, Status};
use serde_json::{Value, json};

use crate::story::{Story, on};
use crate::vocabulary::{
    accept, ada, answer, answer_by, begin, cancel, done, expire, finish, node, node_id, start_request,
    workflow,
};

pub(crate) const AGENT: &str = "agent";

pub(crate) fn user(id: &str) -> Message {
    Message::new(id, Role::User, "please")
}

pub(crate) fn act<const N: usize>(acts: [AgentAction; N]) -> Command {
    Command::Act { node: node_id(AGENT), actions: acts.into() }
}

pub(crate) fn send_message(id: &str) -> Command {
    Command::SendMessages { node: node_id(AGENT), messages: vec![user(id)] }
}

/// Returns a reply of the model to the first `seen` messages, with these calls.
pub(crate) fn reply(seen: usize, calls: &[(&str, Behaviour)]) -> AgentAction {
    let step = seen;
    let mut message = Message::new(format!("reply-{step}"), Role::Assistant, "hm");
    let call = |(id, _): &(&str, Behaviour)| CallRequest {
        id: (*id).to_owned(),
        name: "send".to_owned(),
        arguments: json!({ "to": id }),
    };
    message.calls = calls.iter().map(call).collect();
    let policy = |(_, behaviour): &(&str, Behaviour)| CallPolicy {
        behaviour: *behaviour,
        why: None,
        idempotent: false,
        client: false,
    };
    let policies = calls.iter().map(policy).collect();
    let usage = Usage { input_tokens: 3, output_tokens: 2, ..Usage::default() };
    AgentAction::Reply(Box::new(ReplyRecord {
        message,
        policies,
        usage,
        model: "m".to_owned(),
        seen,
        took_ms: None,
    }))
}

pub(crate) fn suspend(story: &Story, id: &str) -> AgentAction {
    let ticket = Ticket::permission(format!("perm:{id}"), call(story, id), &ApprovalSettings::default());
    AgentAction::Suspend { call: id.to_owned(), ticket: Box::new(ticket) }
}

pub(crate) fn begin_call(id: &str) -> AgentAction {
    AgentAction::Begin { call: id.to_owned(), arguments: None }
}

pub(crate) fn returned(id: &str) -> AgentAction {
    AgentAction::Return { call: id.to_owned(), status: CallStatus::Succeeded, content: json!("sent") }
}

pub(crate) fn wait(policy: ResumePolicy) -> Command {
    finish(AGENT, NodeOutcome::Suspended { policy })
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

/// Returns a story in which an agent has a message and has begun.
pub(crate) fn started_agent() -> Story {
    let start = StartRequest {
        messages: Some(Box::new((node_id(AGENT), vec![user("u1")]))),
        ..start_request(json!({}))
    };
    on(workflow([node(AGENT)], [])).given([Command::Start(Box::new(start)), begin(AGENT)])
}

/// Returns a story in which two calls wait for approval, as interrupts 1 and 2.
pub(crate) fn two_suspended_calls(policy: ResumePolicy) -> Story {
    let story =
        started_agent().when(act([reply(1, &[("c1", Behaviour::Ask), ("c2", Behaviour::Ask)])])).accepted();
    let asks = act([suspend(&story, "c1"), suspend(&story, "c2")]);
    story.when(asks).accepted().when(wait(policy)).accepted()
}

#[test]
fn an_agent_without_calls_replies_and_is_done() {
    let story = started_agent();
    assert_eq!(agent(&story).next_step(ResumePolicy::AsDecided), AgentStep::Model);
    let story = story.when(act([reply(1, &[])])).accepted();
    assert_eq!(agent(&story).next_step(ResumePolicy::AsDecided), AgentStep::Finish);
    assert_eq!(agent(&story).usage.total(), 5);
    story.when(done(AGENT)).accepted().status_is(Status::Completed);
}

#[test]
fn a_message_that_arrives_during_a_model_call_is_answered_before_the_agent_ends() {
    let story = started_agent().when(send_message("u2")).accepted().when(act([reply(1, &[])])).accepted();
    let story = story.when(done(AGENT)).refused(Refusal::NodeNotRunning);
    assert_eq!(agent(&story).next_step(ResumePolicy::AsDecided), AgentStep::Model);
    story.when(act([reply(3, &[])])).accepted().when(done(AGENT)).accepted().status_is(Status::Completed);
}

#[test]
fn suspended_calls_are_interrupts_and_the_run_waits_for_them() {
    let story = two_suspended_calls(ResumePolicy::AsDecided)
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
fn decisions_about_calls_wake_the_agent_in_any_order() {
    let story =
        two_suspended_calls(ResumePolicy::AsDecided).when(accept(2)).accepted().next_is("enter agent");
    assert_eq!((status(&story, "c1"), status(&story, "c2")), (CallStatus::Suspended, CallStatus::Resuming));
    let AgentStep::Calls(ready) = agent(&story).next_step(ResumePolicy::AsDecided) else {
        panic!("no calls")
    };
    assert_eq!(ready.iter().map(|call| call.id.as_str()).collect::<Vec<_>>(), ["c2"]);
    let story = story.when(act([begin_call("c2"), returned("c2")])).accepted();
    assert_eq!(agent(&story).next_step(ResumePolicy::AsDecided), AgentStep::Wait);
    story
        .when(wait(ResumePolicy::AsDecided))
        .accepted()
        .node_is(AGENT, &NodeStatus::Waiting(InterruptId(1)))
        .when(accept(1))
        .accepted()
        .next_is("enter agent");
}

#[test]
fn an_agent_that_waits_for_all_calls_is_woken_by_the_last_decision() {
    let story = two_suspended_calls(ResumePolicy::WaitAll).when(accept(2)).accepted().next_is("nothing");
    assert_eq!(agent(&story).next_step(ResumePolicy::WaitAll), AgentStep::Wait);
    let story = story.when(accept(1)).accepted().next_is("enter agent");
    let AgentStep::Calls(ready) = agent(&story).next_step(ResumePolicy::WaitAll) else { panic!("no calls") };
    assert_eq!(ready.len(), 2);
}

#[test]
fn a_decision_that_comes_before_the_agent_waits_is_not_missed() {
    let story = started_agent().when(act([reply(1, &[("c1", Behaviour::Ask)])])).accepted();
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
fn calls_end_once_and_have_only_valid_transitions() {
    let story = started_agent().when(act([reply(1, &[("c1", Behaviour::Allow)])])).accepted();
    let story = story.when(act([begin_call("c1"), returned("c1")])).accepted();
    let ended = |to| {
        Refusal::BadCall(ToolCallError::InvalidTransition {
            call: "c1".into(),
            from: CallStatus::Succeeded,
            to,
        })
    };
    let story = story.when(act([returned("c1")])).refused(ended(CallStatus::Succeeded));
    let story = story.when(act([begin_call("c1")])).refused(ended(CallStatus::Running));
    let unknown = Refusal::BadCall(ToolCallError::Unknown("c9".into()));
    story.when(act([returned("c9")])).refused(unknown);
    // A suspended call cannot begin before its decision.
    let story = two_suspended_calls(ResumePolicy::AsDecided).when(accept(1)).accepted();
    let waits = ToolCallError::InvalidTransition {
        call: "c2".into(),
        from: CallStatus::Suspended,
        to: CallStatus::Running,
    };
    story.when(act([begin_call("c2")])).refused(Refusal::BadCall(waits));
}

#[test]
fn a_reply_with_an_invalid_part_is_not_recorded() {
    let twice = [("c1", Behaviour::Ask), ("c1", Behaviour::Ask)];
    let story = started_agent().when(act([reply(1, &twice)])).refused_for("reply.calls");
    assert_eq!(agent(&story).steps, 0);
}

#[test]
fn a_repeated_decision_id_changes_nothing_and_a_conflicting_one_is_refused() {
    let named = |interrupt: u32, name: &str, value: Value| {
        let answer = Answer { decision: Some(name.to_owned()), ..Answer::new(value, ada()) };
        Command::Resolve { answers: [(InterruptId(interrupt), answer)].into() }
    };
    let yes = || json!({ "action": "accept" });
    two_suspended_calls(ResumePolicy::AsDecided)
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
fn a_new_message_cancels_suspended_calls() {
    let story =
        two_suspended_calls(ResumePolicy::WaitAll).when(send_message("u2")).accepted().next_is("enter agent");
    assert_eq!((status(&story, "c1"), status(&story, "c2")), (CallStatus::Cancelled, CallStatus::Cancelled));
    assert_eq!(story.run().open_interrupts().count(), 0);
    assert_eq!(agent(&story).next_step(ResumePolicy::WaitAll), AgentStep::Model);
    story.when(accept(1)).refused(Refusal::AlreadyResolved);
}

#[test]
fn messages_and_answers_to_a_finished_agent_are_refused() {
    let story = started_agent().when(act([reply(1, &[])])).accepted().when(done(AGENT)).accepted();
    story.when(send_message("u2")).refused(Refusal::RunFinished(Status::Completed));
    let story = two_suspended_calls(ResumePolicy::AsDecided).when(cancel()).accepted();
    story.when(accept(1)).refused(Refusal::InterruptCancelled);
}

fn resumption(story: &Story, id: &str) -> Resumption {
    let call = call(story, id);
    let asked = story.run().interrupt(call.interrupt.expect("it waited").id).expect("an interrupt");
    call.resumption(asked).expect("a decision")
}

#[test]
fn a_decision_runs_the_call_as_shown_as_edited_or_not_at_all() {
    let after = |value: Value| {
        let story = two_suspended_calls(ResumePolicy::AsDecided).when(answer(1, value)).accepted();
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
fn an_expired_interrupt_cancels_its_call_and_is_not_reported_as_a_rejection() {
    let story = started_agent().when(act([reply(1, &[("c1", Behaviour::Ask)])])).accepted();
    let settings = ApprovalSettings { timeout_ms: Some(1000), ..ApprovalSettings::default() };
    let ticket = Box::new(Ticket::permission("k".into(), call(&story, "c1"), &settings));
    let story = story.when(act([AgentAction::Suspend { call: "c1".into(), ticket }])).accepted();
    let story = story.when(wait(ResumePolicy::AsDecided)).accepted().later(1000).when(expire(1)).accepted();
    let Resumption::Cancel { reason } = resumption(&story.next_is("enter agent"), "c1") else {
        panic!("not cancelled")
    };
    assert!(reason.contains("was not refused"), "{reason}");
}

/// Returns a story in which a tool suspends its own call. The answer must be an integer.
pub(crate) fn suspended_tool(mode: ToolCallResumeMode) -> Story {
    let story =
        started_agent().when(act([reply(1, &[("c1", Behaviour::Allow)]), begin_call("c1")])).accepted();
    let ticket = tool_ticket(&story, mode);
    let story = story.when(act([AgentAction::Suspend { call: "c1".into(), ticket }])).accepted();
    story.when(wait(ResumePolicy::AsDecided)).accepted().status_is(Status::WaitingInput)
}

/// Returns the ticket of the tool of call `c1`, which requests a number from Bob.
pub(crate) fn tool_ticket(story: &Story, mode: ToolCallResumeMode) -> Box<Ticket> {
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
    let ticket = SuspendTicket { suspension, pending, resume_mode: mode };
    let settings = ApprovalSettings {
        people: crate::vocabulary::object(json!({ "approversList": ["bob"] })),
        ..ApprovalSettings::default()
    };
    Box::new(Ticket::tool_suspension("k".into(), call(story, "c1"), &settings, &ticket))
}

#[test]
fn the_answer_to_a_tool_is_its_result_an_argument_or_only_a_permission() {
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
        let story = suspended_tool(mode);
        let value = resume.answer(story.run().interrupt(InterruptId(1)).expect("an interrupt"));
        let story = story.when(answer_by(bob(), 1, value)).accepted();
        assert_eq!(resumption(&story, "c1"), expected);
        let cancel =
            ToolCallResume { action: ResumeDecisionAction::Cancel, reason: Some("no".into()), ..resume };
        let story = suspended_tool(mode);
        let value = cancel.answer(story.run().interrupt(InterruptId(1)).expect("an interrupt"));
        let story = story.when(answer_by(bob(), 1, value)).accepted();
        assert_eq!(resumption(&story, "c1"), Resumption::Cancel { reason: "no".into() });
    }
}

#[test]
fn an_answer_that_violates_the_schema_of_the_tool_leaves_the_interrupt_open() {
    let bob = || holdpoint_core::Principal { name: "bob".into(), ..ada() };
    let story = suspended_tool(ToolCallResumeMode::PassDecisionToTool);
    let bad = json!({ "action": "resume", "result": "three" });
    let story = story.when(answer_by(bob(), 1, bad));
    let story = story.refused_for("resumeValue/result");
    let good = json!({ "action": "resume", "result": 3 });
    let story = story.when(answer(1, good.clone())).refused(Refusal::NotAnApprover("ada".into()));
    story.when(answer_by(bob(), 1, good)).accepted().next_is("enter agent");
}
