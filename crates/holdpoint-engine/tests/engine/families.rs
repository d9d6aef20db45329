//! Runs that start runs: parent and children change together or not at all.

use std::sync::atomic::Ordering;

use holdpoint_engine::core::{Refusal, RunRef, Start, Status, WorkflowId};
use holdpoint_engine::{Clock, Engine, Error, Fault, Options, RunFilter};
use serde_json::{Value, json};

use crate::effects::{Shop, with_shop};
use crate::house::{
    House, accept, alice, gated, graph, line, node, resolve, run_id, start, stopping, tenant,
};
use crate::place::{Place, on_both};

on_both! {
    a_parent_waits_for_its_child_and_takes_what_it_asked_for,
    a_parent_shows_what_its_child_waits_for_at_any_depth,
    a_child_that_cannot_begin_fails_its_node_at_once,
    a_child_that_nobody_waits_for_goes_its_own_way,
    a_run_that_ends_with_the_call_of_an_unknown_workflow_completes,
    a_cancelled_parent_takes_its_whole_family_along,
    a_child_that_is_cancelled_fails_its_parent,
    sixteen_children_that_end_at_once_all_get_through,
    a_crash_around_any_commit_leaves_one_family_that_agrees,
    a_commit_that_fails_or_is_lost_leaves_one_family_that_agrees,
    children_are_listed_by_their_parent,
    a_child_has_the_options_and_tags_of_its_parent_at_any_depth,
    a_child_that_refuses_the_options_of_its_parent_fails_its_node,
}

pub(crate) fn calls(id: &str, workflow: &str, more: Value) -> Value {
    let mut config = json!({"workflowId": workflow, "outputMapping": {"got": "receipt"}});
    config.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    line(
        id,
        &[
            ("before", "core.noop", json!({})),
            ("call", "core.subWorkflow", config),
            ("after", "core.noop", json!({})),
        ],
    )
}

pub(crate) fn child_of(of: &RunRef, n: usize) -> RunRef {
    RunRef { tenant: of.tenant.clone(), run: run_id(&format!("{}.{n}", of.run)) }
}

/// What a parent believes of its children is what they are.
async fn agree(engine: &Engine, of: &RunRef) {
    let parent = engine.run(of).await.unwrap();
    for known in &parent.children {
        let child = engine.run(&RunRef { tenant: tenant(), run: known.run.clone() }).await.unwrap();
        let status = child.status();
        if parent.finished() {
            assert!(child.finished() || !known.cascade, "an orphan: {status:?}");
        } else {
            let begun = known.status == Status::Pending && status == Status::Running;
            assert!(begun || known.status == status, "{:?} is taken for {:?}", status, known.status);
            assert_eq!(known.result.is_some(), child.finished());
        }
    }
}

async fn a_parent_waits_for_its_child_and_takes_what_it_asked_for(place: Place) {
    let shop = Shop::default();
    let house = House::with(place, with_shop(&shop)).await;
    house.register(line("buying", &[("buy", "test.shop", json!({}))])).await;
    house.register(calls("parent", "buying", json!({"inputMapping": {"wish": "wish"}}))).await;
    let of = house.start_with("parent", json!({"wish": "tea", "other": 1})).await;
    let child = child_of(&of, 1);
    let started = house.run(&child).await.started.clone().unwrap();
    assert_eq!(Value::Object(started.inputs.clone()), json!({"wish": "tea"}));
    let above = started.parent.clone().unwrap();
    assert_eq!((above.run, above.node.as_str(), above.depth), (of.run.clone(), "call", 1));
    house.drain().await;
    agree(&house.engine, &of).await;
    house.answer(&child, "buy", json!("r1")).await.unwrap();
    house.drain().await;
    let parent = house.run(&of).await;
    assert_eq!(parent.status().as_str(), "completed");
    assert_eq!(parent.variables["got"], "r1");
    assert_eq!(parent.variables["childStatus"], "completed");
    let outputs = &parent.children[0].result.as_ref().unwrap().outputs;
    assert_eq!(outputs.keys().collect::<Vec<_>>(), ["receipt"], "and nothing else");
    assert_eq!(shop.payments.load(Ordering::SeqCst), 1);
}

