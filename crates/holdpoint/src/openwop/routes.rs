//! The protocol's routes.

use std::sync::LazyLock;

use super::{
    arrivals, artifacts, control, debug_bundle, discovery, events, forks, interrupts, runs, workflows,
};
use crate::routes::Content::{Events, Json};
use crate::routes::Route;

pub(crate) fn all() -> Vec<Route> {
    [public(), definitions(), of_runs(), control_of_runs(), made(), reading(), answering()]
        .into_iter()
        .flatten()
        .collect()
}

/// Whether there is such an operation. Discovery tells of nothing that has no route.
pub(super) fn has(id: &str) -> bool {
    static IDS: LazyLock<Vec<&str>> =
        LazyLock::new(|| all().into_iter().map(|route| route.operation.id).collect());
    IDS.contains(&id)
}

fn public() -> Vec<Route> {
    vec![
        Route::get_public("/.well-known/openwop", "discover", discovery::document)
            .says("What this server can do")
            .answers(200, Json("Discovery")),
        Route::get_public("/.well-known/wop", "discoverByOldName", discovery::document)
            .says("The same document, where older clients look for it")
            .answers(200, Json("Discovery")),
    ]
}

fn definitions() -> Vec<Route> {
    vec![
        Route::get("/v1/workflows", "listWorkflows", workflows::list)
            .says("The registered workflows, by id")
            .answers(200, Json("Workflows")),
        Route::get("/v1/workflows/{workflowId}", "getWorkflow", workflows::show)
            .says("The latest revision of a definition, as it was registered")
            .answers(200, Json("WorkflowDefinition")),
        Route::put("/v1/workflows/{workflowId}", "putWorkflow", workflows::put)
            .says("Register a definition; the same one again changes nothing")
            .body("WorkflowDefinition")
            .answers(200, Json("WorkflowRegistered"))
            .answers(201, Json("WorkflowRegistered"))
            .never_fails(&[404]),
    ]
}

fn of_runs() -> Vec<Route> {
    vec![
        Route::post("/v1/runs", "createRun", runs::create)
            .says("Start a run")
            .body("CreateRun")
            .takes(&["X-Dedup", "traceparent"])
            .answers(201, Json("RunCreated")),
        Route::get("/v1/runs", "listRuns", runs::list)
            .says("Runs, newest first")
            .takes(&[
                "limit",
                "cursor",
                "runStatus",
                "workflowId",
                "scopeId",
                "parentRunId",
                "tag",
                "createdAfter",
                "createdBefore",
            ])
            .answers(200, Json("Runs")),
        Route::get("/v1/runs/{runId}", "getRun", runs::show)
            .says("A run as it is now")
            .answers(200, Json("RunSnapshot")),
    ]
}

fn control_of_runs() -> Vec<Route> {
    vec![
        Route::post("/v1/runs/{runId}/cancel", "cancelRun", control::cancel)
            .says("Cancel a run and the runs it started; one that has ended stays as it is")
            .optional_body("CancelRun")
            .answers(200, Json("RunStatusNow"))
            .fails(&[409, 422]),
        Route::post("/v1/runs:bulk-cancel", "bulkCancel", control::bulk_cancel)
            .says("Cancel up to 100 runs; what came of each is told in the same order")
            .body("BulkCancel")
            .answers(200, Json("BulkCancelled"))
            .fails(&[409]),
        Route::post("/v1/runs/{runId}:pause", "pauseRun", control::pause)
            .says("Let a run stand still: nothing new begins")
            .optional_body("PauseRun")
            .answers(202, Json("RunPaused"))
            .fails(&[409]),
        Route::post("/v1/runs/{runId}:resume", "resumeRun", control::resume)
            .says("Let a paused run go on")
            .optional_body("ResumeRun")
            .answers(202, Json("RunResumed"))
            .fails(&[409]),
        Route::post("/v1/runs/{runId}:fork", "forkRun", forks::fork)
            .says("Start a run from the record of another: a replay of it, or a branch that goes its own way")
            .body("ForkRun")
            .answers(201, Json("RunForked"))
            .fails(&[409, 422]),
    ]
}

fn made() -> Vec<Route> {
    vec![
        Route::get("/v1/runs/{runId}/artifacts/{artifactId}", "getArtifact", artifacts::show)
            .says("What a node with an artifact type has made")
            .answers(200, Json("Artifact")),
        Route::get("/v1/runs/{runId}/debug-bundle", "getDebugBundle", debug_bundle::show)
            .says("Everything about one run in one document")
            .answers(200, Json("DebugBundle")),
    ]
}

fn reading() -> Vec<Route> {
    vec![
        Route::get("/v1/runs/{runId}/events", "streamEvents", events::stream)
            .says("The log of a run as server-sent events, until the run ends; or as a list, where JSON is preferred")
            .takes(&["streamMode", "bufferMs", "Last-Event-ID"])
            .answers(200, Events("StreamedEvent"))
            .answers(200, Json("EventList")),
        Route::get("/v1/runs/{runId}/events/poll", "pollEvents", events::poll)
            .says("The log of a run after a sequence number; waits for news")
            .takes(&["streamMode", "lastSequence", "timeout"])
            .answers(200, Json("EventPage")),
    ]
}

fn answering() -> Vec<Route> {
    vec![
        Route::get("/v1/interrupts", "listPending", interrupts::pending)
            .says("What waits for an answer, oldest first")
            .takes(&["limit", "cursor"])
            .answers(200, Json("PendingInterrupts")),
        Route::post("/v1/runs/{runId}/interrupts/{nodeId}", "resolveInterrupt", interrupts::resolve)
            .says("Answer what a node asks; the first answer counts")
            .body("ResolveInterrupt")
            .answers(200, Json("InterruptResolved"))
            .fails(&[410, 422]),
        Route::post("/v1/events", "sendEvent", arrivals::send)
            .says("Tell of something that happened: whoever waits for it goes on, or it is kept; once for each id")
            .body("SendEvent")
            .answers(200, Json("EventReceived"))
            .answers(202, Json("EventReceived"))
            .fails(&[409])
            .never_fails(&[404]),
    ]
}
