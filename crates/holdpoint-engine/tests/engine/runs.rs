//! Starting, waiting, answering, cancelling.

use holdpoint_engine::core::{Refusal, RunRef, WorkflowId};
use holdpoint_engine::{Error, RunFilter};
use serde_json::json;

use crate::house::{House, accept, alice, gated, graph, line, node, run_id, start, tenant};
use crate::place::on_both;

on_both! {
    a_run_waits_for_its_approval_and_then_completes,
    a_parked_run_survives_a_restart,
    of_many_answers_at_once_exactly_one_counts,
    of_an_answer_and_a_cancel_at_once_one_wins,
    parallel_gates_are_answered_in_any_order,
    a_cancelled_run_asks_nobody_any_more,
    a_run_keeps_the_revision_it_was_started_with,
    the_same_definition_again_is_no_new_revision,
    a_run_id_is_used_once,
    of_two_nodes_that_start_one_run_at_once_one_does,
    another_tenant_finds_nothing,
    an_error_code_cannot_pass_for_a_timeout,
}

async fn a_run_waits_for_its_approval_and_then_completes(house: House) {
    house.register(gated("flow")).await;
    let of = house.start("flow").await;
    assert_eq!(house.status(&of).await, "waiting-approval");
    assert_eq!(house.pending().await, ["gate"]);
    house.answer(&of, "gate", accept()).await.unwrap();
    assert_eq!(house.status(&of).await, "completed");
    assert_eq!(house.pending().await, [""; 0]);
    assert_eq!(house.drain().await, 0, "nothing is left for a worker");
}

async fn a_parked_run_survives_a_restart(house: House) {
    house.register(gated("flow")).await;
    let of = house.start("flow").await;
    let house = house.reopen(|options| options).await;
    assert_eq!(house.status(&of).await, "waiting-approval");
    house.answer(&of, "gate", accept()).await.unwrap();
    let house = house.reopen(|options| options).await;
    assert_eq!(house.status(&of).await, "completed");
}

async fn of_many_answers_at_once_exactly_one_counts(house: House) {
    house.register(gated("flow")).await;
    for _ in 0..20 {
        let of = house.start("flow").await;
        let id = house.run(&of).await.waiting_on().unwrap().id;
        let mut answers = tokio::task::JoinSet::new();
        for _ in 0..16 {
            let (engine, of) = (house.engine.clone(), of.clone());
            answers.spawn(async move { engine.execute(&of, &crate::house::resolve(id, accept())).await });
        }
        let results = answers.join_all().await;
        assert_eq!(results.iter().filter(|result| result.is_ok()).count(), 1);
        let refused = |error: &Error| matches!(error, Error::Refused(Refusal::AlreadyResolved));
        assert_eq!(
            results.iter().filter_map(|result| result.as_ref().err()).filter(|e| refused(e)).count(),
            15
        );
        let resolved = house.log(&of).await.iter().filter(|line| line.contains("interrupt.resolved")).count();
        assert_eq!(resolved, 1);
    }
}

async fn of_an_answer_and_a_cancel_at_once_one_wins(house: House) {
    house.register(gated("flow")).await;
    for _ in 0..50 {
        let of = house.start("flow").await;
        let id = house.run(&of).await.waiting_on().unwrap().id;
        let command = crate::house::resolve(id, accept());
        let answer = house.engine.execute(&of, &command);
        let cancel = house.engine.cancel(&of, None, alice());
        let (answer, cancel) = tokio::join!(answer, cancel);
        let (status, cancelled) = (house.status(&of).await, cancel.unwrap());
        match answer {
            Ok(_) => assert_eq!((status, cancelled.status().as_str()), ("completed", "completed")),
            Err(Error::Refused(Refusal::InterruptCancelled)) => assert_eq!(status, "cancelled"),
            Err(error) => panic!("{error}"),
        }
    }
}

async fn parallel_gates_are_answered_in_any_order(house: House) {
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
    house.register(graph("both", &nodes, &edges)).await;
    let of = house.start("both").await;
    assert_eq!(house.pending().await, ["a", "b"]);
    house.answer(&of, "b", accept()).await.unwrap();
    assert_eq!((house.status(&of).await, house.pending().await), ("waiting-approval", vec!["a".to_owned()]));
    house.answer(&of, "a", accept()).await.unwrap();
    assert_eq!(house.status(&of).await, "completed");
}

