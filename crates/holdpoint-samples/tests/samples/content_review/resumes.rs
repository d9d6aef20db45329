//! Resumes of the graph: a repeated resume counts once, and of two concurrent resumes one is rejected.

use holdpoint_providers::EngineGraphs;

use super::*;

on_both! {
    a_repeated_resume_returns_the_same_status,
    a_resume_id_with_another_value_is_rejected,
    of_two_concurrent_resumes_exactly_one_wins,
    an_answer_for_an_older_revision_is_rejected,
    two_identical_concurrent_resumes_count_once,
    an_ended_graph_rejects_answers,
    restarts_between_steps_change_nothing,
    a_tenant_finds_only_its_own_graphs,
}

async fn a_repeated_resume_returns_the_same_status(database: TestDatabase) {
    let env = TestEnv::with(database, open).await;
    let peer = Peer::with_replies([PeerReply::json(200, "{}")]).await;
    start(&env.engine, json!({"draft": "It is.", "publishUrl": peer.url("/")})).await;
    resume(&env.engine, "1", revise("Again.")).await.unwrap();
    let after = status(&env.engine).await;
    assert_eq!(resume(&env.engine, "1", revise("Again.")).await.unwrap(), after);
    assert_eq!(status(&env.engine).await, after, "the text is revised once");
    resume(&env.engine, "2", approve()).await.unwrap();
    // The result of an earlier resume is returned after the graph has continued.
    assert_eq!(resume(&env.engine, "1", revise("Again.")).await.unwrap(), after);
    let ended = GraphStatus::Completed(completed(&env.engine).await);
    assert_eq!(resume(&env.engine, "2", approve()).await.unwrap(), ended);
    assert_eq!(peer.requests().len(), 1);
}

async fn a_resume_id_with_another_value_is_rejected(env: TestEnv) {
    start(&env.engine, json!({"draft": "It is."})).await;
    resume(&env.engine, "1", revise("Again.")).await.unwrap();
    let before = shown(&env.engine).await;
    for other in [revise("Once more."), approve()] {
        let refused = resume(&env.engine, "1", other).await;
        assert!(matches!(refused, Err(GraphError::ResumeIdReused)), "{refused:?}");
    }
    assert_eq!(shown(&env.engine).await, before);
}

async fn of_two_concurrent_resumes_exactly_one_wins(database: TestDatabase) {
    let env = TestEnv::with(database, open).await;
    let peer = Peer::with_replies([PeerReply::json(200, "{}")]).await;
    start(&env.engine, json!({"draft": "It is.", "publishUrl": peer.url("/")})).await;
    let other = env.second_engine(open).await;
    let edited = json!({"action": "approve", "draft": "It was."});
    // No worker runs, so the later resume finds the graph running.
    let tenant = tenant();
    let (one, two) = tokio::join!(
        env.engine.graphs().resume(&tenant, "key", answer("one", approve())),
        other.graphs().resume(&tenant, "key", answer("two", edited)),
    );
    let text = match (&one, &two) {
        (Ok(_), Err(GraphError::InFlight)) => "It is.",
        (Err(GraphError::InFlight), Ok(_)) => "It was.",
        other => panic!("{other:?}"),
    };
    env.drain().await;
    assert_eq!(completed(&env.engine).await["draft"], text);
    let [request] = <[String; 1]>::try_from(peer.requests()).unwrap();
    assert!(request.contains(text), "{request}");
    other.close().await;
}

/// Two reviewers see the same revision. One requests another revision before the approval of the other arrives.
async fn an_answer_for_an_older_revision_is_rejected(env: TestEnv) {
    start(&env.engine, json!({"draft": "It is."})).await;
    let yes = json!({"action": "approve", "revision": 0});
    resume(&env.engine, "ada", json!({"action": "revise", "feedback": "Again.", "revision": 0}))
        .await
        .unwrap();
    let refused = resume(&env.engine, "bob", yes).await;
    assert!(
        matches!(refused, Err(GraphError::Engine(Error::Refused(Refusal::InvalidRequest { .. })))),
        "{refused:?}"
    );
    assert_eq!(shown(&env.engine).await.revision, 1);
    resume(&env.engine, "bob again", json!({"action": "approve", "revision": 1})).await.unwrap();
    assert_eq!(completed(&env.engine).await["published"], true);
}

async fn two_identical_concurrent_resumes_count_once(env: TestEnv) {
    start(&env.engine, json!({"draft": "It is."})).await;
    let other = env.second_engine(|options| options).await;
    let tenant = tenant();
    let (one, two) = tokio::join!(
        env.engine.graphs().resume(&tenant, "key", answer("1", revise("Again."))),
        other.graphs().resume(&tenant, "key", answer("1", revise("Again."))),
    );
    // Each finds the earlier resume or the concurrent one. Neither is rejected.
    let handles = [one.unwrap().0, two.unwrap().0];
    assert_eq!(handles[0], handles[1]);
    assert_eq!(shown(&env.engine).await.revision, 1);
    let log = env.engine.events().list(&handles[0].of, 0).await.unwrap();
    assert_eq!(log.iter().filter(|one| matches!(one.event, Event::InterruptResolved { .. })).count(), 1);
    other.close().await;
}

async fn an_ended_graph_rejects_answers(env: TestEnv) {
    start(&env.engine, json!({"draft": "It is."})).await;
    resume(&env.engine, "1", json!({"action": "reject"})).await.unwrap();
    let late = resume(&env.engine, "2", approve()).await;
    assert!(matches!(late, Err(GraphError::Ended)), "{late:?}");
    assert_eq!(completed(&env.engine).await["published"], false);
}

async fn restarts_between_steps_change_nothing(database: TestDatabase) {
    let env = TestEnv::with(database, open).await;
    let peer = Peer::with_replies([PeerReply::json(200, "{}")]).await;
    start(&env.engine, json!({"draft": "It is.", "publishUrl": peer.url("/")})).await;
    let first = shown(&env.engine).await;
    let env = env.reopen(open).await;
    assert_eq!(shown(&env.engine).await, first);
    resume(&env.engine, "1", revise("Again.")).await.unwrap();
    let second = shown(&env.engine).await;
    let env = env.reopen(open).await;
    assert_eq!(shown(&env.engine).await, second);
    // The answer is recorded and not yet carried out.
    env.engine.graphs().resume(&tenant(), "key", answer("2", approve())).await.unwrap();
    assert_eq!(status(&env.engine).await, GraphStatus::Running);
    assert!(peer.requests().is_empty());
    let env = env.reopen(open).await;
    env.drain().await;
    assert_eq!(completed(&env.engine).await["draft"], second.draft);
    let env = env.reopen(open).await;
    env.drain().await;
    assert_eq!(peer.requests().len(), 1);
}

async fn a_tenant_finds_only_its_own_graphs(env: TestEnv) {
    start(&env.engine, json!({"draft": "It is."})).await;
    let other = TenantId::parse("other").unwrap();
    let refused = env.engine.graphs().resume(&other, "key", answer("1", approve())).await;
    assert!(matches!(refused, Err(GraphError::UnknownStateKey)), "{refused:?}");
    assert_eq!(shown(&env.engine).await.revision, 0);
}
