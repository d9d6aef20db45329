//! Determines the next step of a session from the stored reference and the transcript. A repeated attempt does not
//! repeat its effects.

use serde_json::Value;

use super::mapping::CallDecision;
use super::reference::{ClaudeReference, DeferredCall};
use super::settings::ClaudeSettings;
use super::transcript::Transcript;

/// The purpose of an attempt.
pub(super) enum AttemptPurpose<'a> {
    Start,
    /// The start of a further turn.
    NextTurn,
    Answer(&'a CallDecision),
    /// Only read the state.
    Probe,
}

#[derive(Clone, PartialEq)]
pub(super) enum NextStep {
    /// Start the session. There is no transcript.
    Begin,
    /// Start again with a new session id, because the model has written no output.
    Restart,
    /// Continue the session: no call is deferred, and the model has not finished.
    Continue,
    /// Decide the deferred call with this answer.
    Decide(DeferredCall),
    /// The call waits for a decision.
    AwaitDecision(DeferredCall),
    /// The call may have been made. The value is its input, if an approver edited it. An approver must decide about a
    /// retry.
    OutcomeUnknown(DeferredCall, Option<Value>),
    Done(String),
    /// The state does not match the attempt.
    Lost,
}

/// Returns the next step. `transcript` is None if no conversation file exists.
pub(super) fn next_step(
    reference: &ClaudeReference,
    transcript: Option<&Transcript>,
    attempt: &str,
    purpose: &AttemptPurpose<'_>,
    settings: &ClaudeSettings,
) -> NextStep {
    let pending = reference.deferred.as_ref();
    // The attempt that led to this deferred call is repeated.
    if let Some(deferred) = pending.filter(|deferred| deferred.attempt == attempt) {
        return NextStep::AwaitDecision(deferred.clone());
    }
    match (pending, transcript, purpose) {
        (None, None, AttemptPurpose::Start | AttemptPurpose::NextTurn | AttemptPurpose::Probe) => {
            NextStep::Begin
        }
        (
            None,
            Some(transcript),
            AttemptPurpose::Start | AttemptPurpose::NextTurn | AttemptPurpose::Probe,
        ) => step_from_transcript(transcript),
        (None, _, AttemptPurpose::Answer(_)) | (Some(_), None, _) => NextStep::Lost,
        (Some(pending), Some(transcript), _) if transcript.has_result(&pending.id) => {
            step_from_transcript(transcript)
        }
        (Some(pending), Some(transcript), _)
            if transcript.open_call().is_some_and(|open| open.id == pending.id) =>
        {
            let allowed = reference.allowed_call(&pending.id);
            let may_decide = match (allowed, purpose) {
                (None, _) | (Some(_), AttemptPurpose::Answer(CallDecision::Reject(_))) => true,
                (Some(allowed), AttemptPurpose::Answer(CallDecision::Retry) | AttemptPurpose::Probe) => {
                    allowed.attempt != attempt
                }
                (Some(_), AttemptPurpose::Answer(_) | AttemptPurpose::Start | AttemptPurpose::NextTurn) => {
                    false
                }
            };
            if may_decide || settings.is_idempotent(&pending.tool) {
                NextStep::Decide(pending.clone())
            } else {
                NextStep::OutcomeUnknown(pending.clone(), allowed.and_then(|allowed| allowed.input.clone()))
            }
        }
        (Some(_), Some(_), _) => NextStep::Lost,
    }
}

/// Returns the step of an attempt that starts a further turn. `transcript` is the part of the conversation since the
/// attempt began, or None if it has not begun.
pub(super) fn step_of_next_turn(
    reference: &ClaudeReference,
    transcript: Option<&Transcript>,
    attempt: &str,
) -> NextStep {
    let Some(transcript) = transcript else { return NextStep::Begin };
    match reference.deferred.as_ref().filter(|deferred| deferred.attempt == attempt) {
        Some(deferred) => NextStep::AwaitDecision(deferred.clone()),
        // The prompt can have been stored before the program ended.
        None if transcript.has_prompt || transcript.has_model_output => {
            match step_from_transcript(transcript) {
                NextStep::Restart => NextStep::Continue,
                step => step,
            }
        }
        None => NextStep::Begin,
    }
}

