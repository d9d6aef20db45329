//! What is to be done next, from what is kept here and what the agent has written down. Nothing is done twice because
//! somebody asks twice.

use serde_json::Value;

use super::reference::{Deferred, Reference};
use super::settings::Settings;
use super::transcript::Told;
use super::words::Decision;

/// Why somebody looks.
pub(super) enum Wanted<'a> {
    Start,
    Answer(&'a Decision),
    /// To see how far it came.
    Look,
}

#[derive(Clone, PartialEq)]
pub(super) enum Step {
    /// Nothing of the conversation exists.
    Begin,
    /// The conversation came to nothing and is begun under another name.
    BeginAnew,
    /// Nothing waits, and the model has not finished.
    GoOn,
    /// The call waits for this answer.
    Decide(Deferred),
    /// The call waits for people.
    Paused(Deferred),
    /// The call may have been made, with this input where it was changed; people must say what to do.
    Unknown(Deferred, Option<Value>),
    Done(String),
    /// There is nothing to go on with.
    Lost,
}

/// `told` is nothing where nothing is written.
pub(super) fn next(
    reference: &Reference,
    told: Option<&Told>,
    attempt: &str,
    wanted: &Wanted<'_>,
    settings: &Settings,
) -> Step {
    let asked = reference.deferred.as_ref();
    // What this very start or answer came to before somebody could write it down.
    if let Some(deferred) = asked.filter(|deferred| deferred.attempt == attempt) {
        return Step::Paused(deferred.clone());
    }
    match (asked, told, wanted) {
        (None, None, Wanted::Start | Wanted::Look) => Step::Begin,
        (None, Some(told), Wanted::Start | Wanted::Look) => begun(told),
        (None, _, Wanted::Answer(_)) | (Some(_), None, _) => Step::Lost,
        (Some(asked), Some(told), _) if told.answered(&asked.id) => begun(told),
        (Some(asked), Some(told), _) if told.open().is_some_and(|open| open.id == asked.id) => {
            let allowed = reference.allowed(&asked.id);
            let again = match (allowed, wanted) {
                (None, _) | (Some(_), Wanted::Answer(Decision::Reject(_))) => true,
                (Some(allowed), Wanted::Answer(Decision::Retry) | Wanted::Look) => allowed.attempt != attempt,
                (Some(_), Wanted::Answer(_) | Wanted::Start) => false,
            };
            if again || settings.is_idempotent(&asked.tool) {
                Step::Decide(asked.clone())
            } else {
                Step::Unknown(asked.clone(), allowed.and_then(|allowed| allowed.input.clone()))
            }
        }
        (Some(_), Some(_), _) => Step::Lost,
    }
}

