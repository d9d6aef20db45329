//! A provider in memory that keeps the inputs of each conversation, and an engine with it.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex};

use holdpoint_engine::core::{Answer, Owner, Principal, RequestSource, RunRef, Transport};
use holdpoint_engine::{Options, Tenants};
use holdpoint_providers::{
    EngineGraphs, GraphError, GraphHandle, GraphResume, GraphStart, GraphStatus, LockedHandle, Probe,
    Provider, ProviderAnswers, ProviderError, ProviderInterrupt, ProviderOptions, ProviderOutcome,
    ProviderSettings, Providers, code,
};
use serde_json::{Value, json};

use crate::test_database::TestDatabase;
use crate::test_env::{TestEnv, tenant};

/// The state of the provider: the inputs of each conversation, and the outcomes of attempts.
#[derive(Clone, Debug, Default)]
pub(super) struct Notebook {
    pages: Arc<Mutex<BTreeMap<String, Vec<Value>>>>,
    attempts: Arc<Mutex<BTreeMap<String, Result<ProviderOutcome, ProviderError>>>>,
    tenants: Tenants,
}

impl Notebook {
    fn execute(&self, handle: &LockedHandle, input: &Value) -> Result<ProviderOutcome, ProviderError> {
        if input == "unreachable" {
            return Err(ProviderError::permanent(code::AUTH, "no key"));
        }
        let mut pages = self.pages.lock().unwrap();
        let page = pages.entry(reference(handle)).or_default();
        page.push(input.clone());
        let outcome = match input.as_str() {
            Some("fail") => Err(ProviderError::permanent(code::GRAPH, "the graph failed")),
            Some("ask") => {
                Ok(ProviderOutcome::Interrupted(ProviderInterrupt::one("question", json!({}), None)))
            }
            _ => Ok(ProviderOutcome::Completed(json!(page))),
        };
        let earlier = self.attempts.lock().unwrap().insert(handle.attempt().to_owned(), outcome.clone());
        assert!(earlier.is_none(), "an attempt takes effect once");
        outcome
    }

    pub(super) fn forget_all(&self) {
        self.pages.lock().unwrap().clear();
    }

    /// Returns the inputs of the only conversation.
    pub(super) fn inputs(&self) -> Vec<Value> {
        let pages = self.pages.lock().unwrap();
        assert!(pages.len() <= 1, "{pages:?}");
        pages.values().next().cloned().unwrap_or_default()
    }
}

fn reference(handle: &LockedHandle) -> String {
    handle.reference().unwrap().as_str().unwrap().to_owned()
}

impl Provider for Notebook {
    fn name(&self) -> &str {
        "notes"
    }

    fn tenants(&self) -> &Tenants {
        &self.tenants
    }

    fn plan(&self, handle: &LockedHandle) -> Value {
        json!(format!("page-of-{}", handle.attempt()))
    }

    async fn start(&self, handle: &LockedHandle, input: &Value) -> Result<ProviderOutcome, ProviderError> {
        assert!(!handle.starts_next_turn());
        self.execute(handle, input)
    }

    async fn next_turn(
        &self,
        handle: &LockedHandle,
        input: &Value,
    ) -> Result<ProviderOutcome, ProviderError> {
        assert!(handle.starts_next_turn());
        if !self.pages.lock().unwrap().contains_key(&reference(handle)) && handle.has_executed() {
            return Err(ProviderError::permanent(code::STATE_LOST, "no such page"));
        }
        self.execute(handle, input)
    }

    async fn resume(
        &self,
        handle: &LockedHandle,
        answers: &ProviderAnswers,
    ) -> Result<ProviderOutcome, ProviderError> {
        self.execute(handle, &json!({"answer": answers["i0"]}))
    }

    async fn probe(&self, handle: &LockedHandle) -> Result<Probe, ProviderError> {
        let found = self.attempts.lock().unwrap().get(handle.attempt()).cloned();
        found.map_or(Ok(Probe::NotStarted), |outcome| outcome.map(Probe::Settled))
    }

    async fn cancel(&self, _handle: &LockedHandle) -> Result<(), ProviderError> {
        Ok(())
    }

    async fn forget(&self, handle: &LockedHandle) -> Result<(), ProviderError> {
        self.pages.lock().unwrap().remove(&reference(handle));
        Ok(())
    }
}

pub(super) fn with_notes(notes: &Notebook) -> impl FnOnce(Options) -> Options + use<> {
    with_settings(notes, "{}")
}

pub(super) fn with_settings(notes: &Notebook, settings: &str) -> impl FnOnce(Options) -> Options + use<> {
    let settings = ProviderSettings::parse(settings, Path::new("."), "providers".into()).unwrap();
    let (notes, providers) = (notes.clone(), Providers::new(settings).unwrap());
    move |options| options.extension(providers).provider("notes", notes).unwrap()
}

pub(super) async fn open(database: TestDatabase) -> (TestEnv, Notebook) {
    let notes = Notebook::default();
    (TestEnv::with(database, with_notes(&notes)).await, notes)
}

pub(super) fn request(turn: Option<&str>, input: &str) -> GraphStart {
    GraphStart {
        owner: Owner { tenant: tenant(), principal: "tester".to_owned() },
        graph: "notes:page".to_owned(),
        state_key: Some("key".to_owned()),
        input: json!(input),
        turn_id: turn.map(str::to_owned),
        source: RequestSource::user(Transport::Chat),
    }
}

impl TestEnv {
    /// Sends a turn without executing it.
    pub(super) async fn send_turn(&self, turn: &str, input: &str) -> Result<(GraphHandle, bool), GraphError> {
        self.engine.graphs().next_turn(request(Some(turn), input)).await
    }

    /// Sends a turn and executes it. Returns the status of its run.
    pub(super) async fn turn(&self, turn: &str, input: &str) -> Result<GraphStatus, GraphError> {
        let (handle, _) = self.send_turn(turn, input).await?;
        self.drain().await;
        Ok(self.engine.graphs().status(&handle.of).await?)
    }

    pub(super) async fn first_turn(&self, input: &str) -> GraphStatus {
        let (handle, _) = self.engine.graphs().start(request(Some("t1"), input)).await.unwrap();
        self.drain().await;
        self.engine.graphs().status(&handle.of).await.unwrap()
    }

    pub(super) async fn resume_key(&self, id: &str, value: Value) -> Result<GraphStatus, GraphError> {
        let answer = Answer::new(value, Principal::named("alice"));
        let resume = GraphResume { id: id.to_owned(), answer, to: None };
        let (handle, decision) = self.engine.graphs().resume(&tenant(), "key", resume).await?;
        self.drain().await;
        let until = tokio::time::Instant::now();
        Ok(self.engine.graphs().wait(&handle.of, Some(&decision), until).await?)
    }

    pub(super) async fn last_run(&self) -> RunRef {
        self.engine.graphs().handle(&tenant(), "key").await.unwrap().of
    }

    pub(super) async fn close_key(&self) {
        self.engine.graphs().close(&tenant(), "key", Principal::named("alice")).await.unwrap();
    }

    pub(super) async fn tidy_handles(&self) {
        self.engine.worker().tidy().await;
    }
}

pub(super) fn completed(inputs: Value) -> GraphStatus {
    GraphStatus::Completed(inputs)
}

pub(super) fn failed_with(status: &GraphStatus, code: &str) -> bool {
    matches!(status, GraphStatus::Failed(error) if error.code == code)
}
