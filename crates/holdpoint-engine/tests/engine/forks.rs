//! Forks from every event of a log: a replay has the same events and no effects, and a branch continues.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use holdpoint_engine::core::{Event, ForkMode, NodeId, Refusal, RunRef, StartRequest, WorkflowId};
use holdpoint_engine::{Context, Error, ForkRequest, Options, Outputs, Overlay, PureNode, Stop};
use serde_json::{Map, Value, json};

use crate::effects::{Shop, with_shop};
use crate::test_database::{TestDatabase, on_both};
use crate::test_env::{TestEnv, accept, alice, fork, gated, graph, line, node, resolve, tenant, text};

on_both! {
    a_replay_from_any_event_has_the_same_events_and_no_effects,
    a_replay_of_a_replay_has_the_same_events,
    a_replay_of_a_waiting_run_waits,
    a_branch_from_any_event_continues,
    a_diverging_replay_records_it_once_and_continues,
    a_replay_ends_at_a_step_that_is_not_recorded,
    a_copy_waits_for_its_own_child_run,
    a_branch_can_start_with_other_options,
    an_invalid_fork_is_rejected,
    a_copy_has_the_credentials_of_its_source_and_of_its_forker_or_none,
}

/// A workflow with a loop, a delay and a purchase. A gate and a child run are parallel to them.
fn all_features() -> Value {
    let gate = json!({"title": "Go on?", "actions": ["accept", "reject"]});
    let nodes = [
        node("begin", "core.noop", json!({})),
        node("head", "core.loop", json!({"count": 2})),
        node("body", "core.noop", json!({})),
        node("nap", "core.delay", json!({"ms": 50})),
        node("buy", "test.shop", json!({})),
        node("gate", "core.approvalGate", gate),
        node("call", "core.subWorkflow", json!({"workflowId": "small"})),
        node("end", "core.noop", json!({})),
    ];
    let edge = |from: &str, to: &str| json!({"id": format!("{from}-{to}"), "sourceNodeId": from, "targetNodeId": to});
    let way = |from: &str, to: &str, way: &str| {
        let mut edge = edge(from, to);
        edge["sourceOutput"] = json!(way);
        edge
    };
    let edges = [
        edge("begin", "head"),
        way("head", "body", "body"),
        edge("body", "head"),
        way("head", "nap", "done"),
        edge("nap", "buy"),
        edge("begin", "gate"),
        edge("begin", "call"),
        edge("buy", "end"),
        edge("gate", "end"),
        edge("call", "end"),
    ];
    graph("all-features", &nodes, &edges)
}

/// Performs a run of all features until it waits, or to its end.
pub(crate) async fn perform_all_features(env: &TestEnv, to_the_end: bool) -> RunRef {
    env.register(line("small", &[("x", "core.noop", json!({}))])).await;
    env.register(all_features()).await;
    let of = env.start("all-features").await;
    env.drain().await;
    env.clock.advance(50);
    env.drain().await;
    env.clock.advance(7);
    assert_eq!(env.status(&of).await, "waiting-approval");
    if to_the_end {
        env.answer(&of, "gate", accept()).await.unwrap();
        env.clock.advance(7);
        env.answer(&of, "buy", json!("r1")).await.unwrap();
        env.drain().await;
        assert_eq!(env.status(&of).await, "completed", "{:#?}", env.log(&of).await);
    }
    env.clock.advance(3_600_000);
    of
}

/// Times and events without the id of the run and the members of a fork.
async fn list(env: &TestEnv, of: &RunRef) -> Vec<(i64, String)> {
    let mut found = env.engine.events().list(of, 0).await.unwrap();
    if let Event::RunStarted(started) = &mut found[0].event {
        let started = std::sync::Arc::make_mut(started);
        started.fork = None;
        started.forked_by.clear();
    }
    found.iter().map(|one| (one.at.0, text(&one.event).replace(of.run.as_str(), "RUN"))).collect()
}

fn without_source_id(list: &[(i64, String)], source: &RunRef) -> Vec<(i64, String)> {
    list.iter().map(|(at, text)| (*at, text.replace(source.run.as_str(), "RUN"))).collect()
}

fn effects(shop: &Shop) -> (u32, u32) {
    (shop.quotes.load(Ordering::SeqCst), shop.payments.load(Ordering::SeqCst))
}