async fn a_parent_shows_what_its_child_waits_for_at_any_depth(house: House) {
    house.register(gated("leaf")).await;
    house.register(calls("middle", "leaf", json!({}))).await;
    house.register(calls("top", "middle", json!({}))).await;
    let of = house.start("top").await;
    house.drain().await;
    let (middle, leaf) = (child_of(&of, 1), child_of(&child_of(&of, 1), 1));
    for of in [&of, &middle, &leaf] {
        assert_eq!(house.status(of).await, "waiting-approval");
    }
    agree(&house.engine, &of).await;
    agree(&house.engine, &middle).await;
    house.answer(&leaf, "gate", accept()).await.unwrap();
    agree(&house.engine, &middle).await;
    house.drain().await;
    for of in [&of, &middle, &leaf] {
        assert_eq!(house.status(of).await, "completed");
    }
    assert_eq!(house.drain().await, 0);
}

async fn a_run_that_ends_with_the_call_of_an_unknown_workflow_completes(house: House) {
    let config = json!({"workflowId": "nowhere", "waitForCompletion": false});
    house.register(line("calls", &[("call", "core.subWorkflow", config)])).await;
    let of = house.start("calls").await;
    house.drain().await;
    assert_eq!(house.status(&of).await, "completed");
}

async fn a_child_that_cannot_begin_fails_its_node_at_once(house: House) {
    let mut picky = gated("picky");
    picky["variables"] = json!([{"name": "size", "type": "number", "required": true}]);
    house.register(picky).await;
    for (callee, why) in [("nowhere", "workflow_not_found"), ("picky", "validation_error")] {
        let parent = format!("calls-{callee}");
        house.register(calls(&parent, callee, json!({}))).await;
        let of = house.start(&parent).await;
        assert_eq!(house.status(&of).await, "failed", "{callee}, in the commit that starts it");
        let log = house.log(&of).await.join("\n");
        assert!(log.contains("child_failed") && log.contains(why), "{log}");
        assert_eq!(house.drain().await, 0);
    }
}

async fn a_child_that_nobody_waits_for_goes_its_own_way(house: House) {
    house.register(gated("child")).await;
    let free = json!({"waitForCompletion": false, "propagateCancellation": false});
    house.register(calls("parent", "child", free)).await;
    let of = house.start("parent").await;
    assert_eq!(house.status(&of).await, "completed");
    house.drain().await;
    assert_eq!(house.status(&child_of(&of, 1)).await, "waiting-approval");
    house.answer(&child_of(&of, 1), "gate", accept()).await.unwrap();
    assert_eq!(house.status(&child_of(&of, 1)).await, "completed");
}

async fn a_cancelled_parent_takes_its_whole_family_along(place: Place) {
    // Five commits before the cancellation: three definitions, the start, two children that a worker carries on.
    let story = async |house: &House| -> Result<RunRef, Error> {
        for definition in
            [gated("leaf"), calls("middle", "leaf", json!({})), calls("top", "middle", json!({}))]
        {
            house.engine.register(&tenant(), definition).await?;
        }
        let (id, top) = (run_id("the-run"), WorkflowId::parse("top").unwrap());
        let of = RunRef { tenant: tenant(), run: id.clone() };
        match house.engine.start_as(&id, &top, start(json!({}))).await {
            Ok(_) | Err(Error::Refused(Refusal::AlreadyStarted)) => {}
            Err(error) => return Err(error),
        }
        house.engine.worker().drain().await?;
        house.engine.cancel(&of, Some("enough".to_owned()), alice()).await?;
        Ok(of)
    };
    let house = House::with(place.another().await, |options| options).await;
    story(&house).await.unwrap();
    let commits = house.engine.counters().commits.load(Ordering::SeqCst);
    for n in 4..=commits {
        for stop in [Fault::StopBefore(n), Fault::StopAfter(n)] {
            let house = House::with(place.another().await, stopping(stop)).await;
            assert!(story(&house).await.is_err(), "{stop:?} was reached");
            let house = house.reopen(|options| options).await;
            let of = RunRef { tenant: tenant(), run: run_id("the-run") };
            if let Ok(run) = house.engine.run(&of).await
                && run.finished()
            {
                agree(&house.engine, &of).await;
                agree(&house.engine, &child_of(&of, 1)).await;
            }
            let of = story(&house).await.unwrap();
            house.drain().await;
            assert!(house.pending().await.is_empty());
            let (middle, leaf) = (child_of(&of, 1), child_of(&child_of(&of, 1), 1));
            for of in [&of, &middle, &leaf] {
                assert_eq!(house.status(of).await, "cancelled", "{stop:?}");
            }
            assert!(house.log(&leaf).await.last().unwrap().contains("parent-cancelled"));
            assert_eq!(house.drain().await, 0);
        }
    }
}

