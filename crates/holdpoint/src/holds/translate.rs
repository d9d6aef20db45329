//! Translates between the documents of holds and interrupts. Pure functions.

use std::borrow::Cow;

use holdpoint_api::holds::{
    APPROVERS_MAX, CHOICES_MAX, CreateHold, Hold, HoldApproval, HoldQuestion, HoldQuestions, HoldTerms,
    TITLE_CHARS_MAX,
};
use holdpoint_core::{AUTH_REQUIRED, Interrupt, InterruptRequest, Kind, Resolution, Run, limits};
use holdpoint_engine::Holds;
use schemars::json_schema;
use serde_json::Value;

use crate::error::ApiError;
use crate::json::to_json;
use crate::links::Links;

/// Media types of a text: Markdown, plain lines, or a patch.
const TEXT_TYPES: [&str; 3] = ["text/markdown", "text/plain", "text/x-diff"];
/// The only question of a hold with choices or a schema.
const QUESTION: &str = "answer";

/// Returns the request of a hold. A title alone is an approval; choices or a schema make a clarification with one
/// question, whose answer must match the schema.
pub(super) fn parse_request(body: &CreateHold) -> Result<InterruptRequest, ApiError> {
    if body.title.trim().is_empty() || body.title.chars().count() > TITLE_CHARS_MAX {
        return Err(ApiError::invalid("title", format!("must be 1 to {TITLE_CHARS_MAX} characters")));
    }
    let schema = match (&body.choices, &body.schema) {
        (Some(_), Some(_)) => {
            return Err(ApiError::invalid("choices", "give this or schema, not both"));
        }
        (Some(choices), None) => Some(choices_schema(choices)?),
        (None, Some(schema)) => Some(schema.0.clone()),
        (None, None) => None,
    };
    let kind = if schema.is_some() { Kind::Clarification } else { Kind::Approval };
    let (title, terms) = (Cow::Borrowed(body.title.as_str()), terms(body, kind)?);
    let data_type = match &body.data {
        Some(data) => Some(Cow::Borrowed(media_type(&data.0, body.data_type.as_deref())?)),
        None if body.data_type.is_some() => return Err(ApiError::invalid("dataType", "requires data")),
        None => None,
    };
    let data = match &schema {
        None => to_json(&HoldApproval {
            title,
            artifact_id: "hold".into(),
            artifact_type: data_type.unwrap_or("hold".into()),
            actions: vec!["accept".into(), "reject".into()],
            terms,
        }),
        Some(schema) => {
            let options = body.choices.as_deref().map(Cow::Borrowed);
            let (id, schema) = (Cow::Borrowed(QUESTION), Cow::Borrowed(schema));
            let questions = [HoldQuestion { id, question: title, schema, options }];
            to_json(&HoldQuestions { questions, terms, artifact_type: data_type })
        }
    };
    Ok(InterruptRequest { timeout_ms: body.timeout_ms, ..InterruptRequest::new(kind, data) })
}

/// Returns the members that do not depend on the kind of the hold.
fn terms(body: &CreateHold, kind: Kind) -> Result<HoldTerms<'_>, ApiError> {
    if let Some(approvers) = &body.approvers {
        let is_name = |name: &String| !name.trim().is_empty() && !name.contains(char::is_control);
        if !(1..=APPROVERS_MAX).contains(&approvers.len()) || !approvers.iter().all(is_name) {
            let message = format!("must be 1 to {APPROVERS_MAX} names, none of them empty");
            return Err(ApiError::invalid("approvers", message));
        }
    }
    if let Some(required) = body.required_approvals {
        check_required(required, kind)?;
    }
    if body.profile.as_ref().is_some_and(|profile| profile != AUTH_REQUIRED) {
        return Err(ApiError::invalid("profile", format!("must be {AUTH_REQUIRED}")));
    }
    Ok(HoldTerms {
        approvers_list: body.approvers.as_deref().map(Cow::Borrowed),
        requester_may_not_approve: body.requester_may_not_approve.unwrap_or(true),
        required_approvals: body.required_approvals,
        profile: body.profile.as_deref().map(Cow::Borrowed),
        description: body.description.as_deref().map(Cow::Borrowed),
        artifact_data: body.data.as_ref().map(|data| Cow::Borrowed(&data.0)),
    })
}

/// Returns the media type of the data. Only a text can have another type than the default.
fn media_type<'a>(data: &Value, named: Option<&'a str>) -> Result<&'a str, ApiError> {
    match named {
        None if data.is_string() => Ok("text/markdown"),
        None => Ok("application/json"),
        Some(_) if !data.is_string() => Err(ApiError::invalid(
            "dataType",
            "requires data that is a string; leave dataType out for other JSON",
        )),
        Some(named) if TEXT_TYPES.contains(&named) => Ok(named),
        Some(_) => Err(ApiError::invalid("dataType", format!("must be one of {}", TEXT_TYPES.join(", ")))),
    }
}

fn check_required(required: u64, kind: Kind) -> Result<(), ApiError> {
    let max = limits::REQUIRED_APPROVALS_MAX;
    if !(1..=max).contains(&required) {
        return Err(ApiError::invalid("requiredApprovals", format!("must be 1 to {max}")));
    }
    if required > 1 && kind != Kind::Approval {
        let message = "requires an approval; a hold with choices or a schema accepts one answer";
        return Err(ApiError::invalid("requiredApprovals", message));
    }
    Ok(())
}

