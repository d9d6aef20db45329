//! The command line against a running server, with correct and wrong arguments, and the benchmarks.

use std::process::{Command, Output, Stdio};

use serde_json::{Value, json};

use crate::harness::{PROGRAM, Server, clear_env, gated};

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

fn json_of(output: &Output) -> Value {
    assert!(output.status.success(), "{}", text(output));
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {}", text(output)))
}

#[test]
fn a_run_is_started_answered_and_watched_on_the_command_line() {
    let server = Server::start();
    let file = server.data().join("mine.json");
    std::fs::write(&file, gated("mine").to_string()).unwrap();
    let put = server.run(&["workflows", "put", file.to_str().unwrap()]);
    assert!(put.status.success(), "{}", text(&put));
    assert!(text(&server.run(&["workflows", "list"])).contains("mine"));
    assert_eq!(json_of(&server.run(&["workflows", "show", "mine", "--json"]))["id"], "mine");
    let started = json_of(&server.run(&[
        "runs",
        "start",
        "mine",
        "--input",
        "amount=12",
        "--input",
        "who=Ann",
        "--json",
    ]));
    let run = started["runId"].as_str().unwrap();
    let shown = json_of(&server.run(&["runs", "show", run, "--json"]));
    assert_eq!(shown["variables"], json!({"amount": 12, "who": "Ann"}));
    assert_eq!(json_of(&server.run(&["pending", "--json"]))["interrupts"][0]["runId"], run);
    assert!(text(&server.run(&["pending"])).contains("Go on?"));
    let answered = server.run(&["answer", run, "gate", "accept", "--feedback", "fine"]);
    assert!(answered.status.success() && text(&answered).contains("completed"), "{}", text(&answered));
    let watched = server.run(&["runs", "watch", run]);
    assert!(watched.status.success() && text(&watched).contains("run.completed"), "{}", text(&watched));
    assert_eq!(json_of(&server.run(&["runs", "list", "--json"]))["runs"][0]["status"], "completed");
    let other = json_of(&server.run(&["runs", "start", "mine", "--json"]));
    let cancelled = server.run(&["runs", "cancel", other["runId"].as_str().unwrap(), "--reason", "no need"]);
    assert!(text(&cancelled).contains("cancelled"), "{}", text(&cancelled));
    assert_eq!(
        server.run(&["runs", "watch", "latest"]).status.code(),
        Some(1),
        "watching a cancelled run fails"
    );
}

#[test]
fn keys_are_created_listed_and_revoked() {
    let server = Server::start();
    let made = json_of(&server.run(&[
        "keys",
        "create",
        "--tenant",
        "acme",
        "--principal",
        "ann",
        "--roles",
        "a,b",
        "--json",
    ]));
    let key = made["key"].as_str().unwrap();
    assert_eq!(made["tenant"], "acme");
    assert_eq!(made["roles"], json!(["a", "b"]));
    assert!(server.run(&["runs", "list", "--key", key]).status.success());
    let mine = json_of(&server.run(&["keys", "create", "--scopes", "runs:read", "--json"]));
    let id = mine["keyId"].as_str().unwrap();
    assert!(text(&server.run(&["keys", "list"])).contains(id));
    assert!(server.run(&["keys", "revoke", id]).status.success());
    let refused = server.run(&["runs", "list", "--key", mine["key"].as_str().unwrap()]);
    assert_eq!(refused.status.code(), Some(4), "{}", text(&refused));
}

