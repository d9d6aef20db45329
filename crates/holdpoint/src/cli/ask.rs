//! `holdpoint ask` and `holdpoint wait`: a question from a script, and its answer as an exit code. A server that goes
//! away and comes back meanwhile is waited for.

use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use serde_json::{Map, Value, json};

use super::client::{Client, Reply, encode};
use super::connection::{Connection, Settings};
use super::failure::Failure;
use super::output::{Output, cell, quoted};
use super::values;
use super::watch::PAUSES_MS;

pub(crate) const EXAMPLES: &str = "\
Examples:
  holdpoint ask 'Deploy v2?' && ./deploy.sh
  holdpoint ask 'Which region?' --choices eu,us --approvers ann --timeout 10m
  holdpoint ask 'How many?' --schema count.json --show @report.json
  holdpoint ask 'Publish?' --approvers ann,role:editor --description 'The changelog is below.'
  holdpoint ask 'Pay 900?' --approvals 2
  holdpoint ask 'Sure?' --allow-self
  id=$(holdpoint ask 'Deploy v2?' --detach); holdpoint wait $id

Standard output has the answer as JSON: what was chosen or filled in; of a yes or no all that was
said; null where nobody answered. With --json it has the whole hold.

Exit codes: 0 approved or answered, 1 rejected, 2 nobody answered in time, 3 cancelled;
64 wrong usage, 65 refused by the server, 69 the server cannot be reached, 77 no key or a wrong one.
A server that restarts while this waits is waited for.";

/// How long one look may take; the server answers sooner when there is an answer.
const LOOK_SECONDS: u64 = 20;
const PAUSE_MAX: Duration = Duration::from_secs(5);

#[derive(Debug, Args)]
#[group(skip)]
pub(crate) struct Question {
    /// What to ask
    #[arg(value_name = "TITLE")]
    title: String,
    /// More about it
    #[arg(long, value_name = "TEXT")]
    description: Option<String>,
    /// One of these is the answer, instead of yes or no; separated by commas
    #[arg(long, value_name = "A,B", value_delimiter = ',', conflicts_with = "schema")]
    choices: Vec<String>,
    /// A file with a JSON Schema: the answer is anything that fits it, filled in on a form
    #[arg(long, value_name = "FILE")]
    schema: Option<String>,
    /// Who may answer: names, role:x, group:y, separated by commas
    #[arg(long, value_name = "A,B", value_delimiter = ',')]
    approvers: Vec<String>,
    /// Number of principals that must approve; not with --choices or --schema
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    approvals: Option<u64>,
    /// openwop-interrupt-auth-required: answers require a key; links are not accepted
    #[arg(long, value_name = "PROFILE")]
    profile: Option<String>,
    /// Let the principal that makes the hold answer it, too; the hold, its page and its record show this
    #[arg(long)]
    allow_self: bool,
    /// How long to wait for an answer: a number and s, m, h, d or w. Without it, for ever
    #[arg(long, value_name = "10m", value_parser = values::seconds)]
    timeout: Option<u64>,
    /// Shown with the question: JSON, @file, or - for standard input
    #[arg(long, value_name = "JSON|@FILE|-")]
    show: Option<String>,
    /// Print the id of the hold and do not wait
    #[arg(long)]
    detach: bool,
}

pub(crate) fn run(connection: &Connection, question: Question) -> ExitCode {
    told(connection, || {
        let (client, output) = (Client::new(Settings::find(connection)?), Output::of(connection));
        let detach = question.detach;
        let made = make(&client, &request(question)?)?;
        super::workflows::warn(&made.value);
        let id = made.value["holdId"].as_str().unwrap_or_default().to_owned();
        if detach {
            output.show(&made, |_| id.clone());
            return Ok(ExitCode::SUCCESS);
        }
        eprintln!("{}", how_to_answer(&client, &output, &made.value));
        answered(&client, &output, &id)
    })
}

pub(crate) fn wait(connection: &Connection, id: &str) -> ExitCode {
    told(connection, || {
        let (client, output) = (Client::new(Settings::find(connection)?), Output::of(connection));
        answered(&client, &output, id)
    })
}

/// What goes wrong must not look like an answer.
fn told(connection: &Connection, work: impl FnOnce() -> Result<ExitCode, Failure>) -> ExitCode {
    work().unwrap_or_else(|failure| {
        eprintln!("{}", if connection.json { failure.json_line() } else { failure.to_string() });
        failure.exit_code_beside_answers()
    })
}

/// Only what was said: the server knows the defaults.
fn request(question: Question) -> Result<Value, Failure> {
    let mut body = Map::new();
    body.insert("title".to_owned(), json!(question.title));
    let mut put = |name: &str, value: Option<Value>| body.extend(value.map(|value| (name.to_owned(), value)));
    put("description", question.description.map(Value::from));
    put("choices", (!question.choices.is_empty()).then(|| json!(question.choices)));
    put("approvers", (!question.approvers.is_empty()).then(|| json!(question.approvers)));
    put("requiredApprovals", question.approvals.map(Value::from));
    put("profile", question.profile.map(Value::from));
    put("requesterMayNotApprove", question.allow_self.then_some(Value::Bool(false)));
    put("timeoutMs", question.timeout.map(|seconds| json!(seconds.saturating_mul(1000))));
    let schema = question.schema.map(|file| values::json("--schema", &format!("@{file}"))).transpose()?;
    put("schema", schema);
    put("data", question.show.map(|source| values::json("--show", &source)).transpose()?);
    Ok(Value::Object(body))
}

