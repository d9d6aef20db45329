//! The graph `content-review` through its state key and resume ids.

use holdpoint_engine::core::{Answer, Event, Owner, Refusal, RunEnd, TenantId};
use holdpoint_engine::outgoing::{Outgoing, OutgoingPolicy};
use holdpoint_engine::{Engine, Error, Options};
use holdpoint_providers::{EngineGraphs, GraphError, GraphHandle, GraphResume, GraphStart, GraphStatus};
use holdpoint_samples::content_review::{ReviewAction, ReviewDecision, ReviewRequest};
use serde_json::{Value, json};

use crate::peer::{Peer, PeerReply};
use crate::test_database::{TestDatabase, on_both};
use crate::test_env::{TestEnv, alice, tenant};

/// The reason in stored events. Replays compare it, so it does not change.
const TIMED_OUT_REASON: &str = concat!("no", "body decided in time");

mod publishing;
mod resumes;
mod writing;

on_both! {
    a_text_is_revised_approved_and_published,
    a_rejected_text_is_not_published,
    a_revision_over_the_limit_is_a_rejection,
    an_invalid_answer_is_rejected_without_effect,
    an_edited_text_is_shown_again_in_the_next_revision,
    rules_inform_the_reviewer_and_decide_nothing,
    invalid_input_fails_before_the_review_opens,
    the_largest_text_with_the_largest_remarks_can_still_be_shown,
    a_customized_definition_can_reject_after_a_timeout,
}

/// Options that allow calls to loopback.
fn open(options: Options) -> Options {
    options.outgoing(Outgoing::new(OutgoingPolicy { allow_loopback: true, ..OutgoingPolicy::default() }))
}

fn owner() -> Owner {
    Owner { tenant: tenant(), principal: "tester".to_owned() }
}

async fn start(engine: &Engine, input: Value) -> GraphHandle {
    let (graph, state_key) = ("native:content-review".to_owned(), Some("key".to_owned()));
    let request = GraphStart {
        turn_id: None,
        owner: owner(),
        graph,
        state_key,
        input,
        source: holdpoint_engine::core::RequestSource::INTERNAL,
    };
    let (handle, fresh) = engine.graphs().start(request).await.unwrap();
    assert!(fresh);
    engine.worker().drain().await.unwrap();
    handle
}

fn answer(id: &str, value: Value) -> GraphResume {
    GraphResume { id: id.to_owned(), answer: Answer::new(value, alice()), to: None }
}

/// Answers, and returns the first status of the graph after the answer.
async fn resume(engine: &Engine, id: &str, value: Value) -> Result<GraphStatus, GraphError> {
    let (handle, decision) = engine.graphs().resume(&tenant(), "key", answer(id, value)).await?;
    engine.worker().drain().await.unwrap();
    Ok(engine.graphs().wait(&handle.of, Some(&decision), tokio::time::Instant::now()).await?)
}

async fn status(engine: &Engine) -> GraphStatus {
    let handle = engine.graphs().handle(&tenant(), "key").await.unwrap();
    engine.graphs().status(&handle.of).await.unwrap()
}

/// The request that the reviewer sees.
async fn shown(engine: &Engine) -> ReviewRequest {
    match status(engine).await {
        GraphStatus::Waiting { kind, data, previous_error: None } if kind == "content_review" => {
            serde_json::from_value(data).unwrap()
        }
        other => panic!("the graph does not wait: {other:?}"),
    }
}

async fn completed(engine: &Engine) -> Value {
    match status(engine).await {
        GraphStatus::Completed(output) => output,
        other => panic!("the graph has not completed: {other:?}"),
    }
}

fn revise(feedback: &str) -> Value {
    json!({"action": "revise", "feedback": feedback})
}

fn approve() -> Value {
    json!({"action": "approve"})
}

