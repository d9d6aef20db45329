//! All routes in one router, and what they share: limits, the envelope for everything that goes wrong, panics included.

use std::any::Any;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::{DefaultBodyLimit, Request};
use axum::http::{HeaderName, HeaderValue, Method, StatusCode, Uri, header};
use axum::middleware::map_request;
use axum::response::{IntoResponse, Response};
use axum::routing::MethodRouter;
use holdpoint_api::ErrorCode;
use holdpoint_core::limits;
use holdpoint_engine::Engine;
use holdpoint_engine::outgoing::{Outgoing, Policy};
use tokio::sync::watch;
use tower_http::catch_panic::CatchPanicLayer;
use tower_http::cors::{AllowOrigin, CorsLayer};

use crate::auth::{FailureGuard, FailureLimit, KeyRing, Origin, RateLimit, SessionRing};
use crate::config::MetricsSettings;
use crate::error::ApiError;
use crate::links::{Links, Settings};
use crate::request_log::{self, RequestLog};
use crate::response_headers::Reach;
use crate::routes::Route;
use crate::routes::verbs::{self, Verbs};
use crate::streams::Streams;
use crate::telemetry::Losses;
use crate::{admin, agents, agui, chat, grants, holds, inbox, mailbox, openapi, openwop};

/// What handlers need, shared by all of them.
pub(crate) type App = Arc<Shared>;

#[derive(Debug)]
pub(crate) struct Shared {
    pub engine: Engine,
    pub keys: KeyRing,
    pub sessions: SessionRing,
    /// The limit of invalid credentials for each address.
    pub failures: FailureLimit,
    pub links: Links,
    /// What streams and polls of the same runs share.
    pub log: Arc<openwop::log::Log>,
    /// What streams of what waits share.
    pub watches: openwop::pending::stream::Watches,
    pub rate_limit: Option<RateLimit>,
    /// The guard of URLs that callers want to be told at.
    pub outgoing: Outgoing,
    /// Published test workflows that were registered at the start, for tools that ask which ones we have.
    pub fixtures: Vec<String>,
    /// What the collector was not told, when there is one.
    pub telemetry: Option<Arc<Losses>>,
    /// Open streams, counted for each tenant.
    pub streams: Streams,
    /// Whose pages browsers let call.
    pub cors_origins: Vec<String>,
    /// The scheme by which browsers reach the server.
    pub reach: Reach,
    pub metrics: MetricsSettings,
    /// Turns true when the server is going down; streams end then.
    pub stopping: watch::Receiver<bool>,
}

impl Shared {
    pub(crate) fn new(engine: Engine, stopping: watch::Receiver<bool>) -> Self {
        let log = openwop::log::Log::new(engine.clone(), stopping.clone());
        let outgoing = Outgoing::new(Policy::default());
        let (keys, rate_limit, fixtures, telemetry) = (KeyRing::default(), None, Vec::new(), None);
        let (links, cors_origins) = (Links::new(Settings::default()), Vec::new());
        let watches = openwop::pending::stream::Watches::default();
        let (sessions, failures) = (SessionRing::default(), FailureLimit::default());
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
            reach: Reach::default(),
            metrics: MetricsSettings::default(),
            stopping,
        }
    }

    pub(crate) fn failure_guard<'a>(&'a self, from: &'a Origin) -> FailureGuard<'a> {
        FailureGuard { limit: &self.failures, from }
    }
}

/// Every route there is. A protocol is mounted by one line here.
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
pub(crate) fn router(app: App, log: Option<&RequestLog>) -> Router {
    let origins = app.cors_origins.clone();
    let router = assembled(routes(), app, log);
    // Outermost, so that browsers may read refusals as well.
    if origins.is_empty() { router } else { router.layer(cors(&origins)) }
}

/// Returns the router of the address for metrics.
pub(crate) fn metrics_router(app: App) -> Router {
    admin::routes::for_metrics()
        .fallback(unknown_route)
        .method_not_allowed_fallback(wrong_method)
        .with_state(app)
}

/// Pages of others send a key in a header, and no cookie: none can use a key or a session that it does not have.
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

