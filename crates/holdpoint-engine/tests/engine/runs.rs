//! Start, wait, answer and cancellation of runs.

use holdpoint_engine::core::{Refusal, RunRef, WorkflowId};
use holdpoint_engine::{Error, RunFilter};
use serde_json::json;

use crate::test_database::on_both;
use crate::test_env::{TestEnv, accept, alice, gated, graph, line, node, run_id, start, tenant};

on_both! {
    a_run_waits_for_its_approval_and_then_completes,
    a_parked_run_survives_a_restart,
    of_many_concurrent_answers_exactly_one_counts,
    of_a_concurrent_answer_and_cancel_one_wins,
    parallel_gates_are_answered_in_any_order,
    a_cancelled_run_has_no_open_interrupts,
    a_run_keeps_the_revision_it_was_started_with,
    registering_the_same_definition_creates_no_revision,
    a_run_id_can_be_used_once,
    of_two_nodes_that_start_one_run_concurrently_one_succeeds,
    another_tenant_does_not_find_the_run,
    an_error_code_cannot_imitate_a_timeout,
}

async fn a_run_waits_for_its_approval_and_then_completes(env: TestEnv) {
    env.register(gated("flow")).await;
    let of = env.start("flow").await;
    assert_eq!(env.status(&of).await, "waiting-approval");
    assert_eq!(env.pending().await, ["gate"]);
    env.answer(&of, "gate", accept()).await.unwrap();
    assert_eq!(env.status(&of).await, "completed");
    assert_eq!(env.pending().await, [""; 0]);
    assert_eq!(env.drain().await, 0, "there is no work for a worker");
}

async fn a_parked_run_survives_a_restart(env: TestEnv) {
    env.register(gated("flow")).await;
    let of = env.start("flow").await;
    let env = env.reopen(|options| options).await;
    assert_eq!(env.status(&of).await, "waiting-approval");
    env.answer(&of, "gate", accept()).await.unwrap();
    let env = env.reopen(|options| options).await;
    assert_eq!(env.status(&of).await, "completed");
}

async fn of_many_concurrent_answers_exactly_one_counts(env: TestEnv) {
    env.register(gated("flow")).await;
    for _ in 0..20 {
        let of = env.start("flow").await;
        let id = env.run(&of).await.waiting_on().unwrap().id;
        let mut answers = tokio::task::JoinSet::new();
        for _ in 0..16 {
            let (engine, of) = (env.engine.clone(), of.clone());
            answers.spawn(async move {
                engine.runs().execute(&of, &crate::test_env::resolve(id, accept())).await
            });
        }
        let results = answers.join_all().await;
        assert_eq!(results.iter().filter(|result| result.is_ok()).count(), 1);
        let refused = |error: &Error| matches!(error, Error::Refused(Refusal::AlreadyResolved));
        assert_eq!(
            results.iter().filter_map(|result| result.as_ref().err()).filter(|e| refused(e)).count(),
            15
        );
        let resolved = env.log(&of).await.iter().filter(|line| line.contains("interrupt.resolved")).count();
        assert_eq!(resolved, 1);
    }
}

async fn of_a_concurrent_answer_and_cancel_one_wins(env: TestEnv) {
    env.register(gated("flow")).await;
    for _ in 0..50 {
        let of = env.start("flow").await;
        let id = env.run(&of).await.waiting_on().unwrap().id;
        let command = crate::test_env::resolve(id, accept());
        let answer = env.engine.runs().execute(&of, &command);
        let cancel = env.engine.runs().cancel(&of, None, alice());
        let (answer, cancel) = tokio::join!(answer, cancel);
        let (status, cancelled) = (env.status(&of).await, cancel.unwrap());
        match answer {
            Ok(_) => assert_eq!((status, cancelled.status().as_str()), ("completed", "completed")),
            Err(Error::Refused(Refusal::InterruptCancelled)) => assert_eq!(status, "cancelled"),
            Err(error) => panic!("{error}"),
        }
    }
}

async fn parallel_gates_are_answered_in_any_order(env: TestEnv) {
    let gate = json!({"title": "ok?", "actions": ["accept"]});
    let nodes = [
        node("a", "core.approvalGate", gate.clone()),
        node("b", "core.approvalGate", gate),
        node("end", "core.noop", json!({})),
    ];
    let edges = [
        json!({"id": "1", "sourceNodeId": "a", "targetNodeId": "end"}),
        json!({"id": "2", "sourceNodeId": "b", "targetNodeId": "end"}),
    ];
    env.register(graph("both", &nodes, &edges)).await;
    let of = env.start("both").await;
    assert_eq!(env.pending().await, ["a", "b"]);
    env.answer(&of, "b", accept()).await.unwrap();
    assert_eq!((env.status(&of).await, env.pending().await), ("waiting-approval", vec!["a".to_owned()]));
    env.answer(&of, "a", accept()).await.unwrap();
    assert_eq!(env.status(&of).await, "completed");
}

