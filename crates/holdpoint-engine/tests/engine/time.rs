//! Deadlines and delays: they are absolute and durable, and each fires once.

use holdpoint_engine::core::{Refusal, Timestamp};
use holdpoint_engine::{EffectContext, Error, Node, Outputs, Stop};
use serde_json::json;

use crate::test_database::{TestDatabase, on_both};
use crate::test_env::{NOON, TestEnv, accept, graph, line, node};

on_both! {
    an_expired_approval_is_a_rejection,
    a_late_answer_is_refused_even_before_the_timer_fired,
    an_answer_in_time_disarms_the_deadline,
    a_deadline_that_passed_while_the_server_was_down_fires_at_the_next_start,
    a_sleeping_run_is_running_and_wakes_after_a_restart,
    a_cancelled_sleeping_run_is_not_woken,
    the_id_of_a_delay_node_can_be_very_long,
    the_duration_of_a_delay_can_come_from_an_input,
    a_delay_ends_at_its_instant_also_after_a_restart,
    an_instant_in_the_past_is_no_delay,
    an_instant_beyond_the_limit_fails_the_node,
    a_rust_node_sleeps_until_instants_in_order,
    a_timer_that_cannot_fire_does_not_block_others,
    many_deadlines_fire_together_and_each_once,
}

fn hurried() -> serde_json::Value {
    let gate = json!({"title": "Quick?", "actions": ["accept"], "timeoutMs": 1000});
    line("hurried", &[("gate", "core.approvalGate", gate), ("after", "core.noop", json!({}))])
}

fn sleepy() -> serde_json::Value {
    line("sleepy", &[("nap", "core.delay", json!({"ms": 60_000})), ("after", "core.noop", json!({}))])
}

async fn an_expired_approval_is_a_rejection(env: TestEnv) {
    env.register(hurried()).await;
    let of = env.start("hurried").await;
    env.clock.advance(999);
    assert_eq!(env.drain().await, 0, "the deadline has not passed");
    env.clock.advance(1);
    assert_eq!(env.drain().await, 1);
    assert_eq!(env.status(&of).await, "failed");
    let log = env.log(&of).await.join("\n");
    assert!(log.contains("interrupt.timed_out") && log.contains("approval_rejected"), "{log}");
    assert!(env.pending().await.is_empty());
    assert_eq!(env.drain().await, 0, "a deadline fires once");
}

async fn a_late_answer_is_refused_even_before_the_timer_fired(env: TestEnv) {
    env.register(hurried()).await;
    let of = env.start("hurried").await;
    env.clock.advance(1000);
    let late = env.answer(&of, "gate", accept()).await.unwrap_err();
    assert!(matches!(late, Error::Refused(Refusal::Expired)), "{late}");
}

async fn an_answer_in_time_disarms_the_deadline(env: TestEnv) {
    env.register(hurried()).await;
    let of = env.start("hurried").await;
    env.clock.advance(999);
    env.answer(&of, "gate", accept()).await.unwrap();
    env.clock.advance(10_000);
    assert_eq!(env.drain().await, 0);
    assert_eq!(env.status(&of).await, "completed");
}

async fn a_deadline_that_passed_while_the_server_was_down_fires_at_the_next_start(env: TestEnv) {
    env.register(hurried()).await;
    let of = env.start("hurried").await;
    env.engine.close().await;
    env.clock.advance(86_400_000);
    let env = env.reopen(|options| options).await;
    assert_eq!(env.drain().await, 1);
    assert_eq!(env.status(&of).await, "failed");
}

async fn a_sleeping_run_is_running_and_wakes_after_a_restart(env: TestEnv) {
    env.register(sleepy()).await;
    let of = env.start("sleepy").await;
    assert_eq!(env.status(&of).await, "running");
    env.clock.advance(59_999);
    let env = env.reopen(|options| options).await;
    assert_eq!(env.drain().await, 0);
    env.clock.advance(1);
    assert_eq!(env.drain().await, 1);
    assert_eq!(env.status(&of).await, "completed");
}

async fn a_cancelled_sleeping_run_is_not_woken(env: TestEnv) {
    env.register(sleepy()).await;
    let of = env.start("sleepy").await;
    env.engine.runs().cancel(&of, None, crate::test_env::alice()).await.unwrap();
    env.clock.advance(60_000);
    assert_eq!(env.drain().await, 0);
    assert_eq!(env.status(&of).await, "cancelled");
}

async fn the_id_of_a_delay_node_can_be_very_long(env: TestEnv) {
    // Ids that a database cannot compress.
    let long = |seed: u32| -> String {
        (0..2000_u32).map(|n| format!("{:x}", (n ^ seed).wrapping_mul(2_654_435_761))).collect()
    };
    let (first, second) = (long(1), long(2));
    let nap = json!({"ms": 1000});
    env.register(line("nap", &[(&first, "core.delay", nap.clone()), (&second, "core.delay", nap)])).await;
    let of = env.start("nap").await;
    let env = env.reopen(|options| options).await;
    for _ in 0..2 {
        env.clock.advance(999);
        assert_eq!(env.drain().await, 0);
        env.clock.advance(1);
        assert_eq!(env.drain().await, 1);
    }
    assert_eq!(env.status(&of).await, "completed");
    let gone = env.start("nap").await;
    env.engine.runs().cancel(&gone, None, crate::test_env::alice()).await.unwrap();
    env.clock.advance(1000);
    assert_eq!(env.drain().await, 0, "a cancelled run leaves no timer");
}

