//! Settings of the outgoing policy: addresses that nodes may call.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::Command;

use serde_json::{Value, json};

use crate::harness::{ANY_PORT, PROGRAM, Server, clear_env, gated};

/// Returns a workflow with one node that calls a URL.
fn calling(id: &str, url: &str) -> Value {
    let mut flow = gated(id);
    flow["nodes"] =
        json!([{"id": "call", "typeId": "core.http", "name": "Call", "config": {"url": url}, "inputs": {}}]);
    flow["edges"] = json!([]);
    flow
}

/// Starts a server on this machine that responds to one request.
fn start_local_server() -> (String, std::thread::JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    let answering = std::thread::spawn(move || {
        let (mut stream, _): (TcpStream, _) = listener.accept().unwrap();
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            stream.read_exact(&mut byte).unwrap();
            head.push(byte[0]);
        }
        let answer =
            "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 11\r\n\r\n{\"near\": 1}";
        stream.write_all(answer.as_bytes()).unwrap();
    });
    (url, answering)
}

#[test]
fn loopback_is_denied_by_default_and_allowing_it_logs_a_warning() {
    let (url, answering) = start_local_server();
    let flow = calling("calls", &url);
    let closed = Server::start();
    closed.client.put("/v1/workflows/calls", &flow).assert_envelope(400, "validation_error");
    let (open, log) = Server::start_logging(&["--outgoing-allow-loopback"], "warn");
    assert_eq!(open.client.put("/v1/workflows/calls", &flow).status, 201);
    let run = open.client.start_run("calls");
    let frames = open.client.stream(&format!("/v1/runs/{run}/events"), None);
    assert_eq!(frames.last().unwrap().1, "run.completed", "{frames:?}");
    answering.join().unwrap();
    let log = std::fs::read_to_string(log).unwrap();
    assert!(log.contains("OUTGOING CALLS MAY REACH THIS MACHINE"), "{log}");
}

#[test]
fn networks_are_allowed_and_denied_by_flags_and_file_and_deny_wins() {
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("holdpoint.toml");
    std::fs::write(&config, "outgoing_allow = [\"10.20.0.0/16\"]\noutgoing_deny = [\"10.20.9.0/24\"]\n")
        .unwrap();
    let by_file = Server::start_in(&folder.path().join("a"), &["--config", config.to_str().unwrap()]);
    let flags = ["--outgoing-allow", "10.20.0.0/16,192.168.7.0/24", "--outgoing-deny", "10.20.9.0/24"];
    let by_flags = Server::start_in(&folder.path().join("b"), &flags);
    let plain = Server::start_in(&folder.path().join("c"), &[]);
    for (host, of_file, of_flags) in
        [("10.20.1.1", 201, 201), ("10.20.9.1", 400, 400), ("10.21.0.1", 400, 400), ("192.168.7.1", 400, 201)]
    {
        let flow = calling(&format!("to-{}", host.replace('.', "-")), &format!("https://{host}/"));
        let path = format!("/v1/workflows/{}", flow["id"].as_str().unwrap());
        assert_eq!(plain.client.put(&path, &flow).status, 400, "{host}");
        assert_eq!(by_file.client.put(&path, &flow).status, of_file, "{host}");
        assert_eq!(by_flags.client.put(&path, &flow).status, of_flags, "{host}");
    }
}

#[test]
fn allowing_a_cloud_metadata_address_logs_a_warning() {
    let (_server, log) = Server::start_logging(&["--outgoing-allow", "0.0.0.0/0"], "info");
    let log = std::fs::read_to_string(log).unwrap();
    assert!(log.contains("169.254.169.254") && log.contains("0.0.0.0/0"), "{log}");
    let closed = ["--outgoing-allow", "0.0.0.0/0", "--outgoing-deny", "169.254.0.0/16"];
    let (_server, log) = Server::start_logging(&closed, "warn");
    let log = std::fs::read_to_string(log).unwrap();
    assert!(!log.contains("169.254.169.254"), "{log}");
}

#[test]
fn environment_variables_are_read_and_an_invalid_network_stops_the_start() {
    let folder = tempfile::tempdir().unwrap();
    let flow = calling("calls", "https://10.20.1.1/");
    std::fs::write(folder.path().join("calls.json"), flow.to_string()).unwrap();
    std::fs::write(folder.path().join("bad.toml"), "outgoing_deny = [\"10.0.0.1/8\"]").unwrap();
    let run = |words: &[&str], name: &str, value: &str| {
        let mut command = Command::new(PROGRAM);
        clear_env(&mut command)
            .args(words)
            .env(ANY_PORT.0, ANY_PORT.1)
            .env(name, value)
            .current_dir(folder.path())
            .output()
            .unwrap()
    };
    let check = ["workflows", "check", "calls.json"];
    let allow = "HOLDPOINT_OUTGOING_ALLOW";
    assert_eq!(run(&check, allow, "192.168.0.0/16, 10.20.0.0/16").status.code(), Some(0));
    assert_eq!(run(&check, allow, "192.168.0.0/16").status.code(), Some(1));
    for (words, name, value, expected) in [
        (&["serve"][..], allow, "10.0.0.1/8", "address bits are set after the prefix"),
        (&["serve"], "HOLDPOINT_OUTGOING_DENY", "everything", "is not a network"),
        (&["serve", "--config", "bad.toml"], "UNUSED", "", "10.0.0.1/8"),
    ] {
        let output = run(words, name, value);
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{name}: {error}");
        assert!(error.contains(expected), "{name}: {error}");
    }
}
