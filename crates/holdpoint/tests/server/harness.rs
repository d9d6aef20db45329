//! A server process in a temporary folder, and an HTTP client that returns responses unchanged.

use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use holdpoint_client::api::runs::CreateRun;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tempfile::TempDir;

pub(crate) const PROGRAM: &str = env!("CARGO_BIN_EXE_holdpoint");
pub(crate) const KEY: &str = "a-key-for-tests-only";

/// A running server. Dropping it kills the process.
pub(crate) struct Server {
    child: Child,
    pub url: String,
    pub client: Client,
    folder: Option<TempDir>,
    data: PathBuf,
}

impl Server {
    pub(crate) fn start() -> Self {
        Self::start_with(&[])
    }

    /// Starts a server with more flags on a free port, in a folder of its own.
    pub(crate) fn start_with(more: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let data = folder.path().join("data");
        let mut server = Self::start_in(&data, more);
        server.folder = Some(folder);
        server
    }

    /// Starts a server on a free port and waits until it reports that it is ready.
    pub(crate) fn start_in(data: &Path, more: &[&str]) -> Self {
        Self::launch(data, more, |command| command.stderr(Stdio::null()))
    }

    /// Starts a server on a free port with more flags. Returns the path of its log file too.
    pub(crate) fn start_logging(more: &[&str], level: &str) -> (Self, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("log");
        let file = std::fs::File::create(&log).unwrap();
        let data = folder.path().join("data");
        let mut server =
            Self::launch(&data, more, |command| command.env("HOLDPOINT_LOG", level).stderr(file));
        server.folder = Some(folder);
        (server, log)
    }

    /// Starts a server on a free port. `finish` can change the command before it is executed.
    pub(crate) fn launch(
        data: &Path,
        more: &[&str],
        finish: impl FnOnce(&mut Command) -> &mut Command,
    ) -> Self {
        Self::launch_at("127.0.0.1:0", data, more, finish)
    }

    fn launch_at(
        listen: &str,
        data: &Path,
        more: &[&str],
        finish: impl FnOnce(&mut Command) -> &mut Command,
    ) -> Self {
        Self::spawn(Command::new(PROGRAM), listen, data, more, finish)
    }

    /// Starts a command that executes the server with the arguments that are appended to it.
    pub(crate) fn spawn(
        mut command: Command,
        listen: &str,
        data: &Path,
        more: &[&str],
        finish: impl FnOnce(&mut Command) -> &mut Command,
    ) -> Self {
        command.args(["serve", "--listen", listen, "--bootstrap-key", KEY, "--data"]).arg(data).args(more);
        let mut child = finish(clear_env(&mut command).stdout(Stdio::piped())).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let ready = lines.next().expect("a line that reports that the server is ready").unwrap();
        let url = ready.rsplit(' ').next().unwrap().to_owned();
        // Later output must not fill the pipe.
        std::thread::spawn(move || lines.for_each(drop));
        Self { child, client: Client::new(&url, Some(KEY)), url, folder: None, data: data.to_owned() }
    }

    pub(crate) fn data(&self) -> &Path {
        &self.data
    }

    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Kills the server with -9 and starts another one on the same folder.
    pub(crate) fn kill_and_restart(mut self) -> Self {
        self.kill();
        Self::restart_at(self, "127.0.0.1:0")
    }