async fn the_duration_of_a_delay_can_come_from_an_input(env: TestEnv) {
    let mut nap = node("nap", "core.delay", json!({}));
    nap["inputs"] = json!({"delayMs": {"type": "variable", "variableName": "ms"}});
    env.register(graph("nap", &[nap], &[])).await;
    let of = env.start_with("nap", json!({"ms": 5})).await;
    env.clock.advance(5);
    env.drain().await;
    assert_eq!(env.status(&of).await, "completed");
    let wrong = env.start_with("nap", json!({"ms": "soon"})).await;
    assert_eq!(env.status(&wrong).await, "failed");
}

fn until(instant: &str) -> serde_json::Value {
    line("until", &[("nap", "core.delay", json!({"until": instant})), ("after", "core.noop", json!({}))])
}

/// The instant `NOON` plus some milliseconds, in RFC 3339.
fn noon_plus(ms: i64) -> String {
    Timestamp(NOON + ms).to_iso().as_str().to_owned()
}

async fn a_delay_ends_at_its_instant_also_after_a_restart(env: TestEnv) {
    env.register(until(&noon_plus(60_000))).await;
    let mut of_input = node("nap", "core.delay", json!({"ms": 1}));
    of_input["inputs"] = json!({"until": {"type": "variable", "variableName": "at"}});
    env.register(graph("input", &[of_input], &[])).await;
    let fixed = env.start("until").await;
    let given = env.start_with("input", json!({"at": "2027-01-15T09:01:00+01:00"})).await;
    assert!(
        env.log(&given).await.join("\n").contains("\"until\":1800000060000"),
        "the input overrides the config"
    );
    let part = env.start_with("input", json!({"at": "2027-01-15T08:00:59.9990001Z"})).await;
    env.clock.advance(59_999);
    let env = env.reopen(|options| options).await;
    assert_eq!(env.drain().await, 0, "a part of a millisecond is not too early");
    assert_eq!(env.status(&fixed).await, "running");
    env.clock.advance(1);
    assert_eq!(env.drain().await, 3);
    for of in [fixed, given, part] {
        assert_eq!(env.status(&of).await, "completed");
    }
}

async fn an_instant_in_the_past_is_no_delay(env: TestEnv) {
    for (at, instant) in [noon_plus(0), noon_plus(-1), "1970-01-01T00:00:00Z".to_owned()].iter().enumerate() {
        let mut flow = until(instant);
        flow["id"] = json!(format!("past-{at}"));
        env.register(flow).await;
        let of = env.start(&format!("past-{at}")).await;
        assert_eq!(env.status(&of).await, "completed");
        assert!(!env.log(&of).await.join("\n").contains("sleep.started"));
    }
}

async fn an_instant_beyond_the_limit_fails_the_node(env: TestEnv) {
    let years = 3652 * 24 * 60 * 60 * 1000;
    env.register(until(&noon_plus(years + 1))).await;
    let of = env.start("until").await;
    assert_eq!(env.status(&of).await, "failed");
    assert!(env.log(&of).await.join("\n").contains("invalid_input"));
    env.register(until(&noon_plus(years))).await;
    let of = env.start("until").await;
    assert_eq!(env.status(&of).await, "running");
    for wrong in [json!({"until": "tomorrow"}), json!({"until": 5}), json!({"until": noon_plus(0), "ms": 1})]
    {
        let flow = line("wrong", &[("nap", "core.delay", wrong.clone())]);
        let refused = env.engine.workflows().register(&crate::test_env::tenant(), flow).await;
        assert!(refused.unwrap_err().to_string().contains("config.until"), "{wrong}");
    }
}

/// A node that sleeps until instants before, at and after others.
struct AlarmNode;

impl Node for AlarmNode {
    async fn run(&self, context: &mut EffectContext) -> Result<Outputs, Stop> {
        for ms in [-5, 1000, 500, 2000] {
            context.sleep_until(Timestamp(NOON + ms))?;
        }
        context.sleep(10)?;
        Ok(Outputs::new())
    }
}

async fn a_rust_node_sleeps_until_instants_in_order(database: TestDatabase) {
    let env = TestEnv::with(database, |options| options.node("test.alarm", AlarmNode)).await;
    env.register(line("alarm", &[("n", "test.alarm", json!({}))])).await;
    let of = env.start("alarm").await;
    env.drain().await;
    for (ms, status) in
        [(999, "running"), (1, "running"), (999, "running"), (1, "running"), (10, "completed")]
    {
        env.clock.advance(ms);
        env.drain().await;
        assert_eq!(env.status(&of).await, status);
    }
    let sleeps = env.log(&of).await.iter().filter(|line| line.contains("sleep.started")).count();
    assert_eq!(sleeps, 4, "the instant before the begin of the visit is no sleep");
}

async fn a_timer_that_cannot_fire_does_not_block_others(env: TestEnv) {
    env.register(hurried()).await;
    env.register(sleepy()).await;
    let broken = env.start("sleepy").await;
    env.clock.advance(59_500);
    let fine = env.start("hurried").await;
    let sql = "UPDATE workflows SET definition = '{}' WHERE workflow_id = 'sleepy'";
    env.database.execute(sql).await.unwrap();
    let env = env.reopen(|options| options).await;
    env.clock.advance(1000);
    assert!(env.engine.worker().drain().await.is_err(), "the failed timer is reported");
    assert_eq!(env.status(&fine).await, "failed", "the deadline of the other run has fired");
    assert!(
        env.engine.runs().get(&broken).await.is_err(),
        "the run with the invalid definition cannot be read"
    );
}

async fn many_deadlines_fire_together_and_each_once(env: TestEnv) {
    env.register(hurried()).await;
    let mut runs = Vec::new();
    for _ in 0..300 {
        runs.push(env.start("hurried").await);
    }
    env.clock.advance(1000);
    assert_eq!(env.drain().await, 300);
    for of in &runs {
        let fired = env.log(of).await.iter().filter(|line| line.contains("timed_out")).count();
        assert_eq!(fired, 1);
    }
}