async fn rows(env: &TestEnv, table: &str) -> usize {
    env.database.read(&format!("SELECT run_id FROM {table}")).await.len()
}

async fn a_replay_from_any_event_has_the_same_events_and_no_effects(database: TestDatabase) {
    let shop = Shop::default();
    let env = TestEnv::with(database, with_shop(&shop)).await;
    let of = perform_all_features(&env, true).await;
    let expected = list(&env, &of).await;
    let (done, runs) = (effects(&shop), rows(&env, "runs").await);
    let count = expected.len() as u64;
    assert!(count > 40, "{expected:#?}");
    for from_seq in 0..=count {
        let copy = fork(&env, &of, ForkMode::Replay, from_seq).await;
        let found = without_source_id(&list(&env, &copy).await, &of);
        assert_eq!(found, expected, "from {from_seq}");
        assert_eq!(env.run(&copy).await.variables, env.run(&of).await.variables);
    }
    assert_eq!(env.drain().await, 0);
    assert_eq!(effects(&shop), done, "no effect is repeated");
    assert_eq!((rows(&env, "pending").await, rows(&env, "timers").await), (0, 0));
    let copies = usize::try_from(count).unwrap() + 1;
    assert_eq!(rows(&env, "runs").await, runs + copies, "no child is started again");
    let copy = fork(&env, &of, ForkMode::Replay, 3).await;
    let again = env.answer(&copy, "gate", accept()).await;
    assert!(matches!(again, Err(Error::Refused(Refusal::AlreadyResolved))));
}

async fn a_replay_of_a_replay_has_the_same_events(database: TestDatabase) {
    let shop = Shop::default();
    let env = TestEnv::with(database, with_shop(&shop)).await;
    let of = perform_all_features(&env, true).await;
    let first = fork(&env, &of, ForkMode::Replay, 5).await;
    let second = fork(&env, &first, ForkMode::Replay, 9).await;
    let origin = env.run(&second).await.started.as_ref().unwrap().fork.as_ref().unwrap().origin.clone();
    assert_eq!(origin, of.run);
    let third = fork(&env, &second, ForkMode::Replay, 0).await;
    assert_eq!(without_source_id(&list(&env, &third).await, &of), list(&env, &of).await);
}

async fn a_replay_of_a_waiting_run_waits(database: TestDatabase) {
    let shop = Shop::default();
    let env = TestEnv::with(database, with_shop(&shop)).await;
    let of = perform_all_features(&env, false).await;
    for from_seq in [0, 6, env.run(&of).await.seq] {
        let copy = fork(&env, &of, ForkMode::Replay, from_seq).await;
        assert_eq!(without_source_id(&list(&env, &copy).await, &of), list(&env, &of).await);
        assert_eq!(env.status(&copy).await, "waiting-approval");
        env.answer(&copy, "gate", accept()).await.unwrap();
        env.answer(&copy, "buy", json!("mine")).await.unwrap();
        env.drain().await;
        assert_eq!(env.status(&copy).await, "completed");
        assert_eq!(env.run(&copy).await.variables["receipt"], "mine");
    }
    assert_eq!(effects(&shop), (1, 3), "the recorded quote is used, each copy pays");
    assert_eq!(env.status(&of).await, "waiting-approval");
}

async fn a_branch_from_any_event_continues(database: TestDatabase) {
    let shop = Shop::default();
    let env = TestEnv::with(database, with_shop(&shop)).await;
    let of = perform_all_features(&env, true).await;
    let expected = list(&env, &of).await;
    for from_seq in 0..=expected.len() {
        let copy = fork(&env, &of, ForkMode::Branch, from_seq as u64).await;
        let found = without_source_id(&list(&env, &copy).await, &of);
        if from_seq > 0 {
            assert_eq!(found[..from_seq], expected[..from_seq], "earlier events are copied");
        }
        env.drain().await;
        env.clock.advance(50);
        env.drain().await;
        for (node, value) in [("gate", accept()), ("buy", json!("r2"))] {
            let run = env.run(&copy).await;
            let interrupt = run.interrupt_of_node(&NodeId::parse(node).unwrap());
            if let Some(open) = interrupt.filter(|interrupt| interrupt.is_open()) {
                env.engine.runs().execute(&copy, &resolve(open.id, value)).await.unwrap();
            }
            env.drain().await;
        }
        let log = env.log(&copy).await;
        assert_eq!(env.status(&copy).await, "completed", "from {from_seq}: {log:#?}");
        assert_eq!(log.iter().filter(|line| line.contains("run.completed")).count(), 1);
    }
    assert!(env.pending().await.is_empty());
    assert_eq!(rows(&env, "timers").await, 0);
}

