//! `Idempotency-Key`: a request that is sent twice is executed once and gets the same response twice. The change and
//! the receipt, which has the response, are one commit. Final errors are stored, too; errors that a retry may avoid are
//! not.

use std::borrow::Borrow;
use std::sync::Arc;

use axum::extract::{FromRequest, Request};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use holdpoint_api::ErrorCode;
use holdpoint_core::{TenantId, hex};
use holdpoint_engine::{Engine, Once, Receipt, RequestKey};
use serde::Serialize;
use sha2::{Digest, Sha256};

use crate::app::App;
use crate::body::{self, FromBytes};
use crate::error::ApiError;

const KEY_CHARS_MAX: usize = 255;
/// Time for which receipts are stored.
const RECEIPT_TTL_MS: u64 = 24 * 3_600_000;
/// The header of replayed responses, under the present and the former name of the protocol.
const REPLAYED: [HeaderName; 2] =
    [HeaderName::from_static("openwop-idempotent-replay"), HeaderName::from_static("wop-idempotent-replay")];

/// A body, and the idempotency key of its request.
#[derive(Debug)]
pub(crate) struct KeyedBody<B>(pub IdempotencyKey, pub B);

/// The `Idempotency-Key` of a request, if it has one.
#[derive(Debug, Default)]
pub(crate) struct IdempotencyKey(Option<KeyHashes>);

/// Hashes of a request. The key and the body themselves are not stored.
#[derive(Clone, Debug)]
struct KeyHashes {
    operation: String,
    key_hash: String,
    body_hash: String,
}

/// The sender of a request. A key identifies a request of one sender only.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Sender<'a> {
    /// The tenant and the name of a principal: the successor of an API key finds the receipts of its predecessor.
    Principal(&'a TenantId, &'a str),
    /// The tenant of a link that is used without an API key. The path is part of the operation and identifies the link.
    Link(&'a TenantId),
}

impl<B: FromBytes + Send, S: Send + Sync> FromRequest<S> for KeyedBody<B> {
    type Rejection = ApiError;

    async fn from_request(request: Request, state: &S) -> Result<Self, ApiError> {
        // An invalid key is rejected after the body is read: an unread body closes the connection, and the client
        // would lose its next request.
        let key = key_of(request.headers());
        // Most requests have no key; only the others are hashed.
        let key = key.map(|key| key.map(|key_hash| (operation(&request), key_hash)));
        let bytes = body::read(request, state).await?;
        let hashes = key?.map(|(operation, key_hash)| {
            let body_hash = hash(&bytes);
            KeyHashes { operation, key_hash, body_hash }
        });
        Ok(Self(IdempotencyKey(hashes), B::from_bytes(&bytes)?))
    }
}

fn operation(request: &Request) -> String {
    // The query is included: it may name the interrupt.
    let target =
        request.uri().path_and_query().map_or_else(|| request.uri().path(), |target| target.as_str());
    format!("{} {}", request.method(), hash(target.as_bytes()))
}

fn key_of(headers: &HeaderMap) -> Result<Option<String>, ApiError> {
    let Some(key) = headers.get("idempotency-key") else { return Ok(None) };
    let bytes = key.as_bytes();
    let fits =
        (1..=KEY_CHARS_MAX).contains(&bytes.len()) && bytes.iter().all(|byte| (b' '..=b'~').contains(byte));
    if !fits || headers.get_all("idempotency-key").iter().count() > 1 {
        let message = format!("must be one key of 1 to {KEY_CHARS_MAX} printable characters");
        return Err(ApiError::invalid("Idempotency-Key", message));
    }
    Ok(Some(hash(key.as_bytes())))
}

fn hash(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}

/// A response in the form in which it is sent and stored.
#[derive(Debug)]
pub(crate) struct ApiResponse {
    pub status: StatusCode,
    pub body: String,
    /// True if the response was read from a receipt and the request was not executed again.
    pub replayed: bool,
}

