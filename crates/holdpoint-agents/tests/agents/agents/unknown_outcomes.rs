//! Calls with an unknown outcome: the engine repeats idempotent calls and opens an interrupt for all others.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use holdpoint_agents::tool::{Call, CallFuture, CallOutcome, ListFuture, ToolError, ToolSpec, Toolbox};
use holdpoint_agents::{AgentRuntime, AgentSettings, Connection, Connections, EngineAgents};
use holdpoint_engine::Options;
use holdpoint_engine::core::agent::CallStatus;
use holdpoint_engine::core::{Principal, TenantId};
use serde_json::{Value, json};

use super::{AgentEnv, Calls, agent, call, reject, resume, with_tools};
use crate::test_database::{TestDatabase, on_both};
use crate::test_env::TestEnv;

on_both! {
    a_call_with_an_unknown_outcome_opens_an_interrupt,
    an_idempotent_call_with_an_unknown_outcome_is_repeated,
    an_unknown_outcome_opens_an_interrupt_when_the_approvers_of_the_connection_are_known,
}

/// A tool that performs its effect and then loses the connection.
struct CutTool {
    spec: Arc<ToolSpec>,
    calls: Calls,
    /// The number of calls that lose the connection.
    times: usize,
}

impl Toolbox for CutTool {
    fn list<'a>(&'a self, _: &'a TenantId) -> ListFuture<'a> {
        Box::pin(async { Ok(vec![self.spec.clone()]) })
    }

    fn call<'a>(&'a self, call: &'a Call) -> CallFuture<'a> {
        Box::pin(async move {
            let mut calls = self.calls.lock().unwrap();
            calls.push((call.id.clone(), call.arguments.clone()));
            if calls.len() <= self.times {
                return Err(ToolError::Unknown("the connection was cut".to_owned()));
            }
            Ok(CallOutcome::Result(json!("done")))
        })
    }
}

fn send_spec(idempotent: bool) -> Arc<ToolSpec> {
    Arc::new(ToolSpec {
        name: "send".to_owned(),
        description: String::new(),
        parameters: json!({ "type": "object" }),
        idempotent,
        primary: None,
    })
}

async fn prepare(database: TestDatabase, idempotent: bool) -> AgentEnv {
    let calls = Calls::default();
    let cut: Arc<dyn Toolbox> =
        Arc::new(CutTool { spec: send_spec(idempotent), calls: calls.clone(), times: 1 });
    let rust = [("send".to_owned(), cut)].into();
    let settings = AgentSettings { rust, ..AgentSettings::default() };
    let env =
        TestEnv::with(database, |options| with_tools(&calls)(options).extension(AgentRuntime::new(settings)))
            .await;
    let agents = AgentEnv { env, calls };
    let mut definition = agent(&json!([{ "calls": [call("c1", "send", json!({}))] }, { "text": "Done." }]));
    definition["tools"] = json!([{ "type": "rust", "name": "send" }]);
    definition["permissions"] = json!({ "rules": [{ "tool": "send", "behavior": "allow" }] });
    agents.declare(definition).await;
    agents
}

async fn a_call_with_an_unknown_outcome_opens_an_interrupt(database: TestDatabase) {
    let agents = prepare(database, false).await;
    let again = agents.send(None, "please").await;
    assert_eq!((agents.env.status(&again).await, agents.calls().len()), ("waiting-approval", 1));
    let asked = agents.env.run(&again).await;
    let asked = asked.open_interrupts().next().unwrap().clone();
    assert_eq!(asked.data["suspension"]["action"], "tool:OutcomeUnknown");
    agents.decide(&again, "c1", &resume("d1", Value::Null)).await.unwrap();
    agents.env.drain().await;
    assert_eq!((agents.env.status(&again).await, agents.calls().len()), ("completed", 2), "made again");
    agents.calls.lock().unwrap().clear();
    let left = agents.send(None, "please").await;
    agents.decide(&left, "c1", &reject("d1")).await.unwrap();
    agents.env.drain().await;
    assert_eq!((agents.call(&left, "c1").await, agents.calls().len()), (CallStatus::Cancelled, 1));
    agents.calls.lock().unwrap().clear();
    let known = agents.send(None, "please").await;
    let result = json!({ "result": "it was sent" });
    agents.decide(&known, "c1", &resume("d1", result)).await.unwrap();
    agents.env.drain().await;
    assert_eq!((agents.call(&known, "c1").await, agents.calls().len()), (CallStatus::Succeeded, 1));
    assert_eq!(agents.agent(&known).await.messages[2].content, "it was sent");
}

