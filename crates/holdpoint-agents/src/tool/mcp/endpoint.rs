//! The endpoint of an MCP server, a program or a URL, and the classification of calls without a result.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use holdpoint_engine::outgoing::{Error, Outgoing, OutgoingRefusal, is_settable_header};
use rmcp::service::ServiceError;
use rmcp::transport::StreamableHttpClientTransport;
use rmcp::transport::async_rw::AsyncRwTransport;
use rmcp::transport::streamable_http_client::{StreamableHttpClientTransportConfig, StreamableHttpError};
use tokio::sync::OwnedSemaphorePermit;

use super::content;
use super::process::ServerProgram;
use super::programs::ProgramSlots;
use super::session::McpSession;
use super::streamable::{self, McpHttpClient, McpHttpError};
use super::tracked_call::{CallError, TrackedTransport};
use crate::tool::RECEIVED_BYTES_MAX;
use crate::tool::definition::{BadTools, ToolMembers};
use crate::tool::{CallOutcome, http, was_never_sent};

pub(super) enum ServerEndpoint {
    Program(ServerProgram),
    Url(Arc<str>, McpHttpClient),
}

impl ServerEndpoint {
    pub(super) fn parse(
        members: &ToolMembers<'_>,
        base: Option<&Path>,
        outgoing: &Outgoing,
        timeout: Duration,
    ) -> Result<Self, BadTools> {
        match (members.texts("command")?, members.text("url")?) {
            (Some(command), None) => {
                if command.is_empty() {
                    return Err(members.bad("command", "must name a program"));
                }
                if members.value("headers").is_some() {
                    return Err(members.bad("headers", "is only valid with url"));
                }
                let env = members.secrets("env", base)?;
                let command = command.into_iter().map(str::to_owned).collect();
                Ok(Self::Program(ServerProgram { command, env, folder: base.map(Path::to_owned) }))
            }
            (None, Some(url)) => {
                outgoing.check_url(url).map_err(|refused| members.bad("url", refused.to_string()))?;
                if members.value("env").is_some() {
                    return Err(members.bad("env", "is only valid with command"));
                }
                let headers = members.secrets("headers", base)?;
                if let Some((name, _)) = headers.iter().find(|(name, _)| !is_settable(name)) {
                    return Err(
                        members.bad(&format!("headers.{name}"), "is a header that cannot be set here")
                    );
                }
                // The timeout of the caller is shorter, so that the caller can send a cancellation to the server.
                let timeout_ms = u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX).saturating_add(5000);
                let client =
                    McpHttpClient { outgoing: outgoing.clone(), headers: Arc::new(headers), timeout_ms };
                Ok(Self::Url(url.into(), client))
            }
            _ => Err(members.bad("command", "is missing, or is combined with url; give one of the two")),
        }
    }

    /// Returns true if the server is a program, which needs a slot.
    pub(super) fn is_program(&self) -> bool {
        matches!(self, Self::Program(_))
    }

    /// Checks the server against the operator's policy, with the current addresses of its name. Other errors are
    /// ignored; opening the session reports them.
    pub(super) async fn check(&self) -> Result<(), OutgoingRefusal> {
        let Self::Url(url, client) = self else { return Ok(()) };
        match client.outgoing.check(url).await {
            Err(Error::Refused(refused)) => Err(refused),
            Ok(_) | Err(_) => Ok(()),
        }
    }

    /// Opens a session. A program is started with the slot that the caller has acquired.
    pub(super) async fn open(
        &self,
        server: &str,
        idle: Duration,
        slot: Option<(OwnedSemaphorePermit, &Arc<ProgramSlots>)>,
    ) -> Result<Arc<McpSession>, String> {
        match self {
            Self::Program(program) => {
                let (slot, slots) = slot.ok_or_else(|| "it has no program slot".to_owned())?;
                let (process, output, stdin) = program.start(server, slot)?;
                let transport =
                    AsyncRwTransport::new_client(output, stdin).with_max_line_length(RECEIVED_BYTES_MAX + 1);
                McpSession::open(TrackedTransport(transport), Some((process, slots.clone())), idle).await
            }
            Self::Url(url, client) => {
                let config = StreamableHttpClientTransportConfig::with_uri(url.clone());
                let transport = StreamableHttpClientTransport::with_client(client.clone(), config);
                McpSession::open(TrackedTransport(transport), None, idle).await
            }
        }
    }
}

/// Returns true if a definition may set this header. Headers of the protocol are reserved.
fn is_settable(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    let is_reserved =
        ["accept", "content-type", "last-event-id"].contains(&name.as_str()) || name.starts_with("mcp-");
    !is_reserved && is_settable_header(&name)
}

/// The reason why a call has no result.
#[derive(Debug)]
pub(super) enum CallFailure {
    /// The session had ended before the server received the call.
    NeverReceived(String),
    /// The policy, the configuration or the server refused the call. It was not made.
    Refused(String),
    /// The call was not sent, because the server could not be reached.
    Unreachable(String),
    /// The server may have received the call, and may still be running.
    NoAnswer(String),
    /// The server may have received the call, but its session has ended.
    ServerGone(String),
}

pub(super) fn classify_failure(failure: CallError) -> Result<CallOutcome, CallFailure> {
    match failure.error {
        ServiceError::McpError(error) => Ok(content::error_outcome(&error)),
        ServiceError::TransportClosed if failure.never_received => {
            Err(CallFailure::NeverReceived("it had ended".to_owned()))
        }
        ServiceError::TransportClosed | ServiceError::Cancelled { .. } => {
            Err(CallFailure::ServerGone("it ended before it answered".to_owned()))
        }
        ServiceError::TransportSend(error) => {
            if error.error.is::<std::io::Error>() {
                let why = format!("it does not read its input: {}", error.error);
                return Err(if failure.never_received {
                    CallFailure::NeverReceived(why)
                } else {
                    CallFailure::ServerGone(why)
                });
            }
            match error.error.downcast_ref::<streamable::TransportError>() {
                Some(error) => classify_http_failure(error),
                None => Err(CallFailure::NoAnswer(error.to_string())),
            }
        }
        other => Err(CallFailure::NoAnswer(other.to_string())),
    }
}

fn classify_http_failure(error: &streamable::TransportError) -> Result<CallOutcome, CallFailure> {
    match error {
        StreamableHttpError::Client(McpHttpError::Outgoing(error)) if !was_never_sent(error) => {
            http::failure_outcome(error).map_err(|error| CallFailure::NoAnswer(error.to_string()))
        }
        StreamableHttpError::Client(McpHttpError::Outgoing(error @ Error::Refused(_))) => {
            Err(CallFailure::Refused(error.to_string()))
        }
        StreamableHttpError::Client(McpHttpError::Outgoing(error)) => {
            Err(CallFailure::Unreachable(error.to_string()))
        }
        StreamableHttpError::Client(fault @ McpHttpError::Status { status: 300..500, .. }) => {
            Err(CallFailure::Refused(fault.to_string()))
        }
        StreamableHttpError::Client(fault @ McpHttpError::Secret(_)) => {
            Err(CallFailure::Refused(fault.to_string()))
        }
        // The server rejected the message because its session had expired, and a new session did not help.
        StreamableHttpError::SessionExpired | StreamableHttpError::ReinitializationFailed(_) => {
            Err(CallFailure::Refused(error.to_string()))
        }
        StreamableHttpError::TransportChannelClosed => Err(CallFailure::ServerGone(error.to_string())),
        other => Err(CallFailure::NoAnswer(other.to_string())),
    }
}
