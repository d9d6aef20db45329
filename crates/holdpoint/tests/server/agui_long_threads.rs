//! Long threads over AG-UI: a turn reads the end of the thread, clients get what they lack, and no message is added
//! twice.

use serde_json::{Value, json};

use crate::agui::{AguiEvents, FLAGS, FrontEnd, approved, asking_agent, declare};
use crate::agui_steering::shown;
use crate::harness::{Client, Server};
use crate::receiver::Receiver;
use crate::test_database::{TestDatabase, on_both};

on_both!(
    a_turn_reads_as_many_rows_in_a_thread_of_4000_messages_as_in_one_of_400,
    a_client_with_only_its_new_message_gets_the_last_100_messages,
    a_front_end_with_the_thread_gets_only_the_new_events,
    a_front_end_that_lacks_messages_gets_as_many_as_it_has,
    a_large_front_end_is_cut_to_the_last_1000_messages,
    a_message_that_is_sent_again_is_found_in_a_thread_of_any_length,
    an_edited_message_is_corrected_and_not_added,
    a_run_that_waits_reports_its_call_in_a_long_thread,
    a_thread_is_unchanged_by_a_crash_after_an_input_in_it,
);

/// A server with an agent that replies `Yes.` to every message.
fn start(database: &TestDatabase) -> Server {
    let server = database.start(&FLAGS);
    let steps = json!([{"text": "Yes."}]);
    declare(&server.client, &json!({"agentId": "mailer", "model": {"provider": "scripted", "steps": steps}}));
    server
}

fn user(id: &str) -> Value {
    json!({"id": id, "role": "user", "content": format!("text of {id}")})
}

/// Fills a thread with user messages `u0`, `u1`, … in runs of 200, each with one reply, up to this number of messages.
fn fill(front: &FrontEnd, count: usize) {
    let mut sent = 0;
    for left in (1..=count).rev().step_by(201) {
        let messages: Vec<Value> = (sent..sent + left.min(201) - 1).map(|n| user(&format!("u{n}"))).collect();
        sent += messages.len();
        front.post(json!({"messages": messages})).assert_success();
    }
}

fn ids(messages: &Value) -> Vec<String> {
    messages.as_array().unwrap().iter().map(|one| one["id"].as_str().unwrap().to_owned()).collect()
}

fn front_messages(front: &FrontEnd) -> Vec<Value> {
    front.thread()["messages"].as_array().unwrap().clone()
}

/// The numbers of messages in the snapshots of a stream.
fn snapshots(events: &AguiEvents) -> Vec<usize> {
    let found = events.find("MESSAGES_SNAPSHOT");
    found.iter().map(|one| one["messages"].as_array().unwrap().len()).collect()
}

fn rows_read(client: &Client) -> u64 {
    let page = client.get("/metrics").body.as_str().unwrap().to_owned();
    let line = page.lines().find(|line| line.starts_with("holdpoint_rows_read_total ")).unwrap();
    line.rsplit(' ').next().unwrap().parse().unwrap()
}

fn run_count(client: &Client) -> usize {
    client.get("/v1/threads/t1/runs?limit=200").body["runs"].as_array().unwrap().len()
}

fn a_turn_reads_as_many_rows_in_a_thread_of_4000_messages_as_in_one_of_400(database: &TestDatabase) {
    let server = start(database);
    let cost = |thread: &str, count: usize| {
        let front = FrontEnd::new(&server.client, "mailer", thread);
        fill(&front, count);
        let turn = |messages: Vec<Value>| {
            let before = rows_read(&server.client);
            front.post(json!({"messages": messages})).assert_success();
            rows_read(&server.client) - before
        };
        let only_new = turn(vec![user("new")]);
        let known = front_messages(&front);
        (only_new, turn([&known[known.len() - 400..], &[user("newer")]].concat()))
    };
    let (short, long) = (cost("short", 400), cost("long", 4000));
    // The model gets 200 messages, and the turn reads about 150. Work in the background reads a few rows, too.
    for (short, long) in [(short.0, long.0), (short.1, long.1)] {
        assert!(short < 400 && short.abs_diff(long) < 30, "{short} and {long} rows");
    }
}

