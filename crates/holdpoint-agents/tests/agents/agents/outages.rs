//! Outages of tool servers and models: the run shows its delay, approved calls are not lost, and an operator can
//! continue the run.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use holdpoint_agents::tool::{
    Call, CallFuture, CallOutcome, ListFuture, ReachFuture, ToolError, ToolSpec, Toolbox,
};
use holdpoint_agents::{AgentRuntime, AgentSettings, EngineAgents};
use holdpoint_engine::core::agent::{Message, Role};
use holdpoint_engine::core::mailbox::{RunDispatch, RunDispatchStatus};
use holdpoint_engine::core::{Command, Drain, ForkMode, NodeId, OutageDelay, RunRef, TenantId};
use holdpoint_engine::{Error, Options};
use serde_json::{Value, json};

use super::{Calls, call, counting_tool, decide, input, reject, resume};
use crate::test_database::{Subject, TestDatabase, on_both};
use crate::test_env::fork;
use crate::test_env::{TestEnv, alice, tenant};

on_both! {
    a_call_that_needs_no_server_is_made_while_another_server_is_unreachable,
    an_approved_call_waits_for_its_server_and_is_made_once,
    a_denied_call_needs_no_server,
    a_run_with_a_dead_letter_stays_open_and_continues_after_a_requeue,
    a_run_with_a_dead_letter_can_be_cancelled,
    a_run_whose_dead_letter_was_deleted_continues_after_pause_and_resume,
    an_approved_call_to_an_unreachable_server_asks_again,
    an_edited_call_to_an_unreachable_server_asks_again_with_the_edit,
    a_message_continues_a_run_with_a_dead_letter,
    a_draining_pause_pauses_a_run_with_a_dead_letter,
    an_unapproved_call_to_an_unreachable_server_is_reported_to_the_agent,
    an_unavailable_model_delays_the_run,
    a_restart_during_an_outage_keeps_the_delay,
    tools_with_short_names_wait_for_servers_that_were_never_listed,
    a_replay_of_a_delayed_run_has_the_same_events,
}

const OUTAGE_MS: i64 = 600_000;

/// A tool whose server can be unreachable.
struct RemoteTool {
    spec: Arc<ToolSpec>,
    calls: Calls,
    state: Arc<ServerState>,
}

#[derive(Default)]
struct ServerState {
    unreachable: AtomicBool,
    /// The server lists its tool and refuses connections for calls.
    refuses_calls: AtomicBool,
}

impl RemoteTool {
    fn check(&self) -> Result<(), ToolError> {
        match self.state.unreachable.load(Ordering::SeqCst) {
            true => Err(ToolError::Unreachable("the server remote cannot be reached".to_owned())),
            false => Ok(()),
        }
    }
}

impl Toolbox for RemoteTool {
    fn list<'a>(&'a self, _: &'a TenantId) -> ListFuture<'a> {
        Box::pin(async { self.check().map(|()| vec![self.spec.clone()]) })
    }

    fn reach(&self) -> ReachFuture<'_> {
        Box::pin(async { self.check() })
    }

    fn call<'a>(&'a self, call: &'a Call) -> CallFuture<'a> {
        Box::pin(async move {
            self.check()?;
            if self.state.refuses_calls.load(Ordering::SeqCst) {
                return Err(ToolError::Unreachable("connection refused".to_owned()));
            }
            self.calls.lock().unwrap().push((call.id.clone(), call.arguments.clone()));
            Ok(CallOutcome::Result(json!("done there")))
        })
    }
}

struct OutageEnv {
    env: TestEnv,
    calls: Calls,
    state: Arc<ServerState>,
}

impl Subject for OutageEnv {
    async fn at(database: TestDatabase) -> Self {
        let (calls, state) = (Calls::default(), Arc::default());
        let env = TestEnv::with(database, with_servers(&calls, &state)).await;
        Self { env, calls, state }
    }
}