/// Under a key of its own, so that what is sent again is not asked again.
fn make(client: &Client, body: &Value) -> Result<Reply, Failure> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).map_err(|error| Failure::broken(format!("no randomness: {error}")))?;
    let key = [("idempotency-key", format!("ask-{}", holdpoint_core::hex(&bytes)))];
    let mut pauses = PAUSES_MS.iter();
    loop {
        match (client.post_with("/v1/holds", body, &key), pauses.next()) {
            (Err(failure), Some(pause)) if is_passing(&failure) => {
                if *pause == PAUSES_MS[0] {
                    let seconds = PAUSES_MS.iter().sum::<u64>().div_ceil(1000);
                    eprintln!("{}; trying again for {seconds} seconds", failure.message());
                }
                std::thread::sleep(Duration::from_millis(*pause));
            }
            (made, _) => return made,
        }
    }
}

/// Whether it may well be otherwise in a moment.
fn is_passing(failure: &Failure) -> bool {
    failure.is_passing() || failure.status() == Some(429)
}

/// Waits for as long as it takes, and says once for each time that the server is away.
fn answered(client: &Client, output: &Output, id: &str) -> Result<ExitCode, Failure> {
    let path = format!("/v1/holds/{}?wait={LOOK_SECONDS}", encode(id));
    let mut pause = Duration::ZERO;
    loop {
        match client.get(&path) {
            Ok(hold) if hold.value["status"] == "waiting" => pause = Duration::ZERO,
            Ok(hold) => {
                output.show(&hold, |hold| hold["answer"].to_string());
                if let Some(why) = why_nobody(&hold.value) {
                    eprintln!("{why}");
                }
                return exit_code(&hold.value);
            }
            Err(failure) if is_passing(&failure) => {
                if pause.is_zero() {
                    eprintln!("{}; waiting for it to come back", failure.message());
                }
                pause = (pause * 2).clamp(Duration::from_millis(100), PAUSE_MAX);
                std::thread::sleep(pause);
            }
            Err(failure) => return Err(failure),
        }
    }
}

/// An answer speaks for itself; that there is none does not.
fn why_nobody(hold: &Value) -> Option<&'static str> {
    match hold["status"].as_str() {
        Some("timed_out") => Some("nobody answered in time"),
        Some("cancelled") => Some("the question was cancelled"),
        _ => None,
    }
}

fn exit_code(hold: &Value) -> Result<ExitCode, Failure> {
    let code = match hold["status"].as_str() {
        Some("approved" | "answered") => 0,
        Some("rejected") => 1,
        Some("timed_out") => 2,
        Some("cancelled") => 3,
        other => return Err(Failure::broken(format!("the server tells of a hold that is {other:?}"))),
    };
    Ok(ExitCode::from(code))
}

fn how_to_answer(client: &Client, output: &Output, hold: &Value) -> String {
    let id = cell(&hold["holdId"]);
    let expires = match &hold["expiresAt"] {
        Value::Null => String::new(),
        at => format!(", until {}", cell(at)),
    };
    let show = output.command(&format!("runs show {}", quoted(&id)));
    let page = format!("{}/inbox", client.server());
    let who = if hold["requesterMayNotApprove"] == true {
        format!("another principal must answer it, for example in the browser at {page}")
    } else {
        let here = output.command("inbox");
        format!("any principal may answer it, you included: in the browser at {page}, or here with `{here}`")
    };
    format!(
        "asked as {id}{expires}\n{who}; `{show}` shows it\nwaiting; Ctrl-C ends the waiting, not the question"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        question: Question,
    }

    #[test]
    fn the_request_holds_only_what_was_said() {
        let body = |args: &[&str]| {
            let line = Line::try_parse_from(["ask"].iter().chain(args)).ok()?;
            request(line.question).ok()
        };
        assert_eq!(body(&["Go?"]).unwrap(), json!({"title": "Go?"}));
        let full = [
            "Go?",
            "--approvers",
            "ann,role:x",
            "--timeout",
            "2m",
            "--show",
            "{\"a\":1}",
            "--description",
            "d",
        ];
        let expected = json!({
            "title": "Go?", "approvers": ["ann", "role:x"], "timeoutMs": 120_000, "data": {"a": 1}, "description": "d",
        });
        assert_eq!(body(&full).unwrap(), expected);
        assert_eq!(body(&["Go?", "--choices", "a,b"]).unwrap()["choices"], json!(["a", "b"]));
        let guarded = ["Go?", "--approvals", "2", "--profile", "p", "--allow-self"];
        let expected =
            json!({"title": "Go?", "requiredApprovals": 2, "profile": "p", "requesterMayNotApprove": false});
        assert_eq!(body(&guarded).unwrap(), expected);
        let for_ann = body(&["Go?", "--choices", "a,b", "--approvers", "ann"]).unwrap();
        assert_eq!(for_ann, json!({"title": "Go?", "choices": ["a", "b"], "approvers": ["ann"]}));
        for wrong in [
            &["Go?", "--choices", "a", "--schema", "f"][..],
            &["Go?", "--timeout", "soon"],
            &["Go?", "--show", "{"],
            &[],
        ] {
            assert_eq!(body(wrong), None, "{wrong:?}");
        }
    }

    #[test]
    fn every_end_of_a_hold_has_its_code() {
        for (status, code) in
            [("approved", 0), ("answered", 0), ("rejected", 1), ("timed_out", 2), ("cancelled", 3)]
        {
            let found = exit_code(&json!({"status": status})).unwrap();
            assert_eq!(format!("{found:?}"), format!("{:?}", ExitCode::from(code)), "{status}");
        }
        assert!(exit_code(&json!({"status": "odd"})).is_err());
    }
}
