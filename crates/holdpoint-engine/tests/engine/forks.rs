//! Forks: at every place of a log, a replay comes to the same list and touches nothing, and a branch goes on.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use holdpoint_engine::core::{Event, ForkMode, NodeId, Refusal, RunRef, Start, WorkflowId};
use holdpoint_engine::{Context, Error, ForkRequest, Options, Outputs, Overlay, PureNode, Stop};
use serde_json::{Map, Value, json};

use crate::effects::{Shop, with_shop};
use crate::house::{House, accept, alice, gated, graph, line, node, resolve, tenant, text};
use crate::place::{Place, on_both};

on_both! {
    a_replay_from_any_place_comes_to_the_same_list_and_touches_nothing,
    a_replay_of_a_replay_is_the_same_again,
    a_replay_of_a_run_that_still_waits_waits_too,
    a_branch_from_any_place_goes_on,
    a_replay_that_differs_says_so_once_and_goes_on,
    a_replay_ends_where_a_step_is_not_on_record,
    a_copy_waits_for_a_child_of_its_own,
    a_branch_may_begin_with_other_options,
    a_fork_that_makes_no_sense_is_refused,
    a_copy_has_the_credentials_of_its_source_and_of_its_forker_or_none,
}

/// A loop, a nap and a purchase; beside them a question, and a run of its own.
fn everything() -> Value {
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
    graph("everything", &nodes, &edges)
}

/// A run of all that, as far as it goes or to its end.
pub(crate) async fn told(house: &House, to_the_end: bool) -> RunRef {
    house.register(line("small", &[("x", "core.noop", json!({}))])).await;
    house.register(everything()).await;
    let of = house.start("everything").await;
    house.drain().await;
    house.clock.advance(50);
    house.drain().await;
    house.clock.advance(7);
    assert_eq!(house.status(&of).await, "waiting-approval");
    if to_the_end {
        house.answer(&of, "gate", accept()).await.unwrap();
        house.clock.advance(7);
        house.answer(&of, "buy", json!("r1")).await.unwrap();
        house.drain().await;
        assert_eq!(house.status(&of).await, "completed", "{:#?}", house.log(&of).await);
    }
    house.clock.advance(3_600_000);
    of
}

pub(crate) async fn fork(house: &House, of: &RunRef, mode: ForkMode, from_seq: u64) -> RunRef {
    let request = ForkRequest {
        by: "forker".to_owned(),
        credential: None,
        mode,
        from_seq,
        overlay: Overlay::default(),
        once: None,
    };
    let run = house.engine.fork(of, request).await.unwrap();
    RunRef { tenant: tenant(), run: run.id.clone() }
}

/// Times and events, without what names the run and tells whose copy it is.
async fn list(house: &House, of: &RunRef) -> Vec<(i64, String)> {
    let mut found = house.engine.events(of, 0).await.unwrap();
    if let Event::RunStarted(started) = &mut found[0].event {
        started.fork = None;
        started.forked_by.clear();
    }
    found.iter().map(|one| (one.at.0, text(&one.event).replace(of.run.as_str(), "RUN"))).collect()
}

fn same_but_for_the_source(list: &[(i64, String)], source: &RunRef) -> Vec<(i64, String)> {
    list.iter().map(|(at, text)| (*at, text.replace(source.run.as_str(), "RUN"))).collect()
}

fn effects(shop: &Shop) -> (u32, u32) {
    (shop.quotes.load(Ordering::SeqCst), shop.payments.load(Ordering::SeqCst))
}

async fn rows(house: &House, table: &str) -> usize {
    house.place.read(&format!("SELECT run_id FROM {table}")).await.len()
}

