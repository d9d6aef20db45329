//! Real tool servers for agents of the operator's folder, and their effects as seen from outside: the test server of
//! this repository, which records every call, and a published MCP server, which works on a git repository.

use std::fs::DirEntry;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Map, Value, json};
use tempfile::TempDir;

use crate::harness::{Client, Server};
use crate::test_database::TestDatabase;

/// Interval between checks of a condition that has no notification.
const POLL_INTERVAL: Duration = Duration::from_millis(5);
const WAIT_LIMIT: Duration = Duration::from_secs(30);
const SERVER_SCRIPT: &str =
    concat!(env!("CARGO_MANIFEST_DIR"), "/../holdpoint-agents/tests/agents/tools/server.py");
/// Branches that the published server can check out in its repository.
const BRANCHES: [&str; 3] = ["first", "second", "edited"];

pub(crate) struct ToolServer {
    folder: TempDir,
    /// The operator's connections: one MCP server, or HTTP tools.
    connections: Vec<Value>,
    /// The process of a server behind a URL. Holdpoint itself starts servers that are programs.
    web: Option<Child>,
    published: bool,
    /// Time for which runs wait for unreachable servers.
    outage_ms: Option<u64>,
}

/// A call that the test server has recorded.
#[derive(Clone, Debug)]
pub(crate) struct Note {
    pub text: String,
    pub key: String,
}

impl ToolServer {
    /// Returns the test server as a program.
    pub(crate) fn program() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let env = json!({"NOTES": folder.path().join("notes")});
        let connection =
            json!({"type": "mcp", "name": "own", "command": ["python3", SERVER_SCRIPT], "env": env});
        Self { folder, connections: vec![connection], web: None, published: false, outage_ms: None }
    }

    /// Starts the test server behind a URL. It survives if the Holdpoint server is killed.
    pub(crate) fn web() -> Self {
        let (folder, web, url) = start_web();
        let connection = json!({"type": "mcp", "name": "own", "url": format!("{url}/mcp")});
        Self { folder, connections: vec![connection], web: Some(web), published: false, outage_ms: None }
    }

    /// Starts the test server and declares its tools as HTTP requests, without MCP.
    pub(crate) fn plain() -> Self {
        let (folder, web, url) = start_web();
        let parameters = json!({"type": "object", "required": ["text"]});
        let tool = |name: &str| {
            json!({"type": "http", "name": name, "description": "notes", "method": "POST",
            "url": format!("{url}/plain/{name}"), "parameters": parameters})
        };
        let connections = ["note", "stall"].map(tool).to_vec();
        Self { folder, connections, web: Some(web), published: false, outage_ms: None }
    }

    /// Returns a published server that is a program. The reflog of its repository records every checkout, also of the
    /// current branch.
    pub(crate) fn published() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let repository = folder.path().join("repository");
        git(folder.path(), &["init", "-q", "-b", "main", repository.to_str().unwrap()]);
        for (name, value) in [("user.name", "Tests"), ("user.email", "tests@example.test")] {
            git(&repository, &["config", name, value]);
        }
        git(&repository, &["commit", "-q", "--allow-empty", "-m", "Begin"]);
        for branch in BRANCHES {
            git(&repository, &["branch", branch]);
        }
        let command = json!([python(), "-m", "mcp_server_git", "--repository", repository]);
        let connection = json!({"type": "mcp", "name": "git", "command": command});
        Self { folder, connections: vec![connection], web: None, published: true, outage_ms: None }
    }

    /// Sets a member of every connection.
    pub(crate) fn with(mut self, member: &str, value: &Value) -> Self {
        self.connections.iter_mut().for_each(|connection| connection[member] = value.clone());
        self
    }

    /// Sets the time for which runs wait for unreachable servers.
    pub(crate) fn with_outage_ms(mut self, ms: u64) -> Self {
        self.outage_ms = Some(ms);
        self
    }

    /// Returns a path in the folder of the tool server.
    pub(crate) fn path(&self, name: &str) -> std::path::PathBuf {
        self.folder.path().join(name)
    }

    /// Declares that all calls are idempotent and may be repeated.
    pub(crate) fn set_idempotent(self) -> Self {
        let all = if self.connections[0]["type"] == "http" { json!(true) } else { json!(["*"]) };
        self.with("idempotent", &all)
    }

    /// Returns a call of the test server whose effect has this text and that does not return the first time.
    pub(crate) fn stalling_call(&self, id: &str, text: &str) -> Value {
        json!({"id": id, "name": "stall", "arguments": self.arguments(text)})
    }

    /// Returns a call whose effect has this text.
    pub(crate) fn call(&self, id: &str, text: &str) -> Value {
        let name = if self.published { "git_checkout" } else { "note" };
        json!({"id": id, "name": name, "arguments": self.arguments(text)})
    }

    pub(crate) fn arguments(&self, text: &str) -> Value {
        if self.published {
            return json!({"repo_path": self.folder.path().join("repository"), "branch_name": text});
        }
        json!({"text": text})
    }

    /// Writes an agent with a scripted model into the folder. An approver must allow each of its calls.
    pub(crate) fn declare_agent(&self, agent: &str, steps: &Value, more: &Value) {
        let agents = self.folder.path().join("agents");
        std::fs::create_dir_all(&agents).unwrap();
        let named = |(at, connection): (usize, &Value)| (format!("tools-{at}"), connection.clone());
        let tools: Map<String, Value> = self.connections.iter().enumerate().map(named).collect();
        let used: Vec<Value> =
            tools.iter().map(|(name, tool)| json!({"type": tool["type"], "use": name})).collect();
        let mut connections = json!({"tools": tools});
        if let Some(ms) = self.outage_ms {
            connections["outageMs"] = json!(ms);
        }
        std::fs::write(agents.join("connections.json"), connections.to_string()).unwrap();
        let mut definition = json!({
            "agentId": agent,
            "model": {"provider": "scripted", "steps": steps},
            "tools": used,
            "permissions": {"default": "ask", "rules": []},
        });
        for (member, value) in more.as_object().unwrap() {
            definition[member] = value.clone();
        }
        std::fs::write(agents.join(format!("{agent}.json")), definition.to_string()).unwrap();
    }

    /// Starts a Holdpoint server with the folder.
    pub(crate) fn start(&self, database: &TestDatabase) -> Server {
        let agents = self.folder.path().join("agents");
        database.start(&["--agents", agents.to_str().unwrap(), "--strict", "--outgoing-allow-loopback"])
    }

    /// Returns the texts of all effects so far, in order.
    pub(crate) fn effects(&self) -> Vec<String> {
        if !self.published {
            return self.notes().into_iter().map(|note| note.text).collect();
        }
        let log = self.folder.path().join("repository/.git/logs/HEAD");
        let log = std::fs::read_to_string(log).unwrap();
        let branch_of =
            |line: &str| Some(line.split_once("checkout: moving from ")?.1.split_once(" to ")?.1.to_owned());
        log.lines().filter_map(branch_of).collect()
    }

    pub(crate) fn notes(&self) -> Vec<Note> {
        let notes = std::fs::read_to_string(self.folder.path().join("notes")).unwrap_or_default();
        // The last line may be incomplete.
        let lines = notes.split_inclusive('\n').filter(|line| line.ends_with('\n'));
        lines.map(|line| note(&serde_json::from_str(line).unwrap())).collect()
    }

    /// Waits until the test server has recorded this number of calls.
    pub(crate) fn wait_for(&self, count: usize) -> Vec<Note> {
        wait_until("recorded calls", || Some(self.notes()).filter(|notes| notes.len() >= count))
    }

    /// Stops the server behind the URL.
    pub(crate) fn stop_web(&mut self) {
        if let Some(mut web) = self.web.take() {
            web.kill().unwrap();
            web.wait().unwrap();
        }
    }
}

