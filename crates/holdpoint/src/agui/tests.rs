//! Threads that no worker carries on, over HTTP: what an agent would do is written down by hand, and time stands still.

use std::sync::Arc;

use holdpoint_core::agent::{
    Act, Asking, Behaviour, CLIENT_TOOL, CallRequest, Gate, Message, Reply, ResumePolicy, Role,
    SuspendTicket, Suspension, Ticket, ToolCall, ToolCallResumeMode, Usage,
};
use holdpoint_core::{
    Command, Effect, InterruptId, NodeId, Outcome, Owner, Principal, Resolution, RunRef, TenantId,
};
use holdpoint_engine::{Clock, Engine, Location, Options, Talk};
use serde_json::{Value, json};
use tokio::sync::watch;

use super::verifier::verify;
use crate::app::{Shared, router};
use crate::auth::{fresh_secret, stored_key};

/// A server in this process.
struct House {
    engine: Engine,
    tenant: TenantId,
    url: String,
    key: String,
    _folder: tempfile::TempDir,
    /// Dropped, it would tell streams that the server goes down.
    _stop: watch::Sender<bool>,
}

impl House {
    async fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let location = Location::Sqlite(folder.path().join("holdpoint.db"));
        let options = Options::new(location).clock(Clock::manual(1_000_000));
        let engine = Engine::open(options).await.unwrap();
        let tenant = TenantId::parse("default").unwrap();
        let key = fresh_secret(false).unwrap();
        engine.add_key(&stored_key(&key, tenant.clone(), engine.now()).unwrap(), None).await.unwrap();
        let agent = json!({"agentId": "mailer", "model": {"use": "main"}});
        engine.put_agent(&tenant, agent, None).await.unwrap();
        let (stop, stopping) = watch::channel(false);
        let router = router(Arc::new(Shared::new(engine.clone(), stopping)), None);
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let service = router.into_make_service_with_connect_info::<std::net::SocketAddr>();
        tokio::spawn(axum::serve(listener, service).into_future());
        Self { engine, tenant, url, key, _folder: folder, _stop: stop }
    }

    /// A call that waits, as the ticket says.
    async fn waiting(&self, ticket: impl FnOnce(&ToolCall) -> Ticket) -> RunRef {
        let node = NodeId::parse("agent").unwrap();
        let owner = Owner { tenant: self.tenant.clone(), principal: "ann".to_owned() };
        let messages = vec![Message::new("u1", Role::User, "Where am I?")];
        let (agent, thread) = ("mailer".to_owned(), Some("t1".to_owned()));
        let run = self
            .engine
            .start_agent(Talk { agent, thread, messages, owner, start: None, once: None })
            .await
            .unwrap();
        let of = RunRef { tenant: self.tenant.clone(), run: run.id.clone() };
        let mut message = Message::new("reply-1", Role::Assistant, "Let me see.");
        message.calls =
            vec![CallRequest { id: "c1".to_owned(), name: "locate".to_owned(), arguments: json!({}) }];
        let gates = vec![Gate { behaviour: Behaviour::Ask, why: None, idempotent: false, client: false }];
        let (usage, model) = (Usage::default(), "m".to_owned());
        let reply = Reply { message, gates, usage, model, seen: 1, took_ms: None };
        self.execute(&of, Command::Begin { node: node.clone(), effect: Effect::Outside }).await;
        let acts = vec![Act::Reply(Box::new(reply))];
        self.execute(&of, Command::Act { node: node.clone(), acts }).await;
        let run = self.engine.run(&of).await.unwrap();
        let agent = run.node_state(&node).and_then(|state| state.agent.clone()).unwrap();
        let ticket = Box::new(ticket(agent.call("c1").unwrap()));
        let acts = vec![Act::Suspend { call: "c1".to_owned(), ticket }];
        self.execute(&of, Command::Act { node: node.clone(), acts }).await;
        let outcome = Outcome::Suspended { policy: ResumePolicy::AsDecided };
        self.execute(&of, Command::Finish { node, outcome }).await;
        of
    }

    async fn execute(&self, of: &RunRef, command: Command) {
        self.engine.execute(of, &command).await.unwrap();
    }

    fn post(&self, more: Value) -> tokio::task::JoinHandle<Vec<Value>> {
        let mut input = json!({"threadId": "t1", "runId": "r", "messages": []});
        input.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let request = ureq::http::Request::builder()
            .method("POST")
            .uri(format!("{}/ag-ui/mailer", self.url))
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

    /// Waits until the first interrupt is closed, and tells how.
    async fn closed(&self, of: &RunRef) -> Resolution {
        let mut news = self.engine.subscribe(of);
        loop {
            let run = self.engine.run(of).await.unwrap();
            if let Some(resolution) = &run.interrupt(InterruptId(1)).unwrap().resolution {
                return resolution.clone();
            }
            news.changed().await;
        }
    }

    /// Nobody carries the run on: its end is made by hand.
    async fn end(&self, of: &RunRef) {
        self.engine.cancel(of, None, Principal::named("ann")).await.unwrap();
    }
}

