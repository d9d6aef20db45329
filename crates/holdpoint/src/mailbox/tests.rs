//! Tests of the handlers with queued, claimed and dead-lettered dispatches. A server whose workflows have no effects
//! never shows these states.

use std::sync::Arc;

use axum::Json;
use axum::body::Body;
use axum::extract::{FromRequest, State};
use axum::http::{Request, StatusCode};
use axum::response::IntoResponse;
use holdpoint_api::EmptyBody;
use holdpoint_api::mailbox::Dispatch;
use holdpoint_core::mailbox::RunDispatch;
use holdpoint_core::{Owner, RunId, RunRef, StartRequest, TenantId, WorkflowId};
use holdpoint_engine::{EffectContext, Engine, Location, Mailbox, Node, Options, Outputs, Stop};
use serde_json::{Value, json};
use tokio::sync::watch;

use super::dispatches;
use crate::app::{App, AppState};
use crate::auth::{Caller, CanCancelRuns, CanCreateRuns, CanReadRuns, stored_key};
use crate::body::{InPath, OptionalBody};
use crate::error::ApiError;
use crate::idempotency::{ApiResponse, IdempotencyKey, KeyedBody};

/// A node that needs a worker. No worker runs here, so its dispatch stays queued until a test claims it.
struct Effect;

impl Node for Effect {
    async fn run(&self, _context: &mut EffectContext) -> Result<Outputs, Stop> {
        Ok(Outputs::new())
    }
}

struct MailboxFixture {
    app: App,
    caller: Caller,
    mailbox: Mailbox,
    of: RunRef,
    _folder: tempfile::TempDir,
}

impl MailboxFixture {
    /// Opens an engine with one run whose first node waits for a worker.
    async fn with_queued_run() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let location = Location::Sqlite(folder.path().join("holdpoint.db"));
        let engine =
            Engine::open(Options::new(location).manual_worker().node("test.effect", Effect)).await.unwrap();
        let tenant = TenantId::parse("default").unwrap();
        let node = json!({"id": "work", "typeId": "test.effect", "name": "work", "position": {"x": 0, "y": 0}, "config": {}, "inputs": {}});
        let flow = json!({
            "id": "flow", "name": "flow", "version": "1", "nodes": [node], "edges": [], "triggers": [],
            "variables": [], "metadata": {}, "settings": {},
        });
        engine.workflows().register(&tenant, flow).await.unwrap();
        let owner = Owner { tenant: tenant.clone(), principal: "ann".to_owned() };
        let run = engine
            .runs()
            .create(&WorkflowId::parse("flow").unwrap(), StartRequest::new(owner))
            .await
            .unwrap();
        let caller = caller(&tenant, &engine);
        let (_, stopping) = watch::channel(false);
        let mailbox = engine.mailbox(&tenant);
        let app = Arc::new(AppState::new(engine, stopping));
        Self { app, caller, mailbox, of: RunRef { tenant, run: run.id.clone() }, _folder: folder }
    }

    async fn only_dispatch(&self) -> RunDispatch {
        let thread = self.of.run.as_str();
        let mut found = self.mailbox.page(thread, None, None, 10).await.unwrap();
        assert_eq!(found.len(), 1, "{found:?}");
        found.remove(0).1
    }

    /// Claims the dispatch as a worker would, and returns the fencing token.
    async fn claim(&self, id: &str) -> String {
        let claimed = self.mailbox.claims().claim_dispatch(id, "node-1", 30_000, self.app.engine.now()).await;
        claimed.unwrap().expect("there is no other claim").claim_token.unwrap()
    }

    async fn dead_letter(&self, id: &str) {
        let token = self.claim(id).await;
        self.mailbox.claims().dead_letter(id, &token, "boom", self.app.engine.now()).await.unwrap();
    }

    async fn show(&self, id: &str) -> Value {
        let path = InPath(id.to_owned());
        value(
            dispatches::show(State(self.app.clone()), CanReadRuns(self.caller.clone()), path).await.unwrap(),
        )
    }

    async fn cancel(&self, id: &str) -> Result<Value, ApiError> {
        let (app, may) = (State(self.app.clone()), CanCancelRuns(self.caller.clone()));
        let done = dispatches::cancel(app, may, InPath(id.to_owned()), request());
        done.await.map(|response| parsed(&response))
    }

    async fn requeue(&self, id: &str) -> Result<(StatusCode, Value), ApiError> {
        let (app, may) = (State(self.app.clone()), CanCreateRuns(self.caller.clone()));
        let done = dispatches::requeue(app, may, InPath(id.to_owned()), request());
        done.await.map(|response| (response.status, parsed(&response)))
    }

    async fn run_status(&self) -> &'static str {
        self.app.engine.runs().get(&self.of).await.unwrap().status().as_str()
    }
}

