//! Real servers of tools behind an agent of the operator's folder, and what they have done as it can be seen from
//! outside: our own server, which writes down every call, and one that others have published, which works on a git
//! repository.

use std::fs::DirEntry;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Map, Value, json};
use tempfile::TempDir;

use crate::harness::{Client, Server};
use crate::place::Place;

/// How often a condition is looked at that nobody tells of.
const LOOK: Duration = Duration::from_millis(5);
const PATIENCE: Duration = Duration::from_secs(30);
const OWN: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../holdpoint-engine/tests/tools/server.py");
/// Where the published server can go in its repository.
const BRANCHES: [&str; 3] = ["first", "second", "edited"];

pub(crate) struct Workshop {
    folder: TempDir,
    /// What the operator says of them: one MCP server, or tools that are plain requests.
    connections: Vec<Value>,
    /// Behind a URL; a program is started by whoever uses it.
    web: Option<Child>,
    published: bool,
    /// How long runs wait for servers that are away.
    outage_ms: Option<u64>,
}

/// Something that was done, as our own server has noted it.
#[derive(Clone, Debug)]
pub(crate) struct Note {
    pub text: String,
    pub key: String,
}

impl Workshop {
    /// Our own server as a program.
    pub(crate) fn program() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let env = json!({"NOTES": folder.path().join("notes")});
        let connection = json!({"type": "mcp", "name": "own", "command": ["python3", OWN], "env": env});
        Self { folder, connections: vec![connection], web: None, published: false, outage_ms: None }
    }

    /// Our own server behind a URL: it lives on when the program that uses it is killed.
    pub(crate) fn web() -> Self {
        let (folder, web, url) = listening();
        let connection = json!({"type": "mcp", "name": "own", "url": format!("{url}/mcp")});
        Self { folder, connections: vec![connection], web: Some(web), published: false, outage_ms: None }
    }

    /// Its tools as plain requests, without MCP.
    pub(crate) fn plain() -> Self {
        let (folder, web, url) = listening();
        let parameters = json!({"type": "object", "required": ["text"]});
        let tool = |name: &str| {
            json!({"type": "http", "name": name, "description": "notes", "method": "POST",
            "url": format!("{url}/plain/{name}"), "parameters": parameters})
        };
        let connections = ["note", "stall"].map(tool).to_vec();
        Self { folder, connections, web: Some(web), published: false, outage_ms: None }
    }

    /// A published server that is a program. Its repository remembers every time that a branch was checked out, the
    /// one that it is on as well.
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

    /// Says more about the connection, or something else.
    pub(crate) fn with(mut self, member: &str, value: &Value) -> Self {
        self.connections.iter_mut().for_each(|connection| connection[member] = value.clone());
        self
    }

    /// Says how long runs wait for servers that are away.
    pub(crate) fn waiting(mut self, ms: u64) -> Self {
        self.outage_ms = Some(ms);
        self
    }

    /// A path in its folder.
    pub(crate) fn path(&self, name: &str) -> std::path::PathBuf {
        self.folder.path().join(name)
    }

    /// Says that all calls may be repeated.
    pub(crate) fn repeatable(self) -> Self {
        let all = if self.connections[0]["type"] == "http" { json!(true) } else { json!(["*"]) };
        self.with("idempotent", &all)
    }

    /// A call of our own server's whose effect has this text, and that does not come back the first time.
    pub(crate) fn stalling(&self, id: &str, text: &str) -> Value {
        json!({"id": id, "name": "stall", "arguments": self.arguments(text)})
    }

    /// A call whose effect has this text.
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

    /// Puts an agent into the folder that speaks as the script says; somebody must allow every call of its.
    pub(crate) fn hire(&self, agent: &str, steps: &Value, more: &Value) {
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

    /// Starts the program with the folder.
    pub(crate) fn open(&self, place: &Place) -> Server {
        let agents = self.folder.path().join("agents");
        place.start(&["--agents", agents.to_str().unwrap(), "--strict", "--outgoing-allow-loopback"])
    }

    /// What was done so far, in its order.
    pub(crate) fn done(&self) -> Vec<String> {
        if !self.published {
            return self.notes().into_iter().map(|note| note.text).collect();
        }
        let log = self.folder.path().join("repository/.git/logs/HEAD");
        let log = std::fs::read_to_string(log).unwrap();
        let moved =
            |line: &str| Some(line.split_once("checkout: moving from ")?.1.split_once(" to ")?.1.to_owned());
        log.lines().filter_map(moved).collect()
    }

    pub(crate) fn notes(&self) -> Vec<Note> {
        let notes = std::fs::read_to_string(self.folder.path().join("notes")).unwrap_or_default();
        // The last line may be on its way.
        let lines = notes.split_inclusive('\n').filter(|line| line.ends_with('\n'));
        lines.map(|line| note(&serde_json::from_str(line).unwrap())).collect()
    }

    /// Waits until so much was done.
    pub(crate) fn wait_for(&self, count: usize) -> Vec<Note> {
        until("something is done", || Some(self.notes()).filter(|notes| notes.len() >= count))
    }

    /// Ends the server behind the URL.
    pub(crate) fn close_web(&mut self) {
        if let Some(mut web) = self.web.take() {
            web.kill().unwrap();
            web.wait().unwrap();
        }
    }
}

