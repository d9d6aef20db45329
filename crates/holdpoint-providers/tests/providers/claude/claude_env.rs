//! An engine with one agent, with helper functions for tests.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use holdpoint_engine::core::{Answer, Owner, Principal, RequestSource, RunRef, TenantId, Transport};
use holdpoint_engine::{Engine, Location, Options, SealKey};
use holdpoint_providers::{EngineGraphs, GraphResume, GraphStart, GraphStatus, ProviderSettings, Providers};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::Instant;

pub(crate) const GRAPH: &str = "claude:agent";

/// An engine, its data, and the folders and scripts of the agent.
pub(crate) struct ClaudeEnv {
    // The first field, so that the engine is dropped before its data.
    node: Option<Node>,
    pub(crate) folder: TempDir,
    providers: Value,
    answers: usize,
    pub(crate) of: Option<RunRef>,
}

struct Node {
    engine: Engine,
    stop: watch::Sender<bool>,
    worker: JoinHandle<()>,
}

pub(crate) fn test_folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/providers/claude")
}

pub(crate) fn with(mut settings: Value, more: Value) -> Value {
    for (name, value) in more.as_object().unwrap() {
        settings[name] = value.clone();
    }
    settings
}

impl ClaudeEnv {
    /// Opens an engine whose agent is the fake program with this script.
    pub(crate) async fn with_script(script: Value, more: Value) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("script.json");
        fs::write(&file, script.to_string()).unwrap();
        let program = folder.path().join("claude");
        let fake = test_folder().join("fake_claude.py");
        let text = format!("#!/bin/sh\nexec python3 '{}' '{}' \"$@\"\n", fake.display(), file.display());
        fs::write(&program, text).unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
        let settings = json!({"binary": program, "tools": ["Bash", "Read", "AskUserQuestion"]});
        Self::open_at(folder, with(settings, more)).await
    }

    pub(crate) async fn open_at(folder: TempDir, profile: Value) -> Self {
        let mut env = Self { node: None, folder, providers: json!({}), answers: 0, of: None };
        // These settings apply to all profiles.
        let mut profile = profile;
        for name in ["processesMax", "lockMs"] {
            if let Some(value) = profile.as_object_mut().unwrap().shift_remove(name) {
                env.providers[name] = value;
            }
        }
        env.providers["claude"] = json!({ "agent": profile });
        env.open("sessions").await;
        env
    }

    /// Opens an engine with this folder for sessions.
    async fn open(&mut self, sessions: &str) {
        let key: SealKey = "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA".parse().unwrap();
        let folder = self.folder.path().join(sessions);
        let settings =
            ProviderSettings::parse(&self.providers.to_string(), self.folder.path(), folder).unwrap();
        let location = Location::Sqlite(self.folder.path().join("holdpoint.db"));
        let engine = Engine::open(
            Options::new(location).manual_worker().seal_key(key).extension(Providers::new(settings).unwrap()),
        )
        .await
        .unwrap();
        let (stop, stopping) = watch::channel(false);
        let worker = tokio::spawn(engine.worker().run(stopping));
        self.node = Some(Node { engine, stop, worker });
    }

    /// Stops the engine between turns and opens another with this folder for sessions.
    pub(crate) async fn restart_in(&mut self, sessions: &str) {
        let node = self.node.take().unwrap();
        node.stop.send_replace(true);
        node.worker.await.unwrap();
        node.engine.close().await;
        self.open(sessions).await;
    }

    /// Kills the engine and opens another with this folder for sessions.
    pub(crate) async fn kill_and_restart_in(&mut self, sessions: &str) {
        let node = self.node.take().unwrap();
        node.engine.close().await;
        node.worker.abort();
        let _ = node.worker.await;
        drop(node.engine);
        self.open(sessions).await;
    }

    pub(crate) fn engine(&self) -> &Engine {
        &self.node.as_ref().unwrap().engine
    }

    /// Changes the profile. The next engine uses it.
    pub(crate) fn change_profile(&mut self, more: Value) {
        let profile = self.providers["claude"]["agent"].take();
        self.providers["claude"]["agent"] = with(profile, more);
    }

    /// Replaces the script of the program. A new modification time makes it another program.
    pub(crate) fn replace_script(&self, script: Value) {
        fs::write(self.folder.path().join("script.json"), script.to_string()).unwrap();
        let program = fs::File::open(self.folder.path().join("claude")).unwrap();
        program.set_modified(std::time::SystemTime::now()).unwrap();
    }

    pub(crate) async fn begin(&mut self, state_key: &str) -> RunRef {
        let owner = Owner { tenant: tenant(), principal: "tester".to_owned() };
        let (graph, state_key) = (GRAPH.to_owned(), Some(state_key.to_owned()));
        let start = GraphStart {
            owner,
            graph,
            state_key,
            input: json!({"prompt": "publish it"}),
            turn_id: None,
            source: holdpoint_engine::core::RequestSource::INTERNAL,
        };
        let (handle, _) = self.engine().graphs().start(start).await.unwrap();
        self.of = Some(handle.of.clone());
        handle.of
    }

    /// Sends a further turn. Other methods then refer to its run.
    pub(crate) async fn begin_turn(&mut self, id: &str, prompt: &str) {
        let start = GraphStart {
            owner: Owner { tenant: tenant(), principal: "tester".to_owned() },
            graph: String::new(),
            state_key: Some("key".to_owned()),
            input: json!({"prompt": prompt}),
            turn_id: Some(id.to_owned()),
            source: RequestSource::user(Transport::Chat),
        };
        self.of = Some(self.engine().graphs().next_turn(start).await.unwrap().0.of);
    }

    pub(crate) async fn turn(&mut self, id: &str, prompt: &str) -> GraphStatus {
        self.begin_turn(id, prompt).await;
        self.wait_until_stopped().await
    }

    /// Starts the agent and waits until it is no longer running.
    pub(crate) async fn start(&mut self) -> GraphStatus {
        self.begin("key").await;
        self.wait_until_stopped().await
    }

    pub(crate) async fn wait_until_stopped(&self) -> GraphStatus {
        let of = self.of.as_ref().unwrap();
        let status =
            self.engine().graphs().wait(of, None, Instant::now() + Duration::from_secs(60)).await.unwrap();
        self.assert_no_internal_ids(&format!("{status:?}"));
        for recorded in self.engine().events().list(of, 0).await.unwrap() {
            self.assert_no_internal_ids(&serde_json::to_string(&recorded.event).unwrap());
        }
        status
    }

    pub(crate) async fn begin_answer(&mut self, value: Value) {
        self.answers += 1;
        let answer = Answer::new(value, Principal::named("alice"));
        let resume = GraphResume { id: format!("r{}", self.answers), answer, to: None };
        self.engine().graphs().resume(&tenant(), "key", resume).await.unwrap();
    }

    pub(crate) async fn answer(&mut self, value: Value) -> GraphStatus {
        self.begin_answer(value).await;
        self.wait_until_stopped().await
    }

    pub(crate) async fn cancel(&self) {
        let of = self.of.as_ref().unwrap();
        self.engine().runs().cancel(of, None, Principal::named("alice")).await.unwrap();
    }

    /// Gives the lock of the handle to another owner. `None` releases the lock.
    pub(crate) fn set_lock_owner(&self, owner: Option<&str>) {
        let db = rusqlite::Connection::open(self.folder.path().join("holdpoint.db")).unwrap();
        let until = owner.map(|_| i64::MAX);
        let sql = "UPDATE execution_state_handles SET locked_by = ?1, locked_until = ?2";
        assert_eq!(db.execute(sql, rusqlite::params![owner, until]).unwrap(), 1);
    }

    /// Returns the lines of a file in the folder of the script.
    pub(crate) fn lines(&self, file: &str) -> Vec<Value> {
        let text = fs::read_to_string(self.folder.path().join(file)).unwrap_or_default();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    pub(crate) fn calls(&self) -> Vec<Value> {
        self.lines("calls.jsonl")
    }

    /// Returns the folders of sessions.
    pub(crate) fn folders(&self, sessions: &str) -> Vec<PathBuf> {
        let found = fs::read_dir(self.folder.path().join(sessions).join("claude"));
        found.into_iter().flatten().map(|entry| entry.unwrap().path()).collect()
    }

    /// Checks that visible data contains no ids of the provider.
    pub(crate) fn assert_no_internal_ids(&self, shown: &str) {
        let mut names = vec!["toolu_".to_owned(), "req_0".to_owned()];
        for start in self.lines("starts.jsonl") {
            let flags = start["flags"].as_array().unwrap().iter().filter_map(Value::as_str);
            let session = flags.filter_map(|flag| flag.strip_prefix("--session-id="));
            names.extend(session.map(str::to_owned));
        }
        for folder in self.folders("sessions").iter().chain(&self.folders("elsewhere")) {
            names.push(folder.file_name().unwrap().to_string_lossy().into_owned());
            for project in fs::read_dir(folder.join("config/projects")).into_iter().flatten().flatten() {
                let files = fs::read_dir(project.path()).unwrap().flatten();
                names.extend(files.filter_map(|file| Some(file.path().file_stem()?.to_str()?.to_owned())));
            }
        }
        for name in names {
            assert!(!shown.contains(&name), "{name} is in {shown}");
        }
    }
}

