//! `holdpoint asks`: lists and answers side questions of approvers.

use clap::Subcommand;
use clap::builder::NonEmptyStringValueParser;
use holdpoint_api::ids::NodeId;
use holdpoint_api::interrupts::{AnswerAsk, Ask, InterruptQuery};

use super::client::Client;
use super::failure::Failure;
use super::output::{Output, age_since, cell, clean, shorten};
use super::runs::RunArg;

pub(crate) const EXAMPLES: &str = "\
Examples:
  holdpoint answer RUN gate ask --question 'What changed since Monday?'
  holdpoint asks list RUN
  holdpoint asks answer RUN gate 1 'Only the price.'";

#[derive(Debug, Subcommand)]
pub(crate) enum Action {
    /// List the side questions of a run
    List(RunArg),
    /// Answer a side question; only the first answer counts, and it does not decide the interrupt
    Answer {
        #[command(flatten)]
        run: RunArg,
        /// Node of the interrupt
        #[arg(value_name = "NODE", value_parser = NonEmptyStringValueParser::new())]
        node: String,
        /// Number of the side question
        #[arg(value_name = "ASK", value_parser = clap::value_parser!(u32).range(1..))]
        ask: u32,
        /// Answer
        #[arg(value_name = "TEXT", value_parser = NonEmptyStringValueParser::new())]
        text: String,
        /// Id of the interrupt; required if the node has several open interrupts
        #[arg(long, value_name = "ID", value_parser = NonEmptyStringValueParser::new())]
        interrupt: Option<String>,
    },
}

pub(crate) fn run(client: &Client, output: &Output, action: Action) -> Result<(), Failure> {
    match action {
        Action::List(run) => list(client, output, &run.id(client)?),
        Action::Answer { run, node, ask, text, interrupt } => {
            let run = run.id(client)?;
            let answer = AnswerAsk { answer: text, interrupt_id: interrupt };
            let interrupts = client.interrupts();
            let request =
                interrupts.answer_ask(&run, &node, &ask.to_string(), &InterruptQuery::default(), &answer);
            output.show(&client.send(request)?, |_| {
                format!("answered side question {ask} at {} of run {}", clean(&node), clean(&run))
            });
            Ok(())
        }
    }
}

fn list(client: &Client, output: &Output, run: &str) -> Result<(), Failure> {
    let reply = client.collect(client.interrupts().history(run), u32::MAX)?;
    let row = |node: &NodeId, ask: &Ask| {
        vec![
            cell(node),
            cell(ask.ask_id),
            cell(&ask.asked_by),
            age_since(ask.asked_at),
            shorten(&cell(&ask.question), 80),
            shorten(&cell(&ask.answered_by), 80),
            shorten(&cell(&ask.answer), 80),
        ]
    };
    output.show(&reply, |page| {
        let interrupts = page.interrupts.iter();
        let rows = interrupts.flat_map(|one| one.asks.iter().map(|ask| row(&one.node_id, ask)));
        let heads = ["NODE", "ASK", "BY", "AGE", "QUESTION", "ANSWERED BY", "ANSWER"];
        output.table(&heads, &rows.collect::<Vec<_>>(), "no side questions")
    });
    Ok(())
}
