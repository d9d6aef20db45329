//! The tests that every provider must pass.

use serde_json::{Value, json};

use super::provider_case::ProviderCase;
use super::recorded_server::{RecordedServer, outcome};
use crate::harness::{Client, Response};
use crate::test_database::TestDatabase;

/// Generates the tests of a provider.
macro_rules! provider_tests {
    ($case:expr) => {
        #[test]
        fn a_graph_is_revised_approved_and_sent_once_and_repeated_answers_change_nothing() {
            crate::providers::contract::revise_approve_and_repeat(
                &mut $case,
                &crate::test_database::TestDatabase::sqlite(),
            );
        }

        #[test]
        fn a_graph_is_revised_approved_and_sent_once_on_postgres() {
            crate::providers::contract::revise_approve_and_repeat(
                &mut $case,
                &crate::test_database::TestDatabase::postgres(),
            );
        }

        #[test]
        fn one_of_four_answers_at_once_counts() {
            crate::providers::contract::race_four_answers(
                &mut $case,
                &crate::test_database::TestDatabase::sqlite(),
            );
        }

        #[test]
        fn an_interrupt_reaches_webhooks_and_is_answered_by_key_link_and_front_end() {
            crate::providers::answer_routes::answer_by_every_route(
                &mut $case,
                &crate::test_database::TestDatabase::sqlite(),
            );
        }

        #[test]
        fn a_cancelled_or_expired_graph_rejects_answers() {
            crate::providers::contract::cancel_and_expire(
                &mut $case,
                &crate::test_database::TestDatabase::sqlite(),
            );
        }

        #[test]
        fn kill_9_of_the_server_loses_no_answer_and_repeats_no_send() {
            crate::providers::kills::kill_server_at_each_stage(
                &mut $case,
                &crate::test_database::TestDatabase::sqlite(),
            );
        }

        #[test]
        fn a_state_key_takes_a_second_turn_and_repeated_turns_change_nothing() {
            crate::providers::turns::take_two_turns(
                &mut $case,
                &crate::test_database::TestDatabase::sqlite(),
            );
        }

        #[test]
        fn one_of_six_turns_at_once_counts_on_postgres() {
            crate::providers::turns::race_turns(&mut $case, &crate::test_database::TestDatabase::postgres());
        }

        #[test]
        fn kill_9_of_the_server_in_a_second_turn_starts_it_once() {
            crate::providers::turns::kill_server_in_a_turn(
                &mut $case,
                &crate::test_database::TestDatabase::sqlite(),
            );
        }

        #[test]
        fn a_message_of_a_front_end_is_the_next_turn() {
            crate::providers::turns::continue_in_front_end(
                &mut $case,
                &crate::test_database::TestDatabase::sqlite(),
            );
        }

        #[test]
        fn a_cancelled_turn_is_followed_by_the_next_one() {
            crate::providers::turns::continue_after_cancelled_turn(
                &mut $case,
                &crate::test_database::TestDatabase::sqlite(),
            );
        }

        #[test]
        fn an_expired_lock_is_taken_over_on_postgres() {
            crate::providers::kills::take_over_after_lease(
                &mut $case,
                &crate::test_database::TestDatabase::postgres(),
            );
        }

        #[test]
        fn two_servers_continue_one_graph_on_postgres() {
            crate::providers::nodes::share_a_graph(
                &mut $case,
                &crate::test_database::TestDatabase::postgres(),
            );
        }
    };
}
pub(crate) use provider_tests;

