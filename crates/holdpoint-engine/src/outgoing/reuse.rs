//! Calls that share connections: a call uses an open connection of an earlier call to the same host.

use std::time::Duration;

use super::connection::{ConnectionKey, HttpConnection};
use super::exchange::{self, AfterCall};
use super::progress::{CallProgress, CallStage};
use super::target::OutgoingTarget;
use super::{Error, Outgoing, OutgoingRequest, OutgoingResponse, broken, timed_out};

impl Outgoing {
    /// Makes one call like [`Outgoing::send`], but on a connection of an earlier call, if one is open to an address that
    /// the host has now. All checks are the same. The connection stays open for a second. If the server closes a
    /// connection of an earlier call without a response, the request is sent again on a new one. Only for requests that
    /// the server recognizes if they are repeated.
    pub async fn send_reusing(&self, request: OutgoingRequest) -> Result<OutgoingResponse, Error> {
        let target = OutgoingTarget::parse(&request.url, &self.0.policy)?;
        let within = Duration::from_millis(request.timeout_ms);
        let progress = CallProgress::default();
        let call = self.call_reusing(&target, request, &progress);
        let in_time = tokio::time::timeout(within, call).await;
        in_time.map_err(|_| timed_out(target.origin(), within, progress.stage()))?
    }

    async fn call_reusing(
        &self,
        target: &OutgoingTarget,
        request: OutgoingRequest,
        progress: &CallProgress,
    ) -> Result<OutgoingResponse, Error> {
        let most = request.body_bytes_max;
        let request = exchange::prepare_request(target, request, AfterCall::KeepOpen)?;
        let _slot = self.acquire_slot(target).await?;
        progress.enter(CallStage::Name);
        let addresses = self.addresses(target).await?;
        if let Some((key, mut connection)) = self.0.idle.take(target, &addresses) {
            progress.enter(CallStage::Answer);
            match connection.send(request.clone()).await {
                Ok(head) => return self.finish(target, key, connection, head, most, progress).await,
                Err(failure) if failure.is_silent => {}
                Err(failure) => return Err(broken(target, &failure.error)),
            }
        }
        let (key, mut connection) = self.connect(target, &addresses, progress).await?;
        progress.enter(CallStage::Answer);
        let head = connection.send(request).await.map_err(|failure| broken(target, &failure.error))?;
        self.finish(target, key, connection, head, most, progress).await
    }

    /// Reads the body and keeps the connection.
    async fn finish(
        &self,
        target: &OutgoingTarget,
        key: ConnectionKey,
        connection: HttpConnection,
        head: hyper::Response<hyper::body::Incoming>,
        bytes_max: usize,
        progress: &CallProgress,
    ) -> Result<OutgoingResponse, Error> {
        progress.enter(CallStage::Body);
        let mut response = exchange::response(target, head, connection, bytes_max);
        let body = response.body.read().await?;
        self.0.idle.put(key, response.body.connection);
        Ok(OutgoingResponse { status: response.status, headers: response.headers, body })
    }
}
