//! `holdpoint webhooks`: who is told of what happens, what they were told, and whether a delivery is genuine.

mod deliveries;
pub(super) mod verify;

use clap::builder::{NonEmptyStringValueParser, PossibleValuesParser};
use clap::{Args, Subcommand};
use serde_json::{Map, Value, json};

use super::client::{Client, encode};
use super::failure::Failure;
use super::output::{Output, age_cell, cell, clean};
use super::{Connection, open, values};

pub(crate) const EXAMPLES: &str = "\
Examples:
  holdpoint webhooks add https://example.com/hooks --events run.completed,run.failed
  holdpoint webhooks add https://example.com/hooks --events interrupt.requested --tag eu
  holdpoint webhooks list
  holdpoint webhooks rotate ID --overlap 2d
  holdpoint webhooks deliveries ID --state dead-lettered
  holdpoint webhooks replay ID DELIVERY
  holdpoint webhooks replay ID --from 2h --to 1h
  holdpoint webhooks verify --headers headers.txt --secret-file secret < body.json";

#[derive(Debug, Subcommand)]
pub(crate) enum Action {
    /// Have events sent to an address, and show the secret, once
    Add(Add),
    /// List the webhooks, without their secrets
    List {
        /// Show at most this many
        #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..))]
        limit: u32,
    },
    /// Show one webhook, and what became of it
    Show(Named),
    /// End a webhook; after that nothing is sent to it
    Remove(Named),
    /// Send nothing for a while; what is durable waits
    Pause(Named),
    /// Resume a paused or failed webhook, and become its owner
    Resume(Named),
    /// Make a new secret and show it, once; deliveries are signed with both secrets for an overlap
    Rotate(Rotate),
    /// List what a webhook was told, newest first
    Deliveries(deliveries::List),
    /// List what was given up
    DeadLetters(deliveries::DeadLetters),
    /// Send one delivery once more, or everything whose event happened in a window of time
    Replay(deliveries::Replay),
    /// Say whether a delivery on standard input is genuine, and if not, why; needs no server
    #[command(after_help = verify::EXAMPLES)]
    Verify(verify::Verify),
}

#[derive(Debug, Args)]
pub(crate) struct Named {
    /// As `webhooks list` shows it
    #[arg(value_name = "ID", value_parser = NonEmptyStringValueParser::new())]
    id: String,
}

