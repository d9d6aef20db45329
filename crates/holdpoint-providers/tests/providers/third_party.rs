//! A provider that is written outside of our crates: it uses only the public port. Its graph asks for a number and
//! doubles it. The state of the graph is in memory and survives restarts of the engine, like a server would.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use holdpoint_engine::core::agent::ReasoningVisibility;
use holdpoint_engine::core::{Answer, Event, Owner, Principal, RunRef};
use holdpoint_engine::{Options, Tenants};
use holdpoint_providers::{
    EngineGraphs, GraphError, GraphResume, GraphStart, GraphStatus, LockedHandle, Probe, Provider,
    ProviderAnswers, ProviderError, ProviderInterrupt, ProviderMessage, ProviderOutcome, ProviderProgress,
    ProviderSettings, Providers, code,
};
use serde_json::{Value, json};

use crate::test_database::{TestDatabase, on_both};
use crate::test_env::{TestEnv, tenant};

on_both! {
    a_graph_of_another_crate_is_started_interrupted_and_resumed,
    an_attempt_with_a_lost_response_takes_effect_once,
    the_progress_of_an_attempt_with_a_lost_response_is_recorded_once,
    reasoning_is_recorded_only_if_the_provider_shows_it,
    a_tenant_that_the_provider_does_not_admit_has_no_graph,
    a_deleted_conversation_deletes_the_state_at_the_provider,
}

/// The state of the provider: the outcomes of attempts by their id, and the references that were deleted.
#[derive(Clone, Debug, Default)]
struct Doubler {
    outcomes: Arc<Mutex<BTreeMap<String, ProviderOutcome>>>,
    forgotten: Arc<Mutex<Vec<Value>>>,
    tenants: Tenants,
    /// The first response is lost after the attempt took effect.
    loses_responses: bool,
    reasoning: ReasoningVisibility,
}

impl Doubler {
    fn record(
        &self,
        handle: &LockedHandle,
        outcome: ProviderOutcome,
    ) -> Result<ProviderOutcome, ProviderError> {
        let earlier = self.outcomes.lock().unwrap().insert(handle.attempt().to_owned(), outcome.clone());
        assert!(earlier.is_none(), "an attempt takes effect once");
        if self.loses_responses {
            return Err(ProviderError::transient(code::UNREACHABLE, "the response was lost"));
        }
        Ok(outcome)
    }
}

impl Provider for Doubler {
    fn name(&self) -> &str {
        "acme"
    }

    fn tenants(&self) -> &Tenants {
        &self.tenants
    }

    fn reasoning(&self) -> ReasoningVisibility {
        self.reasoning
    }

    fn plan(&self, handle: &LockedHandle) -> Value {
        json!({ "graph": handle.provider_graph(), "run": handle.run() })
    }

    async fn start(&self, handle: &LockedHandle, input: &Value) -> Result<ProviderOutcome, ProviderError> {
        let data = json!({ "question": input });
        let (message, text) = ("canary-of-acme".to_owned(), input.as_str().unwrap_or_default().to_owned());
        let thought = "A doubled number is even.".to_owned();
        handle.report(ProviderProgress::Reasoning { message: message.clone(), delta: thought });
        handle.report(ProviderProgress::Text { message: message.clone(), delta: text.clone() });
        let message = ProviderMessage { id: message, text, ..ProviderMessage::default() };
        handle.report(ProviderProgress::Message(message));
        self.record(handle, ProviderOutcome::Interrupted(ProviderInterrupt::one("question", data, None)))
    }

    async fn next_turn(
        &self,
        handle: &LockedHandle,
        input: &Value,
    ) -> Result<ProviderOutcome, ProviderError> {
        assert!(handle.starts_next_turn() && handle.reference().is_some());
        self.start(handle, input).await
    }

    async fn resume(
        &self,
        handle: &LockedHandle,
        answers: &ProviderAnswers,
    ) -> Result<ProviderOutcome, ProviderError> {
        let doubled = answers["i0"].as_i64().map(|number| number * 2);
        let doubled = doubled.ok_or_else(|| ProviderError::permanent(code::REJECTED, "not a number"))?;
        self.record(handle, ProviderOutcome::Completed(json!(doubled)))
    }

    async fn probe(&self, handle: &LockedHandle) -> Result<Probe, ProviderError> {
        let found = self.outcomes.lock().unwrap().get(handle.attempt()).cloned();
        Ok(found.map_or(Probe::NotStarted, Probe::Settled))
    }

    async fn cancel(&self, _handle: &LockedHandle) -> Result<(), ProviderError> {
        Ok(())
    }

    async fn forget(&self, handle: &LockedHandle) -> Result<(), ProviderError> {
        self.forgotten.lock().unwrap().extend(handle.reference());
        Ok(())
    }
}

fn with_doubler(doubler: &Doubler) -> impl FnOnce(Options) -> Options {
    let providers =
        Providers::new(ProviderSettings::default()).unwrap().add("acme", doubler.clone()).unwrap();
    move |options| options.extension(providers)
}

fn request() -> GraphStart {
    GraphStart {
        owner: Owner { tenant: tenant(), principal: "tester".to_owned() },
        graph: "acme:double".to_owned(),
        state_key: Some("key".to_owned()),
        input: json!("Which number?"),
        turn_id: None,
        source: holdpoint_engine::core::RequestSource::INTERNAL,
    }
}

