//! Subscribers behind TLS, good ones and hostile ones: each gets what it is due, and nothing that one of them does is
//! kept, held open or noticed by another.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::certificates::Certificates;
use crate::harness::{Client, Server, gated};
use crate::receiver::Hook;
use crate::tls_receiver::{CANARY, LARGE, Manner, TlsReceiver, certificates};

const IN_URL: &str = "canary-of-a-path-09ab";

struct House {
    server: Server,
    certificates: Certificates,
    log: PathBuf,
    // Last, so that files are there as long as anything may read them.
    _folder: TempDir,
}

/// A server that trusts one authority of ours and writes down everything.
fn house() -> House {
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
    House { server, certificates, log, _folder: folder }
}

impl House {
    fn client(&self) -> &Client {
        &self.server.client
    }

    fn receiver(&self, certificate: &str, manner: Manner) -> TlsReceiver {
        TlsReceiver::start(&self.certificates, certificate, manner)
    }

    fn hook(&self, receiver: &TlsReceiver, durable: bool) -> Hook {
        let mut more = json!({"events": ["run.started"], "durable": durable});
        if durable {
            more["retryPolicy"] = json!({"maxAttempts": 1, "backoff": "none"});
        }
        Hook::add(self.client(), &format!("{}/{IN_URL}", receiver.url()), more)
    }

    /// Files and sockets that the server has open; of its database it opens more as it has more to read.
    fn open_files(&self) -> Vec<PathBuf> {
        let entries = std::fs::read_dir(format!("/proc/{}/fd", self.server.pid())).unwrap();
        // One may be closed while they are looked at.
        let links = entries.filter_map(|entry| std::fs::read_link(entry.ok()?.path()).ok());
        let mut found: Vec<PathBuf> = links.filter(|path| !path.starts_with(self.server.data())).collect();
        found.sort();
        found
    }

    /// The most memory the server ever had, in bytes.
    fn memory_peak(&self) -> usize {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.server.pid())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
        line.trim().trim_end_matches(" kB").parse::<usize>().unwrap() * 1024
    }

    /// Waits until the server holds no more open than it did before.
    fn wait_open_files(&self, before: &[PathBuf]) {
        let until = Instant::now() + Duration::from_secs(30);
        while self.open_files().len() > before.len() {
            assert!(Instant::now() < until, "{:#?} are open, and {before:#?} were before", self.open_files());
            std::thread::yield_now();
        }
    }

    /// Lets one delivery through, so that everything is open that stays open.
    fn warm(&self) -> Vec<PathBuf> {
        let good = self.receiver("good", Manner::Good);
        let hook = self.hook(&good, true);
        self.client().start_run("gated");
        ended(self.client(), &hook, 1);
        good.wait_gone(1);
        assert_eq!(self.client().send("DELETE", &hook.path(), None).status, 204);
        self.open_files()
    }

    /// Neither what receivers said nor what they were not to say again is anywhere.
    fn assert_kept_nothing(mut self, hooks: &[&Hook]) {
        let answers: Vec<String> = hooks
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
            assert!(answers.iter().all(|answer| !answer.contains(secret)), "{secret} is in {answers:#?}");
        }
        assert!(!log.contains(IN_URL), "a path may be a secret, too");
    }
}

/// The deliveries of a webhook when so many have ended.
fn ended(client: &Client, hook: &Hook, count: usize) -> Vec<Value> {
    let page = hook.until(client, "/deliveries", |page| {
        let all = page["deliveries"].as_array().unwrap();
        all.len() >= count && all.iter().all(|one| one["endedAt"].is_string())
    });
    page["deliveries"].as_array().unwrap().clone()
}

/// What a delivery that failed says of its only attempt.
fn failure(client: &Client, hook: &Hook, durable: bool) -> (String, u64) {
    let all = ended(client, hook, 1);
    assert_eq!(all.len(), 1, "{all:?}");
    let state = if durable { "dead-lettered" } else { "dropped" };
    assert_eq!(all[0]["state"], state, "{}", all[0]);
    let attempts = all[0]["attempts"].as_array().unwrap();
    assert_eq!(attempts.len(), 1, "{attempts:?}");
    assert_eq!(attempts[0].get("status"), None, "no answer was taken: {}", attempts[0]);
    (attempts[0]["error"].as_str().unwrap().to_owned(), attempts[0]["latencyMs"].as_u64().unwrap())
}

