//! The schemas of an interrupt, compiled when its first answer is evaluated. Later answers and clones of the interrupt
//! reuse them.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use serde_json::Value;

use super::Interrupt;
use crate::refusal::Refusal;
use crate::schema::Schema;

/// A cache of the compiled schemas, shared by clones of an interrupt. It is derived from the rest of the interrupt, so
/// all instances are equal.
#[derive(Clone, Default)]
pub struct CompiledSchemas(Arc<OnceLock<Result<InterruptSchemas, String>>>);

#[derive(Debug, Default)]
pub(super) struct InterruptSchemas {
    resume: Option<Schema>,
    outcome: Option<Schema>,
    /// The schema of the arguments of the tool call.
    arguments: Option<Schema>,
    answers: BTreeMap<String, Schema>,
}

impl PartialEq for CompiledSchemas {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl std::fmt::Debug for CompiledSchemas {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("CompiledSchemas")
    }
}

impl CompiledSchemas {
    /// Returns the compiled schemas. Rejects the answer if a schema cannot be compiled, because the answer cannot be
    /// checked.
    pub(super) fn of<'a>(&'a self, interrupt: &Interrupt) -> Result<&'a InterruptSchemas, Refusal> {
        self.0.get_or_init(|| InterruptSchemas::compile(interrupt)).as_ref().map_err(|why| {
            Refusal::invalid("resumeValue", format!("cannot be checked: invalid schema: {why}"))
        })
    }
}

impl InterruptSchemas {
    fn compile(interrupt: &Interrupt) -> Result<Self, String> {
        let mut schemas = Self {
            resume: interrupt.resume_schema.as_deref().map(Schema::compile).transpose()?,
            outcome: interrupt.data.get("outcomeSchema").map(Schema::compile).transpose()?,
            // An interrupt of a tool call is never requested with an invalid schema of arguments.
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
        check_with_schema(self.resume.as_ref(), value, "resumeValue")
    }

    pub(super) fn check_outcome(&self, value: &Value) -> Result<(), Refusal> {
        check_with_schema(self.outcome.as_ref(), value, "resumeValue")
    }

    pub(super) fn check_arguments(&self, arguments: &Value) -> Result<(), Refusal> {
        check_with_schema(self.arguments.as_ref(), arguments, "resumeValue.editedArtifactData.arguments")
    }

    pub(super) fn check_answer(&self, id: &str, answer: &Value) -> Result<(), Refusal> {
        check_with_schema(self.answers.get(id), answer, &format!("resumeValue.answers.{id}"))
    }
}

fn check_with_schema(schema: Option<&Schema>, value: &Value, field: &str) -> Result<(), Refusal> {
    let Some(schema) = schema else { return Ok(()) };
    schema.check(value).map_err(|(path, message)| Refusal::invalid(format!("{field}{path}"), message))
}