async fn a_replay_from_any_place_comes_to_the_same_list_and_touches_nothing(place: Place) {
    let shop = Shop::default();
    let house = House::with(place, with_shop(&shop)).await;
    let of = told(&house, true).await;
    let expected = list(&house, &of).await;
    let (done, runs) = (effects(&shop), rows(&house, "runs").await);
    let count = expected.len() as u64;
    assert!(count > 40, "{expected:#?}");
    for from_seq in 0..=count {
        let copy = fork(&house, &of, ForkMode::Replay, from_seq).await;
        let found = same_but_for_the_source(&list(&house, &copy).await, &of);
        assert_eq!(found, expected, "from {from_seq}");
        assert_eq!(house.run(&copy).await.variables, house.run(&of).await.variables);
    }
    assert_eq!(house.drain().await, 0);
    assert_eq!(effects(&shop), done, "nothing is bought again");
    assert_eq!((rows(&house, "pending").await, rows(&house, "timers").await), (0, 0));
    let copies = usize::try_from(count).unwrap() + 1;
    assert_eq!(rows(&house, "runs").await, runs + copies, "no child is started again");
    let copy = fork(&house, &of, ForkMode::Replay, 3).await;
    let again = house.answer(&copy, "gate", accept()).await;
    assert!(matches!(again, Err(Error::Refused(Refusal::AlreadyResolved))));
}

async fn a_replay_of_a_replay_is_the_same_again(place: Place) {
    let shop = Shop::default();
    let house = House::with(place, with_shop(&shop)).await;
    let of = told(&house, true).await;
    let first = fork(&house, &of, ForkMode::Replay, 5).await;
    let second = fork(&house, &first, ForkMode::Replay, 9).await;
    let origin = house.run(&second).await.started.as_ref().unwrap().fork.as_ref().unwrap().origin.clone();
    assert_eq!(origin, of.run);
    let third = fork(&house, &second, ForkMode::Replay, 0).await;
    assert_eq!(same_but_for_the_source(&list(&house, &third).await, &of), list(&house, &of).await);
}

async fn a_replay_of_a_run_that_still_waits_waits_too(place: Place) {
    let shop = Shop::default();
    let house = House::with(place, with_shop(&shop)).await;
    let of = told(&house, false).await;
    for from_seq in [0, 6, house.run(&of).await.seq] {
        let copy = fork(&house, &of, ForkMode::Replay, from_seq).await;
        assert_eq!(same_but_for_the_source(&list(&house, &copy).await, &of), list(&house, &of).await);
        assert_eq!(house.status(&copy).await, "waiting-approval");
        house.answer(&copy, "gate", accept()).await.unwrap();
        house.answer(&copy, "buy", json!("mine")).await.unwrap();
        house.drain().await;
        assert_eq!(house.status(&copy).await, "completed");
        assert_eq!(house.run(&copy).await.variables["receipt"], "mine");
    }
    assert_eq!(effects(&shop), (1, 3), "quoted once for all, paid in each copy");
    assert_eq!(house.status(&of).await, "waiting-approval");
}

async fn a_branch_from_any_place_goes_on(place: Place) {
    let shop = Shop::default();
    let house = House::with(place, with_shop(&shop)).await;
    let of = told(&house, true).await;
    let expected = list(&house, &of).await;
    for from_seq in 0..=expected.len() {
        let copy = fork(&house, &of, ForkMode::Branch, from_seq as u64).await;
        let found = same_but_for_the_source(&list(&house, &copy).await, &of);
        if from_seq > 0 {
            assert_eq!(found[..from_seq], expected[..from_seq], "what was before is copied");
        }
        house.drain().await;
        house.clock.advance(50);
        house.drain().await;
        for (asking, value) in [("gate", accept()), ("buy", json!("r2"))] {
            let run = house.run(&copy).await;
            let asked = run.interrupt_of_node(&NodeId::parse(asking).unwrap());
            if let Some(asked) = asked.filter(|asked| asked.is_open()) {
                house.engine.execute(&copy, &resolve(asked.id, value)).await.unwrap();
            }
            house.drain().await;
        }
        let log = house.log(&copy).await;
        assert_eq!(house.status(&copy).await, "completed", "from {from_seq}: {log:#?}");
        assert_eq!(log.iter().filter(|line| line.contains("run.completed")).count(), 1);
    }
    assert!(house.pending().await.is_empty());
    assert_eq!(rows(&house, "timers").await, 0);
}