#[test]
fn errors_have_a_message_and_an_exit_code() {
    let server = Server::start();
    let run = server.client.start_run("sample-approval");
    let table: [(&[&str], i32, &str); 9] = [
        (&["runs", "show", "unknown"], 1, "run not found"),
        (&["runs", "start", "unknown"], 1, "no such workflow"),
        (&["answer", &run, "review", "shrug"], 1, "not offered"),
        (&["answer", &run, "publish", "accept"], 1, "interrupt not found"),
        (&["answer", &run, "review"], 2, "answer"),
        (&["runs", "start", "sample-approval", "--inputs", "{"], 2, "JSON"),
        (&["runs", "list", "--limit", "many"], 2, "invalid value"),
        (&["runs", "fly"], 2, "fly"),
        (&["runs", "list", "--key", "hp_wrong"], 4, "unknown API key"),
    ];
    for (arguments, code, message) in table {
        let output = server.run(arguments);
        let printed = text(&output);
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {printed}");
        assert!(printed.contains(message), "{arguments:?}: {printed}");
    }
    assert_eq!(server.client.status(&run), "waiting-approval");
}

#[test]
fn a_refusal_says_what_to_do_next() {
    let server = Server::start();
    let file = server.data().join("mine.json");
    let mut mine = gated("mine");
    mine["variables"] = json!([{"name": "version", "type": "string"}]);
    std::fs::write(&file, mine.to_string()).unwrap();
    let put = || text(&server.run(&["workflows", "put", file.to_str().unwrap()]));
    assert!(put().contains("registered mine") && put().contains("unchanged mine"), "{}", put());
    mine["name"] = json!("other");
    std::fs::write(&file, mine.to_string()).unwrap();
    assert!(put().contains("updated mine"));
    mine["nodes"][1]["config"] = json!({"title": 7, "actions": ["fly"]});
    std::fs::write(&file, mine.to_string()).unwrap();
    let flawed = put();
    assert!(flawed.contains("\n  node gate, ") && !flawed.contains("details:"), "{flawed}");
    let run = server.client.start_run("sample-approval");
    assert!(server.run(&["answer", &run, "review", "accept"]).status.success());
    let insecure = server.url.replace("http:", "https:");
    let table: [(&[&str], i32, &str); 5] = [
        (&["answer", &run, "review", "accept"], 1, "or has expired"),
        (&["runs", "start", "unknown"], 1, "workflows put"),
        (&["runs", "start", "mine", "--input", "version=1.4"], 1, "quote it to send text"),
        (&["runs", "list", "--server", &insecure], 3, "try http://"),
        (&["keys", "revoke", "hp_secret"], 2, "its id"),
    ];
    for (arguments, code, hint) in table {
        let output = server.run(arguments);
        let printed = text(&output);
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {printed}");
        assert!(printed.contains(hint) && !printed.contains("hp_secret"), "{arguments:?}: {printed}");
    }
}

#[test]
fn with_json_a_refusal_is_printed_as_the_servers_response() {
    let server = Server::start();
    let refused = server.run(&["runs", "show", "unknown", "--json"]);
    assert_eq!(refused.status.code(), Some(1), "{}", text(&refused));
    assert!(refused.stdout.is_empty());
    let printed: Value = serde_json::from_slice(&refused.stderr).unwrap();
    assert_eq!(printed, server.client.get("/v1/runs/unknown").body);
    let keyless = server.run(&["runs", "list", "--key", "hp_wrong", "--json"]);
    assert_eq!(keyless.status.code(), Some(4), "{}", text(&keyless));
    assert!(serde_json::from_slice::<Value>(&keyless.stderr).unwrap()["error"].is_string());
}

#[test]
fn the_help_names_scopes_and_measurements() {
    let help = |arguments: &[&str]| text(&Command::new(PROGRAM).args(arguments).output().unwrap());
    let keys = help(&["keys", "create", "--help"]);
    for scope in ["manifest:write", "approvals:respond", "tenants:manage"] {
        assert!(keys.contains(scope), "{keys}");
    }
    for of in ["cycle", "decide", "parked", "webhooks"] {
        let bench = help(&["bench", of, "--help"]);
        assert!(bench.contains("the benchmark starts a server"), "{bench}");
    }
    assert!(help(&["runs", "start", "--help"]).contains("version=\"1.4\""));
}

