//! A node that takes as long as the test wants, and a worker that is woken by signals alone.

use std::sync::Arc;
use std::time::Duration;

use holdpoint_engine::core::{RunRef, Start, WorkflowId};
use holdpoint_engine::{EffectContext, Engine, Node, Options, Outputs, Stop};
use serde_json::{Value, json};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinHandle;

use crate::house::{line, start, tenant};

/// Longer than any test may take.
pub(crate) const NEVER: Duration = Duration::from_secs(24 * 3600);
/// For what happens at once, on the slowest machine.
const SOON: Duration = Duration::from_secs(30);

/// Says that it has begun, and ends when it is let go.
#[derive(Clone)]
pub(crate) struct SlowNode {
    begun: UnboundedSender<()>,
    ends: Arc<Semaphore>,
}

impl Node for SlowNode {
    async fn run(&self, _: &mut EffectContext) -> Result<Outputs, Stop> {
        self.begun.send(()).unwrap();
        self.ends.acquire().await.unwrap().forget();
        Ok(Outputs::new())
    }
}

/// The other side of all slow nodes of a test.
pub(crate) struct Control {
    node: SlowNode,
    begun: UnboundedReceiver<()>,
}

impl Control {
    pub(crate) fn new() -> Self {
        let (begun, has_begun) = unbounded_channel();
        Self { node: SlowNode { begun, ends: Arc::new(Semaphore::new(0)) }, begun: has_begun }
    }

    /// Adds the node, and leaves the worker nothing to rely on but signals: it would also look when a lease is over.
    pub(crate) fn furnish(&self, options: Options) -> Options {
        options.node("test.slow", self.node.clone()).backstop(NEVER).lease(NEVER)
    }

    pub(crate) async fn one_begins(&mut self) {
        let begun = tokio::time::timeout(SOON, self.begun.recv()).await;
        begun.expect("nothing has begun: a wake-up is lost").unwrap();
    }

    pub(crate) fn none_has_begun(&mut self) {
        assert!(self.begun.try_recv().is_err(), "something has begun too early");
    }

    pub(crate) fn end_one(&self) {
        self.node.ends.add_permits(1);
    }
}

/// A workflow with one slow node.
pub(crate) fn slow() -> Value {
    line("slow", &[("n", "test.slow", json!({}))])
}

/// Starts a run of it in a thread.
pub(crate) async fn start_slow(engine: &Engine, thread: &str) -> RunRef {
    let in_thread = Start { thread: Some(thread.to_owned()), ..start(json!({})) };
    let run = engine.start(&WorkflowId::parse("slow").unwrap(), in_thread).await.unwrap();
    RunRef { tenant: tenant(), run: run.id.clone() }
}

/// A worker, and how it is stopped.
pub(crate) fn work(engine: &Engine) -> (watch::Sender<bool>, JoinHandle<()>) {
    let (stop, stopping) = watch::channel(false);
    (stop, tokio::spawn(engine.worker().run(stopping)))
}

/// Waits for a condition that has no event of its own.
pub(crate) async fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    until_async(what, async || is_so()).await;
}

/// Waits for a condition that takes a question to somebody else.
pub(crate) async fn until_async(what: &str, mut is_so: impl AsyncFnMut() -> bool) {
    let so = async {
        while !is_so().await {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(SOON, so).await.unwrap_or_else(|_| panic!("{what} never happens"));
}

/// Waits until the worker has looked at everything it was told of, and sleeps.
pub(crate) async fn sleeps(engine: &Engine) {
    until("that the worker sleeps", || engine.worker_is_idle()).await;
}

/// Waits until a run has this status.
pub(crate) async fn reaches(engine: &Engine, of: &RunRef, status: &str) {
    let mut changes = engine.subscribe(of);
    let arrived = async {
        while engine.run(of).await.unwrap().status().as_str() != status {
            changes.changed().await;
        }
    };
    tokio::time::timeout(SOON, arrived).await.unwrap_or_else(|_| panic!("the run is never {status}"));
}
