//! Threads with an open run, over HTTP and without a model: the tests execute the commands of the agent themselves.

use std::sync::Arc;

use holdpoint_agents::EngineAgents;
use holdpoint_core::agent::{
    AgentAction, ApprovalSettings, Behaviour, CallPolicy, CallRequest, Message, ReplyRecord, ResumePolicy,
    Role, Ticket, Usage,
};
use holdpoint_core::{Command, Effect, NodeId, NodeOutcome, RunId, RunRef, TenantId};
use holdpoint_engine::{Engine, Location, Options};
use serde_json::{Value, json};
use tokio::sync::watch;

use crate::app::{AppState, router};
use crate::auth::{KeyKind, fresh_secret, stored_key};

/// A server in this process, without a worker: runs only change by the commands of a test.
struct TestServer {
    engine: Engine,
    tenant: TenantId,
    url: String,
    key: String,
    _folder: tempfile::TempDir,
}

impl TestServer {
    async fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let location = Location::Sqlite(folder.path().join("holdpoint.db"));
        let engine = Engine::open(crate::extensions::add_default(Options::new(location).manual_worker()))
            .await
            .unwrap();
        let tenant = TenantId::parse("default").unwrap();
        let key = fresh_secret(KeyKind::Live).unwrap();
        engine.keys().add(&stored_key(&key, tenant.clone(), engine.now()).unwrap(), None).await.unwrap();
        let definition = |id: &str| json!({"agentId": id, "model": {"use": "main"}});
        for id in ["mailer", "clerk"] {
            engine.agents().put(&tenant, definition(id), None).await.unwrap();
        }
        let (_, stopping) = watch::channel(false);
        let router = router(Arc::new(AppState::new(engine.clone(), stopping)), None);
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let service = axum::ServiceExt::<axum::extract::Request>::into_make_service_with_connect_info::<
            std::net::SocketAddr,
        >(router);
        tokio::spawn(axum::serve(listener, service).into_future());
        Self { engine, tenant, url, key, _folder: folder }
    }

    async fn send(&self, method: &str, path: &str, body: Value, key: Option<&str>) -> (u16, Value) {
        let mut request = ureq::http::Request::builder()
            .method(method)
            .uri(format!("{}{path}", self.url))
            .header("authorization", format!("Bearer {}", self.key));
        if let Some(key) = key {
            request = request.header("idempotency-key", key);
        }
        let request = request.body(if body.is_null() { String::new() } else { body.to_string() }).unwrap();
        let response = tokio::task::spawn_blocking(move || {
            let agent = ureq::Agent::config_builder().http_status_as_error(false).build().new_agent();
            let mut answer = agent.run(request).unwrap();
            let text = answer.body_mut().read_to_string().unwrap();
            (answer.status().as_u16(), serde_json::from_str(&text).unwrap_or_default())
        });
        response.await.unwrap()
    }

    async fn get(&self, path: &str) -> (u16, Value) {
        self.send("GET", path, Value::Null, None).await
    }

    async fn post(&self, path: &str, body: Value) -> (u16, Value) {
        self.send("POST", path, body, None).await
    }

    async fn start(&self, thread: &str) -> RunRef {
        let (status, sent) =
            self.post("/v1/agents/mailer/runs", json!({"threadId": thread, "message": "Write to Bob"})).await;
        assert_eq!(status, 202, "{sent}");
        let run = RunId::parse(sent["runId"].as_str().unwrap()).unwrap();
        RunRef { tenant: self.tenant.clone(), run }
    }

    async fn execute(&self, of: &RunRef, command: Command) {
        self.engine.runs().execute(of, &command).await.unwrap();
    }

    /// Records two tool calls that wait for a decision.
    async fn suspend_two(&self, of: &RunRef) {
        let node = NodeId::parse("agent").unwrap();
        let mut message = Message::new("reply-1", Role::Assistant, "hm");
        let call = |id: &str| CallRequest {
            id: id.to_owned(),
            name: "send".to_owned(),
            arguments: json!({"to": "bob"}),
        };
        message.calls = vec![call("c1"), call("c2")];
        let gate = CallPolicy { behaviour: Behaviour::Ask, why: None, idempotent: false, client: false };
        let reply = ReplyRecord {
            message,
            policies: vec![gate.clone(), gate],
            usage: Usage { input_tokens: 3, output_tokens: 2, ..Usage::default() },
            model: "m".to_owned(),
            seen: 1,
            took_ms: None,
        };
        self.execute(of, Command::Begin { node: node.clone(), effect: Effect::Outside }).await;
        self.execute(
            of,
            Command::Act { node: node.clone(), actions: vec![AgentAction::Reply(Box::new(reply))] },
        )
        .await;
        let run = self.engine.runs().get(of).await.unwrap();
        let agent = run.node_state(&node).and_then(|state| state.agent.clone()).unwrap();
        let suspend = |id: &str| AgentAction::Suspend {
            call: id.to_owned(),
            ticket: Box::new(Ticket::permission(
                format!("perm:{id}"),
                agent.call(id).unwrap(),
                &ApprovalSettings::default(),
            )),
        };
        let acts = vec![suspend("c1"), suspend("c2")];
        self.execute(of, Command::Act { node: node.clone(), actions: acts }).await;
        let outcome = NodeOutcome::Suspended { policy: ResumePolicy::AsDecided };
        self.execute(of, Command::Finish { node, outcome }).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_thread_has_one_open_run_at_a_time() {
    let server = TestServer::new().await;
    let of = server.start("t1").await;
    let (status, busy) =
        server.post("/v1/agents/mailer/runs", json!({"threadId": "t1", "message": "x"})).await;
    assert_eq!((status, &busy["error"]), (409, &json!("thread_busy")));
    assert_eq!(busy["details"]["activeRunId"], json!(of.run));
    let (status, active) = server.get("/v1/threads/t1/runs/active").await;
    assert_eq!((status, &active["runId"]), (200, &json!(of.run)), "{active}");
    let (status, sent) = server.post("/v1/threads/t1/messages", json!({"message": "And to Ann"})).await;
    assert_eq!((status, &sent["runId"]), (202, &json!(of.run)), "the open run gets the message: {sent}");
    let (_, listed) = server.get("/v1/threads/t1/messages").await;
    assert_eq!(listed["messages"].as_array().unwrap().len(), 2, "{listed}");
    let clerk = json!({"agentId": "clerk", "message": "x"});
    let (status, other) = server.post("/v1/threads/t1/messages", clerk.clone()).await;
    assert_eq!((status, &other["error"]), (409, &json!("thread_busy")), "the message is for another agent");
    let mut anew = clerk;
    anew["mode"] = json!("interrupt_then_queue");
    let (status, begun) = server.post("/v1/threads/t1/messages", anew).await;
    assert_eq!(status, 202, "{begun}");
    assert_ne!(begun["runId"], json!(of.run));
    let (_, runs) = server.get("/v1/threads/t1/runs").await;
    let shown: Vec<_> = runs["runs"].as_array().unwrap().iter().map(|run| run["status"].clone()).collect();
    assert_eq!(shown, [begun["status"].clone(), json!("cancelled")], "the newest first");
    let (status, ended) = server.post("/v1/threads/t1/cancel", json!({"reason": "enough"})).await;
    assert_eq!((status, &ended["status"]), (200, &json!("cancelled")));
    assert_eq!(server.get("/v1/threads/t1/runs/active").await.0, 404);
    assert_eq!(server.get("/v1/threads/t1/runs/latest").await.1["status"], "cancelled");
    let (status, gone) = server.post(&format!("/v1/runs/{}/inputs", of.run), json!({"message": "x"})).await;
    assert_eq!((status, &gone["error"]), (409, &json!("run_finished")), "{gone}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_sent_twice_with_one_key_is_stored_once() {
    let server = TestServer::new().await;
    let of = server.start("t1").await;
    for mode in ["queue", "interrupt_then_queue"] {
        let body = json!({"message": "once", "mode": mode});
        let first = server.send("POST", "/v1/threads/t1/messages", body.clone(), Some(mode)).await;
        let second = server.send("POST", "/v1/threads/t1/messages", body, Some(mode)).await;
        assert_eq!(first, second);
        assert_eq!(first.1["runId"] == json!(of.run), mode == "queue", "{first:?}");
    }
    let (_, listed) = server.get("/v1/threads/t1/messages").await;
    let messages = listed["messages"].as_array().unwrap().clone();
    assert_eq!(messages.iter().filter(|one| one["content"] == "once").count(), 2, "{messages:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn suspended_calls_are_shown_and_decided_once() {
    let server = TestServer::new().await;
    let of = server.start("t1").await;
    let path = |what: &str| format!("/v1/runs/{}/{what}", of.run);
    assert_eq!(server.get(&path("waiting")).await.0, 404, "it does not wait yet");
    server.suspend_two(&of).await;
    let (_, waiting) = server.get(&path("waiting")).await;
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
    let (_, active) = server.get("/v1/threads/t1/runs/active").await;
    assert_eq!((&active["waiting"], &active["steps"]), (&waiting, &json!(1)));

    let (_, asked) = server.get(&path("interrupts")).await;
    let digest = &asked["interrupts"][0]["digest"];
    assert!(digest.is_string(), "{asked}");
    let unseen = json!({"toolCallId": "c1", "action": "resume", "digest": asked["interrupts"][1]["digest"]});
    let (status, refused) = server.post(&path("decision"), unseen).await;
    assert_eq!((status, &refused["error"]), (409, &json!("payload_mismatch")), "{refused}");

    let yes = json!({"toolCallId": "c1", "action": "resume", "decisionId": "d1", "digest": digest});
    let (status, decided) = server.post(&path("decision"), yes.clone()).await;
    assert_eq!(status, 202, "{decided}");
    assert_eq!((&decided["decisionId"], &decided["outcome"]), (&json!("d1"), &json!("resolved")));
    assert_eq!((&decided["ticketId"], &decided["toolCallId"]), (&json!("perm_c1"), &json!("c1")));
    let (status, again) = server.post("/v1/threads/t1/decision", yes).await;
    assert_eq!(
        (status, &again["decisionId"]),
        (202, &json!("d1")),
        "a repeated decision gets the same response: {again}"
    );
    let (status, other) = server
        .post(&path("decision"), json!({"ticketId": "perm_c1", "action": "cancel", "decisionId": "d1"}))
        .await;
    assert_eq!((status, &other["error"]), (409, &json!("decision_conflict")), "{other}");
    let (status, late) =
        server.post(&path("decision"), json!({"ticketId": "perm_c1", "action": "cancel"})).await;
    assert_eq!((status, &late["error"]), (409, &json!("interrupt_already_resolved")), "{late}");
    assert_eq!(late["details"]["decisionId"], "d1", "the first decision is named: {late}");
    assert!(late["details"]["decidedBy"].is_string(), "{late}");

    let no = json!({"toolCallId": "c2", "action": "cancel", "reason": "not now"});
    let (status, keyed) = server.send("POST", &path("decision"), no, Some("key-1")).await;
    assert_eq!((status, &keyed["decisionId"]), (202, &json!("key-1")), "{keyed}");
    for (body, field) in [
        (json!({"action": "resume"}), "toolCallId"),
        (json!({"action": "resume", "toolCallId": "c1", "ticketId": "perm_c1"}), "ticketId"),
        (json!({"action": "resume", "toolCallId": "c1", "decisionId": ""}), "decisionId"),
    ] {
        let (status, refused) = server.post(&path("decision"), body).await;
        assert_eq!((status, &refused["details"]["field"]), (400, &json!(field)));
    }
    let (status, _) = server.post(&path("decision"), json!({"action": "resume", "toolCallId": "c9"})).await;
    assert_eq!(status, 404);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_interruption_cancels_a_waiting_run_unless_keep_waiting_is_set() {
    let server = TestServer::new().await;
    let of = server.start("t1").await;
    server.suspend_two(&of).await;
    let (_, kept) = server.post("/v1/threads/t1/interrupt", json!({"keepWaiting": true})).await;
    assert_eq!(kept.get("cancelledRunId"), None, "{kept}");
    let (_, ended) = server.post("/v1/threads/t1/interrupt", json!({})).await;
    assert_eq!((&ended["cancelledRunId"], &ended["nothingToInterrupt"]), (&json!(of.run), &json!(false)));
    assert!(ended["epoch"].as_u64() > kept["epoch"].as_u64(), "{ended}");
    let decision = json!({"toolCallId": "c1", "action": "resume"});
    let (status, done) = server.post(&format!("/v1/runs/{}/decision", of.run), decision).await;
    assert_eq!((status, &done["error"]), (409, &json!("run_finished")), "{done}");
}
