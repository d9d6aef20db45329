//! The operator's rules for connections: a definition that uses one can be stricter, and never laxer.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use holdpoint_engine::agent::tool::{Call, Calling, Listing, Returned, ToolSpec, Toolbox};
use holdpoint_engine::agent::{AgentSettings, Connection, Connections};
use holdpoint_engine::core::agent::CallStatus;
use holdpoint_engine::core::{InterruptId, Principal, RunRef, TenantId};
use serde_json::{Value, json};

use super::{Calls, Office, call, counting_tool, resume};
use crate::house::House;
use crate::place::{Place, on_both};

on_both! {
    a_definition_does_not_get_past_the_ask_rule_of_a_connection,
    the_rules_of_a_connection_hold_under_every_name,
    a_connection_decides_how_many_must_agree_and_that_nothing_is_edited,
    a_definition_chooses_only_among_the_tools_that_a_connection_offers,
    an_approval_is_not_good_for_a_tool_of_another_connection,
}

/// An office whose agents can use these connections.
async fn office(place: Place, connections: Value, more: Vec<(String, Arc<dyn Toolbox>)>) -> Office {
    let calls = Calls::default();
    let mut rust: BTreeMap<_, _> = [counting_tool("send", &calls, false, None)].into();
    rust.extend(more);
    let named = connections.as_object().unwrap().iter();
    let tools = named.map(|(name, value)| (name.clone(), Connection::tool(value.clone()).unwrap())).collect();
    let connections = Connections { tools, ..Connections::default() };
    let settings = AgentSettings { rust, connections, ..AgentSettings::default() };
    let house = House::with(place, move |options| options.agents(settings)).await;
    Office { house, calls }
}

/// An agent that lets every call pass and makes one.
fn careless(tools: Value, tool: &str) -> Value {
    let steps = json!([{ "calls": [call("c1", tool, json!({ "to": "bob" }))] }, { "text": "Done." }]);
    json!({
        "agentId": "clerk", "model": { "provider": "scripted", "steps": steps }, "tools": tools,
        "permissions": { "default": "allow" },
    })
}

async fn decide(office: &Office, of: &RunRef, name: &str) -> Result<(), String> {
    let decided = resume(&format!("by-{name}"), Value::Null);
    let by = Principal::named(name);
    let decided = office.house.engine.decide_call(of, "c1", &decided, by).await;
    office.house.drain().await;
    decided.map(|_| ()).map_err(|error| error.to_string())
}

async fn a_definition_does_not_get_past_the_ask_rule_of_a_connection(place: Place) {
    let approval = json!({ "approversList": ["bob", "carol", "tester"], "requesterMayNotApprove": true });
    let post =
        json!({ "type": "rust", "name": "send", "permissions": { "default": "ask" }, "approval": approval });
    let office = office(place, json!({ "post": post }), Vec::new()).await;
    let mut definition = careless(json!([{ "use": "post" }]), "send");
    definition["approval"] = json!({ "approversList": ["alice", "bob", "tester"] });
    office.hire(definition).await;
    let of = office.told(None, "please").await;
    assert_eq!((office.house.status(&of).await, office.calls().len()), ("waiting-approval", 0));
    let asked = office.house.run(&of).await.interrupt(InterruptId(1)).unwrap().data.clone();
    assert_eq!(asked["operatorApproval"]["connection"], "post");
    assert_eq!(asked["operatorApproval"]["approversList"], approval["approversList"]);
    assert_eq!(asked["requesterMayNotApprove"], true);
    for name in ["alice", "carol", "tester"] {
        assert!(
            decide(&office, &of, name).await.is_err(),
            "{name} is not in both lists, or is the requester"
        );
    }
    assert_eq!(office.calls().len(), 0);
    decide(&office, &of, "bob").await.unwrap();
    assert_eq!((office.house.status(&of).await, office.calls().len()), ("completed", 1));
}

async fn the_rules_of_a_connection_hold_under_every_name(place: Place) {
    let wipe = json!({ "type": "scripted", "name": "wipe", "result": "wiped",
        "permissions": { "default": "allow", "rules": ["deny wipe"] } });
    let office = office(place, json!({ "disk": wipe }), Vec::new()).await;
    for name in ["wipe", "harmless"] {
        office.hire(careless(json!([{ "use": "disk", "name": name }]), name)).await;
        let of = office.told(None, "please").await;
        assert_eq!(office.call(&of, "c1").await, CallStatus::Failed, "{name}");
        let agent = office.agent(&of).await;
        let why = agent.call("c1").unwrap().why.clone().unwrap();
        assert!(why.starts_with("connection disk: rules[0], `deny wipe`"), "{why}");
    }
}

