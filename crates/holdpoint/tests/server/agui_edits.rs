//! Edits of a call that waits: the front end has the schema of the tool, and an edit that cannot be carried out is
//! rejected wherever it is sent, so that the approval can still be given.

use serde_json::{Value, json};

use crate::agui::{FLAGS, Front, World, asking, declare, resolved};
use crate::harness::{Client, Server, line};
use crate::place::{Place, on_both};
use crate::receiver::Receiver;

on_both!(an_impossible_edit_is_rejected_by_every_route_and_the_approval_stays,);

fn schema() -> Value {
    json!({
        "type": "object", "required": ["to"], "additionalProperties": false,
        "properties": {"to": {"$ref": "#/$defs/address"}, "subject": {"type": "string"}},
        "$defs": {"address": {"type": "string", "minLength": 3}},
    })
}

fn agent(url: &str) -> Value {
    let mut agent = asking(url);
    agent["tools"][0]["parameters"] = schema();
    let deny = json!({"tool": "sendEmail", "when": ["to ~ *@rival.test"], "behavior": "deny",
        "reason": "rivals get no mail"});
    agent["permissions"]["rules"].as_array_mut().unwrap().push(deny);
    agent
}

fn edited(arguments: &Value) -> Value {
    json!({"action": "edit-accept", "editedArtifactData": {"arguments": arguments}})
}

/// Sends an edit by every route that takes answers, and returns what each says.
fn rejections(server: &Server, interrupt: &str, arguments: &Value) -> Vec<String> {
    let client = &server.client;
    let (run, _) = interrupt.rsplit_once(':').unwrap();
    let decision = json!({"toolCallId": "c1", "action": "resume", "result": {"arguments": arguments}});
    let link = client.post(&format!("/v1/runs/{run}/interrupts/agent/tokens"), &json!({}));
    let link = format!("/v1/interrupts/{}", link.body["token"].as_str().unwrap());
    let mut said = Vec::new();
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
        said.push(refused.body["message"].as_str().unwrap().to_owned());
    }
    let value = edited(arguments).to_string();
    let typed = server.run(&["answer", run, "agent", "--value", &value]);
    assert!(!typed.status.success(), "{typed:?}");
    said.push(String::from_utf8_lossy(&typed.stderr).into_owned());
    let front = Front::new(client, "mailer", "t1");
    let told = front.resume(json!([resolved(interrupt, json!({"approved": true, "editedArgs": arguments}))]));
    told.assert_refused("INVALID_PAYLOAD");
    said.push(told.last()["message"].as_str().unwrap().to_owned());
    said
}

fn an_impossible_edit_is_rejected_by_every_route_and_the_approval_stays(place: &Place) {
    let office = Receiver::start();
    let server = place.start(&FLAGS);
    declare(&server.client, &agent(&office.url));
    let front = Front::new(&server.client, "mailer", "t1");
    let id = front.say("u1", "Write to Bob").ids()[0].clone();
    for wrong in [json!({"nope": 1}), json!({"to": "a"}), json!({"to": "bob@x.test", "nope": 1})] {
        rejections(&server, &id, &wrong);
    }
    for said in rejections(&server, &id, &json!({"to": "eve@rival.test"})) {
        assert!(said.contains("rivals get no mail"), "{said}");
    }
    assert!(office.so_far().is_empty());
    assert_eq!(front.thread()["interrupts"][0]["id"], id.as_str(), "it waits as before");
    assert_eq!(resolutions(&server.client, &id), 0, "nothing of it is on record");
    let fit = resolved(&id, json!({"approved": true, "editedArgs": {"to": "eve@x.test"}}));
    front.resume(json!([fit])).assert_success();
    assert_eq!(office.so_far().len(), 1);
    assert_eq!(office.so_far()[0].json(), json!({"to": "eve@x.test"}));
}

fn resolutions(client: &Client, interrupt: &str) -> usize {
    let events = client.events(interrupt.rsplit_once(':').unwrap().0);
    events.iter().filter(|event| event["type"] == "interrupt.resolved").count()
}

#[test]
fn a_front_end_has_the_schema_of_the_tool() {
    let first = World::new(agent).front().say("u1", "Write to Bob");
    let shown = &first.interrupts()[0];
    let edited = &shown["responseSchema"]["properties"]["editedArgs"];
    assert_eq!((&edited["required"], &edited["additionalProperties"]), (&json!(["to"]), &json!(false)));
    let reference = "#/properties/editedArgs/$defs/address";
    assert_eq!(edited["properties"]["to"]["$ref"], reference, "it leads to the same place");
    assert_eq!(shown["responseSchema"].pointer(&reference[1..]).unwrap()["minLength"], 3);
    let arguments = json!({"to": "bob@example.test", "subject": "Hi"});
    assert_eq!(shown["metadata"]["holdpoint"]["toolCall"]["arguments"], arguments);
}

/// The agent of a workflow's node may be one that is named there.
#[test]
fn an_edit_for_an_agent_of_a_workflow_is_judged_by_the_rules_of_that_agent() {
    let world = World::new(agent);
    let writing = line("writing", &[("write", "core.agent", json!({"agentId": "mailer"}))]);
    let put = world.server.client.put("/v1/workflows/writing", &writing);
    assert_eq!(put.status, 201, "{put:?}");
    let front = Front::new(&world.server.client, "writing", "t1");
    let first = front.say("u1", "Write to Bob");
    let id = first.ids()[0].clone();
    for (arguments, words) in [(json!({"to": "eve@rival.test"}), "rivals get no mail"), (json!({}), "to")] {
        let edit = resolved(&id, json!({"approved": true, "editedArgs": arguments}));
        let told = front.resume(json!([edit]));
        told.assert_refused("INVALID_PAYLOAD");
        assert!(told.last()["message"].as_str().unwrap().contains(words), "{told:?}");
    }
    let fit = resolved(&id, json!({"approved": true, "editedArgs": {"to": "eve@x.test"}}));
    front.resume(json!([fit])).assert_success();
    assert_eq!(world.mails(), [json!({"to": "eve@x.test"})]);
}
