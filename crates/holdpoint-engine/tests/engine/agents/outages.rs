//! Servers of tools and models that are away: the run waits for them where everybody can see it, nothing that somebody has
//! approved is lost, and an operator lets it go on.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use holdpoint_engine::agent::AgentSettings;
use holdpoint_engine::agent::tool::{
    Call, Calling, Listing, Reaching, Returned, ToolError, ToolSpec, Toolbox,
};
use holdpoint_engine::core::agent::{Message, Role};
use holdpoint_engine::core::mailbox::{RunDispatch, RunDispatchStatus};
use holdpoint_engine::core::{Command, Delay, Drain, ForkMode, NodeId, RunRef, TenantId};
use holdpoint_engine::{Error, Options};
use serde_json::{Value, json};

use super::{Calls, call, counting_tool, decide, refuse, resume, talk};
use crate::forks::fork;
use crate::house::{House, alice, tenant};
use crate::place::{Place, Subject, on_both};

on_both! {
    a_call_that_needs_no_server_is_made_while_another_server_is_away,
    an_approved_call_waits_for_its_server_and_is_made_once,
    a_denied_call_needs_no_server_to_be_denied,
    a_run_that_was_given_up_stays_open_and_goes_on_when_its_dispatch_is_requeued,
    a_run_that_was_given_up_can_be_cancelled,
    a_run_whose_dead_letter_is_gone_goes_on_when_it_is_paused_and_resumed,
    an_approved_call_that_found_nobody_is_asked_about_again,
    an_edited_call_that_found_nobody_is_asked_about_with_the_edit,
    a_message_lets_a_run_that_was_given_up_go_on,
    a_pause_that_drains_pauses_a_run_that_was_given_up,
    a_call_that_found_nobody_is_told_to_the_agent_if_nobody_approved_it,
    a_model_that_is_away_delays_the_run,
    a_restart_during_an_outage_changes_nothing,
    tools_with_short_names_wait_for_servers_that_were_never_listed,
    a_replay_of_a_delayed_run_is_the_same_list,
}

const OUTAGE_MS: i64 = 600_000;

/// A server with one tool that is there or not.
struct Remote {
    spec: Arc<ToolSpec>,
    calls: Calls,
    world: Arc<World>,
}

#[derive(Default)]
struct World {
    away: AtomicBool,
    /// It is there until something is called.
    deaf: AtomicBool,
}

impl Remote {
    fn check(&self) -> Result<(), ToolError> {
        match self.world.away.load(Ordering::SeqCst) {
            true => Err(ToolError::Unreachable("the server remote cannot be reached".to_owned())),
            false => Ok(()),
        }
    }
}

impl Toolbox for Remote {
    fn list<'a>(&'a self, _: &'a TenantId) -> Listing<'a> {
        Box::pin(async { self.check().map(|()| vec![self.spec.clone()]) })
    }

    fn reach(&self) -> Reaching<'_> {
        Box::pin(async { self.check() })
    }

    fn call<'a>(&'a self, call: &'a Call) -> Calling<'a> {
        Box::pin(async move {
            self.check()?;
            if self.world.deaf.load(Ordering::SeqCst) {
                return Err(ToolError::Unreachable("nobody listens".to_owned()));
            }
            self.calls.lock().unwrap().push((call.id.clone(), call.arguments.clone()));
            Ok(Returned::Result(json!("done there")))
        })
    }
}

struct Outpost {
    house: House,
    calls: Calls,
    world: Arc<World>,
}

impl Subject for Outpost {
    async fn at(place: Place) -> Self {
        let (calls, world) = (Calls::default(), Arc::default());
        let house = House::with(place, furnished(&calls, &world)).await;
        Self { house, calls, world }
    }
}

fn furnished(calls: &Calls, world: &Arc<World>) -> impl FnOnce(Options) -> Options + use<> {
    let spec = ToolSpec {
        name: "remote".to_owned(),
        description: String::new(),
        parameters: json!({ "type": "object" }),
        idempotent: false,
        primary: None,
    };
    let remote = Remote { spec: Arc::new(spec), calls: calls.clone(), world: world.clone() };
    let mut rust: BTreeMap<String, Arc<dyn Toolbox>> = [counting_tool("send", calls, false, None)].into();
    rust.insert("remote".to_owned(), Arc::new(remote));
    move |options| options.agents(AgentSettings { rust, ..AgentSettings::default() })
}

/// An agent that makes this call and has a last word. `local` is named by the definition itself.
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

impl Outpost {
    async fn told(&self, definition: Value) -> RunRef {
        self.house.engine.put_agent(&tenant(), definition, None).await.unwrap();
        let run = self.house.engine.start_agent(talk(None, "please")).await.unwrap();
        self.house.drain().await;
        RunRef { tenant: tenant(), run: run.id.clone() }
    }

