//! Two tool calls of one agent wait at the same node: an answer resolves the interrupt that was shown, or is rejected.

use serde_json::{Value, json};

use crate::agui::{AguiFixture, approved, mailer, resolved};
use crate::harness::{Client, Response, accept};
use crate::links::{Link, mint};

const FIRST: &str = "ann@example.test";
const SECOND: &str = "bob@example.test";

/// A run whose agent waits with two calls: mails to Ann and to Bob.
struct Calls {
    fixture: AguiFixture,
    run: String,
    node: String,
    /// The interrupts of the two calls.
    ids: [String; 2],
}

impl Calls {
    fn new() -> Self {
        let fixture = AguiFixture::new(|url| mailer(url, "ask", &[FIRST, SECOND]));
        let events = fixture.front_end().say("u1", "Send them");
        let ids: [String; 2] = events.ids().try_into().unwrap();
        let run = ids[0].rsplit_once(':').unwrap().0.to_owned();
        let node = rows(&fixture.server.client)[0]["nodeId"].as_str().unwrap().to_owned();
        Self { fixture, run, node, ids }
    }

    fn client(&self) -> &Client {
        &self.fixture.server.client
    }

    fn path(&self) -> String {
        format!("/v1/runs/{}/interrupts/{}", self.run, self.node)
    }

    fn assert_ambiguous(&self, answer: &Response) {
        answer.assert_envelope(409, "interrupt_ambiguous");
        assert_eq!(answer.body["details"]["interruptIds"], json!(self.ids), "{answer:?}");
        assert_eq!(rows(self.client()).len(), 2, "no interrupt was resolved");
    }

    /// Asserts that the second call was made and the first one still waits.
    fn assert_second_sent(&self) {
        let mails = crate::tool_server::wait_until("a mail", || {
            Some(self.fixture.mails()).filter(|all| !all.is_empty())
        });
        assert_eq!(mails.len(), 1);
        assert_eq!(mails[0]["to"], SECOND);
        let open = rows(self.client());
        assert_eq!(open.iter().map(|row| &row["interruptId"]).collect::<Vec<_>>(), [&json!(self.ids[0])]);
    }
}

fn rows(client: &Client) -> Vec<Value> {
    client.get("/v1/interrupts").body["interrupts"].as_array().unwrap().clone()
}

#[test]
fn a_route_answers_the_interrupt_that_is_named_and_refuses_an_answer_without_a_name() {
    let calls = Calls::new();
    let client = calls.client();
    let value = json!({"resumeValue": accept()});
    calls.assert_ambiguous(&client.post(&calls.path(), &value));
    calls.assert_ambiguous(
        &client.post(&format!("/v1/runs/{}/approvals/{}", calls.run, calls.node), &accept()),
    );
    let named = json!({"resumeValue": accept(), "interruptId": calls.ids[1]});
    let other = format!("{}?interruptId={}", calls.path(), calls.ids[0]);
    let both = client.post(&other, &named);
    both.assert_envelope(400, "validation_error");
    assert_eq!(both.body["details"]["field"], "interruptId");
    let stray = json!({"resumeValue": accept(), "interruptId": "x:i1"});
    client.post(&calls.path(), &stray).assert_envelope(404, "interrupt_not_found");
    let answered = client.post(&calls.path(), &named);
    assert_eq!((answered.status, &answered.body["interruptId"]), (200, &json!(calls.ids[1])), "{answered:?}");
    calls.assert_second_sent();
    // Only one is open now.
    assert_eq!(client.post(&calls.path(), &value).body["interruptId"], json!(calls.ids[0]));
}

#[test]
fn the_link_of_each_pending_row_answers_that_row() {
    let calls = Calls::new();
    let row = rows(calls.client()).into_iter().find(|row| row["interruptId"] == json!(calls.ids[1])).unwrap();
    let resolve = row["links"]["resolve"].as_str().unwrap();
    // One idempotency key for two rows means two requests.
    let key = [("idempotency-key", "k1")];
    let body = json!({"resumeValue": accept()}).to_string();
    let sent = calls.client().exchange("POST", resolve, Some(body.as_bytes()), &key);
    assert_eq!(sent.status(), 200, "{}", sent.body());
    calls.assert_second_sent();
    let first = rows(calls.client())[0]["links"]["resolve"].as_str().unwrap().to_owned();
    let sent = calls.client().exchange("POST", &first, Some(body.as_bytes()), &key);
    assert!(sent.body().contains(&calls.ids[0]), "{}", sent.body());
}

#[test]
fn a_signed_link_is_made_for_one_of_several_interrupts() {
    let calls = Calls::new();
    calls.assert_ambiguous(&mint(calls.client(), &calls.run, &calls.node, &json!({})));
    let wanted = json!({"interruptId": calls.ids[1]});
    let link = Link::mint(calls.client(), &calls.run, &calls.node, &wanted);
    assert_eq!(link.minted["interruptId"], json!(calls.ids[1]));
    assert_eq!(link.open().body["data"]["toolCall"]["arguments"]["to"], SECOND);
    assert_eq!(link.answer(&accept()).status, 200);
    calls.assert_second_sent();
}

