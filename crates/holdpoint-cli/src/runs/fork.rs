//! `holdpoint runs fork`: replays a run or branches from one of its events.

use clap::Args;
use holdpoint_api::ids::ForkMode;
use holdpoint_api::runs::{ForkRun, RunForked, RunOptionsOverlay};

use super::{Client, Failure, Output, RunArg, RunReport, clean};
use crate::values;

pub(crate) const EXAMPLES: &str = "\
Examples:
  holdpoint runs fork RUN --mode replay            # the whole run again, as it was recorded
  holdpoint runs events RUN                        # shows the sequence numbers
  holdpoint runs fork RUN --mode branch --from 7   # copies events 0 to 6, then continues live
  holdpoint runs fork latest --mode branch --from 0 --tag what-if --watch

A replay has no interrupts and no effects: it uses the answers and results that were recorded.
A branch has its own interrupts and effects after the events that it copies.
The source run does not change.";

#[derive(Debug, Args)]
pub(crate) struct ForkArgs {
    #[command(flatten)]
    run: RunArg,
    /// replay repeats the record; branch copies its beginning and continues live
    #[arg(long, value_name = "MODE", value_parser = ["replay", "branch"])]
    mode: String,
    /// Sequence number of the first event that is not copied, as shown by `runs events`; required for a branch
    /// [default for a replay: 0]
    #[arg(long = "from", value_name = "N", required_if_eq("mode", "branch"), value_parser = clap::value_parser!(i64).range(0..))]
    from_seq: Option<i64>,
    /// Options that replace those of the source: recursionLimit, runTimeoutMs, …
    #[arg(long, value_name = "JSON|@FILE|-")]
    configurable: Option<String>,
    /// Metadata that replaces that of the source
    #[arg(long, value_name = "JSON|@FILE|-")]
    metadata: Option<String>,
    /// Tag; replaces the tags of the source; repeatable
    #[arg(long = "tag", value_name = "TAG")]
    tags: Option<Vec<String>>,
    /// Idempotency key: requests with the same key within a day create one fork
    #[arg(long, value_name = "KEY")]
    idempotency_key: Option<String>,
    /// Watch the new run to its end
    #[arg(long)]
    watch: bool,
}

pub(crate) fn run(client: &Client, output: &Output, args: ForkArgs) -> Result<(), Failure> {
    let source = args.run.id(client)?;
    let overlay = RunOptionsOverlay {
        configurable: values::object("--configurable", args.configurable.as_deref())?.unwrap_or_default(),
        tags: args.tags,
        metadata: values::object("--metadata", args.metadata.as_deref())?,
    };
    let mode = if args.mode == "branch" { ForkMode::Branch } else { ForkMode::Replay };
    let fork = ForkRun { mode, from_seq: args.from_seq, run_options_overlay: overlay };
    let request = client.runs().fork(&source, &fork);
    let reply = client.send_keyed(request, args.idempotency_key.as_deref())?;
    let RunForked { run_id, status, .. } = &reply.value;
    let heading = format!("forked run {}", clean(run_id.as_str()));
    RunReport { run: run_id, status: *status, heading, thread: None, watch: args.watch }
        .show(client, output, &reply)
}