async fn a_text_is_revised_approved_and_published(database: TestDatabase) {
    let env = TestEnv::with(database, open).await;
    let peer = Peer::with_replies([PeerReply::json(201, "{}")]).await;
    let url = peer.url("/articles?token=s3cret");
    let handle = start(&env.engine, json!({"topic": "Tides", "publishUrl": url})).await;
    let first = shown(&env.engine).await;
    assert_eq!((first.revision, first.max_revisions, first.feedback.len()), (0, 3, 0));
    assert!(first.draft.starts_with("Tides\n"), "{}", first.draft);
    assert_eq!(first.publish_to, Some(peer.url("/articles")), "the query of the URL can contain a secret");

    // The interrupt contains the request of the graph and the schema of the answer.
    let run = env.run(&handle.of).await;
    let interrupt = run.open_interrupts().next().unwrap();
    assert_eq!(*interrupt.data, json!({"customKind": "content_review", "data": first}));
    assert!(interrupt.resume_schema.is_some());
    assert_eq!(env.pending().await, ["review"]);

    let revised = resume(&env.engine, "1", revise("Mention the moon.")).await.unwrap();
    assert!(matches!(revised, GraphStatus::Waiting { .. }), "{revised:?}");
    let second = shown(&env.engine).await;
    assert_eq!((second.revision, second.feedback.len()), (1, 1));
    assert_eq!((second.feedback[0].revision, second.feedback[0].text.as_str()), (0, "Mention the moon."));
    assert!(second.draft.contains("Mention the moon."), "{}", second.draft);
    resume(&env.engine, "2", revise("And the sun.")).await.unwrap();
    let third = shown(&env.engine).await;
    let remarks: Vec<&str> = third.feedback.iter().map(|remark| remark.text.as_str()).collect();
    assert_eq!((third.revision, remarks), (2, vec!["Mention the moon.", "And the sun."]));
    assert!(peer.requests().is_empty(), "no request is sent before the approval");

    let decision = ReviewDecision {
        action: ReviewAction::Approve,
        feedback: Some("Good.".to_owned()),
        draft: None,
        revision: Some(2),
    };
    resume(&env.engine, "3", json!(decision)).await.unwrap();
    let expected = json!({
        "published": true, "decision": "approve", "draft": third.draft, "revision": 2, "reason": "Good.",
    });
    assert_eq!(completed(&env.engine).await, expected);
    let [request] = <[String; 1]>::try_from(peer.requests()).unwrap();
    assert!(request.starts_with("POST /articles?token=s3cret HTTP/1.1"), "{request}");
    let body: Value = serde_json::from_str(request.split_once("\r\n\r\n").unwrap().1).unwrap();
    assert_eq!(body, json!({"draft": third.draft, "revision": 2}));
}

async fn a_rejected_text_is_not_published(database: TestDatabase) {
    let env = TestEnv::with(database, open).await;
    let peer = Peer::with_replies([PeerReply::json(200, "{}")]).await;
    start(&env.engine, json!({"draft": "Buy now!", "publishUrl": peer.url("/")})).await;
    resume(&env.engine, "1", json!({"action": "reject", "feedback": "No."})).await.unwrap();
    let expected = json!({"published": false, "decision": "reject", "draft": "Buy now!", "revision": 0, "reason": "No."});
    assert_eq!(completed(&env.engine).await, expected);
    assert!(peer.requests().is_empty());
}

async fn a_revision_over_the_limit_is_a_rejection(env: TestEnv) {
    for (most, key) in [(0, "a"), (2, "b"), (10, "c")] {
        let input = json!({"draft": "It is.", "maxRevisions": most});
        let request = GraphStart {
            turn_id: None,
            owner: owner(),
            graph: "native:content-review".to_owned(),
            state_key: Some(key.to_owned()),
            input,
            source: holdpoint_engine::core::RequestSource::INTERNAL,
        };
        let (handle, _) = env.engine.graphs().start(request).await.unwrap();
        for round in 0..=most {
            let resume = answer(&round.to_string(), revise("Again."));
            env.engine.graphs().resume(&tenant(), key, resume).await.unwrap();
        }
        env.drain().await;
        let GraphStatus::Completed(output) = env.engine.graphs().status(&handle.of).await.unwrap() else {
            panic!("the graph has not ended after {most} revisions")
        };
        assert_eq!((&output["published"], &output["decision"]), (&json!(false), &json!("reject")));
        assert_eq!(output["revision"], most);
        let reason = output["reason"].as_str().unwrap();
        assert!(reason.contains("automatically") && reason.contains(&format!("allows {most}")), "{reason}");
        assert!(reason.ends_with("Again."), "{reason}");
    }
}

async fn an_invalid_answer_is_rejected_without_effect(env: TestEnv) {
    start(&env.engine, json!({"draft": "It is."})).await;
    let before = shown(&env.engine).await;
    for wrong in [
        json!(null),
        json!("approve"),
        json!({}),
        json!({"action": "accept"}),
        json!({"action": "approve", "note": "x"}),
        json!({"action": "revise"}),
        json!({"action": "revise", "feedback": ""}),
        json!({"action": "approve", "feedback": "x".repeat(2001)}),
        json!({"action": "approve", "draft": " \n"}),
        json!({"action": "approve", "draft": 7}),
        json!({"action": "reject", "draft": "Better."}),
        json!({"action": "approve", "revision": 1}),
    ] {
        let refused = resume(&env.engine, "1", wrong.clone()).await;
        let Err(GraphError::Engine(Error::Refused(Refusal::InvalidRequest { .. }))) = refused else {
            panic!("{wrong}: {refused:?}")
        };
        assert_eq!(shown(&env.engine).await, before, "{wrong}");
    }
    // The id of a rejected resume can be used again.
    resume(&env.engine, "1", approve()).await.unwrap();
    assert_eq!(completed(&env.engine).await["published"], true);
}