async fn a_cancelled_run_asks_nobody_any_more(house: House) {
    house.register(gated("flow")).await;
    let of = house.start("flow").await;
    let run = house.engine.cancel(&of, Some("changed our minds".to_owned()), alice()).await.unwrap();
    assert_eq!(run.status().as_str(), "cancelled");
    assert!(house.pending().await.is_empty());
    let late = house.answer(&of, "gate", accept()).await.unwrap_err();
    assert!(matches!(late, Error::Refused(Refusal::InterruptCancelled)), "{late}");
    let again = house.engine.cancel(&of, None, alice()).await.unwrap();
    assert_eq!(again.seq, run.seq, "cancelling twice changes nothing");
}

async fn a_run_keeps_the_revision_it_was_started_with(house: House) {
    house.register(gated("flow")).await;
    let old = house.start("flow").await;
    let mut newer = gated("flow");
    newer["nodes"][2]["id"] = json!("elsewhere");
    newer["edges"][1]["targetNodeId"] = json!("elsewhere");
    house.register(newer).await;
    let house = house.reopen(|options| options).await;
    house.answer(&old, "gate", accept()).await.unwrap();
    assert!(house.log(&old).await.iter().any(|line| line.contains("\"after\"")));
    let new = house.start("flow").await;
    assert_eq!(house.run(&new).await.workflow.revision, 2);
}

async fn the_same_definition_again_is_no_new_revision(house: House) {
    house.register(gated("flow")).await;
    let again = house.engine.register(&tenant(), gated("flow")).await.unwrap();
    assert_eq!((again.workflow.revision, again.stored), (1, false));
}

async fn a_run_id_is_used_once(house: House) {
    house.register(gated("flow")).await;
    let (id, workflow) = (run_id("mine"), WorkflowId::parse("flow").unwrap());
    house.engine.start_as(&id, &workflow, start(json!({}))).await.unwrap();
    let twice = house.engine.start_as(&id, &workflow, start(json!({}))).await.unwrap_err();
    assert!(matches!(twice, Error::Refused(Refusal::AlreadyStarted)), "{twice}");
}

async fn another_tenant_finds_nothing(house: House) {
    house.register(gated("flow")).await;
    let of = house.start("flow").await;
    let foreign = RunRef { tenant: holdpoint_engine::core::TenantId::parse("other").unwrap(), run: of.run };
    assert!(matches!(house.engine.run(&foreign).await, Err(Error::NotFound("run"))));
    let cancelled = house.engine.cancel(&foreign, None, alice()).await;
    assert!(matches!(cancelled, Err(Error::NotFound("run"))));
}

async fn of_two_nodes_that_start_one_run_at_once_one_does(house: House) {
    house.register(gated("flow")).await;
    let second = house.second_engine(|options| options).await;
    let workflow = WorkflowId::parse("flow").unwrap();
    for round in 0..50 {
        let id = run_id(&format!("run-{round}"));
        let first = house.engine.start_as(&id, &workflow, start(json!({})));
        let answers = tokio::join!(first, second.start_as(&id, &workflow, start(json!({}))));
        let (Ok(run), Err(refused)) = (match answers {
            (Err(error), Ok(run)) => (Ok(run), Err(error)),
            other => other,
        }) else {
            panic!("both did, or nobody")
        };
        assert!(matches!(refused, Error::Refused(Refusal::AlreadyStarted)), "round {round}: {refused}");
        let of = RunRef { tenant: tenant(), run: id };
        assert_eq!(house.run(&of).await.seq, run.seq);
        assert_eq!(second.run(&of).await.unwrap().status().as_str(), "waiting-approval");
    }
    second.close().await;
}

async fn an_error_code_cannot_pass_for_a_timeout(house: House) {
    house.register(line("odd", &[("fail", "core.fail", json!({"code": "mine\ntimeout"}))])).await;
    let of = house.start("odd").await;
    assert_eq!(house.status(&of).await, "failed");
    let filter = RunFilter { limit: 10, ..RunFilter::default() };
    let listed = house.engine.runs(&tenant(), filter).await.unwrap();
    assert_eq!((listed[0].error_code.as_deref(), listed[0].timed_out), (Some("mine timeout"), false));
}