pub(crate) fn tenant() -> TenantId {
    TenantId::parse("default").unwrap()
}

/// A point in the work of a program: the program connects and waits for the test.
pub(crate) struct SyncPoint {
    listener: TcpListener,
}

/// A program that waits at a sync point.
pub(crate) struct StoppedProgram {
    stream: BufReader<TcpStream>,
    pub(crate) pid: i32,
}

impl SyncPoint {
    pub(crate) async fn new() -> Self {
        Self { listener: TcpListener::bind("127.0.0.1:0").await.unwrap() }
    }

    pub(crate) fn port(&self) -> u16 {
        self.listener.local_addr().unwrap().port()
    }

    pub(crate) async fn reached(&self) -> StoppedProgram {
        let (stream, _) = self.listener.accept().await.unwrap();
        let mut stream = BufReader::new(stream);
        let mut line = String::new();
        stream.read_line(&mut line).await.unwrap();
        let pid = line.trim().strip_prefix("here ").unwrap().parse().unwrap();
        StoppedProgram { stream, pid }
    }
}

impl StoppedProgram {
    pub(crate) async fn resume(mut self) {
        self.stream.get_mut().write_all(b"continue\n").await.unwrap();
    }

    /// Resumes the program and waits until its process has ended.
    pub(crate) async fn resume_and_wait_for_exit(self) {
        let process = Path::new("/proc").join(self.pid.to_string());
        self.resume().await;
        while process.exists() {
            tokio::task::yield_now().await;
        }
    }

