//! The operator's rules for connections: a definition can add restrictions and cannot remove any.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use holdpoint_agents::tool::{Call, CallFuture, CallOutcome, ListFuture, ToolSpec, Toolbox};
use holdpoint_agents::{AgentRuntime, AgentSettings, Connection, Connections, EngineAgents};
use holdpoint_engine::core::agent::CallStatus;
use holdpoint_engine::core::{InterruptId, Principal, RunRef, TenantId};
use serde_json::{Value, json};

use super::{AgentEnv, Calls, call, counting_tool, resume};
use crate::test_database::{TestDatabase, on_both};
use crate::test_env::TestEnv;

on_both! {
    a_definition_cannot_bypass_the_ask_rule_of_a_connection,
    the_rules_of_a_connection_apply_under_every_name,
    a_connection_can_require_approvals_and_forbid_edits,
    a_definition_can_use_only_the_tools_that_a_connection_offers,
    an_approval_is_not_valid_for_a_tool_of_another_connection,
}

/// Prepares an engine whose agents can use these connections.
async fn prepare(
    database: TestDatabase,
    connections: Value,
    more: Vec<(String, Arc<dyn Toolbox>)>,
) -> AgentEnv {
    let calls = Calls::default();
    let mut rust: BTreeMap<_, _> = [counting_tool("send", &calls, false, None)].into();
    rust.extend(more);
    let named = connections.as_object().unwrap().iter();
    let tools = named.map(|(name, value)| (name.clone(), Connection::tool(value.clone()).unwrap())).collect();
    let connections = Connections { tools, ..Connections::default() };
    let settings = AgentSettings { rust, connections, ..AgentSettings::default() };
    let env = TestEnv::with(database, move |options| options.extension(AgentRuntime::new(settings))).await;
    AgentEnv { env, calls }
}

/// An agent that allows every call and makes one.
fn permissive(tools: Value, tool: &str) -> Value {
    let steps = json!([{ "calls": [call("c1", tool, json!({ "to": "bob" }))] }, { "text": "Done." }]);
    json!({
        "agentId": "clerk", "model": { "provider": "scripted", "steps": steps }, "tools": tools,
        "permissions": { "default": "allow" },
    })
}

async fn decide(agents: &AgentEnv, of: &RunRef, name: &str) -> Result<(), String> {
    let decided = resume(&format!("by-{name}"), Value::Null);
    let by = Principal::named(name);
    let decided = agents.env.engine.agents().decide_call(of, "c1", &decided, by).await;
    agents.env.drain().await;
    decided.map(|_| ()).map_err(|error| error.to_string())
}

async fn a_definition_cannot_bypass_the_ask_rule_of_a_connection(database: TestDatabase) {
    let approval = json!({ "approversList": ["bob", "carol", "tester"], "requesterMayNotApprove": true });
    let post =
        json!({ "type": "rust", "name": "send", "permissions": { "default": "ask" }, "approval": approval });
    let agents = prepare(database, json!({ "post": post }), Vec::new()).await;
    let mut definition = permissive(json!([{ "use": "post" }]), "send");
    definition["approval"] = json!({ "approversList": ["alice", "bob", "tester"] });
    agents.declare(definition).await;
    let of = agents.send(None, "please").await;
    assert_eq!((agents.env.status(&of).await, agents.calls().len()), ("waiting-approval", 0));
    let shown = agents.env.run(&of).await.interrupt(InterruptId(1)).unwrap().data.clone();
    assert_eq!(shown["operatorApproval"]["connection"], "post");
    assert_eq!(shown["operatorApproval"]["approversList"], approval["approversList"]);
    assert_eq!(shown["requesterMayNotApprove"], true);
    for name in ["alice", "carol", "tester"] {
        assert!(
            decide(&agents, &of, name).await.is_err(),
            "{name} is not in both lists, or is the requester"
        );
    }
    assert_eq!(agents.calls().len(), 0);
    decide(&agents, &of, "bob").await.unwrap();
    assert_eq!((agents.env.status(&of).await, agents.calls().len()), ("completed", 1));
}

async fn the_rules_of_a_connection_apply_under_every_name(database: TestDatabase) {
    let wipe = json!({ "type": "scripted", "name": "wipe", "result": "wiped",
        "permissions": { "default": "allow", "rules": ["deny wipe"] } });
    let agents = prepare(database, json!({ "disk": wipe }), Vec::new()).await;
    for name in ["wipe", "harmless"] {
        agents.declare(permissive(json!([{ "use": "disk", "name": name }]), name)).await;
        let of = agents.send(None, "please").await;
        assert_eq!(agents.call(&of, "c1").await, CallStatus::Failed, "{name}");
        let agent = agents.agent(&of).await;
        let why = agent.call("c1").unwrap().why.clone().unwrap();
        assert!(why.starts_with("connection disk: rules[0], `deny wipe`"), "{why}");
    }
}

