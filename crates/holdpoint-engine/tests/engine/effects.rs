//! Nodes with outside effects: run by a worker, entered again after every pause, each step done once.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use holdpoint_engine::core::{Kind, Request};
use holdpoint_engine::{EffectContext, Node, Options, Outputs, Stop};
use serde_json::{Value, json};

use crate::house::{House, NOON, alice, line};
use crate::place::{Place, on_both};

on_both! {
    a_step_is_done_once_however_often_its_node_is_entered,
    work_that_nobody_had_begun_is_done_after_a_restart,
    a_node_sleeps_from_the_moment_it_says_so,
    a_node_may_have_a_name_of_any_length,
    a_cancelled_run_is_left_alone_by_its_worker,
    a_worker_that_panics_is_tried_again,
    a_worker_that_always_panics_ends_the_run_with_an_error,
    a_node_that_only_says_it_lost_its_run_fails_instead_of_parking_it,
    a_run_that_is_cancelled_under_its_worker_writes_nothing_more,
}

/// Buys something: gets a quote, asks, pays. Counts what it did outside.
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
        let answer =
            context.interrupt(Request::new(Kind::Custom, json!({"customKind": "buy", "payload": quote})))?;
        let receipt = context
            .step("pay", || async move {
                payments.fetch_add(1, Ordering::SeqCst);
                Ok(answer)
            })
            .await?;
        Ok(Outputs::from_iter([("receipt".to_owned(), receipt), ("began".to_owned(), json!(began))]))
    }
}

/// Fails outside: with a panic as often as it is told to.
struct Shaky(AtomicU32);

impl Node for Shaky {
    async fn run(&self, _context: &mut EffectContext) -> Result<Outputs, Stop> {
        let left = self.0.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1));
        assert!(left.is_err(), "shaking");
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

async fn a_step_is_done_once_however_often_its_node_is_entered(place: Place) {
    let shop = Shop::default();
    let house = House::with(place, with_shop(&shop)).await;
    house.register(shopping()).await;
    let of = house.start("shopping").await;
    assert_eq!(house.status(&of).await, "running", "a worker must come");
    assert_eq!(house.drain().await, 1);
    assert_eq!(house.status(&of).await, "waiting-input");
    house.clock.advance(5000);
    let house = house.reopen(with_shop(&shop)).await;
    house.answer(&of, "buy", json!("r1")).await.unwrap();
    assert_eq!(house.drain().await, 1);
    let run = house.run(&of).await;
    assert_eq!((run.status().as_str(), &run.variables["receipt"]), ("completed", &json!("r1")));
    assert_eq!(run.variables["began"], json!(NOON), "a node's time is the time it began, on every entry");
    assert_eq!((shop.quotes.load(Ordering::SeqCst), shop.payments.load(Ordering::SeqCst)), (1, 1));
}

async fn work_that_nobody_had_begun_is_done_after_a_restart(place: Place) {
    let shop = Shop::default();
    let house = House::with(place, with_shop(&shop)).await;
    house.register(shopping()).await;
    let of = house.start("shopping").await;
    let house = house.reopen(with_shop(&shop)).await;
    assert_eq!(house.drain().await, 1);
    assert_eq!(house.status(&of).await, "waiting-input");
}

