//! Words that come beside answers, and words for a run at work: they are heard, in the order of the thread.

use serde_json::{Value, json};

use crate::agui::{FLAGS, Front, Told, World, approved, asking, cancelled, declare, mailer};
use crate::agui_threads::{Slow, connect, read_until, slow_world};
use crate::harness::{keyed, line};
use crate::place::{Place, on_both};
use crate::receiver::Receiver;

on_both!(
    words_beside_cancelled_interrupts_are_heard_at_once,
    words_beside_answers_are_heard_behind_what_the_answers_do,
);

/// Says at the end what it heard last.
fn repeating(url: &str, to: &[&str]) -> Value {
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

fn texts(told: &Told) -> String {
    told.find("TEXT_MESSAGE_CONTENT").iter().map(|piece| piece["delta"].as_str().unwrap()).collect()
}

fn words_beside_cancelled_interrupts_are_heard_at_once(place: &Place) {
    let office = Receiver::start();
    let server = place.start(&FLAGS);
    declare(&server.client, &repeating(&office.url, &["a@x.test", "b@x.test"]));
    let front = Front::new(&server.client, "mailer", "t1");
    let asked = front.say("u1", "Write to both").ids();
    let steer = json!({"messages": [user("u2", "rather tell me the time")],
        "resume": [cancelled(&asked[0]), cancelled(&asked[1])]});
    let told = front.post(steer.clone());
    assert_eq!(texts(told.assert_success()), "You said rather tell me the time");
    assert!(told.find("CUSTOM").is_empty(), "{told:?}");
    let said = told.messages();
    assert_eq!(ids(&said), ["u1", "reply-1", "result", "result", "u2", "reply-2"], "{said:?}");
    assert!(office.so_far().is_empty());
    let again = front.post(steer);
    assert!(again.assert_success().find("TEXT_MESSAGE_START").is_empty(), "it does nothing: {again:?}");
    assert_eq!(again.messages(), said);
}

fn words_beside_answers_are_heard_behind_what_the_answers_do(place: &Place) {
    let office = Receiver::start();
    let server = place.start(&FLAGS);
    declare(&server.client, &repeating(&office.url, &["a@x.test", "b@x.test"]));
    let front = Front::new(&server.client, "mailer", "t1");
    let asked = front.say("u1", "Write to both").ids();
    let both = json!({"messages": [user("u2", "and hurry")],
        "resume": [approved(&asked[0]), cancelled(&asked[1])]});
    let told = front.post(both);
    assert_eq!(texts(told.assert_success()), "You said and hurry");
    assert_eq!(ids(&told.messages()), ["u1", "reply-1", "result", "result", "u2", "reply-2"]);
    assert_eq!(office.so_far().len(), 1, "what was approved is done");
}

#[test]
fn words_beside_a_vote_do_not_take_the_interrupt_back() {
    let world = World::new(|url| {
        let mut agent = repeating(url, &["a@x.test"]);
        agent["approval"] = json!({"requiredApprovals": 2});
        agent
    });
    let front = world.front();
    let id = front.say("u1", "Write").ids()[0].clone();
    let told = front.post(json!({"messages": [user("u2", "ask Ann, too")], "resume": [approved(&id)]}));
    assert_eq!(told.ids()[0], id, "it still waits for the other");
    assert_eq!(ids(&told.messages()), ["u1", "reply-1", "u2"]);
    let ann = keyed(&world.server.client, &json!({"principal": "ann"}));
    let told = Front::new(&ann, "mailer", "t1").resume(json!([approved(&id)]));
    assert_eq!(texts(told.assert_success()), "You said ask Ann, too");
    assert_eq!(world.mails().len(), 1);
}

#[test]
fn words_beside_answers_that_are_rejected_are_not_heard() {
    let world = World::new(|url| repeating(url, &["a@x.test", "b@x.test"]));
    let front = world.front();
    let asked = front.say("u1", "Write").ids();
    let part = json!({"messages": [user("u2", "quick")], "resume": [approved(&asked[0])]});
    front.post(part).assert_refused("PARTIAL_RESUME");
    assert_eq!(front.thread()["messages"].as_array().unwrap().len(), 2);
    let key = world.server.client.post("/v1/keys", &json!({"scopes": ["runs:create"]})).body;
    let limited = world.server.client.with_key(key["key"].as_str());
    let steer = json!({"threadId": "t1", "runId": "r", "messages": [user("u2", "quick")],
        "resume": [cancelled(&asked[0]), cancelled(&asked[1])]});
    limited.post("/ag-ui/mailer", &steer).assert_envelope(403, "forbidden");
    assert_eq!(front.thread()["messages"].as_array().unwrap().len(), 2);
}

/// What cannot be declined is cancelled with its run, and the words begin the next one. A workflow that goes on takes no
/// words, and says so before anything is done.
#[test]
fn words_to_a_workflow_begin_a_run_or_are_rejected_with_the_answers() {
    let server = crate::harness::Server::start();
    let questions = json!({"questions": [{"id": "why", "question": "Why?"}]});
    let gate = json!({"title": "Ship it?", "actions": ["accept", "reject"]});
    for workflow in [
        line("asking", &[("ask", "core.clarificationGate", questions)]),
        line("shipping", &[("gate", "core.approvalGate", gate)]),
    ] {
        let path = format!("/v1/workflows/{}", workflow["id"].as_str().unwrap());
        assert_eq!(server.client.put(&path, &workflow).status, 201);
    }
    let front = Front::new(&server.client, "asking", "t1");
    let id = front.say("u1", "Go").ids()[0].clone();
    let told = front.post(json!({"messages": [user("u2", "Other")], "resume": [cancelled(&id)]}));
    assert_ne!(told.ids()[0], id, "another run asks");
    assert_eq!(ids(&told.messages()), ["u1", "u2"]);
    let front = Front::new(&server.client, "shipping", "t2");
    let id = front.say("u1", "Go").ids()[0].clone();
    let both = |entry: Value| json!({"messages": [user("u2", "Other")], "resume": [entry]});
    front.post(both(approved(&id))).assert_refused("THREAD_BUSY");
    front.post(both(cancelled(&id))).assert_refused("THREAD_BUSY");
    assert_eq!(front.thread()["interrupts"][0]["id"], id.as_str(), "nothing was done");
    let wish = json!({"id": "s1", "role": "system", "content": "Be brief."});
    front.post(json!({"messages": [wish], "resume": [approved(&id)]})).assert_success();
}

/// Applies events as clients do: those that are new to them go behind those that they have.
fn shown(mut known: Vec<String>, told: &Told) -> Vec<String> {
    let mut bound: Vec<(String, String)> = Vec::new();
    for event in &told.0 {
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
fn two_tabs_of_a_run_at_work_show_the_thread_in_its_order() {
    let (slow, server, _folder) = slow_world();
    let Slow { office, arrived, open } = slow;
    let front = Front::new(&server.client, "mailer", "t1");
    let first = json!({"messages": [user("a1", "Write")]});
    let (first, second, joined) = std::thread::scope(|scope| {
        let first = scope.spawn(|| front.post(first));
        arrived.recv().unwrap();
        // The second tab has nothing but its own words; both are told to one run.
        let mut second = connect(&server, &front.input(json!({"messages": [user("b1", "Quickly")]})));
        read_until(&mut second, "RUN_STARTED");
        let joined = scope.spawn(|| Told::of(&server.client, "GET", "/ag-ui/mailer/threads/t1/stream", None));
        let told = scope.spawn(move || crate::agui_threads::rest(second));
        open.send(()).unwrap();
        (first.join().unwrap(), told.join().unwrap(), joined.join().unwrap())
    });
    let truth = front.thread()["messages"].as_array().unwrap().clone();
    let order = ids(&truth);
    assert_eq!(order[..3], ["a1", "reply-1", "result"], "{truth:?}");
    assert_eq!(order[order.len() - 2], "b1", "the last reply is one to the second tab: {truth:?}");
    let truth: Vec<String> = truth.iter().map(|one| one["id"].as_str().unwrap().to_owned()).collect();
    assert_eq!(shown(vec!["a1".to_owned()], &first), truth, "the first tab: {first:?}");
    assert_eq!(shown(vec!["b1".to_owned()], &second), truth, "the second tab: {second:?}");
    assert_eq!(shown(Vec::new(), &joined), truth, "a page that joined: {joined:?}");
    assert_eq!(office.so_far().len(), 1);
}

#[test]
fn a_client_that_has_the_thread_is_not_told_all_of_it_again() {
    let world = World::new(asking);
    let front = world.front();
    let first = front.say("u1", "Write to Bob");
    let id = first.ids()[0].clone();
    let told = front.post(json!({"messages": first.messages(), "resume": [approved(&id)]}));
    assert_eq!(told.assert_success().find("MESSAGES_SNAPSHOT").len(), 1, "{told:?}");
}
