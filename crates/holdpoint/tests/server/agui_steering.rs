//! Messages sent together with answers, and messages for an active run: the agent gets them in the order of the thread.

use serde_json::{Value, json};

use crate::agui::{
    AguiEvents, AguiFixture, FLAGS, FrontEnd, approved, asking_agent, cancelled, declare, mailer,
};
use crate::agui_threads::{SlowReceiver, connect, read_until, start_slow_server};
use crate::harness::{client_with_key, linear};
use crate::receiver::Receiver;
use crate::test_database::{TestDatabase, on_both};

on_both!(
    messages_sent_with_cancelled_interrupts_reach_the_agent_at_once,
    messages_sent_with_answers_follow_the_results_of_the_answers,
);

/// Returns an agent that ends with the last message of the user.
fn repeating_agent(url: &str, to: &[&str]) -> Value {
    let mut agent = mailer(url, "ask", to);
    agent["model"]["steps"][1]["text"] = json!("You said {{user}}");
    agent
}

fn user(id: &str, text: &str) -> Value {
    json!({"id": id, "role": "user", "content": text})
}

fn ids(messages: &[Value]) -> Vec<&str> {
    messages.iter().map(|one| one["id"].as_str().unwrap().rsplit(':').next().unwrap()).collect()
}

fn texts(events: &AguiEvents) -> String {
    events.find("TEXT_MESSAGE_CONTENT").iter().map(|piece| piece["delta"].as_str().unwrap()).collect()
}

fn messages_sent_with_cancelled_interrupts_reach_the_agent_at_once(database: &TestDatabase) {
    let office = Receiver::start();
    let server = database.start(&FLAGS);
    declare(&server.client, &repeating_agent(&office.url, &["a@x.test", "b@x.test"]));
    let front = FrontEnd::new(&server.client, "mailer", "t1");
    let asked = front.say("u1", "Write to both").ids();
    let steer = json!({"messages": [user("u2", "rather tell me the time")],
        "resume": [cancelled(&asked[0]), cancelled(&asked[1])]});
    let events = front.post(steer.clone());
    assert_eq!(texts(events.assert_success()), "You said rather tell me the time");
    assert!(events.find("CUSTOM").is_empty(), "{events:?}");
    let messages = events.messages();
    assert_eq!(ids(&messages), ["u1", "reply-1", "result", "result", "u2", "reply-2"], "{messages:?}");
    assert!(office.requests().is_empty());
    let again = front.post(steer);
    assert!(
        again.assert_success().find("TEXT_MESSAGE_START").is_empty(),
        "the repeated request has no effect: {again:?}"
    );
    assert_eq!(again.messages(), messages);
}

fn messages_sent_with_answers_follow_the_results_of_the_answers(database: &TestDatabase) {
    let office = Receiver::start();
    let server = database.start(&FLAGS);
    declare(&server.client, &repeating_agent(&office.url, &["a@x.test", "b@x.test"]));
    let front = FrontEnd::new(&server.client, "mailer", "t1");
    let asked = front.say("u1", "Write to both").ids();
    let both = json!({"messages": [user("u2", "and hurry")],
        "resume": [approved(&asked[0]), cancelled(&asked[1])]});
    let events = front.post(both);
    assert_eq!(texts(events.assert_success()), "You said and hurry");
    assert_eq!(ids(&events.messages()), ["u1", "reply-1", "result", "result", "u2", "reply-2"]);
    assert_eq!(office.requests().len(), 1, "the approved call was made");
}

#[test]
fn messages_sent_with_a_vote_leave_the_interrupt_open() {
    let fixture = AguiFixture::new(|url| {
        let mut agent = repeating_agent(url, &["a@x.test"]);
        agent["approval"] = json!({"requiredApprovals": 2});
        agent
    });
    let front = fixture.front_end();
    let id = front.say("u1", "Write").ids()[0].clone();
    let events = front.post(json!({"messages": [user("u2", "ask Ann, too")], "resume": [approved(&id)]}));
    assert_eq!(events.ids()[0], id, "it waits for the second vote");
    assert_eq!(ids(&events.messages()), ["u1", "reply-1", "u2"]);
    let ann = client_with_key(&fixture.server.client, &json!({"principal": "ann"}));
    let events = FrontEnd::new(&ann, "mailer", "t1").resume(json!([approved(&id)]));
    assert_eq!(texts(events.assert_success()), "You said ask Ann, too");
    assert_eq!(fixture.mails().len(), 1);
}

#[test]
fn messages_sent_with_rejected_answers_are_not_stored() {
    let fixture = AguiFixture::new(|url| repeating_agent(url, &["a@x.test", "b@x.test"]));
    let front = fixture.front_end();
    let asked = front.say("u1", "Write").ids();
    let part = json!({"messages": [user("u2", "quick")], "resume": [approved(&asked[0])]});
    front.post(part).assert_refused("PARTIAL_RESUME");
    assert_eq!(front.thread()["messages"].as_array().unwrap().len(), 2);
    let key = fixture.server.client.post("/v1/keys", &json!({"scopes": ["runs:create"]})).body;
    let limited = fixture.server.client.with_key(key["key"].as_str());
    let steer = json!({"threadId": "t1", "runId": "r", "messages": [user("u2", "quick")],
        "resume": [cancelled(&asked[0]), cancelled(&asked[1])]});
    limited.post("/ag-ui/mailer", &steer).assert_envelope(403, "forbidden");
    assert_eq!(front.thread()["messages"].as_array().unwrap().len(), 2);
}