/// Says something else every time it is asked.
struct Fickle(Arc<AtomicU32>);

impl PureNode for Fickle {
    fn run(&self, _context: &mut Context) -> Result<Outputs, Stop> {
        let said = self.0.fetch_add(1, Ordering::SeqCst);
        Ok(Outputs::from_iter([("said".to_owned(), json!(said))]))
    }
}

async fn a_replay_that_differs_says_so_once_and_goes_on(place: Place) {
    let shop = Shop::default();
    let furnish =
        |options: Options| with_shop(&shop)(options).pure_node("test.fickle", Fickle(Arc::default()));
    let house = House::with(place, furnish).await;
    let gate = json!({"title": "ok?", "actions": ["accept"]});
    let nodes = [
        ("gate", "core.approvalGate", gate),
        ("say", "test.fickle", json!({})),
        ("say-again", "test.fickle", json!({})),
        ("buy", "test.shop", json!({})),
    ];
    house.register(line("fickle", &nodes)).await;
    let of = house.start("fickle").await;
    house.answer(&of, "gate", accept()).await.unwrap();
    house.drain().await;
    house.answer(&of, "buy", json!("r1")).await.unwrap();
    house.drain().await;
    let copy = fork(&house, &of, ForkMode::Replay, 0).await;
    let log = house.log(&copy).await;
    let diverged: Vec<&String> = log.iter().filter(|line| line.contains("replay.diverged")).collect();
    let [diverged] = diverged[..] else { panic!("{log:#?}") };
    let diverged: Value = serde_json::from_str(diverged).unwrap();
    assert_eq!(
        (&diverged["expected"], &diverged["found"]),
        (&json!("node.completed"), &json!("node.completed"))
    );
    let at = usize::try_from(diverged["at_sequence"].as_u64().unwrap()).unwrap();
    assert!(house.log(&of).await[at].contains("\"said\":0"));
    assert_eq!(house.status(&copy).await, "completed", "{log:#?}");
    assert_eq!(house.run(&copy).await.variables["said"], 3);
    assert_eq!(house.run(&copy).await.variables["receipt"], "r1", "the recorded answer is used");
    assert_eq!(effects(&shop), (1, 1), "recorded steps are used");
}

async fn a_replay_ends_where_a_step_is_not_on_record(place: Place) {
    let shop = Shop::default();
    let house = House::with(place, with_shop(&shop)).await;
    house.register(line("buying", &[("buy", "test.shop", json!({}))])).await;
    let of = house.start("buying").await;
    house.drain().await;
    // A log in which somebody took the quote away, as if the node had not needed one.
    let step = house.log(&of).await.into_iter().find(|line| line.contains("step.recorded")).unwrap();
    assert!(step.contains("quote"));
    house
        .place
        .execute("UPDATE events SET events = REPLACE(events, '\"quote\"', '\"guess\"')")
        .await
        .unwrap();
    let copy = fork(&house, &of, ForkMode::Replay, 0).await;
    let log = house.log(&copy).await;
    assert!(log.last().unwrap().contains("a step that is not recorded"), "{log:#?}");
    assert_eq!(effects(&shop), (1, 0), "not by the fork");
    house.drain().await;
    assert_eq!((house.status(&copy).await, effects(&shop)), ("waiting-input", (2, 0)));
}

