//! Expiry of graph handles: cancels graphs that were not answered in time, deletes the state of providers, and deletes
//! the row after its retention.

use std::time::Duration;

use holdpoint_core::{Interrupt, Principal, Run, RunEnd, Timestamp};
use holdpoint_engine::extension::Handle;
use holdpoint_engine::{Engine, Error, OpenInterrupt};

use super::{GraphHandle, Graphs};
use crate::claude::sessions;
use crate::settings::ProviderLimits;
use crate::{AnyProvider, GraphAttempt, LockedHandle, NODE_TYPE, ProviderError, code};

/// The principal that cancels expired graphs.
pub(super) const EXPIRED_BY: &str = "system:expiry";
/// The number of handles in one batch.
const BATCH: u64 = 100;
/// The timeout of the calls in which a provider cancels a graph and deletes its state.
const PROVIDER_TIMEOUT: Duration = Duration::from_secs(30);
/// The delay before the expiry of a handle is retried after an error.
const POSTPONED_MS: u64 = 300_000;

/// The action for a handle whose expiry time has passed.
#[derive(Debug, PartialEq, Eq)]
enum ExpiryAction {
    /// The handle expires later: an interrupt has time left, or the graph does not wait.
    Later(Timestamp),
    /// The expiry cancels the run.
    Cancelled,
    /// The run has ended.
    Ended,
}

impl ExpiryAction {
    /// Returns the action for a handle. An interrupt stays open for the lifetime of a handle, or until its own
    /// deadline if that is later. Only a run that waits at a graph is cancelled; a run that executes other nodes or
    /// waits for other interrupts continues. For a graph that a caller started, all interrupts count, also those of child
    /// runs.
    ///
    /// A conversation is kept for the retention time after its last turn, so that the next turn can continue it, unless
    /// the caller ended it or it expired.
    fn of(run: &Run, open: &[OpenInterrupt], row: &Handle, now: Timestamp, limits: ProviderLimits) -> Self {
        let life_ms = limits.expires_ms;
        match &run.end {
            Some(end) if row.thread.is_some() && row.closed_at.is_none() && !is_expiry(end) => {
                let kept_until = end.at().plus_ms(limits.keep_ms);
                return if kept_until > now { Self::Later(kept_until) } else { Self::Ended };
            }
            Some(_) => return Self::Ended,
            None if row.closed_at.is_some() => return Self::Cancelled,
            None => {}
        }
        let is_own = |one: &OpenInterrupt| one.run.id == run.id;
        let waits = open.iter().filter_map(|one| {
            let asked = one.interrupt()?;
            (is_started_by_key(row) || is_own(one) && is_of_provider(run, asked)).then_some(asked)
        });
        let until =
            waits.map(|asked| asked.requested_at.plus_ms(life_ms).max(asked.expires_at().unwrap_or(now)));
        match until.max() {
            Some(until) if until <= now && run.next_work().is_none() => Self::Cancelled,
            Some(until) if until > now => Self::Later(until),
            _ => Self::Later(now.plus_ms(life_ms)),
        }
    }
}

/// Returns whether the run was cancelled because it was not answered in time.
fn is_expiry(end: &RunEnd) -> bool {
    matches!(end, RunEnd::Cancelled { by, .. } if by == EXPIRED_BY)
}

/// Returns whether a caller started the graph by a state key. Graph nodes of workflows create the other handles.
fn is_started_by_key(row: &Handle) -> bool {
    !row.start_digest.is_empty()
}

fn is_of_provider(run: &Run, asked: &Interrupt) -> bool {
    let mut nodes = run.workflow.nodes.iter();
    nodes.any(|node| node.id == asked.node && node.type_id == NODE_TYPE)
}

/// Ends expired handles.
pub(crate) async fn expire_handles(engine: &Engine) -> Result<(), Error> {
    let graphs = Graphs { engine };
    for row in &engine.handles().due(BATCH).await? {
        if let Err(error) = graphs.expire(row).await {
            tracing::warn!(%error, "the expiry of a graph handle failed and will be retried");
            engine.handles().expire_at(row, engine.now().plus_ms(POSTPONED_MS)).await?;
        }
    }
    graphs.sweep_sessions().await
}

