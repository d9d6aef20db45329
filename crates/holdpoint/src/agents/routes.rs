//! The routes of agents, their threads and their calls.

use holdpoint_api::Page;
use holdpoint_api::agents::{
    Agent, AgentDefinition, AgentList, AgentRegistered, CancelThread, InterruptThread, MessageAccepted,
    MessageList, SayInThread, StartAgent, TellRun, ThreadInterrupted, ThreadRunNow, ThreadRuns,
};
use holdpoint_api::decisions::{CallDecided, DecideCall, RunWaitingState};
use holdpoint_api::events::After;

use super::{decisions, definitions, runs, threads};
use crate::routes::Route;

pub(crate) fn all() -> Vec<Route> {
    [definition_routes(), run_routes(), thread_routes(), thread_run_routes()].into_iter().flatten().collect()
}

fn definition_routes() -> Vec<Route> {
    vec![
        Route::get("/v1/agents", "listAgents", definitions::list)
            .summary("List the agents, by id")
            .response::<AgentList>(200),
        Route::get("/v1/agents/{agentId}", "getAgent", definitions::show)
            .summary("Get the latest revision of an agent")
            .response::<Agent>(200),
        Route::put("/v1/agents/{agentId}", "putAgent", definitions::put)
            .summary("Register an agent; the same definition again has no effect")
            .body::<AgentDefinition>()
            .response::<AgentRegistered>(200)
            .response::<AgentRegistered>(201)
            .without_errors(&[404])
            .errors(&[422]),
    ]
}

fn run_routes() -> Vec<Route> {
    vec![
        Route::post("/v1/agents/{agentId}/runs", "startAgent", runs::start)
            .summary("Start a run of an agent; rejected while the thread has an open run")
            .body::<StartAgent>()
            .response::<MessageAccepted>(202)
            .errors(&[422]),
        Route::post("/v1/runs/{runId}/inputs", "tellRun", runs::tell)
            .summary("Send messages to the agent of a run; calls that wait for a decision are withdrawn")
            .body::<TellRun>()
            .response::<MessageAccepted>(202),
        Route::post("/v1/runs/{runId}/decision", "decideCall", decisions::decide)
            .summary("Decide about a tool call; the first decision counts")
            .body::<DecideCall>()
            .response::<CallDecided>(202),
        Route::get("/v1/runs/{runId}/waiting", "getWaiting", runs::wait)
            .summary("Get the reason for which a run waits; 404 if it does not wait")
            .response::<RunWaitingState>(200),
    ]
}

fn thread_routes() -> Vec<Route> {
    vec![
        Route::post("/v1/threads/{threadId}/messages", "sayInThread", threads::say)
            .summary("Send messages to the open run of a thread, or start a run")
            .body::<SayInThread>()
            .response::<MessageAccepted>(202)
            .errors(&[422]),
        Route::get("/v1/threads/{threadId}/messages", "listMessages", threads::messages)
            .summary("List the messages of a thread, oldest first")
            .query::<Page>()
            .query::<After>()
            .response::<MessageList>(200)
            .without_errors(&[404]),
        Route::post("/v1/threads/{threadId}/interrupt", "interruptThread", threads::interrupt)
            .summary("Cancel the open run of a thread and its queued dispatches")
            .optional_body::<InterruptThread>()
            .response::<ThreadInterrupted>(200)
            .without_errors(&[404]),
        Route::post("/v1/threads/{threadId}/cancel", "cancelThread", threads::cancel)
            .summary("Cancel the open run of a thread")
            .optional_body::<CancelThread>()
            .response::<MessageAccepted>(200)
            .errors(&[422]),
        Route::post("/v1/threads/{threadId}/decision", "decideInThread", decisions::decide_in_thread)
            .summary("Decide about a tool call of the latest run of a thread")
            .body::<DecideCall>()
            .response::<CallDecided>(202),
    ]
}

fn thread_run_routes() -> Vec<Route> {
    vec![
        Route::get("/v1/threads/{threadId}/runs", "listThreadRuns", threads::runs)
            .summary("List the runs of a thread, newest first")
            .query::<Page>()
            .response::<ThreadRuns>(200)
            .without_errors(&[404]),
        Route::get("/v1/threads/{threadId}/runs/active", "getActiveRun", threads::active)
            .summary("Get the open run of a thread")
            .response::<ThreadRunNow>(200),
        Route::get("/v1/threads/{threadId}/runs/latest", "getLatestRun", threads::latest)
            .summary("Get the newest run of a thread")
            .response::<ThreadRunNow>(200),
    ]
}
