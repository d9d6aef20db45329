//! `holdpoint answer`: what a person says to what waits.

use clap::builder::NonEmptyStringValueParser;
use clap::{ArgGroup, Args};
use serde_json::{Value, json};

use super::asked::actions;
use super::client::{Client, encode};
use super::failure::Failure;
use super::output::{Output, clean};
use super::{runs, values};

pub(crate) const USAGE: &str = "holdpoint answer [OPTIONS] <RUN> <NODE> <ACTION>
       holdpoint answer [OPTIONS] <RUN> <NODE> refine --feedback <TEXT>
       holdpoint answer [OPTIONS] <RUN> <NODE> edit-accept --edited <JSON|@FILE|->
       holdpoint answer [OPTIONS] <RUN> <NODE> ask --question <TEXT>
       holdpoint answer [OPTIONS] <RUN> <NODE> --set <QUESTION=ANSWER>...
       holdpoint answer [OPTIONS] <RUN> <NODE> --value <JSON|@FILE|->";

pub(crate) const EXAMPLES: &str = "\
`holdpoint pending` shows which runs wait, and at which node; `holdpoint runs show RUN` shows what is asked.

Examples:
  holdpoint answer latest gate accept
  holdpoint answer RUN gate reject --feedback 'the changelog is missing'
  holdpoint answer RUN gate refine --feedback 'shorter, please'
  holdpoint answer RUN gate edit-accept --edited @text.json
  holdpoint answer RUN gate ask --question 'what changed since Monday?'
  holdpoint answer RUN questions --set colour=blue --set size=42
  holdpoint answer RUN wait --value '{\"paid\": true}'
  holdpoint answer RUN wait --value @payment.json
  holdpoint answer RUN agent accept --interrupt RUN:i2    # one of several calls of an agent";

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
    /// A word to go with the action; `refine` needs it
    #[arg(long, value_name = "TEXT", requires = "action", conflicts_with_all = ["answers", "value"])]
    feedback: Option<String>,
    /// The artifact as it shall be, for `edit-accept`: JSON, @file, or - for standard input
    #[arg(long, value_name = "JSON|@FILE|-", requires = "action", conflicts_with_all = ["answers", "value"])]
    edited: Option<String>,
    /// What to ask before deciding, for `ask`; `holdpoint asks list RUN` shows the reply
    #[arg(long, value_name = "TEXT", requires = "action", conflicts_with_all = ["answers", "value", "feedback", "edited"])]
    question: Option<String>,
    /// The answer to one question; JSON if it reads as JSON, else text. Repeat for more
    #[arg(long = "set", value_name = "QUESTION=ANSWER", value_parser = values::pair)]
    answers: Vec<(String, Value)>,
    /// The whole resume value as JSON: the text itself, @file, or - for standard input
    #[arg(long, value_name = "JSON|@FILE|-")]
    value: Option<String>,
    /// The interrupt that is answered. Required if the node has several open interrupts
    #[arg(long, value_name = "ID", value_parser = NonEmptyStringValueParser::new())]
    interrupt: Option<String>,
}

pub(crate) fn run(client: &Client, output: &Output, answer: Answer) -> Result<(), Failure> {
    let (run, node) = (answer.run.clone(), answer.node.clone());
    let (action, interrupt) = (answer.action.clone(), answer.interrupt.clone());
    let asks = action.as_deref() == Some("ask");
    let mut value = resume_value(answer)?;
    let run = client.run_id(&run)?;
    if let Some(action) = action {
        value["action"] = json!(meant(client, &run, (&node, interrupt.as_deref()), action)?);
    }
    let path = format!("{}/interrupts/{}", runs::path(&run), encode(&node));
    let mut body = json!({"resumeValue": value});
    if let Some(interrupt) = interrupt {
        body["interruptId"] = json!(interrupt);
    }
    let reply = client.post(&path, &body)?;
    // Scripts get the server's word on the answer and nothing that depends on timing.
    let now = if output.json { None } else { runs::settled(client, &run) };
    output.show(&reply, |_| {
        let said = if asks { "asked at" } else { "answered" };
        let done = format!("{said} {} of run {}", clean(&node), clean(&run));
        match now {
            Some(now) if now["status"] == "paused" => {
                let resume = output.command(&format!("runs resume {}", clean(&run)));
                format!("{done}; the run is paused: let it go on with: {resume}")
            }
            Some(now) => format!("{done}; the run is now {}", runs::standing(output, &now)),
            None => done,
        }
    });
    Ok(())
}

