//! `holdpoint triggers`: manages triggers, which start runs at times or for events.

use clap::builder::{NonEmptyStringValueParser, PossibleValuesParser};
use clap::{ArgGroup, Args, Subcommand};
use holdpoint_api::ids::{DeliveryState, MissedPolicy, OverlapPolicy};
use holdpoint_api::mailbox::DispatchOptions;
use holdpoint_api::triggers::{
    CreateTrigger, PREVIEW_COUNT_DEFAULT, PreviewTrigger, Trigger, TriggerDelivery, WantedEvents,
    WantedSchedule,
};
use holdpoint_api::webhooks::{ListDeliveries, WantedRetryPolicy, WebhookEvent};
use holdpoint_api::{Instant, Object};
use serde_json::Value;

use super::client::Client;
use super::failure::Failure;
use super::output::{Output, age_since, cell, clean};
use super::values;

pub(crate) const EXAMPLES: &str = "\
A trigger starts a run of a workflow at the instants of a cron expression, or for external events. Its runs belong to
the principal that created it, who cannot approve them where a gate forbids this to requesters.

Examples:
  holdpoint triggers test '30 9 * * MON-FRI' --time-zone Europe/Berlin
  holdpoint triggers create report --cron '30 9 * * MON-FRI' --time-zone Europe/Berlin
  holdpoint triggers create refund --event order.cancelled --inputs @mapping.json
  holdpoint triggers list
  holdpoint triggers deliveries ID --state dead-lettered
  holdpoint triggers pause ID";

#[derive(Debug, Subcommand)]
pub(crate) enum Action {
    /// Create a trigger
    Create(Box<CreateArgs>),
    /// List the triggers
    List {
        /// Maximum number of entries to show
        #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..))]
        limit: u32,
    },
    /// Show one trigger and its changes of state
    Show(TriggerArg),
    /// Pause a trigger; its instants and events start no runs
    Pause(TriggerArg),
    /// Resume a paused or failed trigger, and become its owner
    Resume(TriggerArg),
    /// Delete a trigger
    Delete(TriggerArg),
    /// Show the next instants of a cron expression; creates nothing
    Test(TestArgs),
    /// List the deliveries of a trigger, newest first
    Deliveries(DeliveriesArgs),
    /// Queue a dead letter again
    Requeue(RequeueArgs),
}

#[derive(Debug, Args)]
pub(crate) struct TriggerArg {
    /// Id of the trigger, as shown by `triggers list`
    #[arg(value_name = "ID", value_parser = NonEmptyStringValueParser::new())]
    id: String,
}

#[derive(Debug, Args)]
#[command(group = ArgGroup::new("source").args(["cron", "event"]).required(true))]
pub(crate) struct CreateArgs {
    /// Id of the workflow
    #[arg(value_name = "WORKFLOW", value_parser = NonEmptyStringValueParser::new())]
    workflow: String,
    /// Cron expression: minute, hour, day of month, month, day of week; or @hourly, @daily, @weekly, @monthly, @yearly
    #[arg(long, value_name = "EXPRESSION")]
    cron: Option<String>,
    /// Time zone of the expression [default: UTC]
    #[arg(long, value_name = "ZONE", conflicts_with = "event")]
    time_zone: Option<String>,
    /// Runs for instants that passed while no server ran: none, for the last one, or for all [default: last]
    #[arg(long, value_name = "HOW", conflicts_with = "event", value_parser = PossibleValuesParser::new(MissedPolicy::ALL.map(MissedPolicy::as_str)))]
    missed: Option<String>,
    /// Treatment of an instant while an earlier run has not ended [default: skip]
    #[arg(long, value_name = "HOW", conflicts_with = "event", value_parser = PossibleValuesParser::new(OverlapPolicy::ALL.map(OverlapPolicy::as_str)))]
    overlap: Option<String>,
    /// Type of the external events
    #[arg(long, value_name = "TYPE", value_parser = NonEmptyStringValueParser::new())]
    event: Option<String>,
    /// Only events whose correlation has this member: JSON if it parses as JSON, otherwise text; repeatable
    #[arg(long, value_name = "NAME=VALUE", conflicts_with = "cron", value_parser = values::pair)]
    correlation: Vec<(String, Value)>,
    /// Only events whose payload has this value at a JSON Pointer, such as /status=paid; repeatable
    #[arg(long, value_name = "POINTER=VALUE", conflicts_with = "cron", value_parser = values::pair)]
    payload: Vec<(String, Value)>,
    /// Input mapping: a JSON object, @file, or - for standard input. {"$from": "/payload/id"} is replaced by a part of
    /// the event, and {"$from": "/scheduledFor"} by the instant
    #[arg(long, value_name = "JSON|@FILE|-")]
    inputs: Option<String>,
    /// Tag of the runs; repeatable
    #[arg(long = "tag", value_name = "TAG")]
    tags: Option<Vec<String>>,
    /// Priority of the runs from 0 to 255, the smallest first; below 128 needs the scope runs:prioritize [default: 128]
    #[arg(long, value_name = "N")]
    priority: Option<u8>,
    /// Maximum attempts to start a run [default: 10]
    #[arg(long, value_name = "N")]
    max_attempts: Option<u32>,
}

