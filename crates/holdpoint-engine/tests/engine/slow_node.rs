//! A node that ends when the test allows it, and a worker that is woken only by signals.

use std::sync::Arc;
use std::time::Duration;

use holdpoint_engine::core::{RunRef, StartRequest, WorkflowId};
use holdpoint_engine::{EffectContext, Engine, Node, Options, Outputs, Stop};
use serde_json::{Value, json};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinHandle;

use crate::test_env::{line, start, tenant};

/// Longer than any test may take.
pub(crate) const NEVER: Duration = Duration::from_secs(24 * 3600);
/// The timeout for conditions that hold at once, even on a slow machine.
const SOON: Duration = Duration::from_secs(30);

/// A node that reports its start and ends when the test allows it.
#[derive(Clone)]
pub(crate) struct SlowNode {
    started: UnboundedSender<()>,
    permits: Arc<Semaphore>,
}

impl Node for SlowNode {
    async fn run(&self, _: &mut EffectContext) -> Result<Outputs, Stop> {
        self.started.send(()).unwrap();
        self.permits.acquire().await.unwrap().forget();
        Ok(Outputs::new())
    }
}

/// The test's side of all slow nodes.
pub(crate) struct Control {
    node: SlowNode,
    started: UnboundedReceiver<()>,
}

impl Control {
    pub(crate) fn new() -> Self {
        let (started, starts) = unbounded_channel();
        Self { node: SlowNode { started, permits: Arc::new(Semaphore::new(0)) }, started: starts }
    }

    /// Adds the node. Disables the backstop and the end of leases, which wake the worker without a signal.
    pub(crate) fn configure(&self, options: Options) -> Options {
        options.node("test.slow", self.node.clone()).backstop(NEVER).lease(NEVER)
    }

    pub(crate) async fn wait_for_start(&mut self) {
        let started = tokio::time::timeout(SOON, self.started.recv()).await;
        started.expect("no node has started: a wake-up is lost").unwrap();
    }

    pub(crate) fn assert_none_started(&mut self) {
        assert!(self.started.try_recv().is_err(), "a node has started too early");
    }

    pub(crate) fn end_one(&self) {
        self.node.permits.add_permits(1);
    }
}

/// A workflow with one slow node.
pub(crate) fn slow() -> Value {
    line("slow", &[("n", "test.slow", json!({}))])
}

/// Starts a run of the slow workflow in a thread.
pub(crate) async fn start_slow(engine: &Engine, thread: &str) -> RunRef {
    let in_thread = StartRequest { thread: Some(thread.to_owned()), ..start(json!({})) };
    let run = engine.start(&WorkflowId::parse("slow").unwrap(), in_thread).await.unwrap();
    RunRef { tenant: tenant(), run: run.id.clone() }
}

/// Starts a worker. The sender stops it.
pub(crate) fn start_worker(engine: &Engine) -> (watch::Sender<bool>, JoinHandle<()>) {
    let (stop, stopping) = watch::channel(false);
    (stop, tokio::spawn(engine.worker().run(stopping)))
}

/// Waits for a condition without an event.
pub(crate) async fn until(what: &str, mut condition: impl FnMut() -> bool) {
    until_async(what, async || condition()).await;
}

/// Waits for a condition whose check is asynchronous.
pub(crate) async fn until_async(what: &str, mut condition: impl AsyncFnMut() -> bool) {
    let reached = async {
        while !condition().await {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(SOON, reached).await.unwrap_or_else(|_| panic!("timeout: {what}"));
}

/// Waits until the worker has handled all signals and is idle.
pub(crate) async fn wait_until_idle(engine: &Engine) {
    until("the worker is idle", || engine.worker_is_idle()).await;
}

/// Waits until a run has this status.
pub(crate) async fn wait_for_status(engine: &Engine, of: &RunRef, status: &str) {
    let mut changes = engine.subscribe(of);
    let arrived = async {
        while engine.run(of).await.unwrap().status().as_str() != status {
            changes.changed().await;
        }
    };
    tokio::time::timeout(SOON, arrived).await.unwrap_or_else(|_| panic!("timeout: the run is {status}"));
}