/// A word is an answer to an approval only: to other kinds it would be a value that nobody meant. And who
/// says that they approve, accept.
fn meant(
    client: &Client,
    run: &str,
    (node, named): (&str, Option<&str>),
    action: String,
) -> Result<String, Failure> {
    let snapshot = match client.get(&runs::path(run)) {
        Ok(reply) => reply.value,
        // A key that may answer and not read leaves the judgement to the server.
        Err(failure) if failure.status() == Some(403) => return Ok(action),
        Err(failure) => return Err(failure),
    };
    let interrupt = &snapshot["interrupt"];
    let is_meant = named.is_none_or(|named| interrupt["interruptId"].as_str() == Some(named));
    let kind = match interrupt["kind"].as_str() {
        Some(kind) if is_meant && interrupt["nodeId"].as_str() == Some(node) => kind,
        // It may be one of several that wait at once.
        _ => return Ok(action),
    };
    if kind == "approval" {
        // Without a list, `accept` is offered.
        let offered = actions(&interrupt["data"]);
        let offers = |name: &str| offered.iter().any(|offer| offer == name);
        let alias = action == "approve" && (offered.is_empty() || offers("accept")) && !offers("approve");
        return Ok(if alias { "accept".to_owned() } else { action });
    }
    let form = if kind == "clarification" { "--set QUESTION=ANSWER" } else { "--value JSON" };
    Err(Failure::usage(format!(
        "`{}` waits for {}; `{action}` is an answer to an approval",
        clean(node),
        clean(kind)
    ))
    .hint(format!("answer with `holdpoint answer {} {} {form}`", clean(run), clean(node))))
}

fn resume_value(answer: Answer) -> Result<Value, Failure> {
    if let Some(source) = answer.value {
        return values::json("--value", &source);
    }
    if let Some(action) = answer.action {
        return match answer.question {
            Some(question) => ask_value(&action, &question),
            None => action_value(&action, answer.feedback, answer.edited),
        };
    }
    let answers = values::unique("--set", answer.answers)?;
    let answers: Vec<_> =
        answers.into_iter().map(|(id, answer)| json!({"id": id, "answer": answer})).collect();
    Ok(json!({"answers": answers}))
}

fn ask_value(action: &str, question: &str) -> Result<Value, Failure> {
    match action {
        "ask" => Ok(json!({"action": action, "question": question})),
        _ => Err(Failure::usage(format!("--question goes with `ask`, not with `{action}`"))),
    }
}

fn action_value(action: &str, feedback: Option<String>, edited: Option<String>) -> Result<Value, Failure> {
    let edited = edited.map(|source| values::json("--edited", &source)).transpose()?;
    match (action, feedback, edited) {
        ("refine", None, None) => Err(Failure::usage("`refine` must say what to change")
            .hint("write it as `holdpoint answer RUN NODE refine --feedback TEXT`")),
        ("refine", Some(text), None) => {
            Ok(json!({"action": action, "refineFeedback": {"scope": "whole", "text": text}}))
        }
        ("ask", ..) => Err(Failure::usage("`ask` must say what to ask")
            .hint("write it as `holdpoint answer RUN NODE ask --question TEXT`")),
        ("edit-accept", _, None) => Err(Failure::usage("`edit-accept` must bring the edited artifact")
            .hint("write it as `holdpoint answer RUN NODE edit-accept --edited JSON|@FILE|-`")),
        ("edit-accept", None, Some(edited)) => Ok(json!({"action": action, "editedArtifactData": edited})),
        ("edit-accept", Some(text), Some(edited)) => {
            Ok(json!({"action": action, "editedArtifactData": edited, "feedback": text}))
        }
        (_, _, Some(_)) => {
            Err(Failure::usage(format!("--edited goes with `edit-accept`, not with `{action}`")))
        }
        (_, Some(text), None) => Ok(json!({"action": action, "feedback": text})),
        (_, None, None) => Ok(json!({"action": action})),
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
        let question = json!({"action": "ask", "question": "Why?"});
        assert_eq!(read(&["ask", "--question", "Why?"]), Some(question));
        let refined = json!({"action": "refine", "refineFeedback": {"scope": "whole", "text": "shorter"}});
        assert_eq!(read(&["refine", "--feedback", "shorter"]), Some(refined));
        let edited = json!({"action": "edit-accept", "editedArtifactData": {"a": 1}});
        assert_eq!(read(&["edit-accept", "--edited", "{\"a\":1}"]), Some(edited));
    }

    #[test]
    fn no_answer_two_answers_and_broken_answers_are_wrong_usage() {
        let wrong: [&[&str]; 13] = [
            &[],
            &["ask"],
            &["accept", "--question", "Why?"],
            &["ask", "--question", "Why?", "--feedback", "x"],
            &["refine"],
            &["edit-accept"],
            &["accept", "--edited", "1"],
            &["--set", "a=1", "--edited", "1"],
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
