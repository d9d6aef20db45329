//! `holdpoint pending` and `holdpoint answer`: what waits for a person, and the person's answer.

use std::time::Duration;

use clap::builder::NonEmptyStringValueParser;
use clap::{ArgGroup, Args};
use serde_json::{Value, json};

use super::client::{Client, encode};
use super::failure::Failure;
use super::output::{Output, age, age_cell, cell, clean, ms_since, shorten};
use super::{runs, values};

pub(crate) const PENDING_EXAMPLES: &str = "\
Examples:
  holdpoint pending
  holdpoint pending --limit 200 --json
  holdpoint answer RUN NODE accept";

pub(crate) const USAGE: &str = "holdpoint answer [OPTIONS] <RUN> <NODE> <ACTION>
       holdpoint answer [OPTIONS] <RUN> <NODE> --set <QUESTION=ANSWER>...
       holdpoint answer [OPTIONS] <RUN> <NODE> --value <JSON|@FILE|->";

pub(crate) const EXAMPLES: &str = "\
`holdpoint pending` shows which runs wait, and at which node.

Examples:
  holdpoint answer latest gate accept
  holdpoint answer RUN gate reject --feedback 'the changelog is missing'
  holdpoint answer RUN questions --set colour=blue --set size=42
  holdpoint answer RUN wait --value '{\"paid\": true}'
  holdpoint answer RUN wait --value @payment.json";

/// How long to look whether the run has settled, so that the last word is seldom `running`.
const SETTLE_TRIES: u32 = 10;
const SETTLE_PAUSE: Duration = Duration::from_millis(50);

#[derive(Debug, Args)]
#[group(skip)]
#[command(group(ArgGroup::new("the_answer").required(true).args(["action", "answers", "value"])))]
pub(crate) struct Answer {
    /// The run, or `latest` for the newest
    #[arg(value_name = "RUN", value_parser = NonEmptyStringValueParser::new())]
    run: String,
    /// The node that waits
    #[arg(value_name = "NODE", value_parser = NonEmptyStringValueParser::new())]
    node: String,
    /// An action of an approval gate: `accept`, `reject`, or what else the gate offers
    #[arg(value_name = "ACTION", value_parser = NonEmptyStringValueParser::new())]
    action: Option<String>,
    /// A word to go with the action
    #[arg(long, value_name = "TEXT", requires = "action", conflicts_with_all = ["answers", "value"])]
    feedback: Option<String>,
    /// The answer to one question; JSON if it reads as JSON, else text. Repeat for more
    #[arg(long = "set", value_name = "QUESTION=ANSWER", value_parser = values::pair)]
    answers: Vec<(String, Value)>,
    /// The whole resume value as JSON: the text itself, @file, or - for standard input
    #[arg(long, value_name = "JSON|@FILE|-")]
    value: Option<String>,
}

pub(crate) fn pending(client: &Client, output: &Output, limit: u32) -> Result<(), Failure> {
    let reply = client.list("/v1/interrupts?", "interrupts", limit)?;
    output.show(&reply, |page| {
        let rows: Vec<_> = page["interrupts"].as_array().into_iter().flatten().map(row).collect();
        output.table(
            &["RUN", "NODE", "KIND", "WORKFLOW", "AGE", "EXPIRES", "TITLE"],
            &rows,
            "nothing waits for an answer",
        )
    });
    output.more(&reply, limit);
    Ok(())
}

pub(crate) fn run(client: &Client, output: &Output, answer: Answer) -> Result<(), Failure> {
    let node = answer.node.clone();
    let run = answer.run.clone();
    let value = resume_value(answer)?;
    let run = client.run_id(&run)?;
    let path = format!("{}/interrupts/{}", runs::path(&run), encode(&node));
    let reply = client.post(&path, &json!({"resumeValue": value}))?;
    // Scripts get the server's word on the answer and nothing that depends on timing.
    let status = if output.json { String::new() } else { settled_status(client, &run)? };
    output.show(&reply, |_| {
        format!("answered {} of run {}; the run is now {}", clean(&node), clean(&run), output.status(&status))
    });
    Ok(())
}

/// The command that answers such an interrupt.
pub(crate) fn suggestion(run: &str, node: &str, kind: &str) -> String {
    let answer = match kind {
        "approval" => "accept",
        "clarification" => "--set QUESTION=ANSWER",
        _ => "--value JSON",
    };
    format!("holdpoint answer {run} {node} {answer}")
}

fn row(interrupt: &Value) -> Vec<String> {
    let age_ms = interrupt["ageMs"].as_i64();
    let expires = match ms_since(&interrupt["expiresAt"]) {
        Some(ms) if ms < 0 => format!("in {}", age(ms)),
        Some(_) => "due".to_string(),
        None => "-".to_string(),
    };
    let mut row: Vec<String> =
        ["runId", "nodeId", "kind", "workflowId"].map(|name| cell(&interrupt[name])).into();
    row.push(age_ms.map_or_else(|| age_cell(&interrupt["requestedAt"]), age));
    row.extend([expires, shorten(&cell(&interrupt["title"]), 80)]);
    row
}

fn resume_value(answer: Answer) -> Result<Value, Failure> {
    if let Some(source) = answer.value {
        return values::json("--value", &source);
    }
    if let Some(action) = answer.action {
        return Ok(match answer.feedback {
            Some(feedback) => json!({"action": action, "feedback": feedback}),
            None => json!({"action": action}),
        });
    }
    let answers = values::unique("--set", answer.answers)?;
    let answers: Vec<_> =
        answers.into_iter().map(|(id, answer)| json!({"id": id, "answer": answer})).collect();
    Ok(json!({"answers": answers}))
}

fn settled_status(client: &Client, run: &str) -> Result<String, Failure> {
    let mut tries = 0;
    loop {
        let snapshot = client.get(&runs::path(run))?;
        let status = cell(&snapshot.value["status"]);
        tries += 1;
        if !matches!(status.as_str(), "pending" | "running") || tries == SETTLE_TRIES {
            return Ok(status);
        }
        std::thread::sleep(SETTLE_PAUSE);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        answer: Answer,
    }

    fn read(args: &[&str]) -> Option<Value> {
        let line = Line::try_parse_from(["answer", "run", "node"].iter().chain(args)).ok()?;
        resume_value(line.answer).ok()
    }

    #[test]
    fn each_form_of_an_answer_becomes_its_resume_value() {
        assert_eq!(read(&["accept"]), Some(json!({"action": "accept"})));
        let rejected = json!({"action": "reject", "feedback": "no"});
        assert_eq!(read(&["reject", "--feedback", "no"]), Some(rejected));
        let answers = json!({"answers": [{"id": "a", "answer": "x"}, {"id": "b", "answer": 2}]});
        assert_eq!(read(&["--set", "a=x", "--set", "b=2"]), Some(answers));
        assert_eq!(read(&["--value", "[1]"]), Some(json!([1])));
    }

    #[test]
    fn no_answer_two_answers_and_broken_answers_are_wrong_usage() {
        let wrong: [&[&str]; 6] = [
            &[],
            &["accept", "--value", "1"],
            &["accept", "--set", "a=1"],
            &["--feedback", "x", "--value", "1"],
            &["--set", "a=1", "--set", "a=2"],
            &["--value", "{"],
        ];
        for args in wrong {
            assert_eq!(read(args), None, "{args:?}");
        }
    }
}
