//! Tool calls that are workflows: a child run executes each call, and the agent waits for all of them at the same time.

use holdpoint_core::agent::{AgentAction, AgentStep, Behaviour, CallStatus, ResumePolicy, ToolCallError};
use holdpoint_core::{
    ChildInterruptChanges, ChildResult, Command, Event, InterruptId, NodeOutcome, NodeStatus, Obligation,
    Parent, Refusal, RunError, RunId, StartRequest, Status, WorkflowId, limits,
};
use serde_json::json;

use crate::agents::{AGENT, act, agent, reply, returned, send_message, started_agent, status, suspend, wait};
use crate::story::{Story, on};
use crate::vocabulary::{accept, begin, cancel, finish, node, node_id, object, start_request, workflow};

const AS_DECIDED: ResumePolicy = ResumePolicy::AsDecided;

fn run(n: usize) -> RunId {
    RunId::parse(&format!("run-1.{n}")).expect("a run id")
}

fn refund() -> WorkflowId {
    WorkflowId::parse("refund").expect("a workflow id")
}

fn start_run(call: &str) -> AgentAction {
    AgentAction::StartRun { call: call.to_owned(), workflow: refund(), arguments: None }
}

fn run_started_for(n: usize, call: &str) -> [Event; 2] {
    [
        Event::ToolBegun { node: node_id(AGENT), call: call.to_owned(), arguments: None, uses: Vec::new() },
        Event::NodeDispatched {
            node: node_id(AGENT),
            child: run(n),
            workflow: refund(),
            inputs: object(json!({ "to": call })),
            wait: true,
            cascade: true,
            call: Some(call.to_owned()),
        },
    ]
}

fn child_update(n: usize, status: Status) -> Command {
    Command::Child { child: run(n), status, interrupts: ChildInterruptChanges::default(), result: None }
}

fn child_ended(n: usize, status: Status) -> Command {
    Command::Child {
        child: run(n),
        status,
        interrupts: ChildInterruptChanges::default(),
        result: Some(ChildResult::default()),
    }
}

/// Returns a story in which the model requests two calls that are allowed without approval.
fn two_calls() -> Story {
    started_agent().when(act([reply(1, &[("c1", Behaviour::Allow), ("c2", Behaviour::Allow)])])).accepted()
}

/// Returns a story in which child runs execute both calls and the agent waits.
fn two_runs() -> Story {
    two_calls().when(act([start_run("c1"), start_run("c2")])).accepted().when(wait(AS_DECIDED)).accepted()
}

#[test]
fn a_call_begins_with_the_start_of_its_run() {
    let story = two_calls()
        .when(act([start_run("c1"), start_run("c2")]))
        .then([run_started_for(1, "c1"), run_started_for(2, "c2")].concat())
        .obliges([1, 2].map(|n| Obligation::StartChild { child: run(n) }))
        .next_is("enter agent");
    assert_eq!((status(&story, "c1"), status(&story, "c2")), (CallStatus::Running, CallStatus::Running));
    assert_eq!(agent(&story).next_step(AS_DECIDED), AgentStep::Wait);
    let again = ToolCallError::InvalidTransition {
        call: "c1".into(),
        from: CallStatus::Running,
        to: CallStatus::Running,
    };
    story
        .when(act([start_run("c1")]))
        .refused(Refusal::BadCall(again))
        .when(wait(AS_DECIDED))
        .then([Event::NodeAwaiting { node: node_id(AGENT), child: run(1) }])
        .node_is(AGENT, &NodeStatus::Awaiting(run(1)))
        .status_is(Status::Running)
        .next_is("nothing");
}

#[test]
fn the_run_of_an_agent_shows_the_waiting_status_of_its_child_runs() {
    two_runs()
        .when(child_update(2, Status::WaitingApproval))
        .accepted()
        .status_is(Status::WaitingApproval)
        .given([child_update(2, Status::Running)])
        .status_is(Status::Running);
}

#[test]
fn the_end_of_any_child_run_wakes_the_agent_and_the_others_continue() {
    let story = two_runs()
        .when(child_ended(2, Status::Completed))
        .accepted()
        .obliges([Obligation::Activate])
        .next_is("enter agent");
    let AgentStep::Calls(ready) = agent(&story).next_step(AS_DECIDED) else { panic!("no calls") };
    assert_eq!(ready.iter().map(|call| call.id.as_str()).collect::<Vec<_>>(), ["c2"]);
    assert!(!ready[0].has_unknown_outcome());
    let story = story.when(act([returned("c2")])).accepted().obliges([]);
    assert_eq!(agent(&story).next_step(AS_DECIDED), AgentStep::Wait);
    let story = story.when(wait(AS_DECIDED)).accepted().when(child_ended(1, Status::Failed)).accepted();
    let story = story.when(act([returned("c1")])).accepted();
    assert_eq!(agent(&story).next_step(AS_DECIDED), AgentStep::Model);
}