async fn a_node_sleeps_from_the_moment_it_says_so(place: Place) {
    struct Rester(holdpoint_engine::Clock);
    impl Node for Rester {
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
    let rester = Rester(clock.clone());
    let house = House::with(place, |options| options.clock(clock.clone()).node("test.rester", rester)).await;
    house.register(line("rest", &[("r", "test.rester", json!({}))])).await;
    let of = house.start("rest").await;
    house.drain().await;
    clock.advance(4999);
    house.drain().await;
    assert_eq!(house.status(&of).await, "running");
    clock.advance(1);
    house.drain().await;
    assert_eq!(house.status(&of).await, "completed");
}

async fn a_node_may_have_a_name_of_any_length(house: House) {
    let long = "n".repeat(1000);
    let gate = json!({"title": "ok?", "actions": ["accept"]});
    house.register(line("long", &[(&long, "core.approvalGate", gate)])).await;
    let of = house.start("long").await;
    house.answer(&of, &long, crate::house::accept()).await.unwrap();
    assert_eq!(house.status(&of).await, "completed");
}

async fn a_cancelled_run_is_left_alone_by_its_worker(place: Place) {
    let shop = Shop::default();
    let house = House::with(place, with_shop(&shop)).await;
    house.register(shopping()).await;
    let of = house.start("shopping").await;
    house.engine.cancel(&of, None, alice()).await.unwrap();
    house.drain().await;
    assert_eq!(house.status(&of).await, "cancelled");
    assert_eq!(shop.quotes.load(Ordering::SeqCst), 0);
}

async fn a_worker_that_panics_is_tried_again(place: Place) {
    let house = House::with(place, |options| options.node("test.shaky", Shaky(AtomicU32::new(3)))).await;
    house.register(line("shaky", &[("s", "test.shaky", json!({}))])).await;
    let of = house.start("shaky").await;
    let (mut waits, mut waited) = (Vec::new(), 0);
    while house.status(&of).await == "running" {
        if house.drain().await == 0 {
            house.clock.advance(10);
            waited += 10;
        } else {
            waits.push(std::mem::take(&mut waited));
        }
        assert!(waited < 10_000, "it never came back");
    }
    assert_eq!(house.status(&of).await, "completed");
    // Each wait is twice as long as the last, give or take a fifth.
    let expected = [0..=0, 200..=300, 400..=600, 800..=1200];
    assert!(
        waits.len() == 4 && std::iter::zip(expected, &waits).all(|(range, ms)| range.contains(ms)),
        "{waits:?}"
    );
}

async fn a_worker_that_always_panics_ends_the_run_with_an_error(place: Place) {
    let house = House::with(place, |options| options.node("test.shaky", Shaky(AtomicU32::new(1000)))).await;
    house.register(line("shaky", &[("s", "test.shaky", json!({}))])).await;
    let of = house.start("shaky").await;
    for _ in 0..10 {
        house.drain().await;
        house.clock.advance(30_000);
    }
    let log = house.log(&of).await;
    assert_eq!(house.status(&of).await, "failed");
    assert!(log.last().unwrap().contains("dispatch_failed"), "{log:?}");
}

async fn a_node_that_only_says_it_lost_its_run_fails_instead_of_parking_it(place: Place) {
    struct Quitter;
    impl Node for Quitter {
        async fn run(&self, _context: &mut EffectContext) -> Result<Outputs, Stop> {
            Err(Stop::Lost)
        }
    }
    let house = House::with(place, |options| options.node("test.quitter", Quitter)).await;
    house.register(line("quit", &[("q", "test.quitter", json!({}))])).await;
    let of = house.start("quit").await;
    house.drain().await;
    assert_eq!(house.status(&of).await, "failed");
    assert!(house.log(&of).await.last().unwrap().contains("run_lost"));
}

async fn a_run_that_is_cancelled_under_its_worker_writes_nothing_more(place: Place) {
    type Signals = (tokio::sync::oneshot::Sender<()>, tokio::sync::oneshot::Receiver<()>);
    struct Slow(tokio::sync::Mutex<Option<Signals>>);
    impl Node for Slow {
        async fn run(&self, context: &mut EffectContext) -> Result<Outputs, Stop> {
            let signals = self.0.lock().await.take();
            context
                .step("slow", || async move {
                    let (begun, go_on) = signals.expect("entered once");
                    begun.send(()).unwrap();
                    go_on.await.unwrap();
                    Ok(json!("too late"))
                })
                .await?;
            Ok(Outputs::new())
        }
    }
    let (begun, has_begun) = tokio::sync::oneshot::channel();
    let (open, gate) = tokio::sync::oneshot::channel();
    let slow = Slow(tokio::sync::Mutex::new(Some((begun, gate))));
    let house = House::with(place, |options| options.node("test.slow", slow)).await;
    house.register(line("slow", &[("s", "test.slow", json!({}))])).await;
    let of = house.start("slow").await;
    let mut worker = house.engine.worker();
    let cancel = async {
        has_begun.await.unwrap();
        let cancelled = house.engine.cancel(&of, None, alice()).await.unwrap();
        open.send(()).unwrap();
        cancelled
    };
    let (drained, cancelled) = tokio::join!(worker.drain(), cancel);
    drained.unwrap();
    assert_eq!(house.run(&of).await.seq, cancelled.seq, "{:?}", house.log(&of).await);
}