    fn set_away(&self, away: bool) {
        self.world.away.store(away, Ordering::SeqCst);
    }

    /// Time passes, and whatever is due is done.
    async fn pass(&self, ms: i64) {
        self.house.clock.advance(ms);
        self.house.drain().await;
    }

    async fn delay(&self, of: &RunRef) -> Option<Delay> {
        let run = self.house.run(of).await;
        let delay = run.node_state(&NodeId::parse("agent").unwrap()).unwrap().delay.clone();
        delay.map(|delay| (*delay).clone())
    }

    async fn last_dispatch(&self, of: &RunRef) -> RunDispatch {
        let mail = self.house.engine.mailbox(&tenant());
        let run = self.house.run(of).await;
        mail.list_dispatches(run.thread(), None, 100, 0).await.unwrap().pop().unwrap()
    }

    async fn count(&self, of: &RunRef, kind: &str) -> usize {
        let log = self.house.log(of).await;
        log.iter().filter(|event| event.contains(&format!("\"type\":\"{kind}\""))).count()
    }

    fn made(&self) -> Vec<String> {
        self.calls.lock().unwrap().iter().map(|(id, _)| id.clone()).collect()
    }
}

async fn a_call_that_needs_no_server_is_made_while_another_server_is_away(post: Outpost) {
    let of = post.told(agent(&[call("c1", "send", json!({})), call("c2", "local", json!({}))], "ask")).await;
    assert_eq!(post.house.status(&of).await, "waiting-approval");
    post.set_away(true);
    for id in ["c1", "c2"] {
        decide(&post.house.engine, &of, id, &resume(id, Value::Null)).await.unwrap();
    }
    post.house.drain().await;
    assert_eq!((post.made(), post.count(&of, "agent.toolReturned").await), (vec!["c1".to_owned()], 2));
    // The model is offered all tools or is not asked.
    let delay = post.delay(&of).await.expect("the run says that it waits");
    assert_eq!(delay.error.message, "the server remote cannot be reached");
    assert_eq!(delay.until, Some(delay.since.plus_ms(600_000)));
    let row = post.last_dispatch(&of).await;
    assert_eq!((row.status, row.attempt_count), (RunDispatchStatus::Queued, 0));
    assert_eq!(row.last_error.as_deref(), Some("the server remote cannot be reached"));
    post.pass(OUTAGE_MS / 2).await;
    assert_eq!(post.house.status(&of).await, "running");
    post.set_away(false);
    post.pass(30_000 * 6 / 5).await;
    assert_eq!((post.house.status(&of).await, post.delay(&of).await), ("completed", None));
    assert_eq!((post.made().len(), post.count(&of, "holdpoint.node.delayed").await), (1, 1));
}

async fn an_approved_call_waits_for_its_server_and_is_made_once(post: Outpost) {
    let of = post.told(agent(&[call("c1", "remote", json!({}))], "ask")).await;
    post.set_away(true);
    decide(&post.house.engine, &of, "c1", &resume("d1", Value::Null)).await.unwrap();
    post.house.drain().await;
    for _ in 0..5 {
        post.pass(60_000).await;
    }
    assert_eq!((post.made().len(), post.count(&of, "holdpoint.tool.begun").await), (0, 0));
    // The same decision is still the same decision.
    decide(&post.house.engine, &of, "c1", &resume("d1", Value::Null)).await.unwrap();
    post.set_away(false);
    post.pass(36_000).await;
    assert_eq!((post.house.status(&of).await, post.made().len()), ("completed", 1));
    assert_eq!(post.count(&of, "holdpoint.tool.begun").await, 1);
}

async fn a_denied_call_needs_no_server_to_be_denied(post: Outpost) {
    let of = post.told(agent(&[call("c1", "send", json!({}))], "ask")).await;
    post.set_away(true);
    decide(&post.house.engine, &of, "c1", &refuse("d1")).await.unwrap();
    post.house.drain().await;
    assert_eq!((post.made().len(), post.count(&of, "agent.toolReturned").await), (0, 1));
}

