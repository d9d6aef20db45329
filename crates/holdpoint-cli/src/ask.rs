//! `holdpoint ask` creates a hold and waits for its answer; `holdpoint wait` waits for the answer of an existing hold.
//! The exit code is the outcome. Both commands continue to wait while the server restarts.

mod args;
mod data;
mod early_exit;
pub(crate) mod hook;

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use holdpoint_api::holds::{CreateHold, Hold, ShowHold};
use holdpoint_api::ids::HoldStatus;
use holdpoint_api::links::MintToken;
use holdpoint_client::Reply;

use super::client::Client;
use super::connection::{Connection, Settings};
use super::failure::Failure;
use super::output::{Output, age, cell, clean, elapsed_ms, quoted};
use super::workflows::warn;
pub(crate) use args::AskArgs;
use early_exit::EarlyExit;

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

Standard output has the answer as JSON: the choice, the value that matches the schema, or for an
approval an object with its action; null without an answer. With --json it has the whole hold, with
--hook the decision in the format of the program.

Exit codes: 0 approved or answered, 1 rejected, 2 no answer in time, 3 cancelled;
64 wrong usage, 65 refused by the server, 69 server not reachable, 77 no valid key.
In a hook of Claude Code (with --hook, or if CLAUDE_PROJECT_DIR is set) every code except 0
becomes 2, because Claude Code blocks the call only on exit code 2.
The command waits while the server restarts.";

/// The time that one request waits for the answer, in seconds.
const WAIT_SECONDS: u64 = 20;
/// The delays between attempts to create a hold: about twenty seconds, enough for a server to restart.
const RETRY_DELAYS_MS: [u64; 8] = [100, 300, 1000, 2000, 4000, 4000, 4000, 5000];
const RETRY_DELAY_MAX: Duration = Duration::from_secs(5);

pub(crate) fn run(connection: &Connection, args: AskArgs) -> ExitCode {
    match args.hook {
        Some(hook::Program::ClaudeCode) => hook::run(connection, args),
        None => finish(connection, || ask(connection, args)),
    }
}

pub(crate) fn wait(connection: &Connection, id: &str) -> ExitCode {
    finish(connection, || {
        let client = Client::new(Settings::find(connection)?)?;
        Ok(report(&Output::of(connection), &wait_for_answer(&client, id)?))
    })
}

/// Runs a command and prints its failure. The exit codes of failures differ from those of outcomes.
fn finish(connection: &Connection, work: impl FnOnce() -> Result<u8, Failure>) -> ExitCode {
    hook::block_on_panic();
    let code = work().unwrap_or_else(|failure| {
        eprintln!("{}", if connection.json { failure.json_line() } else { failure.to_string() });
        failure.sysexits_code()
    });
    ExitCode::from(hook::exit_code(code))
}

fn ask(connection: &Connection, mut args: AskArgs) -> Result<u8, Failure> {
    let (client, output) = (Arc::new(Client::new(Settings::find(connection)?)?), Output::of(connection));
    let (detach, cancels) = (args.detach, args.cancel_on_exit);
    let (key, link) = (args.idempotency_key.take(), args.link.take());
    let link_seconds = args.link_expires;
    let body = args.request()?;
    let watcher = client.clone();
    let watch =
        || EarlyExit::watch(None, move |_, id| hook::exit_code(end_early(&watcher, id.filter(|_| cancels))));
    let early_exit = (cancels || hook::is_hook()).then(watch).transpose()?;
    let made = create(&client, &body, key, early_exit.as_ref())?;
    let id = made.value.hold_id.as_str();
    if let Some(name) = link {
        let link = MintToken { sub: Some(name), expires_in_seconds: link_seconds, ..MintToken::default() };
        print_link(&client, id, &link)?;
    }
    if detach {
        output.show(&made, |hold| hold.hold_id.to_string());
        return Ok(0);
    }
    let on_signal = if cancels { "cancels the hold" } else { "ends this command, not the hold" };
    eprintln!("{}\nwaiting; Ctrl-C {on_signal}", how_to_answer(&client, &output, &made.value));
    let hold = wait_for_answer(&client, id);
    if let Some(early_exit) = early_exit {
        early_exit.finish();
    }
    Ok(report(&output, &hold?))
}

/// Reports that a signal ended the command, and cancels its hold, if there is one.
fn end_early(client: &Client, id: Option<&str>) -> u8 {
    let Some(id) = id else {
        eprintln!("ended by a signal");
        return 3;
    };
    match client.send(client.holds().cancel(id)) {
        Ok(hold) if hold.value.status == HoldStatus::Cancelled => {
            eprintln!("ended by a signal; the hold was cancelled");
        }
        Ok(hold) => eprintln!("ended by a signal; the hold was already {}", cell(hold.value.status)),
        Err(failure) => {
            eprintln!("ended by a signal; cannot cancel the hold {id}: {}", failure.message());
            return failure.sysexits_code();
        }
    }
    3
}

