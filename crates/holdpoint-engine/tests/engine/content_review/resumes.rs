//! Resumes of the graph: told twice they count once, and of two at once one is late.

use super::*;

on_both! {
    the_same_resume_again_comes_to_the_same,
    a_resume_with_another_value_is_refused,
    of_two_resumes_at_once_exactly_one_wins,
    an_answer_that_names_its_revision_is_not_taken_for_the_next_one,
    the_same_resume_twice_at_once_is_one,
    a_graph_that_has_ended_takes_no_more_answers,
    a_restart_between_any_two_steps_changes_nothing,
    a_tenant_finds_its_own_graphs_only,
}

async fn the_same_resume_again_comes_to_the_same(place: Place) {
    let house = House::with(place, open).await;
    let peer = Peer::saying([Reply::json(200, "{}")]).await;
    start(&house.engine, json!({"draft": "It is.", "publishUrl": peer.url("/")})).await;
    resume(&house.engine, "1", revise("Again.")).await.unwrap();
    let after = standing(&house.engine).await;
    assert_eq!(resume(&house.engine, "1", revise("Again.")).await.unwrap(), after);
    assert_eq!(standing(&house.engine).await, after, "it was not revised twice");
    resume(&house.engine, "2", approve()).await.unwrap();
    // What an earlier resume came to is known for ever, also when the graph has gone on.
    assert_eq!(resume(&house.engine, "1", revise("Again.")).await.unwrap(), after);
    let ended = Standing::Completed(completed(&house.engine).await);
    assert_eq!(resume(&house.engine, "2", approve()).await.unwrap(), ended);
    assert_eq!(peer.heard().len(), 1);
}

async fn a_resume_with_another_value_is_refused(house: House) {
    start(&house.engine, json!({"draft": "It is."})).await;
    resume(&house.engine, "1", revise("Again.")).await.unwrap();
    let before = shown(&house.engine).await;
    for other in [revise("Once more."), approve()] {
        let refused = resume(&house.engine, "1", other).await;
        assert!(matches!(refused, Err(GraphError::OtherValue)), "{refused:?}");
    }
    assert_eq!(shown(&house.engine).await, before);
}

async fn of_two_resumes_at_once_exactly_one_wins(place: Place) {
    let house = House::with(place, open).await;
    let peer = Peer::saying([Reply::json(200, "{}")]).await;
    start(&house.engine, json!({"draft": "It is.", "publishUrl": peer.url("/")})).await;
    let other = house.second_engine(open).await;
    let edited = json!({"action": "approve", "draft": "It was."});
    // Nobody carries anything out meanwhile, so that whoever is late finds the graph at work.
    let tenant = tenant();
    let (one, two) = tokio::join!(
        house.engine.resume_graph(&tenant, "key", answer("one", approve())),
        other.resume_graph(&tenant, "key", answer("two", edited)),
    );
    let text = match (&one, &two) {
        (Ok(_), Err(GraphError::InFlight)) => "It is.",
        (Err(GraphError::InFlight), Ok(_)) => "It was.",
        other => panic!("{other:?}"),
    };
    house.drain().await;
    assert_eq!(completed(&house.engine).await["draft"], text);
    let [heard] = <[String; 1]>::try_from(peer.heard()).unwrap();
    assert!(heard.contains(text), "{heard}");
    other.close().await;
}

/// Two people look at the same text; one wants another, which is shown before the other one's yes arrives.
async fn an_answer_that_names_its_revision_is_not_taken_for_the_next_one(house: House) {
    start(&house.engine, json!({"draft": "It is."})).await;
    let yes = json!({"action": "approve", "revision": 0});
    resume(&house.engine, "ada", json!({"action": "revise", "feedback": "Again.", "revision": 0}))
        .await
        .unwrap();
    let refused = resume(&house.engine, "bob", yes).await;
    assert!(
        matches!(refused, Err(GraphError::Engine(Error::Refused(Refusal::InvalidRequest { .. })))),
        "{refused:?}"
    );
    assert_eq!(shown(&house.engine).await.revision, 1);
    resume(&house.engine, "bob again", json!({"action": "approve", "revision": 1})).await.unwrap();
    assert_eq!(completed(&house.engine).await["published"], true);
}

async fn the_same_resume_twice_at_once_is_one(house: House) {
    start(&house.engine, json!({"draft": "It is."})).await;
    let other = house.second_engine(|options| options).await;
    let tenant = tenant();
    let (one, two) = tokio::join!(
        house.engine.resume_graph(&tenant, "key", answer("1", revise("Again."))),
        other.resume_graph(&tenant, "key", answer("1", revise("Again."))),
    );
    // Either may find that it was said before, or that it says it at the same time; nobody is turned away.
    let handles = [one.unwrap().0, two.unwrap().0];
    assert_eq!(handles[0], handles[1]);
    assert_eq!(shown(&house.engine).await.revision, 1);
    let log = house.engine.events(&handles[0].of, 0).await.unwrap();
    assert_eq!(log.iter().filter(|one| matches!(one.event, Event::InterruptResolved { .. })).count(), 1);
    other.close().await;
}

async fn a_graph_that_has_ended_takes_no_more_answers(house: House) {
    start(&house.engine, json!({"draft": "It is."})).await;
    resume(&house.engine, "1", json!({"action": "reject"})).await.unwrap();
    let late = resume(&house.engine, "2", approve()).await;
    assert!(matches!(late, Err(GraphError::Ended)), "{late:?}");
    assert_eq!(completed(&house.engine).await["published"], false);
}

async fn a_restart_between_any_two_steps_changes_nothing(place: Place) {
    let house = House::with(place, open).await;
    let peer = Peer::saying([Reply::json(200, "{}")]).await;
    start(&house.engine, json!({"draft": "It is.", "publishUrl": peer.url("/")})).await;
    let first = shown(&house.engine).await;
    let house = house.reopen(open).await;
    assert_eq!(shown(&house.engine).await, first);
    resume(&house.engine, "1", revise("Again.")).await.unwrap();
    let second = shown(&house.engine).await;
    let house = house.reopen(open).await;
    assert_eq!(shown(&house.engine).await, second);
    // The answer is on record, and nobody has carried it out yet.
    house.engine.resume_graph(&tenant(), "key", answer("2", approve())).await.unwrap();
    assert_eq!(standing(&house.engine).await, Standing::Running);
    assert!(peer.heard().is_empty());
    let house = house.reopen(open).await;
    house.drain().await;
    assert_eq!(completed(&house.engine).await["draft"], second.draft);
    let house = house.reopen(open).await;
    house.drain().await;
    assert_eq!(peer.heard().len(), 1);
}

async fn a_tenant_finds_its_own_graphs_only(house: House) {
    start(&house.engine, json!({"draft": "It is."})).await;
    let other = TenantId::parse("other").unwrap();
    let refused = house.engine.resume_graph(&other, "key", answer("1", approve())).await;
    assert!(matches!(refused, Err(GraphError::NoState)), "{refused:?}");
    assert_eq!(shown(&house.engine).await.revision, 0);
}
