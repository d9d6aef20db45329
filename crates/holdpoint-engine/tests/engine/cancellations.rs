//! Nodes at work when their run is cancelled or their claim is lost: each reason has its own `Stop`.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use holdpoint_engine::core::RunRef;
use holdpoint_engine::core::mailbox::RunDispatchStatus;
use holdpoint_engine::extension::RunEndWatch;
use holdpoint_engine::{EffectContext, Node, Outputs, Stop, WaitingRun};
use serde_json::json;
use tokio::sync::Notify;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use crate::test_database::{TestDatabase, on_both};
use crate::test_env::{TestEnv, alice, line, tenant};

on_both! {
    a_cancelled_node_performs_no_further_effect_and_releases_what_it_holds,
    a_node_that_waits_is_stopped_by_the_cancellation,
    a_cancellation_by_another_node_is_reported_at_the_next_step,
    the_interruption_of_a_thread_is_a_cancellation,
    a_lost_claim_is_not_a_cancellation,
    a_node_that_reports_a_cancellation_without_cause_fails,
}

/// The behaviour of the node after its first step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Then {
    /// Performs a second step when the test allows it.
    Step,
    /// Waits for something that does not happen.
    Wait,
    /// Returns `Stop::Cancelled`.
    Claim,
}

/// A node that reports the reason why it stops.
#[derive(Clone)]
struct WorkingNode {
    then: Then,
    began: Arc<Notify>,
    go_on: Arc<Notify>,
    effects: Arc<AtomicU32>,
    stops: UnboundedSender<Stop>,
}

impl WorkingNode {
    fn new(then: Then) -> (Self, UnboundedReceiver<Stop>) {
        let (stops, stopped) = unbounded_channel();
        let (began, go_on, effects) = (Arc::default(), Arc::default(), Arc::default());
        (Self { then, began, go_on, effects, stops }, stopped)
    }

    async fn work(&self, context: &mut EffectContext) -> Result<Outputs, Stop> {
        context.step("first", || async { Ok(json!(1)) }).await?;
        self.began.notify_one();
        let effects = self.effects.clone();
        match self.then {
            Then::Step => {
                self.go_on.notified().await;
                let effect = || async move { Ok(json!(effects.fetch_add(1, Ordering::SeqCst))) };
                context.step("second", effect).await?;
            }
            Then::Wait => RunEndWatch::of(context).unless_ended(std::future::pending::<()>()).await?,
            Then::Claim => return Err(Stop::Cancelled),
        }
        Ok(Outputs::new())
    }
}

impl Node for WorkingNode {
    async fn run(&self, context: &mut EffectContext) -> Result<Outputs, Stop> {
        let worked = self.work(context).await;
        if let Err(stop) = &worked {
            // The node releases what it holds: it is not aborted.
            tokio::task::yield_now().await;
            let reason = match stop {
                Stop::Cancelled => Stop::Cancelled,
                Stop::Lost => Stop::Lost,
                other => Stop::failed("unexpected", format!("{other:?}")),
            };
            self.stops.send(reason).unwrap();
        }
        worked
    }
}

async fn working(database: TestDatabase, node: &WorkingNode) -> (TestEnv, RunRef) {
    let node = node.clone();
    let env = TestEnv::with(database, |options| options.node("test.working", node)).await;
    env.register(line("work", &[("n", "test.working", json!({}))])).await;
    let of = env.start("work").await;
    (env, of)
}

/// Executes the run while the test interferes, and returns the reason why the node stopped.
async fn interfere(
    env: &TestEnv,
    node: &WorkingNode,
    stopped: &mut UnboundedReceiver<Stop>,
    interference: impl Future<Output = ()>,
) -> Stop {
    let mut worker = env.engine.worker();
    let disturb = async {
        node.began.notified().await;
        interference.await;
        node.go_on.notify_one();
    };
    let (drained, ()) = tokio::join!(worker.drain(), disturb);
    drained.unwrap();
    stopped.try_recv().unwrap()
}

async fn statuses(env: &TestEnv, of: &RunRef) -> Vec<RunDispatchStatus> {
    let rows = env.engine.mailbox(&tenant()).list_dispatches(of.run.as_str(), None, 10, 0).await.unwrap();
    rows.iter().map(|row| row.status).collect()
}