async fn a_connection_can_require_approvals_and_forbid_edits(database: TestDatabase) {
    let rules = |approval: Value| json!({ "type": "rust", "name": "send", "permissions": { "default": "ask" }, "approval": approval });
    let connections = json!({
        "two": rules(json!({ "requiredApprovals": 2 })), "fixed": rules(json!({ "editable": false })),
    });
    let agents = prepare(database, connections, Vec::new()).await;
    for (name, approvers) in [("two", &["alice", "bob"][..]), ("fixed", &["alice"][..])] {
        agents.declare(permissive(json!([{ "use": name }]), "send")).await;
        let of = agents.send(None, "please").await;
        let shown = agents.env.run(&of).await.interrupt(InterruptId(1)).unwrap().data.clone();
        assert_eq!(shown["actions"], json!(["accept", "reject", "ask"]), "{name}");
        let before = agents.calls().len();
        for approver in approvers {
            assert_eq!(agents.calls().len(), before, "{name}");
            decide(&agents, &of, approver).await.unwrap();
        }
        assert_eq!((agents.env.status(&of).await, agents.calls().len()), ("completed", before + 1), "{name}");
    }
}

async fn a_definition_can_use_only_the_tools_that_a_connection_offers(database: TestDatabase) {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/agents/tools/server.py");
    let files =
        json!({ "type": "mcp", "name": "files", "command": ["python3", script], "tools": ["echo", "su*"] });
    let agents = prepare(database, json!({ "files": files }), Vec::new()).await;
    for (tool, status) in [("echo", CallStatus::Succeeded), ("fail", CallStatus::Failed)] {
        let tools = json!([{ "use": "files", "tools": ["echo", "fail", "picture"] }]);
        agents.declare(permissive(tools, tool)).await;
        let of = agents.send(None, "please").await;
        let agent = agents.agent(&of).await;
        let made = agent.call("c1").unwrap();
        assert_eq!(made.status, status, "{tool}: {made:?}");
        let missing = made.why.as_deref() == Some("there is no such tool");
        assert_eq!(missing, tool == "fail", "{made:?}");
    }
}

/// A tool that is listed while the shared switch has its value, and that counts its calls.
struct SwitchedTool {
    switch: Arc<AtomicBool>,
    listed_if: bool,
    calls: Arc<Mutex<usize>>,
}

impl Toolbox for SwitchedTool {
    fn list<'a>(&'a self, _: &'a TenantId) -> ListFuture<'a> {
        let spec = ToolSpec {
            name: "wipe".to_owned(),
            description: String::new(),
            parameters: json!({ "type": "object" }),
            idempotent: false,
            primary: None,
        };
        let listed = self.switch.load(Ordering::SeqCst) == self.listed_if;
        Box::pin(async move { Ok(listed.then(|| Arc::new(spec)).into_iter().collect()) })
    }

    fn call<'a>(&'a self, _: &'a Call) -> CallFuture<'a> {
        Box::pin(async {
            *self.calls.lock().unwrap() += 1;
            Ok(CallOutcome::Result(json!("wiped")))
        })
    }
}

async fn an_approval_is_not_valid_for_a_tool_of_another_connection(database: TestDatabase) {
    let (switch, calls) = (Arc::new(AtomicBool::new(true)), Arc::new(Mutex::new(0)));
    let switched = |name: &str, listed_if: bool| -> (String, Arc<dyn Toolbox>) {
        (name.to_owned(), Arc::new(SwitchedTool { switch: switch.clone(), listed_if, calls: calls.clone() }))
    };
    let approval = json!({ "approversList": ["bob"] });
    let disk =
        json!({ "type": "rust", "name": "disk", "permissions": { "default": "ask" }, "approval": approval });
    let more = vec![switched("decoy", true), switched("disk", false)];
    let agents = prepare(database, json!({ "disk": disk }), more).await;
    let mut definition = permissive(json!([{ "type": "rust", "name": "decoy" }, { "use": "disk" }]), "wipe");
    definition["permissions"] = json!({ "default": "ask" });
    agents.declare(definition).await;
    let of = agents.send(None, "please").await;
    // Alice approves a call of the decoy. Before it is made, the name `wipe` moves to the operator's connection.
    switch.store(false, Ordering::SeqCst);
    decide(&agents, &of, "alice").await.unwrap();
    assert_eq!((agents.env.status(&of).await, *calls.lock().unwrap()), ("waiting-approval", 0));
    let again = resume("again", Value::Null);
    let refused = agents.env.engine.agents().decide_call(&of, "c1", &again, Principal::named("alice")).await;
    assert!(refused.is_err());
    decide(&agents, &of, "bob").await.unwrap();
    assert_eq!((agents.env.status(&of).await, *calls.lock().unwrap()), ("completed", 1));
}
