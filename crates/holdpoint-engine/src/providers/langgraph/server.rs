//! Calls to a server, one function for each, and what its refusals mean. Knows nothing of attempts.

use std::path::Path;
use std::time::Duration;

use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::OnceCell;

use super::mapping::Question;
use super::scrub::scrubbed;
use super::settings::{Settings, Times};
use crate::agent::model::KeyRef;
use crate::outgoing::{Error, Method, Outgoing, Request};
use crate::providers::{BadProviders, Trouble, code};

/// What a server may answer with: the state of a graph can be large.
const ANSWER_BYTES_MAX: usize = 16 * 1024 * 1024;
/// The runs of a thread that are looked at, the youngest first: what is looked for is one of the last.
const RUNS_MAX: usize = 50;
/// Servers before this do not know what is asked of them here.
const OLDEST: (u64, u64) = (0, 4);

pub(super) struct Server {
    outgoing: Outgoing,
    base: String,
    /// The header of the key, and where the key is.
    key: Option<(String, KeyRef)>,
    pub times: Times,
    version: OnceCell<()>,
}

#[derive(Deserialize)]
pub(super) struct Run {
    pub run_id: String,
    pub status: String,
    #[serde(default)]
    metadata: Value,
}

impl Run {
    /// Whether it was begun for this attempt.
    pub(super) fn is_for(&self, attempt: &str) -> bool {
        self.metadata.get("resume_id").and_then(Value::as_str) == Some(attempt)
    }

    pub(super) fn is_at_work(&self) -> bool {
        matches!(self.status.as_str(), "pending" | "running")
    }
}

#[derive(Default, Deserialize)]
pub(super) struct State {
    #[serde(default)]
    pub values: Value,
    #[serde(default)]
    pub next: Vec<String>,
    #[serde(default)]
    interrupts: Vec<Question>,
    #[serde(default)]
    tasks: Vec<Task>,
    #[serde(default)]
    checkpoint: Option<Value>,
}

#[derive(Deserialize)]
struct Task {
    #[serde(default)]
    interrupts: Vec<Question>,
}

impl State {
    /// Nothing has ever happened in the thread.
    pub(super) fn is_empty(&self) -> bool {
        self.checkpoint.is_none() && self.next.is_empty() && self.questions().is_empty()
    }

    /// What is open, in the server's order. Older servers tell it with the tasks alone.
    pub(super) fn questions(&self) -> Vec<Question> {
        if self.interrupts.is_empty() {
            return self.tasks.iter().flat_map(|task| task.interrupts.clone()).collect();
        }
        self.interrupts.clone()
    }
}

/// What came of the wish to begin a run.
pub(super) enum Begun {
    Run(String),
    /// Another is at work in the thread.
    Busy,
    /// There is no such thread.
    NoThread,
}

struct Reply {
    status: u16,
    body: Value,
}

impl Server {
    pub(super) fn new(settings: &Settings, base: &Path) -> Result<Self, BadProviders> {
        let (key, times) = (settings.key(base)?, settings.times()?);
        let (outgoing, base) = settings.outgoing()?;
        Ok(Self { outgoing, base, key, times, version: OnceCell::new() })
    }

    /// Asks once in the life of this process which version it is. One that does not say is tried.
    pub(super) async fn check_version(&self) -> Result<(), Trouble> {
        let asking = async {
            let reply = self.call(Method::Get, "/info", None).await?;
            match reply.body.get("version").and_then(Value::as_str).and_then(release) {
                Some(release) if release < OLDEST => Err(Trouble::lasting(
                    code::VERSION,
                    format!("the server is older than version {}.{} of langgraph-api", OLDEST.0, OLDEST.1),
                )),
                _ => Ok(()),
            }
        };
        self.version.get_or_try_init(|| asking).await.copied()
    }

