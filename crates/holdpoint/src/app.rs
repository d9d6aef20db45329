//! The router of the server: all routes, the size limit of request bodies, and the error envelope for unknown paths and
//! panics.

use std::any::Any;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::http::{HeaderName, HeaderValue, Method, StatusCode, Uri, header};
use axum::middleware::map_request;
use axum::response::{IntoResponse, Response};
use axum::routing::MethodRouter;
use holdpoint_api::ErrorCode;
use holdpoint_core::limits;
use holdpoint_engine::Engine;
use holdpoint_engine::outgoing::{Outgoing, OutgoingPolicy};
use tokio::sync::watch;
use tower_http::catch_panic::CatchPanicLayer;
use tower_http::cors::{AllowOrigin, CorsLayer};

use crate::auth::{FailureGuard, FailureLimit, KeyCache, Origin, RateLimit, SessionCache};
use crate::config::MetricsSettings;
use crate::error::ApiError;
use crate::links::{LinkConfig, Links};
use crate::request_log::{self, RequestLog};
use crate::response_headers::PublicScheme;
use crate::routes::Route;
use crate::routes::verbs::{self, VerbRouter, Verbs};
use crate::streams::Streams;
use crate::telemetry::TelemetryLosses;
use crate::{admin, agents, agui, chat, grants, holds, inbox, mailbox, openapi, openwop};

/// The state that all handlers share.
pub(crate) type App = Arc<AppState>;

#[derive(Debug)]
pub(crate) struct AppState {
    pub engine: Engine,
    pub keys: KeyCache,
    pub sessions: SessionCache,
    /// Limits the invalid credentials that one address may send.
    pub failures: FailureLimit,
    pub links: Links,
    /// The cache of rendered event logs, which streams and polls share.
    pub log: Arc<openwop::log::LogCache>,
    /// The counts of pending interrupts, which streams with the same filter share.
    pub watches: openwop::pending::stream::PendingWatches,
    pub rate_limit: Option<RateLimit>,
    /// The client that checks the URLs of webhooks and callbacks.
    pub outgoing: Outgoing,
    /// Published test workflows that were registered at the start; the discovery document lists them.
    pub fixtures: Vec<String>,
    /// Counts the telemetry that was not exported. None without a collector.
    pub telemetry: Option<Arc<TelemetryLosses>>,
    /// Open streams, counted for each tenant.
    pub streams: Streams,
    /// Origins whose pages may call the API from browsers.
    pub cors_origins: Vec<String>,
    /// The scheme over which browsers reach the server.
    pub public_scheme: PublicScheme,
    pub metrics: MetricsSettings,
    /// True once the server shuts down; streams end then.
    pub stopping: watch::Receiver<bool>,
}

impl AppState {
    pub(crate) fn new(engine: Engine, stopping: watch::Receiver<bool>) -> Self {
        let log = openwop::log::LogCache::new(engine.clone(), stopping.clone());
        let outgoing = Outgoing::new(OutgoingPolicy::default());
        let (keys, rate_limit, fixtures, telemetry) = (KeyCache::default(), None, Vec::new(), None);
        let (links, cors_origins) = (Links::new(LinkConfig::default()), Vec::new());
        let watches = openwop::pending::stream::PendingWatches::default();
        let (sessions, failures) = (SessionCache::default(), FailureLimit::default());
        Self {
            engine,
            keys,
            sessions,
            failures,
            links,
            watches,
            rate_limit,
            outgoing,
            fixtures,
            telemetry,
            log,
            cors_origins,
            streams: Streams::default(),
            public_scheme: PublicScheme::default(),
            metrics: MetricsSettings::default(),
            stopping,
        }
    }

    pub(crate) fn failure_guard<'a>(&'a self, from: &'a Origin) -> FailureGuard<'a> {
        FailureGuard { limit: &self.failures, from }
    }
}

