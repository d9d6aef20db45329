//! The routes for holds.

use super::handlers;
use crate::routes::Content::Json;
use crate::routes::Route;

pub(crate) fn all() -> Vec<Route> {
    vec![
        Route::post("/v1/holds", "createHold", handlers::create)
            .says("Ask somebody something, without a workflow")
            .body("CreateHold")
            .answers(201, Json("Hold"))
            .fails(&[422]),
        Route::get("/v1/holds/{holdId}", "getHold", handlers::show)
            .says("A hold and what came of it; waits for that if asked to")
            .takes(&["wait"])
            .answers(200, Json("Hold")),
        Route::delete("/v1/holds/{holdId}", "cancelHold", handlers::cancel)
            .says("Take a hold back that nobody has answered")
            .answers(200, Json("Hold")),
    ]
}