    /// Makes a thread; false when it was there.
    pub(super) async fn make_thread(&self, thread: &str, assistant: &str) -> Result<bool, Trouble> {
        let graph = self.graph_of(assistant).await?;
        // With the name of its graph, a server that lost the thread can read the checkpoints of it again.
        let metadata = json!({ "graph_id": graph, "made_by": "holdpoint" });
        let body = json!({ "thread_id": thread, "if_exists": "raise", "metadata": metadata });
        let reply = self.call(Method::Post, "/threads", Some(&body)).await?;
        match reply.status {
            200..=299 => Ok(true),
            409 => Ok(false),
            _ => Err(rejected(&reply)),
        }
    }

    /// An assistant with a name is called as its graph is.
    async fn graph_of(&self, assistant: &str) -> Result<String, Trouble> {
        if uuid::Uuid::try_parse(assistant).is_err() {
            return Ok(assistant.to_owned());
        }
        let reply = self.call(Method::Get, &format!("/assistants/{assistant}"), None).await?;
        let found = reply.body.get("graph_id").and_then(Value::as_str).map(str::to_owned);
        found.ok_or_else(|| rejected(&reply))
    }

    /// The last runs of a thread, the youngest first; none when there is no such thread.
    pub(super) async fn runs(&self, thread: &str) -> Result<Vec<Run>, Trouble> {
        let path =
            format!("/threads/{thread}/runs?limit={RUNS_MAX}&select=run_id&select=status&select=metadata");
        let reply = self.call(Method::Get, &path, None).await?;
        if reply.status == 404 { Ok(Vec::new()) } else { read(reply) }
    }

    /// Nothing when there is no such run, or no such thread.
    pub(super) async fn run(&self, thread: &str, run: &str) -> Result<Option<Run>, Trouble> {
        let reply = self.call(Method::Get, &format!("/threads/{thread}/runs/{run}"), None).await?;
        if reply.status == 404 { Ok(None) } else { read(reply).map(Some) }
    }

    /// Nothing when there is no such thread.
    pub(super) async fn state(&self, thread: &str) -> Result<Option<State>, Trouble> {
        let reply = self.call(Method::Get, &format!("/threads/{thread}/state"), None).await?;
        if reply.status == 404 { Ok(None) } else { read(reply).map(Some) }
    }

    /// What the last run of a thread failed of: the kind of error, and what it says.
    pub(super) async fn failure(&self, thread: &str) -> Result<(String, String), Trouble> {
        let reply = self.call(Method::Get, &format!("/threads/{thread}"), None).await?;
        let text = |member: &str| {
            let found = reply.body.get("error").and_then(|error| error.get(member)).and_then(Value::as_str);
            found.unwrap_or_default().to_owned()
        };
        Ok((text("error"), text("message")))
    }

    pub(super) async fn begin(&self, thread: &str, run: &Value) -> Result<Begun, Trouble> {
        let reply = self.call(Method::Post, &format!("/threads/{thread}/runs"), Some(run)).await?;
        match reply.status {
            404 => Ok(Begun::NoThread),
            409 => Ok(Begun::Busy),
            _ => read(reply).map(|run: Run| Begun::Run(run.run_id)),
        }
    }

    /// Comes back when the run has ended, as far as the server says; in no more than this time. What it says of the
    /// end is not read: it hides failures, and the state does not.
    pub(super) async fn join(&self, thread: &str, run: &str, within: Duration) -> Result<(), Trouble> {
        let path = format!("/threads/{thread}/runs/{run}/join");
        let within_ms = u64::try_from(within.as_millis()).unwrap_or(u64::MAX);
        let request = self.request(Method::Get, &path, None, within_ms).await?;
        let mut answer = self.outgoing.stream(request, within).await.map_err(|error| unreachable(&error))?;
        while answer.body.next().await.map_err(|error| unreachable(&error))?.is_some() {}
        Ok(())
    }

    /// Stops a run. One that has ended stays as it is.
    pub(super) async fn stop(&self, thread: &str, run: &str) -> Result<(), Trouble> {
        let path = format!("/threads/{thread}/runs/{run}/cancel?wait=true&action=interrupt");
        let reply = self.call(Method::Post, &path, None).await?;
        accepted(&reply)
    }

