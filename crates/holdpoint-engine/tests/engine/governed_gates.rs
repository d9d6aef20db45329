//! Governed gates through the engine: required roles, denied attempts, overrides and rejections.

use std::collections::BTreeSet;

use holdpoint_engine::core::{Answer, Command, ForkMode, NodeId, Principal, Refusal, RunRef};
use holdpoint_engine::{Error, ForkRequest, Overlay, PendingCursor};
use serde_json::{Value, json};

use crate::receipts::{once, run_response};
use crate::test_database::on_both;
use crate::test_env::{TestEnv, graph, line, node, tenant};

on_both! {
    a_gate_accepts_holders_of_its_role_and_records_denied_attempts,
    a_recorded_denial_leaves_no_receipt,
    an_override_decides_alone_if_it_bypasses_the_quorum,
    a_rejection_follows_its_edge_and_the_governed_gate_asks_again,
    a_rejection_without_an_edge_fails_the_run,
    a_timeout_of_a_governed_gate_is_no_grant,
    concurrent_grants_and_denied_attempts_each_count_once,
    a_governed_gate_is_replayed,
    invalid_governed_gates_are_rejected,
}

const TYPE: &str = "core.openwop.governance.approvalGate";

fn holder(name: &str, role: &str) -> Principal {
    Principal { roles: vec![role.to_owned()], ..Principal::named(name) }
}

fn answer_of(by: Principal, value: Value) -> Command {
    Command::ResolveNode {
        node: NodeId::parse("gate").unwrap(),
        interrupt: None,
        answer: Answer::new(value, by),
    }
}

fn grants(name: &str, role: &str) -> Command {
    answer_of(holder(name, role), json!({"decision": "granted"}))
}

async fn status(env: &TestEnv, of: &RunRef, command: Command) -> &'static str {
    env.engine.runs().execute(of, &command).await.unwrap().status().as_str()
}

async fn refusal(env: &TestEnv, of: &RunRef, command: Command) -> Refusal {
    match env.engine.runs().execute(of, &command).await {
        Err(Error::Refused(refusal)) => refusal,
        other => panic!("{other:?}"),
    }
}

/// The types of all events except those of nodes and runs.
async fn event_types(env: &TestEnv, of: &RunRef) -> Vec<String> {
    let log = env.log(of).await;
    let names = log.iter().map(|line| serde_json::from_str::<Value>(line).unwrap()["type"].clone());
    let names = names.map(|name| name.as_str().unwrap_or_default().to_owned());
    names.filter(|name| !name.starts_with("run.") && !name.starts_with("node.")).collect()
}

async fn waiting(env: &TestEnv, config: Value) -> RunRef {
    env.register(line("governed", &[("gate", TYPE, config), ("after", "core.noop", json!({}))])).await;
    env.start("governed").await
}

async fn a_gate_accepts_holders_of_its_role_and_records_denied_attempts(env: TestEnv) {
    let of = waiting(&env, json!({"requiredRole": "release", "quorum": 2})).await;
    assert_eq!(env.status(&of).await, "waiting-approval");
    assert!(matches!(refusal(&env, &of, grants("eve", "intern")).await, Refusal::NotAuthorized(_)));
    assert_eq!(env.pending().await, ["gate"]);
    assert_eq!(status(&env, &of, grants("ann", "release")).await, "waiting-approval");
    assert_eq!(status(&env, &of, grants("ann", "release")).await, "waiting-approval");
    let changed = answer_of(holder("ann", "release"), json!({"decision": "rejected"}));
    assert_eq!(refusal(&env, &of, changed).await, Refusal::AlreadyVoted("ann".to_owned()));
    assert_eq!(status(&env, &of, grants("bob", "release")).await, "completed");
    assert!(env.pending().await.is_empty());
    assert_eq!(
        event_types(&env, &of).await,
        [
            "interrupt.requested",
            "authorization.decided",
            "holdpoint.vote.cast",
            "approval.granted",
            "holdpoint.vote.repeated",
            "interrupt.resolved",
            "approval.granted",
        ]
    );
    let variables = env.run(&of).await.variables.clone();
    assert_eq!((&variables["decision"], &variables["quorum"]["approvals"]), (&json!("granted"), &json!(2)));
    let env = env.reopen(|options| options).await;
    assert_eq!(env.run(&of).await.interrupts[0].denied, 1);
}

