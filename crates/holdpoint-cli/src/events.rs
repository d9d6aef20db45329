//! `holdpoint events`: tells the server what has happened outside.

use clap::builder::NonEmptyStringValueParser;
use clap::{Args, Subcommand};
use serde_json::{Value, json};

use super::client::Client;
use super::failure::Failure;
use super::output::{Output, cell, clean};
use super::values;

pub(crate) const EXAMPLES: &str = "\
Runs wait for events by their type and by the members of a correlation; an event reaches every run that waits for
its type and has each of the members that it names. One that comes early is kept for a while. The same --id again is
the same event: nothing is done twice.

Examples:
  holdpoint events send payment.settled --id evt_1042 --correlation orderId=o-7
  holdpoint events send payment.settled --id evt_1042 --correlation orderId=o-7 --payload @e.json
  holdpoint events send door.opened --id 17 --correlation floor=3 --payload '{\"by\": \"ada\"}'";

#[derive(Debug, Subcommand)]
pub(crate) enum Action {
    /// Send one event
    Send(Send),
}

#[derive(Debug, Args)]
pub(crate) struct Send {
    /// What kind of event it is, as the runs that wait for it call it
    #[arg(value_name = "TYPE", value_parser = NonEmptyStringValueParser::new())]
    event_type: String,
    /// Its name at whoever saw it happen; sent again, it is the same event
    #[arg(long, value_name = "ID", value_parser = NonEmptyStringValueParser::new())]
    id: String,
    /// What tells it from others of its type; JSON if it reads as JSON, else text. Repeat for more
    #[arg(long, value_name = "NAME=VALUE", value_parser = values::pair)]
    correlation: Vec<(String, Value)>,
    /// What happened, as JSON: the text itself, @file, or - for standard input
    #[arg(long, value_name = "JSON|@FILE|-")]
    payload: Option<String>,
}

pub(crate) fn run(client: &Client, output: &Output, action: Action) -> Result<(), Failure> {
    let Action::Send(sent) = action;
    let id = sent.id.clone();
    let reply = client.post("/v1/events", &body(sent)?)?;
    output.show(&reply, |received| told(&id, received));
    Ok(())
}

fn body(sent: Send) -> Result<Value, Failure> {
    let payload = sent.payload.map(|source| values::json("--payload", &source)).transpose()?;
    let correlation = values::unique("--correlation", sent.correlation)?;
    Ok(json!({
        "eventType": sent.event_type, "eventId": sent.id, "correlation": correlation, "payload": payload,
    }))
}

fn told(id: &str, received: &Value) -> String {
    let id = clean(id);
    let rows = |name: &str| received[name].as_array().cloned().unwrap_or_default();
    let mut lines = vec![match received["status"].as_str() {
        Some("matched") => format!("event {id} was waited for"),
        Some("kept") => {
            format!("nobody waits for event {id} yet; it is kept until {}", cell(&received["keptUntil"]))
        }
        _ => format!("nobody waits for event {id}, and it is not kept"),
    }];
    for taker in rows("matched") {
        lines.push(format!("  {} of run {} goes on", cell(&taker["nodeId"]), cell(&taker["runId"])));
    }
    for refused in rows("refused") {
        let (node, run) = (cell(&refused["nodeId"]), cell(&refused["runId"]));
        lines.push(format!("  {node} of run {run} goes on waiting: {}", cell(&refused["message"])));
    }
    if received["more"] == true {
        lines.push("  more runs wait for it than one event can carry on; send another".to_owned());
    }
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        sent: Send,
    }

    fn read(args: &[&str]) -> Option<Value> {
        let line = Line::try_parse_from(["send"].iter().chain(args)).ok()?;
        body(line.sent).ok()
    }

    #[test]
    fn flags_become_an_event() {
        let event = json!({
            "eventType": "paid", "eventId": "e1", "correlation": {"order": 7, "shop": "north"}, "payload": [1],
        });
        let args = [
            "paid",
            "--id",
            "e1",
            "--correlation",
            "order=7",
            "--correlation",
            "shop=north",
            "--payload",
            "[1]",
        ];
        assert_eq!(read(&args), Some(event));
        for wrong in [
            &["paid"][..],
            &["paid", "--id", "e", "--correlation", "x"],
            &["paid", "--id", "e", "--payload", "{"],
        ] {
            assert_eq!(read(wrong), None, "{wrong:?}");
        }
        assert_eq!(read(&["paid", "--id", "e", "--correlation", "a=1", "--correlation", "a=2"]), None);
    }

    #[test]
    fn everybody_who_was_reached_or_not_is_named() {
        let taker = json!({"runId": "r1", "nodeId": "wait"});
        let refused = json!({"runId": "r2", "nodeId": "wait", "message": "no"});
        let received = json!({"status": "matched", "matched": [taker], "refused": [refused], "more": true});
        let text = told("e1", &received);
        for part in ["e1", "r1 goes on", "r2 goes on waiting: no", "send another"] {
            assert!(text.contains(part), "{text}");
        }
        assert!(told("e1", &json!({"status": "kept", "keptUntil": "later"})).contains("until later"));
        assert!(told("e1", &json!({"status": "ignored"})).contains("not kept"));
    }
}
