//! Nodes with effects: a worker executes them, enters them again after every interrupt, and does each step once.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use holdpoint_engine::core::{InterruptRequest, Kind};
use holdpoint_engine::{EffectContext, Node, Options, Outputs, Stop};
use serde_json::{Value, json};

use crate::test_database::{TestDatabase, on_both};
use crate::test_env::{NOON, TestEnv, alice, line};

on_both! {
    a_step_is_done_once_when_its_node_is_entered_again,
    a_queued_dispatch_is_executed_after_a_restart,
    a_sleep_starts_when_the_node_requests_it,
    a_node_id_can_be_very_long,
    a_worker_does_not_execute_a_cancelled_run,
    a_node_that_panics_is_retried_with_backoff,
    a_node_that_always_panics_fails_the_run,
    a_node_that_returns_lost_without_cause_fails_the_run,
    a_run_cancelled_during_a_step_writes_nothing_more,
}

/// A node that gets a quote, opens an interrupt and pays. It counts its effects.
#[derive(Clone, Default)]
pub(crate) struct Shop {
    pub quotes: Arc<AtomicU32>,
    pub payments: Arc<AtomicU32>,
}

impl Node for Shop {
    async fn run(&self, context: &mut EffectContext) -> Result<Outputs, Stop> {
        let (quotes, payments) = (self.quotes.clone(), self.payments.clone());
        let quote = context
            .step("quote", || async move {
                quotes.fetch_add(1, Ordering::SeqCst);
                Ok(json!(120))
            })
            .await?;
        let began = context.now();
        let answer = context
            .interrupt(InterruptRequest::new(Kind::Custom, json!({"customKind": "buy", "payload": quote})))?;
        let receipt = context
            .step("pay", || async move {
                payments.fetch_add(1, Ordering::SeqCst);
                Ok(answer)
            })
            .await?;
        Ok(Outputs::from_iter([("receipt".to_owned(), receipt), ("began".to_owned(), json!(began))]))
    }
}

/// A node that panics this many times.
struct PanickingNode(AtomicU32);

impl Node for PanickingNode {
    async fn run(&self, _context: &mut EffectContext) -> Result<Outputs, Stop> {
        let left = self.0.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1));
        assert!(left.is_err(), "the test panics here");
        Ok(Outputs::new())
    }
}

pub(crate) fn shopping() -> Value {
    line(
        "shopping",
        &[("a", "core.noop", json!({})), ("buy", "test.shop", json!({})), ("z", "core.noop", json!({}))],
    )
}

pub(crate) fn with_shop(shop: &Shop) -> impl FnOnce(Options) -> Options + use<> {
    let shop = shop.clone();
    move |options| options.node("test.shop", shop)
}

async fn a_step_is_done_once_when_its_node_is_entered_again(database: TestDatabase) {
    let shop = Shop::default();
    let env = TestEnv::with(database, with_shop(&shop)).await;
    env.register(shopping()).await;
    let of = env.start("shopping").await;
    assert_eq!(env.status(&of).await, "running", "the run waits for a worker");
    assert_eq!(env.drain().await, 1);
    assert_eq!(env.status(&of).await, "waiting-input");
    env.clock.advance(5000);
    let env = env.reopen(with_shop(&shop)).await;
    env.answer(&of, "buy", json!("r1")).await.unwrap();
    assert_eq!(env.drain().await, 1);
    let run = env.run(&of).await;
    assert_eq!((run.status().as_str(), &run.variables["receipt"]), ("completed", &json!("r1")));
    assert_eq!(run.variables["began"], json!(NOON), "the time of a node is its start, on every entry");
    assert_eq!((shop.quotes.load(Ordering::SeqCst), shop.payments.load(Ordering::SeqCst)), (1, 1));
}

async fn a_queued_dispatch_is_executed_after_a_restart(database: TestDatabase) {
    let shop = Shop::default();
    let env = TestEnv::with(database, with_shop(&shop)).await;
    env.register(shopping()).await;
    let of = env.start("shopping").await;
    let env = env.reopen(with_shop(&shop)).await;
    assert_eq!(env.drain().await, 1);
    assert_eq!(env.status(&of).await, "waiting-input");
}

async fn a_sleep_starts_when_the_node_requests_it(database: TestDatabase) {
    struct SleepingNode(holdpoint_engine::Clock);
    impl Node for SleepingNode {
        async fn run(&self, context: &mut EffectContext) -> Result<Outputs, Stop> {
            let clock = self.0.clone();
            context
                .step("long", || async move {
                    clock.advance(10_000);
                    Ok(json!(null))
                })
                .await?;
            context.sleep(5000)?;
            Ok(Outputs::new())
        }
    }
    let clock = holdpoint_engine::Clock::manual(NOON);
    let sleeping = SleepingNode(clock.clone());
    let env =
        TestEnv::with(database, |options| options.clock(clock.clone()).node("test.sleeping", sleeping)).await;
    env.register(line("rest", &[("r", "test.sleeping", json!({}))])).await;
    let of = env.start("rest").await;
    env.drain().await;
    clock.advance(4999);
    env.drain().await;
    assert_eq!(env.status(&of).await, "running");
    clock.advance(1);
    env.drain().await;
    assert_eq!(env.status(&of).await, "completed");
}