async fn a_recorded_denial_leaves_no_receipt(env: TestEnv) {
    let of = waiting(&env, json!({"requiredRole": "release"})).await;
    let once = once("k", run_response);
    for attempt in 1..=2 {
        let denied = env.engine.runs().execute_once(&of, &[grants("eve", "intern")], Some(&once)).await;
        assert!(matches!(denied, Err(Error::Refused(Refusal::NotAuthorized(_)))), "{denied:?}");
        assert!(env.engine.receipts().get(&once.request).await.unwrap().is_none());
        assert_eq!(env.run(&of).await.interrupts[0].denied, attempt);
    }
    env.engine.runs().execute_once(&of, &[grants("ann", "release")], Some(&once)).await.unwrap();
    assert!(env.engine.receipts().get(&once.request).await.unwrap().is_some());
}

async fn an_override_decides_alone_if_it_bypasses_the_quorum(env: TestEnv) {
    let gate = |bypass: bool| {
        json!({
            "requiredRole": "release", "quorum": 2, "override": {"requiredRole": "owner", "audited": true},
            "overrideBypassesQuorum": bypass,
        })
    };
    let overrides =
        || answer_of(holder("olga", "owner"), json!({"decision": "overridden", "reason": "it burns"}));
    let of = waiting(&env, gate(false)).await;
    assert_eq!(status(&env, &of, overrides()).await, "waiting-approval");
    let rows = env.engine.interrupts().open(&tenant(), PendingCursor::default(), 10).await.unwrap();
    let votes = rows[0].votes.as_ref().unwrap();
    assert_eq!((votes.approvals, votes.rejections), (1, 0), "the override is shown as an approval");
    assert_eq!(status(&env, &of, grants("ann", "release")).await, "completed");
    let of = waiting(&env, gate(true)).await;
    assert_eq!(status(&env, &of, overrides()).await, "completed");
    assert_eq!(
        event_types(&env, &of).await,
        ["interrupt.requested", "interrupt.resolved", "approval.overridden"]
    );
    let run = env.run(&of).await;
    assert_eq!((&run.nodes[0].outputs["reason"], run.variables.get("reason")), (&json!("it burns"), None));
}

async fn a_rejection_follows_its_edge_and_the_governed_gate_asks_again(env: TestEnv) {
    let back = json!({
        "id": "back", "sourceNodeId": "gate", "targetNodeId": "gate", "triggerRule": "any_failed",
    });
    let first = json!({"id": "first", "sourceNodeId": "start", "targetNodeId": "gate"});
    let gate = json!({"requiredRole": "release"});
    let nodes = [node("start", "core.start", json!({})), node("gate", TYPE, gate)];
    env.register(graph("again", &nodes, &[first, back])).await;
    let of = env.start("again").await;
    let rejects = answer_of(holder("ann", "release"), json!({"decision": "rejected", "reason": "no tests"}));
    assert_eq!(status(&env, &of, rejects).await, "waiting-approval");
    assert_eq!(status(&env, &of, grants("ann", "release")).await, "completed");
    let run = env.run(&of).await;
    assert_ne!(run.interrupts[0].key, run.interrupts[1].key);
    assert!(event_types(&env, &of).await.contains(&"approval.rejected".to_owned()));
}

async fn a_rejection_without_an_edge_fails_the_run(env: TestEnv) {
    let of = waiting(&env, json!({"requiredRole": "release"})).await;
    let rejects = answer_of(holder("ann", "release"), json!({"decision": "rejected", "reason": "no tests"}));
    assert_eq!(status(&env, &of, rejects).await, "failed");
    let log = env.log(&of).await;
    let failed = log.iter().find(|line| line.contains("node.failed")).unwrap();
    assert!(failed.contains("approval_rejected") && failed.contains("no tests"), "{failed}");
    assert!(!log.iter().any(|line| line.contains("node.started") && line.contains("after")), "{log:?}");
}

async fn a_timeout_of_a_governed_gate_is_no_grant(env: TestEnv) {
    for config in [
        json!({"requiredRole": "release", "timeoutSec": 2, "quorum": 2}),
        json!({"requiredRole": "release", "timeoutMs": 2000, "quorum": 2}),
    ] {
        let of = waiting(&env, config).await;
        assert_eq!(status(&env, &of, grants("ann", "release")).await, "waiting-approval");
        env.clock.advance(2000);
        env.drain().await;
        assert_eq!(env.status(&of).await, "failed");
        let log = env.log(&of).await;
        assert!(
            log.iter()
                .any(|line| line.contains("approval_rejected")
                    && line.contains("a timeout is not an approval")),
            "{log:?}"
        );
        assert!(
            !event_types(&env, &of).await.contains(&"approval.rejected".to_owned()),
            "no approver rejected it"
        );
        assert_eq!(refusal(&env, &of, grants("bob", "release")).await, Refusal::AlreadyResolved);
    }
}

