//! Tests of the description of interrupts for front ends.

use holdpoint_core::InterruptRequest;
use serde_json::json;

use super::*;
use crate::agui::test_runs::{call, interrupt, permission, provider_call, run_with_interrupts, ticket};

fn described(request: InterruptRequest) -> Value {
    let run = run_with_interrupts(&[request]);
    serde_json::to_value(describe(&run, interrupt(&run, 1))).unwrap()
}

#[test]
fn the_schema_of_an_editable_call_contains_edited_args() {
    let shown = described(permission("c1"));
    assert_eq!((&shown["id"], &shown["reason"]), (&json!("r:i1"), &json!("tool_call")));
    assert_eq!((&shown["toolCallId"], shown.get("expiresAt")), (&json!("r:c1"), None));
    assert!(shown["message"].as_str().unwrap().contains("sendEmail"), "{shown}");
    let schema = &shown["responseSchema"];
    assert_eq!(schema["required"], json!(["approved"]));
    assert_eq!(schema["properties"]["editedArgs"]["type"], "object");
    let mut fixed = permission("c1");
    fixed.data["actions"] = json!(["accept", "reject"]);
    assert_eq!(
        described(fixed)["responseSchema"]["properties"].get("editedArgs"),
        None,
        "edits are not allowed"
    );
}

#[test]
fn an_approval_of_a_provider_is_bound_to_its_call() {
    let shown = described(provider_call(json!(["accept", "reject", "edit-accept"])));
    assert_eq!((&shown["reason"], &shown["toolCallId"]), (&json!("tool_call"), &json!("r:call-1")));
    assert_eq!(shown["responseSchema"]["properties"]["editedArgs"]["type"], "object");
    let expected = json!({"id": "r:call-1", "name": "Bash", "arguments": {"command": "ls"}});
    assert_eq!(shown["metadata"]["holdpoint"]["toolCall"], expected);
    let fixed = described(provider_call(json!(["accept", "reject"])));
    assert_eq!(fixed["responseSchema"]["properties"].get("editedArgs"), None);
    let mut unknown = provider_call(json!(["accept", "reject"]));
    unknown.data["customKind"] = json!("outcome_unknown");
    let unknown = described(unknown);
    let named = (&unknown["reason"], &unknown["toolCallId"]);
    assert_eq!(named, (&json!("holdpoint:outcome_unknown"), &json!("r:call-1")));
    let mut unbound = provider_call(json!(["accept", "reject"]));
    unbound.data.as_object_mut().unwrap().shift_remove("providerCall");
    let unbound = described(unbound);
    assert_eq!((&unbound["reason"], unbound.get("toolCallId")), (&json!("confirmation"), None));
}

#[test]
fn a_deadline_is_an_rfc_3339_time() {
    let mut request = permission("c1");
    request.timeout_ms = Some(5000);
    assert_eq!(described(request)["expiresAt"], "1970-01-01T00:00:06.000Z");
}

#[test]
fn the_reason_of_a_suspended_call_is_its_action_or_tool_call() {
    let schema = json!({"type": "object", "properties": {"when": {"type": "string"}}});
    let of = |action: &str, schema| described(ticket(action, ToolCallResumeMode::PassDecisionToTool, schema));
    let form = of("input_required", Some(schema.clone()));
    assert_eq!((&form["reason"], form.get("toolCallId")), (&json!("input_required"), None));
    assert_eq!((&form["responseSchema"], &form["message"]), (&schema, &json!("Tell me.")));
    let confirm = of("confirmation", None);
    assert_eq!(
        (&confirm["reason"], &confirm["responseSchema"]),
        (&json!("confirmation"), &json!({"type": "boolean"}))
    );
    assert_eq!(of("mine:pick", None)["reason"], "mine:pick");
    let other = of("pick", Some(json!(true)));
    assert_eq!((&other["reason"], &other["toolCallId"]), (&json!("tool_call"), &json!("r:c1")));
    assert_eq!(other.get("responseSchema"), None, "clients accept only objects as schemas");
}

#[test]
fn client_tool_calls_are_not_interrupts_for_people() {
    let client = ticket(CLIENT_TOOL, ToolCallResumeMode::UseDecisionAsToolResult, None);
    let run = run_with_interrupts(&[permission("c1"), client]);
    assert_eq!(open_for_people(&run).map(|asked| asked.id.0).collect::<Vec<_>>(), [1]);
    let pending: Vec<_> = client_tool_calls(&run).map(|(call, asked)| (call, asked.id.0)).collect();
    assert_eq!(pending, [("r:c1".to_owned(), 2)]);
}

