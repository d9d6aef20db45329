//! Receivers behind TLS, correct and hostile: deliveries fail with their cause, data of responses is not stored, no
//! connection stays open, and other webhooks are not affected.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::certificates::Certificates;
use crate::harness::{Client, Server, gated};
use crate::receiver::Hook;
use crate::tls_receiver::{CANARY, LARGE, TlsBehavior, TlsReceiver, certificates};

const IN_URL: &str = "canary-of-a-path-09ab";

struct WebhookServer {
    server: Server,
    certificates: Certificates,
    log: PathBuf,
    // Declared last, so that the files exist until the server is dropped.
    _folder: TempDir,
}

/// Starts a server that trusts the authority `ours` and logs at the level trace.
fn start_server() -> WebhookServer {
    let folder = tempfile::tempdir().unwrap();
    let certificates = certificates(folder.path().join("certificates"));
    let authority = certificates.certificate("ours");
    let log = folder.path().join("log");
    let file = std::fs::File::create(&log).unwrap();
    let flags = ["--allow-private-webhooks", "--outgoing-ca", authority.to_str().unwrap()];
    let server = Server::launch(&folder.path().join("data"), &flags, |command| {
        command.env("HOLDPOINT_LOG", "trace").stderr(file)
    });
    server.client.put("/v1/workflows/gated", &gated("gated"));
    WebhookServer { server, certificates, log, _folder: folder }
}

impl WebhookServer {
    fn client(&self) -> &Client {
        &self.server.client
    }

    fn receiver(&self, certificate: &str, behavior: TlsBehavior) -> TlsReceiver {
        TlsReceiver::start(&self.certificates, certificate, behavior)
    }

    fn hook(&self, receiver: &TlsReceiver, durable: bool) -> Hook {
        let mut more = json!({"events": ["run.started"], "durable": durable});
        if durable {
            more["retryPolicy"] = json!({"maxAttempts": 1, "backoff": "none"});
        }
        Hook::create(self.client(), &format!("{}/{IN_URL}", receiver.url()), more)
    }

    /// Returns the open files and sockets of the server, without those of its database, whose number varies.
    fn open_files(&self) -> Vec<PathBuf> {
        let entries = std::fs::read_dir(format!("/proc/{}/fd", self.server.pid())).unwrap();
        // A file may be closed during the listing.
        let links = entries.filter_map(|entry| std::fs::read_link(entry.ok()?.path()).ok());
        let mut found: Vec<PathBuf> = links.filter(|path| !path.starts_with(self.server.data())).collect();
        found.sort();
        found
    }

    /// Returns the peak memory of the server in bytes.
    fn memory_peak(&self) -> usize {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.server.pid())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
        line.trim().trim_end_matches(" kB").parse::<usize>().unwrap() * 1024
    }

    /// Waits until the server has no more open files than before.
    fn wait_open_files(&self, before: &[PathBuf]) {
        let until = Instant::now() + Duration::from_secs(30);
        while self.open_files().len() > before.len() {
            assert!(Instant::now() < until, "{:#?} are open, and {before:#?} were before", self.open_files());
            std::thread::yield_now();
        }
    }

    /// Makes one delivery, so that all permanent connections are open. Returns the open files.
    fn warm_up(&self) -> Vec<PathBuf> {
        let good = self.receiver("good", TlsBehavior::Good);
        let hook = self.hook(&good, true);
        self.client().start_run("gated");
        wait_for_ended(self.client(), &hook, 1);
        good.wait_for_closed_connections(1);
        assert_eq!(self.client().send("DELETE", &hook.path(), None).status, 204);
        self.open_files()
    }

    /// Asserts that no secret, no path and no text of a receiver is in the log or in a response.
    fn assert_nothing_leaked(mut self, hooks: &[&Hook]) {
        let responses: Vec<String> = hooks
            .iter()
            .flat_map(|hook| {
                ["", "/deliveries", "/dead-letters", "/events", "/events?type=trigger.delivery.attempted"]
                    .map(|path| format!("{}{path}", hook.path()))
            })
            .map(|path| self.client().get(&path).body.to_string())
            .collect();
        self.server.kill();
        let log = std::fs::read_to_string(&self.log).unwrap();
        assert!(hooks.iter().all(|hook| log.contains(hook.shown["secretFingerprint"].as_str().unwrap())));
        for secret in hooks.iter().map(|hook| hook.secret.as_str()).chain([CANARY, "hook.example"]) {
            assert!(!log.contains(secret), "{secret} is in the log");
            assert!(responses.iter().all(|answer| !answer.contains(secret)), "{secret} is in {responses:#?}");
        }
        assert!(!log.contains(IN_URL), "a path may be a secret too");
    }
}

