//! How a server is reached, and how a call can get lost on the way.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use rmcp::service::ServiceError;
use rmcp::transport::StreamableHttpClientTransport;
use rmcp::transport::async_rw::AsyncRwTransport;
use rmcp::transport::streamable_http_client::{StreamableHttpClientTransportConfig, StreamableHttpError};
use tokio::sync::OwnedSemaphorePermit;

use super::content;
use super::process::Program;
use super::programs::Places;
use super::sending::{Failure, Noting};
use super::session::Session;
use super::streamable::{self, Client, Fault};
use crate::agent::tool::cut::TAKEN_BYTES_MAX;
use crate::agent::tool::definition::{BadTools, Members};
use crate::agent::tool::{Returned, http, never_sent};
use crate::outgoing::{Error, Outgoing, Refused, may_be_set};

pub(super) enum Way {
    Program(Program),
    Url(Arc<str>, Client),
}

impl Way {
    pub(super) fn parse(
        members: &Members<'_>,
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
                    return Err(members.bad("headers", "is for servers with a url"));
                }
                let env = members.secrets("env", base)?;
                let command = command.into_iter().map(str::to_owned).collect();
                Ok(Self::Program(Program { command, env, folder: base.map(Path::to_owned) }))
            }
            (None, Some(url)) => {
                outgoing.check_url(url).map_err(|refused| members.bad("url", refused.to_string()))?;
                if members.value("env").is_some() {
                    return Err(members.bad("env", "is for servers with a command"));
                }
                let headers = members.secrets("headers", base)?;
                if let Some((name, _)) = headers.iter().find(|(name, _)| !is_free(name)) {
                    return Err(
                        members.bad(&format!("headers.{name}"), "is a header that cannot be set here")
                    );
                }
                // Whoever calls has a shorter patience, and tells the server when it is over.
                let timeout_ms = u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX).saturating_add(5000);
                let client = Client { outgoing: outgoing.clone(), headers: Arc::new(headers), timeout_ms };
                Ok(Self::Url(url.into(), client))
            }
            _ => Err(members.bad("command", "or url is needed, one of them")),
        }
    }

    /// Returns whether the server is a program, which needs a place.
    pub(super) fn is_program(&self) -> bool {
        matches!(self, Self::Program(_))
    }

    /// Returns why the operator's policy does not let the server be called, with the addresses that its name has now. All
    /// other trouble is found out when the server is reached.
    pub(super) async fn check(&self) -> Result<(), Refused> {
        let Self::Url(url, client) = self else { return Ok(()) };
        match client.outgoing.check(url).await {
            Err(Error::Refused(refused)) => Err(refused),
            Ok(_) | Err(_) => Ok(()),
        }
    }

    /// Reaches the server; a program is started in the place that it was given.
    pub(super) async fn open(
        &self,
        server: &str,
        idle: Duration,
        place: Option<(OwnedSemaphorePermit, &Arc<Places>)>,
    ) -> Result<Arc<Session>, String> {
        match self {
            Self::Program(program) => {
                let (place, places) = place.ok_or_else(|| "it has no place to run in".to_owned())?;
                let (process, spoken, stdin) = program.start(server, place)?;
                let transport =
                    AsyncRwTransport::new_client(spoken, stdin).with_max_line_length(TAKEN_BYTES_MAX + 1);
                Session::open(Noting(transport), Some((process, places.clone())), idle).await
            }
            Self::Url(url, client) => {
                let config = StreamableHttpClientTransportConfig::with_uri(url.clone());
                let transport = StreamableHttpClientTransport::with_client(client.clone(), config);
                Session::open(Noting(transport), None, idle).await
            }
        }
    }
}

/// What the protocol says about a request is not for definitions to say.
fn is_free(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    let ours =
        ["accept", "content-type", "last-event-id"].contains(&name.as_str()) || name.starts_with("mcp-");
    !ours && may_be_set(&name)
}

/// A call without a result.
#[derive(Debug)]
pub(super) enum Lost {
    /// The server was gone before it could hear it.
    Deaf(String),
    /// It was not taken.
    Refused(String),
    /// It was not sent, because nobody was there.
    Away(String),
    /// It may have been heard; the server may still be there.
    Answer(String),
    /// It may have been heard; the server is gone.
    Server(String),
}

pub(super) fn lost(failure: Failure) -> Result<Returned, Lost> {
    match failure.error {
        ServiceError::McpError(error) => Ok(content::refused(&error)),
        ServiceError::TransportClosed if failure.unseen => Err(Lost::Deaf("it had ended".to_owned())),
        ServiceError::TransportClosed | ServiceError::Cancelled { .. } => {
            Err(Lost::Server("it ended before it answered".to_owned()))
        }
        ServiceError::TransportSend(error) => {
            if error.error.is::<std::io::Error>() {
                let why = format!("it does not listen: {}", error.error);
                return Err(if failure.unseen { Lost::Deaf(why) } else { Lost::Server(why) });
            }
            match error.error.downcast_ref::<streamable::Error>() {
                Some(error) => over_http(error),
                None => Err(Lost::Answer(error.to_string())),
            }
        }
        other => Err(Lost::Answer(other.to_string())),
    }
}

fn over_http(error: &streamable::Error) -> Result<Returned, Lost> {
    match error {
        StreamableHttpError::Client(Fault::Outgoing(error)) if !never_sent(error) => {
            http::failed(error).map_err(|error| Lost::Answer(error.to_string()))
        }
        StreamableHttpError::Client(Fault::Outgoing(error @ Error::Refused(_))) => {
            Err(Lost::Refused(error.to_string()))
        }
        StreamableHttpError::Client(Fault::Outgoing(error)) => Err(Lost::Away(error.to_string())),
        StreamableHttpError::Client(fault @ Fault::Status { status: 300..500, .. }) => {
            Err(Lost::Refused(fault.to_string()))
        }
        StreamableHttpError::Client(fault @ Fault::Secret(_)) => Err(Lost::Refused(fault.to_string())),
        // The message was turned away because its session was gone, and another one did not help.
        StreamableHttpError::SessionExpired | StreamableHttpError::ReinitializationFailed(_) => {
            Err(Lost::Refused(error.to_string()))
        }
        StreamableHttpError::TransportChannelClosed => Err(Lost::Server(error.to_string())),
        other => Err(Lost::Answer(other.to_string())),
    }
}
