//! kill -9 of the server at each stage of a graph.

use serde_json::json;

use super::provider_case::ProviderCase;
use super::recorded_server::{RecordedServer, outcome};
use crate::test_database::TestDatabase;

/// Kills the server while the graph waits, right after an answer, and after the end.
pub(crate) fn kill_server_at_each_stage(case: &mut dyn ProviderCase, database: &TestDatabase) {
    let mut server = RecordedServer::open(database, case, &json!({"lockMs": 1000}));
    let asked = server.start_and_expect_interrupt(case, "post-1");
    server.kill();
    server.start();
    assert_eq!(server.get_chat("post-1").body["interrupt"], asked["interrupt"], "the graph still waits");
    // The answer is stored; the provider may or may not have got it.
    let accepted = server.answer("post-1", "r-1", &case.revise());
    assert!([200, 202].contains(&accepted.status), "{accepted:?}");
    server.kill();
    server.start();
    let revised = server.until("post-1", |answer| outcome(answer) != "running");
    assert_eq!(outcome(&revised), "needs_input", "{revised:?}");
    let again = server.resume("post-1", "r-1", &case.revise());
    assert_eq!(
        again.body["interrupt"], revised.body["interrupt"],
        "a repeated answer does not change the interrupt"
    );
    assert_eq!(case.sent(), 0);
    let accepted = server.answer("post-1", "r-2", &case.approve());
    assert!([200, 202].contains(&accepted.status), "{accepted:?}");
    server.kill();
    server.start();
    let mut approved = server.until("post-1", |answer| outcome(answer) != "running");
    // After a kill during a tool call the outcome is unknown: an interrupt asks for a decision.
    if approved.body["interrupt"]["kind"] == "outcome_unknown" {
        let decision = if case.sent() == 0 { "retry" } else { "reject" };
        approved = server.resume("post-1", "r-3", &json!({"decision": decision}));
    }
    // An agent whose call was rejected asks again, until it gives up.
    for again in 0..4 {
        if outcome(&approved) == "needs_input" && case.sent() == 1 {
            approved = server.resume("post-1", &format!("no-{again}"), &case.revise());
        }
    }
    assert_eq!(outcome(&approved), "completed", "{approved:?}");
    assert_eq!(case.sent(), 1);
    server.kill();
    server.start();
    assert_eq!(
        outcome(&server.resume("post-1", "r-1", &case.revise())),
        "needs_input",
        "a repeated answer returns the stored response"
    );
    assert_eq!(outcome(&server.get_chat("post-1")), "completed");
    assert_eq!(case.sent(), 1);
    server.assert_no_internal_names_leaked(case);
}

/// Kills a server on PostgreSQL. Another server cannot see that at once: it takes over the work after the lease and the
/// lock have expired.
pub(crate) fn take_over_after_lease(case: &mut dyn ProviderCase, database: &TestDatabase) {
    let mut server = RecordedServer::open(database, case, &json!({"lockMs": 1000}));
    server.start_and_expect_interrupt(case, "post-1");
    let accepted = server.answer("post-1", "r-1", &case.revise());
    assert!([200, 202].contains(&accepted.status), "{accepted:?}");
    server.kill();
    server.start();
    let revised = server.until("post-1", |answer| outcome(answer) != "running");
    assert_eq!(outcome(&revised), "needs_input", "{revised:?}");
    assert_eq!(outcome(&server.resume("post-1", "r-2", &case.approve())), "completed");
    assert_eq!(case.sent(), 1);
    server.assert_no_internal_names_leaked(case);
}
