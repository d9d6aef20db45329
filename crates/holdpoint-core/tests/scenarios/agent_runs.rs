//! Calls of agents that are workflows: a run carries each of them out, and the agent waits for all of them at once.

use holdpoint_core::agent::{Act, Behaviour, CallFlaw, CallStatus, Next, ResumePolicy};
use holdpoint_core::{
    ChildResult, Command, Event, InterruptId, NodeStatus, Obligation, Outcome, Parent, Refusal, RunError,
    RunId, Start, Status, WorkflowId, limits,
};
use serde_json::json;

use crate::agents::{AGENT, act, agent, at_work, reply, returned, say, status, suspend, wait};
use crate::story::{Story, on};
use crate::words::{accept, begin, cancel, finish, node, node_id, object, start_of, workflow};

const AS_DECIDED: ResumePolicy = ResumePolicy::AsDecided;

fn run(n: usize) -> RunId {
    RunId::parse(&format!("run-1.{n}")).expect("a run id")
}

fn refund() -> WorkflowId {
    WorkflowId::parse("refund").expect("a workflow id")
}

fn begin_run(call: &str) -> Act {
    Act::Start { call: call.to_owned(), workflow: refund(), arguments: None }
}

fn started(n: usize, call: &str) -> [Event; 2] {
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

fn news(n: usize, status: Status) -> Command {
    Command::Child { child: run(n), status, result: None }
}

fn ended(n: usize, status: Status) -> Command {
    Command::Child { child: run(n), status, result: Some(ChildResult::default()) }
}

/// An agent whose model wants two calls that nobody needs to be asked about.
fn two_calls() -> Story {
    at_work().when(act([reply(1, &[("c1", Behaviour::Allow), ("c2", Behaviour::Allow)])])).accepted()
}

/// Both calls are carried out by runs, and the agent waits.
fn two_runs() -> Story {
    two_calls().when(act([begin_run("c1"), begin_run("c2")])).accepted().when(wait(AS_DECIDED)).accepted()
}

#[test]
fn a_call_begins_with_the_start_of_its_run() {
    let story = two_calls()
        .when(act([begin_run("c1"), begin_run("c2")]))
        .then([started(1, "c1"), started(2, "c2")].concat())
        .obliges([1, 2].map(|n| Obligation::StartChild { child: run(n) }))
        .next_is("enter agent");
    assert_eq!((status(&story, "c1"), status(&story, "c2")), (CallStatus::Running, CallStatus::Running));
    assert_eq!(agent(&story).next(AS_DECIDED), Next::Wait);
    let again = CallFlaw::Illegal { call: "c1".into(), from: CallStatus::Running, to: CallStatus::Running };
    story
        .when(act([begin_run("c1")]))
        .refused(Refusal::BadCall(again))
        .when(wait(AS_DECIDED))
        .then([Event::NodeAwaiting { node: node_id(AGENT), child: run(1) }])
        .node_is(AGENT, &NodeStatus::Awaiting(run(1)))
        .status_is(Status::Running)
        .next_is("nothing");
}

#[test]
fn an_agent_shows_what_its_runs_wait_for_whichever_it_is() {
    two_runs()
        .when(news(2, Status::WaitingApproval))
        .accepted()
        .status_is(Status::WaitingApproval)
        .given([news(2, Status::Running)])
        .status_is(Status::Running);
}

#[test]
fn the_end_of_any_run_wakes_the_agent_and_the_others_go_on() {
    let story = two_runs()
        .when(ended(2, Status::Completed))
        .accepted()
        .obliges([Obligation::Activate])
        .next_is("enter agent");
    let Next::Calls(ready) = agent(&story).next(AS_DECIDED) else { panic!("nothing to do") };
    assert_eq!(ready.iter().map(|call| call.id.as_str()).collect::<Vec<_>>(), ["c2"]);
    assert!(!ready[0].is_in_doubt());
    let story = story.when(act([returned("c2")])).accepted().obliges([]);
    assert_eq!(agent(&story).next(AS_DECIDED), Next::Wait);
    let story = story.when(wait(AS_DECIDED)).accepted().when(ended(1, Status::Failed)).accepted();
    let story = story.when(act([returned("c1")])).accepted();
    assert_eq!(agent(&story).next(AS_DECIDED), Next::Model);
}

#[test]
fn an_end_that_comes_before_the_agent_waits_is_not_missed() {
    two_calls()
        .given([act([begin_run("c1"), begin_run("c2")])])
        .when(ended(2, Status::Completed))
        .accepted()
        .when(wait(AS_DECIDED))
        .refused(Refusal::NodeNotRunning)
        .next_is("enter agent");
}

#[test]
fn an_agent_waits_for_people_and_runs_at_once() {
    for policy in [AS_DECIDED, ResumePolicy::WaitAll] {
        let mixed = || {
            let calls = [("c1", Behaviour::Ask), ("c2", Behaviour::Allow)];
            let story = at_work().when(act([reply(1, &calls)])).accepted();
            let acts = act([suspend(&story, "c1"), begin_run("c2")]);
            story.when(acts).accepted().when(wait(policy)).accepted()
        };
        mixed()
            .node_is(AGENT, &NodeStatus::Waiting(InterruptId(1)))
            .when(ended(1, Status::Completed))
            .accepted()
            .obliges([Obligation::Activate])
            .next_is("enter agent")
            .given([act([returned("c2")])])
            .when(wait(policy))
            .accepted()
            .node_is(AGENT, &NodeStatus::Waiting(InterruptId(1)));
        let story = mixed().when(accept(1)).accepted().next_is("enter agent");
        let Next::Calls(ready) = agent(&story).next(policy) else { panic!("nothing to do") };
        assert_eq!(ready[0].id, "c1");
        // The decision is carried out first, however long the run takes.
        story.when(wait(policy)).refused(Refusal::NodeNotRunning);
    }
}

#[test]
fn going_on_talking_cancels_runs_that_carry_out_calls() {
    let story = two_runs().given([ended(1, Status::Completed)]);
    let story = story
        .when(say("u2"))
        .accepted()
        .obliges([Obligation::CancelChild { child: run(2) }, Obligation::Activate]);
    // What came to its end before is still told.
    assert_eq!((status(&story, "c1"), status(&story, "c2")), (CallStatus::Running, CallStatus::Cancelled));
    let story = two_runs().when(say("u2")).accepted().next_is("enter agent");
    assert_eq!(agent(&story).next(AS_DECIDED), Next::Model);
    let known = story.run().child(&run(2)).expect("a child");
    assert_eq!((known.status, known.given_up), (Status::Cancelled, true));
    story.when(ended(2, Status::Completed)).then([]);
}

#[test]
fn runs_that_carry_out_calls_end_with_their_agent() {
    let owed = [1, 2].map(|n| Obligation::CancelChild { child: run(n) });
    two_runs().when(cancel()).accepted().obliges(owed.clone());
    let denied = Outcome::Failed(RunError::new("tool_denied", "no"));
    let story = two_calls().given([act([begin_run("c1"), begin_run("c2")])]);
    story.when(finish(AGENT, denied)).accepted().obliges(owed).status_is(Status::Failed);
}

#[test]
fn a_run_that_would_be_too_deep_fails_its_call_and_not_the_agent() {
    let parent = Parent {
        run: RunId::parse("top").expect("a run id"),
        workflow: refund(),
        node: node_id("call"),
        depth: limits::CHILD_DEPTH_MAX,
    };
    let start = Start { parent: Some(parent), ..start_of(json!({})) };
    let story = on(workflow([node(AGENT)], [])).given([Command::Start(Box::new(start)), begin(AGENT)]);
    let story = story.when(act([reply(0, &[("c1", Behaviour::Allow)]), begin_run("c1")])).accepted();
    assert_eq!(status(&story, "c1"), CallStatus::Failed);
    let told = agent(&story).messages.last().expect("a result").content.to_string();
    assert!(told.contains("too_deep"), "{told}");
    assert!(story.run().children.is_empty());
}
