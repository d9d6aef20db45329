//! Follows a thread from run to run. Of a thread's runs one is open at a time: so there is one log to read, and behind
//! its end the next one that begins.

use std::sync::Arc;
use std::time::Duration;

use holdpoint_core::{RunId, RunRef, TenantId};
use holdpoint_engine::Subscription;
use tokio::sync::watch;

use super::{Log, Reader, Rest, Shape};
use crate::error::ApiError;
use crate::places::Place;

/// Looks again this often even if nobody said that a run has begun.
const BACKSTOP: Duration = Duration::from_secs(10);

#[derive(Debug)]
pub(crate) struct Follower {
    log: Arc<Log>,
    tenant: TenantId,
    thread: String,
    /// The run that is being read, or was read to its end.
    at: RunId,
    /// Nothing between two runs.
    reader: Option<Reader>,
    begun: Subscription,
    stopping: watch::Receiver<bool>,
}

impl Follower {
    /// From behind a place on, or from the beginning. Refused when there is no such thread; nothing when the place is
    /// not in it.
    pub(crate) async fn open(
        log: &Arc<Log>,
        tenant: &TenantId,
        thread: &str,
        behind: Option<Place>,
    ) -> Result<Option<Self>, ApiError> {
        // What begins after this is heard of, what began before it is found.
        let begun = log.engine.subscribe_thread(tenant, thread);
        let first = log.engine.next_thread_run(tenant, thread, None).await?;
        let first = first.ok_or_else(|| ApiError::not_found("thread"))?;
        let (at, next) = match behind {
            None => (first, 0),
            Some((run, seq)) => match log.engine.thread_run_length(tenant, thread, &run).await? {
                Some(length) if seq < length => (run, seq + 1),
                _ => return Ok(None),
            },
        };
        let of = RunRef { tenant: tenant.clone(), run: at.clone() };
        let reader = Some(Reader::open(log, of, Shape::Documents, next).await?);
        let (tenant, thread, stopping) = (tenant.clone(), thread.to_owned(), log.stopping.clone());
        Ok(Some(Self { log: log.clone(), tenant, thread, at, reader, begun, stopping }))
    }

    /// The next events; nothing when the server goes down. May be dropped and called again.
    pub(crate) async fn next(&mut self) -> Result<Option<Rest>, ApiError> {
        loop {
            if let Some(reader) = &mut self.reader {
                if let Some(rest) = reader.next().await? {
                    return Ok(Some(rest));
                }
                if !reader.ended() {
                    return Ok(None);
                }
                self.reader = None;
            }
            if self.go_on().await? {
                continue;
            }
            if *self.stopping.borrow() {
                return Ok(None);
            }
            tokio::select! {
                () = self.begun.changed() => {}
                () = tokio::time::sleep(BACKSTOP) => {}
                _ = self.stopping.changed() => return Ok(None),
            }
        }
    }

    /// What is there to be read now.
    pub(crate) async fn read(&mut self) -> Result<Option<Rest>, ApiError> {
        loop {
            if let Some(reader) = &mut self.reader {
                if let Some(rest) = reader.read().await? {
                    return Ok(Some(rest));
                }
                if !reader.ended() {
                    return Ok(None);
                }
                self.reader = None;
            }
            if !self.go_on().await? {
                return Ok(None);
            }
        }
    }

    /// Turns to the next run, if there is one.
    async fn go_on(&mut self) -> Result<bool, ApiError> {
        let next = self.log.engine.next_thread_run(&self.tenant, &self.thread, Some(&self.at)).await?;
        let Some(run) = next else { return Ok(false) };
        let of = RunRef { tenant: self.tenant.clone(), run: run.clone() };
        self.reader = Some(Reader::open(&self.log, of, Shape::Documents, 0).await?);
        self.at = run;
        Ok(true)
    }
}