fn caller(tenant: &TenantId, engine: &Engine) -> Caller {
    let mut key = stored_key("secret", tenant.clone(), engine.now()).unwrap();
    key.scopes.clear();
    Caller(Arc::new(key), None)
}

/// Returns a request without a key.
fn request() -> KeyedBody<OptionalBody<EmptyBody>> {
    KeyedBody(IdempotencyKey::default(), OptionalBody(EmptyBody {}))
}

/// Returns a request with a key. Each key has its own path, because no router distinguishes the operations.
async fn request_with_key(key: &str) -> KeyedBody<OptionalBody<EmptyBody>> {
    let request =
        Request::post(format!("/{key}")).header("idempotency-key", key).body(Body::empty()).unwrap();
    KeyedBody::from_request(request, &()).await.unwrap()
}

fn parsed(response: &ApiResponse) -> Value {
    serde_json::from_str(&response.body).unwrap()
}

fn value(Json(shown): Json<Dispatch>) -> Value {
    serde_json::to_value(shown).unwrap()
}

/// Returns the status, the code and the details of a refusal.
async fn refusal(error: ApiError) -> (u16, String, Value) {
    let response = error.into_response();
    let status = response.status().as_u16();
    let body = axum::body::to_bytes(response.into_body(), 10_000).await.unwrap();
    let body: Value = serde_json::from_slice(&body).unwrap();
    (status, body["error"].as_str().unwrap().to_owned(), body["details"].clone())
}

#[tokio::test]
async fn cancelling_a_queued_dispatch_ends_its_run() {
    let fixture = MailboxFixture::with_queued_run().await;
    let id = fixture.only_dispatch().await.dispatch_id;
    let queued = fixture.show(&id).await;
    assert_eq!((&queued["status"], &queued["run"]["status"]), (&json!("queued"), &json!("running")));
    let cancelled = fixture.cancel(&id).await.unwrap();
    assert_eq!((&cancelled["status"], cancelled.get("run")), (&json!("cancelled"), None));
    assert_eq!(fixture.run_status().await, "cancelled");
    assert_eq!(fixture.show(&id).await["run"]["status"], "cancelled");
    let (status, code, _) = refusal(fixture.cancel(&id).await.unwrap_err()).await;
    assert_eq!((status, code.as_str()), (409, "dispatch_ended"));
}

#[tokio::test]
async fn cancel_and_requeue_with_a_key_are_executed_once_with_the_same_response() {
    let fixture = MailboxFixture::with_queued_run().await;
    let dead = fixture.only_dispatch().await.dispatch_id;
    fixture.dead_letter(&dead).await;
    let requeue = async || {
        let (app, may) = (State(fixture.app.clone()), CanCreateRuns(fixture.caller.clone()));
        dispatches::requeue(app, may, InPath(dead.clone()), request_with_key("r").await).await.unwrap()
    };
    let (first, again) = (requeue().await, requeue().await);
    assert_eq!((first.status, first.replayed, again.replayed), (StatusCode::CREATED, false, true));
    assert_eq!((again.status, &again.body), (first.status, &first.body));
    let fresh = parsed(&first)["dispatchId"].as_str().unwrap().to_owned();
    let cancel = async || {
        let (app, may) = (State(fixture.app.clone()), CanCancelRuns(fixture.caller.clone()));
        dispatches::cancel(app, may, InPath(fresh.clone()), request_with_key("c").await).await.unwrap()
    };
    let (first, again) = (cancel().await, cancel().await);
    assert_eq!((first.status, first.replayed, again.replayed), (StatusCode::OK, false, true));
    assert_eq!((again.status, &again.body), (first.status, &first.body));
    assert_eq!(
        (parsed(&first)["status"].as_str(), fixture.run_status().await),
        (Some("cancelled"), "cancelled")
    );
}

