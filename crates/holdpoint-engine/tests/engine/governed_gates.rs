//! Governed gates through the engine: who gets in, who is turned away, and where a rejection leads.

use std::collections::BTreeSet;

use holdpoint_engine::core::{Answer, Command, ForkMode, NodeId, Principal, Refusal, RunRef};
use holdpoint_engine::{Error, ForkRequest, Overlay, PendingCursor};
use serde_json::{Value, json};

use crate::house::{House, graph, line, node, tenant};
use crate::place::on_both;
use crate::receipts::{once, run_words};

on_both! {
    a_gate_opens_for_those_who_hold_its_role_and_writes_down_the_others,
    a_refusal_that_is_written_down_leaves_no_receipt,
    an_override_opens_the_gate_alone_where_it_says_so,
    a_rejection_leads_back_and_the_gate_asks_again,
    a_rejection_that_leads_nowhere_fails_the_run,
    silence_at_a_governed_gate_is_no_grant,
    of_many_grants_and_knocks_at_once_each_counts_once,
    a_governed_gate_is_replayed,
    governed_gates_that_make_no_sense_are_flaws,
}

const TYPE: &str = "core.openwop.governance.approvalGate";

fn holder(name: &str, role: &str) -> Principal {
    Principal { roles: vec![role.to_owned()], ..Principal::named(name) }
}

fn says(by: Principal, value: Value) -> Command {
    Command::ResolveNode {
        node: NodeId::parse("gate").unwrap(),
        interrupt: None,
        answer: Answer::new(value, by),
    }
}

fn grants(name: &str, role: &str) -> Command {
    says(holder(name, role), json!({"decision": "granted"}))
}

async fn status(house: &House, of: &RunRef, command: Command) -> &'static str {
    house.engine.execute(of, &command).await.unwrap().status().as_str()
}

async fn refusal(house: &House, of: &RunRef, command: Command) -> Refusal {
    match house.engine.execute(of, &command).await {
        Err(Error::Refused(refusal)) => refusal,
        other => panic!("{other:?}"),
    }
}

/// The names of the events, without those of nodes and runs.
async fn told(house: &House, of: &RunRef) -> Vec<String> {
    let log = house.log(of).await;
    let names = log.iter().map(|line| serde_json::from_str::<Value>(line).unwrap()["type"].clone());
    let names = names.map(|name| name.as_str().unwrap_or_default().to_owned());
    names.filter(|name| !name.starts_with("run.") && !name.starts_with("node.")).collect()
}

async fn waiting(house: &House, config: Value) -> RunRef {
    house.register(line("governed", &[("gate", TYPE, config), ("after", "core.noop", json!({}))])).await;
    house.start("governed").await
}

