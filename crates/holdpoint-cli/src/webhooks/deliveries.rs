//! Lists and repeats deliveries and dead letters of a webhook.

use clap::Args;
use clap::builder::{NonEmptyStringValueParser, PossibleValuesParser};
use holdpoint_api::ids::DeliveryState;
use holdpoint_api::webhooks::{DeadLetter, Delivery, ListDeliveries, ReplayWindow};

use super::values;
use crate::client::Client;
use crate::failure::Failure;
use crate::output::{Output, age_since, cell, clean};

#[derive(Debug, Args)]
pub(crate) struct ListArgs {
    /// Id of the webhook, as shown by `webhooks list`
    #[arg(value_name = "ID", value_parser = NonEmptyStringValueParser::new())]
    id: String,
    /// Only deliveries in this state
    #[arg(long, value_name = "STATE", value_parser = PossibleValuesParser::new(DeliveryState::ALL.map(DeliveryState::as_str)))]
    state: Option<String>,
    /// Maximum number of entries to show
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..))]
    limit: u32,
}

#[derive(Debug, Args)]
pub(crate) struct DeadLetterArgs {
    /// Id of the webhook, as shown by `webhooks list`
    #[arg(value_name = "ID", value_parser = NonEmptyStringValueParser::new())]
    id: String,
    /// Maximum number of entries to show
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..))]
    limit: u32,
}

#[derive(Debug, Args)]
pub(crate) struct ReplayArgs {
    /// Id of the webhook, as shown by `webhooks list`
    #[arg(value_name = "ID", value_parser = NonEmptyStringValueParser::new())]
    id: String,
    /// Id of the delivery, as shown by `webhooks deliveries`; required without --from and --to
    #[arg(value_name = "DELIVERY", conflicts_with_all = ["from", "to", "events"], required_unless_present_all = ["from", "to"])]
    delivery: Option<String>,
    /// Start of the time window: an instant, a day, or a time span before now
    #[arg(long, value_name = "TIME", value_parser = values::instant, requires = "to")]
    from: Option<String>,
    /// End of the time window
    #[arg(long, value_name = "TIME", value_parser = values::instant, requires = "from")]
    to: Option<String>,
    /// Only these types of events, separated by commas
    #[arg(long, value_name = "A,B", value_delimiter = ',')]
    events: Option<Vec<String>>,
}

pub(super) fn list(client: &Client, output: &Output, args: ListArgs) -> Result<(), Failure> {
    let filter = ListDeliveries { state: args.state };
    let reply = client.collect(client.webhooks().deliveries(&args.id, &filter), args.limit)?;
    let row = |Delivery { row, attempts }: &Delivery| {
        let last = attempts.first();
        vec![
            cell(&row.delivery_id),
            cell(row.state),
            row.attempt.to_string(),
            cell(&row.event_type),
            format!("{}:{}", clean(row.run_id.as_str()), row.sequence),
            age_since(row.created_at),
            cell(last.and_then(|last| last.status)),
            cell(last.map(|last| last.latency_ms)),
            output.fit(&cell(last.and_then(|last| last.error.as_ref())), 60),
        ]
    };
    output.show(&reply, |page| {
        let rows: Vec<_> = page.deliveries.iter().map(row).collect();
        let heads = ["DELIVERY", "STATE", "ATTEMPTS", "EVENT", "RUN", "AGE", "RESPONSE", "MS", "ERROR"];
        output.table(&heads, &rows, "no deliveries; ended deliveries are kept for a week")
    });
    output.more(&reply, args.limit);
    Ok(())
}

pub(super) fn dead_letters(client: &Client, output: &Output, args: &DeadLetterArgs) -> Result<(), Failure> {
    let reply = client.collect(client.webhooks().dead_letters(&args.id), args.limit)?;
    let row = |letter: &DeadLetter| {
        vec![
            cell(&letter.delivery_id),
            cell(&letter.event_type),
            cell(&letter.run_id),
            letter.attempt.to_string(),
            cell(&letter.reason),
            cell(letter.dead_lettered_at),
            cell(letter.expires_at),
        ]
    };
    output.show(&reply, |page| {
        let rows: Vec<_> = page.deliveries.iter().map(row).collect();
        let heads = ["DELIVERY", "EVENT", "RUN", "ATTEMPTS", "REASON", "SINCE", "KEPT UNTIL"];
        output.table(&heads, &rows, "no dead letters")
    });
    output.more(&reply, args.limit);
    Ok(())
}

pub(super) fn replay(client: &Client, output: &Output, args: ReplayArgs) -> Result<(), Failure> {
    if let Some(delivery) = &args.delivery {
        let reply = client.send(client.webhooks().replay(&args.id, delivery))?;
        output.show(&reply, |now| format!("{} is {}", clean(delivery), now.state.as_str()));
        return Ok(());
    }
    let window = ReplayWindow { from: args.from, to: args.to, events: args.events };
    let reply = client.send(client.webhooks().replay_window(&args.id, &window))?;
    output.show(&reply, |done| format!("queued {} deliveries again", done.replayed));
    Ok(())
}