#[tokio::test]
async fn a_claimed_dispatch_is_not_cancelled_and_its_token_stays_hidden() {
    let fixture = MailboxFixture::with_queued_run().await;
    let id = fixture.only_dispatch().await.dispatch_id;
    let token = fixture.claim(&id).await;
    let shown = fixture.show(&id).await;
    assert_eq!((&shown["status"], &shown["claimedBy"]), (&json!("claimed"), &json!("node-1")));
    assert!(!shown.to_string().contains(&token), "{shown}");
    let (status, code, details) = refusal(fixture.cancel(&id).await.unwrap_err()).await;
    assert_eq!((status, code.as_str()), (409, "dispatch_claimed"));
    assert_eq!(details["runId"], fixture.of.run.as_str(), "the run to cancel instead");
    let (status, code, _) = refusal(fixture.requeue(&id).await.unwrap_err()).await;
    assert_eq!((status, code.as_str()), (409, "dispatch_not_dead"));
    assert_eq!(fixture.show(&id).await, shown, "a refusal does not change the dispatch");
}

#[tokio::test]
async fn a_requeued_dead_letter_is_a_new_dispatch_of_its_run() {
    let fixture = MailboxFixture::with_queued_run().await;
    let dead = fixture.only_dispatch().await.dispatch_id;
    fixture.dead_letter(&dead).await;
    let shown = fixture.show(&dead).await;
    assert_eq!((&shown["status"], &shown["lastError"]), (&json!("dead_letter"), &json!("boom")));
    let (status, fresh) = fixture.requeue(&dead).await.unwrap();
    assert_eq!(status, StatusCode::CREATED);
    assert_eq!((&fresh["status"], &fresh["attemptCount"]), (&json!("queued"), &json!(0)));
    assert_eq!((&fresh["runId"], &fresh["threadId"]), (&shown["runId"], &shown["threadId"]));
    assert_ne!(fresh["dispatchId"], shown["dispatchId"]);
    assert_eq!(fixture.show(&dead).await["status"], "dead_letter", "the dead letter stays");
}

#[tokio::test]
async fn a_dead_letter_of_a_finished_run_is_not_requeued() {
    let fixture = MailboxFixture::with_queued_run().await;
    let dead = fixture.only_dispatch().await.dispatch_id;
    fixture.dead_letter(&dead).await;
    fixture.app.engine.runs().cancel(&fixture.of, None, fixture.caller.principal()).await.unwrap();
    let (status, code, _) = refusal(fixture.requeue(&dead).await.unwrap_err()).await;
    assert_eq!((status, code.as_str()), (409, "run_finished"));
}

#[tokio::test]
async fn a_dispatch_of_a_run_outside_the_database_is_shown_without_a_run() {
    let fixture = MailboxFixture::with_queued_run().await;
    let run = RunId::parse("elsewhere").unwrap();
    let tenant = &fixture.of.tenant;
    let dispatch = RunDispatch::queued(tenant, "d-elsewhere", "t", run.as_str(), fixture.app.engine.now());
    fixture.mailbox.enqueue(&dispatch).await.unwrap();
    let shown = fixture.show("d-elsewhere").await;
    assert_eq!((&shown["status"], &shown["run"]), (&json!("queued"), &Value::Null));
}
