//! One turn of the program: reads its output line by line and answers its control requests. The turn ends with the
//! result or the exit of the program, or with a timeout. A program that wrote no output in time is killed. A program
//! that exceeds the time limit of the turn is interrupted, then terminated, then killed.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::{Instant, sleep_until, timeout_at};

use super::super::{LockedHandle, ProviderError};
use super::permission_hook::PermissionHook;
use super::process::{AgentProcess, ProcessEvent};
use super::progress::AgentProgress;
use super::reference::ClaudeReference;

/// The time limit for the program to react to the interrupt, and then to the termination signal.
const STOP_GRACE: Duration = Duration::from_secs(5);
/// The time limit for the program to exit after its result.
const EXIT_GRACE: Duration = Duration::from_secs(10);
/// The time limit for reading the remaining output after the exit of the program.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(1);
/// Callback id of the hook.
const HOOK: &str = "gate";
const INITIALIZE: &str = "1";
const INTERRUPT: &str = "2";

/// The output of the program in a turn.
#[derive(Default)]
pub(super) struct ProgramOutput {
    pub(super) result: Option<Value>,
    /// The reason, if the engine ended the program.
    pub(super) aborted: Option<AbortReason>,
    pub(super) stderr: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AbortReason {
    /// No output within the time limit for the first event.
    NoOutput,
    /// The turn exceeded its time limit.
    TimedOut,
    TooMuchOutput,
    /// The program rejected the hook that decides about its calls.
    HookRejected,
}

/// The stage of the dialogue. It determines the action at the next timeout.
#[derive(Clone, Copy, PartialEq, Eq)]
enum DialogueStage {
    Waiting,
    Working,
    Interrupted,
    Terminated,
    Closing,
}

pub(super) struct Dialogue<'a> {
    pub(super) handle: &'a LockedHandle,
    pub(super) reference: &'a mut ClaudeReference,
    pub(super) hook: PermissionHook<'a>,
    pub(super) progress: AgentProgress<'a>,
    /// Deadline of the turn.
    pub(super) until: Instant,
    pub(super) first_event: Duration,
}

struct DialogueState {
    running: AgentProcess,
    stage: DialogueStage,
    limit: Instant,
    output: ProgramOutput,
}

