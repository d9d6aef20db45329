//! The secret of a webhook is shown once. It is in no log, no later response, no receipt and no file.

use std::path::Path;

use serde_json::{Value, json};

use crate::harness::{Server, accept, gated};
use crate::idempotency::{is_replay, send};
use crate::receiver::{Hook, Receiver, Reply};

const IN_URL: &str = "canary-in-the-path-5d1e";

fn files(folder: &Path, found: &mut Vec<std::path::PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() { files(&path, found) } else { found.push(path) }
    }
}

fn contains(bytes: &[u8], text: &str) -> bool {
    bytes.windows(text.len()).any(|window| window == text.as_bytes())
}

#[test]
fn a_webhook_secret_is_in_no_log_response_receipt_or_file() {
    let (mut server, log) =
        Server::start_logging(&["--allow-private-webhooks", "--webhook-cooldown", "1h"], "trace");
    let client = &server.client.clone();
    client.put("/v1/workflows/gated", &gated("gated"));
    let receiver = Receiver::start();
    receiver.queue_replies(&[Reply::Status(500); 12]);
    let url = format!("{}/{IN_URL}", receiver.url);
    let events = ["run.started", "interrupt.requested", "run.completed"];
    let body = json!({"url": url, "events": events, "durable": true, "retryPolicy": {"maxAttempts": 2, "backoff": "none"}});
    let first = send(client, "POST", "/v1/webhooks", Some(&body), "k");
    let made: Value = serde_json::from_str(first.body()).unwrap();
    let durable = Hook {
        id: made["webhookId"].as_str().unwrap().to_owned(),
        secret: made["secret"].as_str().unwrap().to_owned(),
        shown: made,
    };
    let plain = Hook::create(client, &url, json!({"events": events}));
    let mut responses = Vec::new();
    let again = send(client, "POST", "/v1/webhooks", Some(&body), "k");
    assert!(is_replay(&again));
    responses.push(again.into_body());
    let run = client.start_run("gated");
    client.answer(&run, "gate", &accept());
    let dead = |page: &Value| page["deliveries"].as_array().unwrap().len() == 3;
    durable.wait_until(client, "/dead-letters", dead);
    plain.wait_until(client, "/deliveries", dead);
    let mut wrong = body.clone();
    wrong["secret"] = json!(durable.secret);
    responses.push(client.post("/v1/webhooks", &wrong).body.to_string());
    for hook in [&durable, &plain] {
        for verb in [":pause", ":resume", ":resume"] {
            responses.push(client.send("POST", &format!("{}{verb}", hook.path()), None).body.to_string());
        }
        for path in ["", "/deliveries", "/dead-letters", "/events", "/events?type=trigger.delivery.attempted"]
        {
            responses.push(client.get(&format!("{}{path}", hook.path())).body.to_string());
        }
    }
    for path in ["/v1/webhooks", "/metrics", "/.well-known/openwop"] {
        responses.push(client.exchange("GET", path, None, &[]).into_body());
    }
    responses.push(Value::Array(client.events(&run)).to_string());
    responses.push(client.get(&format!("/v1/runs/{run}/debug-bundle")).body.to_string());
    server.kill();
    let text = std::fs::read_to_string(log).unwrap();
    assert!(
        text.contains(durable.shown["secretFingerprint"].as_str().unwrap()),
        "logs name the fingerprint: {text}"
    );
    assert!(!text.contains(IN_URL), "a path may be a secret too");
    let mut contents = Vec::new();
    files(server.data(), &mut contents);
    assert!(contents.iter().any(|path| path.ends_with("holdpoint.db")));
    let contents: Vec<Vec<u8>> = contents.iter().map(|path| std::fs::read(path).unwrap()).collect();
    assert!(contents.iter().any(|bytes| contains(bytes, &durable.id)), "the files contain the webhook");
    for secret in [&durable.secret, &plain.secret] {
        assert!(!text.contains(secret.as_str()), "in the log");
        assert!(responses.iter().all(|answer| !answer.contains(secret.as_str())), "{responses:#?}");
        assert!(contents.iter().all(|bytes| !contains(bytes, secret)), "in a file");
    }
}
