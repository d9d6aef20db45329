//! The handlers on dispatches in states that a server without outside effects never shows: queued, claimed, given up.

use std::sync::Arc;

use axum::Json;
use axum::body::Body;
use axum::extract::{FromRequest, State};
use axum::http::{Request, StatusCode};
use axum::response::IntoResponse;
use holdpoint_api::Nothing;
use holdpoint_api::mailbox::Dispatch;
use holdpoint_core::mailbox::RunDispatch;
use holdpoint_core::{Owner, RunId, RunRef, Start, TenantId, WorkflowId};
use holdpoint_engine::{EffectContext, Engine, Location, Mailbox, Node, Options, Outputs, Stop};
use serde_json::{Value, json};
use tokio::sync::watch;

use super::dispatches;
use crate::app::{App, Shared};
use crate::auth::{Caller, CanCancelRuns, CanCreateRuns, CanReadRuns, stored_key};
use crate::body::{InPath, OptionalBody};
use crate::error::ApiError;
use crate::idempotency::{ApiResponse, IdempotencyKey, Keyed};

/// Work for a worker; none runs here, so it stays queued until a test takes it.
struct Effect;

impl Node for Effect {
    async fn run(&self, _context: &mut EffectContext) -> Result<Outputs, Stop> {
        Ok(Outputs::new())
    }
}

struct House {
    app: App,
    caller: Caller,
    mailbox: Mailbox,
    of: RunRef,
    _folder: tempfile::TempDir,
}

impl House {
    /// An engine with one run whose first node waits for a worker.
    async fn with_queued_run() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let location = Location::Sqlite(folder.path().join("holdpoint.db"));
        let engine = Engine::open(Options::new(location).node("test.effect", Effect)).await.unwrap();
        let tenant = TenantId::parse("default").unwrap();
        let node = json!({"id": "work", "typeId": "test.effect", "name": "work", "position": {"x": 0, "y": 0}, "config": {}, "inputs": {}});
        let flow = json!({
            "id": "flow", "name": "flow", "version": "1", "nodes": [node], "edges": [], "triggers": [],
            "variables": [], "metadata": {}, "settings": {},
        });
        engine.register(&tenant, flow).await.unwrap();
        let owner = Owner { tenant: tenant.clone(), principal: "ann".to_owned() };
        let run = engine.start(&WorkflowId::parse("flow").unwrap(), Start::new(owner)).await.unwrap();
        let caller = caller(&tenant, &engine);
        let (_, stopping) = watch::channel(false);
        let mailbox = engine.mailbox(&tenant);
        let app = Arc::new(Shared::new(engine, stopping));
        Self { app, caller, mailbox, of: RunRef { tenant, run: run.id.clone() }, _folder: folder }
    }

    async fn only_dispatch(&self) -> RunDispatch {
        let thread = self.of.run.as_str();
        let mut found = self.mailbox.page(thread, None, None, 10).await.unwrap();
        assert_eq!(found.len(), 1, "{found:?}");
        found.remove(0).1
    }

    /// Takes the dispatch as a worker would, and returns the token.
    async fn claim(&self, id: &str) -> String {
        let claimed = self.mailbox.claim_dispatch(id, "node-1", 30_000, self.app.engine.now()).await;
        claimed.unwrap().expect("nobody else claims").claim_token.unwrap()
    }

    async fn bury(&self, id: &str) {
        let token = self.claim(id).await;
        self.mailbox.dead_letter(id, &token, "boom", self.app.engine.now()).await.unwrap();
    }

    async fn show(&self, id: &str) -> Value {
        let path = InPath(id.to_owned());
        value(
            dispatches::show(State(self.app.clone()), CanReadRuns(self.caller.clone()), path).await.unwrap(),
        )
    }

    async fn cancel(&self, id: &str) -> Result<Value, ApiError> {
        let (app, may) = (State(self.app.clone()), CanCancelRuns(self.caller.clone()));
        let done = dispatches::cancel(app, may, InPath(id.to_owned()), sent());
        done.await.map(|answer| parsed(&answer))
    }

    async fn requeue(&self, id: &str) -> Result<(StatusCode, Value), ApiError> {
        let (app, may) = (State(self.app.clone()), CanCreateRuns(self.caller.clone()));
        let done = dispatches::requeue(app, may, InPath(id.to_owned()), sent());
        done.await.map(|answer| (answer.status, parsed(&answer)))
    }

    async fn run_status(&self) -> &'static str {
        self.app.engine.run(&self.of).await.unwrap().status().as_str()
    }
}

fn caller(tenant: &TenantId, engine: &Engine) -> Caller {
    let mut key = stored_key("secret", tenant.clone(), engine.now()).unwrap();
    key.scopes.clear();
    Caller(Arc::new(key), None)
}

/// A request without a key.
fn sent() -> Keyed<OptionalBody<Nothing>> {
    Keyed(IdempotencyKey::default(), OptionalBody(Nothing {}))
}

/// A request with a key; paths are told apart by the router, which is not here.
async fn sent_once(key: &str) -> Keyed<OptionalBody<Nothing>> {
    let request =
        Request::post(format!("/{key}")).header("idempotency-key", key).body(Body::empty()).unwrap();
    Keyed::from_request(request, &()).await.unwrap()
}

fn parsed(answer: &ApiResponse) -> Value {
    serde_json::from_str(&answer.body).unwrap()
}

fn value(Json(shown): Json<Dispatch>) -> Value {
    serde_json::to_value(shown).unwrap()
}

