//! Reads and repairs the dispatch queue.

use holdpoint_api::EmptyBody;
use holdpoint_api::ids::encode_segment;
use holdpoint_api::mailbox::{Dispatch, DispatchChanged, DispatchList, ListDispatches, MailboxStats};

use crate::{Client, Request};

/// Reads the dispatch queue and repairs its dispatches.
#[derive(Clone, Copy, Debug)]
pub struct Mailbox<'a>(pub(super) &'a Client);

impl Mailbox<'_> {
    /// Lists the dispatches of a dispatch thread.
    pub fn list(self, thread: &str, filter: &ListDispatches) -> Request<DispatchList> {
        self.0.get(format!("/v1/threads/{}/dispatches", encode_segment(thread))).query(filter)
    }

    /// Returns a dispatch.
    pub fn get(self, dispatch: &str) -> Request<Dispatch> {
        self.0.get(format!("/v1/dispatches/{}", encode_segment(dispatch)))
    }

    /// Cancels a queued dispatch.
    pub fn cancel(self, dispatch: &str) -> Request<DispatchChanged> {
        self.0.post(format!("/v1/dispatches/{}/cancel", encode_segment(dispatch))).body(&EmptyBody {})
    }

    /// Queues a dead-lettered dispatch again.
    pub fn requeue(self, dispatch: &str) -> Request<DispatchChanged> {
        self.0.post(format!("/v1/dispatches/{}/requeue", encode_segment(dispatch))).body(&EmptyBody {})
    }

    /// Returns the number of dispatches by status.
    pub fn stats(self) -> Request<MailboxStats> {
        self.0.get("/v1/mailbox/stats")
    }
}
