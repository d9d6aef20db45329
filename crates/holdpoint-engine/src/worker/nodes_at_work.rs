//! The nodes of a run that execute side by side under one claim. Each one has a task, so that a node that panics or
//! blocks does not stop the others.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::task::{AbortHandle, Id, JoinSet};

use super::node_execution::NodeResult;
use crate::error::Error;

/// The nodes that execute. Dropping it aborts them.
#[derive(Default)]
pub(super) struct NodesAtWork {
    tasks: JoinSet<Result<NodeResult, Error>>,
    nodes: HashMap<Id, NodeTask>,
}

struct NodeTask {
    position: usize,
    unrecorded: UnrecordedEffects,
    abort: AbortHandle,
}

/// The number of effects of a node that are done and not yet recorded.
#[derive(Clone, Debug, Default)]
pub(super) struct UnrecordedEffects(Arc<AtomicUsize>);

/// An effect that is being recorded.
pub(super) struct UnrecordedEffect(Arc<AtomicUsize>);

impl UnrecordedEffects {
    pub(super) fn begin_recording(&self) -> UnrecordedEffect {
        self.0.fetch_add(1, Ordering::SeqCst);
        UnrecordedEffect(self.0.clone())
    }
}

impl Drop for UnrecordedEffect {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

/// A node whose execution has ended.
pub(super) struct EndedNode {
    pub position: usize,
    pub result: Result<NodeResult, Error>,
}

impl NodesAtWork {
    pub(super) fn is_empty(&self) -> bool {
        self.tasks.is_empty()
    }

    /// Starts the execution of the node at this position.
    pub(super) fn start(
        &mut self,
        position: usize,
        unrecorded: UnrecordedEffects,
        node: impl Future<Output = Result<NodeResult, Error>> + Send + 'static,
    ) {
        let abort = self.tasks.spawn(node);
        self.nodes.insert(abort.id(), NodeTask { position, unrecorded, abort });
    }

    /// Returns the next node that ends, or None if no node executes. No node is lost if the caller drops the future.
    pub(super) async fn next(&mut self) -> Option<EndedNode> {
        let (id, result) = match self.tasks.join_next_with_id().await? {
            Ok((id, result)) => (id, result),
            Err(error) if error.is_cancelled() => {
                (error.id(), Err(Error::Unfinished("the lease could not be renewed".to_owned())))
            }
            Err(error) => (error.id(), Err(Error::Unfinished(format!("the worker panicked: {error}")))),
        };
        let NodeTask { position, .. } = self.nodes.remove(&id)?;
        Some(EndedNode { position, result })
    }

    /// Aborts the nodes that do not record an effect.
    pub(super) fn abort_unless_recording(&self) {
        let idle = self.nodes.values().filter(|node| node.unrecorded.0.load(Ordering::SeqCst) == 0);
        idle.for_each(|node| node.abort.abort());
    }
}

#[cfg(test)]
mod tests {
    use holdpoint_core::{NodeOutcome, Timestamp};
    use tokio::sync::Notify;

    use super::*;

    #[tokio::test]
    async fn only_a_node_that_records_continues_when_the_lease_is_overdue() {
        let (mut nodes, recorded) = (NodesAtWork::default(), Arc::new(Notify::new()));
        let [recording, idle] = [UnrecordedEffects::default(), UnrecordedEffects::default()];
        let effect = recording.begin_recording();
        let may_end = recorded.clone();
        nodes.start(0, recording, async move {
            may_end.notified().await;
            drop(effect);
            Ok(NodeOutcome::Sleeping(Timestamp(0)).into())
        });
        nodes.start(1, idle, std::future::pending());
        nodes.abort_unless_recording();
        let aborted = nodes.next().await.expect("a node at work");
        assert_eq!((aborted.position, aborted.result.is_err()), (1, true));
        recorded.notify_one();
        let ended = nodes.next().await.expect("a node at work");
        assert_eq!((ended.position, ended.result.is_ok()), (0, true));
        assert!(nodes.next().await.is_none() && nodes.is_empty());
    }
}
