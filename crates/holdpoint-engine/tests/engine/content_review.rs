//! The graph `content-review`, as callers drive it: by its state key, with answers under names.

use holdpoint_engine::content_review::{Action, ReviewDecision, ReviewRequest};
use holdpoint_engine::core::{Answer, End, Event, Owner, Refusal, TenantId};
use holdpoint_engine::outgoing::{Outgoing, Policy};
use holdpoint_engine::{Engine, Error, GraphError, GraphStart, Handle, Options, Resume, Standing};
use serde_json::{Value, json};

use crate::house::{House, alice, tenant};
use crate::peer::{Peer, Reply};
use crate::place::{Place, on_both};

mod publishing;
mod resumes;
mod writing;

on_both! {
    a_text_is_revised_approved_and_published,
    a_rejected_text_is_not_published,
    one_revision_too_many_is_a_rejection,
    a_wrong_answer_is_refused_and_consumes_nothing,
    an_edited_text_is_shown_again_when_it_is_to_be_revised,
    rules_tell_the_reviewer_and_decide_nothing,
    what_cannot_be_reviewed_fails_before_anybody_is_asked,
    the_largest_text_with_the_largest_remarks_can_still_be_shown,
    a_copy_may_reject_what_nobody_decided_about_in_time,
}

/// An engine that may call loopback.
fn open(options: Options) -> Options {
    options.outgoing(Outgoing::new(Policy { allow_loopback: true, ..Policy::default() }))
}

fn owner() -> Owner {
    Owner { tenant: tenant(), principal: "tester".to_owned() }
}

async fn start(engine: &Engine, input: Value) -> Handle {
    let (graph, state_key) = ("native:content-review".to_owned(), Some("key".to_owned()));
    let begun = GraphStart { owner: owner(), graph, state_key, input };
    let (handle, fresh) = engine.start_graph(begun).await.unwrap();
    assert!(fresh);
    engine.worker().drain().await.unwrap();
    handle
}

fn answer(id: &str, value: Value) -> Resume {
    Resume { id: id.to_owned(), answer: Answer::new(value, alice()), to: None }
}

/// Where the graph stood first after the answer.
async fn resume(engine: &Engine, id: &str, value: Value) -> Result<Standing, GraphError> {
    let (handle, decision) = engine.resume_graph(&tenant(), "key", answer(id, value)).await?;
    engine.worker().drain().await.unwrap();
    Ok(engine.graph_settled(&handle.of, Some(&decision), tokio::time::Instant::now()).await?)
}

async fn standing(engine: &Engine) -> Standing {
    let handle = engine.handle(&tenant(), "key").await.unwrap();
    engine.graph_standing(&handle.of).await.unwrap()
}

/// What the reviewer is shown, as the type that the graph has for it.
async fn shown(engine: &Engine) -> ReviewRequest {
    match standing(engine).await {
        Standing::Waiting { kind, data, trouble: None } if kind == "content_review" => {
            serde_json::from_value(data).unwrap()
        }
        other => panic!("nobody is asked: {other:?}"),
    }
}

async fn completed(engine: &Engine) -> Value {
    match standing(engine).await {
        Standing::Completed(output) => output,
        other => panic!("it has not completed: {other:?}"),
    }
}

fn revise(feedback: &str) -> Value {
    json!({"action": "revise", "feedback": feedback})
}

fn approve() -> Value {
    json!({"action": "approve"})
}

