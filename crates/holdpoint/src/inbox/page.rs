//! Serves the pages and their files. Whatever is answered here may neither be framed, nor run anything that is not ours,
//! nor tell anybody where a reader came from.

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

/// Pages are no operations of the API: they have no key, and no entry in its document.
pub(crate) fn router() -> Router<App> {
    Router::new()
        .route("/inbox", get(index))
        .route("/inbox/", get(index))
        .route("/inbox/{*path}", get(index))
        .route("/inbox/assets/{hash}/{*name}", get(asset))
        .route_layer(map_response(dressed))
        .route("/", get(front_door))
}

/// A link that is opened in a browser shows its page, whatever has become of what it is for: the page asks and tells.
pub(crate) fn with_link_page(mut route: Route) -> Route {
    if route.operation.id == "inspectByToken" {
        route.handler = route.handler.layer(from_fn(link));
        route = route.answers(200, Content::Text("text/html"));
    }
    route
}

async fn front_door(headers: HeaderMap) -> Response {
    if prefers_page(&headers) {
        let headers = [(header::LOCATION, "inbox"), (header::VARY, "Accept")];
        return (StatusCode::TEMPORARY_REDIRECT, headers).into_response();
    }
    crate::app::nothing_here().into_response()
}

/// Every path below is the page's own: it knows what it shows there. Asked for again each time, and rarely sent.
async fn index(uri: Uri, headers: HeaderMap) -> Response {
    if uri.path().starts_with("/inbox/assets") {
        return no_such_file();
    }
    let text = assets::page(INDEX, uri.path().matches('/').count().saturating_sub(1));
    let etag = format!("\"{}\"", hex(&Sha256::digest(text.as_bytes())[..10]));
    let known = headers.get(header::IF_NONE_MATCH).and_then(|tag| tag.to_str().ok());
    let kept = [(header::CACHE_CONTROL, "no-cache".to_owned()), (header::ETAG, etag.clone())];
    if known.is_some_and(|known| known.split(',').any(|tag| tag.trim().trim_start_matches("W/") == etag)) {
        return (StatusCode::NOT_MODIFIED, kept).into_response();
    }
    (kept, [(header::CONTENT_TYPE, "text/html; charset=utf-8")], text).into_response()
}

async fn asset(Path((hash, name)): Path<(String, String)>) -> Response {
    // Under another hash something else was served, and may be again: nothing is kept of this answer.
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

/// Nothing on the way keeps either answer, so that nobody needs to be told that there are two.
async fn link(request: Request, next: Next) -> Response {
    if !prefers_page(request.headers()) {
        return next.run(request).await;
    }
    let headers = [(header::CONTENT_TYPE, "text/html; charset=utf-8"), (header::CACHE_CONTROL, "no-store")];
    dressed((headers, assets::page(LINK, 2)).into_response()).await
}

async fn dressed(mut response: Response) -> Response {
    for (name, value) in HEADERS {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    response
}