async fn concurrent_grants_and_denied_attempts_each_count_once(env: TestEnv) {
    let of = waiting(&env, json!({"requiredRole": "release", "quorum": 3})).await;
    let mut all = tokio::task::JoinSet::new();
    for n in 0..24_u32 {
        let (engine, of) = (env.engine.clone(), of.clone());
        let role = if n % 2 == 0 { "release" } else { "intern" };
        let command = grants(&format!("p{}", n / 4), role);
        all.spawn(
            async move { (role, engine.runs().execute(&of, &command).await.map(|run| run.finished())) },
        );
    }
    let mut denied = 0;
    while let Some(ended) = all.join_next().await {
        match ended.unwrap() {
            ("release", Ok(_) | Err(Error::Refused(Refusal::AlreadyResolved))) => {}
            ("intern", Err(Error::Refused(Refusal::NotAuthorized(_)))) => denied += 1,
            ("intern", Err(Error::Refused(Refusal::AlreadyResolved))) => {}
            other => panic!("{other:?}"),
        }
    }
    let run = env.run(&of).await;
    let interrupt = &run.interrupts[0];
    assert_eq!(run.status().as_str(), "completed");
    let voters: BTreeSet<&str> = interrupt.votes.iter().map(|vote| vote.by.as_str()).collect();
    assert_eq!((voters.len(), interrupt.votes.len(), interrupt.denied), (3, 3, denied));
    let names = event_types(&env, &of).await;
    let count = |name: &str| names.iter().filter(|found| *found == name).count();
    assert_eq!((count("interrupt.resolved"), count("approval.granted")), (1, 3));
}

async fn a_governed_gate_is_replayed(env: TestEnv) {
    let of = waiting(&env, json!({"requiredRole": "release", "quorum": 2})).await;
    refusal(&env, &of, grants("eve", "intern")).await;
    for name in ["ann", "bob"] {
        env.engine.runs().execute(&of, &grants(name, "release")).await.unwrap();
    }
    let names = event_types(&env, &of).await;
    let length = env.engine.events().count(&of).await.unwrap();
    for from_seq in 0..=length {
        let request = ForkRequest {
            by: "forker".to_owned(),
            credential: None,
            mode: ForkMode::Replay,
            from_seq,
            overlay: Overlay::default(),
            once: None,
        };
        let copy = env.engine.runs().fork(&of, request).await.unwrap();
        let copy = RunRef { tenant: tenant(), run: copy.id.clone() };
        assert_eq!((event_types(&env, &copy).await, env.status(&copy).await), (names.clone(), "completed"));
    }
    // A branch before the last vote needs both votes again. The votes of its source do not count.
    let resolved = env.log(&of).await.iter().position(|line| line.contains("interrupt.resolved")).unwrap();
    let request = ForkRequest {
        by: "forker".to_owned(),
        credential: None,
        mode: ForkMode::Branch,
        from_seq: resolved as u64,
        overlay: Overlay::default(),
        once: None,
    };
    let branch = env.engine.runs().fork(&of, request).await.unwrap();
    let branch = RunRef { tenant: tenant(), run: branch.id.clone() };
    assert!(matches!(refusal(&env, &branch, grants("bob", "intern")).await, Refusal::NotAuthorized(_)));
    assert_eq!(status(&env, &branch, grants("carol", "release")).await, "waiting-approval");
    assert_eq!(status(&env, &branch, grants("ann", "release")).await, "completed");
}

async fn invalid_governed_gates_are_rejected(env: TestEnv) {
    let with = |members: Value| {
        let mut config = json!({"requiredRole": "release"});
        for (name, value) in members.as_object().unwrap() {
            config[name] = value.clone();
        }
        config
    };
    for (config, field) in [
        (json!({}), "config.requiredRole"),
        (json!({"requiredRole": ""}), "config.requiredRole"),
        (json!({"requiredScope": 1}), "config.requiredScope"),
        (with(json!({"quorum": 0})), "config.quorum"),
        (with(json!({"quorum": 1000})), "config.quorum"),
        (with(json!({"override": {"audited": true}})), "config.override"),
        (with(json!({"override": {"requiredRole": "owner", "audited": false}})), "config.override.audited"),
        (with(json!({"overrideBypassesQuorum": true})), "config.overrideBypassesQuorum"),
        (with(json!({"timeoutSec": 1, "timeoutMs": 1000})), "config.timeoutSec"),
        (with(json!({"timeoutSec": -1})), "config.timeoutSec"),
        (with(json!({"resumeSchema": 5})), "config.resumeSchema"),
        (with(json!({"actions": ["accept"]})), "config.actions"),
    ] {
        match env.engine.workflows().register(&tenant(), line("flawed", &[("gate", TYPE, config)])).await {
            Err(Error::InvalidWorkflow(flaws)) => {
                assert!(flaws.iter().any(|flaw| flaw.field == field), "{field}: {flaws:?}");
            }
            other => panic!("{field}: {other:?}"),
        }
    }
}