async fn a_cancelled_node_performs_no_further_effect_and_releases_what_it_holds(database: TestDatabase) {
    let (node, mut stopped) = WorkingNode::new(Then::Step);
    let (env, of) = working(database, &node).await;
    let cancel = async { drop(env.engine.runs().cancel(&of, None, alice()).await.unwrap()) };
    assert_eq!(interfere(&env, &node, &mut stopped, cancel).await, Stop::Cancelled);
    assert_eq!(node.effects.load(Ordering::SeqCst), 0, "the second effect is not performed");
    assert_eq!(env.status(&of).await, "cancelled");
    assert_eq!(statuses(&env, &of).await, [RunDispatchStatus::Acked]);
    assert!(env.log(&of).await.last().unwrap().contains("run.cancelled"), "nothing follows the cancellation");
}

async fn a_node_that_waits_is_stopped_by_the_cancellation(database: TestDatabase) {
    let (node, mut stopped) = WorkingNode::new(Then::Wait);
    let (env, of) = working(database, &node).await;
    let cancel = async { drop(env.engine.runs().cancel(&of, None, alice()).await.unwrap()) };
    assert_eq!(interfere(&env, &node, &mut stopped, cancel).await, Stop::Cancelled);
    assert_eq!(statuses(&env, &of).await, [RunDispatchStatus::Acked]);
}

async fn a_cancellation_by_another_node_is_reported_at_the_next_step(database: TestDatabase) {
    let (node, mut stopped) = WorkingNode::new(Then::Step);
    let (env, of) = working(database, &node).await;
    let other = env.second_engine(|options| options).await;
    let cancel = async { drop(other.runs().cancel(&of, None, alice()).await.unwrap()) };
    assert_eq!(interfere(&env, &node, &mut stopped, cancel).await, Stop::Cancelled);
    let log = env.log(&of).await.join("\n");
    assert!(!log.contains("second"), "the result of the second step is not recorded: {log}");
}

async fn the_interruption_of_a_thread_is_a_cancellation(database: TestDatabase) {
    let (node, mut stopped) = WorkingNode::new(Then::Step);
    let added = node.clone();
    let env = TestEnv::with(database, |options| options.node("test.working", added)).await;
    env.register(line("work", &[("n", "test.working", json!({}))])).await;
    let workflow = holdpoint_engine::core::WorkflowId::parse("work").unwrap();
    let start = crate::test_env::start(json!({}));
    let run = env.engine.threads().start(&workflow, "t1", start, None).await.unwrap();
    let other = env.second_engine(|options| options).await;
    let interrupt = async {
        let done = other.threads().interrupt(&tenant(), "t1", WaitingRun::Cancel, alice()).await.unwrap();
        assert_eq!(done.cancelled.as_ref(), Some(&run.id));
    };
    assert_eq!(interfere(&env, &node, &mut stopped, interrupt).await, Stop::Cancelled);
}

async fn a_lost_claim_is_not_a_cancellation(database: TestDatabase) {
    let (node, mut stopped) = WorkingNode::new(Then::Step);
    let (env, of) = working(database, &node).await;
    let lose = async {
        env.expire_leases().await;
        let mailbox = env.engine.mailbox(&tenant());
        assert_eq!(mailbox.reclaim_expired_leases(env.clock.now(), 10).await.unwrap().len(), 1);
        // The next execution must not wait for the test.
        node.go_on.notify_one();
    };
    assert_eq!(interfere(&env, &node, &mut stopped, lose).await, Stop::Lost);
    assert_eq!(env.status(&of).await, "completed", "another claim has executed the run");
}

async fn a_node_that_reports_a_cancellation_without_cause_fails(database: TestDatabase) {
    let (node, mut stopped) = WorkingNode::new(Then::Claim);
    let (env, of) = working(database, &node).await;
    assert_eq!(interfere(&env, &node, &mut stopped, async {}).await, Stop::Cancelled);
    assert_eq!(env.status(&of).await, "failed");
    assert!(env.log(&of).await.join("\n").contains("run_cancelled"));
}
