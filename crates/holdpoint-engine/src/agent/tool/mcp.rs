//! Tools of MCP servers, programs or URLs. A server is reached when it is first needed, shared by all calls, and
//! reached again when it was lost.

mod asked;
mod content;
mod process;
mod sending;
mod session;
mod streamable;
mod way;

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use holdpoint_core::TenantId;
use rmcp::model::{CallToolRequestParams, JsonObject, Tool};
use serde_json::{Value, json};
use tokio::time::Instant;

use super::cut::excerpt;
use super::definition::{BadTools, Members, SCHEMA_BYTES_MAX};
use super::glob::Glob;
use super::{Call, Calling, Listing, NAME_CHARS_MAX, Returned, ToolError, ToolSpec, Toolbox};
use crate::outgoing::Outgoing;
use session::{Session, TOOLS_MAX, Use};
use way::{Lost, Way, lost};

const TIMEOUT_MS: u64 = 60_000;
const IDLE_MS: u64 = 5 * 60_000;

/// How long a server that has let a call time out may take to say that it lives.
const PING: Duration = Duration::from_secs(5);

/// A server that was lost once is reached again at once; after that each time later, up to this.
const PAUSE: Duration = Duration::from_millis(250);
const PAUSE_MAX: Duration = Duration::from_secs(30);

const WHY_BYTES_MAX: usize = 500;
const DESCRIPTION_BYTES_MAX: usize = 8 * 1024;

pub(super) struct Server {
    name: String,
    way: Way,
    rules: Rules,
    timeout: Duration,
    idle: Duration,
    state: tokio::sync::Mutex<State>,
    /// From the names that models get to those of the server, as of the last list.
    names: Mutex<BTreeMap<String, String>>,
}

/// What the definition says about the server's tools.
#[derive(Debug)]
struct Rules {
    /// Nothing: all of them.
    tools: Option<Vec<Glob>>,
    idempotent: Vec<Glob>,
    trust_annotations: bool,
    primary: BTreeMap<String, String>,
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

const KNOWN: [&str; 12] = [
    "type",
    "name",
    "command",
    "env",
    "url",
    "headers",
    "tools",
    "idempotent",
    "trustAnnotations",
    "primary",
    "timeoutMs",
    "idleMs",
];

impl Server {
    pub(super) fn parse(
        members: &Members<'_>,
        name: &str,
        base: Option<&Path>,
        outgoing: &Outgoing,
    ) -> Result<Self, BadTools> {
        members.only(&KNOWN)?;
        let timeout = Duration::from_millis(members.milliseconds("timeoutMs", TIMEOUT_MS)?);
        Ok(Self {
            name: name.to_owned(),
            way: Way::parse(members, base, outgoing, timeout)?,
            rules: Rules {
                tools: members.globs("tools")?,
                idempotent: members.globs("idempotent")?.unwrap_or_default(),
                trust_annotations: members.flag("trustAnnotations")?,
                primary: members.named_texts("primary")?,
            },
            timeout,
            idle: Duration::from_millis(members.milliseconds("idleMs", IDLE_MS)?),
            state: tokio::sync::Mutex::default(),
            names: Mutex::default(),
        })
    }

