//! `holdpoint ask` and `holdpoint wait`: a question from a script, and its answer as an exit code. A server that goes
//! away and comes back meanwhile is waited for.

mod early_exit;
pub(crate) mod hook;
mod question;
mod show;

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};

use holdpoint_client::Reply;

use super::client::{Client, encode};
use super::connection::{Connection, Settings};
use super::failure::Failure;
use super::output::{Output, age, cell, clean, ms_since, quoted};
use early_exit::EarlyExit;
pub(crate) use question::Question;

pub(crate) const EXAMPLES: &str = "\
Examples:
  holdpoint ask 'Deploy v2?' && ./deploy.sh
  holdpoint ask 'Which region?' --choices eu,us --approvers ann --timeout 10m
  holdpoint ask 'How many?' --schema count.json --show @report.json
  git diff | holdpoint ask 'Merge it?' --show -
  holdpoint ask 'Publish?' --approvers ann,role:editor --show @changelog.md --tag release
  holdpoint ask 'Pay 900?' --approvals 2 --cancel-on-exit --idempotency-key invoice-17
  holdpoint ask 'Sure?' --allow-self --link ann --link-expires 2h
  id=$(holdpoint ask 'Deploy v2?' --detach); holdpoint wait $id
  holdpoint ask --hook claude-code --approvers ann     # in a PreToolUse hook: docs/hooks.md

Standard output has the answer as JSON: what was chosen or filled in; of a yes or no all that was
said; null where nobody answered. With --json it has the whole hold, with --hook the decision in
the format of the program.

Exit codes: 0 approved or answered, 1 rejected, 2 no answer in time, 3 cancelled;
64 wrong usage, 65 refused by the server, 69 the server cannot be reached, 77 no key or a wrong one.
In a hook of Claude Code (with --hook, or where CLAUDE_PROJECT_DIR is set) every code but 0 is 2:
Claude Code blocks the call only on exit code 2.
A server that restarts while this waits is waited for.";

/// How long one look may take; the server answers sooner when there is an answer.
const LOOK_SECONDS: u64 = 20;
/// The delays between attempts to create a hold: about twenty seconds, enough for a server to restart.
const PAUSES_MS: [u64; 8] = [100, 300, 1000, 2000, 4000, 4000, 4000, 5000];
const PAUSE_MAX: Duration = Duration::from_secs(5);

pub(crate) fn run(connection: &Connection, question: Question) -> ExitCode {
    match question.hook {
        Some(hook::Program::ClaudeCode) => hook::run(connection, question),
        None => finish(connection, || ask(connection, question)),
    }
}

pub(crate) fn wait(connection: &Connection, id: &str) -> ExitCode {
    finish(connection, || {
        let client = Client::new(Settings::find(connection)?)?;
        report(&Output::of(connection), &answered(&client, id)?)
    })
}

/// What goes wrong must not look like an answer.
fn finish(connection: &Connection, work: impl FnOnce() -> Result<u8, Failure>) -> ExitCode {
    hook::block_on_panic();
    let code = work().unwrap_or_else(|failure| {
        eprintln!("{}", if connection.json { failure.json_line() } else { failure.to_string() });
        failure.code_beside_answers()
    });
    ExitCode::from(hook::exit_code(code))
}

fn ask(connection: &Connection, mut question: Question) -> Result<u8, Failure> {
    let (client, output) = (Arc::new(Client::new(Settings::find(connection)?)?), Output::of(connection));
    let (detach, cancels) = (question.detach, question.cancel_on_exit);
    let (key, link) = (question.idempotency_key.take(), question.link.take());
    let link_seconds = question.link_expires;
    let body = Value::Object(question.request()?);
    let watcher = client.clone();
    let watch =
        || EarlyExit::watch(None, move |_, id| hook::exit_code(end_early(&watcher, id.filter(|_| cancels))));
    let early_exit = (cancels || hook::is_hook()).then(watch).transpose()?;
    if let Some(early_exit) = &early_exit {
        early_exit.making();
    }
    let made = make(&client, &body, key)?;
    super::workflows::warn(
        &serde_json::from_value::<Vec<_>>(made.value["warnings"].clone()).unwrap_or_default(),
    );
    let id = made.value["holdId"].as_str().unwrap_or_default().to_owned();
    if let Some(early_exit) = &early_exit {
        early_exit.made(&id);
    }
    if let Some(name) = link {
        mint(&client, &id, &name, link_seconds)?;
    }
    if detach {
        output.show(&made, |_| id.clone());
        return Ok(0);
    }
    let on_signal = if cancels { "cancels the question" } else { "ends the waiting, not the question" };
    eprintln!("{}\nwaiting; Ctrl-C {on_signal}", how_to_answer(&client, &output, &made.value));
    let hold = answered(&client, &id);
    if let Some(early_exit) = early_exit {
        early_exit.finish();
    }
    report(&output, &hold?)
}

