//! What front ends see and bring: the state of a run, tools that they carry out themselves, tools that only say something.

use holdpoint_engine::Talk;
use holdpoint_engine::core::agent::{CLIENT_TOOL, CallStatus};
use holdpoint_engine::core::{RunRef, Start};
use serde_json::{Value, json};

use super::{Office, call, resume, talk};
use crate::house::tenant;
use crate::place::on_both;

on_both! {
    calls_made_at_once_are_all_counted_in_the_state,
    a_run_begins_with_the_state_it_is_given,
    a_run_begins_with_the_state_of_its_definition,
    a_call_of_the_front_end_waits_for_its_result,
    a_tool_of_the_agent_is_not_the_front_ends,
    an_approval_of_a_call_as_it_is_takes_no_edit,
    what_a_scripted_tool_asks_for_becomes_its_result,
}

/// An agent with one scripted tool, which everybody may call, and these members beside it.
fn scripted(steps: &Value, tool: &Value, beside: &Value) -> Value {
    let mut definition = json!({
        "agentId": "clerk", "model": { "provider": "scripted", "steps": steps }, "tools": [tool],
        "permissions": { "default": "allow" },
    });
    let members = beside.as_object().cloned().unwrap_or_default();
    definition.as_object_mut().unwrap().extend(members);
    definition
}

fn mail() -> Value {
    json!({ "type": "scripted", "name": "mail", "counts": "executions", "result": { "sent": "{{arguments}}" } })
}

fn two_calls() -> Value {
    let calls = [call("c1", "mail", json!({ "to": "ann" })), call("c2", "mail", json!({ "to": "bob" }))];
    json!([{ "calls": calls }, { "text": "{{lastResult}}" }])
}

impl Office {
    async fn told_with(&self, talk: Talk) -> RunRef {
        let run = self.house.engine.start_agent(talk).await.unwrap();
        self.house.drain().await;
        RunRef { tenant: tenant(), run: run.id.clone() }
    }
}

/// Said by a front end with a tool of its own.
fn with_tool(name: &str) -> Talk {
    let mut talk = talk(None, "please");
    let tools = json!([{ "name": name, "description": "picks", "parameters": { "type": "object" } }]);
    talk.messages[0].metadata.insert("clientTools".to_owned(), tools);
    talk
}

async fn calls_made_at_once_are_all_counted_in_the_state(office: Office) {
    office.hire(scripted(&two_calls(), &mail(), &Value::Null)).await;
    let of = office.told(None, "please").await;
    let run = office.house.run(&of).await;
    assert_eq!((run.status().as_str(), &run.variables["executions"]), ("completed", &json!(2)));
    let said = super::agent_of(&run).last_reply().unwrap().text();
    assert!(said == r#"{"sent":{"to":"bob"}}"# || said == r#"{"sent":{"to":"ann"}}"#, "{said}");
}

async fn a_run_begins_with_the_state_it_is_given(office: Office) {
    office.hire(scripted(&two_calls(), &mail(), &Value::Null)).await;
    let mut talk = talk(Some("t"), "please");
    let mut start = Start::new(talk.owner.clone());
    start.inputs = json!({ "executions": 40, "theme": "dark" }).as_object().cloned().unwrap();
    talk.start = Some(Box::new(start));
    let of = office.told_with(talk).await;
    let run = office.house.run(&of).await;
    assert_eq!((&run.variables["executions"], &run.variables["theme"]), (&json!(42), &json!("dark")));
}

async fn a_run_begins_with_the_state_of_its_definition(office: Office) {
    let beside = json!({ "state": { "executions": 0, "list": ["a"] }, "permissions": { "default": "ask" } });
    office.hire(scripted(&two_calls(), &mail(), &beside)).await;
    let of = office.told(None, "please").await;
    let run = office.house.run(&of).await;
    assert_eq!((&run.variables["executions"], &run.variables["list"]), (&json!(0), &json!(["a"])));
    let nothing = json!({ "state": { "x": null } });
    let refused =
        office.house.engine.put_agent(&tenant(), scripted(&two_calls(), &mail(), &nothing), None).await;
    assert!(refused.unwrap_err().to_string().contains("state.x"));
}

async fn a_call_of_the_front_end_waits_for_its_result(office: Office) {
    let steps = json!([{ "calls": [call("c1", "pick", json!({ "n": 1 }))] }, { "text": "{{lastResult}}" }]);
    // The rule is for the agent's own: whoever is asked here is the front end anyway.
    office.hire(scripted(&steps, &mail(), &json!({ "permissions": { "default": "ask" } }))).await;
    let of = office.told_with(with_tool("pick")).await;
    assert_eq!(office.call(&of, "c1").await, CallStatus::Suspended);
    let run = office.house.run(&of).await;
    assert_eq!(run.interrupts[0].data["suspension"]["action"], CLIENT_TOOL);
    let office = office.reopened().await;
    office.decide(&of, "c1", &resume("d1", json!("the red one"))).await.unwrap();
    office.house.drain().await;
    assert_eq!(office.agent(&of).await.last_reply().unwrap().text(), "the red one");
    assert_eq!(office.house.status(&of).await, "completed");
}

async fn a_tool_of_the_agent_is_not_the_front_ends(office: Office) {
    office.hire(scripted(&two_calls(), &mail(), &Value::Null)).await;
    let of = office.told_with(with_tool("mail")).await;
    assert_eq!(office.house.status(&of).await, "completed");
}

async fn an_approval_of_a_call_as_it_is_takes_no_edit(office: Office) {
    let beside = json!({ "permissions": { "default": "ask" }, "approval": { "editable": false } });
    office.hire(scripted(&two_calls(), &mail(), &beside)).await;
    let of = office.told(None, "please").await;
    let edit = office.decide(&of, "c1", &resume("d1", json!({ "arguments": {} }))).await.unwrap_err();
    assert!(matches!(edit, holdpoint_engine::Error::Refused(_)), "{edit:?}");
    for ticket in ["c1", "c2"] {
        office.decide(&of, ticket, &resume(ticket, Value::Null)).await.unwrap();
    }
    office.house.drain().await;
    assert_eq!(office.house.run(&of).await.variables["executions"], json!(2));
}

async fn what_a_scripted_tool_asks_for_becomes_its_result(office: Office) {
    let schema =
        json!({ "type": "object", "required": ["year"], "properties": { "year": { "minimum": 2000 } } });
    let asks = json!({ "action": "input_required", "message": "Which year?", "responseSchema": schema });
    let tool = json!({ "type": "scripted", "name": "form", "asks": asks });
    let steps = json!([{ "calls": [call("c1", "form", json!({}))] }, { "text": "{{lastResult}}" }]);
    office.hire(scripted(&steps, &tool, &Value::Null)).await;
    let of = office.told(None, "please").await;
    assert!(office.decide(&of, "c1", &resume("d1", json!({ "year": 1 }))).await.is_err());
    office.decide(&of, "c1", &resume("d2", json!({ "year": 2026 }))).await.unwrap();
    office.house.drain().await;
    assert_eq!(office.agent(&of).await.last_reply().unwrap().text(), r#"{"year":2026}"#);
}