fn assembled(routes: Vec<Route>, app: App, log: Option<&RequestLog>) -> Router {
    let verbs = Arc::new(Verbs::of(routes.iter().map(|route| route.operation.path)));
    let inside = mounted(routes)
        .merge(inbox::page::router())
        .fallback(unknown_route)
        .method_not_allowed_fallback(wrong_method)
        .layer(DefaultBodyLimit::max(limits::REQUEST_BYTES_MAX))
        .layer(CatchPanicLayer::custom(panicked));
    let inside = match log {
        Some(_) => inside.layer(map_request(request_log::record_route)),
        None => inside,
    };
    let inside = inside.with_state(app);
    // In front of the router, because it must not have chosen a route yet.
    Router::new().fallback_service(inside).layer(map_request(move |request: Request| {
        let verbs = verbs.clone();
        async move { led(&verbs, request) }
    }))
}

fn mounted(routes: Vec<Route>) -> Router<App> {
    let mut by_path: BTreeMap<String, MethodRouter<App>> = BTreeMap::new();
    for route in routes {
        let handlers = by_path.entry(verbs::pattern(route.operation.path)).or_default();
        *handlers = std::mem::take(handlers).merge(route.handler);
    }
    by_path.into_iter().fold(Router::new(), |router, (path, handlers)| router.route(&path, handlers))
}

fn led(verbs: &Verbs, mut request: Request) -> Result<Request, ApiError> {
    let asked = std::mem::take(request.uri_mut());
    *request.uri_mut() = verbs.lead(asked).ok_or_else(nothing_here)?;
    Ok(request)
}

async fn unknown_route(uri: Uri) -> Response {
    let mut segments = uri.path().split('/').skip(1);
    let (root, next) = (segments.next().unwrap_or_default(), segments.next());
    let version = root.strip_prefix('v').filter(|rest| !rest.is_empty());
    if root == "v1" && next == Some("packs") {
        // Tools take any envelope under this path for a registry of packs. There is none here.
        return (StatusCode::NOT_FOUND, "there is no pack registry here\n").into_response();
    }
    if root != "v1" && version.is_some_and(|rest| rest.bytes().all(|byte| byte.is_ascii_digit())) {
        let message = "this server speaks version 1 of the API; its paths begin with /v1/";
        return ApiError::new(ErrorCode::ValidationError, message).into_response();
    }
    nothing_here().into_response()
}

pub(crate) fn nothing_here() -> ApiError {
    ApiError::new(ErrorCode::NotFound, "there is nothing at this path; the API begins at /v1/")
}

async fn wrong_method() -> ApiError {
    let message = "this path does not take that method; the Allow header names those it takes";
    ApiError::new(ErrorCode::MethodNotAllowed, message)
}

fn panicked(panic: Box<dyn Any + Send + 'static>) -> Response {
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

    fn ask(url: &str, method: &str, path: &str) -> (u16, String, String) {
        let agent = ureq::Agent::config_builder().http_status_as_error(false).build().new_agent();
        let request = ureq::http::Request::builder().method(method).uri(format!("{url}{path}"));
        let mut answer = agent.run(request.body(()).unwrap()).unwrap();
        let allow = answer.headers().get("allow").map_or("", |allow| allow.to_str().unwrap()).to_owned();
        (answer.status().as_u16(), answer.body_mut().read_to_string().unwrap(), allow)
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_verb_chooses_its_route_and_leaves_the_id() {
        let folder = tempfile::tempdir().unwrap();
        let location = Location::Sqlite(folder.path().join("holdpoint.db"));
        let engine = Engine::open(Options::new(location)).await.unwrap();
        let (_, stopping) = watch::channel(false);
        let routes = vec![
            Route::get_public("/v1/things/{id}:shout", "shout", shout),
            Route::get_public("/v1/things/{id}", "show", show),
        ];
        let router = assembled(routes, Arc::new(Shared::new(engine, stopping)), None);
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let server = tokio::spawn(axum::serve(listener, router).into_future());
        tokio::task::spawn_blocking(move || {
            let text = |path: &str| ask(&url, "GET", path).1;
            assert_eq!(text("/v1/things/a:shout?b=c"), "a!");
            assert_eq!(text("/v1/things/a:b:shout"), "a:b!");
            assert_eq!(text("/v1/things/a%2F%20:shout"), "a/ !");
            assert_eq!(text("/v1/things/a:whisper"), "a:whisper");
            assert_eq!(text("/v1/things/a"), "a");
            assert_eq!(ask(&url, "GET", "/!/v1/things/a/shout").0, 404);
            let (status, _, allow) = ask(&url, "POST", "/v1/things/a:shout");
            assert_eq!((status, allow.as_str()), (405, "GET,HEAD"));
        })
        .await
        .unwrap();
        server.abort();
    }

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
