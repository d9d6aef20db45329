//! `holdpoint runs show`: shows a run, its nodes, related runs, and the next command.

use holdpoint_api::Instant;
use holdpoint_api::ids::Status;
use holdpoint_api::snapshot::RunSnapshot;
use serde::Serialize;

use super::{Output, cell, clean};
use crate::open_interrupt;
use crate::output::{age_since, quoted};
use crate::pending::called_by;

pub(crate) fn text(output: &Output, run: &RunSnapshot<'_>) -> String {
    let nodes = run.node_states.0.iter();
    let nodes: Vec<_> = nodes.map(|(node, state)| vec![clean(node), cell(state.status)]).collect();
    let children = run.child_runs.iter().map(|child| {
        vec![cell(&child.run_id), cell(&child.workflow_id), cell(&child.node_id), cell(child.status)]
    });
    let below = run.child_interrupts.iter().map(|open| {
        vec![cell(called_by(&open.path)), cell(open.kind), cell(&open.run_id), cell(&open.node_id)]
    });
    let parts = [
        output.fields(&fields(output, run)),
        output.table(&["NODE", "STATUS"], &nodes, ""),
        output.table(&["CHILD", "WORKFLOW", "NODE", "STATUS"], &children.collect::<Vec<_>>(), ""),
        output.table(&["OPEN BELOW", "KIND", "RUN", "NODE"], &below.collect::<Vec<_>>(), ""),
        open_interrupt::describe_with_command(output, run),
        next(output, run),
    ];
    parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("\n\n")
}

fn fields(output: &Output, run: &RunSnapshot<'_>) -> Vec<(&'static str, String)> {
    let at = |at: Instant| format!("{} ({} ago)", cell(at), age_since(at));
    let reason = run.pause_reason.as_ref().map(|reason| format!(": {}", cell(reason))).unwrap_or_default();
    let paused = run.paused_at.map(|since| {
        format!("{} by {}, {}{reason}", at(since), cell(&run.paused_by), cell(run.drain_policy))
    });
    let pause_requested = run.pause_requested_at.map(|since| {
        let by = cell(&run.pause_requested_by);
        format!("{} by {by}, after its running nodes have ended{reason}", at(since))
    });
    let parent = run.parent_run_id.as_ref();
    let parent = parent.map(|parent| format!("run {} at node {}", cell(parent), cell(&run.parent_node_id)));
    let source = run.source_run_id.as_ref().map(|source| {
        let (source, seq, mode) = (cell(source), cell(run.from_seq), cell(run.fork_mode));
        format!("run {source} before its event {seq}, as a {mode}")
    });
    let owner = run.owner.as_ref();
    let owner = owner.map(|owner| format!("{}/{}", cell(&owner.tenant), cell(&owner.principal)));
    vec![
        ("run", cell(&run.run_id)),
        ("workflow", format!("{} version {}", cell(&run.workflow_id), cell(&run.workflow_version))),
        ("status", cell(run.status)),
        ("error", run.error.as_ref().map(super::describe_failure).unwrap_or_default()),
        ("paused", paused.unwrap_or_default()),
        ("pause requested", pause_requested.unwrap_or_default()),
        ("delayed", delayed(run).unwrap_or_default()),
        ("owner", owner.unwrap_or_default()),
        ("node", cell(&run.current_node_id)),
        ("started by", parent.unwrap_or_default()),
        ("forked from", source.unwrap_or_default()),
        ("started", at(run.started_at)),
        ("completed", run.completed_at.map(at).unwrap_or_default()),
        ("tags", cell(&run.tags)),
        ("metadata", object(output, &run.metadata)),
        ("options", object(output, &run.configurable)),
        ("variables", object(output, &run.variables)),
    ]
}

fn object(output: &Output, members: &impl Serialize) -> String {
    let text = cell(members);
    if text == "{}" { String::new() } else { output.fit(&text, 400) }
}

/// Describes the retries of a node whose server is unavailable.
fn delayed(run: &RunSnapshot<'_>) -> Option<String> {
    let mut nodes = run.node_states.0.iter();
    let (node, delay) = nodes.find_map(|(node, state)| Some((node, state.delay.as_ref()?)))?;
    let until = delay.until.map_or_else(
        || "given up; requeue its dispatch when the server is available".to_owned(),
        |until| format!("retried until {}", cell(until)),
    );
    let (since, error) = (cell(delay.since), cell(&delay.error.message));
    Some(format!("node {} since {since}, {until}: {error}", clean(node)))
}

