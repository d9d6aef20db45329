//! Sends one request over an open connection and reads the head of the response. HTTP/1.1, one call per connection.

use std::convert::Infallible;

use bytes::Bytes;
use http_body_util::Full;
use hyper::client::conn::http1;
use hyper::header::{CONNECTION, HOST, HeaderMap, HeaderName, HeaderValue, USER_AGENT};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};

use super::OutgoingRequest;
use super::body::{ConnectionDriver, ResponseBody, StreamedResponse};
use super::error::{Error, OutgoingRefusal, excerpt};
use super::limited_stream::LimitedStream;
use super::progress::{CallProgress, CallStage};
use super::target::OutgoingTarget;

/// The maximum size of a response head.
const HEAD_BYTES_MAX: usize = 64 * 1024;

/// The maximum number of bytes before the body: the response head and interim responses.
const BEFORE_BODY_BYTES_MAX: usize = 4 * HEAD_BYTES_MAX;

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

pub(super) fn prepare_request(
    target: &OutgoingTarget,
    request: OutgoingRequest,
) -> Result<hyper::Request<Full<Bytes>>, OutgoingRefusal> {
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
    headers.insert(CONNECTION, HeaderValue::from_static("close"));
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

/// Sends the request and returns the response. The future, and then the body, owns the connection: dropping it
/// closes the socket.
pub(super) async fn exchange<S>(
    target: &OutgoingTarget,
    stream: S,
    request: hyper::Request<Full<Bytes>>,
    bytes_max: usize,
    progress: &CallProgress,
) -> Result<StreamedResponse, Error>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let broken = |error: hyper::Error| Error::Broken { origin: target.origin(), why: excerpt(&error) };
    progress.enter(CallStage::Answer);
    let mut builder = http1::Builder::new();
    builder.max_buf_size(HEAD_BYTES_MAX);
    let (stream, read_limit) = LimitedStream::new(stream, BEFORE_BODY_BYTES_MAX);
    let (mut sender, connection) = builder.handshake(TokioIo::new(stream)).await.map_err(broken)?;
    let mut driver: ConnectionDriver = Box::pin(async move {
        // The reader of the response gets the error of the connection; bytes may remain to be read.
        let _ = connection.await;
        std::future::pending::<Infallible>().await
    });
    let response = tokio::select! {
        response = sender.send_request(request) => response,
        never = &mut driver => match never {},
    };
    let (head, incoming) = response.map_err(broken)?.into_parts();
    read_limit.lift();
    progress.enter(CallStage::Body);
    let (origin, permit, timeouts) = (target.origin(), None, None);
    let body = ResponseBody { origin, incoming, driver, sender, permit, bytes_max, bytes_read: 0, timeouts };
    Ok(StreamedResponse { status: head.status.as_u16(), headers: text_headers(&head.headers), body })
}

fn text_headers(headers: &HeaderMap) -> Vec<(String, String)> {
    let text = |(name, value): (&HeaderName, &HeaderValue)| {
        value.to_str().ok().map(|value| (name.as_str().to_owned(), value.to_owned()))
    };
    headers.iter().filter_map(text).collect()
}
