//! Serves the pages and their files, with headers that forbid frames, foreign scripts and referrers.

use axum::Router;
use axum::extract::{Path, Request};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, Uri, header};
use axum::middleware::{Next, from_fn, map_response};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use holdpoint_core::hex;
use sha2::{Digest, Sha256};

use super::accept::prefers_page;
use super::assets::{self, INDEX, LINK};
use crate::app::App;
use crate::error::ApiError;
use crate::routes::{Content, Route};

const HEADERS: [(HeaderName, &str); 6] = [
    (
        header::CONTENT_SECURITY_POLICY,
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; \
         font-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    ),
    (header::X_FRAME_OPTIONS, "DENY"),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::REFERRER_POLICY, "no-referrer"),
    (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
    (
        HeaderName::from_static("permissions-policy"),
        "accelerometer=(), autoplay=(), browsing-topics=(), camera=(), display-capture=(), geolocation=(), \
         gyroscope=(), hid=(), identity-credentials-get=(), idle-detection=(), magnetometer=(), microphone=(), \
         midi=(), payment=(), screen-wake-lock=(), serial=(), usb=(), xr-spatial-tracking=()",
    ),
];

/// Returns the routes of the pages. Pages are not operations of the API: they need no key and are not in the OpenAPI
/// document.
pub(crate) fn router() -> Router<App> {
    Router::new()
        .route("/inbox", get(index))
        .route("/inbox/", get(index))
        .route("/inbox/{*path}", get(index))
        .route("/inbox/assets/{hash}/{*name}", get(asset))
        .route_layer(map_response(add_headers))
        .route("/", get(redirect_to_inbox))
}

/// Adds the page of signed links: a browser that opens a link gets the page, which then requests the interrupt.
pub(crate) fn with_link_page(mut route: Route) -> Route {
    if route.operation.id == "inspectByToken" {
        route.handler = route.handler.layer(from_fn(link));
        route = route.response_content(200, Content::Text("text/html"));
    }
    route
}

async fn redirect_to_inbox(headers: HeaderMap) -> Response {
    if prefers_page(&headers) {
        let headers = [(header::LOCATION, "inbox"), (header::VARY, "Accept")];
        return (StatusCode::TEMPORARY_REDIRECT, headers).into_response();
    }
    crate::app::unknown_path().into_response()
}

/// Serves the page at every path below `/inbox`. The page chooses its view by the path. Browsers revalidate it on each
/// load.
async fn index(uri: Uri, headers: HeaderMap) -> Response {
    if uri.path().starts_with("/inbox/assets") {
        return no_such_file();
    }
    let text = assets::page(INDEX, uri.path().matches('/').count().saturating_sub(1));
    let etag = format!("\"{}\"", hex(&Sha256::digest(text.as_bytes())[..10]));
    let known = headers.get(header::IF_NONE_MATCH).and_then(|tag| tag.to_str().ok());
    let caching = [(header::CACHE_CONTROL, "no-cache".to_owned()), (header::ETAG, etag.clone())];
    if known.is_some_and(|known| known.split(',').any(|tag| tag.trim().trim_start_matches("W/") == etag)) {
        return (StatusCode::NOT_MODIFIED, caching).into_response();
    }
    (caching, [(header::CONTENT_TYPE, "text/html; charset=utf-8")], text).into_response()
}

async fn asset(Path((hash, name)): Path<(String, String)>) -> Response {
    // Another version of the server may have files with this hash: the error is not cached.
    match assets::find(&name).filter(|_| hash == assets::hash()) {
        Some(found) => {
            let headers = [
                (header::CONTENT_TYPE, assets::media_type(&name)),
                (header::CACHE_CONTROL, "public, max-age=31536000, immutable"),
            ];
            (headers, found).into_response()
        }
        None => no_such_file(),
    }
}

fn no_such_file() -> Response {
    ([(header::CACHE_CONTROL, "no-store")], ApiError::not_found("file")).into_response()
}

/// Serves the page of a link to browsers. Neither response is cached, so no `Vary` header is needed.
async fn link(request: Request, next: Next) -> Response {
    if !prefers_page(request.headers()) {
        return next.run(request).await;
    }
    let headers = [(header::CONTENT_TYPE, "text/html; charset=utf-8"), (header::CACHE_CONTROL, "no-store")];
    add_headers((headers, assets::page(LINK, 2)).into_response()).await
}

async fn add_headers(mut response: Response) -> Response {
    for (name, value) in HEADERS {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    response
}
