//! Tools of MCP servers, programs or URLs. A server is reached when it is first needed, shared by all calls, and
//! reached again when it was lost.

mod asked;
mod content;
mod offer;
mod process;
mod programs;
mod sending;
mod session;
mod streamable;
mod way;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use rmcp::model::{CallToolRequestParams, Tool};
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::Instant;

use super::cut::excerpt;
use super::definition::{BadTools, Members, Workbench};
use super::{Returned, ToolError};
use programs::Places;
use session::{Session, Use};
use way::{Lost, Way, lost};

pub(super) use offer::Offer;
pub(crate) use programs::Programs;

const TIMEOUT_MS: u64 = 60_000;
const IDLE_MS: u64 = 5 * 60_000;

/// How long a server that has let a call time out may take to say that it lives.
const PING: Duration = Duration::from_secs(5);

/// A server that was lost once is reached again at once; after that each time later, up to this.
const PAUSE: Duration = Duration::from_millis(250);
const PAUSE_MAX: Duration = Duration::from_secs(30);
/// The pause before a server is tried again that could not start because of `programsMax`.
const LIMIT_PAUSE: Duration = Duration::from_secs(1);

const WHY_BYTES_MAX: usize = 500;

/// A server and its session. Definitions may share it.
struct Server {
    name: String,
    way: Way,
    timeout: Duration,
    idle: Duration,
    places: Arc<Places>,
    state: tokio::sync::Mutex<State>,
}

#[derive(Default)]
struct State {
    session: Option<Arc<Session>>,
    /// How often in a row it was lost, or could not be reached.
    failures: u32,
    not_before: Option<Instant>,
    why: String,
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server").field("name", &self.name).finish_non_exhaustive()
    }
}

impl Server {
    fn parse(
        members: &Members<'_>,
        name: &str,
        bench: Workbench<'_>,
        places: &Arc<Places>,
    ) -> Result<Self, BadTools> {
        let timeout = Duration::from_millis(members.milliseconds("timeoutMs", TIMEOUT_MS)?);
        Ok(Self {
            name: name.to_owned(),
            way: Way::parse(members, bench.base, bench.outgoing, timeout)?,
            timeout,
            idle: Duration::from_millis(members.milliseconds("idleMs", IDLE_MS)?),
            places: places.clone(),
            state: tokio::sync::Mutex::default(),
        })
    }

    /// Returns the session there is, or another one.
    async fn session(&self) -> Result<Use, ToolError> {
        let mut state = self.state.lock().await;
        if let Some(session) = &state.session {
            if let Some(used) = session.begin() {
                if used.lives(self.timeout.min(PING)).await {
                    return Ok(used);
                }
                tracing::warn!(server = self.name, "a server that does not answer is ended");
                used.end();
            }
            state.session = None;
        }
        if let Some(at) = state.not_before
            && at > Instant::now()
        {
            return Err(ToolError::Unreachable(format!("{} (it is not tried again at once)", state.why)));
        }
        self.way.check().await.map_err(|refused| {
            ToolError::NotCalled(format!("the MCP server {} must not be called: {refused}", self.name))
        })?;
        let place = match self.way.is_program() {
            false => None,
            true => match self.places.take(Instant::now() + self.timeout).await {
                Ok(place) => Some(place),
                Err(why) => {
                    let why = format!("the MCP server {} cannot be started: {why}", self.name);
                    tracing::warn!(server = self.name, "{why}");
                    state.hold_off(&why, LIMIT_PAUSE);
                    return Err(ToolError::Unreachable(why));
                }
            },
        };
        match self.open(place).await {
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

    async fn open(&self, place: Option<OwnedSemaphorePermit>) -> Result<(Arc<Session>, Use), String> {
        let opening = self.way.open(&self.name, self.idle, place.map(|place| (place, &self.places)));
        let opened = tokio::time::timeout(self.timeout, opening).await;
        let session = opened.unwrap_or_else(|_| Err("it did not answer in time".to_owned()))?;
        let used = session.begin().ok_or_else(|| "it ended at once".to_owned())?;
        if self.way.is_program() {
            // Only from here on may it be ended to make room: now it is in use.
            self.places.add(&session);
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

    /// Makes a call, at another session if the first was gone before it could hear the call.
    async fn call(&self, params: CallToolRequestParams) -> Result<Returned, ToolError> {
        let first = self.session().await?;
        match self.attempt(&first, params.clone()).await {
            // It had ended before it could hear the call, and nobody had noticed.
            Err(Lost::Deaf(_)) => {
                self.lost(&first, "it had ended").await;
                drop(first);
                let second = self.session().await?;
                let attempt = self.attempt(&second, params).await;
                self.settle(&second, attempt).await
            }
            attempt => self.settle(&first, attempt).await,
        }
    }

    async fn attempt(&self, session: &Use, params: CallToolRequestParams) -> Result<Returned, Lost> {
        match tokio::time::timeout(self.timeout, session.call(params)).await {
            Ok(Ok(response)) => Ok(content::returned(response)),
            Ok(Err(failure)) => lost(failure),
            Err(_) => {
                session.suspect();
                Err(Lost::Answer(format!("no answer within {} ms", self.timeout.as_millis())))
            }
        }
    }

    async fn settle(&self, session: &Use, attempt: Result<Returned, Lost>) -> Result<Returned, ToolError> {
        let says = |why: &str| {
            let why = session.flaw().unwrap_or(why);
            format!("the MCP server {}: {}", self.name, excerpt(why, WHY_BYTES_MAX))
        };
        match attempt {
            Ok(returned) => {
                self.state.lock().await.failures = 0;
                Ok(returned)
            }
            Err(Lost::Refused(why)) => Err(ToolError::NotCalled(says(&why))),
            Err(Lost::Away(why)) => Err(ToolError::Unreachable(says(&why))),
            Err(Lost::Answer(why)) => Err(ToolError::Unknown(says(&why))),
            Err(Lost::Deaf(why)) => {
                self.lost(session, &why).await;
                Err(ToolError::Unreachable(says(&why)))
            }
            Err(Lost::Server(why)) => {
                let says = says(&why);
                self.lost(session, &why).await;
                Err(ToolError::Unknown(says))
            }
        }
    }

    /// The session has come to an end that nobody wanted.
    async fn lost(&self, session: &Use, why: &str) {
        let mut state = self.state.lock().await;
        session.end();
        // Several calls may lose the same one.
        if state.session.as_ref().is_some_and(|current| session.is(current)) {
            state.session = None;
            state.fail(&format!("the MCP server {} was lost: {why}", self.name));
        }
    }
}

impl State {
    /// Refuses the callers that come within a while, in the same words.
    fn hold_off(&mut self, why: &str, pause: Duration) {
        why.clone_into(&mut self.why);
        self.not_before = Some(Instant::now() + pause);
    }

    fn fail(&mut self, why: &str) {
        self.failures = self.failures.saturating_add(1);
        why.clone_into(&mut self.why);
        self.not_before = match self.failures {
            0 | 1 => None,
            more => Some(Instant::now() + PAUSE_MAX.min(PAUSE * 2_u32.saturating_pow(more - 2))),
        };
    }
}
