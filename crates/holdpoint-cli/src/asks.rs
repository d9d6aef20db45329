//! `holdpoint asks`: what approvers want to know beside a decision, and answers to it.

use clap::Subcommand;
use clap::builder::NonEmptyStringValueParser;
use serde_json::{Value, json};

use super::client::{Client, encode};
use super::failure::Failure;
use super::output::{Output, age_cell, cell, clean, shorten};
use super::runs;

pub(crate) const EXAMPLES: &str = "\
Examples:
  holdpoint answer RUN gate ask --question 'What changed since Monday?'
  holdpoint asks list RUN
  holdpoint asks answer RUN gate 1 'Only the price.'";

#[derive(Debug, Subcommand)]
pub(crate) enum Action {
    /// Show what was asked in a run, answered or not
    List {
        /// The run, or `latest` for the newest
        #[arg(value_name = "RUN", value_parser = NonEmptyStringValueParser::new())]
        run: String,
    },
    /// Answer a question; the first answer counts, and decides nothing
    Answer {
        /// The run, or `latest` for the newest
        #[arg(value_name = "RUN", value_parser = NonEmptyStringValueParser::new())]
        run: String,
        /// The node that waits
        #[arg(value_name = "NODE", value_parser = NonEmptyStringValueParser::new())]
        node: String,
        /// The number of the question
        #[arg(value_name = "ASK", value_parser = clap::value_parser!(u32).range(1..))]
        ask: u32,
        /// What to say
        #[arg(value_name = "TEXT", value_parser = NonEmptyStringValueParser::new())]
        text: String,
        /// The interrupt that the question belongs to. Required if the node has several open interrupts
        #[arg(long, value_name = "ID", value_parser = NonEmptyStringValueParser::new())]
        interrupt: Option<String>,
    },
}

pub(crate) fn run(client: &Client, output: &Output, action: Action) -> Result<(), Failure> {
    match action {
        Action::List { run } => list(client, output, &client.run_id(&run)?),
        Action::Answer { run, node, ask, text, interrupt } => {
            let run = client.run_id(&run)?;
            let path = format!("{}/interrupts/{}/asks/{ask}", runs::path(&run), encode(&node));
            let reply = client.post(&path, &json!({"answer": text, "interruptId": interrupt}))?;
            output.show(&reply, |_| {
                format!("answered question {ask} at {} of run {}", clean(&node), clean(&run))
            });
            Ok(())
        }
    }
}

fn list(client: &Client, output: &Output, run: &str) -> Result<(), Failure> {
    let reply = client.list(&format!("{}/interrupts?", runs::path(run)), "interrupts", u32::MAX)?;
    output.show(&reply, |page| {
        let rows: Vec<_> = page["interrupts"].as_array().into_iter().flatten().flat_map(rows).collect();
        let heads = ["NODE", "ASK", "BY", "AGE", "QUESTION", "ANSWERED BY", "ANSWER"];
        output.table(&heads, &rows, "nobody has asked anything")
    });
    Ok(())
}

fn rows(interrupt: &Value) -> Vec<Vec<String>> {
    let row = |ask: &Value| {
        let mut row = vec![cell(&interrupt["nodeId"]), cell(&ask["askId"]), cell(&ask["askedBy"])];
        row.extend([age_cell(&ask["askedAt"]), shorten(&cell(&ask["question"]), 80)]);
        row.extend(["answeredBy", "answer"].map(|name| match &ask[name] {
            Value::Null => "-".to_string(),
            said => shorten(&cell(said), 80),
        }));
        row
    };
    interrupt["asks"].as_array().into_iter().flatten().map(row).collect()
}