#[test]
fn a_subscriber_with_a_good_certificate_is_told_under_its_own_name() {
    let house = house();
    let receiver = house.receiver("good", Manner::Good);
    for durable in [false, true] {
        let hook = house.hook(&receiver, durable);
        house.client().start_run("gated");
        let told = receiver.wait_for(if durable { 3 } else { 1 });
        let own = told.iter().find(|one| one.header("x-openwop-webhook-id") == hook.id).unwrap();
        assert_eq!(own.header("host"), format!("localhost:{}", receiver.port));
        assert_eq!(own.path, format!("/{IN_URL}"));
        assert!(own.is_signed_with(&hook.secret));
        let delivered = ended(house.client(), &hook, 1);
        assert_eq!(delivered[0]["state"], "delivered", "{delivered:?}");
        assert_eq!(delivered[0]["attempts"][0]["status"], 204);
    }
    assert!(receiver.asked_for().iter().all(|name| name.as_deref() == Some("localhost")));
    receiver.wait_gone(3);
}

#[test]
fn whoever_cannot_prove_its_name_is_told_nothing() {
    let house = house();
    let before = house.warm();
    let cases: Vec<(TlsReceiver, Hook, &str)> = [
        ("of-another-name", "its certificate is for another name"),
        ("of-a-stranger", "its certificate is from an authority that is not trusted here"),
        ("expired", "its certificate has expired"),
        ("for-clients", "certificate"),
    ]
    .map(|(certificate, cause)| {
        let receiver = house.receiver(certificate, Manner::Good);
        let hook = house.hook(&receiver, true);
        (receiver, hook, cause)
    })
    .into();
    house.client().start_run("gated");
    for (receiver, hook, cause) in &cases {
        let (error, _) = failure(house.client(), hook, true);
        let start = format!("there is no trusted connection to {}: ", receiver.url());
        assert!(error.starts_with(&start) && error.contains(cause), "{error}");
        receiver.wait_gone(1);
        assert!(receiver.so_far().is_empty(), "nothing is said to a stranger");
    }
    house.wait_open_files(&before);
    house.assert_kept_nothing(&cases.iter().map(|(_, hook, _)| hook).collect::<Vec<_>>());
}

#[test]
fn without_its_authority_a_subscriber_is_a_stranger_and_a_file_that_is_none_stops_the_start() {
    let folder = tempfile::tempdir().unwrap();
    let made = certificates(folder.path().join("certificates"));
    let receiver = TlsReceiver::start(&made, "good", Manner::Good);
    let server = Server::start_in(&folder.path().join("data"), &["--allow-private-webhooks"]);
    server.client.put("/v1/workflows/gated", &gated("gated"));
    let hook = Hook::add(&server.client, &receiver.url(), json!({"events": ["run.started"]}));
    server.client.start_run("gated");
    let (error, _) = failure(&server.client, &hook, false);
    assert!(error.contains("not trusted here"), "{error}");
    let (missing, key) = (folder.path().join("missing.pem"), made.key("ours"));
    for file in [missing.to_str().unwrap(), key.to_str().unwrap()] {
        for command in [&["serve"][..], &["workflows", "check", "-"]] {
            let mut program = std::process::Command::new(crate::harness::PROGRAM);
            let (listen, any) = crate::harness::ANY_PORT;
            crate::harness::clean(&mut program)
                .args(command)
                .env(listen, any)
                .env("HOLDPOINT_OUTGOING_CA", file);
            let output =
                program.stdin(std::process::Stdio::null()).current_dir(folder.path()).output().unwrap();
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            assert_eq!(output.status.code(), Some(2), "{said}");
            assert!(said.contains("--outgoing-ca") && said.contains(file), "{said}");
        }
    }
}

