//! The routes into the queues.

use holdpoint_api::mailbox::{Dispatch, DispatchChanged, Dispatches, ListDispatches, MailboxStats};
use holdpoint_api::{Nothing, Page};

use super::dispatches;
use crate::routes::Route;

pub(crate) fn all() -> Vec<Route> {
    vec![
        Route::get("/v1/threads/{threadId}/dispatches", "listDispatches", dispatches::list)
            .says("The activations in one queue, in the order in which they are served; the id may be that of a run, for the queue of its thread")
            .query::<Page>()
            .query::<ListDispatches>()
            .response::<Dispatches>(200)
            .never_fails(&[404]),
        Route::get("/v1/dispatches/{dispatchId}", "getDispatch", dispatches::show)
            .says("One activation")
            .response::<Dispatch>(200),
        Route::post("/v1/dispatches/{dispatchId}/cancel", "cancelDispatch", dispatches::cancel)
            .says("Take a queued activation out of its queue and end its run")
            .optional_body::<Nothing>()
            .response::<DispatchChanged>(200),
        Route::post("/v1/dispatches/{dispatchId}/requeue", "requeueDispatch", dispatches::requeue)
            .says("Put a dead letter back")
            .optional_body::<Nothing>()
            .response::<DispatchChanged>(201),
        Route::get("/v1/mailbox/stats", "mailboxStats", dispatches::stats)
            .says("How many activations there are, by status")
            .response::<MailboxStats>(200),
    ]
}
