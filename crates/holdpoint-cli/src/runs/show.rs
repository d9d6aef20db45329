//! One run on a screen: facts, nodes, the runs around it, and what to do about it.

use serde_json::Value;

use super::{Output, cell, clean};
use crate::asked;
use crate::output::{age, ms_since, quoted};

pub(crate) fn text(output: &Output, run: &Value) -> String {
    let nodes = run["nodeStates"].as_object().into_iter().flatten();
    let rows: Vec<_> = nodes.map(|(node, state)| vec![clean(node), cell(&state["status"])]).collect();
    let parts = [
        output.facts(&facts(output, run)),
        output.table(&["NODE", "STATUS"], &rows, ""),
        children(output, run),
        asked::text(output, run),
        next(output, run),
    ];
    parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("\n\n")
}

fn facts(output: &Output, run: &Value) -> Vec<(&'static str, String)> {
    let at = |name: &str| match ms_since(&run[name]) {
        Some(ms) => format!("{} ({} ago)", cell(&run[name]), age(ms)),
        None => cell(&run[name]),
    };
    let error = match &run["error"] {
        Value::Null => "-".to_string(),
        error => super::describe_failure(error),
    };
    let not_empty = |name: &str| match run[name].as_object() {
        Some(map) if !map.is_empty() => output.fit(&cell(&run[name]), 400),
        _ => "-".to_string(),
    };
    vec![
        ("run", cell(&run["runId"])),
        ("workflow", format!("{} version {}", cell(&run["workflowId"]), cell(&run["workflowVersion"]))),
        ("status", cell(&run["status"])),
        ("error", error),
        ("paused", paused(run, &at("pausedAt"))),
        ("pause requested", pause_requested(run, &at("pauseRequestedAt"))),
        ("delayed", delayed(run)),
        ("owner", format!("{}/{}", cell(&run["owner"]["tenant"]), cell(&run["owner"]["principal"]))),
        ("node", cell(&run["currentNodeId"])),
        ("started by", of_two(run, "parentRunId", "at node", "parentNodeId")),
        ("forked from", forked(run)),
        ("started", at("startedAt")),
        ("completed", at("completedAt")),
        ("tags", cell(&run["tags"])),
        ("metadata", not_empty("metadata")),
        ("options", not_empty("configurable")),
        ("variables", not_empty("variables")),
    ]
}

fn paused(run: &Value, at: &str) -> String {
    if run["pausedAt"].is_null() {
        return "-".to_string();
    }
    format!("{at} by {}, {}{}", cell(&run["pausedBy"]), cell(&run["drainPolicy"]), pause_reason(run))
}

/// A pause that waits for the nodes at work.
fn pause_requested(run: &Value, at: &str) -> String {
    if run["pauseRequestedAt"].is_null() {
        return "-".to_string();
    }
    format!(
        "{at} by {}, when the nodes at work have ended{}",
        cell(&run["pauseRequestedBy"]),
        pause_reason(run)
    )
}

fn pause_reason(run: &Value) -> String {
    match &run["pauseReason"] {
        Value::Null => String::new(),
        reason => format!(": {}", cell(reason)),
    }
}

/// The server that a node waits for, and whether it is still tried.
fn delayed(run: &Value) -> String {
    let mut nodes = run["nodeStates"].as_object().into_iter().flatten();
    let Some((node, state)) = nodes.find(|(_, state)| state["delay"].is_object()) else {
        return "-".to_string();
    };
    let delay = &state["delay"];
    let tried = match &delay["until"] {
        Value::Null => "given up; requeue its dispatch when the server is back".to_string(),
        until => format!("tried until {}", cell(until)),
    };
    format!(
        "node {} since {}, {tried}: {}",
        clean(node),
        cell(&delay["since"]),
        cell(&delay["error"]["message"])
    )
}

fn forked(run: &Value) -> String {
    if run["sourceRunId"].is_null() {
        return "-".to_string();
    }
    let (source, mode) = (cell(&run["sourceRunId"]), cell(&run["forkMode"]));
    format!("run {source} before its event {}, as a {mode}", cell(&run["fromSeq"]))
}

fn of_two(run: &Value, name: &str, between: &str, other: &str) -> String {
    if run[name].is_null() {
        return "-".to_string();
    }
    format!("run {} {between} {}", cell(&run[name]), cell(&run[other]))
}

