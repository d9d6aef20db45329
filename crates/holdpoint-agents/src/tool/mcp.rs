//! Tools of MCP servers. A server is a program or a URL. Its session is opened at first use, shared by all calls, and
//! opened again after it was lost.

mod client_handler;
mod content;
mod endpoint;
mod process;
mod programs;
mod progress;
mod session;
mod streamable;
mod tools;
mod tracked_call;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use holdpoint_engine::extension::excerpt;
use rmcp::model::{CallToolRequestParams, Tool};
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::Instant;

use super::definition::{BadTools, ToolDependencies, ToolMembers};
use super::{CallOutcome, CallReporter, ToolError};
use endpoint::{CallFailure, ServerEndpoint, classify_failure};
use programs::ProgramSlots;
use session::{McpSession, SessionGuard};

pub(crate) use programs::McpServers;
pub(super) use tools::McpTools;

const TIMEOUT_MS: u64 = 60_000;
const IDLE_MS: u64 = 5 * 60_000;

/// The timeout of the ping to a server after a call has timed out.
const PING: Duration = Duration::from_secs(5);

/// The backoff after a session was lost. The first reconnect is immediate; the delay then doubles from `BACKOFF` up to
/// `BACKOFF_MAX`.
const BACKOFF: Duration = Duration::from_millis(250);
const BACKOFF_MAX: Duration = Duration::from_secs(30);
/// The delay before the next attempt to start a server that could not start because of `programsMax`.
const LIMIT_BACKOFF: Duration = Duration::from_secs(1);

const WHY_BYTES_MAX: usize = 500;

/// A server and its session. Definitions may share it.
struct McpServer {
    name: String,
    endpoint: ServerEndpoint,
    timeout: Duration,
    idle: Duration,
    slots: Arc<ProgramSlots>,
    state: tokio::sync::Mutex<ServerState>,
}

#[derive(Default)]
struct ServerState {
    session: Option<Arc<McpSession>>,
    /// The number of consecutive failures: lost sessions and failed connection attempts.
    failures: u32,
    not_before: Option<Instant>,
    why: String,
}

impl fmt::Debug for McpServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("McpServer").field("name", &self.name).finish_non_exhaustive()
    }
}

impl McpServer {
    fn parse(
        members: &ToolMembers<'_>,
        name: &str,
        dependencies: ToolDependencies<'_>,
        slots: &Arc<ProgramSlots>,
    ) -> Result<Self, BadTools> {
        let timeout = Duration::from_millis(members.milliseconds("timeoutMs", TIMEOUT_MS)?);
        Ok(Self {
            name: name.to_owned(),
            endpoint: ServerEndpoint::parse(members, dependencies.base, dependencies.outgoing, timeout)?,
            timeout,
            idle: Duration::from_millis(members.milliseconds("idleMs", IDLE_MS)?),
            slots: slots.clone(),
            state: tokio::sync::Mutex::default(),
        })
    }

    /// Returns the current session, or opens a new one.
    async fn session(&self) -> Result<SessionGuard, ToolError> {
        let mut state = self.state.lock().await;
        if let Some(session) = &state.session {
            if let Some(used) = session.begin() {
                if used.is_alive(self.timeout.min(PING)).await {
                    return Ok(used);
                }
                tracing::warn!(
                    server = self.name,
                    "closing the session of an MCP server that does not answer"
                );
                used.end();
            }
            state.session = None;
        }
        if let Some(at) = state.not_before
            && at > Instant::now()
        {
            return Err(ToolError::Unreachable(format!("{} (waiting before the next attempt)", state.why)));
        }
        self.endpoint.check().await.map_err(|refused| {
            ToolError::NotCalled(format!("the MCP server {} must not be called: {refused}", self.name))
        })?;
        let slot = match self.endpoint.is_program() {
            false => None,
            true => match self.slots.acquire(Instant::now() + self.timeout).await {
                Ok(slot) => Some(slot),
                Err(why) => {
                    let why = format!("the MCP server {} cannot be started: {why}", self.name);
                    tracing::warn!(server = self.name, "{why}");
                    state.hold_off(&why, LIMIT_BACKOFF);
                    return Err(ToolError::Unreachable(why));
                }
            },
        };
        match self.open(slot).await {
            Ok((session, used)) => {
                state.session = Some(session);
                Ok(used)
            }
            Err(why) => {
                let why = format!(
                    "the MCP server {} cannot be reached: {}",
                    self.name,
                    excerpt(&why, WHY_BYTES_MAX)
                );
                tracing::warn!(server = self.name, "{why}");
                state.fail(&why);
                Err(ToolError::Unreachable(why))
            }
        }
    }