/// A node with another output at every execution.
struct ChangingNode(Arc<AtomicU32>);

impl PureNode for ChangingNode {
    fn run(&self, _context: &mut Context) -> Result<Outputs, Stop> {
        let count = self.0.fetch_add(1, Ordering::SeqCst);
        Ok(Outputs::from_iter([("value".to_owned(), json!(count))]))
    }
}

async fn a_diverging_replay_records_it_once_and_continues(database: TestDatabase) {
    let shop = Shop::default();
    let configure =
        |options: Options| with_shop(&shop)(options).pure_node("test.changing", ChangingNode(Arc::default()));
    let env = TestEnv::with(database, configure).await;
    let gate = json!({"title": "ok?", "actions": ["accept"]});
    let nodes = [
        ("gate", "core.approvalGate", gate),
        ("first", "test.changing", json!({})),
        ("second", "test.changing", json!({})),
        ("buy", "test.shop", json!({})),
    ];
    env.register(line("changing", &nodes)).await;
    let of = env.start("changing").await;
    env.answer(&of, "gate", accept()).await.unwrap();
    env.drain().await;
    env.answer(&of, "buy", json!("r1")).await.unwrap();
    env.drain().await;
    let copy = fork(&env, &of, ForkMode::Replay, 0).await;
    let log = env.log(&copy).await;
    let diverged: Vec<&String> = log.iter().filter(|line| line.contains("replay.diverged")).collect();
    let [diverged] = diverged[..] else { panic!("{log:#?}") };
    let diverged: Value = serde_json::from_str(diverged).unwrap();
    assert_eq!(
        (&diverged["expected"], &diverged["found"]),
        (&json!("node.completed"), &json!("node.completed"))
    );
    let at = usize::try_from(diverged["at_sequence"].as_u64().unwrap()).unwrap();
    assert!(env.log(&of).await[at].contains("\"value\":0"));
    assert_eq!(env.status(&copy).await, "completed", "{log:#?}");
    assert_eq!(env.run(&copy).await.variables["value"], 3);
    assert_eq!(env.run(&copy).await.variables["receipt"], "r1", "the recorded answer is used");
    assert_eq!(effects(&shop), (1, 1), "recorded steps are used");
}

async fn a_replay_ends_at_a_step_that_is_not_recorded(database: TestDatabase) {
    let shop = Shop::default();
    let env = TestEnv::with(database, with_shop(&shop)).await;
    env.register(line("buying", &[("buy", "test.shop", json!({}))])).await;
    let of = env.start("buying").await;
    env.drain().await;
    // SQL renames the recorded quote, so the log does not contain the step.
    let step = env.log(&of).await.into_iter().find(|line| line.contains("step.recorded")).unwrap();
    assert!(step.contains("quote"));
    env.database
        .execute("UPDATE events SET events = REPLACE(events, '\"quote\"', '\"guess\"')")
        .await
        .unwrap();
    let copy = fork(&env, &of, ForkMode::Replay, 0).await;
    let log = env.log(&copy).await;
    assert!(log.last().unwrap().contains("a step that is not recorded"), "{log:#?}");
    assert_eq!(effects(&shop), (1, 0), "the fork repeats no step");
    env.drain().await;
    assert_eq!((env.status(&copy).await, effects(&shop)), ("waiting-input", (2, 0)));
}

