//! Output of lists and small commands: holds in `runs list`, folders for `workflows put`, the version, usage lines.

use std::process::{Command, Output};

use serde_json::{Value, json};

use crate::harness::{PROGRAM, Server, accept, clear_env, client_with_key, gated};

fn text(output: &Output) -> String {
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout.clone()).unwrap()
}

#[test]
fn holds_are_listed_with_title_and_outcome() {
    let server = Server::start();
    let client = &server.client;
    let ann = client_with_key(client, &json!({"principal": "ann"}));
    let hold = |title: &str, more: Value| {
        let mut body = json!({"title": title});
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        crate::holds::hold(client, &body)
    };
    let rejected = hold("Delete it?", json!({}));
    ann.answer(&rejected, "hold", &json!({"action": "reject"}));
    let approved = hold("Deploy it?", json!({}));
    ann.answer(&approved, "hold", &accept());
    let chosen = hold("Which?", json!({"choices": ["a", "b"]}));
    ann.answer(&chosen, "hold", &json!({"answers": {"answer": "a"}}));
    let silent = hold("Quick?", json!({"timeoutMs": 1}));
    client.wait_for_end(&silent);
    let open = hold("Later?", json!({}));
    client.put("/v1/workflows/plain", &gated("plain"));
    let run = client.start_run("plain");
    let listed = client.get("/v1/runs").body;
    let row = |id: &str| {
        let rows = listed["runs"].as_array().unwrap().iter();
        rows.clone().find(|row| row["runId"] == id).unwrap().clone()
    };
    for (id, title, outcome) in [
        (&rejected, "Delete it?", json!("rejected")),
        (&approved, "Deploy it?", json!("approved")),
        (&chosen, "Which?", json!("answered")),
        (&silent, "Quick?", json!("timed_out")),
        (&open, "Later?", Value::Null),
    ] {
        assert_eq!((&row(id)["title"], &row(id)["outcome"]), (&json!(title), &outcome), "{title}");
    }
    assert_eq!((&row(&run)["title"], &row(&run)["outcome"]), (&Value::Null, &Value::Null));
    let shown = text(&server.run(&["runs", "list", "--workflow", "holdpoint-hold"]));
    let line = |id: &str| shown.lines().find(|line| line.contains(id)).unwrap();
    assert!(line(&rejected).contains("rejected") && line(&rejected).contains("Delete it?"), "{shown}");
    assert!(line(&silent).contains("timed_out") && !shown.contains("completed"), "{shown}");
}

#[test]
fn a_folder_of_workflows_is_registered_and_a_refusal_lists_the_registered_files() {
    let server = Server::start();
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, definition: &Value| {
        std::fs::write(folder.path().join(name), definition.to_string()).unwrap();
    };
    let put = || server.run(&["workflows", "put", folder.path().to_str().unwrap()]);
    write("a.json", &gated("first"));
    write("b.json", &gated("second"));
    std::fs::write(folder.path().join("notes.txt"), "no definition").unwrap();
    let printed = text(&put());
    assert!(printed.contains("registered first") && printed.contains("registered second"), "{printed}");
    let mut flawed = gated("flawed");
    flawed["nodes"][0]["typeId"] = json!("no.such.type");
    write("b.json", &flawed);
    write("c.json", &gated("third"));
    let refused = put();
    assert_eq!(refused.status.code(), Some(1));
    let printed = String::from_utf8(refused.stderr).unwrap();
    assert!(
        printed.contains("b.json: ")
            && printed.contains("registered before it: ")
            && printed.contains("not sent: "),
        "{printed}"
    );
    assert_eq!(
        server.client.get("/v1/workflows/third").status,
        404,
        "a file that is not sent is not registered"
    );
    std::fs::write(folder.path().join("d.json"), "{").unwrap();
    std::fs::remove_file(folder.path().join("b.json")).unwrap();
    assert_eq!(put().status.code(), Some(2));
    assert_eq!(
        server.client.get("/v1/workflows/third").status,
        404,
        "a file that is not JSON registers nothing"
    );
    let empty = tempfile::tempdir().unwrap();
    assert_eq!(server.run(&["workflows", "put", empty.path().to_str().unwrap()]).status.code(), Some(2));
}

#[test]
fn the_version_is_a_command_and_a_flag() {
    let printed = |word: &str| text(&Command::new(PROGRAM).arg(word).output().unwrap());
    assert_eq!(printed("version"), format!("holdpoint {}\n", env!("CARGO_PKG_VERSION")));
    assert_eq!(printed("version"), printed("--version"));
}

#[test]
fn usage_lines_do_not_show_variables_as_flags() {
    let usage = |words: &[&str]| {
        let mut command = Command::new(PROGRAM);
        clear_env(&mut command)
            .args(words)
            .env("HOLDPOINT_DATA", "/data")
            .env("HOLDPOINT_SERVER", "http://a");
        let output = command.output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{output:?}");
        String::from_utf8(output.stderr).unwrap()
    };
    for words in [&["runs", "show"][..], &["runs", "pause"], &["runs", "list", "--no-such-flag"]] {
        let printed = usage(words);
        assert!(
            printed.contains("Usage: ") && !printed.contains("--data") && !printed.contains("--server"),
            "{printed}"
        );
    }
}
