//! The routes for holds.

use holdpoint_api::holds::{CreateHold, Hold, ShowHold};

use super::handlers;
use crate::routes::Route;

pub(crate) fn all() -> Vec<Route> {
    vec![
        Route::post("/v1/holds", "createHold", handlers::create)
            .summary("Create a hold: an interrupt without a workflow")
            .body::<CreateHold>()
            .response::<Hold>(201)
            .errors(&[422]),
        Route::get("/v1/holds/{holdId}", "getHold", handlers::show)
            .summary("Get a hold; with wait, the response is sent when the hold no longer waits")
            .query::<ShowHold>()
            .response::<Hold>(200),
        Route::delete("/v1/holds/{holdId}", "cancelHold", handlers::cancel)
            .summary("Cancel a hold that is not answered")
            .response::<Hold>(200),
    ]
}
