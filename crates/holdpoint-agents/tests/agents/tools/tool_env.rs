//! Helpers: calls, definitions, the MCP server of the tests, and the control connection to it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;

use holdpoint_agents::tool::{BadTools, Call, CallOutcome, CallReporter, ToolError, ToolSpec, Tools};
use holdpoint_engine::core::{RunId, RunRef, TenantId};
use holdpoint_engine::outgoing::{Outgoing, ScriptedResolver};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, BufReader, Lines};
use tokio::net::{TcpListener, TcpStream};
use tokio::process::{Child, Command};

use crate::peer::scripted;

pub(crate) fn outgoing() -> Outgoing {
    scripted(&ScriptedResolver::default(), true)
}

pub(crate) fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/agents/tools")
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
        reporter: CallReporter::default(),
    }
}

pub(crate) async fn call_tool(tools: &Tools, name: &str, arguments: Value) -> Result<CallOutcome, ToolError> {
    tools.call(&call(name, arguments)).await
}

pub(crate) async fn result(tools: &Tools, name: &str, arguments: Value) -> Value {
    match call_tool(tools, name, arguments).await {
        Ok(CallOutcome::Result(value)) => value,
        other => panic!("{name}: {other:?}"),
    }
}

pub(crate) async fn specs(tools: &Tools) -> BTreeMap<String, Arc<ToolSpec>> {
    let specs = tools.list(&tenant()).await.unwrap();
    specs.into_iter().map(|spec| (spec.name.clone(), spec)).collect()
}

/// The definition of the test server as a program, with additional members.
pub(crate) fn program(more: Value) -> Value {
    with(json!({"type": "mcp", "name": "own", "command": ["python3", "server.py"]}), more)
}

pub(crate) fn with(mut definition: Value, more: Value) -> Value {
    for (name, value) in more.as_object().unwrap() {
        definition[name] = value.clone();
    }
    definition
}

/// A listener to which test servers connect when they start, so that a test can observe them.
pub(crate) struct ControlPort(TcpListener);

impl ControlPort {
    pub(crate) async fn new() -> Self {
        Self(TcpListener::bind("127.0.0.1:0").await.unwrap())
    }

    pub(crate) fn env(&self) -> Value {
        json!({"CONTROL_PORT": self.0.local_addr().unwrap().port().to_string()})
    }

    /// Waits for the next server that starts.
    pub(crate) async fn started(&self) -> ControlConnection {
        let (stream, _) = self.0.accept().await.unwrap();
        let mut lines = BufReader::new(stream).lines();
        let message = lines.next_line().await.unwrap().unwrap();
        let pid = message.strip_prefix("started ").unwrap().parse().unwrap();
        ControlConnection { lines, pid }
    }
}

/// The connection of a server to the test.
pub(crate) struct ControlConnection {
    lines: Lines<BufReader<TcpStream>>,
    pid: u32,
}

impl ControlConnection {
    /// Returns the next message, or None if all processes with this connection have ended.
    pub(crate) async fn next_message(&mut self) -> Option<String> {
        // A killed process may reset the connection.
        self.lines.next_line().await.ok().flatten()
    }

    /// Waits until all processes with this connection have ended and the server's process is reaped.
    pub(crate) async fn wait_for_exit(mut self) {
        while self.next_message().await.is_some() {}
        while Path::new("/proc").join(self.pid.to_string()).exists() {
            tokio::task::yield_now().await;
        }
    }
}

/// An MCP server over HTTP. Drop kills it.
pub(crate) struct HttpServer {
    pub(crate) url: String,
    pub(crate) child: Child,
}

impl HttpServer {
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

/// Expects a call that did not reach the tool. Returns the reason.
#[track_caller]
pub(crate) fn not_called(outcome: Result<CallOutcome, ToolError>) -> String {
    match outcome {
        Err(ToolError::NotCalled(why) | ToolError::Unreachable(why)) => why,
        other => panic!("{other:?}"),
    }
}

/// Expects a call with an unknown outcome. Returns the reason.
#[track_caller]
pub(crate) fn unknown(outcome: Result<CallOutcome, ToolError>) -> String {
    match outcome {
        Err(ToolError::Unknown(why)) => why,
        other => panic!("{other:?}"),
    }
}
