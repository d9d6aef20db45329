//! One request and its response over a connection that is there: HTTP/1.1, one call for each connection.

use std::convert::Infallible;

use bytes::Bytes;
use http_body_util::Full;
use hyper::client::conn::http1;
use hyper::header::{CONNECTION, HOST, HeaderMap, HeaderName, HeaderValue, USER_AGENT};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};

use super::Request;
use super::allowance::Limited;
use super::body::{Answer, Body, Driving};
use super::error::{Error, Refused, excerpt};
use super::progress::{Progress, Stage};
use super::target::Target;

/// Bytes that the head of a response may take.
const HEAD_BYTES_MAX: usize = 64 * 1024;

/// Bytes that may come until the head of a response is complete: its own, and what other answers come before it.
const BEFORE_BODY_BYTES_MAX: usize = 4 * HEAD_BYTES_MAX;

/// Headers that say how a message is framed or routed. They are ours: a caller's would talk past the guard.
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

/// Whether a caller may set a header of this name.
pub(crate) fn may_be_set(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    !FRAMING.contains(&name.as_str()) && !name.starts_with("proxy-") && HeaderName::try_from(&name).is_ok()
}

pub(super) fn prepare(target: &Target, request: Request) -> Result<hyper::Request<Full<Bytes>>, Refused> {
    let mut headers = HeaderMap::new();
    for (name, value) in &request.headers {
        let refused = || Refused::Header(name.clone());
        if !may_be_set(name) {
            return Err(refused());
        }
        let known = HeaderName::try_from(name).map_err(|_| refused())?;
        headers.append(known, HeaderValue::try_from(value).map_err(|_| refused())?);
    }
    let authority = HeaderValue::try_from(target.authority()).map_err(|_| Refused::Url("names no host"))?;
    headers.insert(HOST, authority);
    headers.insert(CONNECTION, HeaderValue::from_static("close"));
    let us = HeaderValue::from_static(concat!("holdpoint/", env!("CARGO_PKG_VERSION")));
    headers.entry(USER_AGENT).or_insert(us);
    let mut prepared = hyper::Request::builder()
        .method(request.method.as_str())
        .uri(target.path_and_query())
        .body(Full::new(Bytes::from(request.body)))
        .map_err(|_| Refused::Url("cannot be put into a request"))?;
    *prepared.headers_mut() = headers;
    Ok(prepared)
}

/// The connection lives in this future, and then in the body: whoever drops it closes the socket.
pub(super) async fn carry_out<S>(
    target: &Target,
    stream: S,
    request: hyper::Request<Full<Bytes>>,
    bytes_max: usize,
    progress: &Progress,
) -> Result<Answer, Error>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let broken = |error: hyper::Error| Error::Broken { origin: target.origin(), why: excerpt(&error) };
    progress.at(Stage::Answer);
    let mut builder = http1::Builder::new();
    builder.max_buf_size(HEAD_BYTES_MAX);
    let (stream, allowance) = Limited::new(stream, BEFORE_BODY_BYTES_MAX);
    let (mut sender, connection) = builder.handshake(TokioIo::new(stream)).await.map_err(broken)?;
    let mut driving: Driving = Box::pin(async move {
        // What ends a connection is told to the exchange, which may still have bytes to read.
        let _ = connection.await;
        std::future::pending::<Infallible>().await
    });
    let answered = tokio::select! {
        answered = sender.send_request(request) => answered,
        never = &mut driving => match never {},
    };
    let (head, incoming) = answered.map_err(broken)?.into_parts();
    allowance.lift();
    progress.at(Stage::Body);
    let (origin, turn, patience) = (target.origin(), None, None);
    let body = Body { origin, incoming, driving, sender, turn, bytes_max, bytes_read: 0, patience };
    Ok(Answer { status: head.status.as_u16(), headers: texts(&head.headers), body })
}

fn texts(headers: &HeaderMap) -> Vec<(String, String)> {
    let text = |(name, value): (&HeaderName, &HeaderValue)| {
        value.to_str().ok().map(|value| (name.as_str().to_owned(), value.to_owned()))
    };
    headers.iter().filter_map(text).collect()
}
