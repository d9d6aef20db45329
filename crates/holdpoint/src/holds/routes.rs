//! The routes for holds.

use holdpoint_api::holds::{CreateHold, Hold, ShowHold};

use super::handlers;
use crate::routes::Route;

pub(crate) fn all() -> Vec<Route> {
    vec![
        Route::post("/v1/holds", "createHold", handlers::create)
            .says("Create a hold: an interrupt without a workflow")
            .body::<CreateHold>()
            .response::<Hold>(201)
            .fails(&[422]),
        Route::get("/v1/holds/{holdId}", "getHold", handlers::show)
            .says("Get a hold; with wait, after it is answered")
            .query::<ShowHold>()
            .response::<Hold>(200),
        Route::delete("/v1/holds/{holdId}", "cancelHold", handlers::cancel)
            .says("Cancel a hold that is not answered")
            .response::<Hold>(200),
    ]
}