#[test]
fn a_child_run_that_ends_before_the_agent_waits_is_not_missed() {
    two_calls()
        .given([act([start_run("c1"), start_run("c2")])])
        .when(child_ended(2, Status::Completed))
        .accepted()
        .when(wait(AS_DECIDED))
        .refused(Refusal::NodeNotRunning)
        .next_is("enter agent");
}

#[test]
fn an_agent_waits_for_interrupts_and_child_runs_at_the_same_time() {
    for policy in [AS_DECIDED, ResumePolicy::WaitAll] {
        let mixed = || {
            let calls = [("c1", Behaviour::Ask), ("c2", Behaviour::Allow)];
            let story = started_agent().when(act([reply(1, &calls)])).accepted();
            let acts = act([suspend(&story, "c1"), start_run("c2")]);
            story.when(acts).accepted().when(wait(policy)).accepted()
        };
        mixed()
            .node_is(AGENT, &NodeStatus::Waiting(InterruptId(1)))
            .when(child_ended(1, Status::Completed))
            .accepted()
            .obliges([Obligation::Activate])
            .next_is("enter agent")
            .given([act([returned("c2")])])
            .when(wait(policy))
            .accepted()
            .node_is(AGENT, &NodeStatus::Waiting(InterruptId(1)));
        let story = mixed().when(accept(1)).accepted().next_is("enter agent");
        let AgentStep::Calls(ready) = agent(&story).next_step(policy) else { panic!("no calls") };
        assert_eq!(ready[0].id, "c1");
        // The decided call comes first, although the child run has not ended.
        story.when(wait(policy)).refused(Refusal::NodeNotRunning);
    }
}

#[test]
fn a_new_message_cancels_child_runs_of_calls() {
    let story = two_runs().given([child_ended(1, Status::Completed)]);
    let story = story
        .when(send_message("u2"))
        .accepted()
        .obliges([Obligation::CancelChild { child: run(2) }, Obligation::Activate]);
    // The call whose run ended before keeps its result.
    assert_eq!((status(&story, "c1"), status(&story, "c2")), (CallStatus::Running, CallStatus::Cancelled));
    let story = two_runs().when(send_message("u2")).accepted().next_is("enter agent");
    assert_eq!(agent(&story).next_step(AS_DECIDED), AgentStep::Model);
    let known = story.run().child(&run(2)).expect("a child");
    assert_eq!((known.status, known.abandoned), (Status::Cancelled, true));
    story.when(child_ended(2, Status::Completed)).then([]);
}

#[test]
fn child_runs_of_calls_are_cancelled_when_the_agent_ends() {
    let cancelled = [1, 2].map(|n| Obligation::CancelChild { child: run(n) });
    two_runs().when(cancel()).accepted().obliges(cancelled.clone());
    let denied = NodeOutcome::Failed(RunError::new("tool_denied", "no"));
    let story = two_calls().given([act([start_run("c1"), start_run("c2")])]);
    story.when(finish(AGENT, denied)).accepted().obliges(cancelled).status_is(Status::Failed);
}

#[test]
fn a_child_run_that_would_be_nested_too_deeply_fails_its_call_not_the_agent() {
    let parent = Parent {
        run: RunId::parse("top").expect("a run id"),
        workflow: refund(),
        node: node_id("call"),
        depth: limits::CHILD_DEPTH_MAX,
        above: Vec::new(),
    };
    let start = StartRequest { parent: Some(parent), ..start_request(json!({})) };
    let story = on(workflow([node(AGENT)], [])).given([Command::Start(Box::new(start)), begin(AGENT)]);
    let story = story.when(act([reply(0, &[("c1", Behaviour::Allow)]), start_run("c1")])).accepted();
    assert_eq!(status(&story, "c1"), CallStatus::Failed);
    let result = agent(&story).messages.last().expect("a result").content.to_string();
    assert!(result.contains("too_deep"), "{result}");
    assert!(story.run().children.is_empty());
}
