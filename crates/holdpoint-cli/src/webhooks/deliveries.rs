//! What a webhook was told, and telling it once more.

use clap::Args;
use clap::builder::{NonEmptyStringValueParser, PossibleValuesParser};
use serde_json::{Value, json};

use super::{path, values};
use crate::client::{Client, encode};
use crate::failure::Failure;
use crate::output::{Output, age_cell, cell, clean};

const STATES: [&str; 5] = ["queued", "in-flight", "delivered", "dead-lettered", "dropped"];

#[derive(Debug, Args)]
pub(crate) struct List {
    /// The webhook, as `webhooks list` shows it
    #[arg(value_name = "ID", value_parser = NonEmptyStringValueParser::new())]
    id: String,
    /// Only deliveries in this state
    #[arg(long, value_name = "STATE", value_parser = PossibleValuesParser::new(STATES))]
    state: Option<String>,
    /// Show at most this many
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..))]
    limit: u32,
}

#[derive(Debug, Args)]
pub(crate) struct DeadLetters {
    /// The webhook, as `webhooks list` shows it
    #[arg(value_name = "ID", value_parser = NonEmptyStringValueParser::new())]
    id: String,
    /// Show at most this many
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..))]
    limit: u32,
}

#[derive(Debug, Args)]
pub(crate) struct Replay {
    /// The webhook, as `webhooks list` shows it
    #[arg(value_name = "ID", value_parser = NonEmptyStringValueParser::new())]
    id: String,
    /// One delivery, as `webhooks deliveries` shows it; without it a window of time
    #[arg(value_name = "DELIVERY", conflicts_with_all = ["from", "to", "events"], required_unless_present_all = ["from", "to"])]
    delivery: Option<String>,
    /// Where the window begins: an instant, a day, or how long ago
    #[arg(long, value_name = "TIME", value_parser = values::instant, requires = "to")]
    from: Option<String>,
    /// Where it ends
    #[arg(long, value_name = "TIME", value_parser = values::instant, requires = "from")]
    to: Option<String>,
    /// Only these types of events, separated by commas
    #[arg(long, value_name = "A,B", value_delimiter = ',')]
    events: Vec<String>,
}

pub(super) fn list(client: &Client, output: &Output, asked: &List) -> Result<(), Failure> {
    let mut path = format!("{}/deliveries?", path(&asked.id));
    if let Some(state) = &asked.state {
        path.push_str(&format!("state={}&", encode(state)));
    }
    let reply = client.list(&path, "deliveries", asked.limit)?;
    output.show(&reply, |page| table(output, page));
    output.more_untyped(&reply, asked.limit);
    Ok(())
}

fn table(output: &Output, page: &Value) -> String {
    let row = |one: &Value| {
        let last = &one["attempts"][0];
        vec![
            cell(&one["deliveryId"]),
            cell(&one["state"]),
            cell(&one["attempt"]),
            cell(&one["eventType"]),
            format!("{}:{}", cell(&one["runId"]), cell(&one["sequence"])),
            age_cell(&one["createdAt"]),
            cell(&last["status"]),
            cell(&last["latencyMs"]),
            output.fit(&cell(&last["error"]), 60),
        ]
    };
    let rows: Vec<_> = page["deliveries"].as_array().into_iter().flatten().map(row).collect();
    let heads = ["DELIVERY", "STATE", "ATTEMPTS", "EVENT", "RUN", "AGE", "ANSWER", "MS", "ERROR"];
    output.table(&heads, &rows, "no deliveries; those that have ended are kept for a week")
}

pub(super) fn dead_letters(client: &Client, output: &Output, asked: &DeadLetters) -> Result<(), Failure> {
    let reply = client.list(&format!("{}/dead-letters?", path(&asked.id)), "deliveries", asked.limit)?;
    let row = |one: &Value| {
        let names = ["deliveryId", "eventType", "runId", "attempt", "reason", "deadLetteredAt", "expiresAt"];
        names.map(|name| cell(&one[name])).into()
    };
    output.show(&reply, |page| {
        let rows: Vec<Vec<String>> = page["deliveries"].as_array().into_iter().flatten().map(row).collect();
        let heads = ["DELIVERY", "EVENT", "RUN", "ATTEMPTS", "REASON", "SINCE", "KEPT UNTIL"];
        output.table(&heads, &rows, "no dead letters")
    });
    output.more_untyped(&reply, asked.limit);
    Ok(())
}

pub(super) fn replay(client: &Client, output: &Output, asked: &Replay) -> Result<(), Failure> {
    if let Some(delivery) = &asked.delivery {
        let reply = client
            .post(&format!("{}/deliveries/{}:replay", path(&asked.id), encode(delivery)), &json!({}))?;
        output.show(&reply, |now| format!("{} is {}", clean(delivery), cell(&now["state"])));
        return Ok(());
    }
    let mut window = json!({"from": asked.from, "to": asked.to});
    if !asked.events.is_empty() {
        window["events"] = json!(asked.events);
    }
    let reply = client.post(&format!("{}:replay", path(&asked.id)), &window)?;
    output.show(&reply, |done| format!("queued {} deliveries once more", cell(&done["replayed"])));
    Ok(())
}
