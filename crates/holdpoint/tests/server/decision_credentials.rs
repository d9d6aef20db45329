//! The credential of a decision: a key, a session, a link, or none.

use serde_json::{Value, json};

use crate::harness::{Client, KEY, Server, accept, create_key, gated, linear};
use crate::links::Link;
use crate::sessions::Browser;

fn via(client: &Client, run: &str) -> Value {
    let log = client.events(run);
    let resolved = log.iter().find(|event| event["type"] == "interrupt.resolved").unwrap();
    let via = resolved["payload"]["via"].clone();
    // The list of interrupts of the run shows the same credential.
    let history = client.get(&format!("/v1/runs/{run}/interrupts")).body;
    assert_eq!(history["interrupts"][0]["decision"]["via"], via, "{history}");
    via
}

fn started(server: &Server) -> String {
    let put = server.client.put("/v1/workflows/gated", &gated("gated"));
    assert!([200, 201].contains(&put.status), "{put:?}");
    server.client.start_run("gated")
}

#[test]
fn a_decision_with_a_key_names_the_key() {
    let server = Server::start();
    let made = create_key(&server.client, &json!({"principal": "ann"}));
    let ann = server.client.with_key(made["key"].as_str());
    let run = started(&server);
    assert_eq!(ann.answer(&run, "gate", &accept()).status, 200);
    assert_eq!(via(&server.client, &run), json!({"type": "key", "id": made["keyId"]}));
    let shown = server.run(&["runs", "interrupts", &run]);
    let shown = String::from_utf8(shown.stdout).unwrap();
    assert!(shown.contains(&format!("key {}", made["keyId"].as_str().unwrap())), "{shown}");
}

#[test]
fn a_decision_of_a_signed_in_browser_names_the_session() {
    let server = Server::start();
    let browser = Browser::sign_in(&server.client, &json!({"key": KEY})).unwrap();
    let run = started(&server);
    let path = format!("/v1/runs/{run}/interrupts/gate");
    let body = json!({"resumeValue": accept()});
    let (status, answered) = browser.send("POST", &path, Some(&body), &[("x-holdpoint-page", "1")]);
    assert_eq!(status, 200, "{answered}");
    let via = via(&server.client, &run);
    assert_eq!((&via["type"], &via["id"]), (&json!("session"), &browser.session["sessionId"]));
    let token = browser.cookie.split_once('=').unwrap().1;
    assert!(!via.to_string().contains(token), "the session id does not contain the cookie");
}

#[test]
fn a_decision_over_a_link_names_the_link_and_not_its_token() {
    let server = Server::start();
    let run = started(&server);
    let link = Link::mint(&server.client, &run, "gate", &json!({}));
    assert_eq!(link.answer(&accept()).status, 200);
    let via = via(&server.client, &run);
    assert_eq!(via, json!({"type": "link", "id": link.minted["linkId"]}));
    let id = via["id"].as_str().unwrap();
    assert!(id.starts_with("lnk_") && id.len() == 20, "{id}");
    assert!(!link.minted["token"].as_str().unwrap().contains(&id[4..]));
}

#[test]
fn a_timeout_has_the_credential_system() {
    let server = Server::start();
    let mut flow = gated("gated");
    flow["nodes"][1]["config"]["timeoutMs"] = json!(1);
    server.client.put("/v1/workflows/gated", &flow);
    let run = server.client.start_run("gated");
    server.client.wait_for_end(&run);
    assert_eq!(via(&server.client, &run), json!({"type": "system", "id": "timeout"}));
}

#[test]
fn an_event_has_the_credential_system() {
    let server = Server::start();
    let config = json!({"kind": "external-event", "data": {"eventType": "paid", "correlation": {}}});
    server.client.put("/v1/workflows/pay", &linear("pay", &[("wait", "core.interrupt", config)]));
    let run = server.client.start_run("pay");
    server
        .client
        .post("/v1/events", &json!({"eventType": "paid", "eventId": "e1", "correlation": {}, "payload": {}}));
    server.client.wait_for_end(&run);
    assert_eq!(via(&server.client, &run), json!({"type": "system", "id": "event"}));
}

#[test]
fn votes_side_questions_and_holds_show_their_credential() {
    let server = Server::start();
    let made = create_key(&server.client, &json!({"principal": "ann"}));
    let ann = server.client.with_key(made["key"].as_str());
    let key = json!({"type": "key", "id": made["keyId"]});
    let mut flow = gated("voted");
    flow["nodes"][1]["config"]["requiredApprovals"] = json!(2);
    flow["nodes"][1]["config"]["actions"] = json!(["accept", "ask"]);
    server.client.put("/v1/workflows/voted", &flow);
    let run = server.client.start_run("voted");
    ann.answer(&run, "gate", &json!({"action": "ask", "question": "Why?"}));
    ann.answer(&run, "gate", &accept());
    ann.answer(&run, "gate", &accept());
    let log = server.client.events(&run);
    for kind in ["holdpoint.ask.raised", "holdpoint.vote.cast", "holdpoint.vote.repeated"] {
        let event = log.iter().find(|event| event["type"] == kind).unwrap();
        assert_eq!(event["payload"]["via"], key, "{kind}");
    }
    let asked = server.client.get(&format!("/v1/runs/{run}/interrupts")).body["interrupts"][0].clone();
    assert_eq!((&asked["votes"][0]["via"], &asked["asks"][0]["via"]), (&key, &key));
    let hold = server.client.post("/v1/holds", &json!({"title": "Deploy?"})).body;
    let id = hold["holdId"].as_str().unwrap();
    assert_eq!(ann.answer(id, "hold", &accept()).status, 200);
    assert_eq!(server.client.get(&format!("/v1/holds/{id}")).body["via"], key);
}