fn a_client_with_only_its_new_message_gets_the_last_100_messages(database: &TestDatabase) {
    let server = start(database);
    let front = FrontEnd::new(&server.client, "mailer", "t1");
    fill(&front, 300);
    for id in ["new", "newer"] {
        let events = front.post(json!({"messages": [user(id)]}));
        assert_eq!(snapshots(events.assert_success()), [0, 100], "one at the start, and no other");
        let known = shown(vec![id.to_owned()], &events);
        let thread = ids(&front.thread()["messages"]);
        assert_eq!((known.len(), &known[..]), (101, &thread[thread.len() - 101..]));
    }
}

fn a_front_end_with_the_thread_gets_only_the_new_events(database: &TestDatabase) {
    let server = start(database);
    let front = FrontEnd::new(&server.client, "mailer", "t1");
    fill(&front, 300);
    let mut known = front_messages(&front);
    for id in ["new", "newer"] {
        known.push(user(id));
        let events = front.post(json!({"messages": known}));
        let kinds = [
            "RUN_STARTED",
            "TEXT_MESSAGE_START",
            "TEXT_MESSAGE_CONTENT",
            "TEXT_MESSAGE_END",
            "STATE_SNAPSHOT",
            "RUN_FINISHED",
        ];
        assert_eq!(events.assert_success().kinds(), kinds);
        let message = &events.find("TEXT_MESSAGE_START")[0]["messageId"];
        known.push(json!({"id": message, "role": "assistant", "content": "Yes."}));
        assert_eq!(known, *front.thread()["messages"].as_array().unwrap());
    }
    // Instructions with a new id in each request are not added, and the front end gets the order of the thread.
    known.insert(0, json!({"id": "s1", "role": "system", "content": "Be brief."}));
    known.push(user("with instructions"));
    front.post(json!({"messages": known})).assert_success();
    let runs = run_count(&server.client);
    known[0]["id"] = json!("s2");
    front.post(json!({"messages": known})).assert_success();
    assert_eq!(run_count(&server.client), runs, "nothing is new");
}

fn a_front_end_that_lacks_messages_gets_as_many_as_it_has(database: &TestDatabase) {
    let server = start(database);
    let front = FrontEnd::new(&server.client, "mailer", "t1");
    fill(&front, 600);
    let all = front_messages(&front);
    // A second tab that was opened when the thread had 150 messages, and one that was opened when it had 50.
    for (known, size) in [(150, 151), (50, 100)] {
        let id = format!("tab {known}");
        let messages: Vec<Value> = all[..known].iter().cloned().chain([user(&id)]).collect();
        let before = messages.iter().map(|one| one["id"].as_str().unwrap().to_owned()).collect();
        let events = front.post(json!({"messages": messages}));
        assert_eq!(snapshots(events.assert_success())[..2], [0, size]);
        let thread = ids(&front.thread()["messages"]);
        let known = shown(before, &events);
        assert_eq!(known[..], thread[thread.len() - known.len()..], "{events:?}");
        assert!(thread.ends_with(&[id, known.last().unwrap().clone()]), "only one message was added");
    }
}

fn a_large_front_end_is_cut_to_the_last_1000_messages(database: &TestDatabase) {
    let server = start(database);
    let front = FrontEnd::new(&server.client, "mailer", "t1");
    let mut messages: Vec<Value> = (0..1247).map(|n| user(&format!("u{n}"))).collect();
    // Other clients can have sent messages to a segment with that many.
    for (next, sizes) in [("a", vec![1000]), ("b", vec![]), ("c", vec![1000])] {
        let events = front.post(json!({"messages": messages}));
        assert_eq!(snapshots(events.assert_success()), sizes, "{} messages", messages.len());
        let reply = &events.find("TEXT_MESSAGE_START")[0]["messageId"];
        messages.extend([json!({"id": reply, "role": "assistant", "content": "Yes."}), user(next)]);
    }
}