    pub(super) async fn delete_thread(&self, thread: &str) -> Result<(), Trouble> {
        let reply = self.call(Method::Delete, &format!("/threads/{thread}"), None).await?;
        accepted(&reply)
    }

    async fn call(&self, method: Method, path: &str, body: Option<&Value>) -> Result<Reply, Trouble> {
        let request = self.request(method, path, body, self.times.call_ms).await?;
        let answer = self.outgoing.send(request).await.map_err(|error| unreachable(&error))?;
        let status = answer.status;
        match status {
            401 | 403 => Err(Trouble::lasting(code::AUTH, "the server refuses our key")),
            300..=399 => Err(Trouble::lasting(code::MISCONFIGURED, "the server is somewhere else now")),
            408 | 429 | 500..=599 => {
                Err(Trouble::passing(code::UNREACHABLE, format!("the server answered with status {status}")))
            }
            _ => Ok(Reply { status, body: serde_json::from_slice(&answer.body).unwrap_or_default() }),
        }
    }

    async fn request(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
        timeout_ms: u64,
    ) -> Result<Request, Trouble> {
        let mut headers = vec![("accept".to_owned(), "application/json".to_owned())];
        if let Some((name, key)) = &self.key {
            let unusable = |why| Trouble::lasting(code::AUTH, format!("the key cannot be used: {why}"));
            let secret = key.read().await.map_err(unusable)?;
            let bearer = name == "authorization" && !secret.expose().contains(' ');
            let text =
                if bearer { format!("Bearer {}", secret.expose()) } else { secret.expose().to_owned() };
            headers.push((name.clone(), text));
        }
        let body = match body {
            Some(body) => {
                headers.push(("content-type".to_owned(), "application/json".to_owned()));
                body.to_string().into_bytes()
            }
            None => Vec::new(),
        };
        let url = format!("{}{path}", self.base);
        Ok(Request { method, url, headers, body, timeout_ms, body_bytes_max: ANSWER_BYTES_MAX })
    }
}

/// What is gone needs no stopping and no deleting.
fn accepted(reply: &Reply) -> Result<(), Trouble> {
    match reply.status {
        200..=299 | 404 | 409 => Ok(()),
        _ => Err(rejected(reply)),
    }
}

fn read<T: serde::de::DeserializeOwned>(reply: Reply) -> Result<T, Trouble> {
    if !(200..=299).contains(&reply.status) {
        return Err(rejected(&reply));
    }
    let unread = |_| Trouble::lasting(code::REJECTED, "the server answers in a way that is not understood");
    serde_json::from_value(reply.body).map_err(unread)
}

fn rejected(reply: &Reply) -> Trouble {
    let detail = match reply.body.get("detail") {
        Some(Value::String(text)) => scrubbed(text),
        Some(other) => scrubbed(&other.to_string()),
        None => "it does not say why".to_owned(),
    };
    Trouble::lasting(code::REJECTED, format!("the server refused with status {}: {detail}", reply.status))
}

/// Without the words of the error, which name the server.
fn unreachable(error: &Error) -> Trouble {
    let passing = |message: &str| Trouble::passing(code::UNREACHABLE, message);
    match error {
        Error::Refused(_) => Trouble::lasting(
            code::MISCONFIGURED,
            "the server is in a network that must not be called, or not without https",
        ),
        Error::Unresolvable { .. } => passing("the name of the server has no address"),
        Error::ConnectFailed { .. } => passing("the server cannot be connected to"),
        Error::TimedOut { .. } => passing("the server did not answer in time"),
        Error::BodyTooLarge { bytes_max, .. } => {
            Trouble::lasting(code::TOO_LARGE, format!("the server answered with more than {bytes_max} bytes"))
        }
        Error::Tls { .. } => passing("there is no trusted connection to the server"),
        Error::Broken { .. } => passing("the connection to the server broke"),
    }
}

/// The first two numbers of a version.
fn release(version: &str) -> Option<(u64, u64)> {
    let mut numbers = version.split('.').map(|part| part.parse().ok());
    Some((numbers.next()??, numbers.next()??))
}