    /// The session there is, or another one.
    async fn session(&self) -> Result<Use, String> {
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
            return Err(format!("{} (it is not tried again at once)", state.why));
        }
        let opened = tokio::time::timeout(self.timeout, self.way.open(&self.name, self.idle)).await;
        let opened = opened.unwrap_or_else(|_| Err("it did not answer in time".to_owned()));
        let used = opened.and_then(|session| {
            let used = session.begin().ok_or_else(|| "it ended at once".to_owned())?;
            Ok((session, used))
        });
        match used {
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
                Err(why)
            }
        }
    }

    async fn listed(&self) -> Result<Vec<Arc<ToolSpec>>, String> {
        let session = self.session().await?;
        let failed = |why: String| format!("the MCP server {} does not list its tools: {why}", self.name);
        let tools = match tokio::time::timeout(self.timeout, session.tools()).await {
            Ok(tools) => {
                tools.map_err(|error| failed(excerpt(&error.to_string(), WHY_BYTES_MAX).to_owned()))?
            }
            Err(_) => {
                session.suspect();
                return Err(failed("it did not answer in time".to_owned()));
            }
        };
        if tools.len() > TOOLS_MAX {
            tracing::warn!(server = self.name, "only the first {TOOLS_MAX} tools are taken");
        }
        let offered = tools.iter().take(TOOLS_MAX).filter(|tool| self.rules.allow(&self.name, tool));
        let mut names = BTreeMap::new();
        let mut specs = Vec::new();
        for tool in offered {
            let spec = self.rules.spec(tool);
            // Of two that cannot be told apart the first is meant, here as in the list of all tools.
            if names.contains_key(&spec.name) {
                tracing::warn!(
                    server = self.name,
                    tool = spec.name,
                    "a tool is left out: another one has its name"
                );
                continue;
            }
            names.insert(spec.name.clone(), tool.name.clone().into_owned());
            specs.push(Arc::new(spec));
        }
        *self.names.lock().unwrap_or_else(PoisonError::into_inner) = names;
        Ok(specs)
    }

    async fn carry_out(&self, call: &Call) -> Result<Returned, ToolError> {
        let name = self.own_name(&call.name).await.map_err(ToolError::NotCalled)?;
        let arguments = match &call.arguments {
            Value::Object(arguments) => arguments.clone(),
            Value::Null => JsonObject::new(),
            _ => {
                return Err(ToolError::NotCalled(
                    "the arguments are wrong: they must be an object".to_owned(),
                ));
            }
        };
        let mut params = CallToolRequestParams::new(name).with_arguments(arguments);
        let key = JsonObject::from_iter([("idempotencyKey".to_owned(), json!(call.idempotency_key))]);
        params.meta = Some(key.into());
        let first = self.session().await.map_err(ToolError::NotCalled)?;
        match self.attempt(&first, params.clone()).await {
            // It had ended before it could hear the call, and nobody had noticed.
            Err(Lost::Deaf(_)) => {
                self.lost(&first, "it had ended").await;
                drop(first);
                let second = self.session().await.map_err(ToolError::NotCalled)?;
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
            Err(Lost::Answer(why)) => Err(ToolError::Unknown(says(&why))),
            Err(Lost::Deaf(why)) => {
                self.lost(session, &why).await;
                Err(ToolError::NotCalled(says(&why)))
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

    async fn own_name(&self, name: &str) -> Result<String, String> {
        let known = || self.names.lock().unwrap_or_else(PoisonError::into_inner).get(name).cloned();
        if let Some(own) = known() {
            return Ok(own);
        }
        self.listed().await?;
        known().ok_or_else(|| format!("the MCP server {} has no tool {name}", self.name))
    }
}

impl Toolbox for Server {
    fn list<'a>(&'a self, _: &'a TenantId) -> Listing<'a> {
        Box::pin(async { self.listed().await.map_err(ToolError::NotCalled) })
    }

    fn call<'a>(&'a self, call: &'a Call) -> Calling<'a> {
        Box::pin(self.carry_out(call))
    }
}

impl State {
    fn fail(&mut self, why: &str) {
        self.failures = self.failures.saturating_add(1);
        why.clone_into(&mut self.why);
        self.not_before = match self.failures {
            0 | 1 => None,
            more => Some(Instant::now() + PAUSE_MAX.min(PAUSE * 2_u32.saturating_pow(more - 2))),
        };
    }
}

impl Rules {
    fn allow(&self, server: &str, tool: &Tool) -> bool {
        let wanted =
            self.tools.as_ref().is_none_or(|globs| globs.iter().any(|glob| glob.matches(&tool.name)));
        if wanted && Value::Object((*tool.input_schema).clone()).to_string().len() > SCHEMA_BYTES_MAX {
            tracing::warn!(server, tool = %tool.name, "a tool is left out: its schema is too large");
            return false;
        }
        wanted
    }

    /// What servers say of themselves counts only where the definition says so.
    fn spec(&self, tool: &Tool) -> ToolSpec {
        let named = self.idempotent.iter().any(|glob| glob.matches(&tool.name));
        let hinted = tool
            .annotations
            .as_ref()
            .is_some_and(|hints| hints.idempotent_hint == Some(true) || hints.read_only_hint == Some(true));
        let description = tool.description.as_deref().unwrap_or_default();
        let mut parameters = (*tool.input_schema).clone();
        parameters.entry("type").or_insert_with(|| json!("object"));
        ToolSpec {
            name: plain(&tool.name),
            description: excerpt(description, DESCRIPTION_BYTES_MAX).to_owned(),
            parameters: Value::Object(parameters),
            idempotent: named || (self.trust_annotations && hinted),
            primary: self.primary.get(tool.name.as_ref()).cloned(),
        }
    }
}

/// A name as models take it.
fn plain(name: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() || c == '-' { c } else { '_' };
    let name: String = name.chars().map(plain).take(NAME_CHARS_MAX).collect();
    if name.is_empty() { "_".to_owned() } else { name }
}
