//! The hook that decides about each tool call of a program: allow, deny, or defer until an approver decides. The hook
//! defers at most one call per program, because the program keeps only the last deferred call.

use serde_json::{Value, json};

use super::mapping::CallDecision;
use super::reference::{AllowedCall, DeferredCall};
use super::settings::{ClaudeSettings, QUESTION};

const ALONE: &str = "one gated action at a time: request this one again alone";
const REJECTED: &str = "a person rejected this call";
const UNKNOWN: &str = "this call was approved, but the program was stopped while it was being made: whether it was \
    made is unknown, and a person decided not to repeat it";

pub(super) struct PermissionHook<'a> {
    settings: &'a ClaudeSettings,
    /// The decision about the deferred call. It is used once.
    decided: Option<PendingDecision<'a>>,
    has_deferred: bool,
}

pub(super) struct PendingDecision<'a> {
    pub(super) call: &'a DeferredCall,
    pub(super) decision: &'a CallDecision,
    /// The call may have been made before, so its outcome is unknown.
    pub(super) repeated: bool,
    /// The edited input, with the original paths in place of placeholders.
    pub(super) input: Option<Value>,
}

#[derive(Debug, PartialEq)]
pub(super) enum HookVerdict {
    /// The permission rules of the program decide.
    Pass,
    /// The operator's settings allow the call.
    AllowUngated,
    /// An approver allowed the call. This must be stored before the program is told.
    Allow(Option<Value>),
    Deny(String),
    Defer,
}

impl<'a> PermissionHook<'a> {
    pub(super) fn new(settings: &'a ClaudeSettings, decided: Option<PendingDecision<'a>>) -> Self {
        Self { settings, decided, has_deferred: false }
    }

    pub(super) fn decide(&mut self, id: &str, tool: &str) -> HookVerdict {
        if let Some(decided) = self.decided.take_if(|decided| decided.call.id == id) {
            return decided.verdict();
        }
        if self.settings.is_ungated_mcp_tool(tool) {
            return HookVerdict::AllowUngated;
        }
        if !self.settings.is_gated(tool) {
            return HookVerdict::Pass;
        }
        if std::mem::replace(&mut self.has_deferred, true) {
            return HookVerdict::Deny(ALONE.to_owned());
        }
        HookVerdict::Defer
    }
}

impl PendingDecision<'_> {
    fn verdict(self) -> HookVerdict {
        match self.decision {
            CallDecision::Reject(reason) => {
                let base = if self.repeated { UNKNOWN } else { REJECTED };
                HookVerdict::Deny(match reason {
                    Some(reason) => format!("{base}: {reason}"),
                    None => base.to_owned(),
                })
            }
            CallDecision::Reply(answers) if self.call.tool == QUESTION => {
                let mut input = self.call.input.clone();
                if let Some(members) = input.as_object_mut() {
                    members.insert("answers".to_owned(), answers.clone());
                }
                HookVerdict::Allow(Some(input))
            }
            CallDecision::Approve | CallDecision::Edit(_) if self.call.tool == QUESTION => {
                HookVerdict::Deny("the question was not answered".to_owned())
            }
            CallDecision::Reply(_) => HookVerdict::Deny("the call was not decided".to_owned()),
            CallDecision::Approve | CallDecision::Edit(_) | CallDecision::Retry => {
                HookVerdict::Allow(self.input)
            }
        }
    }
}

impl HookVerdict {
    /// Returns the record that is stored before the program is told.
    pub(super) fn allowed_call(&self, id: &str, attempt: &str) -> Option<AllowedCall> {
        let Self::Allow(input) = self else { return None };
        Some(AllowedCall { id: id.to_owned(), attempt: attempt.to_owned(), input: input.clone() })
    }

    /// Returns the output of the hook for the program.
    pub(super) fn output(&self) -> Value {
        let decision = |word: &str| json!({ "hookEventName": "PreToolUse", "permissionDecision": word });
        let hook_output = match self {
            Self::Pass => return json!({}),
            Self::Defer => decision("defer"),
            Self::Deny(reason) => {
                let mut hook_output = decision("deny");
                hook_output["permissionDecisionReason"] = json!(reason);
                hook_output
            }
            Self::AllowUngated => decision("allow"),
            Self::Allow(input) => {
                let mut hook_output = decision("allow");
                hook_output["permissionDecisionReason"] = json!("a person allowed it");
                if let Some(input) = input {
                    hook_output["updatedInput"] = input.clone();
                }
                hook_output
            }
        };
        json!({ "hookSpecificOutput": hook_output })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings() -> ClaudeSettings {
        serde_json::from_value(json!({"binary": "claude", "ungated": ["Read", "mcp__files__*"]})).unwrap()
    }

    fn call(tool: &str) -> DeferredCall {
        DeferredCall {
            id: "a".into(),
            tool: tool.into(),
            input: json!({"questions": [1]}),
            attempt: String::new(),
        }
    }

    fn decided<'a>(
        call: &'a DeferredCall,
        decision: &'a CallDecision,
        repeated: bool,
    ) -> PendingDecision<'a> {
        PendingDecision { call, decision, repeated, input: None }
    }

    #[test]
    fn the_first_gated_call_is_deferred_and_later_ones_are_denied() {
        let settings = settings();
        let mut hook = PermissionHook::new(&settings, None);
        assert_eq!(hook.decide("a", "Read"), HookVerdict::Pass);
        assert_eq!(hook.decide("b", "mcp__files__read"), HookVerdict::AllowUngated);
        assert_eq!(hook.decide("c", "Bash"), HookVerdict::Defer);
        assert_eq!(hook.decide("d", "Write"), HookVerdict::Deny(ALONE.to_owned()));
    }

    #[test]
    fn a_decision_applies_to_its_call_once() {
        let (settings, bash) = (settings(), call("Bash"));
        let mut hook = PermissionHook::new(&settings, Some(decided(&bash, &CallDecision::Approve, false)));
        assert_eq!(hook.decide("other", "Bash"), HookVerdict::Defer);
        assert_eq!(hook.decide("a", "Bash"), HookVerdict::Allow(None));
        assert_eq!(hook.decide("a", "Bash"), HookVerdict::Deny(ALONE.to_owned()));
    }

    #[test]
    fn the_rejection_of_a_call_with_unknown_outcome_states_that_the_outcome_is_unknown() {
        let (settings, bash, no) = (settings(), call("Bash"), CallDecision::Reject(Some("too risky".into())));
        let mut plain = PermissionHook::new(&settings, Some(decided(&bash, &no, false)));
        assert_eq!(plain.decide("a", "Bash"), HookVerdict::Deny(format!("{REJECTED}: too risky")));
        let mut repeated = PermissionHook::new(&settings, Some(decided(&bash, &no, true)));
        assert_eq!(repeated.decide("a", "Bash"), HookVerdict::Deny(format!("{UNKNOWN}: too risky")));
    }

    #[test]
    fn an_answered_question_is_allowed_with_its_answers_as_input() {
        let (settings, question) = (settings(), call(QUESTION));
        let reply = CallDecision::Reply(json!({"q": "a"}));
        let mut hook = PermissionHook::new(&settings, Some(decided(&question, &reply, false)));
        let verdict = hook.decide("a", QUESTION);
        let updated = &verdict.output()["hookSpecificOutput"]["updatedInput"];
        assert_eq!(*updated, json!({"questions": [1], "answers": {"q": "a"}}));
    }
}
