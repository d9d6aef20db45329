//! The routes for holds.

use holdpoint_api::holds::{CreateHold, Hold, ShowHold};

use super::handlers;
use crate::routes::Route;

pub(crate) fn all() -> Vec<Route> {
    vec![
        Route::post("/v1/holds", "createHold", handlers::create)
            .says("Ask somebody something, without a workflow")
            .body::<CreateHold>()
            .response::<Hold>(201)
            .fails(&[422]),
        Route::get("/v1/holds/{holdId}", "getHold", handlers::show)
            .says("A hold and what came of it; waits for that if asked to")
            .query::<ShowHold>()
            .response::<Hold>(200),
        Route::delete("/v1/holds/{holdId}", "cancelHold", handlers::cancel)
            .says("Take a hold back that nobody has answered")
            .response::<Hold>(200),
    ]
}