#[test]
fn a_missing_server_or_key_is_reported_with_a_hint() {
    let folder = tempfile::tempdir().unwrap();
    let run = |arguments: &[&str]| {
        let mut command = Command::new(PROGRAM);
        clear_env(&mut command).args(arguments).current_dir(folder.path()).output().unwrap()
    };
    let keyless = run(&["pending"]);
    assert_eq!(keyless.status.code(), Some(4), "{}", text(&keyless));
    assert!(text(&keyless).contains("--key"), "{}", text(&keyless));
    let alone = run(&["pending", "--key", "k", "--server", "http://127.0.0.1:1"]);
    assert_eq!(alone.status.code(), Some(3), "{}", text(&alone));
    assert!(text(&alone).contains("holdpoint serve"), "{}", text(&alone));
}

#[test]
fn the_benchmark_starts_its_own_server() {
    let mut command = Command::new(PROGRAM);
    let output = clear_env(&mut command).args([
        "bench",
        "cycle",
        "--runs",
        "40",
        "--concurrency",
        "4",
        "--warmup",
        "4",
        "--json",
    ]);
    let report = json_of(&output.output().unwrap());
    assert_eq!((&report["cycles"], &report["errors"]), (&json!(40), &json!(0)), "{report}");
    assert!(report["commits"].as_u64().is_some_and(|commits| commits > 0), "{report}");
}

#[test]
fn the_benchmark_of_all_figures_has_a_value_and_a_goal_for_each() {
    let run = |more: &[&str]| {
        let mut command = Command::new(PROGRAM);
        let words = ["bench", "all", "--rounds", "1", "--divide", "100", "--json"];
        clear_env(&mut command).args(words).args(more).output().unwrap()
    };
    let report = json_of(&run(&[]));
    let figures = report["figures"].as_array().unwrap();
    assert_eq!(figures.len(), 9, "{report}");
    for figure in figures {
        assert!(figure["goal"].is_object(), "{figure}");
        // Fsyncs are unknown if the user may not trace processes.
        if figure["figure"] != "one at a time: fsyncs per cycle" {
            assert!(figure["value"].as_f64().is_some_and(|value| value > 0.0), "{figure}");
            assert!(figure["met"].is_boolean(), "{figure}");
        }
    }
    let named = run(&["--server", "http://127.0.0.1:1"]);
    assert_eq!(named.status.code(), Some(2), "{}", text(&named));
    assert!(text(&named).contains("leave out --server"), "{}", text(&named));
}

#[test]
fn the_benchmark_starts_its_own_postgresql() {
    let mut command = Command::new(PROGRAM);
    let words =
        ["bench", "cycle", "--postgres", "--runs", "40", "--concurrency", "4", "--warmup", "4", "--json"];
    let report = json_of(&clear_env(&mut command).args(words).output().unwrap());
    assert_eq!((&report["cycles"], &report["errors"]), (&json!(40), &json!(0)), "{report}");
    for known in ["databaseCpuSecondsPer1000Cycles", "bothCpuSecondsPer1000Cycles", "roundTripsPerCycle"] {
        assert!(report[known].is_number(), "{known}: {report}");
    }
}

#[test]
fn the_benchmark_of_the_mailbox_compares_shared_commits_with_single_ones() {
    let start = |database: &[&str]| {
        let words = ["bench", "mailbox", "--seconds", "1", "--concurrency", "4", "--json"];
        let mut command = Command::new(PROGRAM);
        clear_env(&mut command)
            .args(words)
            .args(database)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
    };
    let benches = [start(&[]).unwrap(), start(&["--postgres"]).unwrap()];
    for bench in benches {
        let report = json_of(&bench.wait_with_output().unwrap());
        assert_eq!(report["errors"], json!(0), "{report}");
        assert_eq!(report["alone"]["rowsPerCommit"], json!(1), "{report}");
        assert!(report["shared"]["rowsPerCommit"].as_f64().is_some_and(|rows| rows > 1.0), "{report}");
        assert!(report["ratio"].is_number(), "{report}");
    }
}

