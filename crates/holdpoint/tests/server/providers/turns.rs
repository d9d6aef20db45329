//! Further turns of a state key.

use serde_json::{Value, json};

use super::provider_case::ProviderCase;
use super::recorded_server::{RecordedServer, outcome};
use crate::agui::FrontEnd;
use crate::harness::{Client, Response};
use crate::test_database::TestDatabase;

const CHAT: &str = "/api/v1/ai/chat";

/// Takes two turns, with repeated and conflicting requests between the steps, and reads the history.
pub(crate) fn take_two_turns(case: &mut dyn ProviderCase, database: &TestDatabase) {
    let server = RecordedServer::open(database, case, &json!({}));
    let start = |id: &str, input: &Value| {
        let body = json!({"graph": case.graph(), "stateKey": "talk", "turnId": id, "input": input});
        server.send("POST", CHAT, Some(&body))
    };
    let asked = start("t-1", &case.input());
    assert_eq!((asked.status, outcome(&asked)), (200, "needs_input"), "{asked:?}");
    assert_eq!(start("t-1", &case.input()), asked, "a repeated turn returns the same response");
    start("t-1", &json!({"topic": "others"})).assert_envelope(409, "turn_id_conflict");
    server.turn("talk", "t-2", &case.next_input()).assert_envelope(409, "turn_needs_input");
    let revised = server.resume("talk", "r-1", &case.revise());
    assert_eq!(outcome(&revised), "needs_input", "{revised:?}");
    let first = server.resume("talk", "r-2", &case.approve());
    assert_eq!((outcome(&first), case.sent()), ("completed", 1), "{first:?}");
    let other = json!({"graph": case.graph(), "stateKey": "talk", "input": {"topic": "others"}});
    server.send("POST", CHAT, Some(&other)).assert_envelope(409, "turn_id_required");

    let again = server.turn("talk", "t-2", &case.next_input());
    assert_eq!((again.status, outcome(&again)), (200, "needs_input"), "{again:?}");
    assert_eq!(case.sent(), 1, "an approval of the first turn permits nothing in the second");
    assert_eq!(start("t-1", &case.input()), first, "the first turn has its own outcome");
    assert_eq!(server.resume("talk", "r-1", &case.revise()), revised, "an earlier answer is recognized");
    server.resume("talk", "r-1", &case.approve()).assert_envelope(409, "resume_id_conflict");
    let second = server.resume("talk", "r-3", &case.approve());
    assert_eq!((outcome(&second), case.sent()), ("completed", 2), "{second:?}");
    case.assert_continued(&second.body["output"]);
    assert_eq!(server.turn("talk", "t-2", &case.next_input()), second);
    assert_eq!(case.sent(), 2);
    check_history(&server, case);

    case.remember_internal_names(server.data());
    assert_eq!(outcome(&server.cancel("talk")), "completed");
    server.turn("talk", "t-3", &case.next_input()).assert_envelope(409, "conversation_ended");
    assert_eq!(server.turn("talk", "t-2", &case.next_input()), second);
    assert_eq!(server.history("talk", "").body["turns"].as_array().unwrap().len(), 2);
    server.assert_no_internal_names_leaked(case);
}

fn check_history(server: &RecordedServer<'_>, case: &dyn ProviderCase) {
    let page = server.history("talk", "?limit=1").body;
    assert_eq!(page["turns"].as_array().unwrap().len(), 1, "{page}");
    let newest = &page["turns"][0];
    assert_eq!((&newest["turnId"], &newest["outcome"]["outcome"]), (&json!("t-2"), &json!("completed")));
    let cursor = page["nextCursor"].as_str().unwrap();
    let rest = server.history("talk", &format!("?limit=1&cursor={cursor}")).body;
    let oldest = &rest["turns"][0];
    assert_eq!((&oldest["turnId"], &oldest["input"]), (&json!("t-1"), &case.input()), "{rest}");
    let asked = oldest["interrupts"].as_array().unwrap();
    let answers: Vec<_> = asked.iter().map(|one| one["answer"]["resumeId"].as_str().unwrap()).collect();
    assert_eq!((answers, &asked[0]["kind"]), (vec!["r-1", "r-2"], &json!(case.kind())), "{rest}");
    assert!(rest.get("nextCursor").is_none(), "{rest}");
    assert_eq!(server.history("talk", "?cursor=%00").status, 400);
    assert_eq!(server.history("unknown", "").status, 404);
    let reader = server.client().with_key(None);
    assert_eq!(reader.get(&format!("{CHAT}/talk/history")).status, 401);
}

