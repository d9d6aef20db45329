//! `Idempotency-Key`: a request that is sent twice is carried out once, and answered the same. What it does and what is
//! answered are one commit; a final no is kept, too. Whatever may still turn out otherwise is not.

use std::future::Future;
use std::sync::Arc;

use axum::extract::{FromRequest, Request};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use holdpoint_api::ErrorCode;
use holdpoint_core::mailbox::RunDispatch;
use holdpoint_core::{Run, TenantId, Workflow, hex};
use holdpoint_engine::{ApiKey, Delivery, Done, Engine, LinkSecret, Once, Receipt, Webhook};
use serde::Serialize;
use sha2::{Digest, Sha256};

use crate::app::App;
use crate::auth::Caller;
use crate::body::{self, FromBytes};
use crate::error::ApiError;

const KEY_CHARS_MAX: usize = 255;
const KEPT_MS: u64 = 24 * 3_600_000;
/// Under the name of the protocol and under its old one.
const REPLAYED: [HeaderName; 2] =
    [HeaderName::from_static("openwop-idempotent-replay"), HeaderName::from_static("wop-idempotent-replay")];

/// A body, and the key it was sent under if there is one.
#[derive(Debug)]
pub(crate) struct Sent<B>(pub Sending, pub B);

#[derive(Debug, Default)]
pub(crate) struct Sending(Option<Key>);

/// Hashes only: neither keys nor bodies are kept.
#[derive(Clone, Debug)]
struct Key {
    operation: String,
    key_hash: String,
    body_hash: String,
    /// Answers to what has changed nothing are kept, too.
    keeps_all: bool,
}

/// Who has sent a request. What others were told under the same key is none of theirs.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Sender<'a> {
    /// By the name of the principal, so that a key that was replaced by another one finds what it was told.
    Principal(&'a TenantId, &'a str),
    /// Without a key, over a link: as the tenant whose link it is. The path tells links apart.
    Link(&'a TenantId),
}

impl<'a> Sender<'a> {
    fn tenant(self) -> &'a TenantId {
        match self {
            Self::Principal(tenant, _) | Self::Link(tenant) => tenant,
        }
    }
}

impl<B: FromBytes + Send, S: Send + Sync> FromRequest<S> for Sent<B> {
    type Rejection = ApiError;

    async fn from_request(request: Request, state: &S) -> Result<Self, ApiError> {
        // Judged once the body is read: what is left of one ends the connection, and a client that is about to send its
        // next request would lose it.
        let sent = key_of(request.headers());
        // Hashed only where it is needed: most requests come without a key.
        let sent = sent.map(|key| key.map(|key_hash| (operation(&request), key_hash)));
        let bytes = body::read(request, state).await?;
        let key = sent?.map(|(operation, key_hash)| Key {
            operation,
            key_hash,
            body_hash: hash(&bytes),
            keeps_all: true,
        });
        Ok(Self(Sending(key), B::from_bytes(&bytes)?))
    }
}

fn operation(request: &Request) -> String {
    // The query may name the interrupt that the request is about.
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

/// What was done for a request, for its answer to be made from.
#[derive(Debug)]
pub(crate) enum Did {
    Run(Arc<Run>),
    Workflow(Arc<Workflow>, bool),
    KeyAdded(Box<ApiKey>),
    KeyRevoked(String),
    SecretsRotated(Box<LinkSecret>),
    Dispatch(Box<RunDispatch>),
    Webhook(Box<Webhook>),
    WebhookRemoved(String),
    Delivery(Box<Delivery>),
    Replayed(u64),
}

impl Did {
    fn as_done(&self) -> Done<'_> {
        match self {
            Self::Run(run) => Done::Run(run),
            Self::Workflow(workflow, stored) => Done::Workflow { workflow, stored: *stored },
            Self::KeyAdded(key) => Done::KeyAdded(key),
            Self::KeyRevoked(id) => Done::KeyRevoked(id),
            Self::SecretsRotated(secret) => Done::SecretsRotated(secret),
            Self::Dispatch(row) => Done::Dispatch(row),
            Self::Webhook(webhook) => Done::Webhook(webhook),
            Self::WebhookRemoved(id) => Done::WebhookRemoved(id),
            Self::Delivery(row) => Done::Delivery(row),
            Self::Replayed(count) => Done::Replayed(*count),
        }
    }
}

/// An answer as it is sent and as it is kept.
#[derive(Debug)]
pub(crate) struct Answer {
    pub status: StatusCode,
    pub body: String,
    /// It was given before; nothing was done now.
    pub replayed: bool,
}

impl Answer {
    pub(crate) fn json(status: StatusCode, body: &impl Serialize) -> Self {
        match serde_json::to_string(body) {
            Ok(body) => Self { status, body, replayed: false },
            Err(error) => Self::json(StatusCode::INTERNAL_SERVER_ERROR, &ApiError::internal(error).body()),
        }
    }

    pub(crate) fn nothing() -> Self {
        Self { status: StatusCode::NO_CONTENT, body: String::new(), replayed: false }
    }
}

impl IntoResponse for Answer {
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

impl Sending {
    /// Returns the hash of the idempotency key of this caller, or None if the request has none.
    pub(crate) fn key_of(&self, caller: &Caller) -> Option<String> {
        self.0.clone().map(|key| key.of(caller.sender()).key_hash)
    }