/// Status, code and details of a refusal.
async fn refusal(error: ApiError) -> (u16, String, Value) {
    let response = error.into_response();
    let status = response.status().as_u16();
    let body = axum::body::to_bytes(response.into_body(), 10_000).await.unwrap();
    let body: Value = serde_json::from_slice(&body).unwrap();
    (status, body["error"].as_str().unwrap().to_owned(), body["details"].clone())
}

#[tokio::test]
async fn cancelling_what_is_queued_ends_its_run() {
    let house = House::with_queued_run().await;
    let id = house.only_dispatch().await.dispatch_id;
    let queued = house.show(&id).await;
    assert_eq!((&queued["status"], &queued["run"]["status"]), (&json!("queued"), &json!("running")));
    let cancelled = house.cancel(&id).await.unwrap();
    assert_eq!((&cancelled["status"], cancelled.get("run")), (&json!("cancelled"), None));
    assert_eq!(house.run_status().await, "cancelled");
    assert_eq!(house.show(&id).await["run"]["status"], "cancelled");
    let (status, code, _) = refusal(house.cancel(&id).await.unwrap_err()).await;
    assert_eq!((status, code.as_str()), (409, "dispatch_ended"));
}

#[tokio::test]
async fn a_cancel_and_a_requeue_under_a_key_are_done_once_and_answered_the_same() {
    let house = House::with_queued_run().await;
    let dead = house.only_dispatch().await.dispatch_id;
    house.bury(&dead).await;
    let requeue = async || {
        let (app, may) = (State(house.app.clone()), CanCreateRuns(house.caller.clone()));
        dispatches::requeue(app, may, InPath(dead.clone()), sent_once("r").await).await.unwrap()
    };
    let (first, again) = (requeue().await, requeue().await);
    assert_eq!((first.status, first.replayed, again.replayed), (StatusCode::CREATED, false, true));
    assert_eq!((again.status, &again.body), (first.status, &first.body));
    let fresh = parsed(&first)["dispatchId"].as_str().unwrap().to_owned();
    let cancel = async || {
        let (app, may) = (State(house.app.clone()), CanCancelRuns(house.caller.clone()));
        dispatches::cancel(app, may, InPath(fresh.clone()), sent_once("c").await).await.unwrap()
    };
    let (first, again) = (cancel().await, cancel().await);
    assert_eq!((first.status, first.replayed, again.replayed), (StatusCode::OK, false, true));
    assert_eq!((again.status, &again.body), (first.status, &first.body));
    assert_eq!(
        (parsed(&first)["status"].as_str(), house.run_status().await),
        (Some("cancelled"), "cancelled")
    );
}

#[tokio::test]
async fn what_is_in_work_is_not_cancelled_and_its_token_stays_hidden() {
    let house = House::with_queued_run().await;
    let id = house.only_dispatch().await.dispatch_id;
    let token = house.claim(&id).await;
    let shown = house.show(&id).await;
    assert_eq!((&shown["status"], &shown["claimedBy"]), (&json!("claimed"), &json!("node-1")));
    assert!(!shown.to_string().contains(&token), "{shown}");
    let (status, code, details) = refusal(house.cancel(&id).await.unwrap_err()).await;
    assert_eq!((status, code.as_str()), (409, "dispatch_claimed"));
    assert_eq!(details["runId"], house.of.run.as_str(), "whose cancelling helps");
    let (status, code, _) = refusal(house.requeue(&id).await.unwrap_err()).await;
    assert_eq!((status, code.as_str()), (409, "dispatch_not_dead"));
    assert_eq!(house.show(&id).await, shown, "a refusal changes nothing");
}

#[tokio::test]
async fn a_dead_letter_comes_back_as_a_new_dispatch_of_its_run() {
    let house = House::with_queued_run().await;
    let dead = house.only_dispatch().await.dispatch_id;
    house.bury(&dead).await;
    let shown = house.show(&dead).await;
    assert_eq!((&shown["status"], &shown["lastError"]), (&json!("dead_letter"), &json!("boom")));
    let (status, fresh) = house.requeue(&dead).await.unwrap();
    assert_eq!(status, StatusCode::CREATED);
    assert_eq!((&fresh["status"], &fresh["attemptCount"]), (&json!("queued"), &json!(0)));
    assert_eq!((&fresh["runId"], &fresh["threadId"]), (&shown["runId"], &shown["threadId"]));
    assert_ne!(fresh["dispatchId"], shown["dispatchId"]);
    assert_eq!(house.show(&dead).await["status"], "dead_letter", "the old one stays on record");
}

#[tokio::test]
async fn a_dead_letter_of_a_finished_run_stays_dead() {
    let house = House::with_queued_run().await;
    let dead = house.only_dispatch().await.dispatch_id;
    house.bury(&dead).await;
    house.app.engine.cancel(&house.of, None, house.caller.principal()).await.unwrap();
    let (status, code, _) = refusal(house.requeue(&dead).await.unwrap_err()).await;
    assert_eq!((status, code.as_str()), (409, "run_finished"));
}

#[tokio::test]
async fn a_dispatch_of_a_run_that_lives_elsewhere_is_shown_without_one() {
    let house = House::with_queued_run().await;
    let run = RunId::parse("elsewhere").unwrap();
    let tenant = &house.of.tenant;
    let dispatch = RunDispatch::queued(tenant, "d-elsewhere", "t", run.as_str(), house.app.engine.now());
    house.mailbox.enqueue(&dispatch).await.unwrap();
    let shown = house.show("d-elsewhere").await;
    assert_eq!((&shown["status"], &shown["run"]), (&json!("queued"), &Value::Null));
}
