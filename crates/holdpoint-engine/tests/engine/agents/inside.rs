//! Agents that reach nobody but people: what they do is written with what wakes them, and no worker is needed.

use std::sync::atomic::Ordering;

use holdpoint_engine::core::agent::{CallStatus, Role};
use holdpoint_engine::core::{ForkMode, RunRef};
use holdpoint_engine::{Fault, ForkRequest, Overlay};
use serde_json::{Value, json};

use super::{Office, agent_of, call, refuse, resume, talk};
use crate::house::{House, stopping, tenant};
use crate::place::on_both;

on_both! {
    an_agent_that_reaches_nobody_needs_two_changes_and_no_worker,
    every_way_to_decide_is_carried_out_with_the_decision,
    whoever_takes_time_or_reaches_somebody_is_for_a_worker,
    what_was_said_before_in_a_thread_is_for_a_worker_to_find_out,
    a_node_behind_such_an_agent_comes_in_the_same_change,
    a_crash_before_the_commit_leaves_nothing_half_done,
    a_copy_of_such_a_run_is_the_same_run,
}

/// An agent whose one tool is scripted too.
fn scripted(steps: &Value, tool: &Value) -> Value {
    let mut send = json!({ "type": "scripted", "name": "send", "result": { "sent": "{{arguments}}" } });
    send.as_object_mut().unwrap().extend(tool.as_object().unwrap().clone());
    json!({
        "agentId": "clerk", "model": { "provider": "scripted", "steps": steps }, "tools": [send],
        "permissions": { "default": "ask" },
    })
}

fn two_sends() -> Value {
    let calls = [call("c1", "send", json!({ "to": "bob" })), call("c2", "send", json!({ "to": "ann" }))];
    json!([{ "text": "I send both.", "calls": calls }, { "text": "Done." }])
}

fn one_send() -> Value {
    json!([{ "calls": [call("c1", "send", json!({ "to": "bob" }))] }, { "text": "Done." }])
}

impl Office {
    /// Starts a run, and nobody works.
    async fn started(&self, thread: Option<&str>) -> RunRef {
        let run = self.house.engine.start_agent(talk(thread, "please")).await.unwrap();
        RunRef { tenant: tenant(), run: run.id.clone() }
    }

    fn changes(&self) -> u64 {
        self.house.engine.counters().changes.load(Ordering::SeqCst)
    }
}

async fn an_agent_that_reaches_nobody_needs_two_changes_and_no_worker(office: Office) {
    office.hire(scripted(&one_send(), &json!({}))).await;
    let before = office.changes();
    let of = office.started(None).await;
    assert_eq!(office.house.status(&of).await, "waiting-approval");
    office.decide(&of, "c1", &resume("d1", Value::Null)).await.unwrap();
    assert_eq!(office.house.status(&of).await, "completed");
    assert_eq!(office.changes() - before, 2);
    assert_eq!(office.dispatches().await, [("acked".to_owned(), 2)].into());
    let agent = office.agent(&of).await;
    assert_eq!(agent.last_reply().unwrap().text(), "Done.");
    let results = agent.messages.iter().filter(|message| message.role == Role::Tool);
    assert_eq!(results.count(), 1, "the result is there once");
    assert_eq!(office.house.drain().await, 0, "nothing is left for a worker");
}

async fn every_way_to_decide_is_carried_out_with_the_decision(office: Office) {
    office.hire(scripted(&two_sends(), &json!({}))).await;
    let of = office.started(None).await;
    office.decide(&of, "c2", &refuse("d1")).await.unwrap();
    assert_eq!(office.call(&of, "c2").await, CallStatus::Cancelled);
    assert_eq!(office.house.status(&of).await, "waiting-approval", "one is still open");
    office.decide(&of, "c1", &resume("d2", Value::Null)).await.unwrap();
    assert_eq!(office.call(&of, "c1").await, CallStatus::Succeeded);
    assert_eq!(office.house.status(&of).await, "completed");
    // The same decision again, and another one that comes too late.
    office.decide(&of, "c1", &resume("d2", Value::Null)).await.unwrap();
    office.decide(&of, "c1", &refuse("d3")).await.unwrap_err();
    assert_eq!(office.call(&of, "c1").await, CallStatus::Succeeded);
}

