//! `holdpoint links` and `holdpoint secrets`.

use std::process::Output;

use serde_json::Value;

use crate::harness::{Server, gated};

fn stdout(output: &Output) -> String {
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout.clone()).unwrap()
}

#[test]
fn a_link_is_printed_alone_and_works() {
    let server = Server::start();
    server.client.put("/v1/workflows/gated", &gated("gated"));
    let run = server.client.start_run("gated");
    let shown = stdout(&server.run(&["links", "mint", "latest", "gate", "--for", "bob", "--expires", "2h"]));
    let url = shown.strip_suffix('\n').unwrap();
    let path = url.strip_prefix(&server.url).unwrap();
    let seen = server.client.with_key(None).get(path);
    assert_eq!(
        (seen.status, &seen.body["for"], &seen.body["runId"]),
        (200, &"bob".into(), &run.as_str().into())
    );
    let shown = stdout(&server.run(&["links", "mint", &run, "gate", "--inspect", "--json"]));
    let shown: Value = serde_json::from_str(&shown).unwrap();
    assert_eq!((&shown["intent"], shown["token"].is_string()), (&"inspect".into(), true));
    let refused = server.run(&["links", "mint", &run, "unknown"]);
    assert_eq!(refused.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&refused.stderr).contains("interrupt"), "{refused:?}");
}

#[test]
fn secrets_are_listed_and_rotated_without_their_values() {
    let server = Server::start();
    assert!(stdout(&server.run(&["secrets", "list"])).contains("no secrets"));
    assert!(stdout(&server.run(&["secrets", "rotate"])).contains("older links stay valid"));
    assert!(stdout(&server.run(&["secrets", "rotate"])).contains("links are now signed with"));
    let list = stdout(&server.run(&["secrets", "list"]));
    assert!(list.contains("signs") && list.contains("verifies"), "{list}");
    assert!(
        stdout(&server.run(&["secrets", "rotate", "--revoke-old"]))
            .contains("older links are no longer valid")
    );
    let list = stdout(&server.run(&["secrets", "list"]));
    assert!(list.contains("signs") && !list.contains("verifies"), "{list}");
}
