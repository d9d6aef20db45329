//! The routes of agents, their threads and their calls.

use holdpoint_api::Page;
use holdpoint_api::agents::{
    After, Agent, AgentDefinition, AgentRegistered, AgentTold, Agents, CancelThread, InterruptThread,
    Messages, SayInThread, StartAgent, TellRun, ThreadInterrupted, ThreadRunNow, ThreadRuns,
};
use holdpoint_api::decisions::{CallDecided, DecideCall, RunWaitingState};

use super::{decisions, definitions, runs, threads};
use crate::routes::Route;

pub(crate) fn all() -> Vec<Route> {
    [declaring(), running(), of_threads(), of_runs_in_threads()].into_iter().flatten().collect()
}

fn declaring() -> Vec<Route> {
    vec![
        Route::get("/v1/agents", "listAgents", definitions::list)
            .says("The declared agents, by id")
            .response::<Agents>(200),
        Route::get("/v1/agents/{agentId}", "getAgent", definitions::show)
            .says("The latest revision of an agent")
            .response::<Agent>(200),
        Route::put("/v1/agents/{agentId}", "putAgent", definitions::put)
            .says("Declare an agent; the same one again changes nothing")
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
            .says("Say something to an agent in a new run; refused while one is open in the thread")
            .body::<StartAgent>()
            .response::<AgentTold>(202)
            .fails(&[422]),
        Route::post("/v1/runs/{runId}/inputs", "tellRun", runs::tell)
            .says("Say something to the agent of a run; calls that wait for a decision are taken back")
            .body::<TellRun>()
            .response::<AgentTold>(202),
        Route::post("/v1/runs/{runId}/decision", "decideCall", decisions::decide)
            .says("Decide about a call of a tool; the first decision counts")
            .body::<DecideCall>()
            .response::<CallDecided>(202),
        Route::get("/v1/runs/{runId}/waiting", "getWaiting", runs::wait)
            .says("What a run waits for; not found while it waits for nothing")
            .response::<RunWaitingState>(200),
    ]
}

fn of_threads() -> Vec<Route> {
    vec![
        Route::post("/v1/threads/{threadId}/messages", "sayInThread", threads::say)
            .says("Say something in a thread: to the run that is open there, or in a new one")
            .body::<SayInThread>()
            .response::<AgentTold>(202)
            .fails(&[422]),
        Route::get("/v1/threads/{threadId}/messages", "listMessages", threads::messages)
            .says("What was said in a thread, the oldest first")
            .query::<Page>()
            .query::<After>()
            .response::<Messages>(200)
            .never_fails(&[404]),
        Route::post("/v1/threads/{threadId}/interrupt", "interruptThread", threads::interrupt)
            .says("End what a thread is at")
            .optional_body::<InterruptThread>()
            .response::<ThreadInterrupted>(200)
            .never_fails(&[404]),
        Route::post("/v1/threads/{threadId}/cancel", "cancelThread", threads::cancel)
            .says("Cancel the run that is open in a thread")
            .optional_body::<CancelThread>()
            .response::<AgentTold>(200)
            .fails(&[422]),
        Route::post("/v1/threads/{threadId}/decision", "decideInThread", decisions::decide_in_thread)
            .says("Decide about a call of the thread's latest run")
            .body::<DecideCall>()
            .response::<CallDecided>(202),
    ]
}

fn of_runs_in_threads() -> Vec<Route> {
    vec![
        Route::get("/v1/threads/{threadId}/runs", "listThreadRuns", threads::runs)
            .says("The runs of a thread, newest first")
            .query::<Page>()
            .response::<ThreadRuns>(200)
            .never_fails(&[404]),
        Route::get("/v1/threads/{threadId}/runs/active", "getActiveRun", threads::active)
            .says("The run that is open in a thread, with what it waits for")
            .response::<ThreadRunNow>(200),
        Route::get("/v1/threads/{threadId}/runs/latest", "getLatestRun", threads::latest)
            .says("The newest run of a thread, open or not")
            .response::<ThreadRunNow>(200),
    ]
}
