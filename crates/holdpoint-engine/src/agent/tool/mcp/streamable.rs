//! Servers behind a URL: the SDK's transport over our own guarded client. Answers are read whole, streams of events
//! too; what a server would say besides, on a stream that stays open, is not listened to.

use std::collections::HashMap;
use std::sync::Arc;

use futures_util::StreamExt;
use futures_util::stream::{self, BoxStream};
use http::{HeaderName, HeaderValue};
use rmcp::model::{ClientJsonRpcMessage, RequestId, ServerJsonRpcMessage};
use rmcp::transport::streamable_http_client::{
    SseError, StreamableHttpClient, StreamableHttpError, StreamableHttpPostResponse,
};
use sse_stream::{Sse, SseStream};

use crate::agent::tool::cut::{TAKEN_BYTES_MAX, excerpt};
use crate::agent::tool::secret::Secret;
use crate::outgoing::{self, Method, Outgoing, Request, Response};

const SESSION: &str = "mcp-session-id";

/// Why a request brought nothing.
#[derive(Debug, thiserror::Error)]
pub(super) enum Fault {
    #[error(transparent)]
    Outgoing(#[from] outgoing::Error),
    #[error("the server answered with status {status}: {text}")]
    Status { status: u16, text: String },
    #[error("the server took the message and did not answer it")]
    Unanswered,
    #[error("{0}")]
    Secret(String),
}

pub(super) type Error = StreamableHttpError<Fault>;

#[derive(Clone, Debug)]
pub(super) struct Client {
    pub(super) outgoing: Outgoing,
    pub(super) headers: Arc<Vec<(String, Secret)>>,
    pub(super) timeout_ms: u64,
}

impl Client {
    async fn send(
        &self,
        method: Method,
        url: &str,
        session: Option<&str>,
        own: HashMap<HeaderName, HeaderValue>,
        body: Vec<u8>,
    ) -> Result<Response, Error> {
        let mut headers = vec![("accept".to_owned(), "application/json, text/event-stream".to_owned())];
        if !body.is_empty() {
            headers.push(("content-type".to_owned(), "application/json".to_owned()));
        }
        for (name, secret) in self.headers.iter() {
            headers.push((
                name.clone(),
                secret.read().map_err(|why| StreamableHttpError::Client(Fault::Secret(why)))?,
            ));
        }
        for (name, value) in own {
            if let Ok(value) = value.to_str() {
                headers.push((name.as_str().to_owned(), value.to_owned()));
            }
        }
        headers.extend(session.map(|session| (SESSION.to_owned(), session.to_owned())));
        let (url, timeout_ms) = (url.to_owned(), self.timeout_ms);
        let request = Request { method, url, headers, body, timeout_ms, body_bytes_max: TAKEN_BYTES_MAX };
        self.outgoing.send(request).await.map_err(|error| StreamableHttpError::Client(error.into()))
    }
}

impl StreamableHttpClient for Client {
    type Error = Fault;

    async fn post_message(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session_id: Option<Arc<str>>,
        _: Option<String>,
        custom_headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<StreamableHttpPostResponse, Error> {
        let body = serde_json::to_vec(&message)?;
        let response = self.send(Method::Post, &uri, session_id.as_deref(), custom_headers, body).await?;
        let session = header(&response, SESSION).map(str::to_owned);
        let request = match &message {
            ClientJsonRpcMessage::Request(request) => Some(&request.id),
            _ => None,
        };
        match response.status {
            // An answer that comes another way would never be heard.
            202 | 204 if request.is_some() => return Err(StreamableHttpError::Client(Fault::Unanswered)),
            202 | 204 => return Ok(StreamableHttpPostResponse::Accepted),
            // The session is gone; the SDK begins another one and sends this message once more.
            404 if session_id.is_some() => return Err(StreamableHttpError::SessionExpired),
            200..300 => {}
            status => return Err(StreamableHttpError::Client(unexpected(status, &response))),
        }
        match (header(&response, "content-type"), request) {
            (Some(kind), Some(id)) if kind.starts_with("text/event-stream") => {
                let events: Vec<_> = events(response.body).collect().await;
                if !events.iter().flatten().any(|event| answers(event, id)) {
                    return Err(StreamableHttpError::Client(Fault::Unanswered));
                }
                Ok(StreamableHttpPostResponse::Sse(stream::iter(events).boxed(), session))
            }
            // Notifications need no answer, whatever some servers say to them.
            (_, None) => Ok(StreamableHttpPostResponse::Accepted),
            (Some(kind), Some(_)) if kind.starts_with("application/json") => {
                let said: ServerJsonRpcMessage = serde_json::from_slice(&response.body)?;
                Ok(StreamableHttpPostResponse::Json(said, session))
            }
            (other, Some(_)) => Err(StreamableHttpError::UnexpectedContentType(other.map(str::to_owned))),
        }
    }

    async fn delete_session(
        &self,
        uri: Arc<str>,
        session_id: Arc<str>,
        _: Option<String>,
        custom_headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<(), Error> {
        self.send(Method::Delete, &uri, Some(&session_id), custom_headers, Vec::new()).await.map(|_| ())
    }

    async fn get_stream(
        &self,
        _: Arc<str>,
        _: Option<Arc<str>>,
        _: Option<String>,
        _: Option<String>,
        _: HashMap<HeaderName, HeaderValue>,
    ) -> Result<BoxStream<'static, Result<Sse, SseError>>, Error> {
        Err(StreamableHttpError::ServerDoesNotSupportSse)
    }
}

fn events(body: Vec<u8>) -> BoxStream<'static, Result<Sse, SseError>> {
    let whole = stream::once(async move { Ok::<_, std::convert::Infallible>(bytes::Bytes::from(body)) });
    SseStream::from_bytes_stream(whole).boxed()
}

/// Whether an event is the answer to this request.
fn answers(event: &Sse, id: &RequestId) -> bool {
    let said = event.data.as_deref().and_then(|data| serde_json::from_str(data).ok());
    match said {
        Some(ServerJsonRpcMessage::Response(answer)) => answer.id == *id,
        Some(ServerJsonRpcMessage::Error(answer)) => answer.id.is_none_or(|of| of == *id),
        _ => false,
    }
}

fn unexpected(status: u16, response: &Response) -> Fault {
    let text = String::from_utf8_lossy(&response.body);
    Fault::Status { status, text: excerpt(&text, TEXT_BYTES_MAX).to_owned() }
}

const TEXT_BYTES_MAX: usize = 300;

fn header<'r>(response: &'r Response, name: &str) -> Option<&'r str> {
    response.headers.iter().find(|(found, _)| found == name).map(|(_, value)| value.as_str())
}
