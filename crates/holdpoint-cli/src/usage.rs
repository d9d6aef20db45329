//! `holdpoint usage`: shows the quotas of the tenant and their use.

use holdpoint_api::admin::Usage;

use super::client::Client;
use super::failure::Failure;
use super::output::{Output, cell};

pub(crate) const EXAMPLES: &str = "\
Examples:
  holdpoint usage
  holdpoint usage --json";

pub(crate) fn run(client: &Client, output: &Output) -> Result<(), Failure> {
    output.show(&client.send(client.server_info().usage())?, |usage| table(output, usage));
    Ok(())
}

fn table(output: &Output, usage: &Usage) -> String {
    let quotas = [
        ("openRuns", &usage.open_runs, "runs that have not ended"),
        ("storedBytes", &usage.stored_bytes, "bytes of the events of all runs"),
        ("definitions", &usage.definitions, "stored revisions of workflows and agents"),
        ("deliveries", &usage.deliveries, "durable deliveries that have not ended"),
        ("streams", &usage.streams, "open streams and long polls of this process"),
        ("tokensPerDay", &usage.tokens_per_day, "tokens that models have used today (UTC)"),
    ];
    let limits = [
        ("familyRuns", &usage.family_runs, "runs that one run starts"),
        ("forkBytes", &usage.fork_bytes, "bytes of a run that is forked"),
    ];
    let row = |name: &str, used: Option<u64>, limit: Option<u64>, what: &str| {
        let limit = limit.map_or_else(|| "none".to_owned(), |limit| limit.to_string());
        vec![name.to_owned(), cell(used), limit, what.to_owned()]
    };
    let mut rows: Vec<_> =
        quotas.iter().map(|(name, quota, what)| row(name, Some(quota.used), quota.limit, what)).collect();
    rows.extend(limits.iter().map(|(name, limit, what)| row(name, None, limit.limit, what)));
    output.table(&["QUOTA", "USED", "LIMIT", "MEANING"], &rows, "")
}