fn a_message_that_is_sent_again_is_found_in_a_thread_of_any_length(database: &TestDatabase) {
    let server = start(database);
    let front = FrontEnd::new(&server.client, "mailer", "t1");
    fill(&front, 1500);
    let runs = run_count(&server.client);
    for id in ["u0", "u700", "u1400"] {
        let events = front.post(json!({"messages": [user(id)]}));
        assert!(events.assert_success().find("TEXT_MESSAGE_START").is_empty(), "{id}");
    }
    assert_eq!(run_count(&server.client), runs);
    // A client that has only its own messages.
    let events = front.post(json!({"messages": [user("u0"), user("u700"), user("new")]}));
    assert_eq!(events.assert_success().find("TEXT_MESSAGE_START").len(), 1);
    let thread = ids(&front.thread()["messages"]);
    assert_eq!(thread[thread.len() - 2], "new");
    assert!(!thread[500..].contains(&"u0".to_owned()) && run_count(&server.client) == runs + 1);
    // The thread of another tenant's or another name has its own ids.
    let other = FrontEnd::new(&server.client, "mailer", "t2");
    other.post(json!({"messages": [user("u0")]})).assert_success();
    assert_eq!(ids(&other.thread()["messages"])[0], "u0");
}

fn an_edited_message_is_corrected_and_not_added(database: &TestDatabase) {
    let server = start(database);
    let front = FrontEnd::new(&server.client, "mailer", "t1");
    fill(&front, 300);
    let all = front_messages(&front);
    let mut edited = all.clone();
    edited[290]["content"] = json!("another text");
    let with_new = [&edited[..], &[user("new")]].concat();
    let events = front.post(json!({"messages": with_new}));
    let corrected = &events.assert_success().find("MESSAGES_SNAPSHOT")[1]["messages"];
    assert_eq!(*corrected, Value::Array([&all[..], &[user("new")]].concat()));
    let runs = run_count(&server.client);
    let events = front.post(json!({"messages": edited}));
    assert_eq!((run_count(&server.client), events.messages()), (runs, front_messages(&front)));
}

fn a_run_that_waits_reports_its_call_in_a_long_thread(database: &TestDatabase) {
    let office = Receiver::start();
    let server = database.start(&FLAGS);
    declare(&server.client, &asking_agent(&office.url));
    let front = FrontEnd::new(&server.client, "mailer", "t1");
    let messages: Vec<Value> = (0..300).map(|n| user(&format!("u{n}"))).collect();
    let first = front.post(json!({"messages": messages}));
    assert_eq!(snapshots(&first), [301], "the messages of the run, and its call");
    // A page that was reloaded answers.
    let events = front.resume(json!([approved(&first.ids()[0])]));
    assert_eq!(office.requests().len(), 1);
    let thread = ids(&front.thread()["messages"]);
    let known = shown(Vec::new(), events.assert_success());
    assert_eq!(known[..], thread[thread.len() - known.len()..], "{events:?}");
    // The next turn waits in its own run: the snapshot has the call, and fewer messages.
    let events = front.say("next", "Once more");
    let call = &events.interrupts()[0]["toolCallId"];
    let last = events.messages();
    assert_eq!((last.len(), &last[100]["toolCalls"][0]["id"]), (101, call));
}

fn a_thread_is_unchanged_by_a_crash_after_an_input_in_it(database: &TestDatabase) {
    let mut server = start(database);
    fill(&FrontEnd::new(&server.client, "mailer", "t1"), 300);
    for round in 0..3 {
        let id = format!("n{round}");
        let front = FrontEnd::new(&server.client, "mailer", "t1");
        front.post(json!({"messages": [user(&id)]})).assert_success();
        server.kill();
        server = database.start(&FLAGS);
        let front = FrontEnd::new(&server.client, "mailer", "t1");
        let again = front.post(json!({"messages": [user(&id)]}));
        assert!(again.assert_success().find("TEXT_MESSAGE_START").is_empty());
    }
    assert_eq!(front_messages(&FrontEnd::new(&server.client, "mailer", "t1")).len(), 306);
}
