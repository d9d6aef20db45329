//! Reads the events of a thread, run after run. A thread has at most one open run, so the reader follows one log at a
//! time and continues with the next run when that log ends.

use std::sync::Arc;

use holdpoint_core::{RunId, RunRef, TenantId};

use super::{FrameContent, LogCache, LogReader, UnreadFrames};
use crate::error::ApiError;
use crate::streams::{LogWait, Wakeup};
use crate::thread_cursor::ThreadPosition;

/// A position in the events of a thread.
#[derive(Debug)]
pub(crate) struct ThreadReader {
    log: Arc<LogCache>,
    tenant: TenantId,
    thread: String,
    /// The current run, or the last one that was read to its end.
    at: RunId,
    /// None between two runs.
    reader: Option<LogReader>,
    run_starts: LogWait,
}

impl ThreadReader {
    /// Opens a reader after a position, or at the first event of the thread. Rejects an unknown thread. Returns None if
    /// the position is not in the thread.
    pub(crate) async fn open(
        log: &Arc<LogCache>,
        tenant: &TenantId,
        thread: &str,
        after: Option<ThreadPosition>,
    ) -> Result<Option<Self>, ApiError> {
        // Subscribes before the query, so that no new run is missed.
        let run_starts = LogWait::new(log.engine.threads().subscribe(tenant, thread), &log.stopping);
        let first = log.engine.threads().next_run(tenant, thread, None).await?;
        let first = first.ok_or_else(|| ApiError::not_found("thread"))?;
        let (at, next) = match after {
            None => (first, 0),
            Some((run, seq)) => match log.engine.threads().run_length(tenant, thread, &run).await? {
                Some(length) if seq < length => (run, seq + 1),
                _ => return Ok(None),
            },
        };
        let of = RunRef { tenant: tenant.clone(), run: at.clone() };
        let reader = Some(LogReader::open(log, of, FrameContent::Documents, next).await?);
        let (tenant, thread) = (tenant.clone(), thread.to_owned());
        Ok(Some(Self { log: log.clone(), tenant, thread, at, reader, run_starts }))
    }

    /// Waits for the next events. Returns None if the server shuts down. Cancel safe.
    pub(crate) async fn next(&mut self) -> Result<Option<UnreadFrames>, ApiError> {
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
            if !self.open_next_run().await? && self.run_starts.next().await == Wakeup::Stopping {
                return Ok(None);
            }
        }
    }

    /// Returns the next events that exist now, or None.
    pub(crate) async fn read(&mut self) -> Result<Option<UnreadFrames>, ApiError> {
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
            if !self.open_next_run().await? {
                return Ok(None);
            }
        }
    }

    /// Opens the log of the next run. Returns false if there is none.
    async fn open_next_run(&mut self) -> Result<bool, ApiError> {
        let next = self.log.engine.threads().next_run(&self.tenant, &self.thread, Some(&self.at)).await?;
        let Some(run) = next else { return Ok(false) };
        let of = RunRef { tenant: self.tenant.clone(), run: run.clone() };
        self.reader = Some(LogReader::open(&self.log, of, FrameContent::Documents, 0).await?);
        self.at = run;
        Ok(true)
    }
}
