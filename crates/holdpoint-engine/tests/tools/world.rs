//! What the tests share: calls, definitions, our own server, and the line by which it can be heard.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;

use holdpoint_engine::agent::tool::{BadTools, Call, Returned, ToolError, ToolSpec, Tools};
use holdpoint_engine::core::{RunId, RunRef, TenantId};
use holdpoint_engine::outgoing::{Outgoing, Script};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, BufReader, Lines};
use tokio::net::{TcpListener, TcpStream};
use tokio::process::{Child, Command};

use crate::peer::scripted;

pub(crate) fn outgoing() -> Outgoing {
    scripted(&Script::default(), true)
}

pub(crate) fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/tools")
}

pub(crate) fn parse(tools: Value) -> Result<Tools, BadTools> {
    Tools::from_definition(&tools, Some(&folder()), &outgoing(), &BTreeMap::new())
}

pub(crate) fn tenant() -> TenantId {
    TenantId::parse("acme").unwrap()
}

pub(crate) fn call(name: &str, arguments: Value) -> Call {
    Call {
        of: RunRef { tenant: tenant(), run: RunId::parse("run-1").unwrap() },
        id: "call-1".to_owned(),
        name: name.to_owned(),
        arguments,
        idempotency_key: "key-1".to_owned(),
        decision: None,
    }
}

pub(crate) async fn made(tools: &Tools, name: &str, arguments: Value) -> Result<Returned, ToolError> {
    tools.call(&call(name, arguments)).await
}

pub(crate) async fn result(tools: &Tools, name: &str, arguments: Value) -> Value {
    match made(tools, name, arguments).await {
        Ok(Returned::Result(value)) => value,
        other => panic!("{name}: {other:?}"),
    }
}

pub(crate) async fn specs(tools: &Tools) -> BTreeMap<String, Arc<ToolSpec>> {
    let specs = tools.list(&tenant()).await.unwrap();
    specs.into_iter().map(|spec| (spec.name.clone(), spec)).collect()
}

/// Our server as a program, with whatever else its definition says.
pub(crate) fn program(more: Value) -> Value {
    with(json!({"type": "mcp", "name": "own", "command": ["python3", "server.py"]}), more)
}

pub(crate) fn with(mut definition: Value, more: Value) -> Value {
    for (name, value) in more.as_object().unwrap() {
        definition[name] = value.clone();
    }
    definition
}

/// Where our servers connect to when they start, so that a test hears of them and of their end.
pub(crate) struct Tether(TcpListener);

impl Tether {
    pub(crate) async fn new() -> Self {
        Self(TcpListener::bind("127.0.0.1:0").await.unwrap())
    }

    pub(crate) fn env(&self) -> Value {
        json!({"TETHER": self.0.local_addr().unwrap().port().to_string()})
    }

    /// The next server that has started.
    pub(crate) async fn started(&self) -> Line {
        let (stream, _) = self.0.accept().await.unwrap();
        let mut lines = BufReader::new(stream).lines();
        let said = lines.next_line().await.unwrap().unwrap();
        let pid = said.strip_prefix("started ").unwrap().parse().unwrap();
        Line { lines, pid }
    }
}

pub(crate) struct Line {
    lines: Lines<BufReader<TcpStream>>,
    pid: u32,
}

impl Line {
    /// The next word; nothing when nobody holds the line any longer.
    pub(crate) async fn said(&mut self) -> Option<String> {
        // A process that is killed may leave with a reset.
        self.lines.next_line().await.ok().flatten()
    }

    /// Waits until nobody holds the line and the server's process is gone for good: ended, and its end taken note of.
    pub(crate) async fn gone(mut self) {
        while self.said().await.is_some() {}
        while Path::new("/proc").join(self.pid.to_string()).exists() {
            tokio::task::yield_now().await;
        }
    }
}

/// A server over HTTP, as long as this lives.
pub(crate) struct Web {
    pub(crate) url: String,
    pub(crate) child: Child,
}

impl Web {
    pub(crate) async fn start(python: &Path, arguments: &[&str], env: &Value) -> Self {
        let mut command = Command::new(python);
        command.args(arguments).current_dir(folder()).stdout(Stdio::piped()).kill_on_drop(true);
        for (name, value) in env.as_object().unwrap() {
            command.env(name, value.as_str().unwrap());
        }
        let mut child = command.spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let port = lines.next_line().await.unwrap().unwrap();
        Self { url: format!("http://127.0.0.1:{port}/mcp"), child }
    }

    pub(crate) async fn own(env: &Value) -> Self {
        Self::start(Path::new("python3"), &["server.py", "--http"], env).await
    }

    pub(crate) fn tools(&self, more: Value) -> Tools {
        let definition = json!({"type": "mcp", "name": "web", "url": self.url});
        parse(json!([with(definition, more)])).unwrap()
    }
}

#[track_caller]
pub(crate) fn not_called(outcome: Result<Returned, ToolError>) -> String {
    match outcome {
        Err(ToolError::NotCalled(why) | ToolError::Unreachable(why)) => why,
        other => panic!("{other:?}"),
    }
}

#[track_caller]
pub(crate) fn unknown(outcome: Result<Returned, ToolError>) -> String {
    match outcome {
        Err(ToolError::Unknown(why)) => why,
        other => panic!("{other:?}"),
    }
}
