//! An engine with a worker at work, whose graphs are on some LangGraph server.

use std::path::Path;
use std::time::Duration;

use holdpoint_engine::core::{Answer, Owner, Principal, RunRef, TenantId};
use holdpoint_engine::{
    Engine, GraphError, GraphStart, Options, PendingCursor, ProviderSettings, Resume, SealKey, Standing,
};
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::time::Instant;

use crate::place::Place;

/// Nothing here takes so long unless it hangs.
const PATIENCE: Duration = Duration::from_secs(40);

pub(crate) struct House {
    pub engine: Engine,
    working: tokio::task::JoinHandle<()>,
    // Dropped, the worker stops.
    _stop: watch::Sender<bool>,
}

impl House {
    pub(crate) async fn open(place: &Place, server: Value) -> Self {
        Self::furnished(place, server, |options| options).await
    }

    /// Another node on the same data.
    pub(crate) async fn second(place: &Place, server: Value) -> Self {
        Self::furnished(place, server, Options::second_handle).await
    }

    async fn furnished(place: &Place, server: Value, furnish: impl FnOnce(Options) -> Options) -> Self {
        let key: SealKey = "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA".parse().unwrap();
        let text = json!({ "langgraph": { "default": server } }).to_string();
        let settings = ProviderSettings::parse(&text, Path::new("."), "providers".into()).unwrap();
        let options = Options::new(place.location()).seal_key(key).providers(settings);
        let engine = Engine::open(furnish(options)).await.unwrap();
        let (stop, stopped) = watch::channel(false);
        let working = tokio::spawn(engine.worker().run(stopped));
        Self { engine, working, _stop: stop }
    }

    /// Ends as a process does that is killed: in the middle of whatever it is at.
    pub(crate) async fn die(self) {
        self.working.abort();
        self.engine.close().await;
    }

    /// Begins a graph, and comes back when it stands still.
    pub(crate) async fn start(&self, graph: &str, key: &str, input: Value) -> Standing {
        self.begin(graph, key, input).await;
        self.settled(key).await
    }

    pub(crate) async fn begin(&self, graph: &str, key: &str, input: Value) -> RunRef {
        let owner = Owner { tenant: tenant(), principal: "tester".to_owned() };
        let graph = format!("langgraph:{graph}");
        let start = GraphStart { owner, graph, state_key: Some(key.to_owned()), input };
        self.engine.start_graph(start).await.unwrap().0.of
    }

    /// Answers, and comes back when the graph stands still.
    pub(crate) async fn resume(&self, key: &str, id: &str, value: Value) -> Standing {
        let decision = self.answer(key, id, value).await.unwrap();
        self.settled_after(key, Some(&decision)).await
    }

    pub(crate) async fn answer(&self, key: &str, id: &str, value: Value) -> Result<String, GraphError> {
        let answer = Answer::new(value, Principal::named("alice"));
        let resume = Resume { id: id.to_owned(), answer, to: None };
        self.engine.resume_graph(&tenant(), key, resume).await.map(|(_, decision)| decision)
    }

    pub(crate) async fn settled(&self, key: &str) -> Standing {
        self.settled_after(key, None).await
    }

    async fn settled_after(&self, key: &str, decision: Option<&str>) -> Standing {
        let of = self.run_of(key).await;
        let until = Instant::now() + PATIENCE;
        let standing = self.engine.graph_settled(&of, decision, until).await.unwrap();
        assert_ne!(standing, Standing::Running, "{key} does not come to an end");
        standing
    }

    pub(crate) async fn run_of(&self, key: &str) -> RunRef {
        self.engine.handle(&tenant(), key).await.unwrap().of
    }

    /// All that anybody could read about a graph.
    pub(crate) async fn told(&self, key: &str) -> String {
        let of = self.run_of(key).await;
        let events = self.engine.events(&of, 0).await.unwrap();
        let pending = self.engine.pending(&tenant(), PendingCursor::default(), 100).await.unwrap();
        let handle = self.engine.handle(&tenant(), key).await.unwrap();
        let events: Vec<String> =
            events.iter().map(|recorded| serde_json::to_string(&recorded.event).unwrap()).collect();
        format!("{events:?}{pending:?}{handle:?}")
    }
}

pub(crate) fn tenant() -> TenantId {
    TenantId::parse("default").unwrap()
}

/// What is asked, when something is and nothing went wrong before.
#[track_caller]
pub(crate) fn asked(standing: Standing) -> (String, Value) {
    match standing {
        Standing::Waiting { kind, data, trouble: None } => (kind, data),
        other => panic!("{other:?}"),
    }
}

/// What went wrong with the answer before.
#[track_caller]
pub(crate) fn trouble(standing: Standing) -> String {
    match standing {
        Standing::Waiting { trouble: Some(trouble), .. } => trouble["code"].as_str().unwrap().to_owned(),
        other => panic!("{other:?}"),
    }
}

#[track_caller]
pub(crate) fn completed(standing: Standing) -> Value {
    match standing {
        Standing::Completed(output) => output,
        other => panic!("{other:?}"),
    }
}

/// The code and the words of a failure.
#[track_caller]
pub(crate) fn failed(standing: Standing) -> (String, String) {
    match standing {
        Standing::Failed(error) => (error.code, error.message),
        other => panic!("{other:?}"),
    }
}