impl Graphs<'_> {
    /// Ends a handle if it has expired.
    pub(super) async fn expire(self, row: &Handle) -> Result<(), Error> {
        let now = self.engine.now();
        // A concurrent expiry may have ended the handle, and another graph may use its state key.
        let found = self.engine.handles().by_key(&row.tenant, &row.state_key).await?;
        let Some(row) = found.filter(|found| found.run == row.run && found.expires_at <= now) else {
            return Ok(());
        };
        let of = self.current_run(&row).await?;
        let run = match self.engine.runs().get_stored(&of).await {
            Ok(run) => Some(run),
            Err(Error::NotFound(_)) => None,
            Err(error) => return Err(error),
        };
        let limits = self.providers().limits;
        let open = match &run {
            Some(run) => self.engine.interrupts().of_family(&row.tenant, run).await?,
            None => Vec::new(),
        };
        match run.as_deref().map(|run| ExpiryAction::of(run, &open, &row, now, limits)) {
            Some(ExpiryAction::Later(until)) => {
                return self.engine.handles().expire_at(&row, until).await.map(|_| ());
            }
            Some(ExpiryAction::Cancelled) => {
                let reason = Some("not answered before the handle's expires_at".to_owned());
                self.engine.runs().cancel(&of, reason, Principal::named(EXPIRED_BY)).await?;
            }
            Some(ExpiryAction::Ended) | None => {}
        }
        self.delete_provider_state(&row, run.as_deref()).await
    }

    /// Lets providers delete their state, and deletes the row after its retention.
    async fn delete_provider_state(self, row: &Handle, run: Option<&Run>) -> Result<(), Error> {
        let Some(mut locked) = self.lock_to_end(row).await? else { return Ok(()) };
        // The next turn may have prolonged the handle since it was read.
        if locked.row().expires_at > self.engine.now() {
            locked.close().await;
            return Ok(());
        }
        for (graph, slot) in locked.graphs() {
            // A provider that the operator has removed cannot be called.
            let Ok((provider, name)) = self.providers().find(&graph, &row.tenant) else { continue };
            locked.switch_graph(graph, name, slot);
            if let Err(error) = end_provider_run(&provider, &locked).await {
                tracing::warn!(
                    provider = provider.name(),
                    code = error.code,
                    "a provider did not delete the state of a graph; it will be retried"
                );
                let _ = locked.postpone().await;
                locked.close().await;
                return Ok(());
            }
        }
        let ended_at = |run: &Run| {
            let end = run.end.as_ref().map(RunEnd::at);
            end.map(|end| row.closed_at.map_or(end, |closed| end.max(closed)))
        };
        let kept_until = |run: &Run| ended_at(run).map(|end| end.plus_ms(self.providers().limits.keep_ms));
        let old = run.is_none_or(|run| kept_until(run).is_some_and(|until| until <= self.engine.now()));
        let over = old || locked.row().settled_at.is_some();
        if !over {
            let _ = locked.settle().await;
        }
        locked.close().await;
        if over {
            self.engine.handles().delete(row).await?;
        }
        Ok(())
    }

    /// Locks a handle for its end. Returns `None` while another task holds the lock.
    async fn lock_to_end(self, row: &Handle) -> Result<Option<LockedHandle>, Error> {
        let about = GraphAttempt {
            graph: row.graph.clone(),
            name: String::new(),
            slot: String::new(),
            attempt: "end".to_owned(),
            starts_turn: false,
            within: PROVIDER_TIMEOUT,
        };
        LockedHandle::open(self.engine, row, about).await
    }

    /// Deletes session folders on this machine whose handles do not exist. Another node may have ended them.
    async fn sweep_sessions(self) -> Result<(), Error> {
        for session in sessions::list(self.providers().sessions.clone()).await {
            let found = self.engine.handles().by_key(&session.tenant, &session.state_key).await?;
            if found.is_none_or(|row| row.run != session.run) {
                session.delete().await;
            }
        }
        Ok(())
    }

    /// Extends the expiry time of a graph after an answer. Writes only if less than half of the lifetime is left.
    pub(super) async fn extend_expiry(self, handle: &GraphHandle) -> Result<(), Error> {
        let (now, life) = (self.engine.now(), self.providers().limits.expires_ms);
        if handle.expires_at > now.plus_ms(life / 2) {
            return Ok(());
        }
        self.engine.handles().prolong(&handle.first, now.plus_ms(life)).await.map(|_| ())
    }
}

async fn end_provider_run(provider: &AnyProvider, locked: &LockedHandle) -> Result<(), ProviderError> {
    let both = async {
        provider.cancel(locked).await?;
        provider.forget(locked).await
    };
    let in_time = tokio::time::timeout(PROVIDER_TIMEOUT, both).await;
    in_time.unwrap_or_else(|_| {
        Err(ProviderError::transient(code::TIMEOUT, "the provider did not answer in time"))
    })
}