pub(crate) fn revise_approve_and_repeat(case: &mut dyn ProviderCase, database: &TestDatabase) {
    let server = RecordedServer::open(database, case, &json!({}));
    let first = server.start_and_expect_interrupt(case, "post-1");
    assert_eq!(
        keys(&first),
        ["interrupt", "outcome", "stateKey"],
        "the response has no other members: {first}"
    );
    assert_eq!(keys(&first["interrupt"]), ["data", "kind"]);
    assert_eq!((&first["stateKey"], &first["interrupt"]["kind"]), (&json!("post-1"), &json!(case.kind())));
    assert_eq!(server.begin(case, "post-1").body, first, "a repeated start returns the same response");
    let other = json!({"graph": case.graph(), "stateKey": "post-1", "input": {"topic": "dogs"}});
    server.send("POST", "/api/v1/ai/chat", Some(&other)).assert_envelope(409, "state_key_in_use");
    if let Some(invalid_answer) = case.invalid_answer() {
        assert_eq!(server.resume("post-1", "r-0", &invalid_answer).status, 400, "the interrupt stays open");
    }
    let revised = server.resume("post-1", "r-1", &case.revise());
    assert_eq!((revised.status, outcome(&revised)), (200, "needs_input"), "{revised:?}");
    assert_eq!(
        server.resume("post-1", "r-1", &case.revise()),
        revised,
        "a repeated answer returns the same response"
    );
    server.resume("post-1", "r-1", &case.approve()).assert_envelope(409, "resume_id_conflict");
    let late = json!({
        "stateKey": "post-1", "resumeId": "late", "resumeValue": case.approve(), "interrupt": first["interrupt"],
    });
    let late = server.send("POST", "/api/v1/ai/chat", Some(&late));
    late.assert_envelope(409, "interrupt_changed");
    assert_eq!(case.sent(), 0, "no send before the approval");
    let approved = server.resume("post-1", "r-2", &case.approve());
    assert_eq!((approved.status, outcome(&approved)), (200, "completed"), "{approved:?}");
    assert_eq!(keys(&approved.body), ["outcome", "output", "stateKey"]);
    assert_eq!(case.sent(), 1);
    assert_eq!(server.resume("post-1", "r-2", &case.approve()), approved);
    assert_eq!(
        server.resume("post-1", "r-1", &case.revise()),
        revised,
        "an earlier answer also returns the same response"
    );
    server.resume("post-1", "r-3", &case.approve()).assert_envelope(409, "graph_ended");
    let current = server.get_chat("post-1");
    assert_eq!(
        (outcome(&current), &current.body["graph"]),
        ("completed", &json!(case.graph())),
        "{current:?}"
    );
    assert_eq!(case.sent(), 1);
    server.assert_no_internal_names_leaked(case);
}

pub(crate) fn race_four_answers(case: &mut dyn ProviderCase, database: &TestDatabase) {
    let server = RecordedServer::open(database, case, &json!({}));
    // Each answer contains its interrupt, so that it is refused if the graph shows another interrupt.
    let asked = server.start_and_expect_interrupt(case, "race");
    let (one, other) = (case.revise(), case.approve());
    let at = server.client();
    let won = race("race", &asked["interrupt"], &[(at, &one), (at, &other), (at, &one), (at, &other)]);
    if won["outcome"] == "needs_input" {
        assert_eq!(case.sent(), 0);
        assert_eq!(outcome(&server.resume("race", "last", &case.approve())), "completed");
    }
    assert_eq!(case.sent(), 1);
    server.assert_no_internal_names_leaked(case);
}

/// Sends answers to one interrupt at the same time. Returns the response of the accepted one.
pub(crate) fn race(key: &str, asked: &Value, answers: &[(&Client, &Value)]) -> Value {
    let responses: Vec<Response> = std::thread::scope(|scope| {
        let send = |(id, (client, value)): (usize, &(&Client, &Value))| {
            let id = format!("at-once-{id}");
            let body = json!({"stateKey": key, "resumeId": id, "resumeValue": value, "interrupt": asked});
            let client = (*client).clone();
            scope.spawn(move || client.post("/api/v1/ai/chat", &body))
        };
        let racing: Vec<_> = answers.iter().enumerate().map(send).collect();
        racing.into_iter().map(|one| one.join().unwrap()).collect()
    });
    let (won, lost): (Vec<_>, Vec<_>) = responses.iter().partition(|answer| answer.status == 200);
    assert_eq!(won.len(), 1, "{responses:?}");
    let known = ["resume_in_flight", "interrupt_changed", "graph_ended"];
    let is_conflict = |answer: &Response| known.contains(&answer.body["error"].as_str().unwrap_or_default());
    assert!(lost.iter().all(|answer| answer.status == 409 && is_conflict(answer)), "{responses:?}");
    won[0].body.clone()
}

pub(crate) fn cancel_and_expire(case: &mut dyn ProviderCase, database: &TestDatabase) {
    let server = RecordedServer::open(database, case, &json!({"expiresMs": 4000}));
    server.start_and_expect_interrupt(case, "cancelled");
    case.remember_internal_names(server.data());
    let cancelled = server.cancel("cancelled");
    assert_eq!((outcome(&cancelled), &cancelled.body["error"]["code"]), ("error", &json!("cancelled")));
    assert_eq!(server.cancel("cancelled").status, 200, "a second cancellation succeeds");
    server.resume("cancelled", "r", &case.approve()).assert_envelope(409, "graph_ended");
    server.start_and_expect_interrupt(case, "late");
    case.remember_internal_names(server.data());
    let late = server.until("late", |answer| outcome(answer) != "needs_input");
    assert_eq!((outcome(&late), &late.body["error"]["code"]), ("error", &json!("expired")), "{late:?}");
    server.resume("late", "r", &case.approve()).assert_envelope(409, "graph_ended");
    assert_eq!(case.sent(), 0);
    server.assert_no_internal_names_leaked(case);
}

fn keys(value: &Value) -> Vec<&str> {
    let mut names: Vec<&str> = value.as_object().unwrap().keys().map(String::as_str).collect();
    names.sort_unstable();
    names
}
