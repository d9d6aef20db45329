//! Edits of the arguments of a waiting tool call: the front end gets the schema of the tool, and every route rejects an
//! invalid edit, so that the approval can still be given.

use serde_json::{Value, json};

use crate::agui::{AguiFixture, FLAGS, FrontEnd, asking_agent, declare, resolved};
use crate::harness::{Client, Server, linear};
use crate::receiver::Receiver;
use crate::test_database::{TestDatabase, on_both};

on_both!(an_invalid_edit_is_rejected_by_every_route_and_the_interrupt_stays_open,);

fn schema() -> Value {
    json!({
        "type": "object", "required": ["to"], "additionalProperties": false,
        "properties": {"to": {"$ref": "#/$defs/address"}, "subject": {"type": "string"}},
        "$defs": {"address": {"type": "string", "minLength": 3}},
    })
}

fn agent(url: &str) -> Value {
    let mut agent = asking_agent(url);
    agent["tools"][0]["parameters"] = schema();
    let deny = json!({"tool": "sendEmail", "when": ["to ~ *@rival.test"], "behavior": "deny",
        "reason": "rivals get no mail"});
    agent["permissions"]["rules"].as_array_mut().unwrap().push(deny);
    agent
}

fn edited(arguments: &Value) -> Value {
    json!({"action": "edit-accept", "editedArtifactData": {"arguments": arguments}})
}

/// Sends an edit by every route that accepts answers. Returns the error messages.
fn rejections(server: &Server, interrupt: &str, arguments: &Value) -> Vec<String> {
    let client = &server.client;
    let (run, _) = interrupt.rsplit_once(':').unwrap();
    let decision = json!({"toolCallId": "c1", "action": "resume", "result": {"arguments": arguments}});
    let link = client.post(&format!("/v1/runs/{run}/interrupts/agent/tokens"), &json!({}));
    let link = format!("/v1/interrupts/{}", link.body["token"].as_str().unwrap());
    let mut messages = Vec::new();
    for (sender, path, body) in [
        (client.clone(), format!("/v1/runs/{run}/decision"), decision.clone()),
        (client.clone(), "/v1/threads/t1/decision".to_owned(), decision),
        (
            client.clone(),
            format!("/v1/runs/{run}/interrupts/agent"),
            json!({"resumeValue": edited(arguments)}),
        ),
        (client.with_key(None), link, json!({"resumeValue": edited(arguments)})),
    ] {
        let refused = sender.post(&path, &body);
        assert_eq!(refused.status, 400, "{path}: {refused:?}");
        refused.assert_envelope(400, "validation_error");
        messages.push(refused.body["message"].as_str().unwrap().to_owned());
    }
    let value = edited(arguments).to_string();
    let typed = server.run(&["answer", run, "agent", "--value", &value]);
    assert!(!typed.status.success(), "{typed:?}");
    messages.push(String::from_utf8_lossy(&typed.stderr).into_owned());
    let front = FrontEnd::new(client, "mailer", "t1");
    let events =
        front.resume(json!([resolved(interrupt, json!({"approved": true, "editedArgs": arguments}))]));
    events.assert_refused("INVALID_PAYLOAD");
    messages.push(events.last()["message"].as_str().unwrap().to_owned());
    messages
}

fn an_invalid_edit_is_rejected_by_every_route_and_the_interrupt_stays_open(database: &TestDatabase) {
    let office = Receiver::start();
    let server = database.start(&FLAGS);
    declare(&server.client, &agent(&office.url));
    let front = FrontEnd::new(&server.client, "mailer", "t1");
    let id = front.say("u1", "Write to Bob").ids()[0].clone();
    for wrong in [json!({"nope": 1}), json!({"to": "a"}), json!({"to": "bob@x.test", "nope": 1})] {
        rejections(&server, &id, &wrong);
    }
    for message in rejections(&server, &id, &json!({"to": "eve@rival.test"})) {
        assert!(message.contains("rivals get no mail"), "{message}");
    }
    assert!(office.requests().is_empty());
    assert_eq!(front.thread()["interrupts"][0]["id"], id.as_str(), "the interrupt is still open");
    assert_eq!(resolutions(&server.client, &id), 0, "no answer is recorded");
    let fit = resolved(&id, json!({"approved": true, "editedArgs": {"to": "eve@x.test"}}));
    front.resume(json!([fit])).assert_success();
    assert_eq!(office.requests().len(), 1);
    assert_eq!(office.requests()[0].json(), json!({"to": "eve@x.test"}));
}

fn resolutions(client: &Client, interrupt: &str) -> usize {
    let events = client.events(interrupt.rsplit_once(':').unwrap().0);
    events.iter().filter(|event| event["type"] == "interrupt.resolved").count()
}

#[test]
fn an_interrupt_contains_the_schema_of_the_tool() {
    let first = AguiFixture::new(agent).front_end().say("u1", "Write to Bob");
    let shown = &first.interrupts()[0];
    let edited = &shown["responseSchema"]["properties"]["editedArgs"];
    assert_eq!((&edited["required"], &edited["additionalProperties"]), (&json!(["to"]), &json!(false)));
    let reference = "#/properties/editedArgs/$defs/address";
    assert_eq!(edited["properties"]["to"]["$ref"], reference, "the reference resolves to the same schema");
    assert_eq!(shown["responseSchema"].pointer(&reference[1..]).unwrap()["minLength"], 3);
    let arguments = json!({"to": "bob@example.test", "subject": "Hi"});
    assert_eq!(shown["metadata"]["holdpoint"]["toolCall"]["arguments"], arguments);
}

/// An agent node of a workflow may refer to a declared agent.
#[test]
fn an_edit_in_a_workflow_is_checked_by_the_rules_of_its_agent() {
    let fixture = AguiFixture::new(agent);
    let writing = linear("writing", &[("write", "core.agent", json!({"agentId": "mailer"}))]);
    let put = fixture.server.client.put("/v1/workflows/writing", &writing);
    assert_eq!(put.status, 201, "{put:?}");
    let front = FrontEnd::new(&fixture.server.client, "writing", "t1");
    let first = front.say("u1", "Write to Bob");
    let id = first.ids()[0].clone();
    for (arguments, words) in [(json!({"to": "eve@rival.test"}), "rivals get no mail"), (json!({}), "to")] {
        let edit = resolved(&id, json!({"approved": true, "editedArgs": arguments}));
        let events = front.resume(json!([edit]));
        events.assert_refused("INVALID_PAYLOAD");
        assert!(events.last()["message"].as_str().unwrap().contains(words), "{events:?}");
    }
    let fit = resolved(&id, json!({"approved": true, "editedArgs": {"to": "eve@x.test"}}));
    front.resume(json!([fit])).assert_success();
    assert_eq!(fixture.mails(), [json!({"to": "eve@x.test"})]);
}