/// Waits until this number of deliveries has ended and returns them.
fn wait_for_ended(client: &Client, hook: &Hook, count: usize) -> Vec<Value> {
    let page = hook.wait_until(client, "/deliveries", |page| {
        let all = page["deliveries"].as_array().unwrap();
        all.len() >= count && all.iter().all(|one| one["endedAt"].is_string())
    });
    page["deliveries"].as_array().unwrap().clone()
}

/// Returns the error and the latency of the only attempt of a failed delivery.
fn failure(client: &Client, hook: &Hook, durable: bool) -> (String, u64) {
    let all = wait_for_ended(client, hook, 1);
    assert_eq!(all.len(), 1, "{all:?}");
    let state = if durable { "dead-lettered" } else { "dropped" };
    assert_eq!(all[0]["state"], state, "{}", all[0]);
    let attempts = all[0]["attempts"].as_array().unwrap();
    assert_eq!(attempts.len(), 1, "{attempts:?}");
    assert_eq!(attempts[0].get("status"), None, "no response was accepted: {}", attempts[0]);
    (attempts[0]["error"].as_str().unwrap().to_owned(), attempts[0]["latencyMs"].as_u64().unwrap())
}

#[test]
fn a_receiver_with_a_valid_certificate_gets_deliveries_under_its_name() {
    let webhook_server = start_server();
    let receiver = webhook_server.receiver("good", TlsBehavior::Good);
    for durable in [false, true] {
        let hook = webhook_server.hook(&receiver, durable);
        webhook_server.client().start_run("gated");
        let received = receiver.wait_for(if durable { 3 } else { 1 });
        let own = received.iter().find(|one| one.header("x-openwop-webhook-id") == hook.id).unwrap();
        assert_eq!(own.header("host"), format!("localhost:{}", receiver.port));
        assert_eq!(own.path, format!("/{IN_URL}"));
        assert!(own.is_signed_with(&hook.secret));
        let delivered = wait_for_ended(webhook_server.client(), &hook, 1);
        assert_eq!(delivered[0]["state"], "delivered", "{delivered:?}");
        assert_eq!(delivered[0]["attempts"][0]["status"], 204);
    }
    assert!(receiver.server_names().iter().all(|name| name.as_deref() == Some("localhost")));
    receiver.wait_for_closed_connections(3);
}

#[test]
fn a_receiver_with_an_invalid_certificate_gets_no_request() {
    let webhook_server = start_server();
    let before = webhook_server.warm_up();
    let cases: Vec<(TlsReceiver, Hook, &str)> = [
        ("of-another-name", "its certificate is for another name"),
        ("of-a-stranger", "its certificate is from an authority that is not trusted here"),
        ("expired", "its certificate has expired"),
        ("for-clients", "certificate"),
    ]
    .map(|(certificate, cause)| {
        let receiver = webhook_server.receiver(certificate, TlsBehavior::Good);
        let hook = webhook_server.hook(&receiver, true);
        (receiver, hook, cause)
    })
    .into();
    webhook_server.client().start_run("gated");
    for (receiver, hook, cause) in &cases {
        let (error, _) = failure(webhook_server.client(), hook, true);
        let start = format!("the TLS connection to {} failed: ", receiver.url());
        assert!(error.starts_with(&start) && error.contains(cause), "{error}");
        receiver.wait_for_closed_connections(1);
        assert!(receiver.requests().is_empty(), "no request is sent");
    }
    webhook_server.wait_open_files(&before);
    webhook_server.assert_nothing_leaked(&cases.iter().map(|(_, hook, _)| hook).collect::<Vec<_>>());
}

#[test]
fn an_unknown_authority_is_rejected_and_an_invalid_authority_file_ends_the_start() {
    let folder = tempfile::tempdir().unwrap();
    let made = certificates(folder.path().join("certificates"));
    let receiver = TlsReceiver::start(&made, "good", TlsBehavior::Good);
    let server = Server::start_in(&folder.path().join("data"), &["--allow-private-webhooks"]);
    server.client.put("/v1/workflows/gated", &gated("gated"));
    let hook = Hook::create(&server.client, &receiver.url(), json!({"events": ["run.started"]}));
    server.client.start_run("gated");
    let (error, _) = failure(&server.client, &hook, false);
    assert!(error.contains("not trusted here"), "{error}");
    let (missing, key) = (folder.path().join("missing.pem"), made.key("ours"));
    for file in [missing.to_str().unwrap(), key.to_str().unwrap()] {
        for command in [&["serve"][..], &["workflows", "check", "-"]] {
            let mut program = std::process::Command::new(crate::harness::PROGRAM);
            let (listen, any) = crate::harness::ANY_PORT;
            crate::harness::clear_env(&mut program)
                .args(command)
                .env(listen, any)
                .env("HOLDPOINT_OUTGOING_CA", file);
            let output =
                program.stdin(std::process::Stdio::null()).current_dir(folder.path()).output().unwrap();
            let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
            assert_eq!(output.status.code(), Some(2), "{stderr}");
            assert!(stderr.contains("--outgoing-ca") && stderr.contains(file), "{stderr}");
        }
    }
}

