//! The routes of agents, their threads and their calls.

use super::{decisions, definitions, runs, threads};
use crate::routes::Json;
use crate::routes::Route;

pub(crate) fn all() -> Vec<Route> {
    [declaring(), running(), of_threads(), of_runs_in_threads()].into_iter().flatten().collect()
}

fn declaring() -> Vec<Route> {
    vec![
        Route::get("/v1/agents", "listAgents", definitions::list)
            .says("The declared agents, by id")
            .answers(200, Json("Agents")),
        Route::get("/v1/agents/{agentId}", "getAgent", definitions::show)
            .says("The latest revision of an agent")
            .answers(200, Json("Agent")),
        Route::put("/v1/agents/{agentId}", "putAgent", definitions::put)
            .says("Declare an agent; the same one again changes nothing")
            .body_named("AgentDefinition")
            .answers(200, Json("AgentRegistered"))
            .answers(201, Json("AgentRegistered"))
            .never_fails(&[404])
            .fails(&[422]),
    ]
}

fn running() -> Vec<Route> {
    vec![
        Route::post("/v1/agents/{agentId}/runs", "startAgent", runs::start)
            .says("Say something to an agent in a new run; refused while one is open in the thread")
            .body_named("StartAgent")
            .answers(202, Json("AgentTold"))
            .fails(&[422]),
        Route::post("/v1/runs/{runId}/inputs", "tellRun", runs::tell)
            .says("Say something to the agent of a run; calls that wait for a decision are taken back")
            .body_named("TellRun")
            .answers(202, Json("AgentTold")),
        Route::post("/v1/runs/{runId}/decision", "decideCall", decisions::decide)
            .says("Decide about a call of a tool; the first decision counts")
            .body_named("DecideCall")
            .answers(202, Json("CallDecided")),
        Route::get("/v1/runs/{runId}/waiting", "getWaiting", runs::wait)
            .says("What a run waits for; not found while it waits for nothing")
            .answers(200, Json("RunWaitingState")),
    ]
}

fn of_threads() -> Vec<Route> {
    vec![
        Route::post("/v1/threads/{threadId}/messages", "sayInThread", threads::say)
            .says("Say something in a thread: to the run that is open there, or in a new one")
            .body_named("SayInThread")
            .answers(202, Json("AgentTold"))
            .fails(&[422]),
        Route::get("/v1/threads/{threadId}/messages", "listMessages", threads::messages)
            .says("What was said in a thread, the oldest first")
            .takes(&["limit", "cursor", "after"])
            .answers(200, Json("Messages"))
            .never_fails(&[404]),
        Route::post("/v1/threads/{threadId}/interrupt", "interruptThread", threads::interrupt)
            .says("End what a thread is at")
            .optional_body_named("InterruptThread")
            .answers(200, Json("ThreadInterrupted"))
            .never_fails(&[404]),
        Route::post("/v1/threads/{threadId}/cancel", "cancelThread", threads::cancel)
            .says("Cancel the run that is open in a thread")
            .optional_body_named("CancelThread")
            .answers(200, Json("AgentTold"))
            .fails(&[422]),
        Route::post("/v1/threads/{threadId}/decision", "decideInThread", decisions::decide_in_thread)
            .says("Decide about a call of the thread's latest run")
            .body_named("DecideCall")
            .answers(202, Json("CallDecided")),
    ]
}

fn of_runs_in_threads() -> Vec<Route> {
    vec![
        Route::get("/v1/threads/{threadId}/runs", "listThreadRuns", threads::runs)
            .says("The runs of a thread, newest first")
            .takes(&["limit", "cursor"])
            .answers(200, Json("ThreadRuns"))
            .never_fails(&[404]),
        Route::get("/v1/threads/{threadId}/runs/active", "getActiveRun", threads::active)
            .says("The run that is open in a thread, with what it waits for")
            .answers(200, Json("ThreadRunNow")),
        Route::get("/v1/threads/{threadId}/runs/latest", "getLatestRun", threads::latest)
            .says("The newest run of a thread, open or not")
            .answers(200, Json("ThreadRunNow")),
    ]
}