async fn a_child_that_is_cancelled_fails_its_parent(house: House) {
    house.register(gated("child")).await;
    house.register(calls("parent", "child", json!({}))).await;
    let of = house.start("parent").await;
    house.drain().await;
    house.engine.cancel(&child_of(&of, 1), None, alice()).await.unwrap();
    agree(&house.engine, &of).await;
    house.drain().await;
    assert_eq!(house.status(&of).await, "failed");
    assert!(house.log(&of).await.last().unwrap().contains("child_failed"));
}

async fn sixteen_children_that_end_at_once_all_get_through(house: House) {
    house.register(gated("child")).await;
    let config = json!({"workflowId": "child"});
    let boxes: Vec<Value> =
        (0..16).map(|n| node(&format!("call{n}"), "core.subWorkflow", config.clone())).collect();
    house.register(graph("parent", &boxes, &[])).await;
    let of = house.start("parent").await;
    house.drain().await;
    assert_eq!((house.status(&of).await, house.pending().await.len()), ("waiting-approval", 16));
    // Only one process has a file open, and its caches rely on that.
    let other = match house.place {
        Place::Sqlite(_) => house.engine.clone(),
        Place::Postgres(_) => house.second_engine(|options| options).await,
    };
    let mut answers = tokio::task::JoinSet::new();
    for n in 1..=16 {
        let (engine, child) =
            (if n % 2 == 0 { other.clone() } else { house.engine.clone() }, child_of(&of, n));
        answers.spawn(async move {
            let id = engine.run(&child).await.unwrap().waiting_on().unwrap().id;
            engine.execute(&child, &resolve(id, accept())).await.unwrap();
        });
    }
    answers.join_all().await;
    agree(&house.engine, &of).await;
    house.drain().await;
    assert_eq!(house.status(&of).await, "completed");
    assert_eq!(house.run(&of).await.children.len(), 16);
}

/// A parent, a child with an effect and a gate. Told as far as it goes; everything may have happened already.
async fn tell(engine: &Engine, clock: &Clock) -> Result<(), Error> {
    let of = RunRef { tenant: tenant(), run: run_id("the-run") };
    engine
        .register(
            &tenant(),
            line("buying", &[("nap", "core.delay", json!({"ms": 50})), ("buy", "test.shop", json!({}))]),
        )
        .await?;
    engine.register(&tenant(), calls("parent", "buying", json!({}))).await?;
    match engine.start_as(&of.run, &WorkflowId::parse("parent").unwrap(), start(json!({}))).await {
        Ok(_) | Err(Error::Refused(Refusal::AlreadyStarted)) => {}
        Err(error) => return Err(error),
    }
    agree(engine, &of).await;
    let mut worker = engine.worker();
    worker.drain().await?;
    clock.advance(50);
    worker.drain().await?;
    agree(engine, &of).await;
    let child = child_of(&of, 1);
    if let Some(asked) = engine.run(&child).await?.waiting_on() {
        engine.execute(&child, &resolve(asked.id, json!("r1"))).await?;
    }
    agree(engine, &of).await;
    worker.drain().await?;
    agree(engine, &of).await;
    Ok(())
}

async fn check_told(house: &House, shop: &Shop, what: &str) -> Vec<String> {
    let of = RunRef { tenant: tenant(), run: run_id("the-run") };
    assert_eq!(house.status(&of).await, "completed", "{what}");
    assert_eq!(house.run(&of).await.variables["got"], "r1", "{what}");
    assert_eq!(house.run(&of).await.children.len(), 1, "{what}");
    let filter = RunFilter { limit: 10, ..RunFilter::default() };
    assert_eq!(house.engine.runs(&tenant(), filter).await.unwrap().len(), 2, "one child: {what}");
    assert!(shop.payments.load(Ordering::SeqCst) <= 2, "{what}");
    assert_eq!(house.drain().await, 0, "{what}");
    assert!(house.pending().await.is_empty(), "{what}");
    let mut log = house.log(&of).await;
    log.extend(house.log(&child_of(&of, 1)).await);
    log
}

