//! Tests over HTTP without a worker: commands replace the actions of the agent, and the clock is manual.

use std::sync::Arc;
use std::time::Duration;

use holdpoint_agents::{AgentInput, EngineAgents};
use holdpoint_core::agent::{
    AgentAction, ApprovalSettings, Behaviour, CLIENT_TOOL, CallPolicy, CallRequest, Message, ReplyRecord,
    ResumePolicy, Role, SuspendTicket, Suspension, Ticket, ToolCall, ToolCallResumeMode, Usage,
};
use holdpoint_core::{
    Command, Effect, InterruptId, NodeId, NodeOutcome, Owner, Principal, Resolution, RunRef, TenantId,
};
use holdpoint_engine::{Clock, Engine, Location, Options};
use serde_json::{Value, json};
use tokio::sync::watch;

use super::verifier::verify;
use crate::app::{AppState, router};
use crate::auth::{KeyKind, fresh_secret, stored_key};

/// A server in the process of the test.
struct TestServer {
    engine: Engine,
    tenant: TenantId,
    url: String,
    key: String,
    _folder: tempfile::TempDir,
    /// Kept, because streams end when it is dropped.
    _stop: watch::Sender<bool>,
}

impl TestServer {
    async fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let location = Location::Sqlite(folder.path().join("holdpoint.db"));
        let options = crate::extensions::add_default(Options::new(location).manual_worker())
            .clock(Clock::manual(1_000_000));
        let engine = Engine::open(options).await.unwrap();
        let tenant = TenantId::parse("default").unwrap();
        let key = fresh_secret(KeyKind::Live).unwrap();
        engine.keys().add(&stored_key(&key, tenant.clone(), engine.now()).unwrap(), None).await.unwrap();
        let agent = json!({"agentId": "mailer", "model": {"use": "main"}});
        engine.agents().put(&tenant, agent, None).await.unwrap();
        let (stop, stopping) = watch::channel(false);
        let router = router(Arc::new(AppState::new(engine.clone(), stopping)), None);
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let service = axum::ServiceExt::<axum::extract::Request>::into_make_service_with_connect_info::<
            std::net::SocketAddr,
        >(router);
        tokio::spawn(axum::serve(listener, service).into_future());
        Self { engine, tenant, url, key, _folder: folder, _stop: stop }
    }

    /// Starts a run with tool calls that wait as the tickets describe.
    async fn start_waiting_calls(&self, calls: &[&str], ticket: impl Fn(&ToolCall) -> Ticket) -> RunRef {
        let node = NodeId::parse("agent").unwrap();
        let owner = Owner { tenant: self.tenant.clone(), principal: "ann".to_owned() };
        let messages = vec![Message::new("u1", Role::User, "Where am I?")];
        let (agent, thread) = ("mailer".to_owned(), Some("t1".to_owned()));
        let run = self
            .engine
            .agents()
            .start(AgentInput { agent, thread, messages, owner, start: None, once: None })
            .await
            .unwrap();
        let of = RunRef { tenant: self.tenant.clone(), run: run.id.clone() };
        let mut message = Message::new("reply-1", Role::Assistant, "Let me see.");
        let request =
            |id: &&str| CallRequest { id: (*id).to_owned(), name: "locate".to_owned(), arguments: json!({}) };
        message.calls = calls.iter().map(request).collect();
        let policy = CallPolicy { behaviour: Behaviour::Ask, why: None, idempotent: false, client: false };
        let (policies, usage, model) = (vec![policy; calls.len()], Usage::default(), "m".to_owned());
        let reply = ReplyRecord { message, policies, usage, model, seen: 1, took_ms: None };
        self.execute(&of, Command::Begin { node: node.clone(), effect: Effect::Outside }).await;
        let acts = vec![AgentAction::Reply(Box::new(reply))];
        self.execute(&of, Command::Act { node: node.clone(), actions: acts }).await;
        let run = self.engine.runs().get(&of).await.unwrap();
        let agent = run.node_state(&node).and_then(|state| state.agent.clone()).unwrap();
        let suspend = |id: &&str| AgentAction::Suspend {
            call: (*id).to_owned(),
            ticket: Box::new(ticket(agent.call(id).unwrap())),
        };
        let acts = calls.iter().map(suspend).collect();
        self.execute(&of, Command::Act { node: node.clone(), actions: acts }).await;
        let outcome = NodeOutcome::Suspended { policy: ResumePolicy::AsDecided };
        self.execute(&of, Command::Finish { node, outcome }).await;
        of
    }

    async fn execute(&self, of: &RunRef, command: Command) {
        self.engine.runs().execute(of, &command).await.unwrap();
    }

    fn post(&self, more: Value) -> tokio::task::JoinHandle<Vec<Value>> {
        self.post_to("mailer", more)
    }

    fn post_to(&self, target: &str, more: Value) -> tokio::task::JoinHandle<Vec<Value>> {
        let mut input = json!({"threadId": "t1", "runId": "r", "messages": []});
        input.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let request = ureq::http::Request::builder()
            .method("POST")
            .uri(format!("{}/ag-ui/{target}", self.url))
            .header("authorization", format!("Bearer {}", self.key))
            .body(input.to_string())
            .unwrap();
        tokio::task::spawn_blocking(move || {
            let agent = ureq::Agent::config_builder().http_status_as_error(false).build().new_agent();
            let mut answer = agent.run(request).unwrap();
            let text = answer.body_mut().read_to_string().unwrap();
            assert_eq!(answer.status(), 200, "{text}");
            let frames = text.split("\n\n").filter_map(|frame| frame.strip_prefix("data: "));
            let events: Vec<Value> = frames.map(|frame| serde_json::from_str(frame).unwrap()).collect();
            verify(&events);
            events
        })
    }

    /// Waits until the first interrupt is closed, and returns its resolution.
    async fn wait_until_closed(&self, of: &RunRef) -> Resolution {
        let mut news = self.engine.events().subscribe(of);
        loop {
            let run = self.engine.runs().get(of).await.unwrap();
            if let Some(resolution) = &run.interrupt(InterruptId(1)).unwrap().resolution {
                return resolution.clone();
            }
            news.changed().await;
        }
    }

    /// Cancels the run, because no worker continues it.
    async fn cancel(&self, of: &RunRef) {
        self.engine.runs().cancel(of, None, Principal::named("ann")).await.unwrap();
    }
}

