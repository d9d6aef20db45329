//! `holdpoint webhooks`: management of webhooks and verification of deliveries.

use std::io::Write;
use std::process::{Command, Output, Stdio};

use serde_json::{Value, json};

use crate::harness::{PROGRAM, Server, clear_env, gated};
use crate::receiver::{ReceivedRequest, Receiver, Reply, server};

fn stdout(output: &Output) -> String {
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn add_webhook(server: &Server, arguments: &[&str]) -> Value {
    let all: Vec<&str> = ["webhooks", "add"].iter().chain(arguments).chain(&["--json"]).copied().collect();
    serde_json::from_str(&stdout(&server.run(&all))).unwrap()
}

#[test]
fn the_command_line_adds_shows_replays_and_removes_webhooks() {
    let (server, _folder) = server(&[]);
    server.client.put("/v1/workflows/gated", &gated("gated"));
    let receiver = Receiver::start();
    receiver.queue_replies(&[Reply::Status(500); 2]);
    let shown =
        stdout(&server.run(&["webhooks", "add", &receiver.url, "--events", "run.failed,run.completed"]));
    assert!(shown.contains("Store the secret now") && shown.contains("durable"), "{shown}");
    let flags = ["--events", "run.started", "--durable", "--max-attempts", "2", "--backoff", "none"];
    let made = add_webhook(&server, &[&[receiver.url.as_str()], &flags[..]].concat());
    let (id, secret) = (made["webhookId"].as_str().unwrap(), made["secret"].as_str().unwrap());
    let list = stdout(&server.run(&["webhooks", "list"]));
    assert!(list.contains(id) && list.contains("durable") && !list.contains(secret), "{list}");
    server.client.start_run("gated");
    receiver.wait_for(2);
    let letters = || stdout(&server.run(&["webhooks", "dead-letters", id]));
    let until = std::time::Instant::now() + std::time::Duration::from_secs(30);
    while !letters().contains("retries_exhausted") {
        assert!(std::time::Instant::now() < until);
    }
    let page = stdout(&server.run(&["webhooks", "deliveries", id, "--state", "dead-lettered", "--json"]));
    let page: Value = serde_json::from_str(&page).unwrap();
    let delivery = page["deliveries"][0]["deliveryId"].as_str().unwrap();
    let table = stdout(&server.run(&["webhooks", "deliveries", id]));
    assert!(table.contains(delivery) && table.contains("answered 500"), "{table}");
    assert!(stdout(&server.run(&["webhooks", "replay", id, delivery])).contains("queued"));
    receiver.wait_for(3);
    let shown = stdout(&server.run(&["webhooks", "replay", id, "--from", "1h", "--to", "2100-01-01"]));
    assert!(shown.contains("again"), "{shown}");
    assert!(stdout(&server.run(&["webhooks", "pause", id])).contains("paused"));
    let shown = stdout(&server.run(&["webhooks", "show", id]));
    assert!(shown.contains("operator-paused") && shown.contains("2 attempts, none"), "{shown}");
    assert!(stdout(&server.run(&["webhooks", "resume", id])).contains("active"));
    let rotated = stdout(&server.run(&["webhooks", "rotate", id, "--overlap", "2h", "--json"]));
    let rotated: Value = serde_json::from_str(&rotated).unwrap();
    assert_eq!(rotated["oldSecret"]["fingerprint"], made["secretFingerprint"]);
    let shown = stdout(&server.run(&["webhooks", "rotate", id, "--at-once"]));
    assert!(shown.contains("Store the secret now") && !shown.contains("valid until"), "{shown}");
    assert!(stdout(&server.run(&["webhooks", "remove", id])).contains("removed"));
    let removed = server.run(&["webhooks", "show", id]);
    assert_eq!(removed.status.code(), Some(1));
    let unknown = server.run(&["webhooks", "add", &receiver.url, "--events", "run.exploded"]);
    assert_eq!(unknown.status.code(), Some(1));
    assert!(
        String::from_utf8_lossy(&unknown.stderr).contains("run.completed"),
        "the error lists the known event types"
    );
    for wrong in [
        &["webhooks", "replay", id][..],
        &["webhooks", "replay", id, "--from", "1h"],
        &["webhooks", "add", "x"],
    ] {
        assert_eq!(server.run(wrong).status.code(), Some(2), "{wrong:?}");
    }
}

/// Runs `webhooks verify` on a delivery, without a server.
fn verify(one: &ReceivedRequest, body: &[u8], secret: Option<&str>, more: &[&str]) -> Output {
    let folder = tempfile::tempdir().unwrap();
    let lines: Vec<String> = one.headers.iter().map(|(name, value)| format!("{name}: {value}")).collect();
    let headers = folder.path().join("headers");
    std::fs::write(&headers, format!("POST / HTTP/1.1\n{}\n", lines.join("\n"))).unwrap();
    let mut command = Command::new(PROGRAM);
    clear_env(&mut command).args(["webhooks", "verify", "--headers"]).arg(headers).args(more);
    if let Some(secret) = secret {
        command.env("HOLDPOINT_WEBHOOK_SECRET", secret);
    }
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    // The command does not read the body if it fails earlier.
    let _ = child.stdin.take().unwrap().write_all(body);
    child.wait_with_output().unwrap()
}

#[test]
fn verify_accepts_genuine_deliveries_and_explains_the_rejection_of_others() {
    let (server, folder) = server(&[]);
    server.client.put("/v1/workflows/gated", &gated("gated"));
    let receiver = Receiver::start();
    let made = add_webhook(&server, &[&receiver.url, "--events", "run.started"]);
    let secret = made["secret"].as_str().unwrap();
    server.client.start_run("gated");
    let one = receiver.wait_for(1).remove(0);
    drop(server);
    let refused = |output: &Output, code: i32, words: &str| {
        assert_eq!(output.status.code(), Some(code), "{output:?}");
        let shown = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(shown.contains(words) && !shown.contains(secret), "{shown}");
    };
    let good = stdout(&verify(&one, &one.body, Some(secret), &[]));
    assert!(good.contains("genuine: run.started"), "{good}");
    let json: Value =
        serde_json::from_str(&stdout(&verify(&one, &one.body, Some(secret), &["--json"]))).unwrap();
    assert_eq!((&json["genuine"], &json["eventType"]), (&json!(true), &json!("run.started")));
    let file = folder.path().join("secret");
    std::fs::write(&file, format!("{secret}\n")).unwrap();
    stdout(&verify(&one, &one.body, None, &["--secret-file", file.to_str().unwrap()]));
    let mut changed = one.body.clone();
    *changed.last_mut().unwrap() = b' ';
    refused(&verify(&one, &changed, Some(secret), &[]), 1, "invalid signature");
    refused(&verify(&one, &one.body, Some("another"), &[]), 1, "invalid signature");
    refused(
        &verify(&one, &one.body, Some(secret), &["--at", "2100-01-01T00:00:00Z"]),
        1,
        "differs from the current time",
    );
    refused(&verify(&one, &one.body, None, &[]), 2, "the secret is missing");
    let mut other = one.clone();
    other.headers.insert("x-openwop-signature-algorithm".to_owned(), "v2".to_owned());
    refused(&verify(&other, &one.body, Some(secret), &[]), 1, "unknown signature algorithm");
}