#[test]
fn interrupts_of_workflows_have_reasons_and_schemas_of_the_protocol() {
    let gate =
        json!({"artifactId": "a", "artifactType": "t", "title": "Ship it?", "actions": ["accept", "reject"]});
    let shown = described(InterruptRequest::new(Kind::Approval, gate));
    assert_eq!((&shown["reason"], &shown["message"]), (&json!("confirmation"), &json!("Ship it?")));
    assert_eq!(shown["responseSchema"]["anyOf"][0], json!({"type": "boolean"}));
    let questions = json!({"questions": [
        {"id": "quarter", "question": "Which quarter?", "schema": {"enum": ["Q1", "Q2"]}}, {"id": "why", "question": "Why?"},
    ]});
    let shown = described(InterruptRequest::new(Kind::Clarification, questions));
    let expected = json!({"type": "object", "required": ["quarter", "why"], "properties": {
        "quarter": {"enum": ["Q1", "Q2"], "title": "Which quarter?"}, "why": {"title": "Why?"}}});
    assert_eq!((&shown["reason"], &shown["responseSchema"]), (&json!("input_required"), &expected));
    for (kind, data, reason) in [
        (Kind::ExternalEvent, json!({"eventType": "paid", "correlation": {}}), "holdpoint:external_event"),
        (Kind::LowConfidence, json!({"agentId": "abc"}), "holdpoint:low_confidence"),
        (Kind::ConversationExchange, json!({"prompt": "So?"}), "holdpoint:conversation"),
        (Kind::Custom, json!({"customKind": "pick"}), "holdpoint:custom"),
        (Kind::Custom, json!({"customKind": "mine:pick"}), "mine:pick"),
        (Kind::Custom, json!({"customKind": "pick", "reason": "other:pick"}), "other:pick"),
    ] {
        assert_eq!(described(InterruptRequest::new(kind, data))["reason"], reason);
    }
}

#[test]
fn a_call_with_unknown_outcome_has_a_reason_of_its_own() {
    let request = holdpoint_core::agent::Ticket::outcome_unknown(
        "k".to_owned(),
        &call("c1"),
        &holdpoint_core::agent::ApprovalSettings::default(),
        None,
    );
    let shown = described(request.request);
    assert_eq!(
        (&shown["reason"], &shown["toolCallId"]),
        (&json!("holdpoint:outcome_unknown"), &json!("r:c1"))
    );
    assert!(shown["responseSchema"]["properties"].get("result").is_some(), "{shown}");
}

#[test]
fn an_interrupt_of_a_graph_has_its_data_in_message_and_metadata() {
    let plain = json!({"customKind": "langgraph.interrupt", "graph": "langgraph:a", "approversList": ["ann"],
        "data": {"value": {"question": "Send it?", "draft": {"to": "bob"}}}});
    let shown = described(InterruptRequest::new(Kind::Custom, plain));
    assert_eq!(shown["message"], "question: Send it?\ndraft: {\"to\":\"bob\"}");
    let about = &shown["metadata"]["holdpoint"];
    assert_eq!(about["data"], json!({"value": {"question": "Send it?", "draft": {"to": "bob"}}}));
    let word = json!({"customKind": "review", "graph": "langgraph:a", "data": {"value": "Which one?"}});
    assert_eq!(described(InterruptRequest::new(Kind::Custom, word))["message"], "Which one?");
    let long = json!({"customKind": "review", "data": "x".repeat(5000)});
    assert_eq!(
        described(InterruptRequest::new(Kind::Custom, long))["message"].as_str().unwrap().chars().count(),
        2001
    );
    let bare = described(InterruptRequest::new(Kind::Custom, json!({"customKind": "poll"})));
    assert_eq!((&bare["message"], bare["metadata"]["holdpoint"].get("data")), (&json!("poll"), None));
    let own = json!({"customKind": "poll", "message": "Vote.", "choices": [1, 2], "approversList": ["ann"]});
    let own = described(InterruptRequest::new(Kind::Custom, own));
    assert_eq!(own["message"], "Vote.");
    assert_eq!(own["metadata"]["holdpoint"]["data"], json!({"message": "Vote.", "choices": [1, 2]}));
}

#[test]
fn each_item_of_a_multi_interrupt_is_in_message_and_schema() {
    let item = |key: &str, value: &str, schema: Option<Value>| {
        let mut item = json!({"key": key, "kind": "langgraph.interrupt", "data": {"value": value}});
        item.as_object_mut().unwrap().extend(schema.map(|schema| ("schema".to_owned(), schema)));
        item
    };
    let text = json!({"type": "string"});
    let items = [item("i0", "Left?", None), item("i1", "Right?", Some(text.clone()))];
    let data = json!({"customKind": "multi", "graph": "langgraph:a", "data": {"items": items}});
    let mut request = InterruptRequest::new(Kind::Custom, data);
    request.resume_schema = Some(json!({"type": "object", "properties": {"i0": true, "i1": text},
        "additionalProperties": false, "minProperties": 1}));
    let shown = described(request);
    assert_eq!(shown["message"], "i0: Left?\ni1: Right?");
    assert_eq!(shown["metadata"]["holdpoint"]["data"]["items"], json!(items));
    let expected = json!({"i0": {"title": "Left?"}, "i1": {"type": "string", "title": "Right?"}});
    assert_eq!(shown["responseSchema"]["properties"], expected);
}
