//! A server and everything it ever says: answers and log, to be looked through at the end.

use std::cell::RefCell;
use std::fs::OpenOptions;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use tempfile::TempDir;

use super::side::Side;
use crate::harness::{Answer, Client, Server};
use crate::place::Place;
use crate::receiver::Receiver;

const CHAT: &str = "/api/v1/ai/chat";

pub(crate) struct Talk<'p> {
    place: &'p Place,
    /// Which of several servers in the place.
    node: &'static str,
    folder: TempDir,
    server: Option<Server>,
    heard: RefCell<String>,
    /// Takes the spans.
    collector: Receiver,
}

impl<'p> Talk<'p> {
    pub(crate) fn open(place: &'p Place, side: &dyn Side, more: &Value) -> Self {
        Self::at_node("data", place, side, more)
    }

    pub(crate) fn at_node(node: &'static str, place: &'p Place, side: &dyn Side, more: &Value) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut settings = side.settings();
        settings.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        std::fs::write(folder.path().join("providers.json"), settings.to_string()).unwrap();
        side.prepare(folder.path());
        let (heard, collector) = (RefCell::default(), Receiver::start());
        let mut talk = Self { place, node, folder, server: None, heard, collector };
        talk.start();
        talk
    }

    pub(crate) fn data(&self) -> &Path {
        self.server.as_ref().unwrap().data()
    }

    fn log(&self) -> PathBuf {
        self.folder.path().join("log")
    }

    /// Starts the server, or another after one that is dead.
    pub(crate) fn start(&mut self) {
        let settings = self.folder.path().join("providers.json");
        let file = OpenOptions::new().append(true).create(true).open(self.log()).unwrap();
        // The receiver of what our own graph sends is on this machine.
        let mut flags = vec![
            "--outgoing-allow-loopback",
            "--allow-private-webhooks",
            "--providers",
            settings.to_str().unwrap(),
        ];
        flags.extend(["--otlp-endpoint", &self.collector.url, "--otlp-protocol", "http/json"]);
        let server = self
            .place
            .launch_node(self.node, &flags, |command| command.env("HOLDPOINT_LOG", "trace").stderr(file));
        self.server = Some(server);
    }

    pub(crate) fn kill(&mut self) {
        self.server.take().unwrap().kill();
    }

    pub(crate) fn client(&self) -> &Client {
        &self.server.as_ref().unwrap().client
    }

    pub(crate) fn send(&self, method: &str, path: &str, body: Option<&Value>) -> Answer {
        let text = body.map(Value::to_string);
        let answer = self.client().send(method, path, text.as_deref().map(str::as_bytes));
        self.hear(&answer.body.to_string());
        answer
    }

    /// Keeps what was told to somebody else.
    pub(crate) fn hear(&self, text: &str) {
        self.heard.borrow_mut().push_str(text);
    }

    pub(crate) fn begin(&self, side: &dyn Side, key: &str) -> Answer {
        let body = json!({"graph": side.graph(), "stateKey": key, "input": side.input()});
        self.send("POST", CHAT, Some(&body))
    }

    /// Begins, and is asked.
    pub(crate) fn asked(&self, side: &dyn Side, key: &str) -> Value {
        let asked = self.begin(side, key);
        assert_eq!((asked.status, outcome(&asked)), (200, "needs_input"), "{asked:?}");
        asked.body
    }

    pub(crate) fn resume(&self, key: &str, id: &str, value: &Value) -> Answer {
        let body = json!({"stateKey": key, "resumeId": id, "resumeValue": value});
        self.send("POST", CHAT, Some(&body))
    }

    /// Answers without waiting for what comes of it.
    pub(crate) fn answer(&self, key: &str, id: &str, value: &Value) -> Answer {
        let body = json!({"stateKey": key, "resumeId": id, "resumeValue": value, "waitMs": 0});
        self.send("POST", CHAT, Some(&body))
    }

    pub(crate) fn look(&self, key: &str) -> Answer {
        self.send("GET", &format!("{CHAT}/{key}"), None)
    }

    pub(crate) fn cancel(&self, key: &str) -> Answer {
        self.send("DELETE", &format!("{CHAT}/{key}"), None)
    }

    /// Looks until it says what is wanted.
    pub(crate) fn until(&self, key: &str, wanted: impl Fn(&Answer) -> bool) -> Answer {
        let until = std::time::Instant::now() + std::time::Duration::from_secs(90);
        loop {
            let answer = self.look(key);
            if wanted(&answer) {
                return answer;
            }
            assert!(std::time::Instant::now() < until, "it never comes to that: {answer:?}");
            std::thread::yield_now();
        }
    }

    /// The run behind a key, found as people find it: by what it asks.
    pub(crate) fn waiting_run(&self, graph: &str) -> Value {
        let pending = self.send("GET", "/v1/interrupts?limit=200", None);
        let items = pending.body["interrupts"].as_array().unwrap_or_else(|| panic!("{pending:?}"));
        let mut of = items.iter().filter(|one| one["workflowId"] == graph);
        of.next().unwrap_or_else(|| panic!("nothing of {graph} waits: {pending:?}")).clone()
    }

    /// Everything that anybody can see of all runs, the log and the spans: none of the provider's own names is in it.
    pub(crate) fn assert_nothing_leaked(mut self, side: &dyn Side) {
        let names = side.names(self.data());
        let runs = self.send("GET", "/v1/runs?limit=200", None);
        for run in runs.body["runs"].as_array().unwrap_or_else(|| panic!("{runs:?}")) {
            let id = run["runId"].as_str().unwrap();
            for path in ["", "/events/poll?timeout=1", "/interrupts", "/debug-bundle"] {
                self.send("GET", &format!("/v1/runs/{id}{path}"), None);
            }
            self.send("GET", &format!("/v1/threads/{id}/dispatches"), None);
        }
        // Going down, it tells what it has not told yet.
        let mut server = self.server.take().unwrap();
        server.terminate();
        server.wait();
        let told = self.collector.so_far();
        let spans: String = told.iter().map(|one| String::from_utf8_lossy(&one.body).into_owned()).collect();
        let log = std::fs::read_to_string(self.log()).unwrap();
        let heard = self.heard.borrow();
        assert!(
            heard.len() > 1000 && log.len() > 100 && spans.contains("run"),
            "little to look through: {} {log}",
            heard.len()
        );
        for name in &names {
            assert!(!name.is_empty());
            let place = |text: &str| {
                text.find(name.as_str())
                    .map(|at| text[at.saturating_sub(200)..].chars().take(400).collect::<String>())
            };
            assert_eq!(place(&heard), None, "{name:?} was told");
            assert_eq!(place(&log), None, "{name:?} is in the log");
            assert_eq!(place(&spans), None, "{name:?} is in a span");
        }
    }
}

pub(crate) fn outcome(answer: &Answer) -> &str {
    answer.body["outcome"].as_str().unwrap_or("")
}
