//! `holdpoint runs fork`.

use clap::Args;
use serde_json::{Map, Value, json};

use super::{Client, Failure, Named, Output, begun, cell, path};
use crate::{values, watch};

pub(crate) const EXAMPLES: &str = "\
Examples:
  holdpoint runs fork RUN --mode replay            # the whole run again, as it was recorded
  holdpoint runs events RUN                        # shows the numbers of events
  holdpoint runs fork RUN --mode branch --from 7   # keeps events 0 to 6, then goes its own way
  holdpoint runs fork latest --mode branch --from 0 --tag what-if --watch

A replay asks nobody and calls nobody: it takes the answers and results that were recorded.
A branch asks and calls anew for everything after its beginning.
The run it is made from stays as it is.";

#[derive(Debug, Args)]
pub(crate) struct Fork {
    #[command(flatten)]
    run: Named,
    /// replay: the same once more; branch: another way
    #[arg(long, value_name = "MODE", value_parser = ["replay", "branch"])]
    mode: String,
    /// The number of the first event that is not taken over, as `runs events` shows it. A branch needs it; a replay
    /// begins at 0 without it
    #[arg(long = "from", value_name = "N", required_if_eq("mode", "branch"), value_parser = clap::value_parser!(i64).range(0..))]
    from_seq: Option<i64>,
    /// Options that differ from those of the run: recursionLimit, runTimeoutMs, …
    #[arg(long, value_name = "JSON|@FILE|-")]
    configurable: Option<String>,
    /// What is kept with the new run, in place of what is kept with the other
    #[arg(long, value_name = "JSON|@FILE|-")]
    metadata: Option<String>,
    /// A tag on the new run, in place of those of the other. Repeat for more
    #[arg(long = "tag", value_name = "TAG")]
    tags: Vec<String>,
    /// Sent twice with the same key within a day, the run is forked once
    #[arg(long, value_name = "KEY")]
    idempotency_key: Option<String>,
    /// Then watch the new run to its end
    #[arg(long)]
    watch: bool,
}

pub(crate) fn run(client: &Client, output: &Output, asked: Fork) -> Result<(), Failure> {
    let source = asked.run.id(client)?;
    let headers: Vec<_> = asked.idempotency_key.iter().map(|key| ("idempotency-key", key.clone())).collect();
    let then_watch = asked.watch;
    let reply = client.post_with(&format!("{}:fork", path(&source)), &request(asked)?, &headers)?;
    let run = cell(&reply.value["runId"]);
    let what = if reply.replayed { "this key has already forked" } else { "forked" };
    if then_watch {
        output.show(&reply, |_| format!("{what} run {run}"));
        return watch::run(client, output, &run, watch::DEFAULT);
    }
    output.show(&reply, |created| begun(client, output, what, &run, created));
    Ok(())
}

fn request(asked: Fork) -> Result<Value, Failure> {
    let mut overlay = Map::new();
    overlay.extend(values::member("configurable", asked.configurable.as_deref())?);
    overlay.extend(values::member("metadata", asked.metadata.as_deref())?);
    overlay.extend((!asked.tags.is_empty()).then(|| ("tags".to_string(), json!(asked.tags))));
    let mut body = Map::from_iter([("mode".to_string(), json!(asked.mode))]);
    body.extend(asked.from_seq.map(|from| ("fromSeq".to_string(), json!(from))));
    body.extend((!overlay.is_empty()).then_some(("runOptionsOverlay".to_string(), Value::Object(overlay))));
    Ok(Value::Object(body))
}
