//! Threads with a run that stays open, over HTTP and without a model: what an agent would do is written down by hand.

use std::sync::Arc;

use holdpoint_core::agent::{
    Act, Asking, Behaviour, CallRequest, Gate, Message, Reply, ResumePolicy, Role, Ticket, Usage,
};
use holdpoint_core::{Command, Effect, NodeId, Outcome, RunId, RunRef, TenantId};
use holdpoint_engine::{Engine, Location, Options};
use serde_json::{Value, json};
use tokio::sync::watch;

use crate::app::{Shared, router};
use crate::auth::{fresh_secret, stored_key};

/// A server in this process. No worker runs, so that runs stay where they are put.
struct House {
    engine: Engine,
    tenant: TenantId,
    url: String,
    key: String,
    _folder: tempfile::TempDir,
}

impl House {
    async fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let location = Location::Sqlite(folder.path().join("holdpoint.db"));
        let engine = Engine::open(Options::new(location)).await.unwrap();
        let tenant = TenantId::parse("default").unwrap();
        let key = fresh_secret(false).unwrap();
        engine.add_key(&stored_key(&key, tenant.clone(), engine.now()).unwrap(), None).await.unwrap();
        let definition = |id: &str| json!({"agentId": id, "model": {"use": "main"}});
        for id in ["mailer", "clerk"] {
            engine.put_agent(&tenant, definition(id), None).await.unwrap();
        }
        let (_, stopping) = watch::channel(false);
        let router = router(Arc::new(Shared::new(engine.clone(), stopping)), None);
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let service = router.into_make_service_with_connect_info::<std::net::SocketAddr>();
        tokio::spawn(axum::serve(listener, service).into_future());
        Self { engine, tenant, url, key, _folder: folder }
    }

    async fn ask(&self, method: &str, path: &str, body: Value, key: Option<&str>) -> (u16, Value) {
        let mut request = ureq::http::Request::builder()
            .method(method)
            .uri(format!("{}{path}", self.url))
            .header("authorization", format!("Bearer {}", self.key));
        if let Some(key) = key {
            request = request.header("idempotency-key", key);
        }
        let request = request.body(if body.is_null() { String::new() } else { body.to_string() }).unwrap();
        let asking = tokio::task::spawn_blocking(move || {
            let agent = ureq::Agent::config_builder().http_status_as_error(false).build().new_agent();
            let mut answer = agent.run(request).unwrap();
            let text = answer.body_mut().read_to_string().unwrap();
            (answer.status().as_u16(), serde_json::from_str(&text).unwrap_or_default())
        });
        asking.await.unwrap()
    }

    async fn get(&self, path: &str) -> (u16, Value) {
        self.ask("GET", path, Value::Null, None).await
    }

    async fn post(&self, path: &str, body: Value) -> (u16, Value) {
        self.ask("POST", path, body, None).await
    }

    async fn start(&self, thread: &str) -> RunRef {
        let (status, told) =
            self.post("/v1/agents/mailer/runs", json!({"threadId": thread, "message": "Write to Bob"})).await;
        assert_eq!(status, 202, "{told}");
        let run = RunId::parse(told["runId"].as_str().unwrap()).unwrap();
        RunRef { tenant: self.tenant.clone(), run }
    }

    async fn execute(&self, of: &RunRef, command: Command) {
        self.engine.execute(of, &command).await.unwrap();
    }

    /// The model wants two calls, and both wait for somebody.
    async fn suspend_two(&self, of: &RunRef) {
        let node = NodeId::parse("agent").unwrap();
        let mut message = Message::new("reply-1", Role::Assistant, "hm");
        let call = |id: &str| CallRequest {
            id: id.to_owned(),
            name: "send".to_owned(),
            arguments: json!({"to": "bob"}),
        };
        message.calls = vec![call("c1"), call("c2")];
        let gate = Gate { behaviour: Behaviour::Ask, why: None, idempotent: false, client: false };
        let reply = Reply {
            message,
            gates: vec![gate.clone(), gate],
            usage: Usage { input_tokens: 3, output_tokens: 2 },
            model: "m".to_owned(),
            seen: 1,
            took_ms: None,
        };
        self.execute(of, Command::Begin { node: node.clone(), effect: Effect::Outside }).await;
        self.execute(of, Command::Act { node: node.clone(), acts: vec![Act::Reply(Box::new(reply))] }).await;
        let run = self.engine.run(of).await.unwrap();
        let agent = run.node_state(&node).and_then(|state| state.agent.clone()).unwrap();
        let suspend = |id: &str| Act::Suspend {
            call: id.to_owned(),
            ticket: Box::new(Ticket::permission(
                format!("perm:{id}"),
                agent.call(id).unwrap(),
                &Asking::default(),
            )),
        };
        let acts = vec![suspend("c1"), suspend("c2")];
        self.execute(of, Command::Act { node: node.clone(), acts }).await;
        let outcome = Outcome::Suspended { policy: ResumePolicy::AsDecided };
        self.execute(of, Command::Finish { node, outcome }).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn one_run_at_a_time_is_open_in_a_thread() {
    let house = House::new().await;
    let of = house.start("t1").await;
    let (status, busy) =
        house.post("/v1/agents/mailer/runs", json!({"threadId": "t1", "message": "x"})).await;
    assert_eq!((status, &busy["error"]), (409, &json!("thread_busy")));
    assert_eq!(busy["details"]["activeRunId"], json!(of.run));
    let (status, active) = house.get("/v1/threads/t1/runs/active").await;
    assert_eq!((status, &active["runId"]), (200, &json!(of.run)), "{active}");
    let (status, told) = house.post("/v1/threads/t1/messages", json!({"message": "And to Ann"})).await;
    assert_eq!((status, &told["runId"]), (202, &json!(of.run)), "the open run is told: {told}");
    let (_, said) = house.get("/v1/threads/t1/messages").await;
    assert_eq!(said["messages"].as_array().unwrap().len(), 2, "{said}");
    let clerk = json!({"agentId": "clerk", "message": "x"});
    let (status, other) = house.post("/v1/threads/t1/messages", clerk.clone()).await;
    assert_eq!((status, &other["error"]), (409, &json!("thread_busy")), "it was meant for another agent");
    let mut anew = clerk;
    anew["mode"] = json!("interrupt_then_queue");
    let (status, begun) = house.post("/v1/threads/t1/messages", anew).await;
    assert_eq!(status, 202, "{begun}");
    assert_ne!(begun["runId"], json!(of.run));
    let (_, runs) = house.get("/v1/threads/t1/runs").await;
    let shown: Vec<_> = runs["runs"].as_array().unwrap().iter().map(|run| run["status"].clone()).collect();
    assert_eq!(shown, [begun["status"].clone(), json!("cancelled")], "the newest first");
    let (status, ended) = house.post("/v1/threads/t1/cancel", json!({"reason": "enough"})).await;
    assert_eq!((status, &ended["status"]), (200, &json!("cancelled")));
    assert_eq!(house.get("/v1/threads/t1/runs/active").await.0, 404);
    assert_eq!(house.get("/v1/threads/t1/runs/latest").await.1["status"], "cancelled");
    let (status, gone) = house.post(&format!("/v1/runs/{}/inputs", of.run), json!({"message": "x"})).await;
    assert_eq!((status, &gone["error"]), (409, &json!("run_finished")), "{gone}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_sent_twice_under_one_key_is_said_once() {
    let house = House::new().await;
    let of = house.start("t1").await;
    for mode in ["queue", "interrupt_then_queue"] {
        let body = json!({"message": "once", "mode": mode});
        let first = house.ask("POST", "/v1/threads/t1/messages", body.clone(), Some(mode)).await;
        let second = house.ask("POST", "/v1/threads/t1/messages", body, Some(mode)).await;
        assert_eq!(first, second);
        assert_eq!(first.1["runId"] == json!(of.run), mode == "queue", "{first:?}");
    }
    let (_, said) = house.get("/v1/threads/t1/messages").await;
    let said = said["messages"].as_array().unwrap().clone();
    assert_eq!(said.iter().filter(|one| one["content"] == "once").count(), 2, "{said:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_that_wait_are_shown_and_decided_once() {
    let house = House::new().await;
    let of = house.start("t1").await;
    let path = |what: &str| format!("/v1/runs/{}/{what}", of.run);
    assert_eq!(house.get(&path("waiting")).await.0, 404, "it does not wait yet");
    house.suspend_two(&of).await;
    let (_, waiting) = house.get(&path("waiting")).await;
    assert_eq!(
        (&waiting["reason"], &waiting["ticketIds"]),
        (&json!("tool_permission"), &json!(["perm_c1", "perm_c2"]))
    );
    let ticket = &waiting["tickets"][0];
    assert_eq!((&ticket["toolCallId"], &ticket["toolName"]), (&json!("c1"), &json!("send")));
    assert_eq!((&ticket["arguments"], &ticket["status"]), (&json!({"to": "bob"}), &json!("suspended")));
    assert_eq!(
        (&ticket["resumeMode"], &ticket["reason"]),
        (&json!("replay_tool_call"), &json!("tool:PermissionConfirm"))
    );
    let (_, active) = house.get("/v1/threads/t1/runs/active").await;
    assert_eq!((&active["waiting"], &active["steps"]), (&waiting, &json!(1)));

    let (_, asked) = house.get(&path("interrupts")).await;
    let digest = &asked["interrupts"][0]["digest"];
    assert!(digest.is_string(), "{asked}");
    let unseen = json!({"toolCallId": "c1", "action": "resume", "digest": asked["interrupts"][1]["digest"]});
    let (status, refused) = house.post(&path("decision"), unseen).await;
    assert_eq!((status, &refused["error"]), (409, &json!("payload_mismatch")), "{refused}");

    let yes = json!({"toolCallId": "c1", "action": "resume", "decisionId": "d1", "digest": digest});
    let (status, decided) = house.post(&path("decision"), yes.clone()).await;
    assert_eq!(status, 202, "{decided}");
    assert_eq!((&decided["decisionId"], &decided["outcome"]), (&json!("d1"), &json!("resolved")));
    assert_eq!((&decided["ticketId"], &decided["toolCallId"]), (&json!("perm_c1"), &json!("c1")));
    let (status, again) = house.post("/v1/threads/t1/decision", yes).await;
    assert_eq!((status, &again["decisionId"]), (202, &json!("d1")), "the same decision is the same: {again}");
    let (status, other) = house
        .post(&path("decision"), json!({"ticketId": "perm_c1", "action": "cancel", "decisionId": "d1"}))
        .await;
    assert_eq!((status, &other["error"]), (409, &json!("decision_conflict")), "{other}");
    let (status, late) =
        house.post(&path("decision"), json!({"ticketId": "perm_c1", "action": "cancel"})).await;
    assert_eq!((status, &late["error"]), (409, &json!("interrupt_already_resolved")), "{late}");
    assert_eq!(late["details"]["decisionId"], "d1", "who came first is named: {late}");
    assert!(late["details"]["decidedBy"].is_string(), "{late}");

    let no = json!({"toolCallId": "c2", "action": "cancel", "reason": "not now"});
    let (status, keyed) = house.ask("POST", &path("decision"), no, Some("key-1")).await;
    assert_eq!((status, &keyed["decisionId"]), (202, &json!("key-1")), "{keyed}");
    for (body, field) in [
        (json!({"action": "resume"}), "toolCallId"),
        (json!({"action": "resume", "toolCallId": "c1", "ticketId": "perm_c1"}), "ticketId"),
        (json!({"action": "resume", "toolCallId": "c1", "decisionId": ""}), "decisionId"),
    ] {
        let (status, refused) = house.post(&path("decision"), body).await;
        assert_eq!((status, &refused["details"]["field"]), (400, &json!(field)));
    }
    let (status, _) = house.post(&path("decision"), json!({"action": "resume", "toolCallId": "c9"})).await;
    assert_eq!(status, 404);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_interruption_keeps_a_run_that_waits_only_if_told_to() {
    let house = House::new().await;
    let of = house.start("t1").await;
    house.suspend_two(&of).await;
    let (_, kept) = house.post("/v1/threads/t1/interrupt", json!({"keepWaiting": true})).await;
    assert_eq!(kept.get("cancelledRunId"), None, "{kept}");
    let (_, ended) = house.post("/v1/threads/t1/interrupt", json!({})).await;
    assert_eq!((&ended["cancelledRunId"], &ended["nothingToInterrupt"]), (&json!(of.run), &json!(false)));
    assert!(ended["epoch"].as_u64() > kept["epoch"].as_u64(), "{ended}");
    let decision = json!({"toolCallId": "c1", "action": "resume"});
    let (status, done) = house.post(&format!("/v1/runs/{}/decision", of.run), decision).await;
    assert_eq!((status, &done["error"]), (409, &json!("run_finished")), "{done}");
}