async fn a_copy_waits_for_a_child_of_its_own(house: House) {
    house.register(gated("child")).await;
    house.register(line("parent", &[("call", "core.subWorkflow", json!({"workflowId": "child"}))])).await;
    let of = house.start("parent").await;
    house.drain().await;
    for mode in [ForkMode::Replay, ForkMode::Branch] {
        let copy = fork(&house, &of, mode, house.run(&of).await.seq).await;
        house.drain().await;
        assert_eq!(house.status(&copy).await, "waiting-approval");
        let child = house.run(&copy).await.children[0].run.clone();
        assert!(child.as_str().starts_with(copy.run.as_str()));
        house.answer(&RunRef { tenant: tenant(), run: child }, "gate", accept()).await.unwrap();
        house.drain().await;
        assert_eq!(house.status(&copy).await, "completed");
    }
    assert_eq!(house.status(&of).await, "waiting-approval");
    let copy = fork(&house, &of, ForkMode::Branch, house.run(&of).await.seq).await;
    house.engine.cancel(&copy, None, alice()).await.unwrap();
    let theirs = RunRef { tenant: tenant(), run: house.run(&of).await.children[0].run.clone() };
    assert_eq!(house.status(&theirs).await, "waiting-approval", "the source keeps its child");
}

async fn a_branch_may_begin_with_other_options(house: House) {
    house.register(gated("flow")).await;
    let of = house.start_with("flow", json!({"a": 1})).await;
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
        let run = house.engine.fork(&of, request).await.unwrap();
        let started = run.started.clone().unwrap();
        assert_eq!(
            (&started.configurable, started.tags.as_slice()),
            (&configurable, &["red".to_owned()][..])
        );
        assert_eq!(started.inputs["a"], 1);
        assert_eq!(run.status().as_str(), "waiting-approval");
    }
    assert_eq!(house.pending().await, ["gate", "gate", "gate"]);
}

async fn a_fork_that_makes_no_sense_is_refused(house: House) {
    house.register(gated("flow")).await;
    let of = house.start("flow").await;
    let events = house.run(&of).await.seq;
    let request = |mode, from_seq, overlay| ForkRequest {
        by: "forker".to_owned(),
        credential: None,
        mode,
        from_seq,
        overlay,
        once: None,
    };
    let beyond = house.engine.fork(&of, request(ForkMode::Branch, events + 1, Overlay::default())).await;
    assert!(matches!(beyond, Err(Error::BeyondLog { events: found }) if found == events));
    let overlay = Overlay { tags: Some(Vec::new()), ..Overlay::default() };
    let refused = house.engine.fork(&of, request(ForkMode::Replay, 0, overlay)).await;
    assert!(matches!(refused, Err(Error::Refused(Refusal::InvalidRequest { .. }))));
    let nobody = RunRef { tenant: tenant(), run: crate::house::run_id("nobody") };
    let missing = house.engine.fork(&nobody, request(ForkMode::Replay, 0, Overlay::default())).await;
    assert!(matches!(missing, Err(Error::NotFound("run"))));
}

async fn a_copy_has_the_credentials_of_its_source_and_of_its_forker_or_none(house: House) {
    house.register(gated("flow")).await;
    let names = |list: &[&str]| list.iter().map(ToString::to_string).collect::<Vec<String>>();
    for (source, forker, expected) in [
        (&["key_a"][..], Some("key_b"), &["key_a", "key_b"][..]),
        (&["key_a"], Some("key_a"), &["key_a"]),
        (&["key_a"], None, &[]),
        (&[], Some("key_b"), &[]),
    ] {
        let begun = Start { credentials: names(source), ..crate::house::start(json!({})) };
        let run = house.engine.start(&WorkflowId::parse("flow").unwrap(), begun).await.unwrap();
        let of = RunRef { tenant: tenant(), run: run.id.clone() };
        let request = ForkRequest {
            by: "forker".to_owned(),
            credential: forker.map(str::to_owned),
            mode: ForkMode::Branch,
            from_seq: 0,
            overlay: Overlay::default(),
            once: None,
        };
        let copy = house.engine.fork(&of, request).await.unwrap();
        assert_eq!(copy.started.as_ref().unwrap().credentials, names(expected), "{source:?} {forker:?}");
    }
}
