//! Tracks whether a call was sent, and sends a cancellation to the server if the caller drops the call.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use rmcp::model::{
    CallToolRequest, CallToolRequestParams, CallToolResponse, CancelledNotificationParam,
    ClientJsonRpcMessage, ClientRequest, RequestId, ServerResult,
};
use rmcp::service::{Peer, PeerRequestOptions, RoleClient, RxJsonRpcMessage, ServiceError, TxJsonRpcMessage};
use rmcp::transport::Transport;

use super::progress::ProgressListeners;
use crate::tool::CallReporter;

/// The send progress of a call. It is stored as an extension of the request, which the transport reads.
#[derive(Clone, Debug, Default)]
struct SendProgress(Arc<AtomicU8>);

const FRESH: u8 = 0;
const SENDING: u8 = 1;
const SENT: u8 = 2;
/// The pipe was closed before the server could read the call.
const UNREAD: u8 = 3;
const GIVEN_UP: u8 = 4;

impl SendProgress {
    /// Returns true if the call may be sent now. A call that was given up must not be sent: the caller may have made it
    /// in another session.
    fn begin(&self) -> bool {
        self.0.compare_exchange(FRESH, SENDING, Ordering::SeqCst, Ordering::SeqCst).is_ok()
    }

    fn end<E: std::error::Error + 'static>(&self, sent: &Result<(), E>) {
        let unread = |error: &(dyn std::error::Error + 'static)| {
            // The line was not written completely, and a server ignores an incomplete line.
            let error = error.downcast_ref::<std::io::Error>();
            error.is_some_and(|error| error.kind() == std::io::ErrorKind::BrokenPipe)
        };
        let unread = sent.as_ref().is_err_and(|error| unread(error));
        self.0.store(if unread { UNREAD } else { SENT }, Ordering::SeqCst);
    }

    /// Gives the call up. Returns true if the server has not received the call and will not receive it.
    fn give_up(&self) -> bool {
        let was = self.0.compare_exchange(FRESH, GIVEN_UP, Ordering::SeqCst, Ordering::SeqCst);
        matches!(was, Ok(_) | Err(UNREAD))
    }
}

/// A transport that records the send progress of calls. A call that no server has received can be made again.
#[derive(Debug)]
pub(super) struct TrackedTransport<T>(pub(super) T);

impl<T: Transport<RoleClient>> Transport<RoleClient> for TrackedTransport<T> {
    type Error = T::Error;

    fn send(
        &mut self,
        message: TxJsonRpcMessage<RoleClient>,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        let progress = match &message {
            ClientJsonRpcMessage::Request(request) => match &request.request {
                ClientRequest::CallToolRequest(call) => call.extensions.get::<SendProgress>().cloned(),
                _ => None,
            },
            _ => None,
        };
        let send = self.0.send(message);
        async move {
            let Some(progress) = progress else { return send.await };
            if !progress.begin() {
                return Ok(());
            }
            let sent = send.await;
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

/// The error of a call without a result.
pub(super) struct CallError {
    pub(super) error: ServiceError,
    /// The server has not received the call and will not receive it.
    pub(super) never_received: bool,
}

pub(super) async fn call(
    peer: &Peer<RoleClient>,
    params: CallToolRequestParams,
    listeners: &ProgressListeners,
    reporter: &CallReporter,
) -> Result<CallToolResponse, CallError> {
    let progress = SendProgress::default();
    let call_error = |error: ServiceError| CallError { error, never_received: progress.give_up() };
    let mut request = CallToolRequest::new(params);
    request.extensions.insert(progress.clone());
    let request = ClientRequest::CallToolRequest(request);
    let handle =
        peer.send_request_with_option(request, PeerRequestOptions::no_options()).await.map_err(call_error)?;
    let _listening = listeners.add(handle.progress_token.clone(), reporter);
    let mut cancel = CancelOnDrop { peer, id: Some(handle.id.clone()) };
    let answer = handle.await_response().await;
    cancel.id = None;
    match answer.map_err(call_error)? {
        ServerResult::CallToolResult(result) => Ok(CallToolResponse::Complete(result)),
        ServerResult::InputRequiredResult(result) => Ok(CallToolResponse::InputRequired(result)),
        ServerResult::CreateTaskResult(result) => Ok(CallToolResponse::Task(result)),
        _ => Err(CallError { error: ServiceError::UnexpectedResponse, never_received: false }),
    }
}

/// Sends a cancellation to the server when it is dropped with a request id.
struct CancelOnDrop<'a> {
    peer: &'a Peer<RoleClient>,
    id: Option<RequestId>,
}

impl Drop for CancelOnDrop<'_> {
    fn drop(&mut self) {
        let (Some(id), Ok(runtime)) = (self.id.take(), tokio::runtime::Handle::try_current()) else { return };
        let peer = self.peer.clone();
        runtime.spawn(async move {
            let reason = Some("the caller no longer waits for the response".to_owned());
            let given_up = CancelledNotificationParam::new(Some(id), reason);
            if let Err(error) = peer.notify_cancelled(given_up).await {
                tracing::debug!(%error, "sending a cancellation to an MCP server failed");
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Error, ErrorKind};

    #[test]
    fn a_call_that_was_given_up_is_not_sent() {
        let fresh = SendProgress::default();
        assert!(fresh.give_up());
        assert!(!fresh.begin());
    }

    #[test]
    fn a_call_counts_as_never_received_only_if_the_pipe_was_closed() {
        for (sent, never_received) in [
            (None, false),
            (Some(Ok(())), false),
            (Some(Err(Error::from(ErrorKind::TimedOut))), false),
            (Some(Err(Error::from(ErrorKind::BrokenPipe))), true),
        ] {
            let progress = SendProgress::default();
            assert!(progress.begin());
            if let Some(sent) = &sent {
                progress.end(sent);
            }
            assert_eq!(progress.give_up(), never_received, "{sent:?}");
        }
    }
}