impl ApiResponse {
    pub(crate) fn json(status: StatusCode, body: &impl Serialize) -> Self {
        match serde_json::to_string(body) {
            Ok(body) => Self { status, body, replayed: false },
            Err(error) => Self::json(StatusCode::INTERNAL_SERVER_ERROR, &ApiError::internal(error).body()),
        }
    }

    /// A response without a body.
    pub(crate) fn empty() -> Self {
        Self { status: StatusCode::NO_CONTENT, body: String::new(), replayed: false }
    }
}

impl IntoResponse for ApiResponse {
    fn into_response(self) -> Response {
        let mut response = (self.status, self.body).into_response();
        let headers = response.headers_mut();
        if self.status == StatusCode::NO_CONTENT {
            headers.remove(header::CONTENT_TYPE);
        } else {
            headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        }
        if self.replayed {
            for name in REPLAYED {
                headers.insert(name, HeaderValue::from_static("true"));
            }
        }
        response
    }
}

impl IdempotencyKey {
    /// Returns the hash that identifies this key of this sender, or None if the request has no key.
    pub(crate) fn hash_for(&self, sender: Sender<'_>) -> Option<String> {
        self.0.as_ref().map(|hashes| hashes.clone().request(sender).key_hash)
    }

    /// Executes `work` at most once and returns its response, or the stored response to the same request. `respond`
    /// builds the response from the result. If `work` passes the `Once` to an operation of the engine, the receipt is
    /// part of its commit; otherwise the receipt is stored afterwards.
    pub(crate) async fn once<T: 'static, X: Borrow<T>>(
        self,
        app: &App,
        sender: Sender<'_>,
        respond: impl Fn(&T) -> ApiResponse + Send + Sync + 'static,
        work: impl AsyncFnOnce(Option<&Once<T>>) -> Result<X, ApiError>,
    ) -> Result<ApiResponse, ApiError> {
        let respond = move |made: &T, _: Option<()>| respond(made);
        self.once_with_secret(app, sender, respond, async move |once| Ok((work(once).await?, None))).await
    }

    /// Executes `work`, which may create a secret, at most once. Only the first response shows the secret: for the
    /// receipt, `respond` gets None.
    pub(crate) async fn once_with_secret<T: 'static, X: Borrow<T>, S>(
        self,
        app: &App,
        sender: Sender<'_>,
        respond: impl Fn(&T, Option<S>) -> ApiResponse + Send + Sync + 'static,
        work: impl AsyncFnOnce(Option<&Once<T>>) -> Result<(X, Option<S>), ApiError>,
    ) -> Result<ApiResponse, ApiError> {
        let Some(execution) = self.execution(app, sender) else {
            let (made, secret) = work(None).await?;
            return Ok(respond(made.borrow(), secret));
        };
        if let Some(receipt) = execution.find().await? {
            return execution.replay(receipt);
        }
        let respond = Arc::new(respond);
        let stored = respond.clone();
        let stored = move |made: &T| {
            let response = stored(made, None);
            (response.status.as_u16(), response.body)
        };
        let once = Once { request: execution.request.clone(), respond: Arc::new(stored) };
        match work(Some(&once)).await {
            Ok((made, secret)) => {
                let response = execution.finish(|| respond(made.borrow(), None)).await?;
                let shown = secret.filter(|_| !response.replayed);
                Ok(shown.map_or(response, |secret| respond(made.borrow(), Some(secret))))
            }
            Err(error) => execution.refuse(error).await,
        }
    }

    /// Executes work of several commits, which can be repeated without harm. Its response is stored after the last
    /// commit, unless it is an error or [`WorkResponse::Provisional`].
    pub(crate) async fn once_in_parts(
        self,
        app: &App,
        sender: Sender<'_>,
        work: impl Future<Output = Result<WorkResponse, ApiError>>,
    ) -> Result<ApiResponse, ApiError> {
        let execution = self.execution(app, sender);
        if let Some(execution) = &execution
            && let Some(receipt) = execution.find().await?
        {
            return execution.replay(receipt);
        }
        match (work.await?, execution) {
            (WorkResponse::Final(response), Some(execution)) => execution.keep(response).await,
            (WorkResponse::Final(response), None) | (WorkResponse::Provisional(response), _) => Ok(response),
        }
    }

    fn execution<'a>(self, app: &'a App, sender: Sender<'_>) -> Option<KeyedExecution<'a>> {
        let keeps_unchanged = matches!(sender, Sender::Principal(..));
        Some(KeyedExecution { engine: &app.engine, request: self.0?.request(sender), keeps_unchanged })
    }
}

