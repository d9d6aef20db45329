//! The published LangGraph server as a process with its own folder. Drop kills it.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use holdpoint_engine::outgoing::{Method, Outgoing, OutgoingPolicy, OutgoingRequest, OutgoingResponse};
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

/// Returns the path of the program that `scripts/providers` installs.
fn binary() -> PathBuf {
    let path = std::env::var_os("HOLDPOINT_LANGGRAPH_BIN").map(PathBuf::from);
    let path = path.expect("HOLDPOINT_LANGGRAPH_BIN must name the langgraph program: run scripts/providers");
    assert!(path.exists(), "{} is missing: run scripts/providers", path.display());
    path
}

impl RealServer {
    pub(crate) async fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let graphs = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("../holdpoint-providers/tests/providers/langgraph/graphs");
        for file in ["letter.py", "small.py", "talk.py", "auth.py", "checkpointer.py", "langgraph.json"] {
            std::fs::copy(graphs.join(file), folder.path().join(file)).unwrap();
        }
        let port = free_port();
        let outgoing = Outgoing::new(OutgoingPolicy { allow_loopback: true, ..OutgoingPolicy::default() });
        let child = spawn(folder.path(), port).await;
        Self { url: format!("http://127.0.0.1:{port}"), child, folder, port, outgoing }
    }

    /// Kills the server and deletes its data except the checkpoints.
    pub(crate) async fn kill(&mut self) {
        kill_group(&self.child);
        self.child.wait().await.unwrap();
        // The server writes its threads every few seconds, so after a kill they may or may not be stored.
        let stored = self.folder.path().join(".langgraph_api");
        if stored.exists() {
            std::fs::remove_dir_all(stored).unwrap();
        }
    }

    pub(crate) async fn restart(&mut self) {
        self.child = spawn(self.folder.path(), self.port).await;
    }

    /// Returns the number of letters that were sent.
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
        std::fs::write(&key, "an-old-key").unwrap();
        json!({ "url": self.url, "apiKey": { "file": key } })
    }

    /// Calls the server directly.
    pub(crate) async fn call(&self, method: Method, path: &str, body: Option<Value>) -> Value {
        let response = self.respond(method, path, body).await;
        assert!(response.status < 300, "{path}: {}", String::from_utf8_lossy(&response.body));
        serde_json::from_slice(&response.body).unwrap_or_default()
    }

    async fn respond(&self, method: Method, path: &str, body: Option<Value>) -> OutgoingResponse {
        let headers = vec![
            ("authorization".to_owned(), format!("Bearer {TOKEN}")),
            ("content-type".to_owned(), "application/json".to_owned()),
        ];
        let url = format!("{}{path}", self.url);
        let body = body.map(|body| body.to_string().into_bytes()).unwrap_or_default();
        let request = OutgoingRequest {
            method,
            url,
            headers,
            body,
            timeout_ms: 30_000,
            body_bytes_max: 16 * 1024 * 1024,
        };
        self.outgoing.send(request).await.unwrap()
    }

    pub(crate) async fn wait_until_busy(&self, graph: &str) {
        while !self.is_busy(graph).await {}
    }

    pub(crate) async fn wait_until_idle(&self, graph: &str) {
        while self.is_busy(graph).await {}
    }

    async fn is_busy(&self, graph: &str) -> bool {
        let busy = json!({ "status": "busy", "metadata": { "graph_id": graph } });
        let threads = self.call(Method::Post, "/threads/search", Some(busy)).await;
        !threads.as_array().unwrap().is_empty()
    }

    /// Returns the ids of all threads, tasks and interrupts.
    pub(crate) async fn ids(&self) -> Vec<String> {
        let threads = self.call(Method::Post, "/threads/search", Some(json!({ "limit": 100 }))).await;
        let mut ids = Vec::new();
        for thread in threads.as_array().unwrap() {
            ids.push(thread["thread_id"].as_str().unwrap().to_owned());
            let questions = thread["interrupts"].as_object().into_iter().flatten();
            for (task, open) in questions {
                ids.push(task.clone());
                let interrupts = open.as_array().unwrap().iter();
                ids.extend(interrupts.map(|one| one["id"].as_str().unwrap().to_owned()));
            }
        }
        ids
    }
}

impl Drop for RealServer {
    fn drop(&mut self) {
        kill_group(&self.child);
    }
}

/// Kills the process group: the server may have started other processes.
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
    // The server logs to stdout and stderr.
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
        let mut output = Vec::new();
        while let Some(line) = lines.next_line().await.unwrap() {
            assert!(!line.contains("is already in use"), "another process took the port: {line}");
            output.push(line);
            if output.last().is_some_and(|line| line.contains("Application started up in")) {
                return;
            }
        }
        panic!("the server ended: {}", output.join("\n"));
    };
    tokio::time::timeout(READY_WITHIN, ready).await.expect("the server is not ready in time");
    // The server may start to listen shortly after this line.
    while tokio::net::TcpStream::connect(("127.0.0.1", port)).await.is_err() {
        tokio::task::yield_now().await;
    }
    // The output must be read, or a full pipe would block the server.
    tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
    child
}
