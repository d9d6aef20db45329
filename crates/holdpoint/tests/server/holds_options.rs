//! The options of `holdpoint ask`: what is shown, tags, keys, links, the address of the page, and signals.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Output, Stdio};

use serde_json::{Value, json};

use crate::harness::{Client, KEY, PROGRAM, Server, accept, clean, keyed};

fn ask(server: &Server, key: &str, words: &[&str]) -> Command {
    let mut command = Command::new(PROGRAM);
    clean(&mut command).arg("ask").args(words).env("HOLDPOINT_SERVER", &server.url).env("HOLDPOINT_KEY", key);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn output(mut child: Child, input: &str) -> (Option<i32>, String, String) {
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    let Output { status, stdout, stderr } = child.wait_with_output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (status.code(), text(stdout), text(stderr))
}

/// Asks without waiting. Returns the hold and what was told on standard error.
fn detached(server: &Server, words: &[&str], input: &str) -> (String, String) {
    let words: Vec<&str> = words.iter().copied().chain(["--detach"]).collect();
    let (code, out, told) = output(ask(server, KEY, &words).spawn().unwrap(), input);
    assert_eq!(code, Some(0), "{told}");
    (out.trim().to_owned(), told)
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
        let (id, _) = detached(&server, &["Go?", "--show", show], input);
        let shown = data(&server.client, &id);
        assert_eq!(
            (&shown["artifactData"], &shown["artifactType"]),
            (&data_shown, &json!(media_type)),
            "{show}"
        );
    }
}

#[test]
fn approvers_without_a_key_are_warned_of_and_tags_and_keys_are_sent() {
    let server = Server::start();
    let (id, told) = detached(&server, &["Go?", "--approvers", "anm", "--tag", "ci", "--tag", "eu"], "");
    assert!(told.contains("warning: ") && told.contains("anm"), "{told}");
    let tagged = server.client.get("/v1/interrupts?tag=eu").body;
    assert_eq!(tagged["interrupts"][0]["runId"], id.as_str());
    let (first, _) = detached(&server, &["Pay?", "--idempotency-key", "invoice-17"], "");
    let (second, _) = detached(&server, &["Pay?", "--idempotency-key", "invoice-17"], "");
    assert_eq!(first, second, "the same question");
    let words = ["Pay twice?", "--idempotency-key", "invoice-17", "--detach"];
    let (code, ..) = output(ask(&server, KEY, &words).spawn().unwrap(), "");
    assert_eq!(code, Some(65), "the key is for another question");
}

#[test]
fn the_page_of_a_question_is_named_with_the_public_url_if_there_is_one() {
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
        let told: Vec<String> = lines.by_ref().take(2).map(Result::unwrap).collect();
        let id = told[0].strip_prefix("asked as ").unwrap();
        let base = if base.is_empty() { &server.url } else { base };
        assert!(told[1].contains(&format!("{base}/inbox/pauses/{id}/hold;")), "{told:?}");
        server.client.send("DELETE", &format!("/v1/holds/{id}"), None);
        assert_eq!(lines.last().unwrap().unwrap(), "the question was cancelled");
        assert_eq!(child.wait().unwrap().code(), Some(3));
    }
    let path = plain.client.get("/v1/interrupts").body["interrupts"][0]["links"]["page"].clone();
    assert_eq!(plain.client.get(path.as_str().unwrap()).status, 200, "it is a page");
}

#[test]
fn a_link_says_how_long_it_is_valid_and_answers_in_the_name_of_a_person() {
    let server = Server::start();
    let words = ["Go?", "--allow-self", "--link", "ann", "--link-expires", "2h"];
    let (id, told) = detached(&server, &words, "");
    let mut lines = told.lines().skip_while(|line| !line.starts_with("link for ann, valid until "));
    let head = lines.next().unwrap_or_else(|| panic!("{told}"));
    assert!(head.ends_with("(2h):"), "{head}");
    let url = lines.next().unwrap().strip_prefix(&server.url).unwrap();
    let visitor = server.client.with_key(None);
    let answered = visitor.post(url, &json!({"resumeValue": accept()}));
    assert_eq!(answered.status, 200, "{answered:?}");
    let hold = server.client.get(&format!("/v1/holds/{id}")).body;
    assert_eq!((&hold["status"], &hold["answeredBy"]), (&json!("approved"), &json!("ann")));
}

#[test]
fn a_link_needs_the_consent_of_the_requester_and_the_right_to_make_it() {
    let server = Server::start();
    let (code, ..) = output(ask(&server, KEY, &["Go?", "--link", "ann"]).spawn().unwrap(), "");
    assert_eq!(code, Some(64), "without --allow-self nobody could use it");
    let members = json!({"principal": "ci", "scopes": ["runs:create", "runs:read", "runs:cancel", "approvals:respond"]});
    let made = crate::harness::made_key(&server.client, &members);
    let weak = made["key"].as_str().unwrap();
    let (code, _, told) =
        output(ask(&server, weak, &["Go?", "--allow-self", "--link", "ann"]).spawn().unwrap(), "");
    assert_eq!(code, Some(77), "{told}");
    assert!(told.contains("the question was cancelled") && told.contains("approvals:act-as"), "{told}");
    assert_eq!(server.client.get("/v1/interrupts").body["interrupts"], json!([]), "no question is left");
}

#[test]
fn a_signal_cancels_the_question_only_if_that_is_wished() {
    let server = Server::start();
    let ann = keyed(&server.client, &json!({"principal": "ann"}));
    let ended_by = |signal: &str, words: &[&str]| {
        let mut child = ask(&server, KEY, words).spawn().unwrap();
        let mut told = BufReader::new(child.stderr.take().unwrap()).lines().map(Result::unwrap);
        let id = told.next().unwrap().strip_prefix("asked as ").unwrap().to_owned();
        assert!(told.any(|line| line.starts_with("waiting; Ctrl-C ")));
        let sent = Command::new("kill").args([signal, &child.id().to_string()]).status().unwrap();
        assert!(sent.success());
        let last = told.last().unwrap_or_default();
        let hold = server.client.get(&format!("/v1/holds/{id}")).body;
        (child.wait().unwrap().code(), hold["status"].clone(), last, id)
    };
    for signal in ["-INT", "-TERM", "-HUP"] {
        let (code, status, last, id) = ended_by(signal, &["Go?", "--cancel-on-exit"]);
        assert_eq!((code, status), (Some(3), json!("cancelled")), "{signal}: {last}");
        assert_eq!(ann.answer(&id, "hold", &accept()).status, 422, "a late approval is refused");
    }
    let (code, status, ..) = ended_by("-TERM", &["Go?"]);
    assert_eq!((code, status), (None, json!("waiting")), "the signal itself ended it");
}
