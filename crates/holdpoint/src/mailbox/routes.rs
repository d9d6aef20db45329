//! The routes for the mailbox.

use holdpoint_api::mailbox::{Dispatch, DispatchChanged, DispatchList, ListDispatches, MailboxStats};
use holdpoint_api::{EmptyBody, Page};

use super::dispatches;
use crate::routes::Route;

pub(crate) fn all() -> Vec<Route> {
    vec![
        Route::get("/v1/threads/{threadId}/dispatches", "listDispatches", dispatches::list)
            .summary("List the dispatches of a thread in the order of service; the id may be that of a run")
            .query::<Page>()
            .query::<ListDispatches>()
            .response::<DispatchList>(200)
            .without_errors(&[404]),
        Route::get("/v1/dispatches/{dispatchId}", "getDispatch", dispatches::show)
            .summary("Get a dispatch")
            .response::<Dispatch>(200),
        Route::post("/v1/dispatches/{dispatchId}/cancel", "cancelDispatch", dispatches::cancel)
            .summary("Cancel a queued dispatch and end its run")
            .optional_body::<EmptyBody>()
            .response::<DispatchChanged>(200),
        Route::post("/v1/dispatches/{dispatchId}/requeue", "requeueDispatch", dispatches::requeue)
            .summary("Requeue a dispatch from the dead letters")
            .optional_body::<EmptyBody>()
            .response::<DispatchChanged>(201),
        Route::get("/v1/mailbox/stats", "mailboxStats", dispatches::stats)
            .summary("Count dispatches by status")
            .response::<MailboxStats>(200),
    ]
}