async fn an_edited_text_is_shown_again_in_the_next_revision(env: TestEnv) {
    start(&env.engine, json!({"draft": "It is.", "rules": {"maxLength": 10}})).await;
    assert!(shown(&env.engine).await.checks[0].passed);
    resume(&env.engine, "1", json!({"action": "revise", "draft": "It certainly is."})).await.unwrap();
    let again = shown(&env.engine).await;
    assert_eq!((again.draft.as_str(), again.revision), ("It certainly is.", 1));
    assert!(!again.checks[0].passed, "the text of a reviewer is checked");
    assert!(again.feedback.is_empty());
    // An edit applies to one round. The next round starts with the text that was shown.
    resume(&env.engine, "2", revise("Shorter.")).await.unwrap();
    let third = shown(&env.engine).await;
    assert!(
        third.draft.starts_with("It certainly is.\n") && third.draft.contains("Shorter."),
        "{}",
        third.draft
    );
}

async fn rules_inform_the_reviewer_and_decide_nothing(env: TestEnv) {
    let rules = json!({"forbiddenWords": ["guaranteed", "free"], "maxLength": 100});
    start(&env.engine, json!({"draft": "Guaranteed freedom.", "rules": rules})).await;
    let checks = json!(shown(&env.engine).await.checks);
    let expected = json!([
        {"name": "maxLength", "passed": true},
        {"name": "forbiddenWords", "passed": false, "message": "these words are in it: guaranteed"},
    ]);
    assert_eq!(checks, expected);
    resume(&env.engine, "1", approve()).await.unwrap();
    assert_eq!(completed(&env.engine).await["published"], true);
}

async fn invalid_input_fails_before_the_review_opens(env: TestEnv) {
    for (at, (input, part)) in [
        (json!({}), "topic or draft"),
        (json!({"draft": "  "}), "empty"),
        (json!({"draft": "x".repeat(70_000)}), "bytes"),
        (json!({"draft": "x", "maxRevisions": 11}), "maxRevisions"),
        (json!({"draft": "x", "maxRevisions": 1.5}), "maxRevisions"),
        (json!({"draft": "x", "publishUrl": "nowhere"}), "publishUrl"),
        (json!({"draft": "x", "rules": {"forbidden": ["y"]}}), "rules"),
    ]
    .into_iter()
    .enumerate()
    {
        let graph = "native:content-review".to_owned();
        let request = GraphStart {
            turn_id: None,
            owner: owner(),
            graph,
            state_key: Some(at.to_string()),
            input: input.clone(),
            source: holdpoint_engine::core::RequestSource::INTERNAL,
        };
        let (handle, _) = env.engine.graphs().start(request).await.unwrap();
        env.drain().await;
        match env.engine.graphs().status(&handle.of).await.unwrap() {
            GraphStatus::Failed(error) => {
                assert_eq!(error.code, "invalid_input", "{input}");
                assert!(error.message.contains(part), "{input}: {}", error.message);
            }
            other => panic!("{input}: {other:?}"),
        }
    }
    assert!(env.pending().await.is_empty());
}

async fn the_largest_text_with_the_largest_remarks_can_still_be_shown(env: TestEnv) {
    start(&env.engine, json!({"draft": "x".repeat(60 * 1024 - 2), "maxRevisions": 10})).await;
    // Six bytes of JSON for each character.
    let remark = "\u{1}".repeat(2000);
    for round in 0..10 {
        resume(&env.engine, &round.to_string(), revise(&remark)).await.unwrap();
        assert_eq!(shown(&env.engine).await.revision, round + 1);
    }
    resume(&env.engine, "last", approve()).await.unwrap();
    assert_eq!(completed(&env.engine).await["published"], true);
}

async fn a_customized_definition_can_reject_after_a_timeout(env: TestEnv) {
    let text = include_str!("../../src/content-review.json");
    let mut copy: Value = serde_json::from_str(text).unwrap();
    let review = copy["nodes"].as_array().unwrap().iter().position(|node| node["id"] == "review").unwrap();
    copy["nodes"][review]["config"] = json!({"timeoutMs": 1000});
    env.register(copy).await;
    start(&env.engine, json!({"draft": "It is."})).await;
    env.clock.advance(1001);
    env.drain().await;
    let output = completed(&env.engine).await;
    assert_eq!((&output["published"], &output["decision"]), (&json!(false), &json!("reject")));
    assert_eq!(output["reason"], TIMED_OUT_REASON);
}
