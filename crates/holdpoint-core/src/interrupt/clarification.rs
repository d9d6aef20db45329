//! Clarifications: questions with ids, and the check that every question has a valid answer.

use serde_json::{Map, Value};

use super::BadRequest;
use super::answer_members;
use super::compiled_schemas::InterruptSchemas;
use crate::refusal::Refusal;
use crate::schema::Schema;

pub(super) fn check_data(data: &Value) -> Result<(), BadRequest> {
    let Some(questions) = data.get("questions").and_then(Value::as_array).filter(|list| !list.is_empty())
    else {
        return Err(BadRequest::new("data.questions", "must be a non-empty array"));
    };
    let mut seen = Vec::new();
    for (index, question) in questions.iter().enumerate() {
        for field in ["id", "question"] {
            if question.get(field).and_then(Value::as_str).is_none_or(str::is_empty) {
                let field = format!("data.questions[{index}].{field}");
                return Err(BadRequest::new(&field, "must be a non-empty string"));
            }
        }
        if seen.contains(&&question["id"]) {
            let message = format!("{} is used by two questions", question["id"]);
            return Err(BadRequest::new(&format!("data.questions[{index}].id"), message));
        }
        seen.push(&question["id"]);
        if let Some(schema) = question.get("schema") {
            Schema::register(schema)
                .map_err(|why| BadRequest::new(&format!("data.questions[{index}].schema"), why))?;
        }
    }
    Ok(())
}

/// Accepts `{answers: [{id, answer}]}` and `{answers: {id: answer}}`; records the second form.
pub(super) fn evaluate(data: &Value, value: &Value, schemas: &InterruptSchemas) -> Result<Value, Refusal> {
    let answers = read_answers(value.get("answers"))?;
    let questions = data.get("questions").and_then(Value::as_array);
    let mut open: Vec<&str> = Vec::new();
    let mut known = Vec::new();
    for question in questions.into_iter().flatten() {
        let id = question.get("id").and_then(Value::as_str).unwrap_or_default();
        known.push(id);
        match answers.get(id) {
            Some(answer) => schemas.check_answer(id, answer)?,
            None => open.push(id),
        }
    }
    if !open.is_empty() {
        return Err(Refusal::invalid("resumeValue.answers", format!("no answer for {}", open.join(", "))));
    }
    if let Some(stray) = answers.keys().find(|id| !known.contains(&id.as_str())) {
        let message = format!("{stray:?} is not the id of a question; known ids: {}", known.join(", "));
        return Err(Refusal::invalid("resumeValue.answers", message));
    }
    let mut recorded = Map::from_iter([("answers".to_owned(), Value::Object(answers))]);
    answer_members::record_ignored(&mut recorded, answer_members::ignored_by_clarification(value));
    Ok(Value::Object(recorded))
}

fn read_answers(answers: Option<&Value>) -> Result<Map<String, Value>, Refusal> {
    match answers {
        Some(Value::Object(map)) => Ok(map.clone()),
        Some(Value::Array(list)) => {
            let mut map = Map::new();
            for (index, entry) in list.iter().enumerate() {
                let (Some(id), Some(answer)) = (entry.get("id").and_then(Value::as_str), entry.get("answer"))
                else {
                    let field = format!("resumeValue.answers[{index}]");
                    return Err(Refusal::invalid(field, "must have an id and an answer"));
                };
                if map.insert(id.to_owned(), answer.clone()).is_some() {
                    let field = format!("resumeValue.answers[{index}].id");
                    return Err(Refusal::invalid(field, format!("{id:?} is answered twice")));
                }
            }
            Ok(map)
        }
        _ => Err(Refusal::invalid(
            "resumeValue.answers",
            "must be an array of {id, answer} or an object by id",
        )),
    }
}