/// Returns the next command for a run that is paused, or that waits for the interrupt of a child run.
fn next(output: &Output, run: &RunSnapshot<'_>) -> String {
    if run.status == Status::Paused {
        let id = quoted(run.run_id.as_str());
        return format!("resume it with: {}", output.command(&format!("runs resume {id}")));
    }
    match run.child_interrupts.first() {
        Some(open) if run.interrupt.is_none() => {
            let child = quoted(open.run_id.as_str());
            format!(
                "show the interrupt of the child run with: {}",
                output.command(&format!("runs show {child}"))
            )
        }
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{interrupt, snapshot};
    use super::*;
    use serde_json::{Value, json};

    const NOON: &str = "2026-05-01T12:00:00.000Z";

    fn shown(members: &Value) -> String {
        text(&Output::json(), &snapshot(members))
    }

    #[test]
    fn a_waiting_run_shows_its_interrupt_and_the_command_that_answers_it() {
        let text = shown(&json!({"interrupt": interrupt("approval", &json!({"title": "Ship?"}))}));
        assert!(text.contains("status    waiting-approval"), "{text}");
        assert!(text.contains("gate  suspended"), "{text}");
        assert!(text.ends_with("title  Ship?\nanswer with: holdpoint answer r1 gate accept"), "{text}");
        assert!(!text.contains("metadata"), "{text}");
    }

    #[test]
    fn a_paused_run_shows_time_actor_and_reason_of_the_pause() {
        let text = shown(&json!({
            "status": "paused", "pausedAt": NOON, "pausedBy": "ann", "drainPolicy": "immediate",
            "pauseReason": "lunch",
        }));
        assert!(text.contains(NOON) && text.contains(" by ann, immediate: lunch"), "{text}");
        assert!(text.ends_with("resume it with: holdpoint runs resume r1"), "{text}");
        let text = shown(&json!({"pauseRequestedAt": NOON, "pauseRequestedBy": "ann"}));
        assert!(text.contains(" by ann, after its running nodes have ended"), "{text}");
    }

    #[test]
    fn a_run_shows_the_delay_of_a_node_whose_server_is_unavailable() {
        let mut delay =
            json!({"since": NOON, "error": {"code": "x", "message": "the server own is unavailable"}});
        let delayed = |delay: &Value| {
            shown(&json!({"nodeStates": {"agent": {"status": "running", "typeId": "t", "delay": delay}}}))
        };
        let text = delayed(&delay);
        assert!(text.contains(&format!("since {NOON}, given up; requeue its dispatch")), "{text}");
        delay["until"] = json!(NOON);
        let expected =
            format!("node agent since {NOON}, retried until {NOON}: the server own is unavailable");
        assert!(delayed(&delay).contains(&expected));
    }

    #[test]
    fn a_run_shows_its_child_runs_source_and_parent() {
        let child = json!({"runId": "r1.1", "workflowId": "c", "nodeId": "call", "status": "waiting-input"});
        let text =
            shown(&json!({"childRuns": [child], "sourceRunId": "r0", "fromSeq": 4, "forkMode": "branch"}));
        assert!(text.contains("r1.1   c         call  waiting-input"), "{text}");
        assert!(text.contains("run r0 before its event 4, as a branch"), "{text}");
        let text = shown(&json!({"parentRunId": "up", "parentNodeId": "call"}));
        assert!(text.contains("run up at node call"), "{text}");
    }

    #[test]
    fn a_run_shows_the_interrupts_of_the_runs_below_it_and_the_command_that_shows_the_first() {
        let step = |run: &str, node: &str| json!({"runId": run, "workflowId": "c", "nodeId": node});
        let open = json!({
            "interruptId": "r1.1.1:i1", "kind": "approval", "runId": "r1.1.1", "workflowId": "d", "nodeId": "gate",
            "path": [step("r1", "call"), step("r1.1", "inner")],
        });
        let text = shown(&json!({"childInterrupts": [open]}));
        assert!(text.contains("call > inner  approval  r1.1.1  gate"), "{text}");
        let last = "show the interrupt of the child run with: holdpoint runs show r1.1.1";
        assert!(text.ends_with(last), "{text}");
    }
}
