//! Cases 62 to 66: the status and result of a run in the row of its dispatch.

use holdpoint_engine::core::mailbox::{
    RunDispatch, RunDispatchResult, RunDispatchStatus, RunStatus, TerminationReason,
};

use crate::mailbox::harness::Harness;
use crate::mailbox::rows::{at, done, ended, is_validation, on, queued, resulted, stale, started, token};
use crate::test_database::on_both;

on_both! {
    case_62_a_start_sets_running_and_clears_earlier_results,
    case_63_a_result_is_stored_and_kept_by_the_ack,
    case_64_a_result_of_another_run_is_rejected,
    case_65_every_termination_reason_is_stored_exactly,
    case_66_complete_records_result_and_ack_atomically,
}

async fn case_62_a_start_sets_running_and_clears_earlier_results(h: Harness) {
    let held = h.claim_new_with_result(queued("a"), at(10)).await;
    let running =
        h.mail.claims().record_dispatch_start("a", token(&held), "instance-8", at(20)).await.unwrap();
    let expected = RunDispatch {
        dispatch_instance_id: Some("instance-8".to_owned()),
        run_status: Some(RunStatus::Running),
        termination: None,
        run_response: None,
        run_error: None,
        completed_at: None,
        updated_at: at(20),
        ..held
    };
    assert_eq!(running, expected);
    assert_eq!(h.load("a").await, expected);
}

async fn case_63_a_result_is_stored_and_kept_by_the_ack(h: Harness) {
    let held = h.claim_new(queued("a"), at(10)).await;
    let waiting = RunDispatchResult {
        status: RunStatus::Waiting,
        termination: Some(TerminationReason::Suspended),
        error: None,
        ..done(&held)
    };
    // The last result replaces earlier ones.
    for (result, now) in [(done(&held), at(20)), (waiting.clone(), at(21))] {
        let recorded = h.mail.claims().record_run_result("a", token(&held), &result, now).await.unwrap();
        assert_eq!(recorded, resulted(&held, &result, now));
        assert_eq!(h.load("a").await, recorded);
    }
    let acked = h.mail.claims().ack("a", token(&held), at(30)).await.unwrap();
    let with_result = resulted(&queued("a"), &waiting, at(21));
    assert_eq!(acked, ended(&with_result, RunDispatchStatus::Acked, at(30)));
    assert_eq!(h.load("a").await, acked);
}

async fn case_64_a_result_of_another_run_is_rejected(h: Harness) {
    let held = h.claim_new(queued("a"), at(10)).await;
    let foreign = done(&queued("another"));
    for answer in [
        h.mail.claims().record_run_result("a", token(&held), &foreign, at(20)).await,
        h.mail.claims().complete("a", token(&held), &foreign, at(20)).await,
    ] {
        let error = answer.unwrap_err();
        assert!(is_validation(&error), "{error:?}");
    }
    assert_eq!(h.load("a").await, held);
}

async fn case_65_every_termination_reason_is_stored_exactly(h: Harness) {
    let stopped = |detail: Option<&str>| TerminationReason::Stopped {
        code: "max \"steps\"".to_owned(),
        detail: detail.map(ToOwned::to_owned),
    };
    let reasons = [
        Some(TerminationReason::NaturalEnd),
        Some(TerminationReason::BehaviorRequested),
        Some(stopped(None)),
        Some(stopped(Some(""))),
        Some(stopped(Some("after 10"))),
        Some(TerminationReason::Cancelled),
        Some(TerminationReason::Blocked("by a \u{1f512}\nrule".to_owned())),
        Some(TerminationReason::Suspended),
        Some(TerminationReason::Error(String::new())),
        Some(TerminationReason::Error("it \\ broke".to_owned())),
        None,
    ];
    let mut expected = Vec::new();
    for (n, termination) in reasons.into_iter().enumerate() {
        let held = h.claim_new(on(&format!("t{n}"), queued(&format!("d{n}"))), at(10)).await;
        let status = termination.as_ref().map_or(RunStatus::Created, TerminationReason::run_status);
        let result = RunDispatchResult { status, termination, ..done(&held) };
        h.mail.claims().record_run_result(&held.dispatch_id, token(&held), &result, at(20)).await.unwrap();
        expected.push(resulted(&held, &result, at(20)));
    }
    let h = h.reopen().await;
    for row in expected {
        assert_eq!(h.load(&row.dispatch_id).await, row);
    }
}

async fn case_66_complete_records_result_and_ack_atomically(h: Harness) {
    let held = h.claim_new(queued("a"), at(10)).await;
    let running = h.mail.claims().record_dispatch_start("a", token(&held), "instance", at(11)).await.unwrap();
    assert_eq!(running, started(&held, "instance", at(11)));
    let wrong = h.mail.claims().complete("a", "wrong", &done(&held), at(20)).await;
    assert_eq!(wrong, Err(stale("a", RunDispatchStatus::Claimed)));
    assert_eq!(h.load("a").await, running);
    let completed = h.mail.claims().complete("a", token(&held), &done(&held), at(20)).await.unwrap();
    let with_result = resulted(&queued("a"), &done(&held), at(20));
    assert_eq!(completed, ended(&with_result, RunDispatchStatus::Acked, at(20)));
    assert_eq!(h.load("a").await, completed);
    let again = h.mail.claims().complete("a", token(&held), &done(&held), at(30)).await;
    assert_eq!(again, Err(stale("a", RunDispatchStatus::Acked)));
    assert_eq!(h.load("a").await, completed);
}
