//! Models that say how sure they are: what is below the threshold waits until somebody has ratified it.

use holdpoint_engine::core::agent::{CallStatus, Role};
use holdpoint_engine::core::{ForkMode, RunRef, Start, WorkflowId};
use holdpoint_engine::{Engine, ForkRequest, InputMode, Overlay};
use serde_json::{Value, json};

use super::{Office, agent, call, sends, talk};
use crate::house::{accept, line, start, tenant};
use crate::place::on_both;

on_both! {
    a_reply_that_is_not_sure_enough_waits_before_anything_comes_of_it,
    what_was_ratified_goes_on_as_replied,
    what_was_decided_instead_is_told_to_the_model,
    a_last_word_is_not_the_end_before_it_is_ratified,
    the_definition_says_how_sure_is_sure_enough_before_the_run_does,
    talking_on_takes_an_unsure_reply_back,
    an_answer_counts_after_a_crash,
    runs_that_were_asked_about_are_replayed,
}

/// It wants to look, and is this sure; then it says how that went.
fn unsure(confidence: Value) -> Value {
    let mut first = json!({ "text": "I look.", "calls": [call("c1", "look", json!({ "at": "sky" }))] });
    if !confidence.is_null() {
        first["confidence"] = confidence;
    }
    json!([first, { "text": "Then: {{user}}" }])
}

fn shown() -> Value {
    json!({ "text": "I look.", "calls": [call("c1", "look", json!({ "at": "sky" }))] })
}

/// The types of the events that are of interest here.
async fn log(office: &Office, of: &RunRef) -> Vec<String> {
    let log = office.house.log(of).await;
    let kinds = log.iter().map(|event| serde_json::from_str::<Value>(event).unwrap()["type"].clone());
    let kinds = kinds.map(|kind| kind.as_str().unwrap().to_owned());
    kinds.filter(|kind| !kind.ends_with("chunk")).collect()
}

async fn said(office: &Office, of: &RunRef) -> String {
    office.agent(of).await.last_reply().unwrap().text()
}

async fn a_reply_that_is_not_sure_enough_waits_before_anything_comes_of_it(office: Office) {
    let of = office.asked(&unsure(json!(0.69))).await;
    assert_eq!((office.house.status(&of).await, office.calls().len()), ("waiting-approval", 0));
    let kinds = log(&office, &of).await;
    let tail = ["agent.toolCalled", "agent.decided", "interrupt.requested", "node.suspended"];
    assert!(kinds.ends_with(&tail.map(str::to_owned)), "{kinds:?}");
    let run = office.house.run(&of).await;
    let asked = run.open_interrupts().next().unwrap();
    let data = json!({ "agentId": "clerk", "threshold": 0.7, "observed": 0.69, "decision": shown(), "messageId": "reply-1" });
    assert_eq!((asked.kind.as_str(), &asked.data), ("low-confidence", &data));
    assert_eq!(office.house.pending().await, ["agent"]);
    for sure in [json!(0.7), json!(1), Value::Null] {
        let of = office.asked(&unsure(sure.clone())).await;
        assert_eq!(office.house.status(&of).await, "completed", "{sure}");
        let decided = log(&office, &of).await.iter().filter(|kind| *kind == "agent.decided").count();
        assert_eq!(decided, usize::from(!sure.is_null()), "nothing is decided by who says nothing of it");
    }
}

async fn what_was_ratified_goes_on_as_replied(office: Office) {
    office.hire(agent(&unsure(json!(0.2)))).await;
    for value in [accept(), shown()] {
        let (of, before) = (office.told(None, "please").await, office.calls().len());
        office.house.answer(&of, "agent", value).await.unwrap();
        office.house.drain().await;
        assert_eq!((office.house.status(&of).await, office.calls().len()), ("completed", before + 1));
        assert_eq!(said(&office, &of).await, "Then: please");
    }
}

async fn what_was_decided_instead_is_told_to_the_model(office: Office) {
    let of = office.asked(&unsure(json!(0.2))).await;
    office.house.answer(&of, "agent", json!("Look at the sea")).await.unwrap();
    office.house.drain().await;
    assert_eq!((office.house.status(&of).await, office.calls()), ("completed", Vec::new()));
    assert_eq!(office.call(&of, "c1").await, CallStatus::Cancelled);
    let heard = office.agent(&of).await;
    let told = heard.messages.iter().find(|message| message.id == "decision-1").unwrap();
    assert_eq!((told.role, told.by.as_deref()), (Role::User, Some("alice")));
    let last = said(&office, &of).await;
    assert!(last.starts_with("Then: ") && last.ends_with("Look at the sea"), "{last}");
}