#[test]
fn the_link_of_a_snapshot_is_bound_to_the_interrupt_that_it_shows() {
    let calls = Calls::new();
    let shown = calls.client().get(&format!("/v1/runs/{}", calls.run)).body["interrupt"].clone();
    assert_eq!(shown["openInterruptIds"], json!(calls.ids));
    let path = format!("/v1/interrupts/{}", shown["interruptToken"].as_str().unwrap());
    let visitor = calls.client().with_key(None);
    let other = json!({"resumeValue": accept(), "interruptId": calls.ids[1]});
    visitor.post(&path, &other).assert_envelope(404, "interrupt_not_found");
    let answered = visitor.post(&path, &json!({"resumeValue": accept()}));
    assert_eq!(answered.body["interruptId"], shown["interruptId"], "{answered:?}");
}

#[test]
fn a_side_question_belongs_to_one_of_several_interrupts() {
    let calls = Calls::new();
    let client = calls.client();
    let question = json!({"action": "ask", "question": "Why Bob?"});
    let asked = client.post(&calls.path(), &json!({"resumeValue": question, "interruptId": calls.ids[1]}));
    assert_eq!(asked.body["outcome"], "asked", "{asked:?}");
    let asks = format!("{}/asks", calls.path());
    calls.assert_ambiguous(&client.get(&asks));
    calls.assert_ambiguous(&client.post(&format!("{asks}/1"), &json!({"answer": "So."})));
    let listed = |id: &str| client.get(&format!("{asks}?interruptId={id}")).body["asks"].clone();
    assert_eq!(listed(&calls.ids[0]), json!([]));
    assert_eq!(listed(&calls.ids[1])[0]["question"], "Why Bob?");
    let answer = json!({"answer": "So.", "interruptId": calls.ids[1]});
    assert_eq!(client.post(&format!("{asks}/1"), &answer).status, 200);
    let wrong = json!({"answer": "So.", "interruptId": calls.ids[0]});
    client.post(&format!("{asks}/1"), &wrong).assert_envelope(404, "ask_not_found");
}

#[test]
fn a_front_end_answers_each_call_by_its_id_in_any_order() {
    let calls = Calls::new();
    let front = calls.fixture.front_end();
    front.resume(json!([approved(&calls.ids[1])])).assert_refused("PARTIAL_RESUME");
    let no = resolved(&calls.ids[0], json!({"approved": false}));
    front.resume(json!([approved(&calls.ids[1]), no])).assert_success();
    let mails = calls.fixture.mails();
    assert_eq!((mails.len(), &mails[0]["to"]), (1, &json!(SECOND)));
}

#[test]
fn a_chat_answer_names_its_interrupt() {
    let fixture = AguiFixture::new(|url| mailer(url, "ask", &[FIRST, SECOND]));
    let client = &fixture.server.client;
    let start = json!({"graph": "native:agent:mailer", "stateKey": "s1", "input": {"message": "Send them"}});
    let started = client.post("/api/v1/ai/chat", &start);
    let items = started.body["interrupt"]["data"]["items"].as_array().unwrap().clone();
    assert_eq!(items.len(), 2, "{started:?}");
    let answer = |id: &str, value: Value| {
        client.post("/api/v1/ai/chat", &json!({"stateKey": "s1", "resumeId": id, "resumeValue": value}))
    };
    let refused = answer("r1", accept());
    refused.assert_envelope(409, "interrupt_ambiguous");
    assert_eq!(refused.body["details"]["interruptIds"].as_array().unwrap().len(), 2, "{refused:?}");
    let answered = answer("r2", json!({items[1]["key"].as_str().unwrap(): accept()}));
    assert_eq!(answered.status, 200, "{answered:?}");
    let mails =
        crate::tool_server::wait_until("a mail", || Some(fixture.mails()).filter(|all| !all.is_empty()));
    assert_eq!((mails.len(), &mails[0]["to"]), (1, &json!(SECOND)));
}

#[test]
fn the_command_line_answers_the_interrupt_that_it_names() {
    let calls = Calls::new();
    let server = &calls.fixture.server;
    let run_command = |arguments: &[&str]| {
        let output = server.run(arguments);
        let text = [output.stdout, output.stderr].concat();
        (output.status.success(), String::from_utf8(text).unwrap())
    };
    let (done, text) = run_command(&["answer", &calls.run, &calls.node, "accept"]);
    assert!(!done && text.contains("interrupt_ambiguous") && text.contains("--interrupt"), "{text}");
    let (_, shown) = run_command(&["runs", "show", &calls.run]);
    assert!(shown.contains(&format!("--interrupt {}", calls.ids[0])), "{shown}");
    let (_, pending) = run_command(&["pending"]);
    assert!(calls.ids.iter().all(|id| pending.contains(id.as_str())), "{pending}");
    let (minted, text) = run_command(&["links", "mint", &calls.run, &calls.node]);
    assert!(!minted && text.contains("interrupt_ambiguous"), "{text}");
    assert!(run_command(&["links", "mint", &calls.run, &calls.node, "--interrupt", &calls.ids[1]]).0);
    let (done, text) =
        run_command(&["answer", &calls.run, &calls.node, "accept", "--interrupt", &calls.ids[1]]);
    assert!(done, "{text}");
    calls.assert_second_sent();
}