async fn a_text_is_revised_approved_and_published(place: Place) {
    let house = House::with(place, open).await;
    let peer = Peer::saying([Reply::json(201, "{}")]).await;
    let url = peer.url("/articles?token=s3cret");
    let handle = start(&house.engine, json!({"topic": "Tides", "publishUrl": url})).await;
    let first = shown(&house.engine).await;
    assert_eq!((first.revision, first.max_revisions, first.feedback.len()), (0, 3, 0));
    assert!(first.draft.starts_with("Tides\n"), "{}", first.draft);
    assert_eq!(first.publish_to, Some(peer.url("/articles")), "the rest of the URL may be a secret");

    // The interrupt says exactly what the graph has to say, and what an answer must look like.
    let run = house.run(&handle.of).await;
    let asked = run.open_interrupts().next().unwrap();
    assert_eq!(asked.data, json!({"customKind": "content_review", "data": first}));
    assert!(asked.resume_schema.is_some());
    assert_eq!(house.pending().await, ["review"]);

    let revised = resume(&house.engine, "1", revise("Mention the moon.")).await.unwrap();
    assert!(matches!(revised, Standing::Waiting { .. }), "{revised:?}");
    let second = shown(&house.engine).await;
    assert_eq!((second.revision, second.feedback.len()), (1, 1));
    assert_eq!((second.feedback[0].revision, second.feedback[0].text.as_str()), (0, "Mention the moon."));
    assert!(second.draft.contains("Mention the moon."), "{}", second.draft);
    resume(&house.engine, "2", revise("And the sun.")).await.unwrap();
    let third = shown(&house.engine).await;
    let remarks: Vec<&str> = third.feedback.iter().map(|remark| remark.text.as_str()).collect();
    assert_eq!((third.revision, remarks), (2, vec!["Mention the moon.", "And the sun."]));
    assert!(peer.heard().is_empty(), "nothing goes out before it is approved");

    let said = ReviewDecision {
        action: Action::Approve,
        feedback: Some("Good.".to_owned()),
        draft: None,
        revision: Some(2),
    };
    resume(&house.engine, "3", json!(said)).await.unwrap();
    let expected = json!({
        "published": true, "decision": "approve", "draft": third.draft, "revision": 2, "reason": "Good.",
    });
    assert_eq!(completed(&house.engine).await, expected);
    let [heard] = <[String; 1]>::try_from(peer.heard()).unwrap();
    assert!(heard.starts_with("POST /articles?token=s3cret HTTP/1.1"), "{heard}");
    let body: Value = serde_json::from_str(heard.split_once("\r\n\r\n").unwrap().1).unwrap();
    assert_eq!(body, json!({"draft": third.draft, "revision": 2}));
}

async fn a_rejected_text_is_not_published(place: Place) {
    let house = House::with(place, open).await;
    let peer = Peer::saying([Reply::json(200, "{}")]).await;
    start(&house.engine, json!({"draft": "Buy now!", "publishUrl": peer.url("/")})).await;
    resume(&house.engine, "1", json!({"action": "reject", "feedback": "No."})).await.unwrap();
    let expected = json!({"published": false, "decision": "reject", "draft": "Buy now!", "revision": 0, "reason": "No."});
    assert_eq!(completed(&house.engine).await, expected);
    assert!(peer.heard().is_empty());
}

async fn one_revision_too_many_is_a_rejection(house: House) {
    for (most, key) in [(0, "a"), (2, "b"), (10, "c")] {
        let input = json!({"draft": "It is.", "maxRevisions": most});
        let begun = GraphStart {
            owner: owner(),
            graph: "native:content-review".to_owned(),
            state_key: Some(key.to_owned()),
            input,
        };
        let (handle, _) = house.engine.start_graph(begun).await.unwrap();
        for round in 0..=most {
            let told = answer(&round.to_string(), revise("Again."));
            house.engine.resume_graph(&tenant(), key, told).await.unwrap();
        }
        house.drain().await;
        let Standing::Completed(output) = house.engine.graph_standing(&handle.of).await.unwrap() else {
            panic!("{most} revisions, and it has not ended")
        };
        assert_eq!((&output["published"], &output["decision"]), (&json!(false), &json!("reject")));
        assert_eq!(output["revision"], most);
        let reason = output["reason"].as_str().unwrap();
        assert!(reason.contains("automatically") && reason.contains(&format!("allows {most}")), "{reason}");
        assert!(reason.ends_with("Again."), "{reason}");
    }
}

async fn a_wrong_answer_is_refused_and_consumes_nothing(house: House) {
    start(&house.engine, json!({"draft": "It is."})).await;
    let before = shown(&house.engine).await;
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
        let refused = resume(&house.engine, "1", wrong.clone()).await;
        let Err(GraphError::Engine(Error::Refused(Refusal::InvalidRequest { .. }))) = refused else {
            panic!("{wrong}: {refused:?}")
        };
        assert_eq!(shown(&house.engine).await, before, "{wrong}");
    }
    // The name of a resume that was refused is free: nothing of it was kept.
    resume(&house.engine, "1", approve()).await.unwrap();
    assert_eq!(completed(&house.engine).await["published"], true);
}