fn with_servers(calls: &Calls, state: &Arc<ServerState>) -> impl FnOnce(Options) -> Options + use<> {
    let spec = ToolSpec {
        name: "remote".to_owned(),
        description: String::new(),
        parameters: json!({ "type": "object" }),
        idempotent: false,
        primary: None,
    };
    let remote = RemoteTool { spec: Arc::new(spec), calls: calls.clone(), state: state.clone() };
    let mut rust: BTreeMap<String, Arc<dyn Toolbox>> = [counting_tool("send", calls, false, None)].into();
    rust.insert("remote".to_owned(), Arc::new(remote));
    move |options| options.extension(AgentRuntime::new(AgentSettings { rust, ..AgentSettings::default() }))
}

/// An agent that makes these calls and a final reply. The definition contains the tool `local`.
fn agent(calls: &[Value], default: &str) -> Value {
    json!({
        "agentId": "clerk",
        "model": { "provider": "scripted", "steps": [{ "calls": calls }, { "text": "Done." }] },
        "tools": [
            { "type": "rust", "name": "send" }, { "type": "rust", "name": "remote" },
            { "type": "scripted", "name": "local", "result": "done here" },
        ],
        "permissions": { "default": default },
    })
}

impl OutageEnv {
    async fn start(&self, definition: Value) -> RunRef {
        self.env.engine.agents().put(&tenant(), definition, None).await.unwrap();
        let run = self.env.engine.agents().start(input(None, "please")).await.unwrap();
        self.env.drain().await;
        RunRef { tenant: tenant(), run: run.id.clone() }
    }

    fn set_down(&self, down: bool) {
        self.state.unreachable.store(down, Ordering::SeqCst);
    }

    /// Advances the clock and drains the worker.
    async fn advance(&self, ms: i64) {
        self.env.clock.advance(ms);
        self.env.drain().await;
    }

    async fn delay(&self, of: &RunRef) -> Option<OutageDelay> {
        let run = self.env.run(of).await;
        let delay = run.node_state(&NodeId::parse("agent").unwrap()).unwrap().delay.clone();
        delay.map(|delay| (*delay).clone())
    }

    async fn last_dispatch(&self, of: &RunRef) -> RunDispatch {
        let mail = self.env.engine.mailbox(&tenant());
        let run = self.env.run(of).await;
        mail.list_dispatches(run.thread(), None, 100, 0).await.unwrap().pop().unwrap()
    }

    async fn count(&self, of: &RunRef, kind: &str) -> usize {
        let log = self.env.log(of).await;
        log.iter().filter(|event| event.contains(&format!("\"type\":\"{kind}\""))).count()
    }

    fn made(&self) -> Vec<String> {
        self.calls.lock().unwrap().iter().map(|(id, _)| id.clone()).collect()
    }
}

async fn a_call_that_needs_no_server_is_made_while_another_server_is_unreachable(outage: OutageEnv) {
    let of =
        outage.start(agent(&[call("c1", "send", json!({})), call("c2", "local", json!({}))], "ask")).await;
    assert_eq!(outage.env.status(&of).await, "waiting-approval");
    outage.set_down(true);
    for id in ["c1", "c2"] {
        decide(&outage.env.engine, &of, id, &resume(id, Value::Null)).await.unwrap();
    }
    outage.env.drain().await;
    assert_eq!((outage.made(), outage.count(&of, "agent.toolReturned").await), (vec!["c1".to_owned()], 2));
    // The model is called only with the complete list of tools.
    let delay = outage.delay(&of).await.expect("the run has no delay");
    assert_eq!(delay.error.message, "the server remote cannot be reached");
    assert_eq!(delay.until, Some(delay.since.plus_ms(600_000)));
    let row = outage.last_dispatch(&of).await;
    assert_eq!((row.status, row.attempt_count), (RunDispatchStatus::Queued, 0));
    assert_eq!(row.last_error.as_deref(), Some("the server remote cannot be reached"));
    outage.advance(OUTAGE_MS / 2).await;
    assert_eq!(outage.env.status(&of).await, "running");
    outage.set_down(false);
    outage.advance(30_000 * 6 / 5).await;
    assert_eq!((outage.env.status(&of).await, outage.delay(&of).await), ("completed", None));
    assert_eq!((outage.made().len(), outage.count(&of, "holdpoint.node.delayed").await), (1, 1));
}