fn children(output: &Output, run: &Value) -> String {
    let list = run["childRuns"].as_array().into_iter().flatten();
    let row =
        |child: &Value| ["runId", "workflowId", "nodeId", "status"].map(|name| cell(&child[name])).to_vec();
    output.table(&["CHILD", "WORKFLOW", "NODE", "STATUS"], &list.map(row).collect::<Vec<_>>(), "")
}

/// What the run itself does not ask, and yet somebody has to do.
fn next(output: &Output, run: &Value) -> String {
    let id = quoted(&cell(&run["runId"]));
    if run["status"] == "paused" {
        return format!("let it go on with: {}", output.command(&format!("runs resume {id}")));
    }
    let is_waiting =
        |child: &&Value| child["status"].as_str().is_some_and(|status| status.starts_with("waiting"));
    let mut list = run["childRuns"].as_array().into_iter().flatten();
    match list.find(is_waiting) {
        Some(child) if run["interrupt"].is_null() => {
            let child = quoted(&cell(&child["runId"]));
            format!("see what it waits for with: {}", output.command(&format!("runs show {child}")))
        }
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn shown(more: &Value) -> String {
        let mut snapshot = json!({
            "runId": "r1", "workflowId": "release", "workflowVersion": "2", "status": "waiting-approval",
            "owner": {"tenant": "default", "principal": "admin"},
            "nodeStates": {"gate": {"status": "suspended"}}, "variables": {}, "tags": [],
        });
        snapshot.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
        text(&Output::new(true), &snapshot)
    }

    #[test]
    fn a_waiting_run_says_what_it_waits_for_and_how_to_answer() {
        let interrupt = json!({"nodeId": "gate", "kind": "approval", "data": {"title": "Ship?"}});
        let text = shown(&json!({"interrupt": interrupt}));
        assert!(text.contains("status    waiting-approval"), "{text}");
        assert!(text.contains("gate  suspended"), "{text}");
        assert!(text.ends_with("title  Ship?\nanswer with: holdpoint answer r1 gate accept"), "{text}");
        assert!(!text.contains("metadata"), "{text}");
    }

    #[test]
    fn a_paused_run_says_since_when_why_and_how_it_goes_on() {
        let pause = json!({
            "status": "paused", "pausedAt": "x", "pausedBy": "ann", "drainPolicy": "immediate", "pauseReason": "lunch",
        });
        let text = shown(&pause);
        assert!(text.contains("x by ann, immediate: lunch"), "{text}");
        assert!(text.ends_with("let it go on with: holdpoint runs resume r1"), "{text}");
        let asked =
            json!({"pauseRequestedAt": "x", "pauseRequestedBy": "ann", "drainPolicy": "drain-current-node"});
        let text = shown(&asked);
        assert!(text.contains("x by ann, when the nodes at work have ended"), "{text}");
    }

    #[test]
    fn a_run_whose_server_is_away_says_so() {
        let error = json!({"message": "the MCP server own cannot be reached"});
        let delayed = |delay: Value| json!({"nodeStates": {"agent": {"status": "running", "delay": delay}}});
        let text = shown(&delayed(json!({"since": "noon", "until": "one", "error": error})));
        assert!(text.contains("node agent since noon, tried until one: the MCP server own cannot"), "{text}");
        let text = shown(&delayed(json!({"since": "noon", "error": error})));
        assert!(text.contains("since noon, given up; requeue its dispatch"), "{text}");
    }

    #[test]
    fn the_runs_around_it_are_shown() {
        let child = json!({"runId": "r1.1", "workflowId": "c", "nodeId": "call", "status": "waiting-input"});
        let text =
            shown(&json!({"childRuns": [child], "sourceRunId": "r0", "fromSeq": 4, "forkMode": "branch"}));
        assert!(text.contains("r1.1   c         call  waiting-input"), "{text}");
        assert!(text.contains("run r0 before its event 4, as a branch"), "{text}");
        assert!(text.ends_with("see what it waits for with: holdpoint runs show r1.1"), "{text}");
        let text = shown(&json!({"parentRunId": "up", "parentNodeId": "call"}));
        assert!(text.contains("run up at node call"), "{text}");
    }
}
