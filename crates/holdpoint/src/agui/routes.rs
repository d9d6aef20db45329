//! The routes of AG-UI.

use super::{capabilities, run, threads};
use crate::routes::Route;
use crate::routes::{Events, Json};

pub(crate) fn all() -> Vec<Route> {
    vec![
        Route::post("/ag-ui/{agentId}", "runAgent", run::run)
            .says("Run an agent or a workflow for an AG-UI front end, or answer what it waits for")
            .body_named("RunAgentInput")
            .answers(200, Events("AgUiStream"))
            .not_kept()
            .fails(&[422]),
        Route::get("/ag-ui/{agentId}/capabilities", "getCapabilities", capabilities::show)
            .says("What an agent can do, in the words of AG-UI")
            .answers(200, Json("AgUiCapabilities")),
        Route::get("/ag-ui/{agentId}/threads/{threadId}", "getAgUiThread", threads::show)
            .says("Where a thread stands: messages, state and open interrupts")
            .answers(200, Json("AgUiThread")),
        Route::get("/ag-ui/{agentId}/threads/{threadId}/stream", "streamAgUiThread", threads::stream)
            .says("Join the run of a thread; one that waits or has ended only says so")
            .answers(200, Events("AgUiStream")),
    ]
}
