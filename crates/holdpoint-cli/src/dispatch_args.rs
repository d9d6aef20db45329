//! The flags of the dispatch that a start or a message creates.

use clap::Args;
use holdpoint_api::mailbox::DispatchOptions;

use crate::values;

/// Flags of a new dispatch.
#[derive(Debug, Default, Args)]
pub(crate) struct DispatchArgs {
    /// Priority from 0 to 255, the smallest first; below 128 needs the scope runs:prioritize [default: 128]
    #[arg(long, value_name = "N")]
    priority: Option<u8>,
    /// Delay of the start of a run, such as 90s, 15m or 12h
    #[arg(long, value_name = "TIME", value_parser = values::seconds, conflicts_with = "at")]
    delay: Option<u64>,
    /// Instant of the start of a run, such as 2026-05-01T10:00:00Z
    #[arg(long, value_name = "INSTANT", value_parser = values::zoned_instant)]
    at: Option<jiff::Timestamp>,
    /// Failed attempts after which the dispatch is a dead letter, 1 to 100 [default: 5]
    #[arg(long, value_name = "N")]
    max_attempts: Option<u32>,
}

/// Flags of a new dispatch in a thread.
#[derive(Debug, Default, Args)]
pub(crate) struct ThreadDispatchArgs {
    #[command(flatten)]
    dispatch: DispatchArgs,
    /// Refuse the message while a dispatch of the thread with this key is queued or claimed; a message that creates no
    /// queued dispatch does not reserve the key
    #[arg(long, value_name = "KEY")]
    dedupe_key: Option<String>,
}

impl DispatchArgs {
    /// Returns the options of the request. `None` if no flag is set.
    pub(crate) fn options(&self) -> Option<DispatchOptions> {
        let options = DispatchOptions {
            priority: self.priority.map(u64::from),
            delay_ms: self.delay.map(|seconds| seconds.saturating_mul(1000)),
            available_at: self.at.map(|at| holdpoint_api::ids::Timestamp(at.as_millisecond()).into()),
            dedupe_key: None,
            max_attempts: self.max_attempts.map(u64::from),
        };
        Some(options).filter(|options| *options != DispatchOptions::default())
    }
}

impl ThreadDispatchArgs {
    /// Returns the options of the request. `None` if no flag is set.
    pub(crate) fn options(self) -> Option<DispatchOptions> {
        let options = self.dispatch.options();
        match self.dedupe_key {
            Some(key) => Some(DispatchOptions { dedupe_key: Some(key), ..options.unwrap_or_default() }),
            None => options,
        }
    }
}