/// How a subscriber misbehaves, what is said of it, and whether all the time of an attempt goes by.
const HOSTILE: [(Manner, &str, bool); 14] = [
    (Manner::NoHandshake, "within 5000 ms, which were over while the TLS handshake was under way", true),
    (Manner::NeverEnds, "within 5000 ms, which were over while its answer was read", true),
    (Manner::NoTls, "there is no trusted connection", false),
    (Manner::ResetsTheHandshake, "there is no trusted connection", false),
    (Manner::Resets, "reset by peer", false),
    (Manner::ClosesItsHalf, "peer closed connection", false),
    (Manner::ClosesItsHalfEarly, "end of file before message length reached", false),
    (Manner::CutsOff, "without sending TLS close_notify", false),
    (Manner::LargeAndSaysSo, "answered with more than 65536 bytes", false),
    (Manner::Large, "answered with more than 65536 bytes", false),
    (Manner::Endless, "answered with more than 65536 bytes", false),
    (Manner::EndlessHead, "broke: message head is too large", false),
    (Manner::Storm, "too much came before an answer", false),
    (Manner::Nonsense, "broke: invalid HTTP version parsed", false),
];

fn everything_hostile_fails(durable: bool) {
    let house = house();
    let before = house.warm();
    let good = house.receiver("good", Manner::Good);
    let cases: Vec<(TlsReceiver, Hook)> = HOSTILE
        .iter()
        .map(|(manner, ..)| house.receiver("good", *manner))
        .map(|receiver| (house.hook(&receiver, durable), receiver))
        .map(|(hook, receiver)| (receiver, hook))
        .collect();
    let healthy = house.hook(&good, durable);
    let begun = Instant::now();
    house.client().start_run("gated");
    good.wait_for(1);
    assert!(begun.elapsed() < Duration::from_secs(4), "before anybody else's time was over");
    assert_eq!(ended(house.client(), &healthy, 1)[0]["state"], "delivered");
    for ((manner, cause, in_time), (receiver, hook)) in HOSTILE.iter().zip(&cases) {
        let (error, latency_ms) = failure(house.client(), hook, durable);
        assert!(error.contains(cause) && error.contains(&receiver.url()), "{manner:?}: {error}");
        assert!(error.len() < 400, "{manner:?}: {error}");
        assert_eq!(latency_ms >= 4990, *in_time, "{manner:?} took {latency_ms} ms: {error}");
        assert!(latency_ms < 10_000, "{manner:?} took {latency_ms} ms");
        receiver.wait_gone(1);
        assert!(receiver.taken() < LARGE, "{manner:?} said {} bytes", receiver.taken());
    }
    house.wait_open_files(&before);
    let hooks: Vec<&Hook> = cases.iter().map(|(_, hook)| hook).chain([&healthy]).collect();
    house.assert_kept_nothing(&hooks);
}

#[test]
fn every_way_to_spoil_a_durable_delivery_is_a_failure_that_names_its_cause_and_leaves_nothing_behind() {
    everything_hostile_fails(true);
}

#[test]
fn every_way_to_spoil_a_best_effort_delivery_is_a_failure_that_names_its_cause_and_leaves_nothing_behind() {
    everything_hostile_fails(false);
}

#[test]
fn large_and_endless_answers_are_never_in_memory() {
    let house = house();
    let before = house.warm();
    let manners =
        [Manner::Large, Manner::LargeAndSaysSo, Manner::Endless, Manner::Storm, Manner::EndlessHead];
    let cases: Vec<(TlsReceiver, Hook)> = manners
        .map(|manner| house.receiver("good", manner))
        .map(|receiver| (house.hook(&receiver, true), receiver))
        .map(|(hook, receiver)| (receiver, hook))
        .into();
    let peak = house.memory_peak();
    for _ in 0..8 {
        house.client().start_run("gated");
    }
    for (receiver, hook) in &cases {
        let all = ended(house.client(), hook, 8);
        assert!(all.iter().all(|one| one["state"] == "dead-lettered"), "{all:?}");
        receiver.wait_gone(8);
    }
    let more = house.memory_peak() - peak;
    assert!(more < LARGE, "{more} bytes for forty answers of which one alone has {LARGE}");
    house.wait_open_files(&before);
}
