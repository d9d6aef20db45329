//! Options of `holdpoint ask`: shown data, tags, idempotency keys, links, the page URL, and signals.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Output, Stdio};

use serde_json::{Value, json};

use crate::harness::{Client, KEY, PROGRAM, Server, accept, clear_env, client_with_key};

fn ask(server: &Server, key: &str, words: &[&str]) -> Command {
    let mut command = Command::new(PROGRAM);
    clear_env(&mut command)
        .arg("ask")
        .args(words)
        .env("HOLDPOINT_SERVER", &server.url)
        .env("HOLDPOINT_KEY", key);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn output(mut child: Child, input: &str) -> (Option<i32>, String, String) {
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    let Output { status, stdout, stderr } = child.wait_with_output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (status.code(), text(stdout), text(stderr))
}

/// Creates a hold with `--detach`. Returns its id and the text on standard error.
fn ask_detached(server: &Server, words: &[&str], input: &str) -> (String, String) {
    let words: Vec<&str> = words.iter().copied().chain(["--detach"]).collect();
    let (code, out, stderr) = output(ask(server, KEY, &words).spawn().unwrap(), input);
    assert_eq!(code, Some(0), "{stderr}");
    (out.trim().to_owned(), stderr)
}

fn data(client: &Client, id: &str) -> Value {
    client.get(&format!("/v1/runs/{id}")).body["interrupt"]["data"].clone()
}

#[test]
fn text_and_files_are_shown_with_their_lines_and_json_as_json() {
    let server = Server::start();
    let file = |name: &str, text: &str| {
        let path = server.data().join(name);
        std::fs::write(&path, text).unwrap();
        format!("@{}", path.display())
    };
    let (notes, change) = (file("notes.md", "# One\n\n- two\n"), file("change.diff", "-a\n+b\n"));
    for (show, input, data_shown, media_type) in [
        ("one\ntwo", "", json!("one\ntwo"), "text/plain"),
        (notes.as_str(), "", json!("# One\n\n- two\n"), "text/markdown"),
        (change.as_str(), "", json!("-a\n+b\n"), "text/x-diff"),
        ("-", "commit 1\ncommit 2\n", json!("commit 1\ncommit 2\n"), "text/plain"),
        ("-", "{\"a\": 1}", json!({"a": 1}), "application/json"),
        ("{\"a\": 1}", "", json!({"a": 1}), "application/json"),
    ] {
        let (id, _) = ask_detached(&server, &["Go?", "--show", show], input);
        let shown = data(&server.client, &id);
        assert_eq!(
            (&shown["artifactData"], &shown["artifactType"]),
            (&data_shown, &json!(media_type)),
            "{show}"
        );
    }
}

#[test]
fn ask_warns_about_approvers_without_a_key_and_sends_tags_and_idempotency_keys() {
    let server = Server::start();
    let (id, stderr) =
        ask_detached(&server, &["Go?", "--approvers", "anm", "--tag", "ci", "--tag", "eu"], "");
    assert!(stderr.contains("warning: ") && stderr.contains("anm"), "{stderr}");
    let tagged = server.client.get("/v1/interrupts?tag=eu").body;
    assert_eq!(tagged["interrupts"][0]["runId"], id.as_str());
    let (first, _) = ask_detached(&server, &["Pay?", "--idempotency-key", "invoice-17"], "");
    let (second, _) = ask_detached(&server, &["Pay?", "--idempotency-key", "invoice-17"], "");
    assert_eq!(first, second, "the same hold");
    let words = ["Pay twice?", "--idempotency-key", "invoice-17", "--detach"];
    let (code, ..) = output(ask(&server, KEY, &words).spawn().unwrap(), "");
    assert_eq!(code, Some(65), "the key belongs to another hold");
}

#[test]
fn the_page_url_of_a_hold_uses_the_public_url() {
    let folder = tempfile::tempdir().unwrap();
    let public = Server::start_in(folder.path(), &["--public-url", "https://hold.example/base/"]);
    let plain = Server::start();
    for (server, base) in [(&plain, ""), (&public, "https://hold.example/base")] {
        let created = server.client.post("/v1/holds", &json!({"title": "Go?"})).body;
        let id = created["holdId"].as_str().unwrap();
        let page = json!(format!("{base}/inbox/pauses/{id}/hold"));
        assert_eq!(created["pageUrl"], page);
        assert_eq!(server.client.get(&format!("/v1/holds/{id}")).body["pageUrl"], page);
        let row = server.client.get("/v1/interrupts").body["interrupts"][0].clone();
        let interrupt = row["interruptId"].as_str().unwrap().replace(':', "%3A");
        assert_eq!(row["links"]["page"], format!("{base}/inbox/pauses/{id}/hold?interrupt={interrupt}"));
        let mut child = ask(server, KEY, &["Where?"]).spawn().unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let stderr: Vec<String> = lines.by_ref().take(2).map(Result::unwrap).collect();
        let id = stderr[0].strip_prefix("created hold ").unwrap();
        let base = if base.is_empty() { &server.url } else { base };
        assert!(stderr[1].contains(&format!("{base}/inbox/pauses/{id}/hold;")), "{stderr:?}");
        server.client.send("DELETE", &format!("/v1/holds/{id}"), None);
        assert_eq!(lines.last().unwrap().unwrap(), "the hold was cancelled");
        assert_eq!(child.wait().unwrap().code(), Some(3));
    }
    let path = plain.client.get("/v1/interrupts").body["interrupts"][0]["links"]["page"].clone();
    assert_eq!(plain.client.get(path.as_str().unwrap()).status, 200, "the page exists");
}

#[test]
fn a_link_shows_its_expiry_and_answers_for_its_principal() {
    let server = Server::start();
    let words = ["Go?", "--allow-self", "--link", "ann", "--link-expires", "2h"];
    let (id, stderr) = ask_detached(&server, &words, "");
    let mut lines = stderr.lines().skip_while(|line| !line.starts_with("link for ann, valid until "));
    let head = lines.next().unwrap_or_else(|| panic!("{stderr}"));
    assert!(head.ends_with("(2h):"), "{head}");
    let url = lines.next().unwrap().strip_prefix(&server.url).unwrap();
    let visitor = server.client.with_key(None);
    let answered = visitor.post(url, &json!({"resumeValue": accept()}));
    assert_eq!(answered.status, 200, "{answered:?}");
    let hold = server.client.get(&format!("/v1/holds/{id}")).body;
    assert_eq!((&hold["status"], &hold["answeredBy"]), (&json!("approved"), &json!("ann")));
}

#[test]
fn a_link_requires_allow_self_and_the_act_as_scope() {
    let server = Server::start();
    let (code, ..) = output(ask(&server, KEY, &["Go?", "--link", "ann"]).spawn().unwrap(), "");
    assert_eq!(code, Some(64), "without --allow-self the link could not be used");
    let members = json!({"principal": "ci", "scopes": ["runs:create", "runs:read", "runs:cancel", "approvals:respond"]});
    let made = crate::harness::create_key(&server.client, &members);
    let weak = made["key"].as_str().unwrap();
    let (code, _, stderr) =
        output(ask(&server, weak, &["Go?", "--allow-self", "--link", "ann"]).spawn().unwrap(), "");
    assert_eq!(code, Some(77), "{stderr}");
    assert!(stderr.contains("the hold was cancelled") && stderr.contains("approvals:act-as"), "{stderr}");
    assert_eq!(server.client.get("/v1/interrupts").body["interrupts"], json!([]), "no hold is open");
}

#[test]
fn a_signal_cancels_the_hold_only_with_cancel_on_exit() {
    let server = Server::start();
    let ann = client_with_key(&server.client, &json!({"principal": "ann"}));
    let ended_by = |signal: &str, words: &[&str]| {
        let mut child = ask(&server, KEY, words).spawn().unwrap();
        let mut stderr = BufReader::new(child.stderr.take().unwrap()).lines().map(Result::unwrap);
        let id = stderr.next().unwrap().strip_prefix("created hold ").unwrap().to_owned();
        assert!(stderr.any(|line| line.starts_with("waiting; Ctrl-C ")));
        let sent = Command::new("kill").args([signal, &child.id().to_string()]).status().unwrap();
        assert!(sent.success());
        let last = stderr.last().unwrap_or_default();
        let hold = server.client.get(&format!("/v1/holds/{id}")).body;
        (child.wait().unwrap().code(), hold["status"].clone(), last, id)
    };
    for signal in ["-INT", "-TERM", "-HUP"] {
        let (code, status, last, id) = ended_by(signal, &["Go?", "--cancel-on-exit"]);
        assert_eq!((code, status), (Some(3), json!("cancelled")), "{signal}: {last}");
        assert_eq!(ann.answer(&id, "hold", &accept()).status, 422, "a late approval is rejected");
    }
    let (code, status, ..) = ended_by("-TERM", &["Go?"]);
    assert_eq!((code, status), (None, json!("waiting")), "the signal itself ended it");
}