/// Reports that a signal ended the command, and cancels its hold, if there is one to cancel.
fn end_early(client: &Client, id: Option<&str>) -> u8 {
    let Some(id) = id else {
        eprintln!("ended by a signal");
        return 3;
    };
    match cancel(client, id) {
        Ok(hold) if hold.value["status"] == "cancelled" => {
            eprintln!("ended by a signal; the question was cancelled");
        }
        Ok(hold) => eprintln!("ended by a signal; the question was {} before", cell(&hold.value["status"])),
        Err(failure) => {
            eprintln!(
                "ended by a signal, and the question {id} could not be cancelled: {}",
                failure.message()
            );
            return failure.code_beside_answers();
        }
    }
    3
}

fn cancel(client: &Client, id: &str) -> Result<Reply<Value>, Failure> {
    client.delete(&format!("/v1/holds/{}", encode(id)))
}

/// Prints a link with which a person answers without a key. A question whose link cannot be made is cancelled.
fn mint(client: &Client, id: &str, name: &str, seconds: Option<u64>) -> Result<(), Failure> {
    let mut body = json!({"for": name});
    if let Some(seconds) = seconds {
        body["expiresInSeconds"] = json!(seconds);
    }
    let minted = client.post(&format!("/v1/runs/{}/interrupts/hold/tokens", encode(id)), &body);
    let minted = minted.map_err(|failure| match cancel(client, id) {
        Ok(_) => failure.about("the question was cancelled, because its link cannot be made"),
        Err(_) => failure.about(&format!("the question {id} is open, and its link cannot be made")),
    })?;
    let until = &minted.value["expiresAt"];
    // Half a minute more, so that the time since it was made does not make 29 minutes of 30.
    let left = ms_since(until).map(|ms| format!(" ({})", age(ms - 30_000))).unwrap_or_default();
    let url = clean(minted.value["url"].as_str().unwrap_or_default());
    eprintln!("link for {}, valid until {}{left}:\n{url}", clean(name), cell(until));
    Ok(())
}

/// Under a key of its own, if the caller has none, so that what is sent again is not asked again.
fn make(client: &Client, body: &Value, key: Option<String>) -> Result<Reply<Value>, Failure> {
    let key = [("idempotency-key", key.map_or_else(random_key, Ok)?)];
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

fn random_key() -> Result<String, Failure> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).map_err(|error| Failure::broken(format!("no randomness: {error}")))?;
    Ok(format!("ask-{}", holdpoint_core::hex(&bytes)))
}

/// Whether it may well be otherwise in a moment.
fn is_passing(failure: &Failure) -> bool {
    failure.is_passing() || failure.status() == Some(429)
}

/// Waits for as long as it takes, and says once for each time that the server is away.
fn answered(client: &Client, id: &str) -> Result<Reply<Value>, Failure> {
    let path = format!("/v1/holds/{}?wait={LOOK_SECONDS}", encode(id));
    let mut pause = Duration::ZERO;
    loop {
        match client.get(&path) {
            Ok(hold) if hold.value["status"] == "waiting" => pause = Duration::ZERO,
            Ok(hold) => return Ok(hold),
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

/// Prints what came of a hold and returns the exit code for it.
fn report(output: &Output, hold: &Reply<Value>) -> Result<u8, Failure> {
    output.show(hold, |hold| hold["answer"].to_string());
    if let Some(why) = describe_refusal(&hold.value) {
        eprintln!("{why}");
    }
    exit_code(&hold.value)
}

/// An answer needs no words on standard error, except in a hook, where the agent reads them.
fn describe_refusal(hold: &Value) -> Option<String> {
    match hold["status"].as_str() {
        Some("timed_out") => Some("no answer in time".to_owned()),
        Some("cancelled") => Some("the question was cancelled".to_owned()),
        Some("rejected") if hook::is_hook() => Some(format!("rejected by {}", cell(&hold["answeredBy"]))),
        _ => None,
    }
}

fn exit_code(hold: &Value) -> Result<u8, Failure> {
    match hold["status"].as_str() {
        Some("approved" | "answered") => Ok(0),
        Some("rejected") => Ok(1),
        Some("timed_out") => Ok(2),
        Some("cancelled") => Ok(3),
        other => Err(Failure::broken(format!(
            "the server sent a hold with the unknown status {other:?}; use the same version of both"
        ))),
    }
}

fn how_to_answer(client: &Client, output: &Output, hold: &Value) -> String {
    let id = cell(&hold["holdId"]);
    let expires = match &hold["expiresAt"] {
        Value::Null => String::new(),
        at => format!(", until {}", cell(at)),
    };
    let show = output.command(&format!("runs show {}", quoted(&id)));
    let page = client.absolute(hold["pageUrl"].as_str().unwrap_or("/inbox"));
    let who = if hold["requesterMayNotApprove"] == true {
        format!("another principal must answer it, for example in the browser at {page}")
    } else {
        let here = output.command("inbox");
        format!("any principal may answer it, you included: in the browser at {page}, or here with `{here}`")
    };
    format!("asked as {id}{expires}\n{who}; `{show}` shows it")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_end_of_a_hold_has_its_code() {
        for (status, code) in
            [("approved", 0), ("answered", 0), ("rejected", 1), ("timed_out", 2), ("cancelled", 3)]
        {
            assert_eq!(exit_code(&json!({"status": status})).unwrap(), code, "{status}");
        }
        assert!(exit_code(&json!({"status": "odd"})).is_err());
    }
}