/// The response to work of several commits.
#[derive(Debug)]
pub(crate) enum WorkResponse {
    Final(ApiResponse),
    /// The same request may get another response later.
    Provisional(ApiResponse),
}

impl KeyHashes {
    /// Returns the key of a request. Keys of different principals differ, so that a vote of one principal does not get
    /// the response to the vote of another.
    fn request(self, sender: Sender<'_>) -> RequestKey {
        let Self { operation, key_hash, body_hash } = self;
        let (tenant, key_hash) = match sender {
            Sender::Principal(tenant, name) => (tenant, hash(format!("{key_hash} {name}").as_bytes())),
            Sender::Link(tenant) => (tenant, key_hash),
        };
        RequestKey { tenant: tenant.clone(), operation, key_hash, body_hash, ttl_ms: RECEIPT_TTL_MS }
    }
}

/// The execution of a request that has a key.
struct KeyedExecution<'a> {
    engine: &'a Engine,
    request: RequestKey,
    /// True if responses to requests without a change are stored, too. False for links: their holders have no key that
    /// could be revoked, so the number of their receipts must be bounded by the changes that they can make.
    keeps_unchanged: bool,
}

impl KeyedExecution<'_> {
    async fn find(&self) -> Result<Option<Receipt>, ApiError> {
        Ok(self.engine.receipts().get(&self.request).await?)
    }

    fn replay(&self, receipt: Receipt) -> Result<ApiResponse, ApiError> {
        if receipt.body_hash != self.request.body_hash {
            let message = "this Idempotency-Key was used for a request with another body; use a new key";
            return Err(ApiError::new(ErrorCode::IdempotencyKeyMismatch, message));
        }
        let status = StatusCode::from_u16(receipt.status).map_err(ApiError::internal)?;
        Ok(ApiResponse { status, body: receipt.response, replayed: true })
    }

    /// Returns the response of the receipt, so that the first response and all later ones are the same. Work
    /// without a change has no receipt, and gets one here.
    async fn finish(&self, respond: impl FnOnce() -> ApiResponse) -> Result<ApiResponse, ApiError> {
        match self.find().await? {
            Some(receipt) => Ok(ApiResponse { replayed: false, ..self.replay(receipt)? }),
            None if self.keeps_unchanged => self.keep(respond()).await,
            None => Ok(respond()),
        }
    }

    /// Stores a response. If the response to a concurrent request with the same key was stored before, replays that
    /// one.
    async fn keep(&self, response: ApiResponse) -> Result<ApiResponse, ApiError> {
        let kept =
            self.engine.receipts().keep(&self.request, response.status.as_u16(), response.body.clone());
        match kept.await {
            Ok(()) => Ok(response),
            Err(holdpoint_engine::Error::Duplicate(receipt)) => self.replay(*receipt),
            Err(error) => Err(error.into()),
        }
    }

    /// Stores an error if the same request would get it again. Replays the response to a concurrent request with the
    /// same key that was executed before.
    async fn refuse(&self, mut error: ApiError) -> Result<ApiResponse, ApiError> {
        let first = match error.take_receipt() {
            Some(receipt) => Some(receipt),
            None if error.is_final() && self.keeps_unchanged => {
                let (status, body) = (error.status().as_u16(), error.body().to_string());
                match self.engine.receipts().keep(&self.request, status, body).await {
                    Err(holdpoint_engine::Error::Duplicate(receipt)) => Some(*receipt),
                    Ok(()) | Err(_) => None,
                }
            }
            // If the receipt cannot be read, the original error is returned.
            None => self.find().await.unwrap_or_default(),
        };
        first.map_or(Err(error), |receipt| self.replay(receipt))
    }
}
