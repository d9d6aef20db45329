//! The reports of a turn: a provider sends them while it works, and `turn_reports` records them.

use std::sync::PoisonError;
use std::sync::atomic::Ordering;

use holdpoint_core::agent::ReasoningVisibility;
use serde_json::Value;
use tokio::sync::mpsc;

use super::LockedHandle;
use crate::progress::{ProviderCall, ProviderProgress, public_id};

/// The limit for the bytes that a turn reports. Later reports of the turn are dropped.
const REPORTED_BYTES_MAX: usize = 4 * 1024 * 1024;
/// The number of calls that are compared with those of an interrupt.
const REPORTED_CALLS_MAX: usize = 256;

impl LockedHandle {
    /// Reports progress of this attempt to the readers of the run. Does not wait. Reports beyond the limit of a turn, and
    /// those of a call that is no turn, are dropped.
    pub fn report(&self, progress: ProviderProgress) {
        let Some(reports) = &self.reports else { return };
        if matches!(progress, ProviderProgress::Reasoning { .. })
            && self.reasoning == ReasoningVisibility::Hidden
        {
            return;
        }
        let before = self.reported_bytes.fetch_add(progress.bytes(), Ordering::Relaxed);
        if before.saturating_add(progress.bytes()) > REPORTED_BYTES_MAX {
            return;
        }
        if let ProviderProgress::Message(message) = &progress {
            let mut calls = self.reported_calls.lock().unwrap_or_else(PoisonError::into_inner);
            calls.extend(message.calls.iter().cloned());
            let surplus = calls.len().saturating_sub(REPORTED_CALLS_MAX);
            calls.drain(..surplus);
        }
        // The turn can have ended.
        let _ = reports.send(progress);
    }

    /// Returns the id that readers see for a tool call of the provider.
    pub fn call_id(&self, id: &str) -> String {
        public_id("call", [self.run(), &self.slot, id])
    }

    /// Returns the id that readers see for the last reported call with this name and these arguments.
    pub(crate) fn reported_call(&self, name: &Value, arguments: &Value) -> Option<String> {
        let calls = self.reported_calls.lock().unwrap_or_else(PoisonError::into_inner);
        let is_same = |call: &&ProviderCall| *name == *call.name && *arguments == call.arguments;
        calls.iter().rev().find(is_same).map(|call| self.call_id(&call.id))
    }

    /// Returns the id that readers see for a message of the provider.
    pub(crate) fn message_id(&self, id: &str) -> String {
        public_id("msg", [self.run(), &self.slot, id])
    }

    /// Starts the turn of this attempt. Returns its reports.
    pub(crate) fn collect_reports(
        &mut self,
        reasoning: ReasoningVisibility,
    ) -> mpsc::UnboundedReceiver<ProviderProgress> {
        let (sender, reports) = mpsc::unbounded_channel();
        (self.reports, self.reasoning) = (Some(sender), reasoning);
        reports
    }

    /// Returns whether reports of this turn were dropped.
    pub(crate) fn has_dropped_reports(&self) -> bool {
        self.reported_bytes.load(Ordering::Relaxed) > REPORTED_BYTES_MAX
    }
}