/// Sends six turns at once, then one turn four times at once.
pub(crate) fn race_turns(case: &mut dyn ProviderCase, database: &TestDatabase) {
    let server = RecordedServer::open(database, case, &json!({}));
    server.start_and_expect_interrupt(case, "talk");
    assert_eq!(outcome(&server.resume("talk", "r-1", &case.approve())), "completed");
    let input = case.next_input();
    let body = |id: String| json!({"stateKey": "talk", "turnId": id, "input": input});
    let responses = send_at_once(server.client(), (0..6).map(|id| body(format!("six-{id}"))).collect());
    let (won, lost): (Vec<_>, Vec<_>) = responses.iter().partition(|answer| answer.status == 200);
    assert_eq!((won.len(), outcome(won[0])), (1, "needs_input"), "{responses:?}");
    let known = ["turn_in_flight", "turn_needs_input"];
    let is_conflict = |answer: &Response| known.contains(&answer.body["error"].as_str().unwrap_or_default());
    assert!(lost.iter().all(|answer| answer.status == 409 && is_conflict(answer)), "{responses:?}");
    assert_eq!(outcome(&server.resume("talk", "r-2", &case.approve())), "completed");
    assert_eq!(case.sent(), 2);
    let responses = send_at_once(server.client(), vec![body("same".to_owned()); 4]);
    assert!(responses.iter().all(|answer| answer.status == 200 && *answer == responses[0]), "{responses:?}");
    assert_eq!(server.history("talk", "").body["turns"].as_array().unwrap().len(), 3);
    assert_eq!(case.sent(), 2);
    server.assert_no_internal_names_leaked(case);
}

fn send_at_once(client: &Client, bodies: Vec<Value>) -> Vec<Response> {
    std::thread::scope(|scope| {
        let send = |body: Value| {
            let client = client.clone();
            scope.spawn(move || client.post(CHAT, &body))
        };
        let sent: Vec<_> = bodies.into_iter().map(send).collect();
        sent.into_iter().map(|one| one.join().unwrap()).collect()
    })
}

/// Kills the server right after it has accepted a further turn, and sends the turn again.
pub(crate) fn kill_server_in_a_turn(case: &mut dyn ProviderCase, database: &TestDatabase) {
    let mut server = RecordedServer::open(database, case, &json!({"lockMs": 1000}));
    server.start_and_expect_interrupt(case, "talk");
    assert_eq!(outcome(&server.resume("talk", "r-1", &case.approve())), "completed");
    let body = json!({"stateKey": "talk", "turnId": "t-2", "input": case.next_input(), "waitMs": 0});
    let accepted = server.send("POST", CHAT, Some(&body));
    assert!([200, 202].contains(&accepted.status), "{accepted:?}");
    server.kill();
    server.start();
    let asked = server.turn("talk", "t-2", &case.next_input());
    assert_eq!(outcome(&asked), "needs_input", "{asked:?}");
    assert_eq!(server.history("talk", "").body["turns"].as_array().unwrap().len(), 2);
    let done = server.resume("talk", "r-2", &case.approve());
    assert_eq!((outcome(&done), case.sent()), ("completed", 2), "{done:?}");
    case.assert_continued(&done.body["output"]);
    server.assert_no_internal_names_leaked(case);
}

/// Sends a message in a front end after the graph has ended. It is the next turn of the state key.
pub(crate) fn continue_in_front_end(case: &mut dyn ProviderCase, database: &TestDatabase) {
    let server = RecordedServer::open(database, case, &json!({}));
    server.start_and_expect_interrupt(case, "talk");
    assert_eq!(outcome(&server.resume("talk", "r-1", &case.approve())), "completed");
    let thread = server.history("talk", "").body["turns"][0]["runId"].as_str().unwrap().to_owned();
    let front = FrontEnd::new(server.client(), workflow(case), &thread);
    server.record(&format!("{:?}", front.say("m-2", "once more")));
    let asked = server.get_chat("talk");
    assert_eq!(outcome(&asked), "needs_input", "{asked:?}");
    let done = server.resume("talk", "r-2", &case.approve());
    assert_eq!((outcome(&done), case.sent()), ("completed", 2), "{done:?}");
    case.assert_continued(&done.body["output"]);
    assert_eq!(server.history("talk", "").body["turns"].as_array().unwrap().len(), 2);
    server.assert_no_internal_names_leaked(case);
}

fn workflow(case: &dyn ProviderCase) -> &'static str {
    case.graph().strip_prefix("native:").unwrap_or(case.graph())
}

/// Cancels a turn that waits, by its run. The next turn continues the conversation.
pub(crate) fn continue_after_cancelled_turn(case: &mut dyn ProviderCase, database: &TestDatabase) {
    let server = RecordedServer::open(database, case, &json!({}));
    server.start_and_expect_interrupt(case, "talk");
    let run = server.waiting_run(workflow(case))["runId"].as_str().unwrap().to_owned();
    assert_eq!(server.send("POST", &format!("/v1/runs/{run}/cancel"), Some(&json!({}))).status, 200);
    assert_eq!(server.get_chat("talk").body["error"]["code"], "cancelled");
    let again = server.turn("talk", "t-2", &case.next_input());
    assert_eq!(case.sent(), 0, "the cancelled call was not made");
    // A model that repeated the call of the cancelled turn got rejections until it gave up.
    if outcome(&again) == "needs_input" {
        let done = server.resume("talk", "r-1", &case.approve());
        assert_eq!((outcome(&done), case.sent()), ("completed", 1), "{done:?}");
    } else {
        assert_eq!((outcome(&again), case.graph()), ("completed", "claude:publisher"), "{again:?}");
    }
    server.assert_no_internal_names_leaked(case);
}