async fn a_last_word_is_not_the_end_before_it_is_ratified(office: Office) {
    let steps = json!([{ "text": "It is blue.", "confidence": 0.1 }, { "text": "Sorry." }]);
    for (value, last) in [(json!("It is blue."), "It is blue."), (json!("It is red."), "Sorry.")] {
        let of = office.asked(&steps).await;
        assert_eq!(office.house.status(&of).await, "waiting-approval");
        office.house.answer(&of, "agent", value).await.unwrap();
        office.house.drain().await;
        assert_eq!(office.house.status(&of).await, "completed");
        assert_eq!(said(&office, &of).await, last);
    }
}

async fn in_a_workflow(office: &Office, options: Value) -> &'static str {
    let id = WorkflowId::parse("flow").unwrap();
    let options = options.as_object().unwrap().clone();
    let begin = Start { configurable: options, ..start(json!({ "prompt": "please" })) };
    let run = office.house.engine.start(&id, begin).await.unwrap();
    office.house.drain().await;
    office.house.status(&RunRef { tenant: tenant(), run: run.id.clone() }).await
}

async fn the_definition_says_how_sure_is_sure_enough_before_the_run_does(office: Office) {
    let strict = json!({ "escalationThreshold": 0.95 });
    let lax = json!({ "escalationThreshold": 0.05 });
    office.house.register(line("flow", &[("agent", "core.agent", json!({ "agentId": "clerk" }))])).await;
    office.hire(agent(&unsure(json!(0.5)))).await;
    assert_eq!(in_a_workflow(&office, json!({})).await, "waiting-approval");
    assert_eq!(in_a_workflow(&office, lax.clone()).await, "completed");
    for (own, expected) in [(0.5, "completed"), (0.51, "waiting-approval"), (0.0, "completed")] {
        let mut definition = agent(&unsure(json!(0.5)));
        definition["escalationThreshold"] = json!(own);
        office.hire(definition).await;
        assert_eq!(in_a_workflow(&office, strict.clone()).await, expected, "{own}");
    }
    let mut wrong = agent(&unsure(json!(0.5)));
    wrong["escalationThreshold"] = json!(1.5);
    let flaw = office.house.engine.put_agent(&tenant(), wrong, None).await.unwrap_err();
    assert!(flaw.to_string().contains("escalationThreshold"), "{flaw}");
}

async fn talking_on_takes_an_unsure_reply_back(office: Office) {
    let of = office.asked(&unsure(json!(0.2))).await;
    let thread = office.house.run(&of).await.thread().to_owned();
    office.house.engine.input(talk(Some(&thread), "never mind"), InputMode::Queue).await.unwrap();
    office.house.drain().await;
    assert_eq!((office.house.status(&of).await, office.calls()), ("completed", Vec::new()));
    assert_eq!(said(&office, &of).await, "Then: never mind");
    assert!(office.house.pending().await.is_empty());
}

async fn an_answer_counts_after_a_crash(office: Office) {
    let of = office.asked(&unsure(json!(0.2))).await;
    let other = office.told(None, "again").await;
    let office = office.reopened().await;
    office.house.answer(&of, "agent", accept()).await.unwrap();
    office.house.answer(&other, "agent", json!("no")).await.unwrap();
    let office = office.reopened().await;
    office.house.drain().await;
    assert_eq!(finished(&office.house.engine, &of).await, [true, true]);
    assert_eq!(finished(&office.house.engine, &other).await, [true, false]);
    assert_eq!(office.calls().len(), 1);
}

/// Whether it has ended, and whether its call was made.
async fn finished(engine: &Engine, of: &RunRef) -> [bool; 2] {
    let run = engine.run(of).await.unwrap();
    let made = super::agent_of(&run).call("c1").unwrap().status == CallStatus::Succeeded;
    [run.finished(), made]
}

async fn runs_that_were_asked_about_are_replayed(office: Office) {
    let overruled = (unsure(json!(0.2)), json!("Look at the sea"));
    for (steps, value) in [(sends(), accept()), (unsure(json!(0.2)), accept()), overruled] {
        let of = office.asked(&steps).await;
        office.house.answer(&of, "agent", value).await.unwrap();
        office.house.drain().await;
        let (made, expected) = (office.calls().len(), log(&office, &of).await);
        for from_seq in 0..=office.house.run(&of).await.seq {
            let (by, mode, overlay) = ("forker".to_owned(), ForkMode::Replay, Overlay::default());
            let request = ForkRequest { by, credential: None, mode, from_seq, overlay, once: None };
            let copy = office.house.engine.fork(&of, request).await.unwrap();
            assert!(copy.finished() && !copy.diverged, "from {from_seq}");
            let copy = RunRef { tenant: tenant(), run: copy.id.clone() };
            assert_eq!(log(&office, &copy).await, expected, "from {from_seq}");
        }
        assert_eq!(office.calls().len(), made, "nothing is called again");
    }
}
