//! The routes of OpenWOP.

use std::sync::LazyLock;

use holdpoint_api::Page;
use holdpoint_api::arrivals::{EventReceived, SendEvent};
use holdpoint_api::artifacts::{Artifact, DebugBundle, ShowDebugBundle};
use holdpoint_api::discovery::Discovery;
use holdpoint_api::events::{
    After, EventList, EventPage, LastCursor, LastEventId, PollEvents, StreamEvents, StreamedEvent,
    StreamedThreadEvent, ThreadEvents,
};
use holdpoint_api::interrupts::{
    AnswerAsk, AskAnswered, AskList, InterruptHistory, InterruptQuery, InterruptResolved, ResolveApproval,
    ResolveInterrupt,
};
use holdpoint_api::links::{LinkedInterrupt, MintToken, TokenMinted};
use holdpoint_api::pending::{
    ListPending, PendingCounts, PendingInterrupts, StreamPending, StreamedPendingCounts,
};
use holdpoint_api::runs::{
    BulkCancel, BulkCancelled, CancelRun, CreateRun, ForkRun, ListRuns, PauseRun, ResumeRun, RunCreated,
    RunForked, RunList, RunPaused, RunResumed, RunStatusNow, StartRunHeaders,
};
use holdpoint_api::snapshot::RunSnapshot;
use holdpoint_api::workflows::{WorkflowDefinition, WorkflowList, WorkflowRegistered};

use super::{
    approvals, artifacts, control, debug_bundle, discovery, events, external_events, forks, history,
    interrupts, links, pending, runs, side_questions, threads, triggers, webhooks, workflows,
};
use crate::routes::Route;