fn of_client(call: &ToolCall) -> Ticket {
    let suspension =
        Suspension { id: "s".to_owned(), action: CLIENT_TOOL.to_owned(), ..Suspension::default() };
    let pending = holdpoint_core::agent::PendingToolCall {
        id: call.id.clone(),
        name: call.name.clone(),
        arguments: call.arguments.clone(),
    };
    let resume_mode = ToolCallResumeMode::UseDecisionAsToolResult;
    let wanted = SuspendTicket { suspension, pending, resume_mode };
    Ticket::of_tool("k".to_owned(), call, &Asking::default(), &wanted)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tool_of_the_clients_is_carried_out_by_the_client_and_answered_by_its_message() {
    let house = House::new().await;
    let of = house.waiting(of_client).await;
    let call = format!("{}:c1", of.run);
    let old = house.post(json!({})).await.unwrap();
    assert_eq!(old.last().unwrap()["outcome"], json!({"type": "success"}));
    let new = house.post(json!({"protocolVersion": "1.0"})).await.unwrap();
    assert_eq!(new.last().unwrap()["outcome"], json!({"type": "success", "pendingToolCallIds": [call]}));
    let result = json!({"id": "x", "role": "tool", "toolCallId": call, "content": "in Bonn"});
    let told = house.post(json!({"messages": [result]}));
    let Resolution::Answered { value, .. } = house.closed(&of).await else { panic!("nobody answered") };
    assert_eq!(value, json!({"action": "resume", "result": "in Bonn"}));
    house.end(&of).await;
    let told = told.await.unwrap();
    assert_eq!(told.last().unwrap()["code"], "cancelled", "it went on until its end: {told:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn new_words_take_back_what_the_client_was_to_carry_out() {
    let house = House::new().await;
    let of = house.waiting(of_client).await;
    let told = house.post(json!({"messages": [{"id": "u2", "role": "user", "content": "Never mind"}]}));
    house.closed(&of).await;
    house.end(&of).await;
    let told = told.await.unwrap();
    let results: Vec<_> = told.iter().filter(|one| one["type"] == "TOOL_CALL_RESULT").collect();
    assert!(results[0]["content"].as_str().unwrap().contains("superseded"), "{told:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_interrupt_whose_time_is_over_and_whose_timer_is_late_is_over() {
    let house = House::new().await;
    let asking = Asking { timeout_ms: Some(5000), ..Asking::default() };
    let of = house.waiting(|call| Ticket::permission("k".to_owned(), call, &asking)).await;
    let id = format!("{}:i1", of.run);
    house.engine.clock().advance(5000);
    let yes = json!([{"interruptId": id, "status": "resolved", "payload": {"approved": true}}]);
    let refused = house.post(json!({"resume": yes})).await.unwrap();
    assert_eq!(refused.last().unwrap()["code"], "INTERRUPT_EXPIRED");
    let told = house.post(json!({"resume": [{"interruptId": id, "status": "cancelled"}]}));
    assert!(matches!(house.closed(&of).await, Resolution::TimedOut { .. }), "silence, and nobody's refusal");
    house.end(&of).await;
    told.await.unwrap();
}