#[derive(Debug, Args)]
pub(crate) struct Rotate {
    #[command(flatten)]
    named: Named,
    /// Time until the old secret ends: a number and s, m, h, d or w. Default: a day
    #[arg(long, value_name = "1d", value_parser = values::seconds)]
    overlap: Option<u64>,
    /// End the old secret at once, for example after a leak
    #[arg(long, conflicts_with = "overlap")]
    at_once: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Add {
    /// Where events are sent; https, and not into a private network
    #[arg(value_name = "URL", value_parser = NonEmptyStringValueParser::new())]
    url: String,
    /// Types of events, separated by commas; repeat for more. One that is not known is refused with a list of those that are
    #[arg(long, required = true, value_name = "A,B", value_delimiter = ',')]
    events: Vec<String>,
    /// Only runs with one of these tags; repeat for more
    #[arg(long = "tag", value_name = "TAG")]
    tags: Vec<String>,
    /// Best effort: try each delivery once, and drop it if the receiver does not accept it
    #[arg(long, conflicts_with_all = ["durable", "unordered", "max_attempts", "backoff"])]
    best_effort: bool,
    /// Durable: retry each delivery until the receiver accepts it or the attempts are used up (default)
    #[arg(long)]
    durable: bool,
    /// Do not hold back later events of a run for earlier ones
    #[arg(long)]
    unordered: bool,
    /// How often a durable delivery is tried at most [default: 10]
    #[arg(long, value_name = "N")]
    max_attempts: Option<u32>,
    /// How waits grow between attempts [default: exponential]
    #[arg(long, value_name = "HOW", value_parser = PossibleValuesParser::new(["none", "fixed", "exponential"]))]
    backoff: Option<String>,
}

pub(crate) fn run(connection: &Connection, action: Action) -> Result<(), Failure> {
    let output = &Output::of(connection);
    // Whoever checks a delivery may be far from any server.
    let action = match action {
        Action::Verify(asked) => return verify::run(output, &asked),
        other => other,
    };
    perform(&open(connection)?, output, action)
}

fn perform(client: &Client, output: &Output, action: Action) -> Result<(), Failure> {
    match action {
        Action::Add(wanted) => {
            let reply = client.post("/v1/webhooks", &request(wanted))?;
            output.show(&reply, |made| added(output, made));
        }
        Action::List { limit } => {
            let reply = client.list("/v1/webhooks?", "webhooks", limit)?;
            output.show(&reply, |page| list(output, page));
            output.more_untyped(&reply, limit);
        }
        Action::Show(named) => {
            let reply = client.get(&path(&named.id))?;
            if output.json {
                output.show(&reply, |_| String::new());
                return Ok(());
            }
            let log = client.get(&format!("{}/events?limit=200", path(&named.id)))?;
            output.show(&reply, |webhook| show(output, webhook, &log.value));
        }
        Action::Remove(named) => {
            let reply = client.delete(&path(&named.id))?;
            output.show(&reply, |_| format!("removed {}", clean(&named.id)));
        }
        Action::Pause(named) => turn(client, output, &named.id, "pause")?,
        Action::Resume(named) => turn(client, output, &named.id, "resume")?,
        Action::Rotate(Rotate { named, overlap, at_once }) => {
            let path = format!("{}:rotate", path(&named.id));
            let overlap = if at_once { Some(0) } else { overlap };
            let reply = client.post(&path, &json!({"overlapSeconds": overlap}))?;
            output.show(&reply, |made| rotated(output, made));
        }
        Action::Deliveries(asked) => deliveries::list(client, output, &asked)?,
        Action::DeadLetters(asked) => deliveries::dead_letters(client, output, &asked)?,
        Action::Replay(asked) => deliveries::replay(client, output, &asked)?,
        Action::Verify(asked) => verify::run(output, &asked)?,
    }
    Ok(())
}

fn path(id: &str) -> String {
    format!("/v1/webhooks/{}", encode(id))
}

fn turn(client: &Client, output: &Output, id: &str, verb: &str) -> Result<(), Failure> {
    let reply = client.post(&format!("{}:{verb}", path(id)), &json!({}))?;
    output.show(&reply, |now| format!("{} is {}", clean(id), output.status(&cell(&now["state"]))));
    Ok(())
}

/// Only what was said: the server knows the defaults.
fn request(wanted: Add) -> Value {
    let mut body = Map::new();
    let mut put = |name: &str, value: Option<Value>| {
        body.extend(value.map(|value| (name.to_string(), value)));
    };
    put("url", Some(json!(wanted.url)));
    put("events", Some(json!(wanted.events)));
    put("tags", (!wanted.tags.is_empty()).then(|| json!(wanted.tags)));
    put("durable", (wanted.durable || wanted.best_effort).then_some(Value::Bool(wanted.durable)));
    put("ordered", wanted.unordered.then_some(Value::Bool(false)));
    let mut policy = Map::new();
    policy.extend(wanted.max_attempts.map(|attempts| ("maxAttempts".to_string(), json!(attempts))));
    policy.extend(wanted.backoff.map(|backoff| ("backoff".to_string(), json!(backoff))));
    put("retryPolicy", (!policy.is_empty()).then_some(Value::Object(policy)));
    Value::Object(body)
}

fn added(output: &Output, made: &Value) -> String {
    let names =
        ["secret", "webhookId", "secretFingerprint", "url", "events", "tags", "mode", "signatureAlgorithm"];
    let facts: Vec<_> = names.into_iter().map(|name| (name, cell(&made[name]))).collect();
    format!(
        "{}\n\nKeep the secret now: it proves that deliveries are genuine, and the server cannot show it again.",
        output.facts(&facts)
    )
}

fn rotated(output: &Output, made: &Value) -> String {
    let facts = [
        ("secret", cell(&made["secret"])),
        ("webhookId", cell(&made["webhookId"])),
        ("secretFingerprint", cell(&made["secretFingerprint"])),
        ("old secret", cell(&made["oldSecret"]["fingerprint"])),
        ("valid until", cell(&made["oldSecret"]["validUntil"])),
    ];
    format!("{}\n\nKeep the secret now: the server cannot show it again.", output.facts(&facts))
}

fn list(output: &Output, page: &Value) -> String {
    let row = |hook: &Value| {
        let mut row: Vec<String> =
            ["webhookId", "state", "reason", "mode", "circuit"].map(|name| cell(&hook[name])).into();
        row.extend([
            cell(&hook["owner"]["principal"]),
            age_cell(&hook["createdAt"]),
            cell(&hook["secretFingerprint"]),
            output.fit(&cell(&hook["url"]), 60),
            cell(&hook["events"]),
        ]);
        row
    };
    let rows: Vec<_> = page["webhooks"].as_array().into_iter().flatten().map(row).collect();
    let titles =
        ["WEBHOOK", "STATUS", "REASON", "MODE", "CIRCUIT", "OWNER", "AGE", "SECRET", "URL", "EVENTS"];
    output.table(&titles, &rows, "no webhooks")
}

fn show(output: &Output, hook: &Value, log: &Value) -> String {
    let policy = &hook["retryPolicy"];
    let retries = match hook["durable"].as_bool() {
        Some(true) => format!("{} attempts, {}", cell(&policy["maxAttempts"]), cell(&policy["backoff"])),
        _ => "-".to_string(),
    };
    let facts = [
        ("webhook", cell(&hook["webhookId"])),
        ("url", cell(&hook["url"])),
        ("status", cell(&hook["state"])),
        ("reason", cell(&hook["reason"])),
        ("owner", cell(&hook["owner"]["principal"])),
        ("owner key", cell(&hook["owner"]["keyId"])),
        ("mode", cell(&hook["mode"])),
        ("retries", retries),
        ("circuit", cell(&hook["circuit"])),
        ("open until", cell(&hook["circuitOpenUntil"])),
        ("failures", format!("{} in a row", cell(&hook["failuresInARow"]))),
        ("events", cell(&hook["events"])),
        ("tags", cell(&hook["tags"])),
        ("secret", format!("{} (fingerprint)", cell(&hook["secretFingerprint"]))),
        ("old secret", cell(&hook["oldSecret"]["fingerprint"])),
        ("valid until", cell(&hook["oldSecret"]["validUntil"])),
        ("created", cell(&hook["createdAt"])),
    ];
    let row = |event: &Value| {
        let of = |name: &str| cell(&event["payload"][name]);
        vec![cell(&event["timestamp"]), of("fromState"), of("toState"), of("reason")]
    };
    let rows: Vec<_> = log["events"].as_array().into_iter().flatten().map(row).collect();
    match rows.is_empty() {
        true => output.facts(&facts),
        false => {
            let table = output.table(&["AT", "FROM", "TO", "REASON"], &rows, "");
            format!("{}\n\n{table}", output.facts(&facts))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        add: Add,
    }

    #[test]
    fn the_request_holds_only_what_was_said() {
        let read = |args: &[&str]| {
            let line = Line::try_parse_from(["add", "https://a.example"].iter().chain(args));
            line.ok().map(|line| request(line.add))
        };
        let plain = json!({"url": "https://a.example", "events": ["run.completed", "run.failed"]});
        assert_eq!(read(&["--events", "run.completed,run.failed"]), Some(plain.clone()));
        assert_eq!(read(&["--events", "run.completed", "--events", "run.failed"]), Some(plain));
        let full = json!({
            "url": "https://a.example", "events": ["run.completed"], "tags": ["eu"], "durable": true, "ordered": false,
            "retryPolicy": {"maxAttempts": 3, "backoff": "fixed"},
        });
        let flags = ["--events", "run.completed", "--tag", "eu", "--durable", "--unordered"];
        let more = ["--max-attempts", "3", "--backoff", "fixed"];
        assert_eq!(read(&[&flags[..], &more[..]].concat()), Some(full));
        assert_eq!(read(&[]), None);
        let one = json!({"url": "https://a.example", "events": ["run.completed"], "durable": false});
        assert_eq!(read(&["--events", "run.completed", "--best-effort"]), Some(one));
        let refused = ["--events", "run.completed", "--best-effort", "--max-attempts", "3"];
        assert_eq!(read(&refused), None, "best effort has no retries");
    }
}
