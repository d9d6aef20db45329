//! MCP servers behind a URL: the transport of the SDK over the HTTP client with the outgoing policy. Responses and
//! event streams are read completely. The optional stream of server messages is not opened.

use std::collections::HashMap;
use std::sync::Arc;

use futures_util::StreamExt;
use futures_util::stream::{self, BoxStream};
use holdpoint_engine::extension::excerpt;
use holdpoint_engine::outgoing::{self, Method, Outgoing, OutgoingRequest, OutgoingResponse};
use http::{HeaderName, HeaderValue};
use rmcp::model::{ClientJsonRpcMessage, RequestId, ServerJsonRpcMessage};
use rmcp::transport::streamable_http_client::{
    SseError, StreamableHttpClient, StreamableHttpError, StreamableHttpPostResponse,
};
use sse_stream::{Sse, SseStream};

use crate::tool::RECEIVED_BYTES_MAX;
use crate::tool::secret::SecretRef;

const SESSION: &str = "mcp-session-id";

/// The error of a request without a response.
#[derive(Debug, thiserror::Error)]
pub(super) enum McpHttpError {
    #[error(transparent)]
    Outgoing(#[from] outgoing::Error),
    #[error("the server answered with status {status}: {text}")]
    Status { status: u16, text: String },
    #[error("the server accepted the message but did not respond to it")]
    Unanswered,
    #[error("{0}")]
    Secret(String),
}

pub(super) type TransportError = StreamableHttpError<McpHttpError>;

#[derive(Clone, Debug)]
pub(super) struct McpHttpClient {
    pub(super) outgoing: Outgoing,
    pub(super) headers: Arc<Vec<(String, SecretRef)>>,
    pub(super) timeout_ms: u64,
}

impl McpHttpClient {
    async fn send(
        &self,
        method: Method,
        url: &str,
        session: Option<&str>,
        own: HashMap<HeaderName, HeaderValue>,
        body: Vec<u8>,
    ) -> Result<OutgoingResponse, TransportError> {
        let mut headers = vec![("accept".to_owned(), "application/json, text/event-stream".to_owned())];
        if !body.is_empty() {
            headers.push(("content-type".to_owned(), "application/json".to_owned()));
        }
        for (name, secret) in self.headers.iter() {
            headers.push((
                name.clone(),
                secret.read().map_err(|why| StreamableHttpError::Client(McpHttpError::Secret(why)))?,
            ));
        }
        for (name, value) in own {
            if let Ok(value) = value.to_str() {
                headers.push((name.as_str().to_owned(), value.to_owned()));
            }
        }
        headers.extend(session.map(|session| (SESSION.to_owned(), session.to_owned())));
        let (url, timeout_ms) = (url.to_owned(), self.timeout_ms);
        let request =
            OutgoingRequest { method, url, headers, body, timeout_ms, body_bytes_max: RECEIVED_BYTES_MAX };
        self.outgoing.send(request).await.map_err(|error| StreamableHttpError::Client(error.into()))
    }
}

impl StreamableHttpClient for McpHttpClient {
    type Error = McpHttpError;

    async fn post_message(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session_id: Option<Arc<str>>,
        _: Option<String>,
        custom_headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<StreamableHttpPostResponse, TransportError> {
        let body = serde_json::to_vec(&message)?;
        let response = self.send(Method::Post, &uri, session_id.as_deref(), custom_headers, body).await?;
        let session = header(&response, SESSION).map(str::to_owned);
        let request = match &message {
            ClientJsonRpcMessage::Request(request) => Some(&request.id),
            _ => None,
        };
        match response.status {
            // The response would arrive on another stream, which is not read.
            202 | 204 if request.is_some() => {
                return Err(StreamableHttpError::Client(McpHttpError::Unanswered));
            }
            202 | 204 => return Ok(StreamableHttpPostResponse::Accepted),
            // The session has expired. The SDK opens a new one and sends this message again.
            404 if session_id.is_some() => return Err(StreamableHttpError::SessionExpired),
            200..300 => {}
            status => return Err(StreamableHttpError::Client(status_error(status, &response))),
        }
        match (header(&response, "content-type"), request) {
            (Some(kind), Some(id)) if kind.starts_with("text/event-stream") => {
                let events: Vec<_> = events(response.body).collect().await;
                if !events.iter().flatten().any(|event| is_response_to(event, id)) {
                    return Err(StreamableHttpError::Client(McpHttpError::Unanswered));
                }
                Ok(StreamableHttpPostResponse::Sse(stream::iter(events).boxed(), session))
            }
            // Notifications have no response. The body that some servers send is ignored.
            (_, None) => Ok(StreamableHttpPostResponse::Accepted),
            (Some(kind), Some(_)) if kind.starts_with("application/json") => {
                let message: ServerJsonRpcMessage = serde_json::from_slice(&response.body)?;
                Ok(StreamableHttpPostResponse::Json(message, session))
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
    ) -> Result<(), TransportError> {
        self.send(Method::Delete, &uri, Some(&session_id), custom_headers, Vec::new()).await.map(|_| ())
    }

    async fn get_stream(
        &self,
        _: Arc<str>,
        _: Option<Arc<str>>,
        _: Option<String>,
        _: Option<String>,
        _: HashMap<HeaderName, HeaderValue>,
    ) -> Result<BoxStream<'static, Result<Sse, SseError>>, TransportError> {
        Err(StreamableHttpError::ServerDoesNotSupportSse)
    }
}

fn events(body: Vec<u8>) -> BoxStream<'static, Result<Sse, SseError>> {
    let whole = stream::once(async move { Ok::<_, std::convert::Infallible>(bytes::Bytes::from(body)) });
    SseStream::from_bytes_stream(whole).boxed()
}

/// Returns true if an event is the response to this request.
fn is_response_to(event: &Sse, id: &RequestId) -> bool {
    let message = event.data.as_deref().and_then(|data| serde_json::from_str(data).ok());
    match message {
        Some(ServerJsonRpcMessage::Response(answer)) => answer.id == *id,
        Some(ServerJsonRpcMessage::Error(answer)) => answer.id.is_none_or(|of| of == *id),
        _ => false,
    }
}

fn status_error(status: u16, response: &OutgoingResponse) -> McpHttpError {
    let text = String::from_utf8_lossy(&response.body);
    McpHttpError::Status { status, text: excerpt(&text, TEXT_BYTES_MAX).to_owned() }
}

const TEXT_BYTES_MAX: usize = 300;

fn header<'r>(response: &'r OutgoingResponse, name: &str) -> Option<&'r str> {
    response.headers.iter().find(|(found, _)| found == name).map(|(_, value)| value.as_str())
}
