//! Golden lines of the starts and ends of runs.

use holdpoint_core::Ancestor;

use super::*;

pub(super) fn bare_start() -> RunParameters {
    RunParameters {
        workflow: WorkflowId::parse("pay").expect("a workflow id"),
        revision: 1,
        owner: Owner { tenant: TenantId::parse("acme").expect("a tenant id"), principal: "ada".to_owned() },
        inputs: Map::new(),
        configurable: Map::new(),
        tags: Vec::new(),
        metadata: Map::new(),
        thread: None,
        scope: None,
        callback_url: None,
        trace: None,
        trace_state: None,
        engine_version: None,
        parent: None,
        fork: None,
        forked_by: Vec::new(),
        grants: Vec::new(),
        requested_by: Vec::new(),
        credentials: Vec::new(),
        callback_secret: None,
        source: None,
        branch_of: None,
        client_run: None,
        dispatch: DispatchOptions::default(),
        trigger: None,
    }
}

pub(super) fn full_start() -> RunParameters {
    RunParameters {
        revision: 2,
        inputs: object(json!({"amount": 250})),
        configurable: object(json!({"model": "small"})),
        tags: vec!["urgent".to_owned()],
        metadata: object(json!({"ticket": 7})),
        ..bare_start()
    }
}

fn parent_run() -> Parent {
    Parent { run: run("r0"), workflow: flow(), node: node("a"), depth: 1, above: Vec::new() }
}

/// Returns the start of a run with two ancestors.
pub(super) fn grandchild_start() -> RunParameters {
    let root = Ancestor { run: run("r0"), workflow: flow(), node: node("a") };
    let parent = Parent { run: run("r0.1"), workflow: flow(), node: node("b"), depth: 2, above: vec![root] };
    RunParameters { parent: Some(parent), ..bare_start() }
}

pub(super) fn start_and_end_events() -> Vec<Event> {
    let fork = |mode| Fork {
        source: run("r2"),
        origin: run("r1"),
        from_seq: 7,
        mode,
        at: None,
        artifacts: None,
        copied: None,
    };
    let forked = |mode| RunParameters { fork: Some(fork(mode)), ..bare_start() };
    let at = Some(Timestamp(1_800_000_000_000));
    let by = |names: &[&str]| names.iter().map(ToString::to_string).collect();
    let of_branch = Fork { at, artifacts: Some(run("r2")), ..fork(ForkMode::Replay) };
    let child = RunParameters {
        scope: Some("order-7".to_owned()),
        callback_url: Some("https://example.org/done".to_owned()),
        trace: Some("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01".to_owned()),
        parent: Some(parent_run()),
        ..bare_start()
    };
    let paused = |drain, reason: Option<&str>| Event::RunPaused {
        reason: reason.map(str::to_owned),
        drain,
        by: "ada".to_owned(),
    };
    vec![
        Event::RunStarted(std::sync::Arc::new(child)),
        Event::RunStarted(std::sync::Arc::new(forked(ForkMode::Replay))),
        Event::RunStarted(std::sync::Arc::new(forked(ForkMode::Branch))),
        Event::RunStarted(std::sync::Arc::new(RunParameters { fork: Some(of_branch), ..bare_start() })),
        Event::RunStarted(std::sync::Arc::new(RunParameters {
            forked_by: by(&["bob", "ann"]),
            ..forked(ForkMode::Branch)
        })),
        Event::RunStarted(std::sync::Arc::new(RunParameters {
            requested_by: by(&["bob"]),
            credentials: by(&["key_1", "key_2"]),
            callback_secret: Some("sealed".to_owned()),
            ..bare_start()
        })),
        Event::RunStarted(std::sync::Arc::new(RunParameters {
            trace: Some("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01".to_owned()),
            trace_state: Some("vendor=1".to_owned()),
            engine_version: Some(20),
            ..bare_start()
        })),
        Event::PauseRequested { reason: None, by: "ada".to_owned() },
        Event::PauseRequested { reason: Some("a look first".to_owned()), by: "ada".to_owned() },
        paused(Drain::DrainCurrentNode, None),
        paused(Drain::Immediate, Some("a look first")),
        Event::RunResumed { by: "ada".to_owned() },
        Event::RunCancelled {
            reason: Some("parent-cancelled".to_owned()),
            by: "system:parent".to_owned(),
            parent: Some(run("r0")),
        },
        Event::ReplayDiverged {
            source: run("r1"),
            at_sequence: 4,
            expected: "node.completed".to_owned(),
            found: "node.failed".to_owned(),
        },
    ]
}