pub(crate) fn all() -> Vec<Route> {
    [
        public_routes(),
        workflow_routes(),
        run_routes(),
        run_control_routes(),
        output_routes(),
        event_routes(),
        interrupt_routes(),
        link_routes(),
        webhooks::routes::all(),
        triggers::routes::all(),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// Returns whether an operation exists. Discovery lists only features with a route.
pub(super) fn has_operation(id: &str) -> bool {
    static IDS: LazyLock<Vec<&str>> =
        LazyLock::new(|| all().into_iter().map(|route| route.operation.id).collect());
    IDS.contains(&id)
}

fn public_routes() -> Vec<Route> {
    vec![
        Route::get_public("/.well-known/openwop", "discover", discovery::document)
            .summary("Get the features of this server")
            .response::<Discovery>(200),
        Route::get_public("/.well-known/wop", "discoverByOldName", discovery::document)
            .summary("Get the discovery document at its earlier address")
            .response::<Discovery>(200),
    ]
}

fn workflow_routes() -> Vec<Route> {
    vec![
        Route::get("/v1/workflows", "listWorkflows", workflows::list)
            .summary("List the registered workflows, by id")
            .response::<WorkflowList>(200),
        Route::get("/v1/workflows/{workflowId}", "getWorkflow", workflows::show)
            .summary("Get the latest revision of a definition, as it was registered")
            .response::<WorkflowDefinition>(200),
        Route::put("/v1/workflows/{workflowId}", "putWorkflow", workflows::put)
            .summary("Register a definition; registering the same one again has no effect")
            .body::<WorkflowDefinition>()
            .response::<WorkflowRegistered>(200)
            .response::<WorkflowRegistered>(201)
            .without_errors(&[404])
            .errors(&[422]),
    ]
}

fn run_routes() -> Vec<Route> {
    vec![
        Route::post("/v1/runs", "createRun", runs::create)
            .summary("Start a run")
            .body::<CreateRun>()
            .headers::<StartRunHeaders>()
            .response::<RunCreated>(201)
            .errors(&[422]),
        Route::get("/v1/runs", "listRuns", runs::list)
            .summary("List runs, newest first")
            .query::<Page>()
            .query::<ListRuns>()
            .response::<RunList>(200),
        Route::get("/v1/runs/{runId}", "getRun", runs::show)
            .summary("Get a run")
            .response::<RunSnapshot<'_>>(200),
    ]
}

fn run_control_routes() -> Vec<Route> {
    vec![
        Route::post("/v1/runs/{runId}/cancel", "cancelRun", control::cancel)
            .summary("Cancel a run and the runs that it started; a run that has ended does not change")
            .optional_body::<CancelRun>()
            .response::<RunStatusNow>(200)
            .errors(&[409, 422]),
        Route::post("/v1/runs:bulk-cancel", "bulkCancel", control::bulk_cancel)
            .summary("Cancel up to 100 runs; the results are in the order of the request")
            .body::<BulkCancel>()
            .response::<BulkCancelled>(200)
            .errors(&[409]),
        Route::post("/v1/runs/{runId}:pause", "pauseRun", control::pause)
            .summary("Pause a run")
            .optional_body::<PauseRun>()
            .response::<RunPaused>(202)
            .errors(&[409]),
        Route::post("/v1/runs/{runId}:resume", "resumeRun", control::resume)
            .summary("Resume a paused run")
            .optional_body::<ResumeRun>()
            .response::<RunResumed>(202)
            .errors(&[409]),
        Route::post("/v1/runs/{runId}:fork", "forkRun", forks::fork)
            .summary("Start a run from the log of another: a replay or a branch")
            .body::<ForkRun>()
            .response::<RunForked>(201)
            .errors(&[409, 422]),
    ]
}

fn output_routes() -> Vec<Route> {
    vec![
        Route::get("/v1/runs/{runId}/artifacts/{artifactId}", "getArtifact", artifacts::show)
            .summary("Get the output of a node with an artifact type")
            .response::<Artifact<'_>>(200),
        Route::get("/v1/runs/{runId}/debug-bundle", "getDebugBundle", debug_bundle::show)
            .summary("Get the debug bundle of a run")
            .query::<ShowDebugBundle>()
            .response::<DebugBundle>(200),
    ]
}

fn event_routes() -> Vec<Route> {
    vec![
        Route::get("/v1/runs/{runId}/events", "streamEvents", events::stream)
            .summary("Stream the events of a run until it ends, or list them if the client accepts JSON")
            .query::<StreamEvents>()
            .headers::<LastEventId>()
            .event_stream::<StreamedEvent>(200)
            .response::<EventList>(200),
        Route::get("/v1/runs/{runId}/events/poll", "pollEvents", events::poll)
            .summary("List the events of a run after a sequence number; waits for new events")
            .query::<PollEvents>()
            .response::<EventPage>(200),
        Route::get("/v1/threads/{threadId}/events", "listThreadEvents", threads::events)
            .summary("List the events of all runs of a thread in the order of writing, or stream them")
            .query::<Page>()
            .query::<After>()
            .headers::<LastCursor>()
            .response::<ThreadEvents>(200)
            .event_stream::<StreamedThreadEvent>(200),
    ]
}

fn interrupt_routes() -> Vec<Route> {
    vec![
        Route::get("/v1/interrupts", "listPending", pending::list)
            .summary("List pending interrupts, oldest first; a short page may have a next one")
            .query::<Page>()
            .query::<ListPending>()
            .response::<PendingInterrupts<'_>>(200),
        Route::get("/v1/interrupts:counts", "countPending", pending::counts)
            .summary("Count pending interrupts, at most 10,000; isComplete is false if there are more")
            .query::<ListPending>()
            .response::<PendingCounts>(200),
        Route::get("/v1/interrupts/stream", "streamPending", pending::stream::stream)
            .summary("Stream the counts of pending interrupts: at once and after each change")
            .query::<ListPending>()
            .query::<StreamPending>()
            .event_stream::<StreamedPendingCounts>(200),
        Route::get("/v1/runs/{runId}/interrupts", "listInterrupts", history::list)
            .summary("List the interrupts of a run with votes, side questions and decisions")
            .query::<Page>()
            .response::<InterruptHistory<'_>>(200),
        Route::get("/v1/runs/{runId}/interrupts/{nodeId}/asks", "listAsks", side_questions::list)
            .summary("List the side questions of an interrupt")
            .query::<InterruptQuery>()
            .response::<AskList>(200)
            .errors(&[409]),
        Route::post("/v1/runs/{runId}/interrupts/{nodeId}/asks/{askId}", "answerAsk", side_questions::answer)
            .summary("Answer a side question; the first answer counts")
            .query::<InterruptQuery>()
            .body::<AnswerAsk>()
            .response::<AskAnswered>(200)
            .errors(&[409, 410, 422]),
        Route::post("/v1/runs/{runId}/interrupts/{nodeId}", "resolveInterrupt", interrupts::resolve)
            .summary("Answer an interrupt; the first answer counts")
            .query::<InterruptQuery>()
            .body::<ResolveInterrupt>()
            .response::<InterruptResolved>(200)
            .errors(&[410, 422]),
        Route::post("/v1/runs/{runId}/approvals/{nodeId}", "resolveApproval", approvals::resolve)
            .summary("Answer an approval in the form of older clients; use resolveInterrupt")
            .deprecated()
            .query::<InterruptQuery>()
            .body::<ResolveApproval>()
            .response::<InterruptResolved>(200)
            .errors(&[410, 422]),
        Route::post("/v1/events", "sendEvent", external_events::send)
            .summary(
                "Send an external event; it resolves matching interrupts or is kept; each id has one effect",
            )
            .body::<SendEvent>()
            .response::<EventReceived>(200)
            .response::<EventReceived>(202)
            .errors(&[409])
            .without_errors(&[404]),
    ]
}

fn link_routes() -> Vec<Route> {
    vec![
        Route::post("/v1/runs/{runId}/interrupts/{nodeId}/tokens", "mintToken", links::mint)
            .summary("Create a link that shows an interrupt and answers it without a key")
            .query::<InterruptQuery>()
            .optional_body::<MintToken>()
            .response::<TokenMinted>(201)
            .errors(&[409, 410, 422]),
        Route::get_public("/v1/interrupts/{token}", "inspectByToken", links::inspect)
            .summary("Get the interrupt of a link")
            .response::<LinkedInterrupt<'_>>(200)
            .errors(&[409, 410, 429, 500, 503])
            .without_errors(&[400]),
        Route::post_public("/v1/interrupts/{token}", "resolveByToken", links::resolve)
            .summary("Answer an interrupt with a link; the first answer counts")
            .body::<ResolveInterrupt>()
            .response::<InterruptResolved>(200)
            .errors(&[401, 403, 409, 410, 422, 429, 500, 503]),
    ]
}
