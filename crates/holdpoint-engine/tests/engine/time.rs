//! Deadlines and sleeps: absolute, durable, and fired once.

use holdpoint_engine::Error;
use holdpoint_engine::core::Refusal;
use serde_json::json;

use crate::house::{House, accept, graph, line, node};
use crate::place::on_both;

on_both! {
    silence_is_no_approval,
    a_late_answer_is_refused_even_before_the_timer_fired,
    an_answer_in_time_disarms_the_deadline,
    a_deadline_that_passed_while_the_server_was_down_fires_at_the_next_start,
    a_sleeping_run_is_running_and_wakes_after_a_restart,
    a_cancelled_sleeper_is_not_woken,
    a_sleeper_may_have_a_name_of_any_length,
    the_length_of_a_sleep_can_come_from_an_input,
    a_timer_that_cannot_be_fired_holds_up_no_other,
    many_deadlines_fire_together_and_each_once,
}

fn hurried() -> serde_json::Value {
    let gate = json!({"title": "Quick?", "actions": ["accept"], "timeoutMs": 1000});
    line("hurried", &[("gate", "core.approvalGate", gate), ("after", "core.noop", json!({}))])
}

fn sleepy() -> serde_json::Value {
    line("sleepy", &[("nap", "core.delay", json!({"ms": 60_000})), ("after", "core.noop", json!({}))])
}

async fn silence_is_no_approval(house: House) {
    house.register(hurried()).await;
    let of = house.start("hurried").await;
    house.clock.advance(999);
    assert_eq!(house.drain().await, 0, "not yet");
    house.clock.advance(1);
    assert_eq!(house.drain().await, 1);
    assert_eq!(house.status(&of).await, "failed");
    let log = house.log(&of).await.join("\n");
    assert!(log.contains("interrupt.timed_out") && log.contains("approval_rejected"), "{log}");
    assert!(house.pending().await.is_empty());
    assert_eq!(house.drain().await, 0, "a deadline fires once");
}

async fn a_late_answer_is_refused_even_before_the_timer_fired(house: House) {
    house.register(hurried()).await;
    let of = house.start("hurried").await;
    house.clock.advance(1000);
    let late = house.answer(&of, "gate", accept()).await.unwrap_err();
    assert!(matches!(late, Error::Refused(Refusal::Expired)), "{late}");
}

async fn an_answer_in_time_disarms_the_deadline(house: House) {
    house.register(hurried()).await;
    let of = house.start("hurried").await;
    house.clock.advance(999);
    house.answer(&of, "gate", accept()).await.unwrap();
    house.clock.advance(10_000);
    assert_eq!(house.drain().await, 0);
    assert_eq!(house.status(&of).await, "completed");
}

async fn a_deadline_that_passed_while_the_server_was_down_fires_at_the_next_start(house: House) {
    house.register(hurried()).await;
    let of = house.start("hurried").await;
    house.engine.close().await;
    house.clock.advance(86_400_000);
    let house = house.reopen(|options| options).await;
    assert_eq!(house.drain().await, 1);
    assert_eq!(house.status(&of).await, "failed");
}

async fn a_sleeping_run_is_running_and_wakes_after_a_restart(house: House) {
    house.register(sleepy()).await;
    let of = house.start("sleepy").await;
    assert_eq!(house.status(&of).await, "running");
    house.clock.advance(59_999);
    let house = house.reopen(|options| options).await;
    assert_eq!(house.drain().await, 0);
    house.clock.advance(1);
    assert_eq!(house.drain().await, 1);
    assert_eq!(house.status(&of).await, "completed");
}

async fn a_cancelled_sleeper_is_not_woken(house: House) {
    house.register(sleepy()).await;
    let of = house.start("sleepy").await;
    house.engine.cancel(&of, None, crate::house::alice()).await.unwrap();
    house.clock.advance(60_000);
    assert_eq!(house.drain().await, 0);
    assert_eq!(house.status(&of).await, "cancelled");
}

async fn a_sleeper_may_have_a_name_of_any_length(house: House) {
    // Ids that no database can make shorter.
    let long = |seed: u32| -> String {
        (0..2000_u32).map(|n| format!("{:x}", (n ^ seed).wrapping_mul(2_654_435_761))).collect()
    };
    let (first, second) = (long(1), long(2));
    let nap = json!({"ms": 1000});
    house.register(line("nap", &[(&first, "core.delay", nap.clone()), (&second, "core.delay", nap)])).await;
    let of = house.start("nap").await;
    let house = house.reopen(|options| options).await;
    for _ in 0..2 {
        house.clock.advance(999);
        assert_eq!(house.drain().await, 0);
        house.clock.advance(1);
        assert_eq!(house.drain().await, 1);
    }
    assert_eq!(house.status(&of).await, "completed");
    let gone = house.start("nap").await;
    house.engine.cancel(&gone, None, crate::house::alice()).await.unwrap();
    house.clock.advance(1000);
    assert_eq!(house.drain().await, 0, "a cancelled sleeper leaves no timer");
}

async fn the_length_of_a_sleep_can_come_from_an_input(house: House) {
    let mut nap = node("nap", "core.delay", json!({}));
    nap["inputs"] = json!({"delayMs": {"type": "variable", "variableName": "ms"}});
    house.register(graph("nap", &[nap], &[])).await;
    let of = house.start_with("nap", json!({"ms": 5})).await;
    house.clock.advance(5);
    house.drain().await;
    assert_eq!(house.status(&of).await, "completed");
    let wrong = house.start_with("nap", json!({"ms": "soon"})).await;
    assert_eq!(house.status(&wrong).await, "failed");
}

async fn a_timer_that_cannot_be_fired_holds_up_no_other(house: House) {
    house.register(hurried()).await;
    house.register(sleepy()).await;
    let broken = house.start("sleepy").await;
    house.clock.advance(59_500);
    let fine = house.start("hurried").await;
    let spoil = "UPDATE workflows SET definition = '{}' WHERE workflow_id = 'sleepy'";
    house.place.execute(spoil).await.unwrap();
    let house = house.reopen(|options| options).await;
    house.clock.advance(1000);
    assert!(house.engine.worker().drain().await.is_err(), "what could not be done is said");
    assert_eq!(house.status(&fine).await, "failed", "its deadline has fired");
    assert!(house.engine.run(&broken).await.is_err(), "the other run cannot be read, and says so");
}

async fn many_deadlines_fire_together_and_each_once(house: House) {
    house.register(hurried()).await;
    let mut runs = Vec::new();
    for _ in 0..300 {
        runs.push(house.start("hurried").await);
    }
    house.clock.advance(1000);
    assert_eq!(house.drain().await, 300);
    for of in &runs {
        let fired = house.log(of).await.iter().filter(|line| line.contains("timed_out")).count();
        assert_eq!(fired, 1);
    }
}
