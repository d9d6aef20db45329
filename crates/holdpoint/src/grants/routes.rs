//! The routes for grants.

use holdpoint_api::grants::{ConsumeGrant, Grant, WorkflowGrants};

use super::handlers;
use crate::routes::Route;

pub(crate) fn all() -> Vec<Route> {
    vec![
        Route::get("/v1/grants/{grantId}", "getGrant", handlers::show)
            .summary("Get a grant with its decision and the effects that used it")
            .response::<Grant>(200),
        Route::post("/v1/grants/{grantId}:consume", "consumeGrant", handlers::consume)
            .summary("Use a grant once, before an effect outside of Holdpoint; requires an Idempotency-Key")
            .body::<ConsumeGrant>()
            .response::<Grant>(200)
            .errors(&[409]),
        Route::get("/v1/workflows/{workflowId}/grants", "getWorkflowGrants", handlers::of_workflow)
            .summary("List the gates of a workflow with the effects that each permits")
            .response::<WorkflowGrants>(200),
    ]
}
