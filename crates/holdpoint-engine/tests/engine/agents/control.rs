//! Ending, interrupting and talking on: cases 86 to 88 of the mailbox contract, and the ways of input.

use holdpoint_engine::core::agent::CallStatus;
use holdpoint_engine::core::{Principal, Refusal};
use holdpoint_engine::{Error, InputMode};
use serde_json::{Value, json};

use super::{Office, agent, call, furnished, refuse, resume, sends, talk};
use crate::house::{alice, tenant};
use crate::place::on_both;

on_both! {
    a_waiting_run_can_be_cancelled_and_takes_no_decision_then,
    talking_on_takes_the_call_back_and_goes_on_in_the_same_run,
    of_a_decision_and_a_cancellation_one_wins,
    an_interrupted_thread_ends_its_run_unless_it_may_wait_on,
    input_goes_to_the_open_run_or_begins_one,
    whoever_told_an_agent_what_to_do_cannot_allow_it,
}

async fn a_waiting_run_can_be_cancelled_and_takes_no_decision_then(office: Office) {
    let of = office.asked(&sends()).await;
    let thread = office.house.run(&of).await.thread().to_owned();
    office.house.engine.cancel(&of, None, alice()).await.unwrap();
    assert_eq!(office.house.status(&of).await, "cancelled");
    assert_eq!(office.house.engine.open_run(&tenant(), &thread).await.unwrap(), None);
    assert!(office.house.pending().await.is_empty());
    let late = office.decide(&of, "c1", &resume("d1", Value::Null)).await.unwrap_err();
    assert!(matches!(late, Error::Refused(Refusal::InterruptCancelled)), "{late}");
    office.house.engine.cancel(&of, None, alice()).await.unwrap();
    assert_eq!((office.house.drain().await, office.calls()), (0, Vec::new()));
}

async fn talking_on_takes_the_call_back_and_goes_on_in_the_same_run(office: Office) {
    let of = office.asked(&sends()).await;
    let thread = office.house.run(&of).await.thread().to_owned();
    let run = office.house.engine.input(talk(Some(&thread), "never mind"), InputMode::Queue).await.unwrap();
    assert_eq!(run.id, of.run);
    office.house.drain().await;
    assert_eq!(office.call(&of, "c1").await, CallStatus::Cancelled);
    assert_eq!((office.house.status(&of).await, office.calls()), ("completed", Vec::new()));
    assert!(office.house.pending().await.is_empty());
}

async fn of_a_decision_and_a_cancellation_one_wins(office: Office) {
    office.hire(agent(&sends())).await;
    let other = office.house.second_engine(furnished(&office.calls)).await;
    let mut made = 0;
    for _ in 0..100 {
        let of = office.told(None, "please").await;
        let how = resume("d1", Value::Null);
        let (decided, cancelled) =
            tokio::join!(office.decide(&of, "c1", &how), other.cancel(&of, None, alice()));
        assert!(cancelled.is_ok());
        let before = office.calls().len();
        office.house.drain().await;
        let run = office.house.engine.run(&of).await.unwrap();
        // A decision may come first and its call be made, or the end may come first; never both.
        assert!(run.finished());
        if office.calls().len() > before {
            made += 1;
            assert!(decided.is_ok());
        }
        assert_eq!(office.dispatches().await.get("claimed"), None);
    }
    assert_eq!(office.calls().len(), made);
    assert_eq!(office.dispatches().await.get("queued"), None);
}

async fn an_interrupted_thread_ends_its_run_unless_it_may_wait_on(office: Office) {
    let of = office.asked(&sends()).await;
    let thread = office.house.run(&of).await.thread().to_owned();
    let engine = &office.house.engine;
    let kept = engine.interrupt_thread(&tenant(), &thread, true, alice()).await.unwrap();
    assert_eq!((kept.mail.new_dispatch_epoch, kept.cancelled), (1, None));
    assert_eq!(office.house.status(&of).await, "waiting-approval");
    office.decide(&of, "c1", &refuse("d1")).await.unwrap();
    let ended = engine.interrupt_thread(&tenant(), &thread, false, alice()).await.unwrap();
    assert_eq!((ended.mail.superseded_count, ended.cancelled), (1, Some(of.run.clone())));
    assert_eq!(office.house.status(&of).await, "cancelled");
    office.house.drain().await;
    assert_eq!(office.calls(), []);
    let again = engine.interrupt_thread(&tenant(), &thread, false, alice()).await.unwrap();
    assert_eq!((again.mail.superseded_count, again.cancelled), (0, None));
}

async fn input_goes_to_the_open_run_or_begins_one(office: Office) {
    let steps = json!([{ "calls": [call("c1", "send", json!({}))] }, { "text": "Done." }]);
    office.hire(agent(&steps)).await;
    let engine = &office.house.engine;
    let none = engine.input(talk(Some("t"), "hello"), InputMode::ResumeOpenRun).await.unwrap_err();
    assert!(matches!(none, Error::NotFound("open run")), "{none}");
    let first = engine.input(talk(Some("t"), "hello"), InputMode::Queue).await.unwrap();
    let busy = engine.start_agent(talk(Some("t"), "me too")).await.unwrap_err();
    assert!(matches!(&busy, Error::ScopeBusy { active_run } if *active_run == first.id), "{busy}");
    office.house.drain().await;
    let second = engine.input(talk(Some("t"), "stop"), InputMode::InterruptThenQueue).await.unwrap();
    assert_ne!(first.id, second.id);
    office.house.drain().await;
    let runs = engine.thread_runs(&tenant(), "t", None, 10).await.unwrap();
    let states: Vec<_> = runs.iter().map(|run| run.status.as_str()).collect();
    assert_eq!(states, ["waiting-approval", "cancelled"]);
}

async fn whoever_told_an_agent_what_to_do_cannot_allow_it(office: Office) {
    let mut definition = agent(&sends());
    definition["approval"] = json!({ "requesterMayNotApprove": true });
    office.hire(definition).await;
    // Somebody else has started the run, and the words are Bob's.
    let mut words = talk(None, "send it");
    words.messages[0].by = Some("bob".to_owned());
    let run = office.house.engine.start_agent(words).await.unwrap();
    let of = holdpoint_engine::core::RunRef { tenant: tenant(), run: run.id.clone() };
    office.house.drain().await;
    let decide = async |who: &str| {
        let how = resume(who, Value::Null);
        office.house.engine.decide_call(&of, "c1", &how, Principal::named(who)).await
    };
    for who in ["bob", "tester"] {
        let refused = decide(who).await.unwrap_err();
        assert!(matches!(refused, Error::Refused(Refusal::OwnRequest(_))), "{who}: {refused:?}");
    }
    decide("ann").await.unwrap();
    office.house.drain().await;
    assert_eq!((office.house.status(&of).await, office.calls().len()), ("completed", 1));
}
