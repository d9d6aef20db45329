//! `holdpoint ask` as a hook of an agent program: every outcome except an approval must block the call.
//! `providers/real_claude_hooks.rs` tests it with the real agent program.

use std::io::Write;
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use serde_json::{Value, json};

use crate::harness::{Client, KEY, PROGRAM, Server, accept, clear_env, client_with_key};

fn tool_call() -> Value {
    json!({
        "session_id": "s", "transcript_path": "/t", "cwd": "/project", "hook_event_name": "PreToolUse",
        "tool_name": "Bash", "tool_input": {"command": "rm -rf build"}, "tool_use_id": "toolu_1",
    })
}

/// A server address that does not resolve.
const NO_SERVER: &str = "http://holdpoint.invalid";
/// Time limit of a hook that would read its input without end.
const READ_LIMIT: Duration = Duration::from_secs(60);

fn hook_command(url: &str, words: &[&str]) -> Command {
    let mut command = Command::new(PROGRAM);
    clear_env(&mut command).args(["ask", "--hook", "claude-code"]).args(words);
    command.env("HOLDPOINT_SERVER", url).env("HOLDPOINT_KEY", KEY);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn hook(url: &str, words: &[&str], input: &str) -> Child {
    let mut child = hook_command(url, words).spawn().unwrap();
    // A wrong command line is rejected before standard input is read.
    let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
    child
}

/// Starts a hook whose input does not end and calls `act` while the hook reads. Returns the decision.
fn decision_while_reading(words: &[&str], act: impl FnOnce(&Child)) -> (Option<i32>, Value, String) {
    let mut child = hook_command(NO_SERVER, words).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    // More bytes than the buffer of a pipe: the hook has started to read when this returns.
    stdin.write_all(&vec![b' '; 1 << 20]).unwrap();
    act(&child);
    let (ended, end) = std::sync::mpsc::channel::<()>();
    let writer = std::thread::spawn(move || {
        let _ = end.recv_timeout(READ_LIMIT);
        drop(stdin);
    });
    let decided = decision(child);
    drop(ended);
    writer.join().unwrap();
    decided
}

/// Returns a broken standard error: the command panics when it writes to it.
fn broken_stderr() -> Stdio {
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    Stdio::from(writer)
}

fn send_signal(signal: &str, child: &Child) {
    let sent = Command::new("kill").args([signal, &child.id().to_string()]).status().unwrap();
    assert!(sent.success());
}

/// Returns exit code, decision and reason.
fn decision(child: Child) -> (Option<i32>, Value, String) {
    let Output { status, stdout, stderr } = child.wait_with_output().unwrap();
    let told: Value = serde_json::from_slice(&stdout).unwrap_or_default();
    let decided = &told["hookSpecificOutput"];
    if status.code() == Some(0) {
        assert_eq!(decided["hookEventName"], "PreToolUse", "{told}");
    }
    let reason = decided["permissionDecisionReason"].as_str().unwrap_or_default();
    let words = format!("{reason} / {}", String::from_utf8_lossy(&stderr));
    (status.code(), decided["permissionDecision"].clone(), words)
}

/// Waits until a hold is pending and returns its row.
fn wait_for_pending(client: &Client) -> Value {
    loop {
        let found = client.get("/v1/interrupts?order=newest").body;
        if !found["interrupts"][0].is_null() {
            return found["interrupts"][0].clone();
        }
    }
}

#[test]
fn a_hook_allows_an_approved_call_and_denies_every_other() {
    let server = Server::start();
    let client = &server.client;
    let ann = client_with_key(client, &json!({"principal": "ann"}));
    let input = tool_call().to_string();
    let asked = |act: &dyn Fn(&str)| {
        let child = hook(&server.url, &["--approvers", "ann"], &input);
        act(wait_for_pending(client)["runId"].as_str().unwrap());
        decision(child)
    };
    let (code, decided, reason) = asked(&|id| {
        let shown = client.get(&format!("/v1/runs/{id}")).body["interrupt"]["data"].clone();
        let call = json!({"tool": "Bash", "input": {"command": "rm -rf build"}, "cwd": "/project"});
        assert_eq!((&shown["title"], &shown["artifactData"]), (&json!("Allow Bash?"), &call));
        assert_eq!(client.answer(id, "hold", &accept()).status, 403, "the agent's own key may not approve");
        assert_eq!(ann.answer(id, "hold", &accept()).status, 200);
    });
    assert_eq!((code, decided), (Some(0), json!("allow")), "{reason}");
    assert!(reason.contains("approved by ann"), "{reason}");
    let (code, decided, reason) = asked(&|id| {
        ann.answer(id, "hold", &json!({"action": "reject", "feedback": "too broad"}));
    });
    assert_eq!((code, decided), (Some(2), json!("deny")), "{reason}");
    assert!(reason.contains("rejected by ann: too broad"), "{reason}");
    let (code, decided, _) = asked(&|id| {
        client.send("DELETE", &format!("/v1/holds/{id}"), None);
    });
    assert_eq!((code, decided), (Some(2), json!("deny")));
    let (code, decided, reason) = decision(hook(&server.url, &["--timeout", "1s"], &input));
    assert_eq!((code, decided), (Some(2), json!("deny")));
    assert!(reason.contains("no answer in time"), "{reason}");
}

#[test]
fn a_hook_denies_when_it_cannot_ask() {
    let server = Server::start();
    let good = tool_call().to_string();
    let mut other_event = tool_call();
    other_event["hook_event_name"] = json!("PostToolUse");
    let other_event = other_event.to_string();
    let cases: [(&[&str], &str); 7] = [
        (&[], ""),
        (&[], "no JSON"),
        (&[], "{}"),
        (&[], other_event.as_str()),
        (&["--key", "hp_unknown"], &good),
        (&["--server", "nowhere"], &good),
        (&["--approvals", "1000000"], &good),
    ];
    for (words, input) in cases {
        let (code, decided, reason) = decision(hook(&server.url, words, input));
        assert_eq!((code, decided), (Some(2), json!("deny")), "{words:?} {input}: {reason}");
    }
    // Wrong usage is detected before standard input is read: the exit code alone blocks the call.
    for words in [&["--no-such-flag"][..], &["--timeout", "soon"], &["--detach"]] {
        let (code, _, reason) = decision(hook(&server.url, words, &good));
        assert_eq!(code, Some(2), "{words:?}: {reason}");
    }
    let runs = server.client.get("/v1/runs?workflowId=holdpoint-hold").body;
    assert_eq!(runs["runs"], json!([]), "no hold was created");
}

#[test]
fn a_hook_that_a_signal_ends_denies_and_cancels_its_question() {
    let server = Server::start();
    for signal in ["-TERM", "-INT", "-HUP"] {
        let child = hook(&server.url, &[], &tool_call().to_string());
        let id = wait_for_pending(&server.client)["runId"].as_str().unwrap().to_owned();
        send_signal(signal, &child);
        let (code, decided, reason) = decision(child);
        assert_eq!((code, decided), (Some(2), json!("deny")), "{signal}: {reason}");
        let hold = server.client.get(&format!("/v1/holds/{id}")).body;
        assert_eq!(hold["status"], "cancelled", "{signal}");
    }
}

#[test]
fn a_hook_that_a_signal_ends_while_it_reads_denies() {
    for signal in ["-TERM", "-INT", "-HUP"] {
        let (code, decided, reason) = decision_while_reading(&[], |child| send_signal(signal, child));
        assert_eq!((code, decided), (Some(2), json!("deny")), "{signal}: {reason}");
        assert!(reason.contains("ended by a signal"), "{signal}: {reason}");
    }
}

#[test]
fn a_hook_that_reaches_its_deadline_while_it_reads_denies() {
    let (code, decided, reason) = decision_while_reading(&["--timeout", "1s"], |_| {});
    assert_eq!((code, decided), (Some(2), json!("deny")), "{reason}");
    assert!(reason.contains("no answer in time"), "{reason}");
}

#[test]
fn a_panic_in_a_hook_blocks_the_call() {
    let mut command = hook_command(NO_SERVER, &[]);
    let mut child = command.stderr(broken_stderr()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(tool_call().to_string().as_bytes()).unwrap();
    let (code, decided, reason) = decision(child);
    assert_eq!((code, decided), (Some(2), json!("deny")), "{reason}");
    assert!(reason.contains("holdpoint failed"), "{reason}");
}

#[test]
fn a_panic_of_plain_ask_or_wait_in_a_hook_blocks_the_call() {
    for words in [&["ask", " "][..], &["wait", "unknown"]] {
        let mut command = Command::new(PROGRAM);
        clear_env(&mut command).args(words).env("HOLDPOINT_SERVER", NO_SERVER).env("HOLDPOINT_KEY", KEY);
        command.env("CLAUDE_PROJECT_DIR", "/project").stderr(broken_stderr());
        assert_eq!(command.status().unwrap().code(), Some(2), "{words:?}");
    }
}

#[test]
fn in_a_hook_plain_ask_and_wait_exit_with_2_unless_approved() {
    let server = Server::start();
    let client = &server.client;
    let ann = client_with_key(client, &json!({"principal": "ann"}));
    let run = |words: &[&str]| {
        let mut command = Command::new(PROGRAM);
        clear_env(&mut command).args(words).env("HOLDPOINT_SERVER", &server.url).env("HOLDPOINT_KEY", KEY);
        command.env("CLAUDE_PROJECT_DIR", "/project").stdin(Stdio::null());
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    };
    let answered = |answer: Value| {
        let child = run(&["ask", "Run it?"]);
        ann.answer(wait_for_pending(client)["runId"].as_str().unwrap(), "hold", &answer);
        child.wait_with_output().unwrap()
    };
    assert_eq!(answered(accept()).status.code(), Some(0));
    let rejected = answered(json!({"action": "reject"}));
    assert_eq!(rejected.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&rejected.stderr).contains("rejected by ann"), "{rejected:?}");
    for words in
        [&["ask"][..], &["ask", " "], &["ask", "Go?", "--key", "hp_unknown"], &["wait", "unknown"], &["wait"]]
    {
        let code = run(words).wait_with_output().unwrap().status.code();
        assert_eq!(code, Some(2), "{words:?}");
    }
    let child = run(&["ask", "Run it?"]);
    let id = wait_for_pending(client)["runId"].as_str().unwrap().to_owned();
    send_signal("-TERM", &child);
    assert_eq!(child.wait_with_output().unwrap().status.code(), Some(2), "a signal blocks the call too");
    let hold = client.get(&format!("/v1/holds/{id}")).body;
    assert_eq!(hold["status"], "waiting", "only --cancel-on-exit and --hook cancel");
}