async fn a_cancelled_run_has_no_open_interrupts(env: TestEnv) {
    env.register(gated("flow")).await;
    let of = env.start("flow").await;
    let run = env.engine.runs().cancel(&of, Some("changed our minds".to_owned()), alice()).await.unwrap();
    assert_eq!(run.status().as_str(), "cancelled");
    assert!(env.pending().await.is_empty());
    let late = env.answer(&of, "gate", accept()).await.unwrap_err();
    assert!(matches!(late, Error::Refused(Refusal::InterruptCancelled)), "{late}");
    let again = env.engine.runs().cancel(&of, None, alice()).await.unwrap();
    assert_eq!(again.seq, run.seq, "a second cancellation has no effect");
}

async fn a_run_keeps_the_revision_it_was_started_with(env: TestEnv) {
    env.register(gated("flow")).await;
    let old = env.start("flow").await;
    let mut newer = gated("flow");
    newer["nodes"][2]["id"] = json!("elsewhere");
    newer["edges"][1]["targetNodeId"] = json!("elsewhere");
    env.register(newer).await;
    let env = env.reopen(|options| options).await;
    env.answer(&old, "gate", accept()).await.unwrap();
    assert!(env.log(&old).await.iter().any(|line| line.contains("\"after\"")));
    let new = env.start("flow").await;
    assert_eq!(env.run(&new).await.workflow.revision, 2);
}

async fn registering_the_same_definition_creates_no_revision(env: TestEnv) {
    env.register(gated("flow")).await;
    let again = env.engine.workflows().register(&tenant(), gated("flow")).await.unwrap();
    assert_eq!((again.workflow.revision, again.stored), (1, false));
}

async fn a_run_id_can_be_used_once(env: TestEnv) {
    env.register(gated("flow")).await;
    let (id, workflow) = (run_id("mine"), WorkflowId::parse("flow").unwrap());
    env.engine.runs().create_as(&id, &workflow, start(json!({}))).await.unwrap();
    let twice = env.engine.runs().create_as(&id, &workflow, start(json!({}))).await.unwrap_err();
    assert!(matches!(twice, Error::Refused(Refusal::AlreadyStarted)), "{twice}");
}

async fn another_tenant_does_not_find_the_run(env: TestEnv) {
    env.register(gated("flow")).await;
    let of = env.start("flow").await;
    let foreign = RunRef { tenant: holdpoint_engine::core::TenantId::parse("other").unwrap(), run: of.run };
    assert!(matches!(env.engine.runs().get(&foreign).await, Err(Error::NotFound("run"))));
    let cancelled = env.engine.runs().cancel(&foreign, None, alice()).await;
    assert!(matches!(cancelled, Err(Error::NotFound("run"))));
}

async fn of_two_nodes_that_start_one_run_concurrently_one_succeeds(env: TestEnv) {
    env.register(gated("flow")).await;
    let second = env.second_engine(|options| options).await;
    let workflow = WorkflowId::parse("flow").unwrap();
    for round in 0..50 {
        let id = run_id(&format!("run-{round}"));
        let first = env.engine.runs().create_as(&id, &workflow, start(json!({})));
        let answers = tokio::join!(first, second.runs().create_as(&id, &workflow, start(json!({}))));
        let (Ok(run), Err(refused)) = (match answers {
            (Err(error), Ok(run)) => (Ok(run), Err(error)),
            other => other,
        }) else {
            panic!("both starts succeeded or both failed")
        };
        assert!(matches!(refused, Error::Refused(Refusal::AlreadyStarted)), "round {round}: {refused}");
        let of = RunRef { tenant: tenant(), run: id };
        assert_eq!(env.run(&of).await.seq, run.seq);
        assert_eq!(second.runs().get(&of).await.unwrap().status().as_str(), "waiting-approval");
    }
    second.close().await;
}

async fn an_error_code_cannot_imitate_a_timeout(env: TestEnv) {
    env.register(line("odd", &[("fail", "core.fail", json!({"code": "mine\ntimeout"}))])).await;
    let of = env.start("odd").await;
    assert_eq!(env.status(&of).await, "failed");
    let filter = RunFilter { limit: 10, ..RunFilter::default() };
    let listed = env.engine.runs().list(&tenant(), filter).await.unwrap();
    assert_eq!((listed[0].error_code.as_deref(), listed[0].timed_out), (Some("mine timeout"), false));
}