    /// Starts a server at an address on the folder of a server that was killed.
    pub(crate) fn restart_at(mut dead: Self, listen: &str) -> Self {
        let mut next =
            Self::launch_at(listen, &dead.data.clone(), &[], |command| command.stderr(Stdio::null()));
        next.folder = dead.folder.take();
        next
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Sends SIGTERM to the server.
    pub(crate) fn terminate(&self) {
        let sent = Command::new("kill").args(["-TERM", &self.pid().to_string()]).status();
        assert!(sent.unwrap().success());
    }

    /// Waits until the process ends by itself.
    pub(crate) fn wait(&mut self) -> std::process::ExitStatus {
        self.child.wait().unwrap()
    }

    /// Runs the command line against this server.
    pub(crate) fn run(&self, arguments: &[&str]) -> Output {
        let mut command = Command::new(PROGRAM);
        command.args(arguments).env("HOLDPOINT_SERVER", &self.url).env("HOLDPOINT_KEY", KEY);
        command.output().unwrap()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // The process may have ended before.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The environment variable that lets the system choose the port of a server. The default port may be in use.
pub(crate) const ANY_PORT: (&str, &str) = ("HOLDPOINT_LISTEN", "127.0.0.1:0");

/// Removes variables that change the program: tests must not depend on the developer's shell.
pub(crate) fn clear_env(command: &mut Command) -> &mut Command {
    let ours = |name: &str| {
        name.starts_with("HOLDPOINT_") || name.starts_with("OTEL_") || name == "CLAUDE_PROJECT_DIR"
    };
    for (name, _) in std::env::vars().filter(|(name, _)| ours(name)) {
        command.env_remove(name);
    }
    command
}

#[derive(Clone)]
pub(crate) struct Client {
    agent: ureq::Agent,
    url: String,
    key: Option<String>,
}

#[derive(Debug, PartialEq)]
pub(crate) struct Response {
    pub status: u16,
    pub body: Value,
}

impl Response {
    pub(crate) fn code(&self) -> &str {
        self.body["error"].as_str().unwrap_or("")
    }

    /// Asserts that the body is exactly `{error, message, details?}` with this status and code.
    pub(crate) fn assert_envelope(&self, status: u16, code: &str) {
        assert_eq!((self.status, self.code()), (status, code), "{self:?}");
        let members = self.body.as_object().unwrap();
        let is_known = |name: &String| ["error", "message", "details"].contains(&name.as_str());
        assert!(members.keys().all(is_known), "{self:?}");
        assert!(self.body["message"].as_str().is_some_and(|text| !text.is_empty()), "{self:?}");
        assert!(members.get("details").is_none_or(Value::is_object), "{self:?}");
    }
}

impl Client {
    pub(crate) fn new(url: &str, key: Option<&str>) -> Self {
        Self::with_timeout(url, key, Duration::from_secs(60))
    }

    /// Returns a client that waits at most this long for a response.
    pub(crate) fn with_timeout(url: &str, key: Option<&str>, timeout: Duration) -> Self {
        let config = ureq::Agent::config_builder().http_status_as_error(false).timeout_global(Some(timeout));
        Self { agent: config.build().new_agent(), url: url.to_owned(), key: key.map(str::to_owned) }
    }

    pub(crate) fn with_key(&self, key: Option<&str>) -> Self {
        Self { key: key.map(str::to_owned), ..self.clone() }
    }

    /// Sends bytes unchanged. An `Err` is a network error, never a response of the server.
    pub(crate) fn try_send(
        &self,
        method: &str,
        path: &str,
        body: Option<&[u8]>,
    ) -> Result<Response, ureq::Error> {
        let headers: &[_] = if body.is_some() { &[("content-type", "application/json")] } else { &[] };
        let response = self.try_exchange(method, path, body, headers)?;
        let (status, text) = (response.status().as_u16(), response.into_body());
        let body = serde_json::from_str(&text).unwrap_or(Value::String(text));
        Ok(Response { status, body })
    }

    /// Sends a request with more headers and returns the response with its headers.
    pub(crate) fn exchange(
        &self,
        method: &str,
        path: &str,
        body: Option<&[u8]>,
        headers: &[(&str, &str)],
    ) -> ureq::http::Response<String> {
        self.try_exchange(method, path, body, headers).unwrap()
    }

    /// Does the same as `exchange` and returns network errors.
    pub(crate) fn try_exchange(
        &self,
        method: &str,
        path: &str,
        body: Option<&[u8]>,
        headers: &[(&str, &str)],
    ) -> Result<ureq::http::Response<String>, ureq::Error> {
        let mut request = ureq::http::Request::builder().method(method).uri(format!("{}{path}", self.url));
        if let Some(key) = &self.key {
            request = request.header("authorization", format!("Bearer {key}"));
        }
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let response = match body {
            Some(body) => self.agent.run(request.body(body.to_vec()).unwrap()),
            None => self.agent.run(request.body(()).unwrap()),
        };
        let (parts, mut body) = response?.into_parts();
        let mut text = String::new();
        body.as_reader().read_to_string(&mut text)?;
        Ok(ureq::http::Response::from_parts(parts, text))
    }

    pub(crate) fn send(&self, method: &str, path: &str, body: Option<&[u8]>) -> Response {
        self.try_send(method, path, body).unwrap()
    }

    pub(crate) fn get(&self, path: &str) -> Response {
        self.send("GET", path, None)
    }

    pub(crate) fn post(&self, path: &str, body: &Value) -> Response {
        self.send("POST", path, Some(body.to_string().as_bytes()))
    }

    pub(crate) fn put(&self, path: &str, body: &Value) -> Response {
        self.send("PUT", path, Some(body.to_string().as_bytes()))
    }

    /// Sends a request of the typed client.
    pub(crate) fn api<T: DeserializeOwned>(
        &self,
        request: impl FnOnce(&holdpoint_client::Client) -> holdpoint_client::Request<T>,
    ) -> Result<T, holdpoint_client::Error> {
        let builder = holdpoint_client::Client::builder(&self.url).retry(holdpoint_client::RetryPolicy::OFF);
        let client = self.key.iter().fold(builder, holdpoint_client::ClientBuilder::key).build().unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async { request(&client).reply().await.map(|reply| reply.value) })
    }

    /// Starts a run and returns its id.
    pub(crate) fn start_run(&self, workflow: &str) -> String {
        let run = CreateRun { workflow_id: workflow.to_owned(), ..CreateRun::default() };
        self.api(|client| client.runs().create(&run)).unwrap().run_id.to_string()
    }

    /// Returns the snapshot of a run without the signed link, which differs on every read.
    pub(crate) fn snapshot(&self, run: &str) -> Value {
        let mut shown = self.get(&format!("/v1/runs/{run}")).body;
        if let Some(interrupt) = shown.get_mut("interrupt").and_then(Value::as_object_mut) {
            interrupt.retain(|name, _| name != "interruptToken" && name != "callbackUrl");
        }
        shown
    }

    pub(crate) fn status(&self, run: &str) -> String {
        self.api(|client| client.runs().get(run)).map_or("none", |run| run.status.as_str()).to_owned()
    }

    pub(crate) fn answer(&self, run: &str, node: &str, value: &Value) -> Response {
        self.post(&format!("/v1/runs/{run}/interrupts/{node}"), &json!({"resumeValue": value}))
    }

    /// Waits until the run has ended and returns its log.
    pub(crate) fn wait_for_end(&self, run: &str) -> Vec<Value> {
        self.wait_for_event(run, |_| false)
    }

    /// Waits until the log of a run has a matching event or the run has ended. Returns the log.
    pub(crate) fn wait_for_event(&self, run: &str, matches: impl Fn(&Value) -> bool) -> Vec<Value> {
        let mut log: Vec<Value> = Vec::new();
        loop {
            let last = log.len() as i64 - 1;
            let page = self.get(&format!("/v1/runs/{run}/events/poll?lastSequence={last}&timeout=30"));
            log.extend(page.body["events"].as_array().unwrap_or_else(|| panic!("{page:?}")).clone());
            if page.body["isComplete"] == true || log.iter().any(&matches) {
                return log;
            }
        }
    }

    /// Returns the whole log of a run, as the poll route shows it.
    pub(crate) fn events(&self, run: &str) -> Vec<Value> {
        let page = self.get(&format!("/v1/runs/{run}/events/poll?timeout=1"));
        page.body["events"].as_array().unwrap_or_else(|| panic!("{page:?}")).clone()
    }

    /// Reads an event stream until the server closes it. Returns its frames as `(id, event, data)`.
    pub(crate) fn stream(&self, path: &str, last: Option<&str>) -> Vec<(String, String, Value)> {
        let mut request = self.agent.get(format!("{}{path}", self.url));
        if let Some(key) = &self.key {
            request = request.header("authorization", format!("Bearer {key}"));
        }
        if let Some(last) = last {
            request = request.header("last-event-id", last);
        }
        let mut response = request.call().unwrap();
        assert_eq!(response.headers()["content-type"], "text/event-stream");
        assert_eq!(response.headers()["x-accel-buffering"], "no", "a proxy must pass events on at once");
        let mut frames = Vec::new();
        let mut frame = (String::new(), String::new(), Value::Null);
        for line in BufReader::new(response.body_mut().as_reader()).lines() {
            let line = line.unwrap();
            match line.split_once(": ") {
                Some(("id", id)) => frame.0 = id.to_owned(),
                Some(("event", event)) => frame.1 = event.to_owned(),
                Some(("data", data)) => frame.2 = serde_json::from_str(data).unwrap(),
                _ if line.is_empty() && frame.2 != Value::Null => frames.push(std::mem::take(&mut frame)),
                _ => {}
            }
        }
        frames
    }
}

/// Creates a key with these members and returns it with its secret. Without `scopes`, the key may answer interrupts.
pub(crate) fn create_key(maker: &Client, members: &Value) -> Value {
    let mut members = members.clone();
    if members["scopes"].is_null() {
        members["addScopes"] = json!(["approvals:respond"]);
    }
    let made = maker.post("/v1/keys", &members);
    assert_eq!(made.status, 201, "{made:?}");
    made.body
}

/// Creates a key and returns a client that uses it.
pub(crate) fn client_with_key(maker: &Client, members: &Value) -> Client {
    maker.with_key(create_key(maker, members)["key"].as_str())
}

/// Returns a workflow with a node, an approval gate and another node.
pub(crate) fn gated(id: &str) -> Value {
    let node = |id: &str, type_id: &str, config: Value| json!({"id": id, "typeId": type_id, "name": id, "position": {"x": 0, "y": 0}, "config": config, "inputs": {}});
    let gate = json!({"title": "Go on?", "actions": ["accept", "reject"]});
    json!({
        "id": id, "name": id, "version": "1",
        "nodes": [node("before", "core.noop", json!({})), node("gate", "core.approvalGate", gate), node("after", "core.noop", json!({}))],
        "edges": [
            {"id": "1", "sourceNodeId": "before", "targetNodeId": "gate"},
            {"id": "2", "sourceNodeId": "gate", "targetNodeId": "after"},
        ],
        "triggers": [{"id": "manual", "type": "manual", "enabled": true}],
        "variables": [], "metadata": {}, "settings": {},
    })
}

/// Returns a workflow whose nodes (id, type and config) follow each other.
pub(crate) fn linear(id: &str, nodes: &[(&str, &str, Value)]) -> Value {
    let shown = nodes.iter().map(|(id, type_id, config)| json!({"id": id, "typeId": type_id, "name": id, "position": {"x": 0, "y": 0}, "config": config, "inputs": {}}));
    let edges = nodes.windows(2).map(|two| json!({"id": format!("{}-{}", two[0].0, two[1].0), "sourceNodeId": two[0].0, "targetNodeId": two[1].0}));
    json!({
        "id": id, "name": id, "version": "1", "nodes": shown.collect::<Vec<_>>(), "edges": edges.collect::<Vec<_>>(),
        "triggers": [], "variables": [], "metadata": {}, "settings": {},
    })
}

pub(crate) fn accept() -> Value {
    json!({"action": "accept"})
}