    /// Carries out `work` once. It gets the engine to do it with; `answer` makes the answer from what was done, for the
    /// caller and for the receipt.
    pub(crate) async fn carry_out(
        self,
        app: &App,
        caller: &Caller,
        answer: impl Fn(Done<'_>) -> Answer + Clone + Send + Sync + 'static,
        work: impl AsyncFnOnce(Engine) -> Result<Did, ApiError>,
    ) -> Result<Answer, ApiError> {
        self.carry_out_for(app, caller.sender(), answer, work).await
    }

    /// The same for whoever has sent it.
    pub(crate) async fn carry_out_for(
        self,
        app: &App,
        sender: Sender<'_>,
        answer: impl Fn(Done<'_>) -> Answer + Clone + Send + Sync + 'static,
        work: impl AsyncFnOnce(Engine) -> Result<Did, ApiError>,
    ) -> Result<Answer, ApiError> {
        let (tenant, key) = (sender.tenant(), self.0.map(|key| key.of(sender)));
        let Some(key) = key else {
            return Ok(answer(work(app.engine.clone()).await?.as_done()));
        };
        if let Some(receipt) = key.find(&app.engine, tenant).await? {
            return key.replay(receipt);
        }
        let kept = answer.clone();
        let respond = move |done: Done<'_>| {
            let answer = kept(done);
            (answer.status.as_u16(), answer.body)
        };
        let engine = app.engine.once(key.once(tenant, respond));
        match work(engine.clone()).await {
            Ok(did) => key.done(&engine, tenant, answer(did.as_done())).await,
            Err(error) => key.refused(&engine, tenant, error).await,
        }
    }

    /// For work in several commits that may be done again without harm: the answer is kept after the last of them, if
    /// it is final.
    pub(crate) async fn carry_out_in_parts<F>(
        self,
        app: &App,
        caller: &Caller,
        work: F,
    ) -> Result<Answer, ApiError>
    where
        F: Future<Output = (Answer, bool)>,
    {
        let key = self.0.map(|key| key.of(caller.sender()));
        let Some(key) = key else { return Ok(work.await.0) };
        if let Some(receipt) = key.find(&app.engine, caller.tenant()).await? {
            return key.replay(receipt);
        }
        let (answer, is_final) = work.await;
        if !is_final {
            return Ok(answer);
        }
        let engine = app.engine.once(key.once(caller.tenant(), |_| (500, String::new())));
        match engine.keep_receipt(answer.status.as_u16(), &answer.body).await {
            Ok(()) => Ok(answer),
            Err(holdpoint_engine::Error::Duplicate(receipt)) => key.replay(*receipt),
            Err(error) => Err(error.into()),
        }
    }
}

impl Key {
    /// Two who happen to choose the same key are still two: one's vote is not answered with the other's.
    fn of(mut self, sender: Sender<'_>) -> Self {
        match sender {
            Sender::Principal(_, name) => {
                self.key_hash = hash(format!("{} {name}", self.key_hash).as_bytes());
            }
            // Nobody answers for what they send: what is kept for them is bounded by what they can change.
            Sender::Link(_) => self.keeps_all = false,
        }
        self
    }

    fn once(
        &self,
        tenant: &TenantId,
        respond: impl Fn(Done<'_>) -> (u16, String) + Send + Sync + 'static,
    ) -> Once {
        Once {
            tenant: tenant.clone(),
            operation: self.operation.clone(),
            key_hash: self.key_hash.clone(),
            body_hash: self.body_hash.clone(),
            ttl_ms: KEPT_MS,
            respond: Box::new(respond),
        }
    }

    fn replay(&self, receipt: Receipt) -> Result<Answer, ApiError> {
        if receipt.body_hash != self.body_hash {
            let message = "this Idempotency-Key was used for a request with another body; take a new one";
            return Err(ApiError::new(ErrorCode::IdempotencyKeyMismatch, message));
        }
        let status = StatusCode::from_u16(receipt.status).map_err(ApiError::internal)?;
        Ok(Answer { status, body: receipt.response, replayed: true })
    }

    /// What the receipt says is what is answered, so that the first answer and all later ones are the same. What was so
    /// already is no change, and without a change there is no receipt yet.
    async fn done(&self, engine: &Engine, tenant: &TenantId, answer: Answer) -> Result<Answer, ApiError> {
        if let Some(receipt) = self.find(engine, tenant).await? {
            return Ok(Answer { replayed: false, ..self.replay(receipt)? });
        }
        if !self.keeps_all {
            return Ok(answer);
        }
        match engine.keep_receipt(answer.status.as_u16(), &answer.body).await {
            Ok(()) => Ok(answer),
            // Another one who found nothing to change was a moment faster.
            Err(holdpoint_engine::Error::Duplicate(receipt)) => self.replay(*receipt),
            Err(error) => Err(error.into()),
        }
    }

    /// A no is kept when asking again would not change it. Or somebody was first: then theirs is the answer.
    async fn refused(
        &self,
        engine: &Engine,
        tenant: &TenantId,
        mut error: ApiError,
    ) -> Result<Answer, ApiError> {
        let first = match error.take_receipt() {
            Some(receipt) => Some(receipt),
            None if error.is_final() && self.keeps_all => {
                match engine.keep_receipt(error.status().as_u16(), &error.body().to_string()).await {
                    Err(holdpoint_engine::Error::Duplicate(receipt)) => Some(*receipt),
                    Ok(()) | Err(_) => None,
                }
            }
            // A database that cannot be asked now is what the refusal says already.
            None => self.find(engine, tenant).await.unwrap_or_default(),
        };
        first.map_or(Err(error), |receipt| self.replay(receipt))
    }

    async fn find(&self, engine: &Engine, tenant: &TenantId) -> Result<Option<Receipt>, ApiError> {
        Ok(engine.receipt(tenant, &self.operation, &self.key_hash).await?)
    }
}