async fn an_edited_text_is_shown_again_when_it_is_to_be_revised(house: House) {
    start(&house.engine, json!({"draft": "It is.", "rules": {"maxLength": 10}})).await;
    assert!(shown(&house.engine).await.checks[0].passed);
    resume(&house.engine, "1", json!({"action": "revise", "draft": "It certainly is."})).await.unwrap();
    let again = shown(&house.engine).await;
    assert_eq!((again.draft.as_str(), again.revision), ("It certainly is.", 1));
    assert!(!again.checks[0].passed, "what a reviewer wrote is checked like everything else");
    assert!(again.feedback.is_empty());
    // An edit is for one round: the next one begins with what was shown.
    resume(&house.engine, "2", revise("Shorter.")).await.unwrap();
    let third = shown(&house.engine).await;
    assert!(
        third.draft.starts_with("It certainly is.\n") && third.draft.contains("Shorter."),
        "{}",
        third.draft
    );
}

async fn rules_tell_the_reviewer_and_decide_nothing(house: House) {
    let rules = json!({"forbiddenWords": ["guaranteed", "free"], "maxLength": 100});
    start(&house.engine, json!({"draft": "Guaranteed freedom.", "rules": rules})).await;
    let checks = json!(shown(&house.engine).await.checks);
    let expected = json!([
        {"name": "maxLength", "passed": true},
        {"name": "forbiddenWords", "passed": false, "message": "these words are in it: guaranteed"},
    ]);
    assert_eq!(checks, expected);
    resume(&house.engine, "1", approve()).await.unwrap();
    assert_eq!(completed(&house.engine).await["published"], true);
}

async fn what_cannot_be_reviewed_fails_before_anybody_is_asked(house: House) {
    for (at, (input, words)) in [
        (json!({}), "topic and draft"),
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
        let begun =
            GraphStart { owner: owner(), graph, state_key: Some(at.to_string()), input: input.clone() };
        let (handle, _) = house.engine.start_graph(begun).await.unwrap();
        house.drain().await;
        match house.engine.graph_standing(&handle.of).await.unwrap() {
            Standing::Failed(error) => {
                assert_eq!(error.code, "invalid_input", "{input}");
                assert!(error.message.contains(words), "{input}: {}", error.message);
            }
            other => panic!("{input}: {other:?}"),
        }
    }
    assert!(house.pending().await.is_empty());
}

async fn the_largest_text_with_the_largest_remarks_can_still_be_shown(house: House) {
    start(&house.engine, json!({"draft": "x".repeat(60 * 1024 - 2), "maxRevisions": 10})).await;
    // Six bytes of JSON for each character.
    let remark = "\u{1}".repeat(2000);
    for round in 0..10 {
        resume(&house.engine, &round.to_string(), revise(&remark)).await.unwrap();
        assert_eq!(shown(&house.engine).await.revision, round + 1);
    }
    resume(&house.engine, "last", approve()).await.unwrap();
    assert_eq!(completed(&house.engine).await["published"], true);
}

async fn a_copy_may_reject_what_nobody_decided_about_in_time(house: House) {
    let text = include_str!("../../src/engine/graphs/shipped/content-review.json");
    let mut copy: Value = serde_json::from_str(text).unwrap();
    let review = copy["nodes"].as_array().unwrap().iter().position(|node| node["id"] == "review").unwrap();
    copy["nodes"][review]["config"] = json!({"timeoutMs": 1000});
    house.register(copy).await;
    start(&house.engine, json!({"draft": "It is."})).await;
    house.clock.advance(1001);
    house.drain().await;
    let output = completed(&house.engine).await;
    assert_eq!((&output["published"], &output["decision"]), (&json!(false), &json!("reject")));
    assert_eq!(output["reason"], "nobody decided in time");
}