    async fn open(
        &self,
        slot: Option<OwnedSemaphorePermit>,
    ) -> Result<(Arc<McpSession>, SessionGuard), String> {
        let opening = self.endpoint.open(&self.name, self.idle, slot.map(|slot| (slot, &self.slots)));
        let opened = tokio::time::timeout(self.timeout, opening).await;
        let session = opened.unwrap_or_else(|_| Err("it did not answer in time".to_owned()))?;
        let used = session.begin().ok_or_else(|| "it ended at once".to_owned())?;
        if self.endpoint.is_program() {
            // Added only after the session is in use, so that another caller cannot end the idle program for its slot.
            self.slots.add(&session);
        }
        Ok((session, used))
    }

    /// Returns the tools of the server.
    async fn tools(&self) -> Result<Arc<Vec<Tool>>, ToolError> {
        let session = self.session().await?;
        let failed = |why: &str| {
            ToolError::Unreachable(format!("the MCP server {} does not list its tools: {why}", self.name))
        };
        match tokio::time::timeout(self.timeout, session.tools()).await {
            Ok(tools) => tools.map_err(|error| failed(excerpt(&error.to_string(), WHY_BYTES_MAX))),
            Err(_) => {
                session.suspect();
                Err(failed("it did not answer in time"))
            }
        }
    }

    /// Makes a call. If the session had ended before the server received the call, makes it in a new session.
    async fn call(
        &self,
        params: CallToolRequestParams,
        reporter: &CallReporter,
    ) -> Result<CallOutcome, ToolError> {
        let first = self.session().await?;
        match self.attempt(&first, params.clone(), reporter).await {
            Err(CallFailure::NeverReceived(_)) => {
                self.drop_session(&first, "it had ended").await;
                drop(first);
                let second = self.session().await?;
                let attempt = self.attempt(&second, params, reporter).await;
                self.finish_call(&second, attempt).await
            }
            attempt => self.finish_call(&first, attempt).await,
        }
    }

    async fn attempt(
        &self,
        session: &SessionGuard,
        params: CallToolRequestParams,
        reporter: &CallReporter,
    ) -> Result<CallOutcome, CallFailure> {
        match tokio::time::timeout(self.timeout, session.call(params, reporter)).await {
            Ok(Ok(response)) => Ok(content::outcome(response)),
            Ok(Err(failure)) => classify_failure(failure),
            Err(_) => {
                session.suspect();
                Err(CallFailure::NoAnswer(format!("no answer within {} ms", self.timeout.as_millis())))
            }
        }
    }

    async fn finish_call(
        &self,
        session: &SessionGuard,
        attempt: Result<CallOutcome, CallFailure>,
    ) -> Result<CallOutcome, ToolError> {
        let message = |why: &str| {
            let why = session.flaw().unwrap_or(why);
            format!("the MCP server {}: {}", self.name, excerpt(why, WHY_BYTES_MAX))
        };
        match attempt {
            Ok(returned) => {
                self.state.lock().await.failures = 0;
                Ok(returned)
            }
            Err(CallFailure::Refused(why)) => Err(ToolError::NotCalled(message(&why))),
            Err(CallFailure::Unreachable(why)) => Err(ToolError::Unreachable(message(&why))),
            Err(CallFailure::NoAnswer(why)) => Err(ToolError::Unknown(message(&why))),
            Err(CallFailure::NeverReceived(why)) => {
                self.drop_session(session, &why).await;
                Err(ToolError::Unreachable(message(&why)))
            }
            Err(CallFailure::ServerGone(why)) => {
                let message = message(&why);
                self.drop_session(session, &why).await;
                Err(ToolError::Unknown(message))
            }
        }
    }

    /// Ends a session that was lost and counts the failure.
    async fn drop_session(&self, session: &SessionGuard, why: &str) {
        let mut state = self.state.lock().await;
        session.end();
        // Concurrent calls may lose the same session, which is counted once.
        if state.session.as_ref().is_some_and(|current| session.is(current)) {
            state.session = None;
            state.fail(&format!("the MCP server {} was lost: {why}", self.name));
        }
    }
}

impl ServerState {
    /// Rejects callers with this reason until the delay has passed.
    fn hold_off(&mut self, why: &str, delay: Duration) {
        why.clone_into(&mut self.why);
        self.not_before = Some(Instant::now() + delay);
    }

    fn fail(&mut self, why: &str) {
        self.failures = self.failures.saturating_add(1);
        why.clone_into(&mut self.why);
        self.not_before = match self.failures {
            0 | 1 => None,
            more => Some(Instant::now() + BACKOFF_MAX.min(BACKOFF * 2_u32.saturating_pow(more - 2))),
        };
    }
}