impl Dialogue<'_> {
    /// Runs the dialogue to its end. Fails only if the reference cannot be stored.
    pub(super) async fn run(
        mut self,
        running: AgentProcess,
        prompt: Option<&str>,
    ) -> Result<ProgramOutput, ProviderError> {
        let limit = self.until.min(Instant::now() + self.first_event);
        let mut state =
            DialogueState { running, stage: DialogueStage::Waiting, limit, output: ProgramOutput::default() };
        state.send(&initialize()).await;
        if let Some(prompt) = prompt {
            state.send(&user_message(prompt)).await;
        }
        loop {
            let next = tokio::select! {
                biased;
                next = state.running.next() => next,
                () = sleep_until(state.limit) => {
                    if state.escalate(self.until).await { break } else { continue }
                }
            };
            match next {
                ProcessEvent::Line(line) => self.handle_line(&mut state, &line).await?,
                ProcessEvent::Exited => state.enter(DialogueStage::Closing, DRAIN_TIMEOUT),
                ProcessEvent::EndOfOutput => break,
                ProcessEvent::TooMuchOutput => state.output.aborted = Some(AbortReason::TooMuchOutput),
            }
            if matches!(state.output.aborted, Some(AbortReason::HookRejected | AbortReason::TooMuchOutput)) {
                break;
            }
        }
        let DialogueState { mut running, output: mut program_output, .. } = state;
        if program_output.aborted.is_none() {
            running.wait_for_exit(EXIT_GRACE).await;
        }
        program_output.stderr = running.finish().await;
        Ok(program_output)
    }

    async fn handle_line(&mut self, state: &mut DialogueState, line: &[u8]) -> Result<(), ProviderError> {
        // The program may print lines that are not JSON.
        let Ok(line) = serde_json::from_slice::<Value>(line) else { return Ok(()) };
        self.progress.handle_line(&line);
        match line["type"].as_str() {
            Some("control_response") => {
                let response = &line["response"];
                if response["request_id"] == INITIALIZE && response["subtype"] != "success" {
                    state.output.aborted = Some(AbortReason::HookRejected);
                }
                return Ok(());
            }
            Some("control_request") => {
                let answer = self.answer_control_request(&line["request"]).await?;
                state.send(&control_response(&line["request_id"], &answer)).await;
            }
            Some("result") if state.output.result.is_none() => {
                state.output.result = Some(line);
                state.running.close_stdin();
                state.enter(DialogueStage::Closing, EXIT_GRACE);
                return Ok(());
            }
            _ => {}
        }
        if state.stage == DialogueStage::Waiting {
            (state.stage, state.limit) = (DialogueStage::Working, self.until);
        }
        Ok(())
    }

    async fn answer_control_request(
        &mut self,
        request: &Value,
    ) -> Result<Result<Value, &'static str>, ProviderError> {
        match request["subtype"].as_str() {
            Some("hook_callback") if request["callback_id"] == HOOK => {
                let call = &request["input"];
                let (id, tool) = (call["tool_use_id"].as_str(), call["tool_name"].as_str());
                let verdict = self.hook.decide(id.unwrap_or_default(), tool.unwrap_or_default());
                if let Some(allowed) = verdict.allowed_call(id.unwrap_or_default(), self.handle.attempt()) {
                    let before = self.reference.allowed.replace(allowed);
                    if let Err(failure) = self.reference.keep(self.handle).await {
                        // The program was not told, so it has not made the call.
                        self.reference.allowed = before;
                        let _ = self.reference.keep(self.handle).await;
                        return Err(failure);
                    }
                }
                Ok(Ok(verdict.output()))
            }
            // Denies calls that bypass the hook.
            Some("can_use_tool") => {
                Ok(Ok(json!({ "behavior": "deny", "message": "this call was not approved" })))
            }
            _ => Ok(Err("not supported")),
        }
    }
}

impl DialogueState {
    /// Writes a line. Ignores errors: the turn of a program that does not read its input times out.
    async fn send(&mut self, line: &Value) {
        let _ = timeout_at(self.limit, self.running.write_line(line)).await;
    }

    fn enter(&mut self, stage: DialogueStage, within: Duration) {
        (self.stage, self.limit) = (stage, Instant::now() + within);
    }

    /// Handles a timeout. Returns true if the program must be killed.
    async fn escalate(&mut self, until: Instant) -> bool {
        match self.stage {
            DialogueStage::Waiting if Instant::now() < until => {
                self.output.aborted = Some(AbortReason::NoOutput);
                true
            }
            DialogueStage::Waiting | DialogueStage::Working => {
                self.output.aborted = Some(AbortReason::TimedOut);
                self.enter(DialogueStage::Interrupted, STOP_GRACE);
                let request = json!({ "subtype": "interrupt" });
                self.send(&json!({ "type": "control_request", "request_id": INTERRUPT, "request": request }))
                    .await;
                false
            }
            DialogueStage::Interrupted => {
                self.enter(DialogueStage::Terminated, STOP_GRACE);
                self.running.terminate();
                false
            }
            DialogueStage::Terminated | DialogueStage::Closing => true,
        }
    }
}

fn initialize() -> Value {
    let hooks = json!({ "PreToolUse": [{ "hookCallbackIds": [HOOK], "onFailure": "block" }] });
    let request = json!({ "subtype": "initialize", "hooks": hooks });
    json!({ "type": "control_request", "request_id": INITIALIZE, "request": request })
}

fn user_message(text: &str) -> Value {
    let content = json!([{ "type": "text", "text": text }]);
    let message = json!({ "role": "user", "content": content });
    json!({ "type": "user", "session_id": "", "parent_tool_use_id": null, "message": message })
}

fn control_response(id: &Value, answer: &Result<Value, &'static str>) -> Value {
    let response = match answer {
        Ok(answer) => json!({ "subtype": "success", "request_id": id, "response": answer }),
        Err(why) => json!({ "subtype": "error", "request_id": id, "error": why }),
    };
    json!({ "type": "control_response", "response": response })
}