async fn whoever_takes_time_or_reaches_somebody_is_for_a_worker(office: Office) {
    let mut slow_model = one_send();
    slow_model[1]["delayMs"] = json!(1);
    let mut with_another = scripted(&one_send(), &json!({}));
    with_another["tools"].as_array_mut().unwrap().push(json!({ "type": "rust", "name": "look" }));
    let slow_tool = scripted(&one_send(), &json!({ "delayMs": 1 }));
    for definition in [scripted(&slow_model, &json!({})), slow_tool, with_another] {
        office.hire(definition.clone()).await;
        let of = office.started(None).await;
        assert_eq!(office.house.status(&of).await, "running", "{definition}");
        office.house.drain().await;
        assert_eq!(office.house.status(&of).await, "waiting-approval", "{definition}");
        office.decide(&of, "c1", &resume("d1", Value::Null)).await.unwrap();
        assert_eq!(office.house.status(&of).await, "running", "{definition}");
        office.house.drain().await;
        assert_eq!(office.house.status(&of).await, "completed", "{definition}");
    }
}

async fn what_was_said_before_in_a_thread_is_for_a_worker_to_find_out(office: Office) {
    let known = json!([[
        { "if": { "userSays": "please" }, "text": "You said {{user}}." }, { "text": "What?" },
    ]]);
    office.hire(scripted(&known, &json!({}))).await;
    for _ in 0..2 {
        let of = office.started(Some("t")).await;
        assert_eq!(office.house.status(&of).await, "running", "another run of the thread may just be ending");
        office.house.drain().await;
        assert_eq!(office.house.status(&of).await, "completed");
        assert_eq!(office.agent(&of).await.last_reply().unwrap().text(), "You said please.");
    }
    let said = office.house.engine.messages(&tenant(), "t", None, 100).await.unwrap();
    assert_eq!(said.len(), 4);
}

async fn a_node_behind_such_an_agent_comes_in_the_same_change(office: Office) {
    let definition = scripted(&one_send(), &json!({}));
    let nodes = [
        ("clerk", "core.agent", definition),
        ("gate", "core.approvalGate", json!({})),
        ("end", "core.end", json!({})),
    ];
    office.house.register(crate::house::line("both", &nodes)).await;
    let before = office.changes();
    let of = office.house.start("both").await;
    assert_eq!(office.house.status(&of).await, "waiting-approval");
    office.decide(&of, "c1", &resume("d1", Value::Null)).await.unwrap();
    assert!(
        office.house.log(&of).await.iter().any(|event| event.contains("gate")),
        "the next question is asked"
    );
    office.house.answer(&of, "gate", crate::house::accept()).await.unwrap();
    assert_eq!(office.house.status(&of).await, "completed");
    assert_eq!(office.changes() - before, 3);
}

async fn a_crash_before_the_commit_leaves_nothing_half_done(office: Office) {
    office.hire(scripted(&one_send(), &json!({}))).await;
    let of = office.started(None).await;
    let Office { house, calls } = office;
    let house: House = house.reopen(stopping(Fault::StopBefore(1))).await;
    super::decide(&house.engine, &of, "c1", &resume("d1", Value::Null)).await.unwrap_err();
    let office = Office { house: house.reopen(super::furnished(&calls)).await, calls };
    assert_eq!(office.call(&of, "c1").await, CallStatus::Suspended, "it was never decided");
    office.decide(&of, "c1", &resume("d1", Value::Null)).await.unwrap();
    // Nothing of the thread is remembered here: a worker looks it up.
    office.house.drain().await;
    assert_eq!(office.house.status(&of).await, "completed");
}

async fn a_copy_of_such_a_run_is_the_same_run(office: Office) {
    // What only chance knows is on record, and taken from there.
    office.hire(scripted(&one_send(), &json!({ "result": "{{unique}}" }))).await;
    let of = office.started(None).await;
    office.decide(&of, "c1", &resume("d1", Value::Null)).await.unwrap();
    let events = office.house.log(&of).await.len() as u64;
    for from_seq in [0, events / 2, events] {
        let overlay = Overlay::default();
        let request = ForkRequest { by: "ann".to_owned(), mode: ForkMode::Replay, from_seq, overlay };
        let copy = office.house.engine.fork(&of, request).await.unwrap();
        let original = office.house.run(&of).await;
        assert_eq!(copy.status(), original.status(), "from {from_seq}");
        assert_eq!(agent_of(&copy).messages, agent_of(&original).messages, "from {from_seq}");
        assert_eq!(copy.seq, original.seq, "from {from_seq}");
    }
}
