//! What a front end may not do, and what it may do again: nothing is executed twice, and what is refused consumes nothing.

use serde_json::json;

use crate::agui::{Front, World, approved, asking, cancelled, declare, mailer, resolved};
use crate::harness::keyed;

#[test]
fn a_resume_that_does_not_cover_everything_consumes_nothing() {
    let world = World::new(|url| mailer(url, "ask", &["a@x.test", "b@x.test"]));
    let front = world.front();
    let ids = front.say("u1", "Write to both").ids();
    front.resume(json!([approved(&ids[0])])).assert_refused("PARTIAL_RESUME");
    front.resume(json!([approved(&ids[0]), approved("nobody:i1")])).assert_refused("UNKNOWN_INTERRUPT_ID");
    let unknown = json!([approved(&ids[0]), approved(&ids[1]), approved(&ids[0].replace(":i1", ":i9"))]);
    front.resume(unknown).assert_refused("UNKNOWN_INTERRUPT_ID");
    let twice = json!([approved(&ids[0]), approved(&ids[0]), approved(&ids[1])]);
    front.resume(twice).assert_refused("DUPLICATE_INTERRUPT_ID");
    for payload in [json!({}), json!({"approved": "yes"}), json!({"approved": true, "editedArgs": 7})] {
        let bad = json!([approved(&ids[0]), resolved(&ids[1], payload)]);
        front.resume(bad).assert_refused("INVALID_PAYLOAD");
    }
    let none = json!([approved(&ids[0]), {"interruptId": ids[1], "status": "resolved"}]);
    front.resume(none).assert_refused("INVALID_PAYLOAD");
    assert!(world.mails().is_empty(), "nothing was done");
    assert_eq!(front.thread()["interrupts"].as_array().unwrap().len(), 2, "and nothing was consumed");
    front.resume(json!([approved(&ids[0]), approved(&ids[1])])).assert_success();
    assert_eq!(world.mails().len(), 2);
}

#[test]
fn what_waits_blocks_new_input() {
    let world = World::new(asking);
    let front = world.front();
    let first = front.say("u1", "Write to Bob");
    let id = first.ids()[0].clone();
    front.say("u2", "Never mind").assert_refused("PENDING_INTERRUPTS");
    front.post(json!({"messages": []})).assert_refused("PENDING_INTERRUPTS");
    let known = front.thread();
    assert_eq!((&known["interrupts"][0]["id"], &known["running"]), (&json!(id), &json!(false)));
    assert_eq!(known["messages"].as_array().unwrap().len(), 2, "what was refused was not heard: {known}");
    front.resume(json!([approved(&id)])).assert_success();
    front.say("u2", "Never mind").interrupts();
}

#[test]
fn a_resume_told_again_executes_nothing_and_another_answer_is_refused() {
    let world = World::new(asking);
    let front = world.front();
    let id = front.say("u1", "Write to Bob").ids()[0].clone();
    let first = front.resume(json!([approved(&id)]));
    first.assert_success();
    for run in ["wire-run", "another-run"] {
        let again = front.post(json!({"runId": run, "resume": [approved(&id)]}));
        assert_eq!(
            again.assert_success().kinds(),
            ["RUN_STARTED", "STATE_SNAPSHOT", "MESSAGES_SNAPSHOT", "RUN_FINISHED"]
        );
        assert_eq!(again.last()["runId"], run);
        assert_eq!(again.messages(), first.messages());
    }
    for other in [resolved(&id, json!({"approved": false})), cancelled(&id)] {
        front.resume(json!([other])).assert_refused("ALREADY_ANSWERED");
    }
    let edited = resolved(&id, json!({"approved": true, "editedArgs": {"to": "eve@x.test"}}));
    front.resume(json!([edited])).assert_refused("ALREADY_ANSWERED");
    assert_eq!(world.mails().len(), 1);
}

#[test]
fn of_four_identical_resumes_at_once_one_executes_and_all_succeed() {
    let world = World::new(asking);
    let id = world.front().say("u1", "Write to Bob").ids()[0].clone();
    let told: Vec<_> = std::thread::scope(|scope| {
        let send = || world.front().resume(json!([approved(&id)]));
        let all: Vec<_> = (0..4).map(|_| scope.spawn(send)).collect();
        all.into_iter().map(|one| one.join().unwrap()).collect()
    });
    for one in &told {
        one.assert_success();
        assert_eq!(one.messages(), told[0].messages());
    }
    let results = told.iter().filter(|one| !one.find("TOOL_CALL_RESULT").is_empty()).count();
    assert_eq!(results, 1, "the others restate");
    assert_eq!(world.mails().len(), 1);
}

