//! A call on its way: whether it was sent, and that the server is told when it is given up.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use rmcp::model::{
    CallToolRequest, CallToolRequestParams, CallToolResponse, CancelledNotificationParam,
    ClientJsonRpcMessage, ClientRequest, RequestId, ServerResult,
};
use rmcp::service::{Peer, PeerRequestOptions, RoleClient, RxJsonRpcMessage, ServiceError, TxJsonRpcMessage};
use rmcp::transport::Transport;

/// How far a call has come; travels with it as far as the transport.
#[derive(Clone, Debug, Default)]
struct Progress(Arc<AtomicU8>);

const FRESH: u8 = 0;
const SENDING: u8 = 1;
const SENT: u8 = 2;
/// There was nobody any more to read it.
const UNREAD: u8 = 3;
const GIVEN_UP: u8 = 4;

impl Progress {
    /// Whether it may be sent now. What was given up may have been made elsewhere.
    fn begin(&self) -> bool {
        self.0.compare_exchange(FRESH, SENDING, Ordering::SeqCst, Ordering::SeqCst).is_ok()
    }

    fn end<E: std::error::Error + 'static>(&self, sent: &Result<(), E>) {
        let unread = |error: &(dyn std::error::Error + 'static)| {
            // A line whose end could not be written is none.
            let error = error.downcast_ref::<std::io::Error>();
            error.is_some_and(|error| error.kind() == std::io::ErrorKind::BrokenPipe)
        };
        let unread = sent.as_ref().is_err_and(|error| unread(error));
        self.0.store(if unread { UNREAD } else { SENT }, Ordering::SeqCst);
    }

    /// Whether nobody has got to see it; from now on nobody will.
    fn give_up(&self) -> bool {
        let was = self.0.compare_exchange(FRESH, GIVEN_UP, Ordering::SeqCst, Ordering::SeqCst);
        matches!(was, Ok(_) | Err(UNREAD))
    }
}

/// A transport that notes how far calls have come. Those that nobody has seen can be made again.
#[derive(Debug)]
pub(super) struct Noting<T>(pub(super) T);

impl<T: Transport<RoleClient>> Transport<RoleClient> for Noting<T> {
    type Error = T::Error;

    fn send(
        &mut self,
        message: TxJsonRpcMessage<RoleClient>,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        let progress = match &message {
            ClientJsonRpcMessage::Request(request) => match &request.request {
                ClientRequest::CallToolRequest(call) => call.extensions.get::<Progress>().cloned(),
                _ => None,
            },
            _ => None,
        };
        let sending = self.0.send(message);
        async move {
            let Some(progress) = progress else { return sending.await };
            if !progress.begin() {
                return Ok(());
            }
            let sent = sending.await;
            progress.end(&sent);
            sent
        }
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleClient>> {
        self.0.receive().await
    }

    async fn close(&mut self) -> Result<(), Self::Error> {
        self.0.close().await
    }
}

/// A call that has brought no result.
pub(super) struct Failure {
    pub(super) error: ServiceError,
    /// Nobody has got to see it, and nobody will.
    pub(super) unseen: bool,
}

pub(super) async fn call(
    peer: &Peer<RoleClient>,
    params: CallToolRequestParams,
) -> Result<CallToolResponse, Failure> {
    let progress = Progress::default();
    let unseen = |error: ServiceError| Failure { error, unseen: progress.give_up() };
    let mut request = CallToolRequest::new(params);
    request.extensions.insert(progress.clone());
    let request = ClientRequest::CallToolRequest(request);
    let handle =
        peer.send_request_with_option(request, PeerRequestOptions::no_options()).await.map_err(unseen)?;
    let mut unanswered = Unanswered { peer, id: Some(handle.id.clone()) };
    let answer = handle.await_response().await;
    unanswered.id = None;
    match answer.map_err(unseen)? {
        ServerResult::CallToolResult(result) => Ok(CallToolResponse::Complete(result)),
        ServerResult::InputRequiredResult(result) => Ok(CallToolResponse::InputRequired(result)),
        ServerResult::CreateTaskResult(result) => Ok(CallToolResponse::Task(result)),
        _ => Err(Failure { error: ServiceError::UnexpectedResponse, unseen: false }),
    }
}

/// Dropped with a request in it, it tells the server that nobody waits for the answer any longer.
struct Unanswered<'a> {
    peer: &'a Peer<RoleClient>,
    id: Option<RequestId>,
}

impl Drop for Unanswered<'_> {
    fn drop(&mut self) {
        let (Some(id), Ok(runtime)) = (self.id.take(), tokio::runtime::Handle::try_current()) else { return };
        let peer = self.peer.clone();
        runtime.spawn(async move {
            let reason = Some("nobody waits for the answer any longer".to_owned());
            let given_up = CancelledNotificationParam::new(Some(id), reason);
            if let Err(error) = peer.notify_cancelled(given_up).await {
                tracing::debug!(%error, "a server could not be told that a call was given up");
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Error, ErrorKind};

    #[test]
    fn a_call_that_nobody_has_seen_is_never_sent_afterwards() {
        let fresh = Progress::default();
        assert!(fresh.give_up());
        assert!(!fresh.begin());
    }

    #[test]
    fn a_call_is_unseen_only_if_there_was_surely_nobody_to_read_it() {
        for (sent, unseen) in [
            (None, false),
            (Some(Ok(())), false),
            (Some(Err(Error::from(ErrorKind::TimedOut))), false),
            (Some(Err(Error::from(ErrorKind::BrokenPipe))), true),
        ] {
            let progress = Progress::default();
            assert!(progress.begin());
            if let Some(sent) = &sent {
                progress.end(sent);
            }
            assert_eq!(progress.give_up(), unseen, "{sent:?}");
        }
    }
}
