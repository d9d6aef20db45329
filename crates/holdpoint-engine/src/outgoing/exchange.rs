//! Makes the request of a call, and the response from the head that was read.

use bytes::Bytes;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::header::{CONNECTION, HOST, HeaderMap, HeaderName, HeaderValue, USER_AGENT};

use super::OutgoingRequest;
use super::body::{ResponseBody, StreamedResponse};
use super::connection::{HttpConnection, Request};
use super::error::OutgoingRefusal;
use super::target::OutgoingTarget;

/// Headers for framing and routing. Callers cannot set them, because they could bypass the policy.
const FRAMING: [&str; 11] = [
    "connection",
    "content-length",
    "expect",
    "forwarded",
    "host",
    "keep-alive",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "via",
];

/// Returns whether a caller may set this header.
pub fn is_settable_header(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    !FRAMING.contains(&name.as_str()) && !name.starts_with("proxy-") && HeaderName::try_from(&name).is_ok()
}

/// The use of a connection after the call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AfterCall {
    Close,
    KeepOpen,
}

pub(super) fn prepare_request(
    target: &OutgoingTarget,
    request: OutgoingRequest,
    after: AfterCall,
) -> Result<Request, OutgoingRefusal> {
    let mut headers = HeaderMap::new();
    for (name, value) in &request.headers {
        let refused = || OutgoingRefusal::Header(name.clone());
        if !is_settable_header(name) {
            return Err(refused());
        }
        let known = HeaderName::try_from(name).map_err(|_| refused())?;
        headers.append(known, HeaderValue::try_from(value).map_err(|_| refused())?);
    }
    let authority =
        HeaderValue::try_from(target.authority()).map_err(|_| OutgoingRefusal::Url("has no host"))?;
    headers.insert(HOST, authority);
    if after == AfterCall::Close {
        headers.insert(CONNECTION, HeaderValue::from_static("close"));
    }
    let us = HeaderValue::from_static(concat!("holdpoint/", env!("CARGO_PKG_VERSION")));
    headers.entry(USER_AGENT).or_insert(us);
    let mut prepared = hyper::Request::builder()
        .method(request.method.as_str())
        .uri(target.path_and_query())
        .body(Full::new(Bytes::from(request.body)))
        .map_err(|_| OutgoingRefusal::Url("cannot be used in a request"))?;
    *prepared.headers_mut() = headers;
    Ok(prepared)
}

/// Returns the response. Its body owns the connection: dropping it closes the socket.
pub(super) fn response(
    target: &OutgoingTarget,
    response: hyper::Response<Incoming>,
    connection: HttpConnection,
    bytes_max: usize,
) -> StreamedResponse {
    let (head, incoming) = response.into_parts();
    let (origin, permit, timeouts) = (target.origin(), None, None);
    let body = ResponseBody { origin, incoming, connection, permit, bytes_max, bytes_read: 0, timeouts };
    StreamedResponse { status: head.status.as_u16(), headers: text_headers(&head.headers), body }
}

fn text_headers(headers: &HeaderMap) -> Vec<(String, String)> {
    let text = |(name, value): (&HeaderName, &HeaderValue)| {
        value.to_str().ok().map(|value| (name.as_str().to_owned(), value.to_owned()))
    };
    headers.iter().filter_map(text).collect()
}
