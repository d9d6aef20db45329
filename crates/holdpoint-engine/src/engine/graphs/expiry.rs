//! The end of handles: graphs that nobody answered in time are ended, providers delete what they keep, and at last the
//! row goes.

use std::time::Duration;

use holdpoint_core::{Interrupt, Principal, Run, Timestamp};

use super::Handle;
use crate::engine::Engine;
use crate::error::Error;
use crate::providers::{About, Case, Provider, Trouble, code, sessions};
use crate::store::handles::{self, HandleRow};

/// Who ends what nobody answered in time.
pub(super) const EXPIRED_BY: &str = "system:expiry";
/// Handles in one go.
const BATCH: u64 = 100;
/// How long a provider may take to forget something.
const FORGET_WITHIN: Duration = Duration::from_secs(30);
/// How long a handle is left alone that could not be ended.
const POSTPONED_MS: u64 = 300_000;

/// What becomes of a handle whose time has come.
#[derive(Debug, PartialEq, Eq)]
enum Fate {
    /// Somebody still has time to answer, or nobody is asked.
    Later(Timestamp),
    Cancelled,
    /// Its run has ended.
    Ended,
}

impl Fate {
    /// A pause is waited for as long as handles live, and until its own deadline. Only what waits at a graph is ended: a run
    /// that goes on elsewhere, or waits for something else, is not the handle's.
    fn of(run: &Run, row: &HandleRow, now: Timestamp, life_ms: u64) -> Self {
        if run.finished() {
            return Self::Ended;
        }
        let ours = |asked: &&Interrupt| is_started_by_key(row) || is_of_provider(run, asked);
        let waits = run.open_interrupts().filter(ours);
        let until =
            waits.map(|asked| asked.requested_at.plus_ms(life_ms).max(asked.expires_at().unwrap_or(now)));
        match until.max() {
            Some(until) if until <= now && run.next_work().is_none() => Self::Cancelled,
            Some(until) if until > now => Self::Later(until),
            _ => Self::Later(now.plus_ms(life_ms)),
        }
    }
}

/// A handle that a caller has a key of; others are made by nodes of workflows.
fn is_started_by_key(row: &HandleRow) -> bool {
    !row.start_digest.is_empty()
}

fn is_of_provider(run: &Run, asked: &Interrupt) -> bool {
    let mut nodes = run.workflow.nodes.iter();
    nodes.any(|node| node.id == asked.node && node.type_id == handles::NODE_TYPE)
}

impl Engine {
    /// Ends what is due. How many handles that were.
    pub(crate) async fn expire_handles(&self) -> Result<usize, Error> {
        let due = handles::due(self.db(), self.now(), BATCH).await?;
        for row in &due {
            if let Err(error) = self.expire(row).await {
                tracing::warn!(%error, "a handle could not be ended; it is tried again");
                let later = self.now().plus_ms(POSTPONED_MS);
                self.write(vec![handles::look_later(row, later)]).await?;
            }
        }
        self.sweep_sessions().await?;
        Ok(due.len())
    }

    /// Ends a handle, or finds that it is not to be ended now.
    pub(super) async fn expire(&self, row: &HandleRow) -> Result<(), Error> {
        let now = self.now();
        // Others may have ended it, and its key may be another graph's by now.
        let found = handles::by_key(self.db(), &row.tenant, &row.state_key).await?;
        let Some(row) = found.filter(|found| found.run == row.run && found.expires_at <= now) else {
            return Ok(());
        };
        let run = match self.load(&row.of()).await {
            Ok(run) => Some(run),
            Err(Error::NotFound(_)) => None,
            Err(error) => return Err(error),
        };
        let life_ms = self.providers().limits.expires_ms;
        match run.as_deref().map(|run| Fate::of(run, &row, now, life_ms)) {
            Some(Fate::Later(until)) => {
                return self.write(vec![handles::look_later(&row, until)]).await.map(|_| ());
            }
            Some(Fate::Cancelled) => {
                let reason = Some("nobody answered before the handle's expires_at".to_owned());
                self.cancel(&row.of(), reason, Principal::named(EXPIRED_BY)).await?;
            }
            Some(Fate::Ended) | None => {}
        }
        self.forget(&row, run.as_deref()).await
    }

    /// Has providers delete what they keep, and deletes the row when it was kept for long enough.
    async fn forget(&self, row: &HandleRow, run: Option<&Run>) -> Result<(), Error> {
        let Some(mut case) = self.case_to_end(row).await? else { return Ok(()) };
        for (graph, slot) in case.graphs() {
            // A provider that the operator has taken away cannot be told.
            let Ok((provider, name)) = self.providers().find(&graph, &row.tenant) else { continue };
            case.turn_to(graph, name, slot);
            if let Err(trouble) = end(&provider, &case).await {
                tracing::warn!(provider = provider.name(), code = trouble.code, "a provider keeps a graph");
                let _ = case.postpone().await;
                case.close().await;
                return Ok(());
            }
        }
        let kept_until =
            |run: &Run| run.end.as_ref().map(|end| end.at().plus_ms(self.providers().limits.keep_ms));
        let old = run.is_none_or(|run| kept_until(run).is_some_and(|until| until <= self.now()));
        let over = old || case.row().settled_at.is_some();
        if !over {
            let _ = case.settle().await;
        }
        case.close().await;
        if over {
            self.write(handles::delete(row).to_vec()).await?;
        }
        Ok(())
    }

    /// Nothing while somebody is at work on it.
    async fn case_to_end(&self, row: &HandleRow) -> Result<Option<Case>, Error> {
        let about = About {
            graph: row.graph.clone(),
            name: String::new(),
            slot: String::new(),
            attempt: "end".to_owned(),
            within: FORGET_WITHIN,
        };
        Case::open(self, row, about).await
    }

    /// Folders on this machine whose handles are gone, perhaps ended by another node.
    async fn sweep_sessions(&self) -> Result<(), Error> {
        for session in sessions::all(self.providers().sessions.clone()).await {
            let found = handles::by_key(self.db(), &session.tenant, &session.state_key).await?;
            if found.is_none_or(|row| row.run != session.run) {
                session.delete().await;
            }
        }
        Ok(())
    }

    /// A graph that somebody answers is waited for anew. Written only now and then.
    pub(super) async fn prolong(&self, handle: &Handle) -> Result<(), Error> {
        let (now, life) = (self.now(), self.providers().limits.expires_ms);
        if handle.expires_at > now.plus_ms(life / 2) {
            return Ok(());
        }
        self.write(vec![handles::prolong(&handle.of, now.plus_ms(life))]).await.map(|_| ())
    }
}

async fn end(provider: &Provider, case: &Case) -> Result<(), Trouble> {
    let both = async {
        provider.cancel(case).await?;
        provider.forget(case).await
    };
    let in_time = tokio::time::timeout(FORGET_WITHIN, both).await;
    in_time.unwrap_or_else(|_| Err(Trouble::passing(code::TIMEOUT, "the provider did not answer in time")))
}