fn client_tool_ticket(call: &ToolCall) -> Ticket {
    let suspension =
        Suspension { id: "s".to_owned(), action: CLIENT_TOOL.to_owned(), ..Suspension::default() };
    let pending = holdpoint_core::agent::PendingToolCall {
        id: call.id.clone(),
        name: call.name.clone(),
        arguments: call.arguments.clone(),
    };
    let resume_mode = ToolCallResumeMode::UseDecisionAsToolResult;
    let wanted = SuspendTicket { suspension, pending, resume_mode };
    Ticket::tool_suspension("k".to_owned(), call, &ApprovalSettings::default(), &wanted)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_tool_call_is_answered_by_the_tool_message_of_the_client() {
    let server = TestServer::new().await;
    let of = server.start_waiting_calls(&["c1"], client_tool_ticket).await;
    let call = format!("{}:c1", of.run);
    let old = server.post(json!({})).await.unwrap();
    assert_eq!(old.last().unwrap()["outcome"], json!({"type": "success"}));
    let new = server.post(json!({"protocolVersion": "1.0"})).await.unwrap();
    assert_eq!(new.last().unwrap()["outcome"], json!({"type": "success", "pendingToolCallIds": [call]}));
    let result = json!({"id": "x", "role": "tool", "toolCallId": call, "content": "in Bonn"});
    let events = server.post(json!({"messages": [result]}));
    let Resolution::Answered { value, .. } = server.wait_until_closed(&of).await else {
        panic!("the interrupt was not answered")
    };
    assert_eq!(value, json!({"action": "resume", "result": "in Bonn"}));
    server.cancel(&of).await;
    let events = events.await.unwrap();
    assert_eq!(
        events.last().unwrap()["code"],
        "cancelled",
        "the stream continued until the end of the run: {events:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_message_supersedes_an_open_client_tool_call() {
    let server = TestServer::new().await;
    let of = server.start_waiting_calls(&["c1"], client_tool_ticket).await;
    let events = server.post(json!({"messages": [{"id": "u2", "role": "user", "content": "Never mind"}]}));
    server.wait_until_closed(&of).await;
    server.cancel(&of).await;
    let events = events.await.unwrap();
    let results: Vec<_> = events.iter().filter(|one| one["type"] == "TOOL_CALL_RESULT").collect();
    assert!(results[0]["content"].as_str().unwrap().contains("superseded"), "{events:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_interrupt_is_expired_after_its_deadline_even_if_its_timer_is_late() {
    let server = TestServer::new().await;
    let asking = ApprovalSettings { timeout_ms: Some(5000), ..ApprovalSettings::default() };
    let of =
        server.start_waiting_calls(&["c1"], |call| Ticket::permission("k".to_owned(), call, &asking)).await;
    let id = format!("{}:i1", of.run);
    server.engine.clock().advance(5000);
    let yes = json!([{"interruptId": id, "status": "resolved", "payload": {"approved": true}}]);
    let refused = server.post(json!({"resume": yes})).await.unwrap();
    assert_eq!(refused.last().unwrap()["code"], "INTERRUPT_EXPIRED");
    let events = server.post(json!({"resume": [{"interruptId": id, "status": "cancelled"}]}));
    assert!(
        matches!(server.wait_until_closed(&of).await, Resolution::TimedOut { .. }),
        "it expired and was not rejected"
    );
    server.cancel(&of).await;
    events.await.unwrap();
}

/// Returns a permission that expires after 5 s for the call c1, and one that these people decide for other calls.
fn permission(call: &ToolCall, people: &Value) -> Ticket {
    let people = people.as_object().unwrap().clone();
    let settings = match call.id.as_str() {
        "c1" => ApprovalSettings { timeout_ms: Some(5000), ..ApprovalSettings::default() },
        _ => ApprovalSettings { people, ..ApprovalSettings::default() },
    };
    Ticket::permission(call.id.clone(), call, &settings)
}

/// Returns a resume array that cancels the first interrupt of a run and accepts the second one.
fn cancel_and_accept(of: &RunRef) -> Value {
    let id = |n: u32| format!("{}:i{n}", of.run);
    json!({"resume": [
        {"interruptId": id(1), "status": "cancelled"},
        {"interruptId": id(2), "status": "resolved", "payload": {"approved": true}},
    ]})
}

#[tokio::test(flavor = "multi_thread")]
async fn expired_interrupts_and_answers_of_a_resume_are_one_commit() {
    let server = TestServer::new().await;
    let of = server.start_waiting_calls(&["c1", "c2"], |call| permission(call, &json!({}))).await;
    server.engine.clock().advance(5000);
    let commits = server.engine.subscribe_commits(10);
    let events = server.post(cancel_and_accept(&of));
    let first = commits.recv(Duration::from_secs(10)).unwrap();
    let resolution = |id| first.run.interrupt(InterruptId(id)).unwrap().resolution.as_ref();
    assert!(matches!(resolution(1), Some(Resolution::TimedOut { .. })), "{:?}", first.events);
    assert!(matches!(resolution(2), Some(Resolution::Answered { .. })), "{:?}", first.events);
    server.cancel(&of).await;
    events.await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refused_resume_leaves_expired_interrupts_open() {
    let server = TestServer::new().await;
    let people = json!({"approversList": ["bob"]});
    let of = server.start_waiting_calls(&["c1", "c2"], |call| permission(call, &people)).await;
    server.engine.clock().advance(5000);
    let refused = server.post(cancel_and_accept(&of)).await.unwrap();
    assert_eq!(refused.last().unwrap()["code"], "FORBIDDEN");
    let run = server.engine.runs().get(&of).await.unwrap();
    assert!(run.interrupts.iter().all(|asked| asked.is_open()), "{:?}", run.interrupts);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_recorded_denial_leaves_expired_interrupts_open() {
    let server = TestServer::new().await;
    let node = |id: &str, type_id: &str, config: Value| json!({"id": id, "typeId": type_id, "name": id, "position": {"x": 0, "y": 0}, "config": config, "inputs": {}});
    let late = node("late", "core.approvalGate", json!({"title": "Go on?", "timeoutMs": 5000}));
    let governed =
        node("governed", "core.openwop.governance.approvalGate", json!({"requiredRole": "release"}));
    let workflow = json!({
        "id": "gated", "name": "gated", "version": "1", "nodes": [late, governed], "edges": [], "triggers": [],
        "variables": [], "metadata": {}, "settings": {},
    });
    server.engine.workflows().register(&server.tenant, workflow).await.unwrap();
    let hello = json!({"messages": [{"id": "u1", "role": "user", "content": "Go"}]});
    server.post_to("gated", hello).await.unwrap();
    let of = server.engine.threads().open_run(&server.tenant, "t1").await.unwrap().unwrap();
    server.engine.clock().advance(5000);
    let refused = server.post_to("gated", cancel_and_accept(&of)).await.unwrap();
    assert_eq!(refused.last().unwrap()["code"], "FORBIDDEN");
    let run = server.engine.runs().get(&of).await.unwrap();
    assert!(run.interrupts.iter().all(|asked| asked.is_open()), "{:?}", run.interrupts);
    assert_eq!(run.interrupts[1].denied, 1, "the denial is recorded");
}
