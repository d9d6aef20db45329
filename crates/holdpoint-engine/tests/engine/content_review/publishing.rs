//! Publishing: the text that was approved, once, and nothing else ever.

use holdpoint_engine::Fault;
use holdpoint_engine::core::ForkMode;

use super::*;
use crate::forks::fork;

on_both! {
    an_edited_text_is_what_is_published,
    a_crash_around_any_commit_publishes_what_was_approved_under_one_key,
    a_receiver_that_fails_for_a_while_is_tried_again_under_the_same_key,
    what_the_guard_refuses_is_not_published,
    a_stored_question_that_was_changed_publishes_nothing,
    a_branch_behind_the_review_publishes_nothing,
    a_definition_cannot_publish_without_its_review,
}

async fn an_edited_text_is_what_is_published(place: Place) {
    let house = House::with(place, open).await;
    let peer = Peer::saying([Reply::json(200, "{}")]).await;
    start(&house.engine, json!({"draft": "Its fine.", "publishUrl": peer.url("/")})).await;
    resume(&house.engine, "1", json!({"action": "approve", "draft": "It's fine."})).await.unwrap();
    let output = completed(&house.engine).await;
    assert_eq!((&output["draft"], &output["published"]), (&json!("It's fine."), &json!(true)));
    let [heard] = <[String; 1]>::try_from(peer.heard()).unwrap();
    assert!(heard.ends_with(r#"{"draft":"It's fine.","revision":0}"#), "{heard}");
}

/// The whole story; everything in it may already have happened.
async fn tell(engine: &Engine, peer: &Peer) -> Result<(), GraphError> {
    let input = json!({"draft": "It is.", "publishUrl": peer.url("/")});
    let (graph, state_key) = ("native:content-review".to_owned(), Some("key".to_owned()));
    engine.start_graph(GraphStart { owner: owner(), graph, state_key, input }).await?;
    engine.worker().drain().await?;
    for (id, value) in [("1", revise("Again.")), ("2", json!({"action": "approve", "draft": "It was."}))] {
        engine.resume_graph(&tenant(), "key", answer(id, value)).await?;
        engine.worker().drain().await?;
    }
    Ok(())
}

/// Tells it with a crash somewhere. How often it was published, and the commits until then.
async fn told(place: Place, stop: Option<Fault>) -> (usize, u64) {
    let peer = Peer::saying([Reply::json(200, "{}")]).await;
    let crashing = |options: Options| match stop {
        Some(stop) => open(options).fault(stop),
        None => open(options),
    };
    let house = House::with(place, crashing).await;
    assert_eq!(tell(&house.engine, &peer).await.is_err(), stop.is_some(), "{stop:?} was reached");
    let commits = house.engine.counters().commits.load(std::sync::atomic::Ordering::SeqCst);
    let house = house.reopen(open).await;
    tell(&house.engine, &peer).await.unwrap();
    let output = completed(&house.engine).await;
    assert_eq!((&output["draft"], &output["revision"]), (&json!("It was."), &json!(1)), "{stop:?}");
    let heard = peer.heard();
    assert!(heard.iter().all(|heard| heard.ends_with(r#"{"draft":"It was.","revision":1}"#)), "{heard:?}");
    let mut keys = peer.header("idempotency-key");
    keys.dedup();
    assert!(keys.len() == 1 && keys[0].is_some(), "{stop:?}: {keys:?}");
    (heard.len(), commits)
}

async fn a_crash_around_any_commit_publishes_what_was_approved_under_one_key(place: Place) {
    let (published, commits) = told(place.another().await, None).await;
    assert_eq!(published, 1);
    assert!(commits >= 5, "{commits} commits");
    let mut repeated = 0;
    for n in 1..=commits {
        for stop in [Fault::StopBefore(n), Fault::StopAfter(n)] {
            let (published, _) = told(place.another().await, Some(stop)).await;
            assert!((1..=2).contains(&published), "{stop:?}: {published} times");
            repeated += published - 1;
        }
    }
    assert_eq!(repeated, 1, "only the crash between the call and its record repeats it");
}

async fn a_receiver_that_fails_for_a_while_is_tried_again_under_the_same_key(place: Place) {
    let house = House::with(place, open).await;
    let peer = Peer::saying([Reply::json(503, "{}"), Reply::json(200, "{}")]).await;
    start(&house.engine, json!({"draft": "It is.", "publishUrl": peer.url("/")})).await;
    resume(&house.engine, "1", approve()).await.unwrap();
    assert_eq!(standing(&house.engine).await, Standing::Running);
    house.clock.advance(1000);
    house.drain().await;
    assert_eq!(completed(&house.engine).await["published"], true);
    let keys = peer.header("idempotency-key");
    assert!(keys.len() == 2 && keys[0] == keys[1], "{keys:?}");
}

async fn what_the_guard_refuses_is_not_published(house: House) {
    let peer = Peer::saying([Reply::json(200, "{}")]).await;
    start(&house.engine, json!({"draft": "It is.", "publishUrl": peer.url("/")})).await;
    resume(&house.engine, "1", approve()).await.unwrap();
    let Standing::Failed(error) = standing(&house.engine).await else { panic!("it was published") };
    assert_eq!(error.code, "http_refused");
    assert!(peer.heard().is_empty());
}

/// What lies in the database is changed behind the engine's back, after the question and before the answer.
async fn a_stored_question_that_was_changed_publishes_nothing(place: Place) {
    let house = House::with(place, open).await;
    let peer = Peer::saying([Reply::json(200, "{}")]).await;
    let handle = start(&house.engine, json!({"draft": "It is.", "publishUrl": peer.url("/")})).await;
    // Both where it came from and where it was shown, so that they agree with each other.
    let change = "UPDATE events SET events = REPLACE(events, 'It is.', 'It is not.')";
    house.place.execute(change).await.unwrap();
    let house = house.reopen(open).await;
    resume(&house.engine, "1", approve()).await.unwrap();
    let Some(End::Failed { error, .. }) = house.run(&handle.of).await.end.clone() else {
        panic!("{:?}", standing(&house.engine).await)
    };
    assert_eq!(error.code, "payload_mismatch");
    assert!(peer.heard().is_empty());
}

async fn a_branch_behind_the_review_publishes_nothing(place: Place) {
    let house = House::with(place, open).await;
    let peer = Peer::saying([Reply::json(200, "{}")]).await;
    let handle = start(&house.engine, json!({"draft": "It is.", "publishUrl": peer.url("/")})).await;
    resume(&house.engine, "1", approve()).await.unwrap();
    let log = house.engine.events(&handle.of, 0).await.unwrap();
    let answered = log.iter().find(|one| matches!(one.event, Event::InterruptResolved { .. })).unwrap().seq;
    let branch = fork(&house, &handle.of, ForkMode::Branch, answered + 1).await;
    house.drain().await;
    let Some(End::Failed { error, .. }) = house.run(&branch).await.end.clone() else {
        panic!("the branch has not failed")
    };
    assert_eq!(error.code, "grant_not_transferable");
    assert_eq!(peer.heard().len(), 1);
}

async fn a_definition_cannot_publish_without_its_review(house: House) {
    let copy = || -> Value {
        serde_json::from_str(include_str!("../../../src/engine/graphs/shipped/content-review.json")).unwrap()
    };
    house.register(copy()).await;
    let publish =
        copy()["nodes"].as_array().unwrap().iter().position(|node| node["id"] == "publish").unwrap();
    for config in [json!({}), json!({"approvedBy": "check"}), json!({"approvedBy": "nothing"})] {
        let mut wrong = copy();
        wrong["nodes"][publish]["config"] = config.clone();
        let refused = house.engine.register(&tenant(), wrong).await;
        let Err(Error::InvalidWorkflow(flaws)) = refused else { panic!("{config} was taken") };
        assert!(flaws.iter().any(|flaw| flaw.to_string().contains("config.approvedBy")), "{flaws:?}");
    }
    // Where a copy hands on another text than the reviewed one, it is found out before anything is sent.
    let mut sly = copy();
    sly["nodes"][publish]["inputs"]["draft"] = json!({"type": "static", "value": "Something else."});
    house.register(sly).await;
    start(&house.engine, json!({"draft": "It is."})).await;
    resume(&house.engine, "1", approve()).await.unwrap();
    let Standing::Failed(error) = standing(&house.engine).await else { panic!("it was published") };
    assert_eq!(error.code, "approval_mismatch");
}
