//! A collector that hangs or is away holds nothing up; what it is not told is counted. And the log, for machines.

use std::fs::File;
use std::net::TcpListener;
use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::collector::{Collector, Mood};
use crate::harness::{KEY, PROGRAM, Server, accept, clean, gated};

/// A server that gives a collector `patience`, and logs into a file.
fn impatient(data: &Path, url: &str, patience_ms: &str, more: &[&str]) -> Server {
    let flags = [&["--otlp-endpoint", url], more].concat();
    let log = File::create(data.with_extension("log")).unwrap();
    Server::launch(data, &flags, |command| {
        command
            .env("OTEL_BSP_SCHEDULE_DELAY", "5")
            .env("OTEL_EXPORTER_OTLP_TIMEOUT", patience_ms)
            .env("HOLDPOINT_LOG", "info")
            .stderr(log)
    })
}

fn log(data: &Path) -> String {
    std::fs::read_to_string(data.with_extension("log")).unwrap()
}

fn dropped(server: &Server) -> u64 {
    let page = server.client.get("/metrics").body.as_str().unwrap().to_owned();
    let lines = page.lines().filter(|line| line.starts_with("holdpoint_telemetry_dropped_total{"));
    lines.map(|line| line.rsplit(' ').next().unwrap().parse::<u64>().unwrap()).sum()
}

fn cycle(server: &Server) -> String {
    let run = server.client.start_run("gated");
    assert_eq!(server.client.answer(&run, "gate", &accept()).status, 200);
    run
}

fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(30);
    while !holds() {
        assert!(Instant::now() < end, "it never came to this: {what}");
        std::thread::yield_now();
    }
}

#[test]
fn a_collector_that_hangs_holds_up_no_run_and_is_told_again_when_it_wakes() {
    let collector = Collector::start();
    collector.turn(Mood::Hangs);
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let server = impatient(&data, &collector.url, "300", &[]);
    server.client.put("/v1/workflows/gated", &gated("gated"));
    let begun = Instant::now();
    // Were each to wait for the collector, this would take 30 seconds.
    let lost: Vec<String> = (0..100).map(|_| cycle(&server)).collect();
    assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
    until("spans are dropped", || dropped(&server) > 0);
    collector.turn(Mood::Refuses);
    let before = dropped(&server);
    cycle(&server);
    until("what is refused is dropped", || dropped(&server) > before);
    collector.turn(Mood::Takes);
    let run = cycle(&server);
    let spans = collector.spans_of(&[&run]);
    assert!(spans.iter().all(|span| span.text("openwop.run_id") != lost[0]), "it is not kept for later");
    until("it is said that all is well", || log(&data).contains("again"));
    let log = log(&data);
    assert_eq!(log.matches("WARN").count(), 1, "one complaint: {log}");
}

#[test]
fn a_collector_that_is_away_is_found_when_it_comes() {
    let place = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = place.local_addr().unwrap();
    drop(place);
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let server = impatient(&data, &format!("http://{address}"), "10000", &[]);
    server.client.put("/v1/workflows/gated", &gated("gated"));
    cycle(&server);
    until("spans are dropped", || dropped(&server) > 0);
    let collector = Collector::on(TcpListener::bind(address).unwrap());
    let run = cycle(&server);
    assert!(!collector.spans_of(&[&run]).is_empty());
    assert_eq!(log(&data).matches("WARN").count(), 1);
}

#[test]
fn a_collector_that_hangs_does_not_keep_a_server_from_going_down() {
    let collector = Collector::start();
    collector.turn(Mood::Hangs);
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let mut server = impatient(&data, &collector.url, "60000", &[]);
    server.client.put("/v1/workflows/gated", &gated("gated"));
    (0..50).for_each(|_| drop(cycle(&server)));
    let asked = Instant::now();
    server.terminate();
    assert!(server.wait().success());
    assert!(asked.elapsed() < Duration::from_secs(10), "{:?}", asked.elapsed());
    assert!(log(&data).contains("what it was not told is lost"), "{}", log(&data));
}

#[test]
fn a_log_for_machines_is_one_object_a_line_and_holds_no_secret() {
    const CANARY: &str = "canary-51e0d7";
    let collector = Collector::start();
    collector.turn(Mood::Refuses);
    let folder = tempfile::tempdir().unwrap();
    let (data, log) = (folder.path().join("data"), folder.path().join("log"));
    let flags = ["--log-format", "json", "--otlp-endpoint", &collector.url];
    let mut server = Server::launch(&data, &flags, |command| {
        command
            .env("HOLDPOINT_LOG", "trace")
            .env("OTEL_BSP_SCHEDULE_DELAY", "5")
            .env("OTEL_EXPORTER_OTLP_HEADERS", format!("authorization=Bearer%20{CANARY},x-api-key={CANARY}"))
            .stderr(File::create(&log).unwrap())
    });
    server.client.put("/v1/workflows/gated", &gated("gated"));
    let secret = json!({"workflowId": "gated", "inputs": {"password": CANARY}, "metadata": {}});
    let run = server.client.post("/v1/runs", &secret).body["runId"].as_str().unwrap().to_owned();
    assert_eq!(server.client.answer(&run, "gate", &accept()).status, 200);
    until("the collector is complained about", || dropped(&server) > 0);
    // Whatever ends a start is said in the same way.
    let mut second = std::process::Command::new(PROGRAM);
    clean(&mut second)
        .args(["serve", "--listen", "127.0.0.1:0", "--log-format", "json", "--data"])
        .arg(&data);
    let refused = second.output().unwrap();
    assert_eq!(refused.status.code(), Some(1));
    server.terminate();
    assert!(server.wait().success());
    let text = std::fs::read_to_string(&log).unwrap() + std::str::from_utf8(&refused.stderr).unwrap();
    let lines: Vec<Value> = text
        .lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|_| panic!("no object: {line}")))
        .collect();
    for line in &lines {
        for member in ["timestamp", "level", "message"] {
            assert!(line[member].is_string() || member == "message", "{line}");
        }
    }
    let said =
        |words: &str| lines.iter().any(|line| line["message"].as_str().is_some_and(|it| it.contains(words)));
    assert!(said("telemetry cannot be sent") && said("in use by another process") && said("going down"));
    for secret in [CANARY, KEY] {
        let told = text.lines().find(|line| line.contains(secret));
        assert_eq!(told, None, "a secret is in the log");
    }
}