/// Where a conversation stands in which nothing is left to decide.
fn begun(told: &Told) -> Step {
    match (told.open(), &told.finished) {
        (Some(open), _) => Step::Paused(open.clone()),
        (None, Some(words)) => Step::Done(words.clone()),
        (None, None) if told.spoke => Step::GoOn,
        (None, None) => Step::BeginAnew,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::super::reference::Allowed;
    use super::*;

    fn settings() -> Settings {
        serde_json::from_value(json!({"binary": "claude", "idempotent": ["mcp__pub__*"]})).unwrap()
    }

    fn reference(tool: &str, allowed_by: Option<&str>) -> Reference {
        let mut reference = Reference::fresh(String::new());
        let attempt = "run/0".to_owned();
        reference.deferred = Some(Deferred { id: "a".into(), tool: tool.into(), input: json!({}), attempt });
        reference.allowed = allowed_by.map(|by| Allowed { id: "a".into(), attempt: by.into(), input: None });
        reference
    }

    fn told(lines: &[Value]) -> Told {
        let lines: Vec<String> = lines.iter().map(Value::to_string).collect();
        Told::read(lines.join("\n").as_bytes())
    }

    fn deferred(id: &str) -> Value {
        json!({"type": "attachment", "attachment": {"type": "hook_deferred_tool", "toolUseID": id,
            "toolName": "Bash", "toolInput": {}}})
    }

    fn result(id: &str) -> Value {
        json!({"type": "user", "message": {"content": [{"type": "tool_result", "tool_use_id": id}]}})
    }

    fn name(step: &Step) -> &'static str {
        match step {
            Step::Begin => "begin",
            Step::BeginAnew => "begin anew",
            Step::GoOn => "go on",
            Step::Decide(_) => "decide",
            Step::Paused(_) => "paused",
            Step::Unknown(..) => "unknown",
            Step::Done(_) => "done",
            Step::Lost => "lost",
        }
    }

    fn after(reference: &Reference, told: &Told, attempt: &str, decision: &Decision) -> &'static str {
        name(&next(reference, Some(told), attempt, &Wanted::Answer(decision), &settings()))
    }

    #[test]
    fn a_call_that_was_not_allowed_yet_is_decided() {
        let open = told(&[deferred("a")]);
        assert_eq!(after(&reference("Bash", None), &open, "run/1", &Decision::Approve), "decide");
    }

    #[test]
    fn a_call_that_may_have_been_made_is_not_made_again_unless_somebody_says_so() {
        let open = told(&[deferred("a")]);
        let allowed = reference("Bash", Some("run/1"));
        for (attempt, decision, step) in [
            ("run/1", Decision::Approve, "unknown"),
            ("run/2", Decision::Approve, "unknown"),
            ("run/2", Decision::Edit(json!({})), "unknown"),
            ("run/2", Decision::Retry, "decide"),
            // The retry itself was cut short: its yes is used up.
            ("run/1", Decision::Retry, "unknown"),
            ("run/2", Decision::Reject(None), "decide"),
        ] {
            assert_eq!(after(&allowed, &open, attempt, &decision), step, "{attempt} {decision:?}");
        }
        let safe = reference("mcp__pub__publish", Some("run/1"));
        assert_eq!(after(&safe, &open, "run/1", &Decision::Approve), "decide");
    }

    #[test]
    fn an_answer_that_got_through_is_not_sent_again() {
        let answered = told(&[deferred("a"), result("a"), deferred("b")]);
        let allowed = reference("Bash", Some("run/1"));
        assert_eq!(after(&allowed, &answered, "run/1", &Decision::Approve), "paused");
        let silent = told(&[
            json!({"type": "assistant", "message": {"stop_reason": "tool_use", "content": []}}),
            deferred("a"),
            result("a"),
        ]);
        assert_eq!(after(&allowed, &silent, "run/2", &Decision::Approve), "go on");
    }

    #[test]
    fn an_answer_is_not_used_for_the_call_that_it_led_to() {
        let mut kept = reference("Bash", None);
        kept.deferred.as_mut().unwrap().attempt = "run/1".into();
        assert_eq!(after(&kept, &told(&[deferred("a")]), "run/1", &Decision::Approve), "paused");
    }

    #[test]
    fn without_a_conversation_there_is_nothing_to_answer() {
        let step =
            next(&reference("Bash", None), None, "run/1", &Wanted::Answer(&Decision::Approve), &settings());
        assert_eq!(name(&step), "lost");
        assert_eq!(
            after(&reference("Bash", None), &told(&[deferred("b")]), "run/1", &Decision::Approve),
            "lost"
        );
    }

    #[test]
    fn a_start_that_came_to_nothing_is_begun_anew_and_one_that_came_far_goes_on() {
        let fresh = Reference::fresh(String::new());
        let start = |told: Option<&Told>| name(&next(&fresh, told, "run/0", &Wanted::Start, &settings()));
        assert_eq!(start(None), "begin");
        assert_eq!(start(Some(&told(&[]))), "begin anew");
        assert_eq!(start(Some(&told(&[deferred("a")]))), "paused");
        let spoke = told(&[json!({"type": "assistant", "message": {"stop_reason": null, "content": []}})]);
        assert_eq!(start(Some(&spoke)), "go on");
    }
}
