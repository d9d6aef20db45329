//! Two servers on one database continue the same graph.

use serde_json::json;

use super::contract::race;
use super::provider_case::ProviderCase;
use super::recorded_server::{RecordedServer, outcome};
use crate::test_database::TestDatabase;

pub(crate) fn share_a_graph(case: &mut dyn ProviderCase, database: &TestDatabase) {
    let more = json!({"lockMs": 8000});
    let first_server = RecordedServer::at_node("here", database, case, &more);
    let mut second_server = RecordedServer::at_node("there", database, case, &more);
    let asked = first_server.start_and_expect_interrupt(case, "post-1");
    assert_eq!(second_server.get_chat("post-1").body["interrupt"], asked["interrupt"]);
    let revised = second_server.resume("post-1", "r-1", &case.revise());
    assert_eq!(outcome(&revised), "needs_input", "{revised:?}");
    assert_eq!(
        first_server.resume("post-1", "r-1", &case.revise()),
        revised,
        "a repeated answer at the other server returns the same response"
    );
    let (one, other) = (first_server.client(), second_server.client());
    let yes = case.approve();
    let again = &revised.body["interrupt"];
    let won = race("post-1", again, &[(one, &yes), (other, &yes), (one, &yes), (other, &yes)]);
    assert_eq!(won["outcome"], "completed", "{won}");
    assert_eq!(
        (outcome(&first_server.get_chat("post-1")), outcome(&second_server.get_chat("post-1"))),
        ("completed", "completed")
    );
    assert_eq!(case.sent(), 1);
    // One server is killed right after an answer; the other continues.
    second_server.start_and_expect_interrupt(case, "post-2");
    let accepted = second_server.answer("post-2", "r-1", &case.revise());
    assert!([200, 202].contains(&accepted.status), "{accepted:?}");
    second_server.kill();
    let revised = first_server.until("post-2", |answer| outcome(answer) != "running");
    assert_eq!(outcome(&revised), "needs_input", "{revised:?}");
    assert_eq!(outcome(&first_server.resume("post-2", "r-2", &case.approve())), "completed");
    assert_eq!(case.sent(), 2);
    second_server.start();
    first_server.assert_no_internal_names_leaked(case);
    second_server.assert_no_internal_names_leaked(case);
}