fn choices_schema(choices: &[String]) -> Result<Value, ApiError> {
    let mut known = choices.to_vec();
    known.sort();
    known.dedup();
    let fits = (1..=CHOICES_MAX).contains(&choices.len()) && known.len() == choices.len();
    if !fits || choices.iter().any(|choice| choice.trim().is_empty()) {
        let message = format!("must be 1 to {CHOICES_MAX} different texts, none of them empty");
        return Err(ApiError::invalid("choices", message));
    }
    Ok(json_schema!({"enum": choices}).to_value())
}

/// Returns true if the hold has no answer and its run has not finished.
pub(super) fn is_waiting(run: &Run, held: &Interrupt) -> bool {
    held.resolution.is_none() && !run.finished()
}

/// Describes a hold. Returns None if the run is not a hold.
pub(super) fn describe(links: &Links, run: &Run) -> Option<Hold> {
    let held = Holds::interrupt(run)?;
    let answered = match &held.resolution {
        Some(Resolution::Answered { value, by, at, .. }) => Some((value, by, *at)),
        Some(Resolution::TimedOut { .. }) | None => None,
    };
    Some(Hold {
        hold_id: run.id.clone(),
        title: held.title().to_owned(),
        status: Holds::status(run, held),
        created_at: held.requested_at.into(),
        expires_at: held.expires_at().map(Into::into),
        answered_at: answered.map(|(_, _, at)| at.into()),
        answer: answered.map(|(value, _, _)| answer(held, value)),
        answered_by: answered.map(|(_, by, _)| by.clone()),
        grant_id: held.is_granted().then(|| run.grant_id(held.id)),
        via: held.resolution.as_ref().and_then(Resolution::via),
        requester_may_not_approve: held.data.get("requesterMayNotApprove") == Some(&Value::Bool(true)),
        required_approvals: held.data.get("requiredApprovals").and_then(Value::as_u64),
        profile: held.data.get("profile").and_then(Value::as_str).map(str::to_owned),
        run_url: format!("/v1/runs/{}", run.id),
        page_url: links.page_url(&run.id, &held.node, None),
        warnings: None,
    })
}

/// Returns the answer to the only question of a clarification, or the whole answer to an approval.
fn answer(held: &Interrupt, value: &Value) -> Value {
    match held.kind {
        Kind::Clarification => value["answers"][QUESTION].clone(),
        Kind::Approval
        | Kind::ExternalEvent
        | Kind::Custom
        | Kind::ConversationStart
        | Kind::ConversationExchange
        | Kind::ConversationClose
        | Kind::LowConfidence => value.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn request(body: Value) -> Result<InterruptRequest, String> {
        let asked = parse_request(&serde_json::from_value(body).unwrap());
        asked.map_err(|error| error.body()["details"]["field"].as_str().unwrap_or_default().to_owned())
    }

    #[test]
    fn the_kind_of_a_hold_depends_on_its_members() {
        let plain = request(json!({"title": "Deploy?", "approvers": ["ann"], "timeoutMs": 5})).unwrap();
        assert_eq!((plain.kind, plain.timeout_ms), (Kind::Approval, Some(5)));
        assert_eq!(plain.data["approversList"], json!(["ann"]));
        let choice = request(json!({"title": "Where?", "choices": ["a", "b"], "data": {"x": 1}})).unwrap();
        let question = json!({"id": "answer", "question": "Where?", "options": ["a", "b"], "schema": {"enum": ["a", "b"]}});
        assert_eq!((choice.kind, &choice.data["questions"][0]), (Kind::Clarification, &question));
        assert_eq!(choice.data["artifactData"], json!({"x": 1}));
        let form = request(json!({"title": "How many?", "schema": {"type": "integer"}})).unwrap();
        assert_eq!(form.data["questions"][0]["schema"], json!({"type": "integer"}));
        let for_ann = request(json!({"title": "Where?", "choices": ["a"], "approvers": ["ann"]})).unwrap();
        assert_eq!(for_ann.data["approversList"], json!(["ann"]));
        let text = request(json!({"title": "Go?", "data": "a\nb", "dataType": "text/plain"})).unwrap();
        assert_eq!(text.data["artifactType"], "text/plain");
        for asked in [plain, choice, form, for_ann, text] {
            asked.check().unwrap();
        }
        for (body, field) in [
            (json!({"title": " "}), "title"),
            (json!({"title": "a", "choices": []}), "choices"),
            (json!({"title": "a", "choices": ["b", "b"]}), "choices"),
            (json!({"title": "a", "choices": ["b"], "schema": {}}), "choices"),
            (json!({"title": "a", "choices": ["b"], "approvers": []}), "approvers"),
            (json!({"title": "a", "approvers": []}), "approvers"),
            (json!({"title": "a", "approvers": ["ann", " "]}), "approvers"),
            (json!({"title": "a", "dataType": "text/plain"}), "dataType"),
            (json!({"title": "a", "data": {}, "dataType": "text/plain"}), "dataType"),
            (json!({"title": "a", "data": "b", "dataType": "text/html"}), "dataType"),
        ] {
            assert_eq!(request(body.clone()).unwrap_err(), field, "{body}");
        }
    }
}
