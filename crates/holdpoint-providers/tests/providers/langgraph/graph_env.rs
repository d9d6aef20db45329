//! An engine with a running worker and a LangGraph server as its provider.

use std::path::Path;
use std::time::Duration;

use holdpoint_engine::core::{Answer, Event, Owner, Principal, RequestSource, RunRef, TenantId, Transport};
use holdpoint_engine::{Engine, Options, PendingCursor, SealKey};
use holdpoint_providers::{
    EngineGraphs, GraphError, GraphResume, GraphStart, GraphStatus, ProviderSettings, Providers,
};
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::time::Instant;

use crate::test_database::TestDatabase;

/// The time limit for a graph to stop. Only a hanging graph exceeds it.
const TIME_LIMIT: Duration = Duration::from_secs(40);

pub(crate) struct GraphEnv {
    pub engine: Engine,
    working: tokio::task::JoinHandle<()>,
    // Drop stops the worker.
    _stop: watch::Sender<bool>,
}

impl GraphEnv {
    pub(crate) async fn open(database: &TestDatabase, server: Value) -> Self {
        Self::open_with(database, server, |options| options).await
    }

    /// Opens another engine on the same data.
    pub(crate) async fn second(database: &TestDatabase, server: Value) -> Self {
        Self::open_with(database, server, Options::second_handle).await
    }

    async fn open_with(
        database: &TestDatabase,
        server: Value,
        configure: impl FnOnce(Options) -> Options,
    ) -> Self {
        let key: SealKey = "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA".parse().unwrap();
        let text = json!({ "langgraph": { "default": server } }).to_string();
        let settings = ProviderSettings::parse(&text, Path::new("."), "providers".into()).unwrap();
        let options = Options::new(database.location())
            .manual_worker()
            .seal_key(key)
            .extension(Providers::new(settings).unwrap());
        let engine = Engine::open(configure(options)).await.unwrap();
        let (stop, stopped) = watch::channel(false);
        let working = tokio::spawn(engine.worker().run(stopped));
        Self { engine, working, _stop: stop }
    }

    /// Stops the engine during its work, like a killed process.
    pub(crate) async fn kill(self) {
        self.working.abort();
        self.engine.close().await;
    }

    /// Starts a graph and waits until it is no longer running.
    pub(crate) async fn start(&self, graph: &str, key: &str, input: Value) -> GraphStatus {
        self.begin(graph, key, input).await;
        self.wait_until_stopped(key).await
    }

    pub(crate) async fn begin(&self, graph: &str, key: &str, input: Value) -> RunRef {
        let owner = Owner { tenant: tenant(), principal: "tester".to_owned() };
        let graph = format!("langgraph:{graph}");
        let start = GraphStart {
            owner,
            graph,
            state_key: Some(key.to_owned()),
            input,
            turn_id: None,
            source: holdpoint_engine::core::RequestSource::INTERNAL,
        };
        self.engine.graphs().start(start).await.unwrap().0.of
    }

    /// Sends a further turn and waits until the graph is no longer running.
    pub(crate) async fn turn(&self, key: &str, id: &str, input: Value) -> GraphStatus {
        self.begin_turn(key, id, input).await;
        self.wait_until_stopped(key).await
    }

    pub(crate) async fn begin_turn(&self, key: &str, id: &str, input: Value) {
        let start = GraphStart {
            owner: Owner { tenant: tenant(), principal: "tester".to_owned() },
            graph: String::new(),
            state_key: Some(key.to_owned()),
            input,
            turn_id: Some(id.to_owned()),
            source: RequestSource::user(Transport::Chat),
        };
        self.engine.graphs().next_turn(start).await.unwrap();
    }

    /// Answers and waits until the graph is no longer running.
    pub(crate) async fn resume(&self, key: &str, id: &str, value: Value) -> GraphStatus {
        let decision = self.answer(key, id, value).await.unwrap();
        self.wait_until_stopped_after(key, Some(&decision)).await
    }

    pub(crate) async fn answer(&self, key: &str, id: &str, value: Value) -> Result<String, GraphError> {
        let answer = Answer::new(value, Principal::named("alice"));
        let resume = GraphResume { id: id.to_owned(), answer, to: None };
        self.engine.graphs().resume(&tenant(), key, resume).await.map(|(_, decision)| decision)
    }