/// A clarification cannot be rejected: its run is cancelled, and the message starts the next run. A workflow that
/// continues accepts no message and rejects the request before it resolves an interrupt.
#[test]
fn messages_to_a_workflow_start_a_run_or_are_rejected_with_the_answers() {
    let server = crate::harness::Server::start();
    let questions = json!({"questions": [{"id": "why", "question": "Why?"}]});
    let gate = json!({"title": "Ship it?", "actions": ["accept", "reject"]});
    for workflow in [
        linear("asking", &[("ask", "core.clarificationGate", questions)]),
        linear("shipping", &[("gate", "core.approvalGate", gate)]),
    ] {
        let path = format!("/v1/workflows/{}", workflow["id"].as_str().unwrap());
        assert_eq!(server.client.put(&path, &workflow).status, 201);
    }
    let front = FrontEnd::new(&server.client, "asking", "t1");
    let id = front.say("u1", "Go").ids()[0].clone();
    let events = front.post(json!({"messages": [user("u2", "Other")], "resume": [cancelled(&id)]}));
    assert_ne!(events.ids()[0], id, "another run opens an interrupt");
    assert_eq!(ids(&events.messages()), ["u1", "u2"]);
    let front = FrontEnd::new(&server.client, "shipping", "t2");
    let id = front.say("u1", "Go").ids()[0].clone();
    let both = |entry: Value| json!({"messages": [user("u2", "Other")], "resume": [entry]});
    front.post(both(approved(&id))).assert_refused("THREAD_BUSY");
    front.post(both(cancelled(&id))).assert_refused("THREAD_BUSY");
    assert_eq!(front.thread()["interrupts"][0]["id"], id.as_str(), "the interrupt is still open");
    let wish = json!({"id": "s1", "role": "system", "content": "Be brief."});
    front.post(json!({"messages": [wish], "resume": [approved(&id)]})).assert_success();
}

/// Applies events as clients do: new messages are appended to known ones.
pub(crate) fn shown(mut known: Vec<String>, events: &AguiEvents) -> Vec<String> {
    let mut bound: Vec<(String, String)> = Vec::new();
    for event in &events.0 {
        let text = |name: &str| event[name].as_str().unwrap_or_default().to_owned();
        match event["type"].as_str().unwrap() {
            "TEXT_MESSAGE_START" => known.push(text("messageId")),
            "TOOL_CALL_START" => bound.push((text("toolCallId"), text("parentMessageId"))),
            "TOOL_CALL_RESULT" => {
                let call = text("toolCallId");
                let parent = bound.iter().find(|(id, _)| *id == call).map(|(_, parent)| parent.clone());
                let place = parent.and_then(|parent| known.iter().position(|id| *id == parent));
                let place = place.map_or(known.len(), |at| at + 1);
                known.insert(place, text("messageId"));
            }
            "MESSAGES_SNAPSHOT" => {
                let messages = event["messages"].as_array().unwrap();
                let all: Vec<String> =
                    messages.iter().map(|one| one["id"].as_str().unwrap().to_owned()).collect();
                for message in messages {
                    for call in message["toolCalls"].as_array().into_iter().flatten() {
                        let id = call["id"].as_str().unwrap().to_owned();
                        bound.push((id, message["id"].as_str().unwrap().to_owned()));
                    }
                }
                known.retain(|id| all.contains(id));
                let new: Vec<String> = all.into_iter().filter(|id| !known.contains(id)).collect();
                known.extend(new);
            }
            _ => {}
        }
    }
    known
}

#[test]
fn two_tabs_of_an_active_run_show_the_thread_in_the_same_order() {
    let (slow, server, _folder) = start_slow_server();
    let SlowReceiver { office, arrived, open } = slow;
    let front = FrontEnd::new(&server.client, "mailer", "t1");
    let first = json!({"messages": [user("a1", "Write")]});
    let (first, second, joined) = std::thread::scope(|scope| {
        let first = scope.spawn(|| front.post(first));
        arrived.recv().unwrap();
        // The second tab knows only its own message. Both messages go to one run.
        let mut second = connect(&server, &front.input(json!({"messages": [user("b1", "Quickly")]})));
        read_until(&mut second, "RUN_STARTED");
        let joined = scope
            .spawn(|| AguiEvents::request(&server.client, "GET", "/ag-ui/mailer/threads/t1/stream", None));
        let events = scope.spawn(move || crate::agui_threads::read_rest(second));
        open.send(()).unwrap();
        (first.join().unwrap(), events.join().unwrap(), joined.join().unwrap())
    });
    let truth = front.thread()["messages"].as_array().unwrap().clone();
    let order = ids(&truth);
    assert_eq!(order[..3], ["a1", "reply-1", "result"], "{truth:?}");
    assert_eq!(order[order.len() - 2], "b1", "the last reply is one to the second tab: {truth:?}");
    let truth: Vec<String> = truth.iter().map(|one| one["id"].as_str().unwrap().to_owned()).collect();
    assert_eq!(shown(vec!["a1".to_owned()], &first), truth, "the first tab: {first:?}");
    assert_eq!(shown(vec!["b1".to_owned()], &second), truth, "the second tab: {second:?}");
    assert_eq!(shown(Vec::new(), &joined), truth, "a page that joined: {joined:?}");
    assert_eq!(office.requests().len(), 1);
}

#[test]
fn a_client_that_has_the_thread_gets_one_messages_snapshot() {
    let fixture = AguiFixture::new(asking_agent);
    let front = fixture.front_end();
    let first = front.say("u1", "Write to Bob");
    let id = first.ids()[0].clone();
    let events = front.post(json!({"messages": first.messages(), "resume": [approved(&id)]}));
    assert_eq!(events.assert_success().find("MESSAGES_SNAPSHOT").len(), 1, "{events:?}");
}