impl Drop for Workshop {
    fn drop(&mut self) {
        self.close_web();
    }
}

fn listening() -> (TempDir, Child, String) {
    let folder = tempfile::tempdir().unwrap();
    let mut command = Command::new("python3");
    command.args([OWN, "--http"]).env("NOTES", folder.path().join("notes")).stdout(Stdio::piped());
    let mut web = command.spawn().unwrap();
    let mut port = String::new();
    BufReader::new(web.stdout.take().unwrap()).read_line(&mut port).unwrap();
    (folder, web, format!("http://127.0.0.1:{}", port.trim()))
}

fn note(line: &Value) -> Note {
    let text = |name: &str| line[name].as_str().unwrap_or_default().to_owned();
    Note { text: text("text"), key: text("key") }
}

/// Our own server.
pub(crate) fn server_script() -> &'static str {
    OWN
}

/// The Python that has the published servers.
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

/// Looks until it is there.
pub(crate) fn until<T>(what: &str, look: impl Fn() -> Option<T>) -> T {
    let until = Instant::now() + PATIENCE;
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < until, "never came: {what}");
        std::thread::sleep(LOOK);
    }
}

/// Waits until a process has ended.
pub(crate) fn gone(pid: u32) {
    let ended = || (!Path::new("/proc").join(pid.to_string()).exists()).then_some(());
    until(&format!("the end of process {pid}"), ended);
}

/// What a server has started, and what that has started.
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
    // The name in brackets may be anything; state and parent come behind it.
    let parent = stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok()?;
    Some((pid, parent))
}

/// An agent at work, as clients see it.
pub(crate) struct Errand<'a> {
    pub client: &'a Client,
    pub run: String,
    pub thread: String,
}

impl<'a> Errand<'a> {
    /// Tells an agent to begin.
    pub(crate) fn begin(client: &'a Client, agent: &str, thread: &str) -> Self {
        let said = json!({"threadId": thread, "message": "Please"});
        let begun = client.post(&format!("/v1/agents/{agent}/runs"), &said);
        assert_eq!(begun.status, 202, "{begun:?}");
        Self { client, run: begun.body["runId"].as_str().unwrap().to_owned(), thread: thread.to_owned() }
    }

    /// The same one after the server was started again.
    pub(crate) fn with<'b>(&self, client: &'b Client) -> Errand<'b> {
        Errand { client, run: self.run.clone(), thread: self.thread.clone() }
    }

    /// Waits for questions of this kind about these calls, and returns their tickets.
    pub(crate) fn asked(&self, reason: &str, calls: &[&str]) -> Vec<Value> {
        until(&format!("{reason} about {calls:?}"), || {
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

    /// Waits for the end, which is a good one; returns the log.
    pub(crate) fn completed(&self) -> Vec<Value> {
        let log = self.client.ended(&self.run);
        assert_eq!(log.last().unwrap()["type"], "run.completed", "{log:#?}");
        log
    }

    /// What the thread says of a call, and the last word of the agent.
    pub(crate) fn told(&self, call: &str) -> (Value, String) {
        let said = self.client.get(&format!("/v1/threads/{}/messages", self.thread)).body;
        let said = said["messages"].as_array().unwrap();
        let results: Vec<_> = said.iter().filter(|message| message["callId"] == call).collect();
        assert_eq!(results.len(), 1, "one result of {call}: {said:?}");
        let last = said.iter().rev().find(|message| message["role"] == "assistant").unwrap();
        (results[0]["content"].clone(), last["content"].as_str().unwrap().to_owned())
    }
}

pub(crate) fn resume(call: &str) -> Value {
    json!({"toolCallId": call, "action": "resume"})
}

pub(crate) fn cancel(call: &str, reason: &str) -> Value {
    json!({"toolCallId": call, "action": "cancel", "reason": reason})
}

/// The events of this type about a call.
pub(crate) fn of_call<'a>(log: &'a [Value], kind: &str, call: &str) -> Vec<&'a Value> {
    log.iter().filter(|event| event["type"] == kind && event["payload"]["callId"] == call).collect()
}