#[test]
fn after_its_time_an_interrupt_is_only_cancelled() {
    let world = World::new(|url| {
        let mut agent = asking(url);
        agent["approval"] = json!({"timeoutMs": 200});
        agent
    });
    let front = world.front();
    let first = front.say("u1", "Write to Bob");
    let id = first.ids()[0].clone();
    assert!(first.interrupts()[0]["expiresAt"].as_str().unwrap().ends_with('Z'));
    world.server.client.ended(id.rsplit_once(':').unwrap().0);
    front.resume(json!([approved(&id)])).assert_refused("INTERRUPT_EXPIRED");
    let told = front.resume(json!([cancelled(&id)]));
    assert_eq!(told.assert_success().messages().len(), 4, "the agent went on without an answer");
    assert!(world.mails().is_empty());
}

#[test]
fn two_pauses_in_a_row_are_two_segments_and_an_old_answer_does_not_answer_the_next() {
    let world = World::new(|url| {
        let mut agent = asking(url);
        let call = |id: &str, to: &str| json!({"id": id, "name": "sendEmail", "arguments": {"to": to}});
        agent["model"]["steps"] = json!([
            {"text": "One.", "calls": [call("c1", "a@x.test")]}, {"text": "Two.", "calls": [call("c2", "b@x.test")]},
            {"text": "Done."},
        ]);
        agent
    });
    let front = world.front();
    let first = front.say("u1", "Write to both").ids()[0].clone();
    let told = front.resume(json!([approved(&first)]));
    let second = told.ids()[0].clone();
    assert_eq!(told.find("TOOL_CALL_RESULT").len(), 1);
    assert_ne!(first, second);
    let again = front.resume(json!([approved(&first)]));
    assert_eq!(
        (again.ids(), again.kinds().len()),
        (vec![second.clone()], 4),
        "what is open now is told again"
    );
    front.resume(json!([approved(&first), approved(&second)])).assert_success();
    assert_eq!(world.mails().len(), 2);
}

#[test]
fn who_may_not_decide_is_told_so_and_the_question_stays() {
    let world = World::new(|url| {
        let mut agent = asking(url);
        agent["approval"] = json!({"approversList": ["carol"]});
        agent
    });
    let front = world.front();
    let id = front.say("u1", "Write to Bob").ids()[0].clone();
    front.resume(json!([approved(&id)])).assert_refused("FORBIDDEN");
    let carol = keyed(&world.server.client, &json!({"principal": "carol"}));
    let carol = Front::new(&carol, "mailer", "t1");
    carol.resume(json!([approved(&id)])).assert_success();
    assert_eq!(world.mails().len(), 1);
}

#[test]
fn what_is_another_tenants_is_not_there() {
    let world = World::new(asking);
    let id = world.front().say("u1", "Write to Bob").ids()[0].clone();
    let client = &world.server.client;
    let scopes = ["manifest:read", "manifest:write", "runs:create", "runs:read", "approvals:respond"];
    let key = client.post("/v1/keys", &json!({"tenant": "elsewhere", "scopes": scopes})).body;
    let elsewhere = client.with_key(key["key"].as_str());
    let thread = |path: &str| elsewhere.get(&format!("/ag-ui/mailer{path}"));
    thread("/threads/t1").assert_envelope(404, "not_found");
    thread("/capabilities").assert_envelope(404, "not_found");
    declare(&elsewhere, &asking(&world.post_office.url));
    thread("/threads/t1").assert_envelope(404, "not_found");
    let joined = elsewhere.exchange("GET", "/ag-ui/mailer/threads/t1/stream", None, &[]);
    assert_eq!((joined.status().as_u16(), joined.body().as_str()), (200, ""), "as if it never was");
    let front = Front::new(&elsewhere, "mailer", "t1");
    front.resume(json!([approved(&id)])).assert_refused("UNKNOWN_INTERRUPT_ID");
    let other = Front::new(client, "mailer", "t2");
    other.resume(json!([approved(&id)])).assert_refused("UNKNOWN_INTERRUPT_ID");
    assert!(world.mails().is_empty());
}