impl Drop for ToolServer {
    fn drop(&mut self) {
        self.stop_web();
    }
}

fn start_web() -> (TempDir, Child, String) {
    let folder = tempfile::tempdir().unwrap();
    let mut command = Command::new("python3");
    command.args([SERVER_SCRIPT, "--http"]).env("NOTES", folder.path().join("notes")).stdout(Stdio::piped());
    let mut web = command.spawn().unwrap();
    let mut port = String::new();
    BufReader::new(web.stdout.take().unwrap()).read_line(&mut port).unwrap();
    (folder, web, format!("http://127.0.0.1:{}", port.trim()))
}

fn note(line: &Value) -> Note {
    let text = |name: &str| line[name].as_str().unwrap_or_default().to_owned();
    Note { text: text("text"), key: text("key") }
}

/// Returns the path of the test server's script.
pub(crate) fn server_script() -> &'static str {
    SERVER_SCRIPT
}

/// Returns the Python interpreter that has the published servers.
fn python() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    // target/debug/deps/server-…
    let python = test.ancestors().nth(3).unwrap().join("mcp-servers/bin/python");
    assert!(python.exists(), "{} is missing: run scripts/mcp-servers", python.display());
    python
}

fn git(folder: &Path, arguments: &[&str]) {
    assert!(Command::new("git").current_dir(folder).args(arguments).status().unwrap().success());
}

/// Polls until the condition returns a value.
pub(crate) fn wait_until<T>(what: &str, look: impl Fn() -> Option<T>) -> T {
    let until = Instant::now() + WAIT_LIMIT;
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < until, "timed out waiting for: {what}");
        std::thread::sleep(POLL_INTERVAL);
    }
}

