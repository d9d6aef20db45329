//! The routes into the queues.

use holdpoint_api::mailbox::{Dispatch, DispatchChanged, DispatchList, ListDispatches, MailboxStats};
use holdpoint_api::{Nothing, Page};

use super::dispatches;
use crate::routes::Route;

pub(crate) fn all() -> Vec<Route> {
    vec![
        Route::get("/v1/threads/{threadId}/dispatches", "listDispatches", dispatches::list)
            .says("List the dispatches of a thread in the order of service; the id may be that of a run")
            .query::<Page>()
            .query::<ListDispatches>()
            .response::<DispatchList>(200)
            .never_fails(&[404]),
        Route::get("/v1/dispatches/{dispatchId}", "getDispatch", dispatches::show)
            .says("Get a dispatch")
            .response::<Dispatch>(200),
        Route::post("/v1/dispatches/{dispatchId}/cancel", "cancelDispatch", dispatches::cancel)
            .says("Cancel a queued dispatch and end its run")
            .optional_body::<Nothing>()
            .response::<DispatchChanged>(200),
        Route::post("/v1/dispatches/{dispatchId}/requeue", "requeueDispatch", dispatches::requeue)
            .says("Requeue a dispatch from the dead letters")
            .optional_body::<Nothing>()
            .response::<DispatchChanged>(201),
        Route::get("/v1/mailbox/stats", "mailboxStats", dispatches::stats)
            .says("Count dispatches by status")
            .response::<MailboxStats>(200),
    ]
}
