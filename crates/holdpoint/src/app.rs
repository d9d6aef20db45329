//! The routes, and what every route shares: limits, the envelope for everything that goes wrong, panics included.

use std::any::Any;
use std::sync::Arc;

use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::{delete, get, post};
use holdpoint_core::limits;
use holdpoint_engine::Engine;
use tokio::sync::watch;
use tower_http::catch_panic::CatchPanicLayer;

use crate::auth::KeyRing;
use crate::error::ApiError;
use crate::{admin, mailbox, openwop};

/// What handlers need, shared by all of them.
pub(crate) type App = Arc<Shared>;

#[derive(Debug)]
pub(crate) struct Shared {
    pub engine: Engine,
    pub keys: KeyRing,
    /// What streams and polls of the same runs share.
    pub log: Arc<openwop::log::Log>,
    /// Turns true when the server is going down; streams end then.
    pub stopping: watch::Receiver<bool>,
}

impl Shared {
    pub(crate) fn new(engine: Engine, stopping: watch::Receiver<bool>) -> Self {
        let log = openwop::log::Log::new(engine.clone(), stopping.clone());
        Self { engine, keys: KeyRing::default(), log, stopping }
    }
}

pub(crate) fn router(app: App) -> Router {
    Router::new()
        .route("/.well-known/openwop", get(openwop::discovery::document))
        .route("/v1/workflows", get(openwop::workflows::list))
        .route("/v1/workflows/{id}", get(openwop::workflows::show).put(openwop::workflows::put))
        .route("/v1/runs", post(openwop::runs::create).get(openwop::runs::list))
        .route("/v1/runs/{run}", get(openwop::runs::show))
        .route("/v1/runs/{run}/cancel", post(openwop::runs::cancel))
        .route("/v1/runs/{run}/events", get(openwop::events::stream))
        .route("/v1/runs/{run}/events/poll", get(openwop::events::poll))
        .route("/v1/runs/{run}/interrupts/{node}", post(openwop::interrupts::resolve))
        .route("/v1/interrupts", get(openwop::interrupts::pending))
        .route("/v1/threads/{thread}/dispatches", get(mailbox::dispatches::list))
        .route("/v1/dispatches/{dispatch}", get(mailbox::dispatches::show))
        .route("/v1/dispatches/{dispatch}/cancel", post(mailbox::dispatches::cancel))
        .route("/v1/dispatches/{dispatch}/requeue", post(mailbox::dispatches::requeue))
        .route("/v1/mailbox/stats", get(mailbox::dispatches::stats))
        .route("/v1/keys", post(admin::keys::create).get(admin::keys::list))
        .route("/v1/keys/{key}", delete(admin::keys::revoke))
        .route("/healthz", get(admin::health::alive))
        .route("/readyz", get(admin::health::ready))
        .route("/metrics", get(admin::metrics::text))
        .fallback(unknown_route)
        .method_not_allowed_fallback(wrong_method)
        .layer(DefaultBodyLimit::max(limits::REQUEST_BYTES_MAX))
        .layer(CatchPanicLayer::custom(panicked))
        .with_state(app)
}

async fn unknown_route() -> ApiError {
    ApiError::new(StatusCode::NOT_FOUND, "not_found", "there is nothing at this path; the API begins at /v1/")
}

async fn wrong_method() -> ApiError {
    let message = "this path does not take that method; the Allow header names those it takes";
    ApiError::new(StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed", message)
}

fn panicked(panic: Box<dyn Any + Send + 'static>) -> Response {
    let text = panic.downcast_ref::<String>().map(String::as_str).or(panic.downcast_ref::<&str>().copied());
    ApiError::internal(format!("panic: {}", text.unwrap_or("no message"))).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_panic_becomes_the_envelope_and_keeps_its_words_to_itself() {
        for panic in [
            Box::new("secret plans") as Box<dyn Any + Send>,
            Box::new("secret plans".to_owned()),
            Box::new(7),
        ] {
            let response = panicked(panic);
            assert_eq!(response.status(), StatusCode::INTERNAL_SERVER_ERROR);
            let body = axum::body::to_bytes(response.into_body(), 10_000).await.unwrap();
            let body: serde_json::Value = serde_json::from_slice(&body).unwrap();
            assert_eq!(body["error"], "internal_error");
            assert!(body["details"]["correlationId"].is_string());
            assert!(!body.to_string().contains("secret"), "{body}");
        }
    }
}