    pub(crate) fn kill(&self) {
        let pid = rustix::process::Pid::from_raw(self.pid).unwrap();
        rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
    }

    /// Waits until all processes with this connection have ended.
    pub(crate) async fn wait_for_exit(mut self) {
        let mut line = String::new();
        while let Ok(1..) = self.stream.read_line(&mut line).await {}
    }
}

/// Expects an open interrupt without an earlier error. Returns its kind and data.
#[track_caller]
pub(crate) fn expect_waiting(status: &GraphStatus) -> (&str, &Value) {
    match status {
        GraphStatus::Waiting { kind, data, previous_error: None } => (kind, data),
        other => panic!("{other:?}"),
    }
}

/// Expects a failed graph or an interrupt with an earlier error. Returns code and message of the error.
#[track_caller]
pub(crate) fn expect_error(status: &GraphStatus) -> (String, String) {
    let text = |error: &Value, member: &str| error[member].as_str().unwrap().to_owned();
    match status {
        GraphStatus::Waiting { previous_error: Some(error), .. } => {
            (text(error, "code"), text(error, "message"))
        }
        GraphStatus::Failed(error) => (error.code.clone(), error.message.clone()),
        other => panic!("{other:?}"),
    }
}

/// Expects a completed graph. Returns its result.
#[track_caller]
pub(crate) fn expect_result(status: &GraphStatus) -> &str {
    match status {
        GraphStatus::Completed(output) => output["result"].as_str().unwrap(),
        other => panic!("{other:?}"),
    }
}
