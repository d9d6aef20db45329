//! A process that dies in the middle of a call: what is on record is never repeated, and what is in doubt is asked about.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use holdpoint_engine::Options;
use holdpoint_engine::agent::tool::{Call, Calling, Listing, Returned, ToolError, ToolSpec, Toolbox};
use holdpoint_engine::agent::{AgentSettings, Connection, Connections};
use holdpoint_engine::core::agent::CallStatus;
use holdpoint_engine::core::{Principal, TenantId};
use serde_json::{Value, json};

use super::{Calls, Office, agent, call, furnished, refuse, resume};
use crate::house::House;
use crate::place::{Place, on_both};

on_both! {
    a_call_whose_outcome_nobody_knows_becomes_a_question,
    a_call_that_may_be_repeated_is_repeated,
    a_call_in_doubt_is_asked_about_when_the_approvers_of_its_connection_are_known,
}

/// A tool whose answer never comes back, though it did its work.
struct Cut {
    spec: Arc<ToolSpec>,
    calls: Calls,
    /// How often it is cut.
    times: usize,
}

impl Toolbox for Cut {
    fn list<'a>(&'a self, _: &'a TenantId) -> Listing<'a> {
        Box::pin(async { Ok(vec![self.spec.clone()]) })
    }

    fn call<'a>(&'a self, call: &'a Call) -> Calling<'a> {
        Box::pin(async move {
            let mut calls = self.calls.lock().unwrap();
            calls.push((call.id.clone(), call.arguments.clone()));
            if calls.len() <= self.times {
                return Err(ToolError::Unknown("the connection was cut".to_owned()));
            }
            Ok(Returned::Result(json!("done")))
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

async fn office(place: Place, idempotent: bool) -> Office {
    let calls = Calls::default();
    let cut: Arc<dyn Toolbox> = Arc::new(Cut { spec: send_spec(idempotent), calls: calls.clone(), times: 1 });
    let rust = [("send".to_owned(), cut)].into();
    let settings = AgentSettings { rust, ..AgentSettings::default() };
    let house = House::with(place, |options| furnished(&calls)(options).agents(settings)).await;
    let office = Office { house, calls };
    let mut definition = agent(&json!([{ "calls": [call("c1", "send", json!({}))] }, { "text": "Done." }]));
    definition["tools"] = json!([{ "type": "rust", "name": "send" }]);
    definition["permissions"] = json!({ "rules": [{ "tool": "send", "behavior": "allow" }] });
    office.hire(definition).await;
    office
}

async fn a_call_whose_outcome_nobody_knows_becomes_a_question(place: Place) {
    let office = office(place, false).await;
    let again = office.told(None, "please").await;
    assert_eq!((office.house.status(&again).await, office.calls().len()), ("waiting-approval", 1));
    let asked = office.house.run(&again).await;
    let asked = asked.open_interrupts().next().unwrap().clone();
    assert_eq!(asked.data["suspension"]["action"], "tool:OutcomeUnknown");
    office.decide(&again, "c1", &resume("d1", Value::Null)).await.unwrap();
    office.house.drain().await;
    assert_eq!((office.house.status(&again).await, office.calls().len()), ("completed", 2), "made again");
    office.calls.lock().unwrap().clear();
    let left = office.told(None, "please").await;
    office.decide(&left, "c1", &refuse("d1")).await.unwrap();
    office.house.drain().await;
    assert_eq!((office.call(&left, "c1").await, office.calls().len()), (CallStatus::Cancelled, 1));
    office.calls.lock().unwrap().clear();
    let known = office.told(None, "please").await;
    let result = json!({ "result": "it was sent" });
    office.decide(&known, "c1", &resume("d1", result)).await.unwrap();
    office.house.drain().await;
    assert_eq!((office.call(&known, "c1").await, office.calls().len()), (CallStatus::Succeeded, 1));
    assert_eq!(office.agent(&known).await.messages[2].content, "it was sent");
}

async fn a_call_that_may_be_repeated_is_repeated(place: Place) {
    let office = office(place, true).await;
    let of = office.told(None, "please").await;
    assert_eq!((office.house.status(&of).await, office.calls().len()), ("completed", 2));
}

/// A tool of a connection whose every call ends the worker. Its server can be away.
struct Fatal {
    away: Arc<AtomicBool>,
}

impl Toolbox for Fatal {
    fn list<'a>(&'a self, _: &'a TenantId) -> Listing<'a> {
        let list = match self.away.load(Ordering::SeqCst) {
            true => Err(ToolError::Unreachable("the server cannot be reached".to_owned())),
            false => Ok(vec![send_spec(false)]),
        };
        Box::pin(async { list })
    }

    fn call<'a>(&'a self, _: &'a Call) -> Calling<'a> {
        Box::pin(async { panic!("the worker ends here") })
    }
}

fn with_fatal_connection(away: &Arc<AtomicBool>) -> impl FnOnce(Options) -> Options + use<> {
    let fatal: Arc<dyn Toolbox> = Arc::new(Fatal { away: away.clone() });
    let post = json!({ "type": "rust", "name": "send", "approval": { "approversList": ["bob"] } });
    let tools = [("post".to_owned(), Connection::tool(post).unwrap())].into();
    let connections = Connections { tools, ..Connections::default() };
    let rust = [("send".to_owned(), fatal)].into();
    move |options| options.agents(AgentSettings { rust, connections, ..AgentSettings::default() })
}

async fn a_call_in_doubt_is_asked_about_when_the_approvers_of_its_connection_are_known(place: Place) {
    let away = Arc::new(AtomicBool::new(false));
    let house = House::with(place, with_fatal_connection(&away)).await;
    let office = Office { house, calls: Calls::default() };
    let mut definition = agent(&json!([{ "calls": [call("c1", "send", json!({}))] }]));
    definition["tools"] = json!([{ "use": "post" }]);
    definition["permissions"] = json!({ "default": "allow" });
    office.hire(definition).await;
    let of = office.told(None, "please").await;
    assert_eq!(office.call(&of, "c1").await, CallStatus::Running);

    away.store(true, Ordering::SeqCst);
    let house = office.house.reopen(with_fatal_connection(&away)).await;
    let office = Office { house, calls: office.calls };
    office.house.clock.advance(60_000);
    office.house.drain().await;
    assert_eq!(office.call(&of, "c1").await, CallStatus::Running, "nobody is asked yet");

    away.store(false, Ordering::SeqCst);
    office.house.clock.advance(60_000);
    office.house.drain().await;
    let run = office.house.run(&of).await;
    let asked = run.open_interrupts().next().expect("the approver is asked");
    assert_eq!(asked.data["suspension"]["action"], "tool:OutcomeUnknown");
    assert_eq!(asked.data["operatorApproval"]["approversList"], json!(["bob"]));
    assert!(office.decide(&of, "c1", &refuse("d1")).await.is_err(), "alice is no approver of the connection");
    let by_bob = office.house.engine.decide_call(&of, "c1", &refuse("d2"), Principal::named("bob")).await;
    assert!(by_bob.is_ok(), "{by_bob:?}");
}