/// The behavior of a receiver, the cause in the error, and true if the attempt uses its full timeout.
const HOSTILE: [(TlsBehavior, &str, bool); 14] = [
    (TlsBehavior::NoHandshake, "timed out after 5000 ms while performing the TLS handshake", true),
    (TlsBehavior::NeverEnds, "timed out after 5000 ms while reading the response", true),
    (TlsBehavior::NoTls, "the TLS connection", false),
    (TlsBehavior::ResetsTheHandshake, "the TLS connection", false),
    (TlsBehavior::Resets, "reset by peer", false),
    (TlsBehavior::ClosesItsHalf, "peer closed connection", false),
    (TlsBehavior::ClosesItsHalfEarly, "end of file before message length reached", false),
    (TlsBehavior::CutsOff, "without sending TLS close_notify", false),
    (TlsBehavior::LargeAndSaysSo, "exceeds 65536 bytes", false),
    (TlsBehavior::Large, "exceeds 65536 bytes", false),
    (TlsBehavior::Endless, "exceeds 65536 bytes", false),
    (TlsBehavior::EndlessHead, "broke: message head is too large", false),
    (TlsBehavior::Storm, "too much data before the response", false),
    (TlsBehavior::Nonsense, "broke: invalid HTTP version parsed", false),
];

fn check_hostile_receivers(durable: bool) {
    let webhook_server = start_server();
    let before = webhook_server.warm_up();
    let good = webhook_server.receiver("good", TlsBehavior::Good);
    let cases: Vec<(TlsReceiver, Hook)> = HOSTILE
        .iter()
        .map(|(behavior, ..)| webhook_server.receiver("good", *behavior))
        .map(|receiver| (webhook_server.hook(&receiver, durable), receiver))
        .map(|(hook, receiver)| (receiver, hook))
        .collect();
    let healthy = webhook_server.hook(&good, durable);
    let begun = Instant::now();
    webhook_server.client().start_run("gated");
    good.wait_for(1);
    assert!(begun.elapsed() < Duration::from_secs(4), "before the timeout of the other receivers");
    assert_eq!(wait_for_ended(webhook_server.client(), &healthy, 1)[0]["state"], "delivered");
    for ((behavior, cause, uses_timeout), (receiver, hook)) in HOSTILE.iter().zip(&cases) {
        let (error, latency_ms) = failure(webhook_server.client(), hook, durable);
        assert!(error.contains(cause) && error.contains(&receiver.url()), "{behavior:?}: {error}");
        assert!(error.len() < 400, "{behavior:?}: {error}");
        assert_eq!(latency_ms >= 4990, *uses_timeout, "{behavior:?} took {latency_ms} ms: {error}");
        assert!(latency_ms < 10_000, "{behavior:?} took {latency_ms} ms");
        receiver.wait_for_closed_connections(1);
        assert!(receiver.bytes_written() < LARGE, "{behavior:?} sent {} bytes", receiver.bytes_written());
    }
    webhook_server.wait_open_files(&before);
    let hooks: Vec<&Hook> = cases.iter().map(|(_, hook)| hook).chain([&healthy]).collect();
    webhook_server.assert_nothing_leaked(&hooks);
}

#[test]
fn a_durable_delivery_to_a_hostile_receiver_fails_with_its_cause_and_leaks_no_resources() {
    check_hostile_receivers(true);
}

#[test]
fn a_best_effort_delivery_to_a_hostile_receiver_fails_with_its_cause_and_leaks_no_resources() {
    check_hostile_receivers(false);
}

#[test]
fn large_and_endless_responses_are_not_buffered() {
    let webhook_server = start_server();
    let before = webhook_server.warm_up();
    let behaviors = [
        TlsBehavior::Large,
        TlsBehavior::LargeAndSaysSo,
        TlsBehavior::Endless,
        TlsBehavior::Storm,
        TlsBehavior::EndlessHead,
    ];
    let cases: Vec<(TlsReceiver, Hook)> = behaviors
        .map(|behavior| webhook_server.receiver("good", behavior))
        .map(|receiver| (webhook_server.hook(&receiver, true), receiver))
        .map(|(hook, receiver)| (receiver, hook))
        .into();
    let peak = webhook_server.memory_peak();
    for _ in 0..8 {
        webhook_server.client().start_run("gated");
    }
    for (receiver, hook) in &cases {
        let all = wait_for_ended(webhook_server.client(), hook, 8);
        assert!(all.iter().all(|one| one["state"] == "dead-lettered"), "{all:?}");
        receiver.wait_for_closed_connections(8);
    }
    let more = webhook_server.memory_peak() - peak;
    assert!(more < LARGE, "{more} bytes for forty responses of {LARGE} bytes each");
    webhook_server.wait_open_files(&before);
}
