//! The OpenAPI document: the committed, the printed and the served document are equal.

use std::process::Command;

use serde_json::Value;

use crate::harness::{PROGRAM, Server};

#[test]
fn the_committed_openapi_document_is_the_one_that_this_build_serves() {
    let printed = Command::new(PROGRAM).arg("openapi").output().unwrap();
    assert!(printed.status.success());
    let printed = String::from_utf8(printed.stdout).unwrap();
    let committed = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/openapi.json");
    let committed = std::fs::read_to_string(committed).unwrap_or_default();
    assert!(printed == committed, "update it: cargo run -- openapi > docs/openapi.json");
    let server = Server::start();
    let served = server.client.with_key(None).exchange("GET", "/v1/openapi.json", None, &[]);
    assert_eq!(served.headers()["content-type"], "application/json");
    let (served, printed): (Value, Value) =
        (serde_json::from_str(served.body()).unwrap(), serde_json::from_str(&printed).unwrap());
    assert_eq!(served, printed);
    assert_eq!(served["openapi"], "3.1.0");
}

#[test]
fn the_error_envelope_has_no_other_members() {
    let server = Server::start();
    let document = server.client.get("/v1/openapi.json").body;
    let envelope = &document["components"]["schemas"]["Error"];
    assert_eq!(envelope["additionalProperties"], false);
    let members: Vec<&String> = envelope["properties"].as_object().unwrap().keys().collect();
    assert_eq!(members, ["error", "message", "details"]);
}

#[test]
fn discovery_is_the_same_under_both_names() {
    let server = Server::start();
    let client = server.client.with_key(None);
    let found = ["/.well-known/openwop", "/.well-known/wop"].map(|path| {
        let answer = client.exchange("GET", path, None, &[]);
        assert_eq!(answer.headers()["cache-control"], "public, max-age=300");
        assert_eq!(answer.headers()["content-type"], "application/json");
        serde_json::from_str::<Value>(answer.body()).unwrap()
    });
    assert_eq!(found[0], found[1]);
    assert_eq!(found[0]["fixtures"], serde_json::json!([]));
}