/// Prints a link that answers the hold without a key. Cancels the hold if its link cannot be created.
fn print_link(client: &Client, id: &str, link: &MintToken) -> Result<(), Failure> {
    let request = client.interrupts().create_link(id, "hold", &Default::default(), link);
    let minted = client.send(request).map_err(|failure| match client.send(client.holds().cancel(id)) {
        Ok(_) => failure.about("the hold was cancelled because its link cannot be created"),
        Err(_) => failure.about(&format!("the hold {id} is open, but its link cannot be created")),
    })?;
    let (claims, url) = (&minted.value.claims, minted.value.url.unwrap_or_default());
    // Rounds to the nearest minute, so that a new link of 30 minutes is not shown as 29 minutes.
    let left = age(elapsed_ms(claims.expires_at) - 30_000);
    eprintln!(
        "link for {}, valid until {} ({left}):\n{}",
        clean(&claims.sub),
        claims.expires_at,
        clean(&url)
    );
    Ok(())
}

/// Creates a hold, and retries while the server is unavailable. The idempotency key, by default a random one, prevents
/// a second hold.
fn create(
    client: &Client,
    body: &CreateHold,
    key: Option<String>,
    early_exit: Option<&EarlyExit>,
) -> Result<Reply<Hold>, Failure> {
    if let Some(early_exit) = early_exit {
        early_exit.record_request();
    }
    let request = client.holds().create(body);
    let request = match key {
        Some(key) => request.idempotency_key(&key),
        None => request.random_idempotency_key(),
    };
    let mut delays = RETRY_DELAYS_MS.iter();
    let made = loop {
        match (client.send(request.clone()), delays.next()) {
            (Err(failure), Some(delay)) if failure.is_transient() => {
                if *delay == RETRY_DELAYS_MS[0] {
                    let seconds = RETRY_DELAYS_MS.iter().sum::<u64>().div_ceil(1000);
                    eprintln!("{}; retrying for {seconds} seconds", failure.message());
                }
                std::thread::sleep(Duration::from_millis(*delay));
            }
            (made, _) => break made?,
        }
    };
    warn(made.value.warnings.as_deref().unwrap_or_default());
    if let Some(early_exit) = early_exit {
        early_exit.record_hold(made.value.hold_id.as_str());
    }
    Ok(made)
}

/// Waits for the answer without a limit, even while the server is unavailable. Reports each outage once.
fn wait_for_answer(client: &Client, id: &str) -> Result<Reply<Hold>, Failure> {
    let mut delay = Duration::ZERO;
    loop {
        match client.send(client.holds().get(id, &ShowHold { wait: Some(WAIT_SECONDS) })) {
            Ok(hold) if hold.value.status == HoldStatus::Waiting => delay = Duration::ZERO,
            Ok(hold) => return Ok(hold),
            Err(failure) if failure.is_transient() => {
                if delay.is_zero() {
                    eprintln!("{}; retrying until the server responds", failure.message());
                }
                delay = (delay * 2).clamp(Duration::from_millis(100), RETRY_DELAY_MAX);
                std::thread::sleep(delay);
            }
            Err(failure) => return Err(failure),
        }
    }
}

/// Prints the answer of a hold and returns the exit code of its status.
fn report(output: &Output, hold: &Reply<Hold>) -> u8 {
    output.show(hold, |hold| hold.answer.clone().unwrap_or_default().to_string());
    let message = match hold.value.status {
        HoldStatus::TimedOut => Some("no answer in time".to_owned()),
        HoldStatus::Cancelled => Some("the hold was cancelled".to_owned()),
        // The agent reads the standard error of its hook.
        HoldStatus::Rejected if hook::is_hook() => {
            Some(format!("rejected by {}", cell(&hold.value.answered_by)))
        }
        _ => None,
    };
    if let Some(message) = message {
        eprintln!("{message}");
    }
    exit_code(hold.value.status)
}

fn exit_code(status: HoldStatus) -> u8 {
    match status {
        HoldStatus::Approved | HoldStatus::Answered => 0,
        HoldStatus::Rejected => 1,
        HoldStatus::TimedOut | HoldStatus::Waiting => 2,
        HoldStatus::Cancelled => 3,
    }
}

fn how_to_answer(client: &Client, output: &Output, hold: &Hold) -> String {
    let id = cell(&hold.hold_id);
    let expires = hold.expires_at.map(|at| format!(", until {at}")).unwrap_or_default();
    let show = output.command(&format!("runs show {}", quoted(&id)));
    let page = client.absolute(&hold.page_url);
    let who = if hold.requester_may_not_approve {
        format!("another principal must answer it, for example in the browser at {page}")
    } else {
        let here = output.command("inbox");
        format!(
            "any principal, including you, may answer it: in the browser at {page}, or here with `{here}`"
        )
    };
    format!("created hold {id}{expires}\n{who}; `{show}` shows it")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_approved_and_answered_holds_exit_with_zero() {
        use HoldStatus::{Answered, Approved, Cancelled, Rejected, TimedOut, Waiting};
        let codes = [Approved, Answered, Rejected, TimedOut, Waiting, Cancelled].map(exit_code);
        assert_eq!(codes, [0, 0, 1, 2, 2, 3]);
    }
}
