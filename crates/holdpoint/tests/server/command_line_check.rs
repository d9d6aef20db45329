//! `holdpoint workflows check`: reports flaws of definitions without a server.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use serde_json::{Value, json};

use crate::harness::{PROGRAM, Server, clear_env, gated};

/// Runs the check in a folder without a server.
fn check(folder: &Path, words: &[&str]) -> Output {
    let mut command = Command::new(PROGRAM);
    clear_env(&mut command).args(["workflows", "check"]).args(words).current_dir(folder).output().unwrap()
}

fn write(folder: &Path, name: &str, definition: &Value) {
    std::fs::write(folder.join(name), definition.to_string()).unwrap();
}

fn out(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn err(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn lines(output: &Output) -> Vec<Value> {
    out(output).lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn a_definition_is_checked_without_a_server_and_no_file_is_written() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), "mine.json", &gated("mine"));
    let output = check(folder.path(), &["mine.json"]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert_eq!((out(&output).as_str(), err(&output).as_str()), ("mine.json: ok: mine version 1\n", ""));
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
}

#[test]
fn workflows_check_reports_the_same_flaws_as_the_server() {
    let server = Server::start();
    let folder = tempfile::tempdir().unwrap();
    type Change = fn(&mut Value);
    let defects: [(&str, Change); 5] = [
        ("shape", |flow| flow["naem"] = json!(1)),
        ("graph", |flow| flow["edges"][0]["sourceNodeId"] = json!("unknown")),
        ("circle", |flow| flow["edges"][1]["targetNodeId"] = json!("before")),
        ("type", |flow| flow["nodes"][0]["typeId"] = json!("vendor.unknown")),
        ("config", |flow| flow["nodes"][1]["config"] = json!({"title": 7, "actions": ["fly"], "color": 1})),
    ];
    for (id, change) in defects {
        let mut flow = gated(id);
        change(&mut flow);
        write(folder.path(), "flow.json", &flow);
        let output = check(folder.path(), &["flow.json", "--json"]);
        assert_eq!(output.status.code(), Some(1), "{id}: {output:?}");
        let [report] = &lines(&output)[..] else { panic!("{output:?}") };
        let answered = server.client.put(&format!("/v1/workflows/{id}"), &flow).body;
        assert_eq!(report["flaws"], answered["details"]["flaws"], "{id}");
        assert_eq!(
            (&report["valid"], &report["id"], &report["file"]),
            (&json!(false), &json!(id), &json!("flow.json"))
        );
        let printed = out(&check(folder.path(), &["flow.json"]));
        for flaw in report["flaws"].as_array().unwrap() {
            let node = flaw["nodeId"].as_str().map(|node| format!("node {node}, ")).unwrap_or_default();
            let field = flaw["field"].as_str().unwrap();
            assert!(printed.contains(&format!("flow.json: error: {node}{field}: ")), "{printed}");
        }
    }
}

#[test]
fn folders_and_standard_input_are_checked_and_every_flaw_of_every_file_is_reported() {
    let folder = tempfile::tempdir().unwrap();
    let flows = folder.path().join("flows");
    std::fs::create_dir(&flows).unwrap();
    write(&flows, "a.json", &gated("fine"));
    write(&flows, "b.json", &json!({"id": "empty"}));
    std::fs::write(flows.join("c.json"), "{\"id\": \"twice\", \"id\": \"twice\"}").unwrap();
    std::fs::write(flows.join("notes.txt"), "no definition").unwrap();
    let mut command = Command::new(PROGRAM);
    let command =
        clear_env(&mut command).args(["workflows", "check", "flows", "-"]).current_dir(folder.path());
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(gated("piped").to_string().as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let printed = out(&output);
    for part in [
        "flows/a.json: ok: fine version 1\n",
        "flows/b.json: error: nodes: ",
        "flows/b.json: error: name: ",
        "flows/c.json: error: (document): is not valid JSON: ",
        "standard input: ok: piped version 1\n",
    ] {
        assert!(printed.contains(part), "{part}: {printed}");
    }
    assert!(!printed.contains("notes.txt"), "{printed}");
    assert_eq!(err(&output), "error: 2 of 4 files cannot be registered\n");
}

#[test]
fn settings_without_effect_are_warnings_and_unknown_workflows_are_notes() {
    let folder = tempfile::tempdir().unwrap();
    let mut parent = gated("parent");
    parent["settings"] = json!({"logLevel": "debug"});
    parent["channels"] = json!({"notes": {"reducer": "append", "compatibleWith": ["1"]}});
    let starts = |id: &str, workflow: &str| json!({"id": id, "typeId": "core.subWorkflow", "name": id, "config": {"workflowId": workflow}, "inputs": {}});
    let more = [starts("near", "child"), starts("far", "elsewhere")];
    parent["nodes"].as_array_mut().unwrap().extend(more);
    write(folder.path(), "parent.json", &parent);
    write(folder.path(), "child.json", &gated("child"));
    let output = check(folder.path(), &["parent.json", "child.json"]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let printed = out(&output);
    for part in [
        "parent.json: warning: settings.logLevel: is stored but has no effect\n",
        "parent.json: warning: channels.notes.compatibleWith: is stored but has no effect\n",
        "parent.json: note: node far, config.workflowId: \"elsewhere\" is not among these files",
        "parent.json: ok: parent",
    ] {
        assert!(printed.contains(part), "{part}: {printed}");
    }
    assert!(!printed.contains("node near"), "{printed}");
    write(folder.path(), "again.json", &gated("child"));
    let printed = lines(&check(folder.path(), &["child.json", "again.json", "--json"]));
    assert_eq!(printed[0]["warnings"], json!([]));
    assert!(printed[1]["warnings"][0]["message"].as_str().unwrap().contains("child.json"), "{printed:?}");
}

#[test]
fn unreadable_files_are_wrong_usage_and_the_other_files_are_checked() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("empty")).unwrap();
    write(folder.path(), "flawed.json", &json!({}));
    let output = check(folder.path(), &["missing.json", "empty", "flawed.json"]);
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    assert!(err(&output).contains("missing.json") && err(&output).contains("no .json file"), "{output:?}");
    assert!(out(&output).contains("flawed.json: error: "), "{output:?}");
    let none = check(folder.path(), &[]);
    assert_eq!(none.status.code(), Some(2), "{none:?}");
    let wrong = check(folder.path(), &["flawed.json", "--outgoing-allow", "everything"]);
    assert_eq!(wrong.status.code(), Some(2), "{wrong:?}");
}

#[test]
fn urls_are_checked_by_the_outgoing_policy_of_the_flags() {
    let folder = tempfile::tempdir().unwrap();
    let mut flow = gated("calls");
    flow["nodes"][0]["typeId"] = json!("core.http");
    flow["nodes"][0]["config"] = json!({"url": "http://127.0.0.1:9/"});
    write(folder.path(), "calls.json", &flow);
    let refused = check(folder.path(), &["calls.json"]);
    assert_eq!(refused.status.code(), Some(1), "{refused:?}");
    assert!(out(&refused).contains("node before, config.url: "), "{refused:?}");
    let allowed = check(folder.path(), &["calls.json", "--outgoing-allow-loopback"]);
    assert_eq!(allowed.status.code(), Some(0), "{allowed:?}");
}