    pub(crate) async fn wait_until_stopped(&self, key: &str) -> GraphStatus {
        self.wait_until_stopped_after(key, None).await
    }

    async fn wait_until_stopped_after(&self, key: &str, decision: Option<&str>) -> GraphStatus {
        let of = self.run_of(key).await;
        let until = Instant::now() + TIME_LIMIT;
        let status = self.engine.graphs().wait(&of, decision, until).await.unwrap();
        assert_ne!(status, GraphStatus::Running, "{key} does not stop in time");
        status
    }

    pub(crate) async fn run_of(&self, key: &str) -> RunRef {
        self.engine.graphs().handle(&tenant(), key).await.unwrap().of
    }

    /// Waits until the log of a graph has an event.
    pub(crate) async fn wait_for_event(&self, key: &str, wanted: impl Fn(&Event) -> bool) {
        let of = self.run_of(key).await;
        let mut changes = self.engine.events().subscribe(&of);
        let found = async {
            loop {
                let events = self.engine.events().list(&of, 0).await.unwrap();
                if events.iter().any(|recorded| wanted(&recorded.event)) {
                    return;
                }
                changes.changed().await;
            }
        };
        tokio::time::timeout(TIME_LIMIT, found).await.expect("the event is recorded in time");
    }

    /// Returns the messages, calls and results that the log of a graph shows, without the digits of ids.
    pub(crate) async fn shown_progress(&self, key: &str) -> Vec<Value> {
        let events = self.engine.events().list(&self.run_of(key).await, 0).await.unwrap();
        events.iter().filter_map(|recorded| describe_progress(&recorded.event)).collect()
    }

    /// Returns all data about a graph that callers can read.
    pub(crate) async fn visible_data(&self, key: &str) -> String {
        let of = self.run_of(key).await;
        let events = self.engine.events().list(&of, 0).await.unwrap();
        let pending = self.engine.interrupts().open(&tenant(), PendingCursor::default(), 100).await.unwrap();
        let handle = self.engine.graphs().handle(&tenant(), key).await.unwrap();
        let events: Vec<String> =
            events.iter().map(|recorded| serde_json::to_string(&recorded.event).unwrap()).collect();
        format!("{events:?}{pending:?}{handle:?}")
    }
}

fn describe_progress(event: &Event) -> Option<Value> {
    match event {
        Event::MessageChunk { chunk, last, meta, .. } => Some(json!(["chunk", chunk, last, meta["attempt"]])),
        Event::ModelReplied { message, provider: true, .. } => {
            let calls: Vec<_> = message.calls.iter().map(|call| json!([call.name, call.arguments])).collect();
            Some(json!(["message", message.text(), calls]))
        }
        Event::ToolReturned { content, status, .. } => Some(json!(["result", content, status])),
        _ => None,
    }
}

pub(crate) fn tenant() -> TenantId {
    TenantId::parse("default").unwrap()
}

/// Expects an open interrupt without an earlier error. Returns its kind and data.
#[track_caller]
pub(crate) fn expect_waiting(status: GraphStatus) -> (String, Value) {
    match status {
        GraphStatus::Waiting { kind, data, previous_error: None } => (kind, data),
        other => panic!("{other:?}"),
    }
}

/// Expects an open interrupt whose previous answer failed. Returns the code of the error.
#[track_caller]
pub(crate) fn expect_previous_error(status: GraphStatus) -> String {
    match status {
        GraphStatus::Waiting { previous_error: Some(error), .. } => {
            error["code"].as_str().unwrap().to_owned()
        }
        other => panic!("{other:?}"),
    }
}

#[track_caller]
pub(crate) fn expect_completed(status: GraphStatus) -> Value {
    match status {
        GraphStatus::Completed(output) => output,
        other => panic!("{other:?}"),
    }
}

/// Expects a failed graph. Returns the code and the message of the error.
#[track_caller]
pub(crate) fn expect_failed(status: GraphStatus) -> (String, String) {
    match status {
        GraphStatus::Failed(error) => (error.code, error.message),
        other => panic!("{other:?}"),
    }
}
