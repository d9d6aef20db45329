//! An engine with one agent, and short words for what tests do with it.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use holdpoint_engine::core::{Answer, Owner, Principal, RunRef, TenantId};
use holdpoint_engine::{Engine, GraphStart, Location, Options, ProviderSettings, Resume, SealKey, Standing};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::Instant;

pub(crate) const GRAPH: &str = "claude:agent";

/// Where the data is, and the agent's folders and scripts.
pub(crate) struct World {
    // First, so that it is gone before its data is.
    node: Option<Node>,
    pub(crate) place: TempDir,
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
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/claude")
}

pub(crate) fn with(mut settings: Value, more: Value) -> Value {
    for (name, value) in more.as_object().unwrap() {
        settings[name] = value.clone();
    }
    settings
}

impl World {
    /// With the program that plays a script.
    pub(crate) async fn playing(script: Value, more: Value) -> Self {
        let place = tempfile::tempdir().unwrap();
        let file = place.path().join("script.json");
        fs::write(&file, script.to_string()).unwrap();
        let program = place.path().join("claude");
        let fake = test_folder().join("fake_claude.py");
        let text = format!("#!/bin/sh\nexec python3 '{}' '{}' \"$@\"\n", fake.display(), file.display());
        fs::write(&program, text).unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
        let settings = json!({"binary": program, "tools": ["Bash", "Read", "AskUserQuestion"]});
        Self::at(place, with(settings, more)).await
    }

    pub(crate) async fn at(place: TempDir, profile: Value) -> Self {
        let mut world = Self { node: None, place, providers: json!({}), answers: 0, of: None };
        // What belongs to all profiles stands beside them.
        let mut profile = profile;
        for name in ["processesMax", "lockMs"] {
            if let Some(value) = profile.as_object_mut().unwrap().shift_remove(name) {
                world.providers[name] = value;
            }
        }
        world.providers["claude"] = json!({ "agent": profile });
        world.open("sessions").await;
        world
    }

    /// A node with agents' folders of its own.
    async fn open(&mut self, sessions: &str) {
        let key: SealKey = "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA".parse().unwrap();
        let folder = self.place.path().join(sessions);
        let settings =
            ProviderSettings::parse(&self.providers.to_string(), self.place.path(), folder).unwrap();
        let location = Location::Sqlite(self.place.path().join("holdpoint.db"));
        let engine = Engine::open(Options::new(location).seal_key(key).providers(settings)).await.unwrap();
        let (stop, stopping) = watch::channel(false);
        let worker = tokio::spawn(engine.worker().run(stopping));
        self.node = Some(Node { engine, stop, worker });
    }

    /// The node stops between turns, and another one with other folders goes on.
    pub(crate) async fn move_to(&mut self, sessions: &str) {
        let node = self.node.take().unwrap();
        node.stop.send_replace(true);
        node.worker.await.unwrap();
        node.engine.close().await;
        self.open(sessions).await;
    }