async fn an_approved_call_waits_for_its_server_and_is_made_once(outage: OutageEnv) {
    let of = outage.start(agent(&[call("c1", "remote", json!({}))], "ask")).await;
    outage.set_down(true);
    decide(&outage.env.engine, &of, "c1", &resume("d1", Value::Null)).await.unwrap();
    outage.env.drain().await;
    for _ in 0..5 {
        outage.advance(60_000).await;
    }
    assert_eq!((outage.made().len(), outage.count(&of, "holdpoint.tool.begun").await), (0, 0));
    // A repeated decision is accepted.
    decide(&outage.env.engine, &of, "c1", &resume("d1", Value::Null)).await.unwrap();
    outage.set_down(false);
    outage.advance(36_000).await;
    assert_eq!((outage.env.status(&of).await, outage.made().len()), ("completed", 1));
    assert_eq!(outage.count(&of, "holdpoint.tool.begun").await, 1);
}

async fn a_denied_call_needs_no_server(outage: OutageEnv) {
    let of = outage.start(agent(&[call("c1", "send", json!({}))], "ask")).await;
    outage.set_down(true);
    decide(&outage.env.engine, &of, "c1", &reject("d1")).await.unwrap();
    outage.env.drain().await;
    assert_eq!((outage.made().len(), outage.count(&of, "agent.toolReturned").await), (0, 1));
}

async fn a_run_with_a_dead_letter_stays_open_and_continues_after_a_requeue(outage: OutageEnv) {
    let of = outage.start(agent(&[call("c1", "remote", json!({}))], "ask")).await;
    outage.set_down(true);
    decide(&outage.env.engine, &of, "c1", &resume("d1", Value::Null)).await.unwrap();
    outage.env.drain().await;
    let since = outage.delay(&of).await.unwrap().since;
    outage.advance(OUTAGE_MS - 1).await;
    assert_eq!(outage.last_dispatch(&of).await.status, RunDispatchStatus::Queued);
    outage.advance(1).await;
    let dead = outage.last_dispatch(&of).await;
    assert_eq!(dead.status, RunDispatchStatus::DeadLetter);
    let delay = outage.delay(&of).await.unwrap();
    assert_eq!((delay.since, delay.until), (since, None));
    // Neither maintenance nor time changes the run.
    outage.advance(24 * 3_600_000).await;
    assert_eq!((outage.env.status(&of).await, outage.made().len()), ("running", 0));
    let again = outage.env.engine.dispatches().requeue(&tenant(), &dead.dispatch_id, None).await.unwrap();
    let twice = outage.env.engine.dispatches().requeue(&tenant(), &dead.dispatch_id, None).await;
    assert!(matches!(twice, Err(Error::Mailbox(_))), "{twice:?}");
    outage.env.drain().await;
    assert!(outage.delay(&of).await.unwrap().until.is_some(), "the run waits for the server again");
    outage.set_down(false);
    outage.advance(1000).await;
    assert_eq!((outage.env.status(&of).await, outage.made().len()), ("completed", 1));
    assert_eq!(outage.last_dispatch(&of).await.dispatch_id, again.dispatch_id);
}

async fn a_run_with_a_dead_letter_can_be_cancelled(outage: OutageEnv) {
    outage.set_down(true);
    let of = outage.start(agent(&[call("c1", "remote", json!({}))], "allow")).await;
    outage.advance(OUTAGE_MS).await;
    let dead = outage.last_dispatch(&of).await;
    assert_eq!(dead.status, RunDispatchStatus::DeadLetter);
    outage.env.engine.runs().cancel(&of, None, alice()).await.unwrap();
    assert_eq!(outage.env.status(&of).await, "cancelled");
    let requeued = outage.env.engine.dispatches().requeue(&tenant(), &dead.dispatch_id, None).await;
    assert!(matches!(requeued, Err(Error::Refused(_))), "{requeued:?}");
    outage.set_down(false);
    outage.advance(60_000).await;
    assert_eq!(outage.made().len(), 0);
}

