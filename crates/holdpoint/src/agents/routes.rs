//! The routes of agents, their threads and their calls.

use holdpoint_api::Page;
use holdpoint_api::agents::{
    Agent, AgentDefinition, AgentList, AgentRegistered, AgentTold, CancelThread, InterruptThread,
    MessageList, SayInThread, StartAgent, TellRun, ThreadInterrupted, ThreadRunNow, ThreadRuns,
};
use holdpoint_api::decisions::{CallDecided, DecideCall, RunWaitingState};
use holdpoint_api::events::After;

use super::{decisions, definitions, runs, threads};
use crate::routes::Route;

pub(crate) fn all() -> Vec<Route> {
    [declaring(), running(), of_threads(), of_runs_in_threads()].into_iter().flatten().collect()
}

fn declaring() -> Vec<Route> {
    vec![
        Route::get("/v1/agents", "listAgents", definitions::list)
            .says("List the agents, by id")
            .response::<AgentList>(200),
        Route::get("/v1/agents/{agentId}", "getAgent", definitions::show)
            .says("Get the latest revision of an agent")
            .response::<Agent>(200),
        Route::put("/v1/agents/{agentId}", "putAgent", definitions::put)
            .says("Register an agent; the same definition again changes nothing")
            .body::<AgentDefinition>()
            .response::<AgentRegistered>(200)
            .response::<AgentRegistered>(201)
            .never_fails(&[404])
            .fails(&[422]),
    ]
}

fn running() -> Vec<Route> {
    vec![
        Route::post("/v1/agents/{agentId}/runs", "startAgent", runs::start)
            .says("Start a run of an agent; rejected while the thread has an open run")
            .body::<StartAgent>()
            .response::<AgentTold>(202)
            .fails(&[422]),
        Route::post("/v1/runs/{runId}/inputs", "tellRun", runs::tell)
            .says("Send messages to the agent of a run; calls that wait for a decision are withdrawn")
            .body::<TellRun>()
            .response::<AgentTold>(202),
        Route::post("/v1/runs/{runId}/decision", "decideCall", decisions::decide)
            .says("Decide about a tool call; the first decision counts")
            .body::<DecideCall>()
            .response::<CallDecided>(202),
        Route::get("/v1/runs/{runId}/waiting", "getWaiting", runs::wait)
            .says("Get the reason for which a run waits; 404 if it does not wait")
            .response::<RunWaitingState>(200),
    ]
}

fn of_threads() -> Vec<Route> {
    vec![
        Route::post("/v1/threads/{threadId}/messages", "sayInThread", threads::say)
            .says("Send messages to the open run of a thread, or start a run")
            .body::<SayInThread>()
            .response::<AgentTold>(202)
            .fails(&[422]),
        Route::get("/v1/threads/{threadId}/messages", "listMessages", threads::messages)
            .says("List the messages of a thread, oldest first")
            .query::<Page>()
            .query::<After>()
            .response::<MessageList>(200)
            .never_fails(&[404]),
        Route::post("/v1/threads/{threadId}/interrupt", "interruptThread", threads::interrupt)
            .says("Cancel the open run of a thread and its queued dispatches")
            .optional_body::<InterruptThread>()
            .response::<ThreadInterrupted>(200)
            .never_fails(&[404]),
        Route::post("/v1/threads/{threadId}/cancel", "cancelThread", threads::cancel)
            .says("Cancel the open run of a thread")
            .optional_body::<CancelThread>()
            .response::<AgentTold>(200)
            .fails(&[422]),
        Route::post("/v1/threads/{threadId}/decision", "decideInThread", decisions::decide_in_thread)
            .says("Decide about a tool call of the latest run of a thread")
            .body::<DecideCall>()
            .response::<CallDecided>(202),
    ]
}

fn of_runs_in_threads() -> Vec<Route> {
    vec![
        Route::get("/v1/threads/{threadId}/runs", "listThreadRuns", threads::runs)
            .says("List the runs of a thread, newest first")
            .query::<Page>()
            .response::<ThreadRuns>(200)
            .never_fails(&[404]),
        Route::get("/v1/threads/{threadId}/runs/active", "getActiveRun", threads::active)
            .says("Get the open run of a thread")
            .response::<ThreadRunNow>(200),
        Route::get("/v1/threads/{threadId}/runs/latest", "getLatestRun", threads::latest)
            .says("Get the newest run of a thread")
            .response::<ThreadRunNow>(200),
    ]
}