async fn a_connection_decides_how_many_must_agree_and_that_nothing_is_edited(place: Place) {
    let rules = |approval: Value| json!({ "type": "rust", "name": "send", "permissions": { "default": "ask" }, "approval": approval });
    let connections = json!({
        "two": rules(json!({ "requiredApprovals": 2 })), "fixed": rules(json!({ "editable": false })),
    });
    let office = office(place, connections, Vec::new()).await;
    for (name, approvers) in [("two", &["alice", "bob"][..]), ("fixed", &["alice"][..])] {
        office.hire(careless(json!([{ "use": name }]), "send")).await;
        let of = office.told(None, "please").await;
        let asked = office.house.run(&of).await.interrupt(InterruptId(1)).unwrap().data.clone();
        assert_eq!(asked["actions"], json!(["accept", "reject", "ask"]), "{name}");
        let before = office.calls().len();
        for approver in approvers {
            assert_eq!(office.calls().len(), before, "{name}");
            decide(&office, &of, approver).await.unwrap();
        }
        assert_eq!(
            (office.house.status(&of).await, office.calls().len()),
            ("completed", before + 1),
            "{name}"
        );
    }
}

async fn a_definition_chooses_only_among_the_tools_that_a_connection_offers(place: Place) {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/tools/server.py");
    let files =
        json!({ "type": "mcp", "name": "files", "command": ["python3", script], "tools": ["echo", "su*"] });
    let office = office(place, json!({ "files": files }), Vec::new()).await;
    for (tool, status) in [("echo", CallStatus::Succeeded), ("fail", CallStatus::Failed)] {
        let tools = json!([{ "use": "files", "tools": ["echo", "fail", "picture"] }]);
        office.hire(careless(tools, tool)).await;
        let of = office.told(None, "please").await;
        let agent = office.agent(&of).await;
        let made = agent.call("c1").unwrap();
        assert_eq!(made.status, status, "{tool}: {made:?}");
        let missing = made.why.as_deref() == Some("there is no such tool");
        assert_eq!(missing, tool == "fail", "{made:?}");
    }
}

/// A tool that is there or not, and counts its calls.
struct Fickle {
    is_there: Arc<AtomicBool>,
    there: bool,
    calls: Arc<Mutex<usize>>,
}

impl Toolbox for Fickle {
    fn list<'a>(&'a self, _: &'a TenantId) -> Listing<'a> {
        let spec = ToolSpec {
            name: "wipe".to_owned(),
            description: String::new(),
            parameters: json!({ "type": "object" }),
            idempotent: false,
            primary: None,
        };
        let listed = self.is_there.load(Ordering::SeqCst) == self.there;
        Box::pin(async move { Ok(listed.then(|| Arc::new(spec)).into_iter().collect()) })
    }

    fn call<'a>(&'a self, _: &'a Call) -> Calling<'a> {
        Box::pin(async {
            *self.calls.lock().unwrap() += 1;
            Ok(Returned::Result(json!("wiped")))
        })
    }
}

async fn an_approval_is_not_good_for_a_tool_of_another_connection(place: Place) {
    let (is_there, calls) = (Arc::new(AtomicBool::new(true)), Arc::new(Mutex::new(0)));
    let fickle = |name: &str, there: bool| -> (String, Arc<dyn Toolbox>) {
        (name.to_owned(), Arc::new(Fickle { is_there: is_there.clone(), there, calls: calls.clone() }))
    };
    let approval = json!({ "approversList": ["bob"] });
    let disk =
        json!({ "type": "rust", "name": "disk", "permissions": { "default": "ask" }, "approval": approval });
    let more = vec![fickle("decoy", true), fickle("disk", false)];
    let office = office(place, json!({ "disk": disk }), more).await;
    let mut definition = careless(json!([{ "type": "rust", "name": "decoy" }, { "use": "disk" }]), "wipe");
    definition["permissions"] = json!({ "default": "ask" });
    office.hire(definition).await;
    let of = office.told(None, "please").await;
    // Alice allows a call of the decoy. Before it is made, the name belongs to the operator's disk.
    is_there.store(false, Ordering::SeqCst);
    decide(&office, &of, "alice").await.unwrap();
    assert_eq!((office.house.status(&of).await, *calls.lock().unwrap()), ("waiting-approval", 0));
    let again = resume("again", Value::Null);
    let refused = office.house.engine.decide_call(&of, "c1", &again, Principal::named("alice")).await;
    assert!(refused.is_err());
    decide(&office, &of, "bob").await.unwrap();
    assert_eq!((office.house.status(&of).await, *calls.lock().unwrap()), ("completed", 1));
}