async fn a_run_that_was_given_up_stays_open_and_goes_on_when_its_dispatch_is_requeued(post: Outpost) {
    let of = post.told(agent(&[call("c1", "remote", json!({}))], "ask")).await;
    post.set_away(true);
    decide(&post.house.engine, &of, "c1", &resume("d1", Value::Null)).await.unwrap();
    post.house.drain().await;
    let since = post.delay(&of).await.unwrap().since;
    post.pass(OUTAGE_MS - 1).await;
    assert_eq!(post.last_dispatch(&of).await.status, RunDispatchStatus::Queued);
    post.pass(1).await;
    let dead = post.last_dispatch(&of).await;
    assert_eq!(dead.status, RunDispatchStatus::DeadLetter);
    let delay = post.delay(&of).await.unwrap();
    assert_eq!((delay.since, delay.until), (since, None));
    // Nobody touches it: neither the upkeep nor time.
    post.pass(24 * 3_600_000).await;
    assert_eq!((post.house.status(&of).await, post.made().len()), ("running", 0));
    let again = post.house.engine.requeue_dispatch(&tenant(), &dead.dispatch_id, None).await.unwrap();
    let twice = post.house.engine.requeue_dispatch(&tenant(), &dead.dispatch_id, None).await;
    assert!(matches!(twice, Err(Error::Mailbox(_))), "{twice:?}");
    post.house.drain().await;
    assert!(post.delay(&of).await.unwrap().until.is_some(), "still away: it is waited for once more");
    post.set_away(false);
    post.pass(1000).await;
    assert_eq!((post.house.status(&of).await, post.made().len()), ("completed", 1));
    assert_eq!(post.last_dispatch(&of).await.dispatch_id, again.dispatch_id);
}

async fn a_run_that_was_given_up_can_be_cancelled(post: Outpost) {
    post.set_away(true);
    let of = post.told(agent(&[call("c1", "remote", json!({}))], "allow")).await;
    post.pass(OUTAGE_MS).await;
    let dead = post.last_dispatch(&of).await;
    assert_eq!(dead.status, RunDispatchStatus::DeadLetter);
    post.house.engine.cancel(&of, None, alice()).await.unwrap();
    assert_eq!(post.house.status(&of).await, "cancelled");
    let requeued = post.house.engine.requeue_dispatch(&tenant(), &dead.dispatch_id, None).await;
    assert!(matches!(requeued, Err(Error::Refused(_))), "{requeued:?}");
    post.set_away(false);
    post.pass(60_000).await;
    assert_eq!(post.made().len(), 0);
}

async fn a_run_whose_dead_letter_is_gone_goes_on_when_it_is_paused_and_resumed(post: Outpost) {
    post.set_away(true);
    let of = post.told(agent(&[call("c1", "remote", json!({}))], "allow")).await;
    post.pass(OUTAGE_MS).await;
    post.house.clock.advance(2 * 24 * 3_600_000);
    post.house.engine.worker().tidy().await;
    let dispatches = post.house.place.read("SELECT status FROM dispatches").await;
    assert!(dispatches.is_empty(), "{dispatches:?}");
    post.set_away(false);
    let pause = Command::Pause { reason: None, drain: Drain::Immediate, by: alice() };
    post.house.engine.execute(&of, &pause).await.unwrap();
    post.house.engine.execute(&of, &Command::Resume { by: alice() }).await.unwrap();
    post.house.drain().await;
    assert_eq!((post.house.status(&of).await, post.made().len()), ("completed", 1));
}

async fn an_approved_call_that_found_nobody_is_asked_about_again(post: Outpost) {
    let of = post.told(agent(&[call("c1", "remote", json!({}))], "ask")).await;
    post.world.deaf.store(true, Ordering::SeqCst);
    decide(&post.house.engine, &of, "c1", &resume("d1", Value::Null)).await.unwrap();
    post.house.drain().await;
    assert_eq!((post.house.status(&of).await, post.made().len()), ("waiting-approval", 0));
    let run = post.house.run(&of).await;
    let asked = run.open_interrupts().next().unwrap();
    let message = asked.data["suspension"]["message"].as_str().unwrap();
    assert!(
        message.starts_with("remote was not carried out: nobody listens. Accept to call it again"),
        "{message}"
    );
    post.world.deaf.store(false, Ordering::SeqCst);
    decide(&post.house.engine, &of, "c1", &resume("d2", Value::Null)).await.unwrap();
    post.house.drain().await;
    assert_eq!((post.house.status(&of).await, post.made().len()), ("completed", 1));
}

async fn a_call_that_found_nobody_is_told_to_the_agent_if_nobody_approved_it(post: Outpost) {
    post.world.deaf.store(true, Ordering::SeqCst);
    let of = post.told(agent(&[call("c1", "remote", json!({}))], "allow")).await;
    assert_eq!(post.house.status(&of).await, "completed");
    assert!(post.house.log(&of).await.iter().any(|event| event.contains("nobody listens")));
}

async fn a_model_that_is_away_delays_the_run(post: Outpost) {
    let mut definition = agent(&[], "allow");
    definition["model"]["steps"] = json!([{ "error": "unavailable" }]);
    let of = post.told(definition).await;
    let delay = post.delay(&of).await.expect("it waits");
    assert!(delay.error.message.starts_with("the model is not available"), "{delay:?}");
    post.pass(OUTAGE_MS).await;
    assert_eq!(post.last_dispatch(&of).await.status, RunDispatchStatus::DeadLetter);
    assert_eq!(post.house.status(&of).await, "running");
}

