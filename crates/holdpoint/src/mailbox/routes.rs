//! The routes into the queues.

use super::dispatches;
use crate::routes::Json;
use crate::routes::Route;

pub(crate) fn all() -> Vec<Route> {
    vec![
        Route::get("/v1/threads/{threadId}/dispatches", "listDispatches", dispatches::list)
            .says("The activations in one queue, in the order in which they are served; the id may be that of a run, for the queue of its thread")
            .takes(&["limit", "cursor", "dispatchStatus"])
            .answers(200, Json("Dispatches"))
            .never_fails(&[404]),
        Route::get("/v1/dispatches/{dispatchId}", "getDispatch", dispatches::show)
            .says("One activation")
            .answers(200, Json("Dispatch")),
        Route::post("/v1/dispatches/{dispatchId}/cancel", "cancelDispatch", dispatches::cancel)
            .says("Take a queued activation out of its queue and end its run")
            .optional_body_named("Nothing")
            .answers(200, Json("DispatchChanged")),
        Route::post("/v1/dispatches/{dispatchId}/requeue", "requeueDispatch", dispatches::requeue)
            .says("Put a dead letter back")
            .optional_body_named("Nothing")
            .answers(201, Json("DispatchChanged")),
        Route::get("/v1/mailbox/stats", "mailboxStats", dispatches::stats)
            .says("How many activations there are, by status")
            .answers(200, Json("MailboxStats")),
    ]
}
