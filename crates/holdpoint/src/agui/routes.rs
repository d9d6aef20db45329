//! The routes of AG-UI.

use holdpoint_api::agui::{AgUiCapabilities, AgUiStream, AgUiThread, RunAgentInput};

use super::{capabilities, run, threads};
use crate::routes::Route;

pub(crate) fn all() -> Vec<Route> {
    vec![
        Route::post("/ag-ui/{agentId}", "runAgent", run::run)
            .summary("Run an agent or a workflow for an AG-UI front end, or answer its interrupts")
            .body::<RunAgentInput>()
            .event_stream::<AgUiStream>(200)
            .not_idempotent()
            .errors(&[422]),
        Route::get("/ag-ui/{agentId}/capabilities", "getCapabilities", capabilities::show)
            .summary("Get the capabilities of an agent")
            .response::<AgUiCapabilities>(200),
        Route::get("/ag-ui/{agentId}/threads/{threadId}", "getAgUiThread", threads::show)
            .summary("Get the messages, the state and the open interrupts of a thread")
            .response::<AgUiThread>(200),
        Route::get("/ag-ui/{agentId}/threads/{threadId}/stream", "streamAgUiThread", threads::stream)
            .summary("Stream the run of a thread")
            .event_stream::<AgUiStream>(200),
    ]
}
