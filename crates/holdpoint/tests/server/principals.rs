//! Names of principals: one normal form, no invisible characters, no mix of scripts.

use serde_json::{Value, json};

use crate::harness::{Client, accept, client_with_key, gated};
use crate::test_database::{TestDatabase, on_both};

on_both!(
    the_name_of_a_new_principal_is_normalized_and_has_no_invisible_or_mixed_characters,
    a_name_in_an_approver_list_is_compared_in_its_normal_form,
    invalid_principal_names_are_refused_in_lists_answers_and_links,
);

const LOOK_ALIKES: [(&str, &str); 4] =
    [("ann\u{200b}", "U+200B"), ("a\u{202e}nn", "U+202E"), ("\u{430}nn", "U+006E"), ("ann\n", "U+000A")];

fn assert_refused(answer: &crate::harness::Response, character: &str) {
    answer.assert_envelope(400, "validation_error");
    assert!(answer.body["message"].as_str().unwrap().contains(character), "{answer:?}");
}

fn with_approvers(id: &str, approvers: &[&str]) -> Value {
    let mut flow = gated(id);
    flow["nodes"][1]["config"]["approversList"] = json!(approvers);
    flow
}

fn the_name_of_a_new_principal_is_normalized_and_has_no_invisible_or_mixed_characters(
    database: &TestDatabase,
) {
    let server = database.start(&[]);
    for (name, character) in LOOK_ALIKES {
        for member in [json!({"principal": name}), json!({"roles": [name]}), json!({"groups": [name]})] {
            assert_refused(&server.client.post("/v1/keys", &member), character);
        }
    }
    let made = server.client.post("/v1/keys", &json!({"principal": "\u{ff41}nn", "roles": ["Zoe\u{308}"]}));
    assert_eq!((&made.body["principal"], &made.body["roles"]), (&json!("ann"), &json!(["Zoë"])), "{made:?}");
    let host = server.client.post("/v1/keys", &json!({"principal": "\u{ff53}ystem:me"}));
    host.assert_envelope(400, "validation_error");
}

fn a_name_in_an_approver_list_is_compared_in_its_normal_form(database: &TestDatabase) {
    let server = database.start(&[]);
    let flow = with_approvers("wide", &["\u{ff41}nn", "role:\u{ff4c}ead", "role:\u{43b}\u{438}\u{434}"]);
    assert_eq!(server.client.put("/v1/workflows/wide", &flow).status, 201);
    let ann = client_with_key(&server.client, &json!({"principal": "ann"}));
    let lead = client_with_key(&server.client, &json!({"principal": "bob", "roles": ["lead"]}));
    let eve = client_with_key(&server.client, &json!({"principal": "eve"}));
    for who in [&ann, &lead] {
        let run = server.client.start_run("wide");
        let mine = who.get("/v1/interrupts?assignee=me").body.to_string();
        assert!(mine.contains(&run), "the interrupt is listed for the approver: {mine}");
        eve.answer(&run, "gate", &accept()).assert_envelope(403, "forbidden");
        assert_eq!(who.answer(&run, "gate", &accept()).status, 200);
    }
}

fn invalid_principal_names_are_refused_in_lists_answers_and_links(database: &TestDatabase) {
    let server = database.start(&[]);
    let admin: &Client = &server.client;
    admin.put("/v1/workflows/gated", &gated("gated"));
    let run = admin.start_run("gated");
    for (name, character) in LOOK_ALIKES {
        if !name.contains(char::is_control) {
            let flow = with_approvers("listed", &[name]);
            assert_refused(&admin.put("/v1/workflows/listed", &flow), character);
            let agent = json!({"model": {"use": "main"}, "approval": {"approversList": [name]}});
            assert_refused(&admin.put("/v1/agents/listed", &agent), character);
            let hold = json!({"title": "Deploy?", "approvers": [name]});
            assert_refused(&admin.post("/v1/holds", &hold), character);
            for member in ["voter", "decidedBy"] {
                let answer = json!({"action": "accept", member: name});
                assert_refused(&admin.answer(&run, "gate", &answer), character);
            }
        }
        let link = admin.post(&format!("/v1/runs/{run}/interrupts/gate/tokens"), &json!({"for": name}));
        assert_refused(&link, character);
    }
    let wide = admin.answer(&run, "gate", &json!({"action": "accept", "decidedBy": "\u{ff41}nn"}));
    wide.assert_envelope(400, "validation_error");
    assert_eq!(admin.answer(&run, "gate", &json!({"action": "accept", "decidedBy": "ann"})).status, 200);
}