/// Returns the step of a session without a call to decide.
fn step_from_transcript(transcript: &Transcript) -> NextStep {
    match (transcript.open_call(), &transcript.final_text) {
        (Some(open), _) => NextStep::AwaitDecision(open.clone()),
        (None, Some(words)) => NextStep::Done(words.clone()),
        (None, None) if transcript.has_model_output => NextStep::Continue,
        (None, None) => NextStep::Restart,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::super::reference::AllowedCall;
    use super::*;

    fn settings() -> ClaudeSettings {
        serde_json::from_value(json!({"binary": "claude", "idempotent": ["mcp__pub__*"]})).unwrap()
    }

    fn reference(tool: &str, allowed_by: Option<&str>) -> ClaudeReference {
        let mut reference = ClaudeReference::new(String::new());
        let attempt = "run/0".to_owned();
        reference.deferred =
            Some(DeferredCall { id: "a".into(), tool: tool.into(), input: json!({}), attempt });
        reference.allowed =
            allowed_by.map(|by| AllowedCall { id: "a".into(), attempt: by.into(), input: None });
        reference
    }

    fn transcript(lines: &[Value]) -> Transcript {
        let lines: Vec<String> = lines.iter().map(Value::to_string).collect();
        Transcript::read(lines.join("\n").as_bytes())
    }

    fn deferred(id: &str) -> Value {
        json!({"type": "attachment", "attachment": {"type": "hook_deferred_tool", "toolUseID": id,
            "toolName": "Bash", "toolInput": {}}})
    }

    fn result(id: &str) -> Value {
        json!({"type": "user", "message": {"content": [{"type": "tool_result", "tool_use_id": id}]}})
    }

    fn name(step: &NextStep) -> &'static str {
        match step {
            NextStep::Begin => "begin",
            NextStep::Restart => "restart",
            NextStep::Continue => "continue",
            NextStep::Decide(_) => "decide",
            NextStep::AwaitDecision(_) => "await decision",
            NextStep::OutcomeUnknown(..) => "outcome unknown",
            NextStep::Done(_) => "done",
            NextStep::Lost => "lost",
        }
    }

    fn after(
        reference: &ClaudeReference,
        transcript: &Transcript,
        attempt: &str,
        decision: &CallDecision,
    ) -> &'static str {
        name(&next_step(reference, Some(transcript), attempt, &AttemptPurpose::Answer(decision), &settings()))
    }

    #[test]
    fn a_call_that_was_never_allowed_is_decided() {
        let open = transcript(&[deferred("a")]);
        assert_eq!(after(&reference("Bash", None), &open, "run/1", &CallDecision::Approve), "decide");
    }

    #[test]
    fn a_call_that_may_have_been_made_is_repeated_only_after_a_retry_decision() {
        let open = transcript(&[deferred("a")]);
        let allowed = reference("Bash", Some("run/1"));
        for (attempt, decision, step) in [
            ("run/1", CallDecision::Approve, "outcome unknown"),
            ("run/2", CallDecision::Approve, "outcome unknown"),
            ("run/2", CallDecision::Edit(json!({})), "outcome unknown"),
            ("run/2", CallDecision::Retry, "decide"),
            // The retry itself was aborted. A retry decision permits one attempt.
            ("run/1", CallDecision::Retry, "outcome unknown"),
            ("run/2", CallDecision::Reject(None), "decide"),
        ] {
            assert_eq!(after(&allowed, &open, attempt, &decision), step, "{attempt} {decision:?}");
        }
        let safe = reference("mcp__pub__publish", Some("run/1"));
        assert_eq!(after(&safe, &open, "run/1", &CallDecision::Approve), "decide");
    }

    #[test]
    fn an_answer_with_a_recorded_result_is_not_sent_again() {
        let answered = transcript(&[deferred("a"), result("a"), deferred("b")]);
        let allowed = reference("Bash", Some("run/1"));
        assert_eq!(after(&allowed, &answered, "run/1", &CallDecision::Approve), "await decision");
        let silent = transcript(&[
            json!({"type": "assistant", "message": {"stop_reason": "tool_use", "content": []}}),
            deferred("a"),
            result("a"),
        ]);
        assert_eq!(after(&allowed, &silent, "run/2", &CallDecision::Approve), "continue");
    }

    #[test]
    fn an_answer_does_not_decide_the_call_that_it_led_to() {
        let mut kept = reference("Bash", None);
        kept.deferred.as_mut().unwrap().attempt = "run/1".into();
        assert_eq!(
            after(&kept, &transcript(&[deferred("a")]), "run/1", &CallDecision::Approve),
            "await decision"
        );
    }

    #[test]
    fn an_answer_without_a_matching_conversation_is_lost() {
        let step = next_step(
            &reference("Bash", None),
            None,
            "run/1",
            &AttemptPurpose::Answer(&CallDecision::Approve),
            &settings(),
        );
        assert_eq!(name(&step), "lost");
        assert_eq!(
            after(&reference("Bash", None), &transcript(&[deferred("b")]), "run/1", &CallDecision::Approve),
            "lost"
        );
    }

    #[test]
    fn a_start_without_model_output_is_restarted_and_one_with_output_continues() {
        let fresh = ClaudeReference::new(String::new());
        let start = |transcript: Option<&Transcript>| {
            name(&next_step(&fresh, transcript, "run/0", &AttemptPurpose::Start, &settings()))
        };
        assert_eq!(start(None), "begin");
        assert_eq!(start(Some(&transcript(&[]))), "restart");
        assert_eq!(start(Some(&transcript(&[deferred("a")]))), "await decision");
        let spoke =
            transcript(&[json!({"type": "assistant", "message": {"stop_reason": null, "content": []}})]);
        assert_eq!(start(Some(&spoke)), "continue");
    }
}