async fn a_gate_opens_for_those_who_hold_its_role_and_writes_down_the_others(house: House) {
    let of = waiting(&house, json!({"requiredRole": "release", "quorum": 2})).await;
    assert_eq!(house.status(&of).await, "waiting-approval");
    assert!(matches!(refusal(&house, &of, grants("eve", "intern")).await, Refusal::NotAuthorized(_)));
    assert_eq!(house.pending().await, ["gate"]);
    assert_eq!(status(&house, &of, grants("ann", "release")).await, "waiting-approval");
    assert_eq!(status(&house, &of, grants("ann", "release")).await, "waiting-approval");
    let changed = says(holder("ann", "release"), json!({"decision": "rejected"}));
    assert_eq!(refusal(&house, &of, changed).await, Refusal::AlreadyVoted("ann".to_owned()));
    assert_eq!(status(&house, &of, grants("bob", "release")).await, "completed");
    assert!(house.pending().await.is_empty());
    assert_eq!(
        told(&house, &of).await,
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
    let variables = house.run(&of).await.variables.clone();
    assert_eq!((&variables["decision"], &variables["quorum"]["approvals"]), (&json!("granted"), &json!(2)));
    let house = house.reopen(|options| options).await;
    assert_eq!(house.run(&of).await.interrupts[0].denied, 1);
}

async fn a_refusal_that_is_written_down_leaves_no_receipt(house: House) {
    let of = waiting(&house, json!({"requiredRole": "release"})).await;
    let once = once("k", run_words);
    for attempt in 1..=2 {
        let knock = house.engine.execute_once(&of, &[grants("eve", "intern")], Some(&once)).await;
        assert!(matches!(knock, Err(Error::Refused(Refusal::NotAuthorized(_)))), "{knock:?}");
        assert!(house.engine.receipt(&once.request).await.unwrap().is_none());
        assert_eq!(house.run(&of).await.interrupts[0].denied, attempt);
    }
    house.engine.execute_once(&of, &[grants("ann", "release")], Some(&once)).await.unwrap();
    assert!(house.engine.receipt(&once.request).await.unwrap().is_some());
}

async fn an_override_opens_the_gate_alone_where_it_says_so(house: House) {
    let gate = |bypass: bool| {
        json!({
            "requiredRole": "release", "quorum": 2, "override": {"requiredRole": "owner", "audited": true},
            "overrideBypassesQuorum": bypass,
        })
    };
    let overrides = || says(holder("olga", "owner"), json!({"decision": "overridden", "reason": "it burns"}));
    let of = waiting(&house, gate(false)).await;
    assert_eq!(status(&house, &of, overrides()).await, "waiting-approval");
    let rows = house.engine.pending(&tenant(), PendingCursor::default(), 10).await.unwrap();
    let votes = rows[0].votes.as_ref().unwrap();
    assert_eq!((votes.approvals, votes.rejections), (1, 0), "it counts as a grant, and is shown as one");
    assert_eq!(status(&house, &of, grants("ann", "release")).await, "completed");
    let of = waiting(&house, gate(true)).await;
    assert_eq!(status(&house, &of, overrides()).await, "completed");
    assert_eq!(told(&house, &of).await, ["interrupt.requested", "interrupt.resolved", "approval.overridden"]);
    let run = house.run(&of).await;
    assert_eq!((&run.nodes[0].outputs["reason"], run.variables.get("reason")), (&json!("it burns"), None));
}

async fn a_rejection_leads_back_and_the_gate_asks_again(house: House) {
    let back = json!({
        "id": "back", "sourceNodeId": "gate", "targetNodeId": "gate", "triggerRule": "any_failed",
    });
    let first = json!({"id": "first", "sourceNodeId": "start", "targetNodeId": "gate"});
    let gate = json!({"requiredRole": "release"});
    let nodes = [node("start", "core.start", json!({})), node("gate", TYPE, gate)];
    house.register(graph("again", &nodes, &[first, back])).await;
    let of = house.start("again").await;
    let rejects = says(holder("ann", "release"), json!({"decision": "rejected", "reason": "no tests"}));
    assert_eq!(status(&house, &of, rejects).await, "waiting-approval");
    assert_eq!(status(&house, &of, grants("ann", "release")).await, "completed");
    let run = house.run(&of).await;
    assert_ne!(run.interrupts[0].key, run.interrupts[1].key);
    assert!(told(&house, &of).await.contains(&"approval.rejected".to_owned()));
}

async fn a_rejection_that_leads_nowhere_fails_the_run(house: House) {
    let of = waiting(&house, json!({"requiredRole": "release"})).await;
    let rejects = says(holder("ann", "release"), json!({"decision": "rejected", "reason": "no tests"}));
    assert_eq!(status(&house, &of, rejects).await, "failed");
    let log = house.log(&of).await;
    let failed = log.iter().find(|line| line.contains("node.failed")).unwrap();
    assert!(failed.contains("approval_rejected") && failed.contains("no tests"), "{failed}");
    assert!(!log.iter().any(|line| line.contains("node.started") && line.contains("after")), "{log:?}");
}

async fn silence_at_a_governed_gate_is_no_grant(house: House) {
    for config in [
        json!({"requiredRole": "release", "timeoutSec": 2, "quorum": 2}),
        json!({"requiredRole": "release", "timeoutMs": 2000, "quorum": 2}),
    ] {
        let of = waiting(&house, config).await;
        assert_eq!(status(&house, &of, grants("ann", "release")).await, "waiting-approval");
        house.clock.advance(2000);
        house.drain().await;
        assert_eq!(house.status(&of).await, "failed");
        let log = house.log(&of).await;
        assert!(
            log.iter().any(|line| line.contains("approval_rejected") && line.contains("silence")),
            "{log:?}"
        );
        assert!(!told(&house, &of).await.contains(&"approval.rejected".to_owned()), "nobody's refusal");
        assert_eq!(refusal(&house, &of, grants("bob", "release")).await, Refusal::AlreadyResolved);
    }
}

async fn of_many_grants_and_knocks_at_once_each_counts_once(house: House) {
    let of = waiting(&house, json!({"requiredRole": "release", "quorum": 3})).await;
    let mut all = tokio::task::JoinSet::new();
    for n in 0..24_u32 {
        let (engine, of) = (house.engine.clone(), of.clone());
        let role = if n % 2 == 0 { "release" } else { "intern" };
        let command = grants(&format!("p{}", n / 4), role);
        all.spawn(async move { (role, engine.execute(&of, &command).await.map(|run| run.finished())) });
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
    let run = house.run(&of).await;
    let asked = &run.interrupts[0];
    assert_eq!(run.status().as_str(), "completed");
    let voters: BTreeSet<&str> = asked.votes.iter().map(|vote| vote.by.as_str()).collect();
    assert_eq!((voters.len(), asked.votes.len(), asked.denied), (3, 3, denied));
    let names = told(&house, &of).await;
    let count = |name: &str| names.iter().filter(|told| *told == name).count();
    assert_eq!((count("interrupt.resolved"), count("approval.granted")), (1, 3));
}

async fn a_governed_gate_is_replayed(house: House) {
    let of = waiting(&house, json!({"requiredRole": "release", "quorum": 2})).await;
    refusal(&house, &of, grants("eve", "intern")).await;
    for name in ["ann", "bob"] {
        house.engine.execute(&of, &grants(name, "release")).await.unwrap();
    }
    let names = told(&house, &of).await;
    let length = house.engine.length(&of).await.unwrap();
    for from_seq in 0..=length {
        let request = ForkRequest {
            by: "forker".to_owned(),
            credential: None,
            mode: ForkMode::Replay,
            from_seq,
            overlay: Overlay::default(),
            once: None,
        };
        let copy = house.engine.fork(&of, request).await.unwrap();
        let copy = RunRef { tenant: tenant(), run: copy.id.clone() };
        assert_eq!((told(&house, &copy).await, house.status(&copy).await), (names.clone(), "completed"));
    }
    // A branch from before the last vote waits for both votes: those of its source do not count.
    let resolved = house.log(&of).await.iter().position(|line| line.contains("interrupt.resolved")).unwrap();
    let request = ForkRequest {
        by: "forker".to_owned(),
        credential: None,
        mode: ForkMode::Branch,
        from_seq: resolved as u64,
        overlay: Overlay::default(),
        once: None,
    };
    let branch = house.engine.fork(&of, request).await.unwrap();
    let branch = RunRef { tenant: tenant(), run: branch.id.clone() };
    assert!(matches!(refusal(&house, &branch, grants("bob", "intern")).await, Refusal::NotAuthorized(_)));
    assert_eq!(status(&house, &branch, grants("carol", "release")).await, "waiting-approval");
    assert_eq!(status(&house, &branch, grants("ann", "release")).await, "completed");
}

async fn governed_gates_that_make_no_sense_are_flaws(house: House) {
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
        match house.engine.register(&tenant(), line("flawed", &[("gate", TYPE, config)])).await {
            Err(Error::InvalidWorkflow(flaws)) => {
                assert!(flaws.iter().any(|flaw| flaw.field == field), "{field}: {flaws:?}");
            }
            other => panic!("{field}: {other:?}"),
        }
    }
}