async fn a_node_id_can_be_very_long(env: TestEnv) {
    let long = "n".repeat(1000);
    let gate = json!({"title": "ok?", "actions": ["accept"]});
    env.register(line("long", &[(&long, "core.approvalGate", gate)])).await;
    let of = env.start("long").await;
    env.answer(&of, &long, crate::test_env::accept()).await.unwrap();
    assert_eq!(env.status(&of).await, "completed");
}

async fn a_worker_does_not_execute_a_cancelled_run(database: TestDatabase) {
    let shop = Shop::default();
    let env = TestEnv::with(database, with_shop(&shop)).await;
    env.register(shopping()).await;
    let of = env.start("shopping").await;
    env.engine.runs().cancel(&of, None, alice()).await.unwrap();
    env.drain().await;
    assert_eq!(env.status(&of).await, "cancelled");
    assert_eq!(shop.quotes.load(Ordering::SeqCst), 0);
}

async fn a_node_that_panics_is_retried_with_backoff(database: TestDatabase) {
    let env =
        TestEnv::with(database, |options| options.node("test.panicking", PanickingNode(AtomicU32::new(3))))
            .await;
    env.register(line("panicking", &[("s", "test.panicking", json!({}))])).await;
    let of = env.start("panicking").await;
    let (mut waits, mut waited) = (Vec::new(), 0);
    while env.status(&of).await == "running" {
        if env.drain().await == 0 {
            env.clock.advance(10);
            waited += 10;
        } else {
            waits.push(std::mem::take(&mut waited));
        }
        assert!(waited < 10_000, "the dispatch is not retried");
    }
    assert_eq!(env.status(&of).await, "completed");
    // Each delay is twice as long as the previous one, with a jitter of a fifth.
    let expected = [0..=0, 200..=300, 400..=600, 800..=1200];
    assert!(
        waits.len() == 4 && std::iter::zip(expected, &waits).all(|(range, ms)| range.contains(ms)),
        "{waits:?}"
    );
}

async fn a_node_that_always_panics_fails_the_run(database: TestDatabase) {
    let env = TestEnv::with(database, |options| {
        options.node("test.panicking", PanickingNode(AtomicU32::new(1000)))
    })
    .await;
    env.register(line("panicking", &[("s", "test.panicking", json!({}))])).await;
    let of = env.start("panicking").await;
    for _ in 0..10 {
        env.drain().await;
        env.clock.advance(30_000);
    }
    let log = env.log(&of).await;
    assert_eq!(env.status(&of).await, "failed");
    assert!(log.last().unwrap().contains("dispatch_failed"), "{log:?}");
}

async fn a_node_that_returns_lost_without_cause_fails_the_run(database: TestDatabase) {
    struct LostNode;
    impl Node for LostNode {
        async fn run(&self, _context: &mut EffectContext) -> Result<Outputs, Stop> {
            Err(Stop::Lost)
        }
    }
    let env = TestEnv::with(database, |options| options.node("test.lost", LostNode)).await;
    env.register(line("lost", &[("n", "test.lost", json!({}))])).await;
    let of = env.start("lost").await;
    env.drain().await;
    assert_eq!(env.status(&of).await, "failed");
    assert!(env.log(&of).await.last().unwrap().contains("run_lost"));
}

async fn a_run_cancelled_during_a_step_writes_nothing_more(database: TestDatabase) {
    type Signals = (tokio::sync::oneshot::Sender<()>, tokio::sync::oneshot::Receiver<()>);
    struct Slow(tokio::sync::Mutex<Option<Signals>>);
    impl Node for Slow {
        async fn run(&self, context: &mut EffectContext) -> Result<Outputs, Stop> {
            let signals = self.0.lock().await.take();
            context
                .step("slow", || async move {
                    let (started, go_on) = signals.expect("entered once");
                    started.send(()).unwrap();
                    go_on.await.unwrap();
                    Ok(json!("too late"))
                })
                .await?;
            Ok(Outputs::new())
        }
    }
    let (started, has_started) = tokio::sync::oneshot::channel();
    let (open, gate) = tokio::sync::oneshot::channel();
    let slow = Slow(tokio::sync::Mutex::new(Some((started, gate))));
    let env = TestEnv::with(database, |options| options.node("test.slow", slow)).await;
    env.register(line("slow", &[("s", "test.slow", json!({}))])).await;
    let of = env.start("slow").await;
    let mut worker = env.engine.worker();
    let cancel = async {
        has_started.await.unwrap();
        let cancelled = env.engine.runs().cancel(&of, None, alice()).await.unwrap();
        open.send(()).unwrap();
        cancelled
    };
    let (drained, cancelled) = tokio::join!(worker.drain(), cancel);
    drained.unwrap();
    assert_eq!(env.run(&of).await.seq, cancelled.seq, "{:?}", env.log(&of).await);
}