#[derive(Debug, Args)]
pub(crate) struct TestArgs {
    /// Cron expression
    #[arg(value_name = "EXPRESSION")]
    cron: String,
    /// Time zone of the expression [default: UTC]
    #[arg(long, value_name = "ZONE")]
    time_zone: Option<String>,
    /// Number of instants
    #[arg(long, value_name = "N", default_value_t = PREVIEW_COUNT_DEFAULT)]
    count: u64,
}

#[derive(Debug, Args)]
pub(crate) struct DeliveriesArgs {
    #[command(flatten)]
    named: TriggerArg,
    /// Only deliveries in this state
    #[arg(long, value_name = "STATE", value_parser = PossibleValuesParser::new(DeliveryState::ALL.map(DeliveryState::as_str)))]
    state: Option<String>,
    /// Maximum number of entries to show
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..))]
    limit: u32,
}

#[derive(Debug, Args)]
pub(crate) struct RequeueArgs {
    #[command(flatten)]
    named: TriggerArg,
    /// Id of the delivery, as shown by `triggers deliveries`
    #[arg(value_name = "DELIVERY", value_parser = NonEmptyStringValueParser::new())]
    delivery: String,
}

pub(crate) fn run(client: &Client, output: &Output, action: Action) -> Result<(), Failure> {
    match action {
        Action::Create(args) => {
            let reply = client.send(client.triggers().create(&request(*args)?))?;
            output.show(&reply, |trigger| show(output, trigger, &[]));
        }
        Action::List { limit } => {
            let reply = client.collect(client.triggers().list(), limit)?;
            output.show(&reply, |page| list(output, &page.triggers));
            output.more(&reply, limit);
        }
        Action::Show(TriggerArg { id }) => {
            let reply = client.send(client.triggers().get(&id))?;
            let log = match output.json {
                true => Vec::new(),
                false => {
                    client.collect(client.triggers().list_events(&id, &Default::default()), 200)?.value.events
                }
            };
            output.show(&reply, |trigger| show(output, trigger, &log));
        }
        Action::Pause(TriggerArg { id }) => {
            output.show(&client.send(client.triggers().pause(&id))?, |trigger| state(output, trigger));
        }
        Action::Resume(TriggerArg { id }) => {
            output.show(&client.send(client.triggers().resume(&id))?, |trigger| state(output, trigger));
        }
        Action::Delete(TriggerArg { id }) => {
            output.show(&client.send(client.triggers().delete(&id))?, |()| format!("deleted {}", clean(&id)));
        }
        Action::Test(TestArgs { cron, time_zone, count }) => {
            let preview = PreviewTrigger { cron: Some(cron), time_zone, count: Some(count) };
            let reply = client.send(client.triggers().preview(&preview))?;
            output.show(&reply, |shown| {
                shown.instants.iter().map(Instant::to_string).collect::<Vec<_>>().join("\n")
            });
        }
        Action::Deliveries(args) => deliveries(client, output, args)?,
        Action::Requeue(RequeueArgs { named, delivery }) => {
            let reply = client.send(client.triggers().requeue(&named.id, &delivery))?;
            output.show(&reply, |now| format!("{} is {}", clean(&delivery), now.state.as_str()));
        }
    }
    Ok(())
}