async fn a_copy_waits_for_its_own_child_run(env: TestEnv) {
    env.register(gated("child")).await;
    env.register(line("parent", &[("call", "core.subWorkflow", json!({"workflowId": "child"}))])).await;
    let of = env.start("parent").await;
    env.drain().await;
    for mode in [ForkMode::Replay, ForkMode::Branch] {
        let copy = fork(&env, &of, mode, env.run(&of).await.seq).await;
        env.drain().await;
        assert_eq!(env.status(&copy).await, "waiting-approval");
        let child = env.run(&copy).await.children[0].run.clone();
        assert!(child.as_str().starts_with(copy.run.as_str()));
        env.answer(&RunRef { tenant: tenant(), run: child }, "gate", accept()).await.unwrap();
        env.drain().await;
        assert_eq!(env.status(&copy).await, "completed");
    }
    assert_eq!(env.status(&of).await, "waiting-approval");
    let copy = fork(&env, &of, ForkMode::Branch, env.run(&of).await.seq).await;
    env.engine.runs().cancel(&copy, None, alice()).await.unwrap();
    let child_of_source = RunRef { tenant: tenant(), run: env.run(&of).await.children[0].run.clone() };
    assert_eq!(env.status(&child_of_source).await, "waiting-approval", "the source keeps its child");
}

async fn a_branch_can_start_with_other_options(env: TestEnv) {
    env.register(gated("flow")).await;
    let of = env.start_with("flow", json!({"a": 1})).await;
    let configurable: Map<String, Value> = Map::from_iter([("temperature".to_owned(), json!(1))]);
    let overlay =
        Overlay { configurable: configurable.clone(), tags: Some(vec!["red".to_owned()]), metadata: None };
    for from_seq in [0, 2] {
        let request = ForkRequest {
            by: "forker".to_owned(),
            credential: None,
            mode: ForkMode::Branch,
            from_seq,
            overlay: overlay.clone(),
            once: None,
        };
        let run = env.engine.runs().fork(&of, request).await.unwrap();
        let started = run.started.clone().unwrap();
        assert_eq!(
            (&started.configurable, started.tags.as_slice()),
            (&configurable, &["red".to_owned()][..])
        );
        assert_eq!(started.inputs["a"], 1);
        assert_eq!(run.status().as_str(), "waiting-approval");
    }
    assert_eq!(env.pending().await, ["gate", "gate", "gate"]);
}

async fn an_invalid_fork_is_rejected(env: TestEnv) {
    env.register(gated("flow")).await;
    let of = env.start("flow").await;
    let events = env.run(&of).await.seq;
    let request = |mode, from_seq, overlay| ForkRequest {
        by: "forker".to_owned(),
        credential: None,
        mode,
        from_seq,
        overlay,
        once: None,
    };
    let beyond = env.engine.runs().fork(&of, request(ForkMode::Branch, events + 1, Overlay::default())).await;
    assert!(matches!(beyond, Err(Error::BeyondLog { events: found }) if found == events));
    let overlay = Overlay { tags: Some(Vec::new()), ..Overlay::default() };
    let refused = env.engine.runs().fork(&of, request(ForkMode::Replay, 0, overlay)).await;
    assert!(matches!(refused, Err(Error::Refused(Refusal::InvalidRequest { .. }))));
    let unknown = RunRef { tenant: tenant(), run: crate::test_env::run_id("unknown") };
    let missing = env.engine.runs().fork(&unknown, request(ForkMode::Replay, 0, Overlay::default())).await;
    assert!(matches!(missing, Err(Error::NotFound("run"))));
}

async fn a_copy_has_the_credentials_of_its_source_and_of_its_forker_or_none(env: TestEnv) {
    env.register(gated("flow")).await;
    let names = |list: &[&str]| list.iter().map(ToString::to_string).collect::<Vec<String>>();
    for (source, forker, expected) in [
        (&["key_a"][..], Some("key_b"), &["key_a", "key_b"][..]),
        (&["key_a"], Some("key_a"), &["key_a"]),
        (&["key_a"], None, &[]),
        (&[], Some("key_b"), &[]),
    ] {
        let request = StartRequest { credentials: names(source), ..crate::test_env::start(json!({})) };
        let run = env.engine.runs().create(&WorkflowId::parse("flow").unwrap(), request).await.unwrap();
        let of = RunRef { tenant: tenant(), run: run.id.clone() };
        let request = ForkRequest {
            by: "forker".to_owned(),
            credential: forker.map(str::to_owned),
            mode: ForkMode::Branch,
            from_seq: 0,
            overlay: Overlay::default(),
            once: None,
        };
        let copy = env.engine.runs().fork(&of, request).await.unwrap();
        assert_eq!(copy.started.as_ref().unwrap().credentials, names(expected), "{source:?} {forker:?}");
    }
}