/// Returns the routes of all protocols.
pub(crate) fn routes() -> Vec<Route> {
    [
        openwop::routes::all().into_iter().map(inbox::page::with_link_page).collect(),
        agents::routes::all(),
        agui::routes::all(),
        chat::routes::all(),
        grants::routes::all(),
        holds::routes::all(),
        mailbox::routes::all(),
        admin::routes::all(),
        inbox::routes::all(),
        openapi::routes(),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// Returns the router of the server. With a request log, it records the routes of requests.
pub(crate) fn router(app: App, log: Option<&RequestLog>) -> VerbRouter {
    let origins = app.cors_origins.clone();
    let mut router = assemble(routes(), app, log);
    if !origins.is_empty() {
        // CORS is the outermost layer, so that browsers can read error responses, too.
        router.inner = router.inner.layer(cors(&origins));
    }
    router
}

/// Returns the router of the address for metrics.
pub(crate) fn metrics_router(app: App) -> VerbRouter {
    let router = admin::routes::for_metrics()
        .fallback(unknown_route)
        .method_not_allowed_fallback(wrong_method)
        .with_state(app);
    VerbRouter::new(Verbs::default(), router)
}

/// Allows pages of other origins to send an API key in a header. Cookies are not allowed, so that these pages cannot use
/// the session of a browser.
fn cors(origins: &[String]) -> CorsLayer {
    let allowed = match origins.iter().any(|origin| origin == "*") {
        true => AllowOrigin::any(),
        false => AllowOrigin::list(origins.iter().filter_map(|origin| HeaderValue::from_str(origin).ok())),
    };
    let sent = ["authorization", "content-type", "accept", "idempotency-key", "last-event-id"];
    CorsLayer::new()
        .allow_origin(allowed)
        .allow_methods([Method::GET, Method::POST, Method::PUT, Method::DELETE])
        .allow_headers(sent.map(HeaderName::from_static))
        .expose_headers([header::RETRY_AFTER])
        .max_age(Duration::from_secs(600))
}

fn assemble(routes: Vec<Route>, app: App, log: Option<&RequestLog>) -> VerbRouter {
    let verbs = Verbs::of(routes.iter().map(|route| route.operation.path));
    // One call of `layer`: the router boxes the future of a request once for each call.
    let inside = mount(routes)
        .merge(inbox::page::router())
        .fallback(unknown_route)
        .method_not_allowed_fallback(wrong_method)
        .layer((CatchPanicLayer::custom(respond_to_panic), DefaultBodyLimit::max(limits::REQUEST_BYTES_MAX)));
    let inside = match log {
        Some(_) => inside.layer(map_request(request_log::record_route)),
        None => inside,
    };
    VerbRouter::new(verbs, inside.with_state(app))
}

fn mount(routes: Vec<Route>) -> Router<App> {
    let mut by_path: BTreeMap<String, MethodRouter<App>> = BTreeMap::new();
    for route in routes {
        let handlers = by_path.entry(verbs::pattern(route.operation.path)).or_default();
        *handlers = std::mem::take(handlers).merge(route.handler);
    }
    by_path.into_iter().fold(Router::new(), |router, (path, handlers)| router.route(&path, handlers))
}

async fn unknown_route(uri: Uri) -> Response {
    let mut segments = uri.path().split('/').skip(1);
    let (root, next) = (segments.next().unwrap_or_default(), segments.next());
    let version = root.strip_prefix('v').filter(|rest| !rest.is_empty());
    if root == "v1" && next == Some("packs") {
        // Tools take an error envelope at this path as a sign of a pack registry, which this server does not have.
        return (StatusCode::NOT_FOUND, "this server has no pack registry\n").into_response();
    }
    if root != "v1" && version.is_some_and(|rest| rest.bytes().all(|byte| byte.is_ascii_digit())) {
        let message = "this server supports version 1 of the API; its paths begin with /v1/";
        return ApiError::new(ErrorCode::ValidationError, message).into_response();
    }
    unknown_path().into_response()
}

pub(crate) fn unknown_path() -> ApiError {
    ApiError::new(ErrorCode::NotFound, "no resource at this path; the paths of the API begin with /v1/")
}

async fn wrong_method() -> ApiError {
    let message = "this path does not support the method; the Allow header lists the supported methods";
    ApiError::new(ErrorCode::MethodNotAllowed, message)
}

fn respond_to_panic(panic: Box<dyn Any + Send + 'static>) -> Response {
    let text = panic.downcast_ref::<String>().map(String::as_str).or(panic.downcast_ref::<&str>().copied());
    ApiError::internal(format!("panic: {}", text.unwrap_or("no message"))).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::body::InPath;
    use axum::extract::State;
    use holdpoint_engine::{Location, Options};

    async fn shout(State(_): State<App>, InPath(id): InPath<String>) -> String {
        format!("{id}!")
    }

    async fn show(InPath(id): InPath<String>) -> String {
        id
    }

    async fn break_down() -> String {
        panic!("secret plans")
    }

    fn send(url: &str, method: &str, path: &str) -> (u16, String, String) {
        let agent = ureq::Agent::config_builder().http_status_as_error(false).build().new_agent();
        let request = ureq::http::Request::builder().method(method).uri(format!("{url}{path}"));
        let mut answer = agent.run(request.body(()).unwrap()).unwrap();
        let allow = answer.headers().get("allow").map_or("", |allow| allow.to_str().unwrap()).to_owned();
        (answer.status().as_u16(), answer.body_mut().read_to_string().unwrap(), allow)
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_verb_chooses_its_route_and_a_panic_becomes_a_response() {
        let folder = tempfile::tempdir().unwrap();
        let location = Location::Sqlite(folder.path().join("holdpoint.db"));
        let engine = Engine::open(crate::extensions::add_default(Options::new(location).manual_worker()))
            .await
            .unwrap();
        let (_, stopping) = watch::channel(false);
        let routes = vec![
            Route::get_public("/v1/things/{id}:shout", "shout", shout),
            Route::get_public("/v1/things/{id}", "show", show),
            Route::get_public("/v1/panic", "panic", break_down),
        ];
        let router = assemble(routes, Arc::new(AppState::new(engine, stopping)), None);
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let service = axum::ServiceExt::<axum::extract::Request>::into_make_service(router);
        let server = tokio::spawn(axum::serve(listener, service).into_future());
        tokio::task::spawn_blocking(move || {
            let text = |path: &str| send(&url, "GET", path).1;
            assert_eq!(text("/v1/things/a:shout?b=c"), "a!");
            assert_eq!(text("/v1/things/a:b:shout"), "a:b!");
            assert_eq!(text("/v1/things/a%2F%20:shout"), "a/ !");
            assert_eq!(text("/v1/things/a:whisper"), "a:whisper");
            assert_eq!(text("/v1/things/a"), "a");
            assert_eq!(send(&url, "GET", "/!/v1/things/a/shout").0, 404);
            let (status, _, allow) = send(&url, "POST", "/v1/things/a:shout");
            assert_eq!((status, allow.as_str()), (405, "GET,HEAD"));
            let (status, body, _) = send(&url, "GET", "/v1/panic");
            assert!(status == 500 && body.contains("internal_error") && !body.contains("secret"), "{body}");
        })
        .await
        .unwrap();
        server.abort();
    }

    #[tokio::test]
    async fn a_panic_becomes_an_internal_error_without_its_message() {
        for panic in [
            Box::new("secret plans") as Box<dyn Any + Send>,
            Box::new("secret plans".to_owned()),
            Box::new(7),
        ] {
            let response = respond_to_panic(panic);
            assert_eq!(response.status(), StatusCode::INTERNAL_SERVER_ERROR);
            let body = axum::body::to_bytes(response.into_body(), 10_000).await.unwrap();
            let body: serde_json::Value = serde_json::from_slice(&body).unwrap();
            assert_eq!(body["error"], "internal_error");
            assert!(body["details"]["correlationId"].is_string());
            assert!(!body.to_string().contains("secret"), "{body}");
        }
    }
}
