//! `ask --hook`: a hold for a tool call of an agent program that runs a command before each tool call. Every outcome
//! except an approval blocks the call, including all failures.
//!
//! Claude Code executes a call unless its hook denies it on standard output or exits with 2. Every other exit code,
//! including that of a crash, is a failure of the hook that does not block the call.

use std::io::{Read, Write};
use std::process::ExitCode;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use clap::ValueEnum;
use holdpoint_api::holds::{CreateHold, Hold};
use holdpoint_api::ids::{HoldStatus, StrictValue};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::args::AskArgs;
use super::early_exit::{Cause, EarlyExit};
use super::{create, wait_for_answer};
use crate::client::Client;
use crate::connection::{Connection, Settings};
use crate::failure::Failure;
use crate::output::{cell, clean};

/// The only exit code with which a hook blocks a tool call.
const BLOCKS: u8 = 2;
/// The default timeout of the hold. After 10 minutes, Claude Code stops a hook and executes the call.
const TIMEOUT_SECONDS: u64 = 9 * 60;
/// Extra time for the response after the deadline of the hold.
const GRACE: Duration = Duration::from_secs(5);
const INPUT_BYTES_MAX: u64 = 16 << 20;
const EVENT: &str = "PreToolUse";
/// Claude Code sets this variable for its hooks, but not for the commands that it runs as tools.
const HOOK_VARIABLE: &str = "CLAUDE_PROJECT_DIR";

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum Program {
    /// A PreToolUse hook of Claude Code
    ClaudeCode,
}

/// The used members of the input of a PreToolUse hook. Their serialized form is the payload of the hold.
#[derive(Debug, Deserialize, Serialize)]
struct ToolCall {
    #[serde(skip_serializing)]
    hook_event_name: String,
    #[serde(rename(serialize = "tool"))]
    tool_name: String,
    #[serde(rename(serialize = "input"))]
    tool_input: Value,
    #[serde(skip_serializing_if = "Option::is_none")]
    cwd: Option<String>,
}

#[derive(Debug)]
enum Decision {
    Allow(String),
    Deny(String),
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct HookOutput<'a> {
    hook_specific_output: HookDecision<'a>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct HookDecision<'a> {
    hook_event_name: &'static str,
    permission_decision: &'static str,
    permission_decision_reason: &'a str,
}

pub(super) fn run(connection: &Connection, args: AskArgs) -> ExitCode {
    std::panic::set_hook(Box::new(|panic| {
        std::process::exit(Decision::Deny(format!("holdpoint failed: {panic}")).report().into());
    }));
    let decision = decide(connection, args).unwrap_or_else(|failure| Decision::Deny(failure.to_string()));
    ExitCode::from(decision.report())
}

/// Returns whether this process runs in a hook: the variable of Claude Code is set, or the command has `--hook`.
pub(crate) fn is_hook() -> bool {
    let is_set = std::env::var_os(HOOK_VARIABLE).is_some_and(|value| !value.is_empty());
    let is_flag = |word: &str| word == "--hook" || word.starts_with("--hook=");
    is_set || std::env::args_os().any(|word| word.to_str().is_some_and(is_flag))
}

/// Makes a panic end the process with the code that blocks the call.
pub(crate) fn block_on_panic() {
    if is_hook() {
        std::panic::set_hook(Box::new(|_| std::process::exit(BLOCKS.into())));
    }
}

/// Returns the exit code of `ask` and `wait`: in a hook every code except 0 becomes 2, which blocks the call.
pub(crate) fn exit_code(code: u8) -> u8 {
    if code != 0 && is_hook() { BLOCKS } else { code }
}

fn decide(connection: &Connection, mut args: AskArgs) -> Result<Decision, Failure> {
    let seconds = *args.timeout.get_or_insert(TIMEOUT_SECONDS);
    let deadline = Duration::from_secs(seconds).saturating_add(GRACE);
    // Once the watch has started, a signal or the deadline denies the tool call, even while standard input is read.
    let shared: Arc<OnceLock<Client>> = Arc::default();
    let watched = shared.clone();
    let early_exit =
        EarlyExit::watch(Some(deadline), move |cause, id| end_early(watched.get(), cause, id).report())?;
    let call = ToolCall::read(std::io::stdin().lock())?;
    let opened = Client::new(Settings::find(connection)?)?;
    let client = shared.get_or_init(|| opened);
    args.title.get_or_insert_with(|| call.title());
    let body = CreateHold { data: Some(call.payload()), ..args.request()? };
    let hold = create(client, &body, None, Some(&early_exit))
        .and_then(|made| wait_for_answer(client, made.value.hold_id.as_str()));
    early_exit.finish();
    hold.map(|hold| Decision::of(&hold.value))
}

/// Cancels the hold, if there is one, because the hook no longer waits for its answer. Denies the call.
fn end_early(client: Option<&Client>, cause: Cause, id: Option<&str>) -> Decision {
    let cancel = |(client, id): (&Client, _)| client.send(client.holds().cancel(id)).map(drop);
    let cancelled = client.zip(id).map_or(Ok(()), cancel);
    let why = match cause {
        Cause::Signal => "the hook was ended by a signal",
        Cause::Deadline => "there was no answer in time",
    };
    Decision::Deny(match cancelled {
        Ok(()) => why.to_owned(),
        Err(failure) => format!("{why}; cannot cancel the hold: {}", failure.message()),
    })
}

impl ToolCall {
    fn read(input: impl Read) -> Result<Self, Failure> {
        let mut text = Vec::new();
        let read = input.take(INPUT_BYTES_MAX + 1).read_to_end(&mut text);
        read.map_err(|error| Failure::usage(format!("cannot read the tool call: {error}")))?;
        if text.len() as u64 > INPUT_BYTES_MAX {
            return Err(Failure::usage(format!("the tool call has more than {INPUT_BYTES_MAX} bytes")));
        }
        let call: Self = serde_json::from_slice(&text).map_err(|error| {
            Failure::usage(format!("standard input is not the tool call of a {EVENT} hook: {error}"))
        })?;
        if call.hook_event_name != EVENT {
            let event = clean(&call.hook_event_name);
            return Err(Failure::usage(format!("--hook requires a {EVENT} hook, not a {event} hook")));
        }
        if call.tool_name.trim().is_empty() {
            return Err(Failure::usage("the tool call has no tool_name"));
        }
        Ok(call)
    }

