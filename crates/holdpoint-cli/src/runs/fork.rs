//! `holdpoint runs fork`.

use clap::Args;
use holdpoint_api::ids::ForkMode;
use holdpoint_api::runs::{ForkRun, RunForked, RunOptionsOverlay};

use super::{Client, Failure, Named, NewRun, Output};
use crate::values;

pub(crate) const EXAMPLES: &str = "\
Examples:
  holdpoint runs fork RUN --mode replay            # the whole run again, as it was recorded
  holdpoint runs events RUN                        # shows the numbers of events
  holdpoint runs fork RUN --mode branch --from 7   # copies events 0 to 6, then continues live
  holdpoint runs fork latest --mode branch --from 0 --tag what-if --watch

A replay has no interrupts and no effects: it uses the answers and results that were recorded.
A branch has its own interrupts and effects after the events that it copies.
The source run does not change.";

#[derive(Debug, Args)]
pub(crate) struct Fork {
    #[command(flatten)]
    run: Named,
    /// replay repeats the record; branch copies its beginning and continues live
    #[arg(long, value_name = "MODE", value_parser = ["replay", "branch"])]
    mode: String,
    /// The sequence number of the first event that is not copied, as `runs events` shows it. Required for a branch; 0 by
    /// default for a replay
    #[arg(long = "from", value_name = "N", required_if_eq("mode", "branch"), value_parser = clap::value_parser!(i64).range(0..))]
    from_seq: Option<i64>,
    /// Options in place of those of the source: recursionLimit, runTimeoutMs, …
    #[arg(long, value_name = "JSON|@FILE|-")]
    configurable: Option<String>,
    /// Metadata in place of that of the source
    #[arg(long, value_name = "JSON|@FILE|-")]
    metadata: Option<String>,
    /// A tag in place of those of the source. Repeat for more
    #[arg(long = "tag", value_name = "TAG")]
    tags: Option<Vec<String>>,
    /// A second request with the same key within a day does not fork the run again
    #[arg(long, value_name = "KEY")]
    idempotency_key: Option<String>,
    /// Watch the new run to its end
    #[arg(long)]
    watch: bool,
}

pub(crate) fn run(client: &Client, output: &Output, asked: Fork) -> Result<(), Failure> {
    let source = asked.run.id(client)?;
    let overlay = RunOptionsOverlay {
        configurable: values::object("--configurable", asked.configurable.as_deref())?.unwrap_or_default(),
        tags: asked.tags,
        metadata: values::object("--metadata", asked.metadata.as_deref())?,
    };
    let mode = if asked.mode == "branch" { ForkMode::Branch } else { ForkMode::Replay };
    let fork = ForkRun { mode, from_seq: asked.from_seq, run_options_overlay: overlay };
    let request = client.runs().fork(&source, &fork);
    let reply = client.send_keyed(request, asked.idempotency_key.as_deref())?;
    let RunForked { run_id, status, .. } = &reply.value;
    NewRun { id: run_id, status: *status, verb: "forked", watch: asked.watch }.show(client, output, &reply)
}