async fn start(env: &TestEnv) -> Result<RunRef, GraphError> {
    let (handle, _) = env.engine.graphs().start(request()).await?;
    env.drain().await;
    Ok(handle.of)
}

async fn answer(env: &TestEnv, id: &str, value: Value) {
    let answer = Answer::new(value, Principal::named("alice"));
    let resume = GraphResume { id: id.to_owned(), answer, to: None };
    env.engine.graphs().resume(&tenant(), "key", resume).await.unwrap();
    env.drain().await;
}

async fn a_graph_of_another_crate_is_started_interrupted_and_resumed(database: TestDatabase) {
    let doubler = Doubler::default();
    let env = TestEnv::with(database, with_doubler(&doubler)).await;
    let of = start(&env).await.unwrap();
    let GraphStatus::Waiting { kind, data, .. } = env.engine.graphs().status(&of).await.unwrap() else {
        panic!("the graph does not wait");
    };
    assert_eq!((kind.as_str(), data), ("question", json!({"question": "Which number?"})));
    let env = env.reopen(with_doubler(&doubler)).await;
    answer(&env, "1", json!(21)).await;
    assert_eq!(env.engine.graphs().status(&of).await.unwrap(), GraphStatus::Completed(json!(42)));
}

async fn an_attempt_with_a_lost_response_takes_effect_once(database: TestDatabase) {
    let doubler = Doubler { loses_responses: true, ..Doubler::default() };
    let env = TestEnv::with(database, with_doubler(&doubler)).await;
    let of = start(&env).await.unwrap();
    answer(&env, "1", json!(4)).await;
    assert_eq!(env.engine.graphs().status(&of).await.unwrap(), GraphStatus::Completed(json!(8)));
    assert_eq!(doubler.outcomes.lock().unwrap().len(), 2, "one start and one answer");
}

#[test]
fn the_kind_of_a_provider_must_be_free_and_valid() {
    for kind in ["native", "agent", "langgraph", "claude", "", "Acme", "a:b", "1a"] {
        let providers = Providers::new(ProviderSettings::default()).unwrap();
        assert!(providers.add(kind, Doubler::default()).is_err(), "{kind:?}");
    }
    let once = Providers::default().add("acme", Doubler::default()).unwrap();
    assert!(once.add("acme", Doubler::default()).is_err(), "a kind is added once");
}

async fn the_progress_of_an_attempt_with_a_lost_response_is_recorded_once(database: TestDatabase) {
    let doubler = Doubler { loses_responses: true, ..Doubler::default() };
    let env = TestEnv::with(database, with_doubler(&doubler)).await;
    let of = start(&env).await.unwrap();
    let events = env.engine.events().list(&of, 0).await.unwrap();
    let replies = events.iter().filter_map(|recorded| match &recorded.event {
        Event::ModelReplied { message, .. } => Some(message.text()),
        _ => None,
    });
    assert_eq!(replies.collect::<Vec<_>>(), ["Which number?"]);
    let log = format!("{events:?}");
    assert!(!log.contains("canary-of-acme"), "readers do not see the ids of the provider: {log}");
    let measures = env.engine.extension::<Providers>().unwrap().metrics().read();
    assert_eq!((measures[0].kind.as_str(), measures[0].retries), ("acme", 1));
    let outcomes = [("completed", 0), ("interrupted", 1), ("cancelled", 0), ("failed", 0)];
    assert_eq!(measures[0].turns, outcomes);
    assert_eq!(measures[0].first_texts.count(), 1);
}

async fn reasoning_is_recorded_only_if_the_provider_shows_it(database: TestDatabase) {
    let hidden = Doubler::default();
    let env = TestEnv::with(database, with_doubler(&hidden)).await;
    let of = start(&env).await.unwrap();
    let log = format!("{:?}", env.engine.events().list(&of, 0).await.unwrap());
    assert!(log.contains("Which number?") && !log.contains("is even"), "{log}");
    let shown = Doubler { reasoning: ReasoningVisibility::Shown, ..Doubler::default() };
    let env = env.reopen(with_doubler(&shown)).await;
    answer(&env, "1", json!(21)).await;
    let turn = GraphStart { turn_id: Some("t2".to_owned()), ..request() };
    let (handle, _) = env.engine.graphs().next_turn(turn).await.unwrap();
    env.drain().await;
    let events = env.engine.events().list(&handle.of, 0).await.unwrap();
    let thoughts = events.iter().filter_map(|recorded| match &recorded.event {
        Event::ReasoningChunk { chunk, .. } => Some(chunk.as_str()),
        _ => None,
    });
    assert_eq!(thoughts.collect::<String>(), "A doubled number is even.");
}

async fn a_tenant_that_the_provider_does_not_admit_has_no_graph(database: TestDatabase) {
    let tenants = Tenants::try_from(json!(["another"])).unwrap();
    let env = TestEnv::with(database, with_doubler(&Doubler { tenants, ..Doubler::default() })).await;
    assert!(matches!(start(&env).await, Err(GraphError::UnknownGraph(_))));
}

async fn a_deleted_conversation_deletes_the_state_at_the_provider(database: TestDatabase) {
    let doubler = Doubler::default();
    let env = TestEnv::with(database, with_doubler(&doubler)).await;
    let of = start(&env).await.unwrap();
    env.engine.graphs().close(&tenant(), "key", Principal::named("alice")).await.unwrap();
    env.engine.worker().tidy().await;
    assert_eq!(*doubler.forgotten.lock().unwrap(), [json!({"graph": "double", "run": of.run.as_str()})]);
}