fn state(output: &Output, trigger: &Trigger) -> String {
    format!("{} is {}", clean(&trigger.subscription_id), output.status(trigger.state.as_str()))
}

/// Returns the body. It has only the members that the flags set, because the server has the defaults.
fn request(args: CreateArgs) -> Result<CreateTrigger, Failure> {
    let source = if args.cron.is_some() { "schedule" } else { "event" };
    let schedule = args.cron.map(|cron| WantedSchedule {
        cron,
        time_zone: args.time_zone,
        missed: args.missed,
        overlap: args.overlap,
    });
    let members = |flag, pairs: Vec<(String, Value)>| {
        let members = values::unique(flag, pairs)?;
        Ok::<_, Failure>((!members.is_empty()).then_some(Object(members)))
    };
    let correlation = members("--correlation", args.correlation)?;
    let payload = members("--payload", args.payload)?;
    let event = args.event.map(|event_type| WantedEvents { event_type, correlation, payload });
    let dispatch = args
        .priority
        .map(|priority| DispatchOptions { priority: Some(priority.into()), ..Default::default() });
    let retry_policy = args
        .max_attempts
        .map(|max_attempts| WantedRetryPolicy { max_attempts: Some(max_attempts), ..Default::default() });
    Ok(CreateTrigger {
        source: Some(source.to_owned()),
        workflow_id: Some(args.workflow),
        schedule,
        event,
        input_mapping: values::object("--inputs", args.inputs.as_deref())?,
        tags: args.tags,
        dispatch,
        retry_policy,
        dedup_enabled: None,
    })
}

/// Returns the source of a trigger as one line.
fn source(trigger: &Trigger) -> String {
    match (&trigger.schedule, &trigger.event) {
        (Some(schedule), _) => format!("{} {}", clean(&schedule.cron), clean(&schedule.time_zone)),
        (None, Some(event)) => clean(&event.event_type),
        (None, None) => String::new(),
    }
}

fn list(output: &Output, triggers: &[Trigger]) -> String {
    let row = |trigger: &Trigger| {
        vec![
            cell(&trigger.subscription_id),
            cell(trigger.state),
            cell(trigger.reason),
            cell(&trigger.workflow_id),
            cell(trigger.source),
            output.fit(&source(trigger), 40),
            cell(trigger.owner.as_ref().map(|owner| &owner.principal)),
            cell(trigger.next_fire_at),
            cell(&trigger.last_run_id),
        ]
    };
    let titles = ["TRIGGER", "STATUS", "REASON", "WORKFLOW", "SOURCE", "WHEN", "OWNER", "NEXT", "LAST RUN"];
    output.table(&titles, &triggers.iter().map(row).collect::<Vec<_>>(), "no triggers")
}

