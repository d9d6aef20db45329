//! `holdpoint ask`, `holdpoint wait` and `holdpoint inbox` in scripts and in a terminal.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Output, Stdio};

use serde_json::{Value, json};

use crate::harness::{Client, KEY, PROGRAM, Server, accept, clear_env, client_with_key};

/// Starts a shell script that can call the program as `holdpoint`.
fn script(server: &str, text: &str) -> Child {
    let mut command = Command::new("sh");
    let text = format!("holdpoint() {{ {PROGRAM} \"$@\"; }}\n{text}");
    clear_env(&mut command).args(["-c", &text]).env("HOLDPOINT_SERVER", server).env("HOLDPOINT_KEY", KEY);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

fn output_of(child: Child) -> (Option<i32>, String, String) {
    let Output { status, stdout, stderr } = child.wait_with_output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (status.code(), text(stdout), text(stderr))
}

/// Waits until an interrupt is pending and returns its run.
fn wait_for_pending(client: &Client) -> String {
    loop {
        let found = client.get("/v1/interrupts?order=newest").body;
        if let Some(run) = found["interrupts"][0]["runId"].as_str() {
            return run.to_owned();
        }
    }
}

#[test]
fn ask_prints_the_answer_and_exits_with_its_code() {
    let server = Server::start();
    let client = &server.client;
    let ann = client_with_key(client, &json!({"principal": "ann"}));
    let asked = |words: &str, answer: &dyn Fn(&str)| {
        let child = script(&server.url, &format!("holdpoint ask {words}"));
        answer(&wait_for_pending(client));
        output_of(child)
    };
    let (code, out, stderr) = asked("'Deploy v2?'", &|id| {
        ann.answer(id, "hold", &accept());
    });
    let said: Value = serde_json::from_str(&out).unwrap();
    assert_eq!((code, &said["action"]), (Some(0), &json!("accept")), "{stderr}");
    assert!(stderr.contains(&format!("{}/inbox", server.url)), "{stderr}");
    let (code, out, _) = asked("'Deploy v2?'", &|id| {
        ann.answer(id, "hold", &json!({"action": "reject", "feedback": "no"}));
    });
    assert_eq!((code, out.contains("\"feedback\":\"no\"")), (Some(1), true), "{out}");
    let (code, out, _) = asked("'Where?' --choices eu,us", &|id| {
        ann.answer(id, "hold", &json!({"answers": {"answer": "eu"}}));
    });
    assert_eq!((code, out.as_str()), (Some(0), "\"eu\"\n"));
    let (code, out, _) = output_of(script(&server.url, "holdpoint ask 'Quick?' --timeout 1s"));
    assert_eq!((code, out.as_str()), (Some(2), "null\n"));
    let (code, out, _) = asked("'Never mind?' --json", &|id| {
        client.send("DELETE", &format!("/v1/holds/{id}"), None);
    });
    assert_eq!((code, out.contains("\"status\":\"cancelled\"")), (Some(3), true), "{out}");
    for (words, code) in [
        ("ask", 64),
        ("ask 'a' --choices b --schema c", 64),
        ("ask 'a' --show '{'", 64),
        ("wait", 64),
        ("wait unknown", 65),
        ("ask ' '", 65),
        ("ask 'a' --key hp_unknown", 77),
        ("answer", 2),
    ] {
        let (found, _, stderr) = output_of(script(&server.url, &format!("holdpoint {words}")));
        assert_eq!(found, Some(code), "{words}: {stderr}");
    }
}

#[test]
fn a_waiting_script_continues_after_its_server_was_killed_and_restarted() {
    let mut server = Server::start();
    let ann = client_with_key(&server.client, &json!({"principal": "ann"}));
    // The script has one address, so the next server must use the same port.
    let port = server.url.rsplit(':').next().unwrap().to_owned();
    let schema = server.data().join("count.json");
    std::fs::write(&schema, json!({"type": "integer", "minimum": 1}).to_string()).unwrap();
    let text = format!(
        "set -e\nid=$(holdpoint ask 'How many?' --schema {} --detach)\necho asked >&2\ncount=$(holdpoint wait $id)\necho deploying $count\n\
         holdpoint ask 'Sure?' --show '{{\"v\": 2}}' || echo \"no: $?\"",
        schema.display()
    );
    let mut child = script(&server.url, &text);
    let mut stderr = BufReader::new(child.stderr.take().unwrap()).lines();
    // The hold is on disk before the script gets its id.
    assert_eq!(stderr.next().unwrap().unwrap(), "asked");
    let first = wait_for_pending(&server.client);
    server.kill();
    let line = stderr.next().unwrap().unwrap();
    assert!(line.contains("retrying until the server responds"), "{line}");
    let listen = format!("127.0.0.1:{port}");
    let mut server = Server::restart_at(server, &listen);
    assert_eq!(ann.answer(&first, "hold", &json!({"answers": {"answer": 3}})).status, 200);
    let rest: Vec<String> = stderr.by_ref().take(3).map(Result::unwrap).collect();
    assert!(rest[0].starts_with("created hold "), "the unreachable server is reported once: {rest:?}");
    let second = wait_for_pending(&server.client);
    server.kill();
    assert!(stderr.next().unwrap().unwrap().contains("retrying until the server responds"));
    let server = Server::restart_at(server, &listen);
    ann.answer(&second, "hold", &json!({"action": "reject"}));
    let (code, out, _) = output_of(child);
    assert_eq!(code, Some(0));
    assert!(out.starts_with("deploying 3\n") && out.ends_with("no: 1\n"), "{out}");
    let holds = server.client.get("/v1/runs?workflowId=holdpoint-hold").body;
    assert_eq!(holds["runs"].as_array().unwrap().len(), 2, "no hold was created twice");
}

#[test]
fn the_interactive_inbox_decides_holds_with_typed_lines() {
    let server = Server::start();
    let client = &server.client;
    let ann = client_with_key(client, &json!({"principal": "ann"}));
    let hold = |body: Value| crate::holds::hold(&ann, &body);
    let (yes, no) = (hold(json!({"title": "First?"})), hold(json!({"title": "Second?"})));
    let choice = hold(json!({"title": "Where?", "choices": ["eu", "us"]}));
    let listed = output_of(script(&server.url, "holdpoint inbox </dev/null | cat"));
    assert!(listed.1.contains("First?") && listed.1.contains("Where?"), "{listed:?}");
    let mut child = script(&server.url, "holdpoint inbox --interactive");
    // Skips the first hold, then decides all of them. Decided holds are not listed again.
    child.stdin.take().unwrap().write_all(b"1\ns\n1\nx\na\n1\nr\ntoo soon\n1\n2\n").unwrap();
    let (code, out, stderr) = output_of(child);
    assert_eq!(code, Some(0), "{stderr}");
    let status = |id: &str| client.get(&format!("/v1/holds/{id}")).body;
    assert_eq!(status(&yes)["status"], "approved", "{out}");
    assert_eq!(status(&no)["answer"]["feedback"], "too soon", "{out}");
    assert_eq!(status(&choice)["answer"], "us", "{out}");
    assert!(
        out.contains("this action is not available") && out.ends_with("no pending interrupts for you\n"),
        "{out}"
    );
}

#[test]
fn a_link_to_the_page_signs_in_once() {
    let server = Server::start();
    let (code, out, stderr) = output_of(script(&server.url, "holdpoint inbox --link"));
    assert_eq!(code, Some(0), "{stderr}");
    let token = out.trim().split_once("/inbox#once=").unwrap().1;
    let once = json!({"once": token}).to_string();
    let visitor = server.client.with_key(None);
    let sign_in = || visitor.send("POST", "/v1/session", Some(once.as_bytes())).status;
    assert_eq!((sign_in(), sign_in()), (201, 401));
}
