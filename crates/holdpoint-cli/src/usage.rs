//! `holdpoint usage`: the quotas of the tenant, and what it uses of them.

use serde_json::Value;

use super::client::Client;
use super::failure::Failure;
use super::output::{Output, cell};

pub(crate) const EXAMPLES: &str = "\
Examples:
  holdpoint usage
  holdpoint usage --json";

/// The quotas as the server names them, and what each limits.
const QUOTAS: [(&str, &str); 7] = [
    ("openRuns", "runs that have not ended"),
    ("storedBytes", "bytes of the events of all runs"),
    ("definitions", "stored revisions of workflows and agents"),
    ("deliveries", "durable deliveries that are not over"),
    ("streams", "open streams and long polls at this node"),
    ("familyRuns", "runs that one run starts"),
    ("forkBytes", "bytes of a run that is forked"),
];

pub(crate) fn run(client: &Client, output: &Output) -> Result<(), Failure> {
    let reply = client.get("/v1/usage")?;
    output.show(&reply, |usage| table(output, usage));
    Ok(())
}

fn table(output: &Output, usage: &Value) -> String {
    let row = |(name, what): &(&str, &str)| {
        let limit = match &usage[name]["limit"] {
            Value::Null => "none".to_owned(),
            limit => cell(limit),
        };
        vec![(*name).to_owned(), cell(&usage[name]["used"]), limit, (*what).to_owned()]
    };
    let rows: Vec<_> = QUOTAS.iter().map(row).collect();
    output.table(&["QUOTA", "USED", "LIMIT", "WHAT"], &rows, "")
}