async fn a_run_whose_dead_letter_was_deleted_continues_after_pause_and_resume(outage: OutageEnv) {
    outage.set_down(true);
    let of = outage.start(agent(&[call("c1", "remote", json!({}))], "allow")).await;
    outage.advance(OUTAGE_MS).await;
    outage.env.clock.advance(2 * 24 * 3_600_000);
    outage.env.engine.worker().tidy().await;
    let dispatches = outage.env.database.read("SELECT status FROM dispatches").await;
    assert!(dispatches.is_empty(), "{dispatches:?}");
    outage.set_down(false);
    let pause = Command::Pause { reason: None, drain: Drain::Immediate, by: alice() };
    outage.env.engine.runs().execute(&of, &pause).await.unwrap();
    outage.env.engine.runs().execute(&of, &Command::Resume { by: alice() }).await.unwrap();
    outage.env.drain().await;
    assert_eq!((outage.env.status(&of).await, outage.made().len()), ("completed", 1));
}

async fn an_approved_call_to_an_unreachable_server_asks_again(outage: OutageEnv) {
    let of = outage.start(agent(&[call("c1", "remote", json!({}))], "ask")).await;
    outage.state.refuses_calls.store(true, Ordering::SeqCst);
    decide(&outage.env.engine, &of, "c1", &resume("d1", Value::Null)).await.unwrap();
    outage.env.drain().await;
    assert_eq!((outage.env.status(&of).await, outage.made().len()), ("waiting-approval", 0));
    let run = outage.env.run(&of).await;
    let interrupt = run.open_interrupts().next().unwrap();
    let message = interrupt.data["suspension"]["message"].as_str().unwrap();
    assert!(
        message.starts_with("remote was not carried out: connection refused. Accept to call it again"),
        "{message}"
    );
    outage.state.refuses_calls.store(false, Ordering::SeqCst);
    decide(&outage.env.engine, &of, "c1", &resume("d2", Value::Null)).await.unwrap();
    outage.env.drain().await;
    assert_eq!((outage.env.status(&of).await, outage.made().len()), ("completed", 1));
}

async fn an_unapproved_call_to_an_unreachable_server_is_reported_to_the_agent(outage: OutageEnv) {
    outage.state.refuses_calls.store(true, Ordering::SeqCst);
    let of = outage.start(agent(&[call("c1", "remote", json!({}))], "allow")).await;
    assert_eq!(outage.env.status(&of).await, "completed");
    assert!(outage.env.log(&of).await.iter().any(|event| event.contains("connection refused")));
}

async fn an_unavailable_model_delays_the_run(outage: OutageEnv) {
    let mut definition = agent(&[], "allow");
    definition["model"]["steps"] = json!([{ "error": "unavailable" }]);
    let of = outage.start(definition).await;
    let delay = outage.delay(&of).await.expect("the run has no delay");
    assert!(delay.error.message.starts_with("the model is not available"), "{delay:?}");
    outage.advance(OUTAGE_MS).await;
    assert_eq!(outage.last_dispatch(&of).await.status, RunDispatchStatus::DeadLetter);
    assert_eq!(outage.env.status(&of).await, "running");
}

async fn a_restart_during_an_outage_keeps_the_delay(outage: OutageEnv) {
    let of = outage.start(agent(&[call("c1", "remote", json!({}))], "ask")).await;
    outage.set_down(true);
    decide(&outage.env.engine, &of, "c1", &resume("d1", Value::Null)).await.unwrap();
    outage.env.drain().await;
    let before = outage.delay(&of).await;
    let OutageEnv { env, calls, state } = outage;
    let env = env.reopen(with_servers(&calls, &state)).await;
    let outage = OutageEnv { env, calls, state };
    outage.advance(60_000).await;
    assert_eq!((outage.delay(&of).await, outage.made().len()), (before, 0));
    outage.set_down(false);
    outage.advance(36_000).await;
    assert_eq!((outage.env.status(&of).await, outage.made().len()), ("completed", 1));
}