fn show(output: &Output, trigger: &Trigger, log: &[WebhookEvent]) -> String {
    let schedule = trigger.schedule.as_ref();
    let fields = [
        ("trigger", cell(&trigger.subscription_id)),
        ("workflow", cell(&trigger.workflow_id)),
        (trigger.source.as_str(), source(trigger)),
        ("missed", cell(schedule.map(|schedule| schedule.missed))),
        ("overlap", cell(schedule.map(|schedule| schedule.overlap))),
        ("status", cell(trigger.state)),
        ("reason", cell(trigger.reason)),
        ("created by", cell(&trigger.created_by)),
        ("owner", cell(trigger.owner.as_ref().map(|owner| &owner.principal))),
        ("owner key", cell(trigger.owner.as_ref().map(|owner| &owner.key_id))),
        ("next", cell(trigger.next_fire_at)),
        ("last run", cell(&trigger.last_run_id)),
        ("attempts", cell(trigger.retry_policy.max_attempts)),
        ("tags", cell(&trigger.tags)),
        ("created", trigger.created_at.to_string()),
    ];
    let row = |event: &WebhookEvent| {
        let change = &event.payload;
        vec![cell(event.timestamp), cell(change.from_state), cell(change.to_state), cell(change.reason)]
    };
    let rows: Vec<_> = log.iter().map(row).collect();
    let table = output.table(&["AT", "FROM", "TO", "REASON"], &rows, "");
    format!("{}\n\n{table}", output.fields(&fields)).trim_end().to_owned()
}

fn deliveries(client: &Client, output: &Output, args: DeliveriesArgs) -> Result<(), Failure> {
    let filter = ListDeliveries { state: args.state };
    let reply = client.collect(client.triggers().deliveries(&args.named.id, &filter), args.limit)?;
    let row = |delivery: &TriggerDelivery| {
        vec![
            cell(&delivery.delivery_id),
            cell(delivery.state),
            delivery.attempt.to_string(),
            cell(&delivery.run_id),
            cell(delivery.sent_by.as_ref()),
            age_since(delivery.created_at),
            cell(delivery.next_attempt_at),
            output.fit(&cell(delivery.error.as_ref()), 60),
        ]
    };
    output.show(&reply, |page| {
        let rows: Vec<_> = page.deliveries.iter().map(row).collect();
        let heads = ["DELIVERY", "STATE", "ATTEMPTS", "RUN", "SENDER", "AGE", "NEXT", "ERROR"];
        output.table(&heads, &rows, "no deliveries")
    });
    output.more(&reply, args.limit);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;
    use serde_json::json;

    #[derive(Parser)]
    struct TestCommand {
        #[command(flatten)]
        create: CreateArgs,
    }

    fn read(args: &[&str]) -> Option<Value> {
        let line = TestCommand::try_parse_from(["create"].iter().chain(args)).ok()?;
        request(line.create).ok().map(|body| serde_json::to_value(body).unwrap())
    }

    #[test]
    fn flags_become_a_schedule_or_an_event() {
        let schedule = json!({
            "source": "schedule", "workflowId": "report",
            "schedule": {"cron": "0 9 * * *", "timeZone": "Europe/Berlin", "missed": "all", "overlap": "queue"},
            "tags": ["daily"], "dispatch": {"priority": 200}, "retryPolicy": {"maxAttempts": 3},
        });
        let flags = ["report", "--cron", "0 9 * * *", "--time-zone", "Europe/Berlin", "--missed", "all"];
        let more = ["--overlap", "queue", "--tag", "daily", "--priority", "200", "--max-attempts", "3"];
        assert_eq!(read(&[&flags[..], &more[..]].concat()), Some(schedule));
        let event = json!({
            "source": "event", "workflowId": "refund",
            "event": {"eventType": "order", "correlation": {"shop": "north"}, "payload": {"/status": "paid"}},
            "inputMapping": {"id": {"$from": "/payload/id"}},
        });
        let flags =
            ["refund", "--event", "order", "--correlation", "shop=north", "--payload", "/status=paid"];
        let more = ["--inputs", r#"{"id": {"$from": "/payload/id"}}"#];
        assert_eq!(read(&[&flags[..], &more[..]].concat()), Some(event));
        for wrong in [
            &["report"][..],
            &["report", "--cron", "@daily", "--event", "e"],
            &["report", "--event", "e", "--time-zone", "UTC"],
            &["report", "--cron", "@daily", "--correlation", "a=1"],
            &["report", "--cron", "@daily", "--missed", "some"],
        ] {
            assert_eq!(read(wrong), None, "{wrong:?}");
        }
    }
}
