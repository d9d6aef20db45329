//! Publication: only the approved text is published, and once.

use holdpoint_engine::CommitFault;
use holdpoint_engine::core::ForkMode;
use holdpoint_providers::EngineGraphs;

use super::*;
use crate::test_env::fork;

on_both! {
    an_approved_edit_is_published,
    a_crash_around_any_commit_publishes_the_approved_text_under_one_key,
    a_failed_publication_is_retried_under_the_same_key,
    a_text_is_not_published_to_an_address_that_the_policy_rejects,
    a_modified_stored_payload_is_not_published,
    a_branch_after_the_review_publishes_nothing,
    a_definition_cannot_publish_without_its_review,
}

async fn an_approved_edit_is_published(database: TestDatabase) {
    let env = TestEnv::with(database, open).await;
    let peer = Peer::with_replies([PeerReply::json(200, "{}")]).await;
    start(&env.engine, json!({"draft": "Its fine.", "publishUrl": peer.url("/")})).await;
    resume(&env.engine, "1", json!({"action": "approve", "draft": "It's fine."})).await.unwrap();
    let output = completed(&env.engine).await;
    assert_eq!((&output["draft"], &output["published"]), (&json!("It's fine."), &json!(true)));
    let [request] = <[String; 1]>::try_from(peer.requests()).unwrap();
    assert!(request.ends_with(r#"{"draft":"It's fine.","revision":0}"#), "{request}");
}

/// Performs a graph from its start to its publication. Steps that already happened are skipped.
async fn perform(engine: &Engine, peer: &Peer) -> Result<(), GraphError> {
    let input = json!({"draft": "It is.", "publishUrl": peer.url("/")});
    let (graph, state_key) = ("native:content-review".to_owned(), Some("key".to_owned()));
    engine
        .graphs()
        .start(GraphStart {
            turn_id: None,
            owner: owner(),
            graph,
            state_key,
            input,
            source: holdpoint_engine::core::RequestSource::INTERNAL,
        })
        .await?;
    engine.worker().drain().await?;
    for (id, value) in [("1", revise("Again.")), ("2", json!({"action": "approve", "draft": "It was."}))] {
        engine.graphs().resume(&tenant(), "key", answer(id, value)).await?;
        engine.worker().drain().await?;
    }
    Ok(())
}

/// Performs the graph with a crash. Returns the number of publications and the number of commits before the crash.
async fn perform_with_crash(database: TestDatabase, stop: Option<CommitFault>) -> (usize, u64) {
    let peer = Peer::with_replies([PeerReply::json(200, "{}")]).await;
    let crashing = |options: Options| match stop {
        Some(stop) => open(options).fault(stop),
        None => open(options),
    };
    let env = TestEnv::with(database, crashing).await;
    assert_eq!(perform(&env.engine, &peer).await.is_err(), stop.is_some(), "{stop:?} was reached");
    let commits = env.engine.counters().commits.load(std::sync::atomic::Ordering::SeqCst);
    let env = env.reopen(open).await;
    perform(&env.engine, &peer).await.unwrap();
    let output = completed(&env.engine).await;
    assert_eq!((&output["draft"], &output["revision"]), (&json!("It was."), &json!(1)), "{stop:?}");
    let requests = peer.requests();
    assert!(
        requests.iter().all(|request| request.ends_with(r#"{"draft":"It was.","revision":1}"#)),
        "{requests:?}"
    );
    let mut keys = peer.header("idempotency-key");
    keys.dedup();
    assert!(keys.len() == 1 && keys[0].is_some(), "{stop:?}: {keys:?}");
    (requests.len(), commits)
}

async fn a_crash_around_any_commit_publishes_the_approved_text_under_one_key(database: TestDatabase) {
    let (published, commits) = perform_with_crash(database.another().await, None).await;
    assert_eq!(published, 1);
    assert!(commits >= 5, "{commits} commits");
    let mut repeated = 0;
    for n in 1..=commits {
        for stop in [CommitFault::StopBefore(n), CommitFault::StopAfter(n)] {
            let (published, _) = perform_with_crash(database.another().await, Some(stop)).await;
            assert!((1..=2).contains(&published), "{stop:?}: {published} times");
            repeated += published - 1;
        }
    }
    assert_eq!(repeated, 1, "only the crash between the call and its record repeats it");
}

async fn a_failed_publication_is_retried_under_the_same_key(database: TestDatabase) {
    let env = TestEnv::with(database, open).await;
    let peer = Peer::with_replies([PeerReply::json(503, "{}"), PeerReply::json(200, "{}")]).await;
    start(&env.engine, json!({"draft": "It is.", "publishUrl": peer.url("/")})).await;
    resume(&env.engine, "1", approve()).await.unwrap();
    assert_eq!(status(&env.engine).await, GraphStatus::Running);
    env.clock.advance(1000);
    env.drain().await;
    assert_eq!(completed(&env.engine).await["published"], true);
    let keys = peer.header("idempotency-key");
    assert!(keys.len() == 2 && keys[0] == keys[1], "{keys:?}");
}

async fn a_text_is_not_published_to_an_address_that_the_policy_rejects(env: TestEnv) {
    let peer = Peer::with_replies([PeerReply::json(200, "{}")]).await;
    start(&env.engine, json!({"draft": "It is.", "publishUrl": peer.url("/")})).await;
    resume(&env.engine, "1", approve()).await.unwrap();
    let GraphStatus::Failed(error) = status(&env.engine).await else { panic!("the text was published") };
    assert_eq!(error.code, "http_refused");
    assert!(peer.requests().is_empty());
}

/// SQL changes the stored text after the interrupt opens and before the answer.
async fn a_modified_stored_payload_is_not_published(database: TestDatabase) {
    let env = TestEnv::with(database, open).await;
    let peer = Peer::with_replies([PeerReply::json(200, "{}")]).await;
    let handle = start(&env.engine, json!({"draft": "It is.", "publishUrl": peer.url("/")})).await;
    // The input and the payload of the interrupt change together, so that they are consistent.
    let change = "UPDATE events SET events = REPLACE(events, 'It is.', 'It is not.')";
    env.database.execute(change).await.unwrap();
    let env = env.reopen(open).await;
    resume(&env.engine, "1", approve()).await.unwrap();
    let Some(RunEnd::Failed { error, .. }) = env.run(&handle.of).await.end.clone() else {
        panic!("{:?}", status(&env.engine).await)
    };
    assert_eq!(error.code, "payload_mismatch");
    assert!(peer.requests().is_empty());
}

async fn a_branch_after_the_review_publishes_nothing(database: TestDatabase) {
    let env = TestEnv::with(database, open).await;
    let peer = Peer::with_replies([PeerReply::json(200, "{}")]).await;
    let handle = start(&env.engine, json!({"draft": "It is.", "publishUrl": peer.url("/")})).await;
    resume(&env.engine, "1", approve()).await.unwrap();
    let log = env.engine.events().list(&handle.of, 0).await.unwrap();
    let answered = log.iter().find(|one| matches!(one.event, Event::InterruptResolved { .. })).unwrap().seq;
    let branch = fork(&env, &handle.of, ForkMode::Branch, answered + 1).await;
    env.drain().await;
    let Some(RunEnd::Failed { error, .. }) = env.run(&branch).await.end.clone() else {
        panic!("the branch has not failed")
    };
    assert_eq!(error.code, "grant_not_transferable");
    assert_eq!(peer.requests().len(), 1);
}

async fn a_definition_cannot_publish_without_its_review(env: TestEnv) {
    let copy =
        || -> Value { serde_json::from_str(include_str!("../../../src/content-review.json")).unwrap() };
    env.register(copy()).await;
    let publish =
        copy()["nodes"].as_array().unwrap().iter().position(|node| node["id"] == "publish").unwrap();
    for config in [json!({}), json!({"approvedBy": "check"}), json!({"approvedBy": "unknown"})] {
        let mut wrong = copy();
        wrong["nodes"][publish]["config"] = config.clone();
        let refused = env.engine.workflows().register(&tenant(), wrong).await;
        let Err(Error::InvalidWorkflow(flaws)) = refused else { panic!("{config} was accepted") };
        assert!(flaws.iter().any(|flaw| flaw.to_string().contains("config.approvedBy")), "{flaws:?}");
    }
    // A copy that passes on another text than the reviewed one fails before a request is sent.
    let mut changed = copy();
    changed["nodes"][publish]["inputs"]["draft"] = json!({"type": "static", "value": "Another text."});
    env.register(changed).await;
    start(&env.engine, json!({"draft": "It is."})).await;
    resume(&env.engine, "1", approve()).await.unwrap();
    let GraphStatus::Failed(error) = status(&env.engine).await else { panic!("the text was published") };
    assert_eq!(error.code, "approval_mismatch");
}
