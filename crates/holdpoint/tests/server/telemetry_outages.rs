//! Outages of the collector: runs are not delayed and lost telemetry is counted. Also the JSON log.

use std::fs::File;
use std::net::TcpListener;
use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::collector::{Collector, CollectorMode};
use crate::harness::{KEY, PROGRAM, Server, accept, clear_env, gated};

/// Starts a server with an export timeout of `timeout_ms` that logs into a file.
fn start_with_timeout(data: &Path, url: &str, timeout_ms: &str, more: &[&str]) -> Server {
    let flags = [&["--otlp-endpoint", url], more].concat();
    let log = File::create(data.with_extension("log")).unwrap();
    Server::launch(data, &flags, |command| {
        command
            .env("OTEL_BSP_SCHEDULE_DELAY", "5")
            .env("OTEL_EXPORTER_OTLP_TIMEOUT", timeout_ms)
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

fn start_and_answer_run(server: &Server) -> String {
    let run = server.client.start_run("gated");
    assert_eq!(server.client.answer(&run, "gate", &accept()).status, 200);
    run
}

fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(30);
    while !holds() {
        assert!(Instant::now() < end, "timed out: {what}");
        std::thread::yield_now();
    }
}

#[test]
fn a_hanging_collector_delays_no_run_and_gets_new_spans_after_it_recovers() {
    let collector = Collector::start();
    collector.set_mode(CollectorMode::Hang);
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let server = start_with_timeout(&data, &collector.url, "300", &[]);
    server.client.put("/v1/workflows/gated", &gated("gated"));
    let begun = Instant::now();
    // If each run waited for the collector, this would take 30 seconds.
    let lost: Vec<String> = (0..100).map(|_| start_and_answer_run(&server)).collect();
    assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
    until("spans are dropped", || dropped(&server) > 0);
    collector.set_mode(CollectorMode::Reject);
    let before = dropped(&server);
    start_and_answer_run(&server);
    until("rejected spans are dropped", || dropped(&server) > before);
    collector.set_mode(CollectorMode::Accept);
    let run = start_and_answer_run(&server);
    let spans = collector.spans_of(&[&run]);
    assert!(spans.iter().all(|span| span.text("openwop.run_id") != lost[0]), "a lost span is not sent later");
    until("the recovery is logged", || log(&data).contains("again"));
    let log = log(&data);
    assert_eq!(log.matches("WARN").count(), 1, "one warning: {log}");
}

#[test]
fn a_collector_that_starts_later_gets_new_spans() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let server = start_with_timeout(&data, &format!("http://{address}"), "10000", &[]);
    server.client.put("/v1/workflows/gated", &gated("gated"));
    start_and_answer_run(&server);
    until("spans are dropped", || dropped(&server) > 0);
    let collector = Collector::on(TcpListener::bind(address).unwrap());
    let run = start_and_answer_run(&server);
    assert!(!collector.spans_of(&[&run]).is_empty());
    assert_eq!(log(&data).matches("WARN").count(), 1);
}

#[test]
fn a_hanging_collector_does_not_delay_the_stop_of_a_server() {
    let collector = Collector::start();
    collector.set_mode(CollectorMode::Hang);
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let mut server = start_with_timeout(&data, &collector.url, "60000", &[]);
    server.client.put("/v1/workflows/gated", &gated("gated"));
    (0..50).for_each(|_| drop(start_and_answer_run(&server)));
    let asked = Instant::now();
    server.terminate();
    assert!(server.wait().success());
    assert!(asked.elapsed() < Duration::from_secs(10), "{:?}", asked.elapsed());
    assert!(log(&data).contains("telemetry that was not sent is lost"), "{}", log(&data));
}

#[test]
fn the_json_log_has_one_object_per_line_and_no_secret() {
    const CANARY: &str = "canary-51e0d7";
    let collector = Collector::start();
    collector.set_mode(CollectorMode::Reject);
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
    until("a failed export is counted", || dropped(&server) > 0);
    // A failed start is logged in the same format.
    let mut second = std::process::Command::new(PROGRAM);
    clear_env(&mut second)
        .args(["serve", "--listen", "127.0.0.1:0", "--log-format", "json", "--data"])
        .arg(&data);
    let refused = second.output().unwrap();
    assert_eq!(refused.status.code(), Some(1));
    server.terminate();
    assert!(server.wait().success());
    let text = std::fs::read_to_string(&log).unwrap() + std::str::from_utf8(&refused.stderr).unwrap();
    let lines: Vec<Value> = text
        .lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|_| panic!("not a JSON object: {line}")))
        .collect();
    for line in &lines {
        for member in ["timestamp", "level", "message"] {
            assert!(line[member].is_string() || member == "message", "{line}");
        }
    }
    let logged =
        |words: &str| lines.iter().any(|line| line["message"].as_str().is_some_and(|it| it.contains(words)));
    assert!(
        logged("telemetry cannot be sent") && logged("in use by another process") && logged("shutting down")
    );
    for secret in [CANARY, KEY] {
        let leaked = text.lines().find(|line| line.contains(secret));
        assert_eq!(leaked, None, "a secret is in the log");
    }
}
