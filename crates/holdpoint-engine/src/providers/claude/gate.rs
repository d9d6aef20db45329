//! Which calls of a program are made, and which wait for people. In one program one call at most is put off: of two,
//! the agent would forget the first.

use serde_json::{Value, json};

use super::reference::{Allowed, Deferred};
use super::settings::{QUESTION, Settings};
use super::words::Decision;

const ALONE: &str = "one gated action at a time: request this one again alone";
const REJECTED: &str = "a person rejected this call";
const UNKNOWN: &str = "this call was approved, but the program was stopped while it was being made: whether it was \
    made is unknown, and a person decided not to repeat it";

pub(super) struct Gate<'a> {
    settings: &'a Settings,
    /// What people decided about the call that waited. Used once.
    decided: Option<Decided<'a>>,
    put_off: bool,
}

pub(super) struct Decided<'a> {
    pub(super) call: &'a Deferred,
    pub(super) decision: &'a Decision,
    /// The call may have been made before.
    pub(super) repeated: bool,
    /// An edited input, as the agent must see it.
    pub(super) input: Option<Value>,
}

#[derive(Debug, PartialEq)]
pub(super) enum Verdict {
    /// The agent's own rules decide.
    Pass,
    /// It is free.
    Free,
    /// People allowed it. That must be on disk before the agent is told.
    Allow(Option<Value>),
    Deny(String),
    Defer,
}

impl<'a> Gate<'a> {
    pub(super) fn new(settings: &'a Settings, decided: Option<Decided<'a>>) -> Self {
        Self { settings, decided, put_off: false }
    }

    pub(super) fn judge(&mut self, id: &str, tool: &str) -> Verdict {
        if let Some(decided) = self.decided.take_if(|decided| decided.call.id == id) {
            return decided.verdict();
        }
        if self.settings.is_free(tool) {
            return Verdict::Free;
        }
        if !self.settings.is_gated(tool) {
            return Verdict::Pass;
        }
        if std::mem::replace(&mut self.put_off, true) {
            return Verdict::Deny(ALONE.to_owned());
        }
        Verdict::Defer
    }
}

impl Decided<'_> {
    fn verdict(self) -> Verdict {
        match self.decision {
            Decision::Reject(reason) => {
                let base = if self.repeated { UNKNOWN } else { REJECTED };
                Verdict::Deny(match reason {
                    Some(reason) => format!("{base}: {reason}"),
                    None => base.to_owned(),
                })
            }
            Decision::Reply(answers) if self.call.tool == QUESTION => {
                let mut input = self.call.input.clone();
                if let Some(members) = input.as_object_mut() {
                    members.insert("answers".to_owned(), answers.clone());
                }
                Verdict::Allow(Some(input))
            }
            Decision::Approve | Decision::Edit(_) if self.call.tool == QUESTION => {
                Verdict::Deny("nobody answered the question".to_owned())
            }
            Decision::Reply(_) => Verdict::Deny("nobody decided about the call".to_owned()),
            Decision::Approve | Decision::Edit(_) | Decision::Retry => Verdict::Allow(self.input),
        }
    }
}

impl Verdict {
    /// What is kept before the program is told.
    pub(super) fn allowed(&self, id: &str, attempt: &str) -> Option<Allowed> {
        let Self::Allow(input) = self else { return None };
        Some(Allowed { id: id.to_owned(), attempt: attempt.to_owned(), input: input.clone() })
    }

    /// As the program hears it.
    pub(super) fn output(&self) -> Value {
        let decision = |word: &str| json!({ "hookEventName": "PreToolUse", "permissionDecision": word });
        let said = match self {
            Self::Pass => return json!({}),
            Self::Defer => decision("defer"),
            Self::Deny(reason) => {
                let mut said = decision("deny");
                said["permissionDecisionReason"] = json!(reason);
                said
            }
            Self::Free => decision("allow"),
            Self::Allow(input) => {
                let mut said = decision("allow");
                said["permissionDecisionReason"] = json!("a person allowed it");
                if let Some(input) = input {
                    said["updatedInput"] = input.clone();
                }
                said
            }
        };
        json!({ "hookSpecificOutput": said })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings() -> Settings {
        serde_json::from_value(json!({"binary": "claude", "ungated": ["Read", "mcp__files__*"]})).unwrap()
    }

    fn call(tool: &str) -> Deferred {
        Deferred {
            id: "a".into(),
            tool: tool.into(),
            input: json!({"questions": [1]}),
            attempt: String::new(),
        }
    }

    fn decided<'a>(call: &'a Deferred, decision: &'a Decision, repeated: bool) -> Decided<'a> {
        Decided { call, decision, repeated, input: None }
    }

    #[test]
    fn the_first_gated_call_waits_and_the_others_are_denied() {
        let settings = settings();
        let mut gate = Gate::new(&settings, None);
        assert_eq!(gate.judge("a", "Read"), Verdict::Pass);
        assert_eq!(gate.judge("b", "mcp__files__read"), Verdict::Free);
        assert_eq!(gate.judge("c", "Bash"), Verdict::Defer);
        assert_eq!(gate.judge("d", "Write"), Verdict::Deny(ALONE.to_owned()));
    }

    #[test]
    fn a_decision_is_for_its_call_alone_and_counts_once() {
        let (settings, bash) = (settings(), call("Bash"));
        let mut gate = Gate::new(&settings, Some(decided(&bash, &Decision::Approve, false)));
        assert_eq!(gate.judge("other", "Bash"), Verdict::Defer);
        assert_eq!(gate.judge("a", "Bash"), Verdict::Allow(None));
        assert_eq!(gate.judge("a", "Bash"), Verdict::Deny(ALONE.to_owned()));
    }

    #[test]
    fn a_rejected_call_that_may_have_been_made_says_so() {
        let (settings, bash, no) = (settings(), call("Bash"), Decision::Reject(Some("too risky".into())));
        let mut plain = Gate::new(&settings, Some(decided(&bash, &no, false)));
        assert_eq!(plain.judge("a", "Bash"), Verdict::Deny(format!("{REJECTED}: too risky")));
        let mut repeated = Gate::new(&settings, Some(decided(&bash, &no, true)));
        assert_eq!(repeated.judge("a", "Bash"), Verdict::Deny(format!("{UNKNOWN}: too risky")));
    }

    #[test]
    fn an_answered_question_goes_back_with_its_answers() {
        let (settings, asked) = (settings(), call(QUESTION));
        let reply = Decision::Reply(json!({"q": "a"}));
        let mut gate = Gate::new(&settings, Some(decided(&asked, &reply, false)));
        let verdict = gate.judge("a", QUESTION);
        let updated = &verdict.output()["hookSpecificOutput"]["updatedInput"];
        assert_eq!(*updated, json!({"questions": [1], "answers": {"q": "a"}}));
    }
}