/// Waits until a process has ended.
pub(crate) fn wait_for_process_end(pid: u32) {
    let ended = || (!Path::new("/proc").join(pid.to_string()).exists()).then_some(());
    wait_until(&format!("the end of process {pid}"), ended);
}

/// Returns the processes that a server has started, with their descendants.
pub(crate) fn descendants(server: &Server) -> Vec<u32> {
    let processes: Vec<(u32, u32)> =
        std::fs::read_dir("/proc").unwrap().filter_map(|entry| with_parent(&entry.ok()?)).collect();
    let mut found = vec![server.pid()];
    let mut at = 0;
    while let Some(parent) = found.get(at).copied() {
        found.extend(processes.iter().filter(|(_, of)| *of == parent).map(|(pid, _)| *pid));
        at += 1;
    }
    found.split_off(1)
}

fn with_parent(process: &DirEntry) -> Option<(u32, u32)> {
    let pid = process.file_name().to_str()?.parse().ok()?;
    let stat = std::fs::read_to_string(process.path().join("stat")).ok()?;
    // The name in parentheses is arbitrary text; state and parent follow it.
    let parent = stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok()?;
    Some((pid, parent))
}

/// A run of an agent, as clients see it.
pub(crate) struct AgentRun<'a> {
    pub client: &'a Client,
    pub run: String,
    pub thread: String,
}

impl<'a> AgentRun<'a> {
    /// Starts a run of an agent.
    pub(crate) fn start(client: &'a Client, agent: &str, thread: &str) -> Self {
        let input = json!({"threadId": thread, "message": "Please"});
        let started = client.post(&format!("/v1/agents/{agent}/runs"), &input);
        assert_eq!(started.status, 202, "{started:?}");
        Self { client, run: started.body["runId"].as_str().unwrap().to_owned(), thread: thread.to_owned() }
    }

    /// Returns the same run with the client of a restarted server.
    pub(crate) fn with<'b>(&self, client: &'b Client) -> AgentRun<'b> {
        AgentRun { client, run: self.run.clone(), thread: self.thread.clone() }
    }

    /// Waits until exactly these calls are suspended for this reason. Returns their tickets.
    pub(crate) fn wait_for_tickets(&self, reason: &str, calls: &[&str]) -> Vec<Value> {
        wait_until(&format!("{reason} about {calls:?}"), || {
            let waiting = self.client.get(&format!("/v1/runs/{}/waiting", self.run)).body;
            let tickets = waiting["tickets"].as_array()?;
            let open = tickets.iter().filter(|ticket| ticket["status"] == "suspended").collect::<Vec<_>>();
            let named: Vec<_> = open.iter().map(|ticket| ticket["toolCallId"].as_str().unwrap()).collect();
            let fits = named == calls && open.iter().all(|ticket| ticket["reason"] == reason);
            fits.then(|| open.into_iter().cloned().collect())
        })
    }

    pub(crate) fn decide(&self, decision: &Value) {
        let decided = self.client.post(&format!("/v1/runs/{}/decision", self.run), decision);
        assert_eq!(decided.status, 202, "{decided:?}");
    }

    /// Waits until the run has completed and returns its log.
    pub(crate) fn wait_for_completion(&self) -> Vec<Value> {
        let log = self.client.wait_for_end(&self.run);
        assert_eq!(log.last().unwrap()["type"], "run.completed", "{log:#?}");
        log
    }

    /// Returns the result of a call from the thread, and the last text of the agent.
    pub(crate) fn call_result(&self, call: &str) -> (Value, String) {
        let page = self.client.get(&format!("/v1/threads/{}/messages", self.thread)).body;
        let messages = page["messages"].as_array().unwrap();
        let results: Vec<_> = messages.iter().filter(|message| message["callId"] == call).collect();
        assert_eq!(results.len(), 1, "one result of {call}: {messages:?}");
        let last = messages.iter().rev().find(|message| message["role"] == "assistant").unwrap();
        (results[0]["content"].clone(), last["content"].as_str().unwrap().to_owned())
    }
}

pub(crate) fn resume(call: &str) -> Value {
    json!({"toolCallId": call, "action": "resume"})
}

pub(crate) fn cancel(call: &str, reason: &str) -> Value {
    json!({"toolCallId": call, "action": "cancel", "reason": reason})
}

/// Returns the events of this type about a call.
pub(crate) fn of_call<'a>(log: &'a [Value], kind: &str, call: &str) -> Vec<&'a Value> {
    log.iter().filter(|event| event["type"] == kind && event["payload"]["callId"] == call).collect()
}