async fn a_crash_around_any_commit_leaves_one_family_that_agrees(place: Place) {
    let shop = Shop::default();
    let house = House::with(place.another().await, with_shop(&shop)).await;
    tell(&house.engine, &house.clock).await.unwrap();
    let commits = house.engine.counters().commits.load(Ordering::SeqCst);
    check_told(&house, &shop, "undisturbed").await;
    for n in 3..=commits {
        for stop in [Fault::StopBefore(n), Fault::StopAfter(n)] {
            let shop = Shop::default();
            let furnish = |options: Options| options.node("test.shop", shop.clone());
            let house = House::with(place.another().await, |options| stopping(stop)(furnish(options))).await;
            assert!(tell(&house.engine, &house.clock).await.is_err(), "{stop:?} was reached");
            let house = house.reopen(furnish).await;
            tell(&house.engine, &house.clock).await.unwrap();
            check_told(&house, &shop, &format!("{stop:?}")).await;
        }
    }
}

async fn a_commit_that_fails_or_is_lost_leaves_one_family_that_agrees(place: Place) {
    for n in 3..=14 {
        for fault in [Fault::Fail(n), Fault::LoseBefore(n), Fault::LoseAfter(n)] {
            let shop = Shop::default();
            let furnish = |options: Options| options.fault(fault).node("test.shop", shop.clone());
            let house = House::with(place.another().await, furnish).await;
            for _ in 0..8 {
                let _ = tell(&house.engine, &house.clock).await;
                house.clock.advance(40_000);
            }
            check_told(&house, &shop, &format!("{fault:?}")).await;
        }
    }
}

async fn children_are_listed_by_their_parent(house: House) {
    house.register(gated("child")).await;
    house.register(calls("parent", "child", json!({}))).await;
    let (of, other) = (house.start("parent").await, house.start("parent").await);
    let filter = RunFilter { parent: Some(of.run.to_string()), limit: 10, ..RunFilter::default() };
    let found = house.engine.runs(&tenant(), filter).await.unwrap();
    let found: Vec<_> = found.into_iter().map(|run| (run.run, run.parent)).collect();
    assert_eq!(found, [(child_of(&of, 1).run, Some(of.run.clone()))]);
    agree(&house.engine, &other).await;
}

/// Starts a run with options and a tag.
async fn start_with_options(house: &House, workflow: &str, options: &Value) -> RunRef {
    let (configurable, tags) = (options.as_object().cloned().unwrap(), vec!["nightly".to_owned()]);
    let start = Start { configurable, tags, ..start(json!({})) };
    let run = house.engine.start(&WorkflowId::parse(workflow).unwrap(), start).await.unwrap();
    RunRef { tenant: tenant(), run: run.id.clone() }
}

async fn a_child_has_the_options_and_tags_of_its_parent_at_any_depth(house: House) {
    house.register(line("leaf", &[("ask", "core.ai.callPrompt", json!({"promptId": "greeting"}))])).await;
    house.register(calls("middle", "leaf", json!({"outputMapping": {"said": "text"}}))).await;
    house.register(calls("top", "middle", json!({"outputMapping": {"said": "said"}}))).await;
    let mock = json!({"id": "stream-text", "config": {"tokens": ["Hel", "lo"]}});
    let options = json!({"mockProvider": mock, "temperature": 1, "recursionLimit": 7});
    let of = start_with_options(&house, "top", &options).await;
    house.drain().await;
    assert_eq!(house.run(&of).await.variables["said"], "Hello");
    for below in [child_of(&of, 1), child_of(&child_of(&of, 1), 1)] {
        let started = house.run(&below).await.started.clone().unwrap();
        assert_eq!(Value::Object(started.configurable.clone()), options);
        assert_eq!(started.tags, ["nightly"]);
    }
    let filter = RunFilter { tag: Some("nightly".to_owned()), limit: 10, ..RunFilter::default() };
    assert_eq!(house.engine.runs(&tenant(), filter).await.unwrap().len(), 3, "each is found by its tag");
}

async fn a_child_that_refuses_the_options_of_its_parent_fails_its_node(house: House) {
    let mut cool = gated("cool");
    cool["configurableSchema"] = json!({"properties": {"temperature": {"maximum": 0.5}}});
    house.register(cool).await;
    house.register(calls("parent", "cool", json!({}))).await;
    let of = start_with_options(&house, "parent", &json!({"temperature": 1})).await;
    assert_eq!(house.status(&of).await, "failed", "in the commit that starts it");
    let log = house.log(&of).await.join("\n");
    for part in ["child_failed", "validation_error", "configurable/temperature"] {
        assert!(log.contains(part), "{part} in {log}");
    }
    let of = start_with_options(&house, "parent", &json!({"temperature": 0.5})).await;
    house.drain().await;
    assert_eq!(house.status(&of).await, "waiting-approval");
}