async fn an_idempotent_call_with_an_unknown_outcome_is_repeated(database: TestDatabase) {
    let agents = prepare(database, true).await;
    let of = agents.send(None, "please").await;
    assert_eq!((agents.env.status(&of).await, agents.calls().len()), ("completed", 2));
}

/// A tool of a connection. Each call ends the worker, and its server can be unreachable.
struct FatalTool {
    unreachable: Arc<AtomicBool>,
}

impl Toolbox for FatalTool {
    fn list<'a>(&'a self, _: &'a TenantId) -> ListFuture<'a> {
        let list = match self.unreachable.load(Ordering::SeqCst) {
            true => Err(ToolError::Unreachable("the server cannot be reached".to_owned())),
            false => Ok(vec![send_spec(false)]),
        };
        Box::pin(async { list })
    }

    fn call<'a>(&'a self, _: &'a Call) -> CallFuture<'a> {
        Box::pin(async { panic!("the worker ends here") })
    }
}

fn with_fatal_connection(unreachable: &Arc<AtomicBool>) -> impl FnOnce(Options) -> Options + use<> {
    let fatal: Arc<dyn Toolbox> = Arc::new(FatalTool { unreachable: unreachable.clone() });
    let post = json!({ "type": "rust", "name": "send", "approval": { "approversList": ["bob"] } });
    let tools = [("post".to_owned(), Connection::tool(post).unwrap())].into();
    let connections = Connections { tools, ..Connections::default() };
    let rust = [("send".to_owned(), fatal)].into();
    move |options| {
        options.extension(AgentRuntime::new(AgentSettings { rust, connections, ..AgentSettings::default() }))
    }
}

async fn an_unknown_outcome_opens_an_interrupt_when_the_approvers_of_the_connection_are_known(
    database: TestDatabase,
) {
    let unreachable = Arc::new(AtomicBool::new(false));
    let env = TestEnv::with(database, with_fatal_connection(&unreachable)).await;
    let agents = AgentEnv { env, calls: Calls::default() };
    let mut definition = agent(&json!([{ "calls": [call("c1", "send", json!({}))] }]));
    definition["tools"] = json!([{ "use": "post" }]);
    definition["permissions"] = json!({ "default": "allow" });
    agents.declare(definition).await;
    let of = agents.send(None, "please").await;
    assert_eq!(agents.call(&of, "c1").await, CallStatus::Running);

    unreachable.store(true, Ordering::SeqCst);
    let env = agents.env.reopen(with_fatal_connection(&unreachable)).await;
    let agents = AgentEnv { env, calls: agents.calls };
    agents.env.clock.advance(60_000);
    agents.env.drain().await;
    assert_eq!(agents.call(&of, "c1").await, CallStatus::Running, "no interrupt is open yet");

    unreachable.store(false, Ordering::SeqCst);
    agents.env.clock.advance(60_000);
    agents.env.drain().await;
    let run = agents.env.run(&of).await;
    let asked = run.open_interrupts().next().expect("the approver is asked");
    assert_eq!(asked.data["suspension"]["action"], "tool:OutcomeUnknown");
    assert_eq!(asked.data["operatorApproval"]["approversList"], json!(["bob"]));
    assert!(
        agents.decide(&of, "c1", &reject("d1")).await.is_err(),
        "alice is not an approver of the connection"
    );
    let by_bob =
        agents.env.engine.agents().decide_call(&of, "c1", &reject("d2"), Principal::named("bob")).await;
    assert!(by_bob.is_ok(), "{by_bob:?}");
}