    fn title(&self) -> String {
        // The server accepts titles of up to 500 characters.
        format!("Allow {}?", self.tool_name.chars().take(200).collect::<String>())
    }

    fn payload(&self) -> StrictValue {
        StrictValue(serde_json::to_value(self).expect("the keys of a tool call are strings"))
    }
}

impl Decision {
    fn of(hold: &Hold) -> Self {
        let by = hold.answered_by.as_ref().map(|name| format!(" by {}", clean(name))).unwrap_or_default();
        let feedback = hold.answer.as_ref().and_then(|answer| answer.get("feedback")?.as_str());
        let feedback = feedback.map(|text| format!(": {}", clean(text))).unwrap_or_default();
        match hold.status {
            HoldStatus::Approved => Self::Allow(format!("approved{by}{feedback}")),
            HoldStatus::Rejected => Self::Deny(format!("rejected{by}{feedback}")),
            HoldStatus::TimedOut => Self::Deny("there was no answer in time".to_owned()),
            other => Self::Deny(format!("the hold is {}", cell(other))),
        }
    }

    /// Prints the decision and returns the exit code. A denial is reported on standard output and by the code, because
    /// a script around this command may lose one of them.
    fn report(&self) -> u8 {
        let (decision, reason) = match self {
            Self::Allow(reason) => ("allow", reason),
            Self::Deny(reason) => ("deny", reason),
        };
        let output = HookOutput {
            hook_specific_output: HookDecision {
                hook_event_name: EVENT,
                permission_decision: decision,
                permission_decision_reason: reason,
            },
        };
        let line = serde_json::to_string(&output).map_err(std::io::Error::from);
        let mut stdout = std::io::stdout();
        let printed = line.and_then(|line| writeln!(stdout, "{line}")).and_then(|()| stdout.flush());
        match (self, printed) {
            (Self::Allow(_), Ok(())) => 0,
            (Self::Allow(_), Err(_)) => BLOCKS,
            (Self::Deny(_), _) => {
                // If standard error is closed, the exit code still denies the call.
                let _ = writeln!(std::io::stderr(), "{reason}");
                BLOCKS
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn call(input: &Value) -> Result<ToolCall, Failure> {
        ToolCall::read(input.to_string().as_bytes())
    }

    #[test]
    fn the_payload_has_the_tool_and_its_whole_input() {
        let input = json!({
            "session_id": "s", "transcript_path": "/t", "cwd": "/project", "hook_event_name": "PreToolUse",
            "tool_name": "Bash", "tool_input": {"command": "rm -rf build"}, "tool_use_id": "toolu_1",
        });
        let call = call(&input).unwrap();
        assert_eq!(call.title(), "Allow Bash?");
        let payload = json!({"tool": "Bash", "input": {"command": "rm -rf build"}, "cwd": "/project"});
        assert_eq!(call.payload().0, payload);
    }

    #[test]
    fn input_that_is_not_a_tool_call_is_rejected() {
        let good = json!({"hook_event_name": "PreToolUse", "tool_name": "Bash", "tool_input": {}});
        call(&good).unwrap();
        for (member, value) in
            [("hook_event_name", json!("PostToolUse")), ("tool_name", json!(" ")), ("tool_name", json!(7))]
        {
            let mut bad = good.clone();
            bad[member] = value;
            assert!(call(&bad).is_err(), "{bad}");
        }
        for member in ["hook_event_name", "tool_name", "tool_input"] {
            let mut bad = good.clone();
            bad.as_object_mut().unwrap().shift_remove(member);
            assert!(call(&bad).is_err(), "{bad}");
        }
        assert!(ToolCall::read(&b""[..]).is_err() && ToolCall::read(&b"[]"[..]).is_err());
    }

    #[test]
    fn only_an_approved_hold_allows_the_call() {
        let of = |status: &str, answer: Value| {
            let hold = json!({
                "holdId": "h", "title": "Allow Bash?", "status": status, "createdAt": "2026-05-01T10:00:00Z",
                "answeredBy": "ann", "answer": answer, "requesterMayNotApprove": true, "runUrl": "", "pageUrl": "",
            });
            match Decision::of(&serde_json::from_value(hold).unwrap()) {
                Decision::Allow(reason) => (true, reason),
                Decision::Deny(reason) => (false, reason),
            }
        };
        assert_eq!(of("approved", json!({"action": "accept"})), (true, "approved by ann".to_owned()));
        let rejected = (false, "rejected by ann: too broad".to_owned());
        assert_eq!(of("rejected", json!({"feedback": "too broad"})), rejected);
        for status in ["timed_out", "cancelled", "answered", "waiting"] {
            assert!(!of(status, Value::Null).0, "{status}");
        }
    }
}
