//! Agents that reach nobody but people: what they do is written with what wakes them, and no worker is needed.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use holdpoint_engine::agent::AgentSettings;
use holdpoint_engine::agent::tool::{Call, Calling, Listing, ToolSpec, Toolbox};
use holdpoint_engine::core::agent::{CallStatus, Role};
use holdpoint_engine::core::{ForkMode, RunRef, Status, TenantId};
use holdpoint_engine::{Fault, ForkRequest, Options, Overlay};
use serde_json::{Value, json};

use super::{Office, agent_of, call, refuse, resume, talk};
use crate::house::{House, alice, stopping, tenant};
use crate::place::{Place, on_both};

on_both! {
    an_agent_that_reaches_nobody_needs_two_changes_and_no_worker,
    every_way_to_decide_is_carried_out_with_the_decision,
    whoever_takes_time_or_reaches_somebody_is_for_a_worker,
    what_was_said_before_in_a_thread_is_for_a_worker_to_find_out,
    a_node_behind_such_an_agent_comes_in_the_same_change,
    a_crash_around_the_commit_of_a_decision_leaves_all_of_it_or_nothing,
    of_a_decision_and_a_cancellation_one_wins_also_inside,
    a_decision_that_is_sent_again_is_about_the_question_that_heard_it,
    a_script_without_end_is_for_a_worker_and_written_piece_by_piece,
    a_tool_that_panics_is_left_to_a_worker_who_counts,
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

async fn a_crash_around_the_commit_of_a_decision_leaves_all_of_it_or_nothing(mut office: Office) {
    office.hire(scripted(&one_send(), &json!({}))).await;
    let faults = [Fault::StopBefore(1), Fault::StopAfter(1), Fault::LoseBefore(1), Fault::LoseAfter(1)];
    for fault in faults {
        let of = office.started(None).await;
        let Office { house, calls } = office;
        let house: House = house.reopen(stopping(fault)).await;
        let told = super::decide(&house.engine, &of, "c1", &resume("d1", Value::Null)).await;
        let lost = matches!(fault, Fault::LoseBefore(_) | Fault::LoseAfter(_));
        assert_eq!(told.is_ok(), lost, "{fault:?}: what the connection lost is looked up");
        office = Office { house: house.reopen(super::furnished(&calls)).await, calls };
        let decided = lost || matches!(fault, Fault::StopAfter(_));
        let (expected, call) = match decided {
            true => ("completed", CallStatus::Succeeded),
            false => ("waiting-approval", CallStatus::Suspended),
        };
        // Nothing of the thread is remembered after a restart: then a worker carries the decision out.
        office.house.drain().await;
        assert_eq!(
            (office.house.status(&of).await, office.call(&of, "c1").await),
            (expected, call),
            "{fault:?}"
        );
        office.decide(&of, "c1", &resume("d1", Value::Null)).await.unwrap();
        office.house.drain().await;
        assert_eq!(office.house.status(&of).await, "completed", "{fault:?}");
        let agent = office.agent(&of).await;
        assert_eq!(
            agent.messages.iter().filter(|message| message.role == Role::Tool).count(),
            1,
            "{fault:?}"
        );
    }
}

async fn of_a_decision_and_a_cancellation_one_wins_also_inside(office: Office) {
    office.hire(scripted(&one_send(), &json!({}))).await;
    let other = office.house.second_engine(super::furnished(&office.calls)).await;
    let mut completed = 0;
    for _ in 0..100 {
        let of = office.started(None).await;
        let how = resume("d1", Value::Null);
        let (decided, cancelled) =
            tokio::join!(office.decide(&of, "c1", &how), other.cancel(&of, None, alice()));
        let run = office.house.run(&of).await;
        assert!(cancelled.unwrap().finished());
        assert_eq!(decided.is_ok(), run.status() == Status::Completed, "{decided:?}");
        completed += u32::from(decided.is_ok());
    }
    let dispatches = office.dispatches().await;
    assert_eq!((dispatches.get("queued"), dispatches.get("claimed")), (None, None), "{completed} of 100");
    other.close().await;
}

async fn a_decision_that_is_sent_again_is_about_the_question_that_heard_it(office: Office) {
    let asks = json!({ "asks": { "action": "pick", "message": "How many?" } });
    office.hire(scripted(&one_send(), &asks)).await;
    let of = office.started(None).await;
    office.decide(&of, "c1", &resume("d1", Value::Null)).await.unwrap();
    assert_eq!(
        office.house.run(&of).await.open_interrupts().count(),
        1,
        "the tool has a question of its own"
    );
    let seq = office.house.run(&of).await.seq;
    office.decide(&of, "c1", &resume("d1", Value::Null)).await.unwrap();
    assert_eq!(office.house.run(&of).await.seq, seq, "it was heard before");
    office.decide(&of, "c1", &resume("d2", json!({ "n": 3 }))).await.unwrap();
    assert_eq!(office.house.status(&of).await, "completed");
}

async fn a_script_without_end_is_for_a_worker_and_written_piece_by_piece(office: Office) {
    let steps: Vec<Value> =
        (0..200).map(|n| json!({ "calls": [call(&format!("c{n}"), "send", json!({ "n": n }))] })).collect();
    let mut endless = scripted(&json!(steps), &json!({}));
    endless["permissions"] = json!({ "default": "allow" });
    endless["limits"] = json!({ "steps": 500 });
    office.hire(endless).await;
    let of = office.started(None).await;
    assert_eq!(office.house.status(&of).await, "running");
    let before = office.changes();
    office.house.drain().await;
    assert_eq!(office.house.status(&of).await, "completed");
    assert!(office.changes() - before >= 3, "{} changes", office.changes() - before);
    assert_eq!(office.agent(&of).await.calls.len(), 200);
}

/// Promises to reach nobody, and does not get that far.
struct Panicking(Arc<ToolSpec>);

impl Toolbox for Panicking {
    fn list<'a>(&'a self, _: &'a TenantId) -> Listing<'a> {
        Box::pin(async { Ok(vec![self.0.clone()]) })
    }

    fn call<'a>(&'a self, _: &'a Call) -> Calling<'a> {
        Box::pin(async { panic!("as the test wants it") })
    }

    fn is_inside(&self) -> bool {
        true
    }
}

async fn a_tool_that_panics_is_left_to_a_worker_who_counts(place: Place) {
    let spec = ToolSpec {
        name: "send".to_owned(),
        description: String::new(),
        parameters: json!({ "type": "object" }),
        idempotent: true,
        primary: None,
    };
    let tool: Arc<dyn Toolbox> = Arc::new(Panicking(Arc::new(spec)));
    let rust = [("send".to_owned(), tool)].into();
    let furnish = |options: Options| options.agents(AgentSettings { rust, ..AgentSettings::default() });
    let office = Office { house: House::with(place, furnish).await, calls: super::Calls::default() };
    let mut definition = scripted(&one_send(), &json!({}));
    definition["tools"] = json!([{ "type": "rust", "name": "send" }]);
    office.hire(definition).await;
    let of = office.started(None).await;
    assert_eq!(office.house.status(&of).await, "waiting-approval");
    office.decide(&of, "c1", &resume("d1", Value::Null)).await.unwrap();
    assert_eq!(office.house.status(&of).await, "running", "whoever decided has decided");
    assert_eq!(office.dispatches().await.get("queued"), Some(&1));
}

async fn a_copy_of_such_a_run_is_the_same_run(office: Office) {
    // What only chance knows is on record, and taken from there.
    office.hire(scripted(&one_send(), &json!({ "result": "{{unique}}", "counts": "sent" }))).await;
    let of = office.started(None).await;
    office.decide(&of, "c1", &resume("d1", Value::Null)).await.unwrap();
    let events = office.house.log(&of).await.len() as u64;
    for from_seq in [0, events / 2, events] {
        let overlay = Overlay::default();
        let request = ForkRequest {
            by: "ann".to_owned(),
            credential: None,
            mode: ForkMode::Replay,
            from_seq,
            overlay,
            once: None,
        };
        let copy = office.house.engine.fork(&of, request).await.unwrap();
        let original = office.house.run(&of).await;
        assert_eq!(copy.status(), original.status(), "from {from_seq}");
        assert_eq!(agent_of(&copy).messages, agent_of(&original).messages, "from {from_seq}");
        assert_eq!(copy.seq, original.seq, "from {from_seq}");
    }
}