async fn a_restart_during_an_outage_changes_nothing(post: Outpost) {
    let of = post.told(agent(&[call("c1", "remote", json!({}))], "ask")).await;
    post.set_away(true);
    decide(&post.house.engine, &of, "c1", &resume("d1", Value::Null)).await.unwrap();
    post.house.drain().await;
    let before = post.delay(&of).await;
    let Outpost { house, calls, world } = post;
    let house = house.reopen(furnished(&calls, &world)).await;
    let post = Outpost { house, calls, world };
    post.pass(60_000).await;
    assert_eq!((post.delay(&of).await, post.made().len()), (before, 0));
    post.set_away(false);
    post.pass(36_000).await;
    assert_eq!((post.house.status(&of).await, post.made().len()), ("completed", 1));
}

/// The short name might be that of a tool of the server that is away.
async fn tools_with_short_names_wait_for_servers_that_were_never_listed(post: Outpost) {
    let of = post.told(agent(&[call("c1", "send", json!({})), call("c2", "local", json!({}))], "ask")).await;
    let Outpost { house, calls, world } = post;
    world.away.store(true, Ordering::SeqCst);
    let house = house.reopen(furnished(&calls, &world)).await;
    let post = Outpost { house, calls, world };
    for id in ["c1", "c2"] {
        decide(&post.house.engine, &of, id, &resume(id, Value::Null)).await.unwrap();
    }
    post.house.drain().await;
    assert_eq!((post.made().len(), post.count(&of, "agent.toolReturned").await), (0, 1));
    post.set_away(false);
    post.pass(1000).await;
    assert_eq!((post.house.status(&of).await, post.made().len()), ("completed", 1));
}

async fn a_replay_of_a_delayed_run_is_the_same_list(post: Outpost) {
    post.set_away(true);
    let of = post.told(agent(&[call("c1", "local", json!({}))], "allow")).await;
    post.set_away(false);
    post.pass(1000).await;
    assert_eq!(post.house.status(&of).await, "completed");
    let log = post.house.log(&of).await;
    let copy = fork(&post.house, &of, ForkMode::Replay, 0).await;
    let found = post.house.log(&copy).await;
    let found: Vec<String> = found.iter().map(|event| event.replace(of.run.as_str(), "RUN")).collect();
    assert_eq!(found[1..], log[1..]);
}

async fn an_edited_call_that_found_nobody_is_asked_about_with_the_edit(post: Outpost) {
    let of = post.told(agent(&[call("c1", "remote", json!({"to": "ann"}))], "ask")).await;
    post.world.deaf.store(true, Ordering::SeqCst);
    let edit = json!({"arguments": {"to": "bob"}});
    decide(&post.house.engine, &of, "c1", &resume("d1", edit)).await.unwrap();
    post.house.drain().await;
    let run = post.house.run(&of).await;
    let asked = run.open_interrupts().next().unwrap();
    assert_eq!(asked.data["artifactData"]["arguments"], json!({"to": "bob"}), "{:?}", asked.data);
    post.world.deaf.store(false, Ordering::SeqCst);
    decide(&post.house.engine, &of, "c1", &resume("d2", Value::Null)).await.unwrap();
    post.house.drain().await;
    assert_eq!(post.house.status(&of).await, "completed");
    assert_eq!(*post.calls.lock().unwrap(), [("c1".to_owned(), json!({"to": "bob"}))]);
}

async fn a_message_lets_a_run_that_was_given_up_go_on(post: Outpost) {
    post.set_away(true);
    let of = post.told(agent(&[call("c1", "remote", json!({}))], "allow")).await;
    post.pass(OUTAGE_MS).await;
    assert_eq!(post.last_dispatch(&of).await.status, RunDispatchStatus::DeadLetter);
    post.set_away(false);
    let message = Message::new("m2".to_owned(), Role::User, "are you there?");
    post.house.engine.say(&of, vec![message], None).await.unwrap();
    post.house.drain().await;
    assert_eq!((post.house.status(&of).await, post.made().len()), ("completed", 1));
}

async fn a_pause_that_drains_pauses_a_run_that_was_given_up(post: Outpost) {
    post.set_away(true);
    let of = post.told(agent(&[call("c1", "remote", json!({}))], "allow")).await;
    post.pass(OUTAGE_MS).await;
    post.set_away(false);
    let pause = Command::Pause { reason: None, drain: Drain::DrainCurrentNode, by: alice() };
    post.house.engine.execute(&of, &pause).await.unwrap();
    assert_eq!(post.house.status(&of).await, "paused");
    post.house.engine.execute(&of, &Command::Resume { by: alice() }).await.unwrap();
    post.house.drain().await;
    assert_eq!((post.house.status(&of).await, post.made().len()), ("completed", 1));
}