#[test]
fn the_benchmark_of_wake_ups_takes_every_sample() {
    let start = |database: &[&str]| {
        let words = "bench wake --samples 5 --clients 2 --json";
        let mut command = Command::new(PROGRAM);
        let command = clear_env(&mut command).args(words.split(' ')).args(database);
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()
    };
    let (file, server) = (start(&[]).unwrap(), start(&["--postgres"]).unwrap());
    for (bench, other_node) in [(file, false), (server, true)] {
        let report = json_of(&bench.wait_with_output().unwrap());
        for pass in ["idle", "loaded"] {
            assert!(report[pass]["behindHolderMs"]["p99"].is_number(), "{report}");
            assert_eq!(report[pass]["otherNodeMs"]["p99"].is_number(), other_node, "{report}");
        }
        assert!(report["loaded"]["loadRunsPerSecond"].as_f64().is_some_and(|runs| runs > 0.0), "{report}");
    }
}

#[test]
fn the_benchmark_of_decisions_counts_each_decision_once() {
    let start = |database: &[&str]| {
        // The time limit is not reached: the benchmark ends when no interrupt is pending.
        let words =
            ["bench", "decide", "--pending", "100", "--seconds", "600", "--concurrency", "4", "--json"];
        let mut command = Command::new(PROGRAM);
        clear_env(&mut command)
            .args(words)
            .args(database)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
    };
    let benches = [start(&[]).unwrap(), start(&["--postgres"]).unwrap()];
    for bench in benches {
        let report = json_of(&bench.wait_with_output().unwrap());
        assert_eq!(report["errors"], json!(0), "{report}");
        // Two of a hundred are decided before counting starts. The server counts one change for each of the others.
        assert_eq!((&report["decisions"], &report["changes"]), (&json!(98), &json!(98)), "{report}");
        assert!(report["ceilingRowsPerSecond"][0].as_f64().is_some_and(|rows| rows > 0.0), "{report}");
        assert!(report["shareOfCeiling"].is_number(), "{report}");
    }
}

#[test]
fn the_benchmark_of_webhooks_counts_delivered_and_missing_events() {
    let start = |database: &[&str]| {
        let words =
            "bench webhooks --deliveries 90 --runs 20 --rounds 1 --subscriptions 3 --concurrency 4 --json";
        let mut command = Command::new(PROGRAM);
        let command = clear_env(&mut command).args(words.split(' ')).args(database);
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()
    };
    let benches = [start(&[]).unwrap(), start(&["--postgres"]).unwrap()];
    for bench in benches {
        let report = json_of(&bench.wait_with_output().unwrap());
        assert_eq!(report["errors"], json!(0), "{report}");
        assert_eq!(report["durable"]["delivered"], json!(90), "{report}");
        let flood = |what: &str| report["flood"][what].as_u64().unwrap();
        assert!(flood("delivered") > 0 && flood("unaccounted") == 0, "{report}");
        assert!(report["signatures"]["checked"].as_u64().is_some_and(|checked| checked >= 5), "{report}");
        for kind in ["oneBestEffort", "oneSilentBestEffort", "oneRefusingDurable", "manyForOtherEvents"] {
            assert!(report["beside"][kind]["share"].as_f64().is_some_and(|share| share > 0.0), "{report}");
        }
        assert_eq!(report["beside"]["manyForOtherEvents"]["arrived"], json!(0), "{report}");
        assert_eq!(report["beside"]["manyForEveryCycle"]["events"], json!(20 * 2 * 3), "{report}");
    }
}

#[test]
fn a_benchmark_accepts_one_database() {
    let refused = |words: &[&str]| {
        let mut command = Command::new(PROGRAM);
        let output = clear_env(&mut command).args(["bench", "cycle"]).args(words).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{}", text(&output));
    };
    refused(&["--postgres", "--database", "sqlite:x.db"]);
    refused(&["--database", "mysql://x"]);
    refused(&["--database", "sqlite:x.db", "--server", "http://127.0.0.1:1", "--key", "k"]);
}
