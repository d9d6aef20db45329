//! The routes of AG-UI.

use holdpoint_api::agui::{AgUiCapabilities, AgUiStream, AgUiThread, RunAgentInput};

use super::{capabilities, run, threads};
use crate::routes::Route;

pub(crate) fn all() -> Vec<Route> {
    vec![
        Route::post("/ag-ui/{agentId}", "runAgent", run::run)
            .says("Run an agent or a workflow for an AG-UI front end, or answer what it waits for")
            .body::<RunAgentInput>()
            .event_stream::<AgUiStream>(200)
            .not_kept()
            .fails(&[422]),
        Route::get("/ag-ui/{agentId}/capabilities", "getCapabilities", capabilities::show)
            .says("What an agent can do, in the words of AG-UI")
            .response::<AgUiCapabilities>(200),
        Route::get("/ag-ui/{agentId}/threads/{threadId}", "getAgUiThread", threads::show)
            .says("Where a thread stands: messages, state and open interrupts")
            .response::<AgUiThread>(200),
        Route::get("/ag-ui/{agentId}/threads/{threadId}/stream", "streamAgUiThread", threads::stream)
            .says("Join the run of a thread; one that waits or has ended only says so")
            .event_stream::<AgUiStream>(200),
    ]
}
