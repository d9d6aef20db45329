//! The real server as a process of its own, in a folder of its own, as long as a test needs it.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use holdpoint_engine::outgoing::{Method, Outgoing, Policy, Request, Response};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};

pub(crate) const TOKEN: &str = "canary-token-of-the-graphs";
const READY_WITHIN: Duration = Duration::from_secs(60);

pub(crate) struct RealServer {
    pub url: String,
    child: Child,
    folder: TempDir,
    port: u16,
    outgoing: Outgoing,
}

/// Where the program is that `scripts/providers` installs.
fn binary() -> PathBuf {
    let path = std::env::var_os("HOLDPOINT_LANGGRAPH_BIN").map(PathBuf::from);
    let path = path.expect("HOLDPOINT_LANGGRAPH_BIN must name the langgraph program: run scripts/providers");
    assert!(path.exists(), "{} is missing: run scripts/providers", path.display());
    path
}

impl RealServer {
    pub(crate) async fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let graphs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../holdpoint-engine/tests/langgraph/graphs");
        for file in ["letter.py", "small.py", "auth.py", "checkpointer.py", "langgraph.json"] {
            std::fs::copy(graphs.join(file), folder.path().join(file)).unwrap();
        }
        let port = free_port();
        let outgoing = Outgoing::new(Policy { allow_loopback: true, ..Policy::default() });
        let child = spawn(folder.path(), port).await;
        Self { url: format!("http://127.0.0.1:{port}"), child, folder, port, outgoing }
    }

    /// Kills it without a warning, and what it would have kept beside its checkpoints is lost.
    pub(crate) async fn kill(&mut self) {
        kill_group(&self.child);
        self.child.wait().await.unwrap();
        // What it writes down of threads every few seconds may or may not be there after a kill.
        let kept = self.folder.path().join(".langgraph_api");
        if kept.exists() {
            std::fs::remove_dir_all(kept).unwrap();
        }
    }

    pub(crate) async fn start_again(&mut self) {
        self.child = spawn(self.folder.path(), self.port).await;
    }

    /// How many letters went out.
    pub(crate) fn sent(&self) -> usize {
        std::fs::read_to_string(self.folder.path().join("sent")).map_or(0, |text| text.lines().count())
    }

    pub(crate) fn settings(&self) -> Value {
        let key = self.folder.path().join("key");
        std::fs::write(&key, TOKEN).unwrap();
        json!({ "url": self.url, "apiKey": { "file": key } })
    }

    pub(crate) fn wrong_settings(&self) -> Value {
        let key = self.folder.path().join("wrong-key");
        std::fs::write(&key, "a-key-of-yesterday").unwrap();
        json!({ "url": self.url, "apiKey": { "file": key } })
    }

    /// Calls it directly.
    pub(crate) async fn call(&self, method: Method, path: &str, body: Option<Value>) -> Value {
        let response = self.respond(method, path, body).await;
        assert!(response.status < 300, "{path}: {}", String::from_utf8_lossy(&response.body));
        serde_json::from_slice(&response.body).unwrap_or_default()
    }

    async fn respond(&self, method: Method, path: &str, body: Option<Value>) -> Response {
        let headers = vec![
            ("authorization".to_owned(), format!("Bearer {TOKEN}")),
            ("content-type".to_owned(), "application/json".to_owned()),
        ];
        let url = format!("{}{path}", self.url);
        let body = body.map(|body| body.to_string().into_bytes()).unwrap_or_default();
        let request =
            Request { method, url, headers, body, timeout_ms: 30_000, body_bytes_max: 16 * 1024 * 1024 };
        self.outgoing.send(request).await.unwrap()
    }

    /// Comes back when a graph is at work, or when it no longer is.
    pub(crate) async fn at_work(&self, graph: &str, wanted: bool) {
        let busy = json!({ "status": "busy", "metadata": { "graph_id": graph } });
        let threads = async || self.call(Method::Post, "/threads/search", Some(busy.clone())).await;
        while threads().await.as_array().unwrap().is_empty() == wanted {}
    }

    /// The names of the threads that it has, and of what is asked in them.
    pub(crate) async fn names(&self) -> Vec<String> {
        let threads = self.call(Method::Post, "/threads/search", Some(json!({ "limit": 100 }))).await;
        let mut names = Vec::new();
        for thread in threads.as_array().unwrap() {
            names.push(thread["thread_id"].as_str().unwrap().to_owned());
            let questions = thread["interrupts"].as_object().into_iter().flatten();
            for (task, asked) in questions {
                names.push(task.clone());
                let ids = asked.as_array().unwrap().iter();
                names.extend(ids.map(|one| one["id"].as_str().unwrap().to_owned()));
            }
        }
        names
    }
}

impl Drop for RealServer {
    fn drop(&mut self) {
        kill_group(&self.child);
    }
}

/// It may have started others.
fn kill_group(child: &Child) {
    if let Some(id) =
        child.id().and_then(|id| i32::try_from(id).ok()).and_then(rustix::process::Pid::from_raw)
    {
        let _ = rustix::process::kill_process_group(id, rustix::process::Signal::KILL);
    }
}

fn free_port() -> u16 {
    std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

async fn spawn(folder: &Path, port: u16) -> Child {
    // It speaks on both of its outputs.
    let mut command = Command::new("sh");
    command
        .args(["-c", "exec \"$0\" \"$@\" 2>&1"])
        .arg(binary())
        .args(["dev", "--host", "127.0.0.1", "--no-browser", "--no-reload", "--n-jobs-per-worker", "8"])
        .args(["--config", "langgraph.json", "--port"])
        .arg(port.to_string())
        .current_dir(folder)
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap_or_default())
        .env("HOME", folder)
        .env("GRAPHS_TOKEN", TOKEN)
        .env("GRAPHS_CHECKPOINTS", folder.join("checkpoints.sqlite"))
        .env("GRAPHS_SENT", folder.join("sent"))
        .env("LANGGRAPH_CLI_NO_ANALYTICS", "1")
        .env("LANGGRAPH_NO_VERSION_CHECK", "true")
        .env("LANGSMITH_TRACING", "false")
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .process_group(0)
        .kill_on_drop(true);
    let mut child = command.spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let ready = async {
        let mut said = Vec::new();
        while let Some(line) = lines.next_line().await.unwrap() {
            assert!(!line.contains("is already in use"), "somebody else took the port: {line}");
            said.push(line);
            if said.last().is_some_and(|line| line.contains("Application started up in")) {
                return;
            }
        }
        panic!("the server ended: {}", said.join("\n"));
    };
    tokio::time::timeout(READY_WITHIN, ready).await.expect("the server is not ready in time");
    // It listens as soon as that is said, but not before.
    while tokio::net::TcpStream::connect(("127.0.0.1", port)).await.is_err() {
        tokio::task::yield_now().await;
    }
    // A pipe that nobody reads would stop it.
    tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
    child
}
