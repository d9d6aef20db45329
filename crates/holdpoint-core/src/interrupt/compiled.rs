//! The schemas of an interrupt, compiled when its first answer is judged. Later answers, and later folds of the same
//! interrupt, use them again.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use serde_json::Value;

use super::Interrupt;
use crate::refusal::Refusal;
use crate::schema::Schema;

/// Copies share what was compiled. It follows from the rest of the interrupt, so that all are equal.
#[derive(Clone, Default)]
pub struct Compiled(Arc<OnceLock<Result<Schemas, String>>>);

#[derive(Debug, Default)]
pub(super) struct Schemas {
    resume: Option<Schema>,
    outcome: Option<Schema>,
    /// Of the arguments of the call that the interrupt is about.
    arguments: Option<Schema>,
    answers: BTreeMap<String, Schema>,
}

impl PartialEq for Compiled {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl std::fmt::Debug for Compiled {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Compiled")
    }
}

impl Compiled {
    /// Refused when a schema cannot be compiled: then nobody could say what it lets pass.
    pub(super) fn of<'a>(&'a self, interrupt: &Interrupt) -> Result<&'a Schemas, Refusal> {
        self.0
            .get_or_init(|| Schemas::compile(interrupt))
            .as_ref()
            .map_err(|why| Refusal::invalid("resumeValue", format!("cannot be checked: {why}")))
    }
}

impl Schemas {
    fn compile(interrupt: &Interrupt) -> Result<Self, String> {
        let mut schemas = Self {
            resume: interrupt.resume_schema.as_ref().map(Schema::compile).transpose()?,
            outcome: interrupt.data.get("outcomeSchema").map(Schema::compile).transpose()?,
            // One that cannot be used is never asked with.
            arguments: interrupt.arguments_schema().and_then(|schema| Schema::compile(schema).ok()),
            answers: BTreeMap::new(),
        };
        let questions = interrupt.data.get("questions").and_then(Value::as_array);
        for question in questions.into_iter().flatten() {
            if let (Some(id), Some(schema)) =
                (question.get("id").and_then(Value::as_str), question.get("schema"))
            {
                schemas.answers.insert(id.to_owned(), Schema::compile(schema)?);
            }
        }
        Ok(schemas)
    }

    pub(super) fn check_resume_value(&self, value: &Value) -> Result<(), Refusal> {
        checked(self.resume.as_ref(), value, "resumeValue")
    }

    pub(super) fn check_outcome(&self, value: &Value) -> Result<(), Refusal> {
        checked(self.outcome.as_ref(), value, "resumeValue")
    }

    pub(super) fn check_arguments(&self, arguments: &Value) -> Result<(), Refusal> {
        checked(self.arguments.as_ref(), arguments, "resumeValue.editedArtifactData.arguments")
    }

    pub(super) fn check_answer(&self, id: &str, answer: &Value) -> Result<(), Refusal> {
        checked(self.answers.get(id), answer, &format!("resumeValue.answers.{id}"))
    }
}

fn checked(schema: Option<&Schema>, value: &Value, field: &str) -> Result<(), Refusal> {
    let Some(schema) = schema else { return Ok(()) };
    schema.check(value).map_err(|(path, message)| Refusal::invalid(format!("{field}{path}"), message))
}