/// The short name can belong to a tool of the unreachable server.
async fn tools_with_short_names_wait_for_servers_that_were_never_listed(outage: OutageEnv) {
    let of =
        outage.start(agent(&[call("c1", "send", json!({})), call("c2", "local", json!({}))], "ask")).await;
    let OutageEnv { env, calls, state } = outage;
    state.unreachable.store(true, Ordering::SeqCst);
    let env = env.reopen(with_servers(&calls, &state)).await;
    let outage = OutageEnv { env, calls, state };
    for id in ["c1", "c2"] {
        decide(&outage.env.engine, &of, id, &resume(id, Value::Null)).await.unwrap();
    }
    outage.env.drain().await;
    assert_eq!((outage.made().len(), outage.count(&of, "agent.toolReturned").await), (0, 1));
    outage.set_down(false);
    outage.advance(1000).await;
    assert_eq!((outage.env.status(&of).await, outage.made().len()), ("completed", 1));
}

async fn a_replay_of_a_delayed_run_has_the_same_events(outage: OutageEnv) {
    outage.set_down(true);
    let of = outage.start(agent(&[call("c1", "local", json!({}))], "allow")).await;
    outage.set_down(false);
    outage.advance(1000).await;
    assert_eq!(outage.env.status(&of).await, "completed");
    let log = outage.env.log(&of).await;
    let copy = fork(&outage.env, &of, ForkMode::Replay, 0).await;
    let found = outage.env.log(&copy).await;
    let found: Vec<String> = found.iter().map(|event| event.replace(of.run.as_str(), "RUN")).collect();
    assert_eq!(found[1..], log[1..]);
}

async fn an_edited_call_to_an_unreachable_server_asks_again_with_the_edit(outage: OutageEnv) {
    let of = outage.start(agent(&[call("c1", "remote", json!({"to": "ann"}))], "ask")).await;
    outage.state.refuses_calls.store(true, Ordering::SeqCst);
    let edit = json!({"arguments": {"to": "bob"}});
    decide(&outage.env.engine, &of, "c1", &resume("d1", edit)).await.unwrap();
    outage.env.drain().await;
    let run = outage.env.run(&of).await;
    let interrupt = run.open_interrupts().next().unwrap();
    assert_eq!(interrupt.data["artifactData"]["arguments"], json!({"to": "bob"}), "{:?}", interrupt.data);
    outage.state.refuses_calls.store(false, Ordering::SeqCst);
    decide(&outage.env.engine, &of, "c1", &resume("d2", Value::Null)).await.unwrap();
    outage.env.drain().await;
    assert_eq!(outage.env.status(&of).await, "completed");
    assert_eq!(*outage.calls.lock().unwrap(), [("c1".to_owned(), json!({"to": "bob"}))]);
}

async fn a_message_continues_a_run_with_a_dead_letter(outage: OutageEnv) {
    outage.set_down(true);
    let of = outage.start(agent(&[call("c1", "remote", json!({}))], "allow")).await;
    outage.advance(OUTAGE_MS).await;
    assert_eq!(outage.last_dispatch(&of).await.status, RunDispatchStatus::DeadLetter);
    outage.set_down(false);
    let message = Message::new("m2".to_owned(), Role::User, "are you there?");
    outage.env.engine.agents().send_messages(&of, vec![message], Default::default()).await.unwrap();
    outage.env.drain().await;
    assert_eq!((outage.env.status(&of).await, outage.made().len()), ("completed", 1));
}

async fn a_draining_pause_pauses_a_run_with_a_dead_letter(outage: OutageEnv) {
    outage.set_down(true);
    let of = outage.start(agent(&[call("c1", "remote", json!({}))], "allow")).await;
    outage.advance(OUTAGE_MS).await;
    outage.set_down(false);
    let pause = Command::Pause { reason: None, drain: Drain::DrainCurrentNode, by: alice() };
    outage.env.engine.runs().execute(&of, &pause).await.unwrap();
    assert_eq!(outage.env.status(&of).await, "paused");
    outage.env.engine.runs().execute(&of, &Command::Resume { by: alice() }).await.unwrap();
    outage.env.drain().await;
    assert_eq!((outage.env.status(&of).await, outage.made().len()), ("completed", 1));
}
