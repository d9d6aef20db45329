//! A server whose responses, log and spans are recorded and searched for internal names at the end.

use std::cell::RefCell;
use std::fs::OpenOptions;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use tempfile::TempDir;

use super::provider_case::ProviderCase;
use crate::harness::{Client, PROGRAM, Response, Server};
use crate::receiver::Receiver;
use crate::test_database::TestDatabase;

const CHAT: &str = "/api/v1/ai/chat";

pub(crate) struct RecordedServer<'p> {
    database: &'p TestDatabase,
    /// The name of this server among several on one database.
    node: &'static str,
    folder: TempDir,
    server: Option<Server>,
    program: PathBuf,
    environment: Vec<(&'static str, String)>,
    recorded_text: RefCell<String>,
    /// Receives the spans.
    collector: Receiver,
}

impl<'p> RecordedServer<'p> {
    pub(crate) fn open(database: &'p TestDatabase, case: &dyn ProviderCase, more: &Value) -> Self {
        Self::at_node("data", database, case, more)
    }

    pub(crate) fn at_node(
        node: &'static str,
        database: &'p TestDatabase,
        case: &dyn ProviderCase,
        more: &Value,
    ) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut settings = case.settings();
        settings.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        std::fs::write(folder.path().join("providers.json"), settings.to_string()).unwrap();
        case.prepare(folder.path());
        let (recorded_text, collector) = (RefCell::default(), Receiver::start());
        let program = case.program().unwrap_or_else(|| PathBuf::from(PROGRAM));
        let environment = case.environment();
        let server = None;
        let mut recorded =
            Self { database, node, folder, server, program, environment, recorded_text, collector };
        recorded.start();
        recorded
    }

    pub(crate) fn data(&self) -> &Path {
        self.server.as_ref().unwrap().data()
    }

    fn log(&self) -> PathBuf {
        self.folder.path().join("log")
    }

    /// Starts the server, or its successor after a kill.
    pub(crate) fn start(&mut self) {
        let settings = self.folder.path().join("providers.json");
        let file = OpenOptions::new().append(true).create(true).open(self.log()).unwrap();
        // The receiver of the native graph is on this machine.
        let mut flags = vec![
            "--outgoing-allow-loopback",
            "--allow-private-webhooks",
            "--providers",
            settings.to_str().unwrap(),
        ];
        flags.extend(["--otlp-endpoint", &self.collector.url, "--otlp-protocol", "http/json"]);
        let server = self.database.launch_program(&self.program, self.node, &flags, |command| {
            command.envs(self.environment.iter().cloned()).env("HOLDPOINT_LOG", "trace").stderr(file)
        });
        self.server = Some(server);
    }

    pub(crate) fn kill(&mut self) {
        self.server.take().unwrap().kill();
    }

    pub(crate) fn client(&self) -> &Client {
        &self.server.as_ref().unwrap().client
    }

    pub(crate) fn send(&self, method: &str, path: &str, body: Option<&Value>) -> Response {
        let text = body.map(Value::to_string);
        let answer = self.client().send(method, path, text.as_deref().map(str::as_bytes));
        self.record(&answer.body.to_string());
        answer
    }

    /// Adds a text from another source to the recorded text.
    pub(crate) fn record(&self, text: &str) {
        self.recorded_text.borrow_mut().push_str(text);
    }

    pub(crate) fn begin(&self, case: &dyn ProviderCase, key: &str) -> Response {
        let body = json!({"graph": case.graph(), "stateKey": key, "input": case.input()});
        self.send("POST", CHAT, Some(&body))
    }

    /// Starts a graph and expects an interrupt.
    pub(crate) fn start_and_expect_interrupt(&self, case: &dyn ProviderCase, key: &str) -> Value {
        let asked = self.begin(case, key);
        assert_eq!((asked.status, outcome(&asked)), (200, "needs_input"), "{asked:?}");
        asked.body
    }

    pub(crate) fn resume(&self, key: &str, id: &str, value: &Value) -> Response {
        let body = json!({"stateKey": key, "resumeId": id, "resumeValue": value});
        self.send("POST", CHAT, Some(&body))
    }

    /// Sends a further turn.
    pub(crate) fn turn(&self, key: &str, id: &str, input: &Value) -> Response {
        self.send("POST", CHAT, Some(&json!({"stateKey": key, "turnId": id, "input": input})))
    }

    pub(crate) fn history(&self, key: &str, query: &str) -> Response {
        self.send("GET", &format!("{CHAT}/{key}/history{query}"), None)
    }

    /// Answers without waiting for the outcome.
    pub(crate) fn answer(&self, key: &str, id: &str, value: &Value) -> Response {
        let body = json!({"stateKey": key, "resumeId": id, "resumeValue": value, "waitMs": 0});
        self.send("POST", CHAT, Some(&body))
    }

    pub(crate) fn get_chat(&self, key: &str) -> Response {
        self.send("GET", &format!("{CHAT}/{key}"), None)
    }

    pub(crate) fn cancel(&self, key: &str) -> Response {
        self.send("DELETE", &format!("{CHAT}/{key}"), None)
    }

    /// Polls until the response matches.
    pub(crate) fn until(&self, key: &str, wanted: impl Fn(&Response) -> bool) -> Response {
        let until = std::time::Instant::now() + std::time::Duration::from_secs(90);
        loop {
            let answer = self.get_chat(key);
            if wanted(&answer) {
                return answer;
            }
            assert!(std::time::Instant::now() < until, "the response never matched: {answer:?}");
            std::thread::yield_now();
        }
    }

    /// Returns the pending interrupt of a graph.
    pub(crate) fn waiting_run(&self, graph: &str) -> Value {
        let pending = self.send("GET", "/v1/interrupts?limit=200", None);
        let items = pending.body["interrupts"].as_array().unwrap_or_else(|| panic!("{pending:?}"));
        let mut of = items.iter().filter(|one| one["workflowId"] == graph);
        of.next().unwrap_or_else(|| panic!("no pending interrupt of {graph}: {pending:?}")).clone()
    }

    /// Asserts that no internal name of the provider is in the responses of any run, in the log or in the spans.
    pub(crate) fn assert_no_internal_names_leaked(mut self, case: &dyn ProviderCase) {
        let names = case.internal_names(self.data());
        let runs = self.send("GET", "/v1/runs?limit=200", None);
        for run in runs.body["runs"].as_array().unwrap_or_else(|| panic!("{runs:?}")) {
            let id = run["runId"].as_str().unwrap();
            for path in ["", "/events/poll?timeout=1", "/interrupts", "/debug-bundle"] {
                self.send("GET", &format!("/v1/runs/{id}{path}"), None);
            }
            self.send("GET", &format!("/v1/threads/{id}/dispatches"), None);
        }
        // The server sends its remaining spans when it stops.
        let mut server = self.server.take().unwrap();
        server.terminate();
        server.wait();
        let requests = self.collector.requests();
        let spans: String =
            requests.iter().map(|one| String::from_utf8_lossy(&one.body).into_owned()).collect();
        let log = std::fs::read_to_string(self.log()).unwrap();
        let recorded_text = self.recorded_text.borrow();
        assert!(
            recorded_text.len() > 1000 && log.len() > 100 && spans.contains("run"),
            "too little text was recorded: {} {log}",
            recorded_text.len()
        );
        for name in &names {
            assert!(!name.is_empty());
            let place = |text: &str| {
                text.find(name.as_str())
                    .map(|at| text[at.saturating_sub(200)..].chars().take(400).collect::<String>())
            };
            assert_eq!(place(&recorded_text), None, "{name:?} is in a response");
            assert_eq!(place(&log), None, "{name:?} is in the log");
            assert_eq!(place(&spans), None, "{name:?} is in a span");
        }
    }
}

pub(crate) fn outcome(answer: &Response) -> &str {
    answer.body["outcome"].as_str().unwrap_or("")
}
