//! One turn of the program: what it says, line by line, and what it is told. It ends with its result, with its end, or
//! when its time is up: then it is asked to stop, told to, and killed.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::{Instant, sleep_until, timeout_at};

use super::super::{Case, Trouble};
use super::gate::Gate;
use super::process::{Next, Running};
use super::reference::Reference;

/// How long each way of asking for the end is given.
const PATIENCE: Duration = Duration::from_secs(5);
/// How long a program may take to end after its result.
const CLOSING: Duration = Duration::from_secs(10);
/// How long what it said last may take to arrive after its end.
const DRAINING: Duration = Duration::from_secs(1);
/// Our name for the one hook.
const HOOK: &str = "gate";
const INITIALIZE: &str = "1";
const INTERRUPT: &str = "2";

/// What was heard in a turn.
#[derive(Default)]
pub(super) struct Heard {
    pub(super) result: Option<Value>,
    /// Why it was ended by us.
    pub(super) cut: Option<Cut>,
    pub(super) complaints: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cut {
    /// It did not begin.
    Silent,
    /// Its time was up.
    Late,
    TooMuch,
    /// It would not let us decide about its calls.
    NoGate,
}

/// What follows when the time is up.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    Waiting,
    Working,
    Interrupted,
    Terminated,
    Closing,
}

pub(super) struct Dialogue<'a> {
    pub(super) case: &'a Case,
    pub(super) reference: &'a mut Reference,
    pub(super) gate: Gate<'a>,
    /// When the turn is over.
    pub(super) until: Instant,
    pub(super) first_event: Duration,
}

struct Talk {
    running: Running,
    stage: Stage,
    limit: Instant,
    heard: Heard,
}

impl Dialogue<'_> {
    /// Fails only when what must be on disk cannot be written.
    pub(super) async fn hold(mut self, running: Running, prompt: Option<&str>) -> Result<Heard, Trouble> {
        let limit = self.until.min(Instant::now() + self.first_event);
        let mut talk = Talk { running, stage: Stage::Waiting, limit, heard: Heard::default() };
        talk.say(&initialize()).await;
        if let Some(prompt) = prompt {
            talk.say(&user(prompt)).await;
        }
        loop {
            let next = tokio::select! {
                biased;
                next = talk.running.next() => next,
                () = sleep_until(talk.limit) => {
                    if talk.time_is_up(self.until).await { break } else { continue }
                }
            };
            match next {
                Next::Says(line) => self.hear(&mut talk, &line).await?,
                Next::Ends => talk.enter(Stage::Closing, DRAINING),
                Next::IsSilent => break,
                Next::SaysTooMuch => talk.heard.cut = Some(Cut::TooMuch),
            }
            if matches!(talk.heard.cut, Some(Cut::NoGate | Cut::TooMuch)) {
                break;
            }
        }
        let Talk { mut running, mut heard, .. } = talk;
        if heard.cut.is_none() {
            running.let_end(CLOSING).await;
        }
        heard.complaints = running.bury().await;
        Ok(heard)
    }

    async fn hear(&mut self, talk: &mut Talk, line: &[u8]) -> Result<(), Trouble> {
        // What is no JSON is for somebody else.
        let Ok(line) = serde_json::from_slice::<Value>(line) else { return Ok(()) };
        match line["type"].as_str() {
            Some("control_response") => {
                let response = &line["response"];
                if response["request_id"] == INITIALIZE && response["subtype"] != "success" {
                    talk.heard.cut = Some(Cut::NoGate);
                }
                return Ok(());
            }
            Some("control_request") => {
                let answer = self.answer(&line["request"]).await?;
                talk.say(&response(&line["request_id"], &answer)).await;
            }
            Some("result") if talk.heard.result.is_none() => {
                talk.heard.result = Some(line);
                talk.running.hush();
                talk.enter(Stage::Closing, CLOSING);
                return Ok(());
            }
            _ => {}
        }
        if talk.stage == Stage::Waiting {
            (talk.stage, talk.limit) = (Stage::Working, self.until);
        }
        Ok(())
    }

    async fn answer(&mut self, request: &Value) -> Result<Result<Value, &'static str>, Trouble> {
        match request["subtype"].as_str() {
            Some("hook_callback") if request["callback_id"] == HOOK => {
                let call = &request["input"];
                let (id, tool) = (call["tool_use_id"].as_str(), call["tool_name"].as_str());
                let verdict = self.gate.judge(id.unwrap_or_default(), tool.unwrap_or_default());
                if let Some(allowed) = verdict.allowed(id.unwrap_or_default(), self.case.attempt()) {
                    let before = self.reference.allowed.replace(allowed);
                    if let Err(trouble) = self.reference.keep(self.case).await {
                        // Nobody was told, so that nothing can have been done.
                        self.reference.allowed = before;
                        let _ = self.reference.keep(self.case).await;
                        return Err(trouble);
                    }
                }
                Ok(Ok(verdict.output()))
            }
            // Whatever the hook was not asked about is not allowed.
            Some("can_use_tool") => {
                Ok(Ok(json!({ "behavior": "deny", "message": "nobody allowed this call" })))
            }
            _ => Ok(Err("not supported")),
        }
    }
}

impl Talk {
    /// A program that does not listen is dealt with by its time.
    async fn say(&mut self, line: &Value) {
        let _ = timeout_at(self.limit, self.running.say(line)).await;
    }

    fn enter(&mut self, stage: Stage, within: Duration) {
        (self.stage, self.limit) = (stage, Instant::now() + within);
    }

    /// True when there is nothing left but to kill it.
    async fn time_is_up(&mut self, until: Instant) -> bool {
        match self.stage {
            Stage::Waiting if Instant::now() < until => {
                self.heard.cut = Some(Cut::Silent);
                true
            }
            Stage::Waiting | Stage::Working => {
                self.heard.cut = Some(Cut::Late);
                self.enter(Stage::Interrupted, PATIENCE);
                let request = json!({ "subtype": "interrupt" });
                self.say(&json!({ "type": "control_request", "request_id": INTERRUPT, "request": request }))
                    .await;
                false
            }
            Stage::Interrupted => {
                self.enter(Stage::Terminated, PATIENCE);
                self.running.ask_to_end();
                false
            }
            Stage::Terminated | Stage::Closing => true,
        }
    }
}

fn initialize() -> Value {
    let hooks = json!({ "PreToolUse": [{ "hookCallbackIds": [HOOK], "onFailure": "block" }] });
    let request = json!({ "subtype": "initialize", "hooks": hooks });
    json!({ "type": "control_request", "request_id": INITIALIZE, "request": request })
}

fn user(text: &str) -> Value {
    let content = json!([{ "type": "text", "text": text }]);
    let message = json!({ "role": "user", "content": content });
    json!({ "type": "user", "session_id": "", "parent_tool_use_id": null, "message": message })
}

fn response(id: &Value, answer: &Result<Value, &'static str>) -> Value {
    let response = match answer {
        Ok(answer) => json!({ "subtype": "success", "request_id": id, "response": answer }),
        Err(why) => json!({ "subtype": "error", "request_id": id, "error": why }),
    };
    json!({ "type": "control_response", "response": response })
}
