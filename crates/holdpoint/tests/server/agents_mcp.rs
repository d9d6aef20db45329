//! Tool calls of real MCP servers that an approver must allow: a published server, and the test server as a program and
//! behind a URL. The tests check the effects outside Holdpoint.

use serde_json::json;

use crate::test_database::TestDatabase;
use crate::tool_server::{AgentRun, ToolServer, cancel, of_call, resume};

const CONFIRM: &str = "tool:PermissionConfirm";

/// Generates a test for each server from each function.
macro_rules! with_each_server {
    ($($test:ident),+ $(,)?) => {
        with_each_server!(published: $($test),+);
        with_each_server!(program: $($test),+);
        with_each_server!(web: $($test),+);
    };
    ($server:ident: $($test:ident),+) => {
        mod $server {
            $(#[test]
            fn $test() {
                super::$test(&crate::tool_server::ToolServer::$server());
            })+
        }
    };
}

with_each_server!(
    an_approved_call_is_made_once_and_its_result_reaches_the_agent,
    a_denied_call_is_not_made_and_the_agent_continues,
    a_call_with_edited_arguments_uses_them_and_both_versions_are_recorded,
    only_the_allowed_call_is_made_in_any_order_of_decisions,
);

fn an_approved_call_is_made_once_and_its_result_reaches_the_agent(tool_server: &ToolServer) {
    let steps = json!([{"calls": [tool_server.call("c1", "first")]}, {"text": "Done: {{lastResult}}"}]);
    tool_server.declare_agent("clerk", &steps, &json!({}));
    let database = TestDatabase::sqlite();
    let server = tool_server.start(&database);
    let agent_run = AgentRun::start(&server.client, "clerk", "t1");
    let tickets = agent_run.wait_for_tickets(CONFIRM, &["c1"]);
    assert_eq!(tickets[0]["arguments"], tool_server.arguments("first"));
    assert!(tool_server.effects().is_empty(), "it is not approved yet");
    agent_run.decide(&resume("c1"));
    let log = agent_run.wait_for_completion();
    assert_eq!(tool_server.effects(), ["first"]);
    let returned = of_call(&log, "agent.toolReturned", "c1");
    assert_eq!((returned.len(), &returned[0]["payload"]["status"]), (1, &json!("succeeded")), "{returned:?}");
    let (result, last) = agent_run.call_result("c1");
    assert_eq!(result, returned[0]["payload"]["result"]);
    assert!(result.as_str().unwrap().contains("first"), "the reply of the tool server: {result}");
    assert!(last.starts_with("Done: ") && last.contains("first"), "{last}");
}

fn a_denied_call_is_not_made_and_the_agent_continues(tool_server: &ToolServer) {
    let steps = json!([{"calls": [tool_server.call("c1", "first")]}, {"text": "I got: {{lastResult}}"}]);
    tool_server.declare_agent("clerk", &steps, &json!({}));
    let database = TestDatabase::sqlite();
    let server = tool_server.start(&database);
    let agent_run = AgentRun::start(&server.client, "clerk", "t1");
    agent_run.wait_for_tickets(CONFIRM, &["c1"]);
    agent_run.decide(&cancel("c1", "not today"));
    let log = agent_run.wait_for_completion();
    assert!(tool_server.effects().is_empty());
    assert!(of_call(&log, "holdpoint.tool.begun", "c1").is_empty(), "{log:?}");
    let (result, last) = agent_run.call_result("c1");
    assert_eq!(result, json!({"cancelled": "not today"}));
    assert!(last.starts_with("I got: ") && last.contains("not today"), "{last}");
}

fn a_call_with_edited_arguments_uses_them_and_both_versions_are_recorded(tool_server: &ToolServer) {
    let steps = json!([{"calls": [tool_server.call("c1", "first")]}, {"text": "Done: {{lastResult}}"}]);
    tool_server.declare_agent("clerk", &steps, &json!({}));
    let database = TestDatabase::sqlite();
    let server = tool_server.start(&database);
    let agent_run = AgentRun::start(&server.client, "clerk", "t1");
    agent_run.wait_for_tickets(CONFIRM, &["c1"]);
    let edited = tool_server.arguments("edited");
    agent_run.decide(&json!({"toolCallId": "c1", "action": "resume", "result": {"arguments": edited}}));
    let log = agent_run.wait_for_completion();
    assert_eq!(tool_server.effects(), ["edited"]);
    let begun = of_call(&log, "holdpoint.tool.begun", "c1");
    let [begun] = begun[..] else { panic!("{begun:?}") };
    assert_eq!(begun["payload"]["arguments"], tool_server.arguments("first"), "the arguments of the model");
    assert_eq!(begun["payload"]["effectiveArguments"], edited, "the approved arguments");
    assert!(agent_run.call_result("c1").1.contains("edited"));
}

fn only_the_allowed_call_is_made_in_any_order_of_decisions(tool_server: &ToolServer) {
    let calls = [tool_server.call("c1", "first"), tool_server.call("c2", "second")];
    let steps = json!([{"calls": calls}, {"text": "Done."}]);
    tool_server.declare_agent("clerk", &steps, &json!({"resume": "as_decided"}));
    tool_server.declare_agent("patient", &steps, &json!({"resume": "wait_all"}));
    let database = TestDatabase::sqlite();
    let server = tool_server.start(&database);
    let mut expected = Vec::new();
    for (agent, allowed, denied, text, allow_first) in [
        ("clerk", "c1", "c2", "first", true),
        ("clerk", "c2", "c1", "second", false),
        ("patient", "c2", "c1", "second", true),
        ("patient", "c1", "c2", "first", false),
    ] {
        let agent_run = AgentRun::start(&server.client, agent, &format!("{agent}-{allowed}"));
        agent_run.wait_for_tickets(CONFIRM, &["c1", "c2"]);
        let mut decisions = [resume(allowed), cancel(denied, "one is enough")];
        if !allow_first {
            decisions.reverse();
        }
        decisions.iter().for_each(|decision| agent_run.decide(decision));
        agent_run.wait_for_completion();
        expected.push(text);
        assert_eq!(tool_server.effects(), expected, "{agent} {allowed}");
        assert_eq!(agent_run.call_result(denied).0, json!({"cancelled": "one is enough"}));
        assert!(agent_run.call_result(allowed).0.as_str().unwrap().contains(text));
    }
}