    /// The node dies where it stands, and another one goes on in the same folders or others.
    pub(crate) async fn die_and_go_on_in(&mut self, sessions: &str) {
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

    /// Changes the profile; counts from the next node on.
    pub(crate) fn set(&mut self, more: Value) {
        let profile = self.providers["claude"]["agent"].take();
        self.providers["claude"]["agent"] = with(profile, more);
    }

    /// Changes what the program plays: it is another program then.
    pub(crate) fn rewrite(&self, script: Value) {
        fs::write(self.place.path().join("script.json"), script.to_string()).unwrap();
        let program = fs::File::open(self.place.path().join("claude")).unwrap();
        program.set_modified(std::time::SystemTime::now()).unwrap();
    }

    pub(crate) async fn begin(&mut self, state_key: &str) -> RunRef {
        let owner = Owner { tenant: tenant(), principal: "tester".to_owned() };
        let (graph, state_key) = (GRAPH.to_owned(), Some(state_key.to_owned()));
        let start = GraphStart { owner, graph, state_key, input: json!({"prompt": "publish it"}) };
        let (handle, _) = self.engine().start_graph(start).await.unwrap();
        self.of = Some(handle.of.clone());
        handle.of
    }

    /// Starts the agent and waits for what it comes to.
    pub(crate) async fn start(&mut self) -> Standing {
        self.begin("key").await;
        self.settled().await
    }

    pub(crate) async fn settled(&self) -> Standing {
        let of = self.of.as_ref().unwrap();
        let standing =
            self.engine().graph_settled(of, None, Instant::now() + Duration::from_secs(60)).await.unwrap();
        self.tells_no_names(&format!("{standing:?}"));
        for recorded in self.engine().events(of, 0).await.unwrap() {
            self.tells_no_names(&serde_json::to_string(&recorded.event).unwrap());
        }
        standing
    }

    pub(crate) async fn begin_answer(&mut self, value: Value) {
        self.answers += 1;
        let answer = Answer::new(value, Principal::named("alice"));
        let resume = Resume { id: format!("r{}", self.answers), answer, to: None };
        self.engine().resume_graph(&tenant(), "key", resume).await.unwrap();
    }

    pub(crate) async fn answer(&mut self, value: Value) -> Standing {
        self.begin_answer(value).await;
        self.settled().await
    }

    pub(crate) async fn cancel(&self) {
        let of = self.of.as_ref().unwrap();
        self.engine().cancel(of, None, Principal::named("alice")).await.unwrap();
    }

    /// Somebody else has the handle, until this is said again for nobody.
    pub(crate) fn take_lock(&self, owner: Option<&str>) {
        let db = rusqlite::Connection::open(self.place.path().join("holdpoint.db")).unwrap();
        let until = owner.map(|_| i64::MAX);
        let sql = "UPDATE execution_state_handles SET locked_by = ?1, locked_until = ?2";
        assert_eq!(db.execute(sql, rusqlite::params![owner, until]).unwrap(), 1);
    }

    /// What was written down in a file of the script's folder, line by line.
    pub(crate) fn lines(&self, file: &str) -> Vec<Value> {
        let text = fs::read_to_string(self.place.path().join(file)).unwrap_or_default();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    pub(crate) fn calls(&self) -> Vec<Value> {
        self.lines("calls.jsonl")
    }

    /// Folders of sessions of a node.
    pub(crate) fn folders(&self, sessions: &str) -> Vec<PathBuf> {
        let found = fs::read_dir(self.place.path().join(sessions).join("claude"));
        found.into_iter().flatten().map(|entry| entry.unwrap().path()).collect()
    }

    /// Nothing by which the provider could be found is in what anybody sees.
    pub(crate) fn tells_no_names(&self, shown: &str) {
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
            assert!(!shown.contains(&name), "{name} is told in {shown}");
        }
    }
}

pub(crate) fn tenant() -> TenantId {
    TenantId::parse("default").unwrap()
}

/// Where a program comes to when it is in the middle of something.
pub(crate) struct Meeting {
    listener: TcpListener,
}

pub(crate) struct Met {
    stream: BufReader<TcpStream>,
    pub(crate) pid: i32,
}

impl Meeting {
    pub(crate) async fn new() -> Self {
        Self { listener: TcpListener::bind("127.0.0.1:0").await.unwrap() }
    }

    pub(crate) fn port(&self) -> u16 {
        self.listener.local_addr().unwrap().port()
    }

    pub(crate) async fn met(&self) -> Met {
        let (stream, _) = self.listener.accept().await.unwrap();
        let mut stream = BufReader::new(stream);
        let mut line = String::new();
        stream.read_line(&mut line).await.unwrap();
        let pid = line.trim().strip_prefix("here ").unwrap().parse().unwrap();
        Met { stream, pid }
    }
}

impl Met {
    pub(crate) async fn go_on(mut self) {
        self.stream.get_mut().write_all(b"go on\n").await.unwrap();
    }

    /// Lets it go on, and comes back when its process is gone.
    pub(crate) async fn go_on_to_the_end(self) {
        let process = Path::new("/proc").join(self.pid.to_string());
        self.go_on().await;
        while process.exists() {
            tokio::task::yield_now().await;
        }
    }

    pub(crate) fn kill(&self) {
        let pid = rustix::process::Pid::from_raw(self.pid).unwrap();
        rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
    }

    /// Comes back when nobody holds the line any longer: the process is dead.
    pub(crate) async fn hangs_up(mut self) {
        let mut line = String::new();
        while let Ok(1..) = self.stream.read_line(&mut line).await {}
    }
}

#[track_caller]
pub(crate) fn asks(standing: &Standing) -> (&str, &Value) {
    match standing {
        Standing::Waiting { kind, data, trouble: None } => (kind, data),
        other => panic!("{other:?}"),
    }
}

#[track_caller]
pub(crate) fn troubled(standing: &Standing) -> (String, String) {
    let text = |trouble: &Value, member: &str| trouble[member].as_str().unwrap().to_owned();
    match standing {
        Standing::Waiting { trouble: Some(trouble), .. } => (text(trouble, "code"), text(trouble, "message")),
        Standing::Failed(error) => (error.code.clone(), error.message.clone()),
        other => panic!("{other:?}"),
    }
}

#[track_caller]
pub(crate) fn said(standing: &Standing) -> &str {
    match standing {
        Standing::Completed(output) => output["result"].as_str().unwrap(),
        other => panic!("{other:?}"),
    }
}
