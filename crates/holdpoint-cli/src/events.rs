//! `holdpoint events`: sends external events.

use clap::builder::NonEmptyStringValueParser;
use clap::{Args, Subcommand};
use holdpoint_api::arrivals::{EventReceived, EventTarget, SendEvent};
use holdpoint_api::ids::{EventReception, StrictValue};
use serde_json::Value;

use super::client::Client;
use super::failure::Failure;
use super::output::{Output, cell, clean};
use super::values;

pub(crate) const EXAMPLES: &str = "\
An interrupt waits for an event type and the members of a correlation. An event resolves every interrupt that waits
for its type and has all members of its correlation. The server keeps an early event for some time. An event that is
sent again with the same --id has no further effect.

Examples:
  holdpoint events send payment.settled --id evt_1042 --correlation orderId=o-7
  holdpoint events send payment.settled --id evt_1042 --correlation orderId=o-7 --payload @e.json
  holdpoint events send door.opened --id 17 --correlation floor=3 --payload '{\"by\": \"ada\"}'";

#[derive(Debug, Subcommand)]
pub(crate) enum Action {
    /// Send one event
    Send(SendArgs),
}

#[derive(Debug, Args)]
pub(crate) struct SendArgs {
    /// Type of the event
    #[arg(value_name = "TYPE", value_parser = NonEmptyStringValueParser::new())]
    event_type: String,
    /// Id of the event at its source; a second event with the same id has no effect
    #[arg(long, value_name = "ID", value_parser = NonEmptyStringValueParser::new())]
    id: String,
    /// Member of the correlation: JSON if it parses as JSON, otherwise text; repeatable
    #[arg(long, value_name = "NAME=VALUE", value_parser = values::pair)]
    correlation: Vec<(String, Value)>,
    /// Data of the event: JSON, @file, or - for standard input
    #[arg(long, value_name = "JSON|@FILE|-")]
    payload: Option<String>,
}

pub(crate) fn run(client: &Client, output: &Output, action: Action) -> Result<(), Failure> {
    let Action::Send(args) = action;
    let reply = client.send(client.interrupts().send_event(&body(args)?))?;
    output.show(&reply, describe);
    Ok(())
}

fn body(args: SendArgs) -> Result<SendEvent, Failure> {
    let payload = args.payload.map(|source| values::json("--payload", &source)).transpose()?;
    let correlation = values::unique("--correlation", args.correlation)?;
    Ok(SendEvent {
        event_type: Some(StrictValue(args.event_type.into())),
        event_id: Some(StrictValue(args.id.into())),
        correlation: Some(StrictValue(correlation.into())),
        payload: payload.map(StrictValue),
    })
}

fn describe(received: &EventReceived) -> String {
    let id = clean(&received.event_id);
    let mut lines = vec![match received.status {
        EventReception::Matched => format!("event {id} matched"),
        EventReception::Kept => {
            format!("no interrupt waits for event {id}; it is kept until {}", cell(received.kept_until))
        }
        EventReception::Ignored => format!("no interrupt waits for event {id}; it is not kept"),
    }];
    let place = |target: &EventTarget| format!("  {} of run {}", cell(&target.node_id), cell(&target.run_id));
    lines.extend(received.matched.iter().map(|target| format!("{} continues", place(target))));
    lines.extend(
        received
            .refused
            .iter()
            .map(|refused| format!("{} still waits: {}", place(&refused.by), clean(&refused.message))),
    );
    lines.extend(received.triggered.iter().map(|started| {
        format!("  trigger {} starts run {}", clean(&started.subscription_id), cell(&started.run_id))
    }));
    if received.more == Some(true) {
        lines.push("  more interrupts wait for it than one event can resolve; send another event".to_owned());
    }
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;
    use serde_json::json;

    #[derive(Parser)]
    struct TestCommand {
        #[command(flatten)]
        args: SendArgs,
    }

    fn read(args: &[&str]) -> Option<Value> {
        let line = TestCommand::try_parse_from(["send"].iter().chain(args)).ok()?;
        body(line.args).ok().map(|body| serde_json::to_value(body).unwrap())
    }

    #[test]
    fn flags_become_an_event() {
        let event = json!({
            "eventType": "paid", "eventId": "e1", "correlation": {"order": 7, "shop": "north"}, "payload": [1],
        });
        let line = "paid --id e1 --correlation order=7 --correlation shop=north --payload [1]";
        assert_eq!(read(&line.split(' ').collect::<Vec<_>>()), Some(event));
        for wrong in [
            "paid",
            "paid --id e --correlation x",
            "paid --id e --payload {",
            "paid --id e --correlation a=1 --correlation a=2",
        ] {
            assert_eq!(read(&wrong.split(' ').collect::<Vec<_>>()), None, "{wrong}");
        }
    }

    #[test]
    fn every_interrupt_that_resolved_or_rejected_the_event_is_named() {
        let describe = |members: Value| {
            let mut received = json!({"eventId": "e1", "matched": [], "refused": []});
            received.as_object_mut().unwrap().extend(members.as_object().unwrap().clone());
            describe(&serde_json::from_value(received).unwrap())
        };
        let matched = json!({"runId": "r1", "nodeId": "wait", "interruptId": "i1"});
        let refused = json!({
            "runId": "r2", "nodeId": "wait", "interruptId": "i1", "error": "invalid", "message": "no",
        });
        let text =
            describe(json!({"status": "matched", "matched": [matched], "refused": [refused], "more": true}));
        for part in ["e1", "r1 continues", "r2 still waits: no", "send another"] {
            assert!(text.contains(part), "{text}");
        }
        let kept = describe(json!({"status": "kept", "keptUntil": "2026-01-01T00:00:00.000Z"}));
        assert!(kept.contains("until 2026-01-01T00:00:00.000Z"), "{kept}");
        assert!(describe(json!({"status": "ignored"})).contains("not kept"));
    }
}
