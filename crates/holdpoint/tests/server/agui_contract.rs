//! Rules for front ends: a repeated request executes no call twice, and a rejected request resolves no interrupt.

use serde_json::json;

use crate::agui::{AguiFixture, FrontEnd, approved, asking_agent, cancelled, declare, mailer, resolved};
use crate::harness::client_with_key;

#[test]
fn an_incomplete_resume_is_rejected_and_resolves_no_interrupt() {
    let fixture = AguiFixture::new(|url| mailer(url, "ask", &["a@x.test", "b@x.test"]));
    let front = fixture.front_end();
    let ids = front.say("u1", "Write to both").ids();
    front.resume(json!([approved(&ids[0])])).assert_refused("PARTIAL_RESUME");
    front.resume(json!([approved(&ids[0]), approved("unknown:i1")])).assert_refused("UNKNOWN_INTERRUPT_ID");
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
    assert!(fixture.mails().is_empty(), "no mail was sent");
    assert_eq!(front.thread()["interrupts"].as_array().unwrap().len(), 2, "both interrupts are open");
    front.resume(json!([approved(&ids[0]), approved(&ids[1])])).assert_success();
    assert_eq!(fixture.mails().len(), 2);
}

#[test]
fn an_open_interrupt_blocks_new_input() {
    let fixture = AguiFixture::new(asking_agent);
    let front = fixture.front_end();
    let first = front.say("u1", "Write to Bob");
    let id = first.ids()[0].clone();
    front.say("u2", "Never mind").assert_refused("PENDING_INTERRUPTS");
    front.post(json!({"messages": []})).assert_refused("PENDING_INTERRUPTS");
    let known = front.thread();
    assert_eq!((&known["interrupts"][0]["id"], &known["running"]), (&json!(id), &json!(false)));
    assert_eq!(known["messages"].as_array().unwrap().len(), 2, "a rejected message is not stored: {known}");
    front.resume(json!([approved(&id)])).assert_success();
    front.say("u2", "Never mind").interrupts();
}

#[test]
fn a_repeated_resume_has_no_effect_and_a_different_answer_is_rejected() {
    let fixture = AguiFixture::new(asking_agent);
    let front = fixture.front_end();
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
    assert_eq!(fixture.mails().len(), 1);
}

#[test]
fn of_four_concurrent_identical_resumes_one_executes_and_all_succeed() {
    let fixture = AguiFixture::new(asking_agent);
    let id = fixture.front_end().say("u1", "Write to Bob").ids()[0].clone();
    let events: Vec<_> = std::thread::scope(|scope| {
        let send = || fixture.front_end().resume(json!([approved(&id)]));
        let all: Vec<_> = (0..4).map(|_| scope.spawn(send)).collect();
        all.into_iter().map(|one| one.join().unwrap()).collect()
    });
    for one in &events {
        one.assert_success();
        assert_eq!(one.messages(), events[0].messages());
    }
    let results = events.iter().filter(|one| !one.find("TOOL_CALL_RESULT").is_empty()).count();
    assert_eq!(results, 1, "the other streams repeat the state");
    assert_eq!(fixture.mails().len(), 1);
}

#[test]
fn an_expired_interrupt_can_only_be_cancelled() {
    let fixture = AguiFixture::new(|url| {
        let mut agent = asking_agent(url);
        agent["approval"] = json!({"timeoutMs": 200});
        agent
    });
    let front = fixture.front_end();
    let first = front.say("u1", "Write to Bob");
    let id = first.ids()[0].clone();
    assert!(first.interrupts()[0]["expiresAt"].as_str().unwrap().ends_with('Z'));
    fixture.server.client.wait_for_end(id.rsplit_once(':').unwrap().0);
    front.resume(json!([approved(&id)])).assert_refused("INTERRUPT_EXPIRED");
    let events = front.resume(json!([cancelled(&id)]));
    assert_eq!(events.assert_success().messages().len(), 4, "the agent continued without an answer");
    assert!(fixture.mails().is_empty());
}

#[test]
fn two_interrupts_in_a_row_are_two_segments_and_an_old_answer_does_not_resolve_the_next() {
    let fixture = AguiFixture::new(|url| {
        let mut agent = asking_agent(url);
        let call = |id: &str, to: &str| json!({"id": id, "name": "sendEmail", "arguments": {"to": to}});
        agent["model"]["steps"] = json!([
            {"text": "One.", "calls": [call("c1", "a@x.test")]}, {"text": "Two.", "calls": [call("c2", "b@x.test")]},
            {"text": "Done."},
        ]);
        agent
    });
    let front = fixture.front_end();
    let first = front.say("u1", "Write to both").ids()[0].clone();
    let events = front.resume(json!([approved(&first)]));
    let second = events.ids()[0].clone();
    assert_eq!(events.find("TOOL_CALL_RESULT").len(), 1);
    assert_ne!(first, second);
    let again = front.resume(json!([approved(&first)]));
    assert_eq!(
        (again.ids(), again.kinds().len()),
        (vec![second.clone()], 4),
        "the stream shows the open interrupt"
    );
    front.resume(json!([approved(&first), approved(&second)])).assert_success();
    assert_eq!(fixture.mails().len(), 2);
}

#[test]
fn a_principal_that_may_not_decide_is_rejected_and_the_interrupt_stays_open() {
    let fixture = AguiFixture::new(|url| {
        let mut agent = asking_agent(url);
        agent["approval"] = json!({"approversList": ["carol"]});
        agent
    });
    let front = fixture.front_end();
    let id = front.say("u1", "Write to Bob").ids()[0].clone();
    front.resume(json!([approved(&id)])).assert_refused("FORBIDDEN");
    let carol = client_with_key(&fixture.server.client, &json!({"principal": "carol"}));
    let carol = FrontEnd::new(&carol, "mailer", "t1");
    carol.resume(json!([approved(&id)])).assert_success();
    assert_eq!(fixture.mails().len(), 1);
}

#[test]
fn threads_and_interrupts_of_another_tenant_are_not_found() {
    let fixture = AguiFixture::new(asking_agent);
    let id = fixture.front_end().say("u1", "Write to Bob").ids()[0].clone();
    let client = &fixture.server.client;
    let scopes = ["manifest:read", "manifest:write", "runs:create", "runs:read", "approvals:respond"];
    let key = client.post("/v1/keys", &json!({"tenant": "elsewhere", "scopes": scopes})).body;
    let elsewhere = client.with_key(key["key"].as_str());
    let thread = |path: &str| elsewhere.get(&format!("/ag-ui/mailer{path}"));
    thread("/threads/t1").assert_envelope(404, "not_found");
    thread("/capabilities").assert_envelope(404, "not_found");
    declare(&elsewhere, &asking_agent(&fixture.post_office.url));
    thread("/threads/t1").assert_envelope(404, "not_found");
    let joined = elsewhere.exchange("GET", "/ag-ui/mailer/threads/t1/stream", None, &[]);
    assert_eq!((joined.status().as_u16(), joined.body().as_str()), (200, ""), "as for an unknown thread");
    let front = FrontEnd::new(&elsewhere, "mailer", "t1");
    front.resume(json!([approved(&id)])).assert_refused("UNKNOWN_INTERRUPT_ID");
    let other = FrontEnd::new(client, "mailer", "t2");
    other.resume(json!([approved(&id)])).assert_refused("UNKNOWN_INTERRUPT_ID");
    assert!(fixture.mails().is_empty());
}
