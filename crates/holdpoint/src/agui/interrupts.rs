//! Describes open interrupts for front ends. Pure.

use holdpoint_api::agui::{self, InterruptFacts, InterruptMetadata};
use holdpoint_core::agent::{ARGUMENTS_SCHEMA, CLIENT_TOOL, CONFIRM, OUTCOME_UNKNOWN, ToolCallResumeMode};
use holdpoint_core::{Interrupt, Kind, Run};
use schemars::json_schema;
use serde_json::{Map, Value};

use super::{custom_interrupts, ids};

/// The reason of an interrupt that is bound to a tool call.
pub(super) const TOOL_CALL: &str = "tool_call";
const OUTCOME_UNKNOWN_REASON: &str = "holdpoint:outcome_unknown";

/// The right of an approver to change what an interrupt shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Edits {
    Allowed,
    Forbidden,
}

/// The form of an interrupt for a front end.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum InterruptForm<'a> {
    /// A tool call that requires a permission. `edits` is about its arguments.
    Permission {
        edits: Edits,
    },
    /// A tool call that a provider makes. `edits` is about its arguments.
    ProviderCall {
        edits: Edits,
    },
    /// A tool call whose outcome is unknown.
    OutcomeUnknown,
    /// A call of a client tool. The client executes it; it needs no decision.
    ClientTool,
    /// A tool call that was suspended by its tool.
    Ticket {
        action: &'a str,
        mode: ToolCallResumeMode,
        schema: Option<&'a Value>,
    },
    /// A gate of a workflow, with the answers that it allows.
    Approval {
        edits: Edits,
        rejects: bool,
    },
    Clarification,
    ExternalEvent,
    Conversation,
    LowConfidence,
    Custom,
}

impl<'a> InterruptForm<'a> {
    pub(super) fn of(asked: &'a Interrupt) -> Self {
        let offers = |wanted: &[&str]| {
            let offered = asked.data.get("actions").and_then(Value::as_array).into_iter().flatten();
            offered.filter_map(Value::as_str).any(|action| wanted.contains(&action))
        };
        let edits = if offers(&["edit", "edit-accept"]) { Edits::Allowed } else { Edits::Forbidden };
        let action = text(asked, "/suspension/action");
        match asked.kind {
            Kind::Approval => match action {
                Some(CONFIRM) => Self::Permission { edits },
                Some(OUTCOME_UNKNOWN) => Self::OutcomeUnknown,
                None if asked.provider_call().is_some() => Self::ProviderCall { edits },
                Some(_) | None => Self::Approval { edits, rejects: offers(&["reject"]) },
            },
            Kind::Custom => match action {
                Some(CLIENT_TOOL) => Self::ClientTool,
                Some(action) => {
                    let mode = asked.data.get("resumeMode").cloned().unwrap_or_default();
                    let mode = serde_json::from_value(mode).unwrap_or_default();
                    let schema = asked.data.pointer("/suspension/response_schema");
                    Self::Ticket { action, mode, schema }
                }
                None => Self::Custom,
            },
            Kind::Clarification => Self::Clarification,
            Kind::ExternalEvent => Self::ExternalEvent,
            Kind::ConversationStart | Kind::ConversationExchange | Kind::ConversationClose => {
                Self::Conversation
            }
            Kind::LowConfidence => Self::LowConfidence,
        }
    }
}

/// Returns whether an interrupt is answered by a person, and not by the code of the client.
pub(super) fn is_for_people(asked: &Interrupt) -> bool {
    InterruptForm::of(asked) != InterruptForm::ClientTool
}

/// Returns the open interrupts for people, oldest first.
pub(super) fn open_for_people(run: &Run) -> impl Iterator<Item = &Interrupt> {
    run.open_interrupts().filter(|asked| !run.finished() && is_for_people(asked))
}

/// Returns the calls of client tools that wait for a result, with their ids on the wire.
pub(super) fn client_tool_calls(run: &Run) -> impl Iterator<Item = (String, &Interrupt)> {
    let open = run.open_interrupts().filter(|asked| !run.finished() && !is_for_people(asked));
    open.filter_map(|asked| Some((call(run, asked)?, asked)))
}

pub(super) fn describe(run: &Run, asked: &Interrupt) -> agui::Interrupt {
    let form = InterruptForm::of(asked);
    let reason = reason(&form, asked);
    let tool_call_id = match form {
        InterruptForm::Permission { .. }
        | InterruptForm::ProviderCall { .. }
        | InterruptForm::OutcomeUnknown => call(run, asked),
        InterruptForm::Ticket { .. } if reason == TOOL_CALL => call(run, asked),
        InterruptForm::Ticket { .. }
        | InterruptForm::ClientTool
        | InterruptForm::Approval { .. }
        | InterruptForm::Clarification
        | InterruptForm::ExternalEvent
        | InterruptForm::Conversation
        | InterruptForm::LowConfidence
        | InterruptForm::Custom => None,
    };
    agui::Interrupt {
        id: ids::interrupt_id(&run.id, asked.id),
        response_schema: response_schema(asked),
        reason,
        message: message(asked),
        tool_call_id,
        expires_at: asked.expires_at().map(Into::into),
        metadata: Some(metadata(run, asked)),
        subagent_run_id: None,
    }
}

/// Returns the schema of the payload that a front end should send.
pub(super) fn response_schema(asked: &Interrupt) -> Option<Value> {
    let form = InterruptForm::of(asked);
    schema(&form, &reason(&form, asked), asked).filter(Value::is_object)
}

/// Returns the reason: a word of the protocol, or a word of Holdpoint with a prefix.
fn reason(form: &InterruptForm<'_>, asked: &Interrupt) -> String {
    let reason = match form {
        InterruptForm::OutcomeUnknown => OUTCOME_UNKNOWN_REASON,
        InterruptForm::ProviderCall { .. } if text(asked, "/customKind") == Some("outcome_unknown") => {
            OUTCOME_UNKNOWN_REASON
        }
        InterruptForm::Permission { .. } | InterruptForm::ProviderCall { .. } | InterruptForm::ClientTool => {
            TOOL_CALL
        }
        InterruptForm::Ticket { action, .. } => named(action).unwrap_or(TOOL_CALL),
        InterruptForm::Approval { .. } => "confirmation",
        InterruptForm::Clarification => "input_required",
        InterruptForm::ExternalEvent => "holdpoint:external_event",
        InterruptForm::Conversation => "holdpoint:conversation",
        InterruptForm::LowConfidence => "holdpoint:low_confidence",
        InterruptForm::Custom => {
            let own = text(asked, "/reason").or_else(|| text(asked, "/customKind").and_then(named));
            own.unwrap_or("holdpoint:custom")
        }
    };
    reason.to_owned()
}

/// Returns the word if it is a reason for front ends: a word of the protocol, or one with a prefix.
fn named(word: &str) -> Option<&str> {
    (["input_required", "confirmation"].contains(&word) || word.contains(':')).then_some(word)
}

fn schema(form: &InterruptForm<'_>, reason: &str, asked: &Interrupt) -> Option<Value> {
    let own = || asked.resume_schema.as_deref().cloned();
    match form {
        InterruptForm::Permission { edits } | InterruptForm::ProviderCall { edits } => {
            let edited = || ("editedArgs", edited_args(asked));
            Some(decision((*edits == Edits::Allowed).then(edited), "reason"))
        }
        InterruptForm::OutcomeUnknown => {
            let result =
                json_schema!({"description": "Result of the call. If given, the call is not repeated."});
            Some(decision(Some(("result", result.to_value())), "reason"))
        }
        InterruptForm::Ticket { schema: Some(schema), .. } => Some((*schema).clone()),
        InterruptForm::Ticket { .. } if reason == "confirmation" => {
            Some(json_schema!({"type": "boolean"}).to_value())
        }
        InterruptForm::Ticket { .. } if reason == TOOL_CALL => Some(decision(None, "reason")),
        InterruptForm::Ticket { .. } | InterruptForm::ClientTool => None,
        InterruptForm::Approval { edits, .. } => {
            let edited = json_schema!({"description": "Replaces the artifact that was shown."});
            let edited = ("editedArtifactData", edited.to_value());
            let whole = decision((*edits == Edits::Allowed).then_some(edited), "feedback");
            Some(json_schema!({"anyOf": [{"type": "boolean"}, whole]}).to_value())
        }
        InterruptForm::Clarification => own().or_else(|| questions(&asked.data)),
        InterruptForm::Conversation => own().or_else(|| asked.data.get("outcomeSchema").cloned()),
        InterruptForm::Custom => Some(custom_interrupts::with_titles(asked, own()?)),
        InterruptForm::ExternalEvent | InterruptForm::LowConfidence => own(),
    }
}

/// Returns the argument schema of the tool as a part of the response schema. Interrupts of earlier versions have none.
fn edited_args(asked: &Interrupt) -> Value {
    let mut schema = match asked.data.get(ARGUMENTS_SCHEMA) {
        Some(schema) => nested("/properties/editedArgs", schema),
        None => json_schema!({"type": "object"}).to_value(),
    };
    if let Some(members) = schema.as_object_mut() {
        let description = "Replaces all arguments; the values are not merged.";
        members.entry("description").or_insert_with(|| description.into());
    }
    schema
}

/// Returns a schema for use at a place in another one: references to its root are changed to that place.
fn nested(place: &str, schema: &Value) -> Value {
    match schema {
        Value::Object(members) => {
            let member = |(name, value): (&String, &Value)| {
                let value = match (name.as_str(), value) {
                    ("$ref", Value::String(to)) if to == "#" || to.starts_with("#/") => {
                        format!("#{place}{}", &to[1..]).into()
                    }
                    // The member names in these objects are not keywords.
                    (
                        "properties" | "patternProperties" | "$defs" | "definitions" | "dependentSchemas",
                        parts,
                    ) => {
                        let parts = parts.as_object().into_iter().flatten();
                        let parts = parts.map(|(name, part)| (name.clone(), nested(place, part)));
                        Value::Object(parts.collect())
                    }
                    // Plain values, not schemas.
                    ("const" | "enum" | "default" | "examples", value) => value.clone(),
                    (_, value) => nested(place, value),
                };
                (name.clone(), value)
            };
            Value::Object(members.iter().map(member).collect())
        }
        Value::Array(parts) => parts.iter().map(|part| nested(place, part)).collect(),
        other => other.clone(),
    }
}

fn decision(more: Option<(&str, Value)>, why: &str) -> Value {
    let mut properties = Map::new();
    properties.insert("approved".to_owned(), json_schema!({"type": "boolean"}).to_value());
    properties.extend(more.map(|(name, schema)| (name.to_owned(), schema)));
    properties.insert(why.to_owned(), json_schema!({"type": "string"}).to_value());
    json_schema!({"type": "object", "properties": properties, "required": ["approved"]}).to_value()
}

/// Returns the schema of an object with an answer to each question.
fn questions(data: &Value) -> Option<Value> {
    let (mut properties, mut required) = (Map::new(), Vec::new());
    for question in data.get("questions")?.as_array()? {
        let id = question.get("id")?.as_str()?;
        let mut schema =
            question.get("schema").cloned().filter(Value::is_object).unwrap_or_else(|| Map::new().into());
        if schema.get("title").is_none()
            && let Some(text) = question.get("question")
        {
            schema["title"] = text.clone();
        }
        properties.insert(id.to_owned(), schema);
        required.push(id);
    }
    Some(json_schema!({"type": "object", "properties": properties, "required": required}).to_value())
}

fn message(asked: &Interrupt) -> Option<String> {
    let places = ["/suspension/message", "/message", "/description", "/prompt"];
    let found = places.iter().find_map(|place| text(asked, place).filter(|found| !found.is_empty()));
    let shown =
        || custom_interrupts::text(asked).filter(|_| InterruptForm::of(asked) == InterruptForm::Custom);
    let found = found.map(str::to_owned).or_else(shown).unwrap_or_else(|| asked.title().to_owned());
    (!found.is_empty()).then_some(found)
}

/// Returns additional data for front ends that know Holdpoint, with the digest that an answer may contain.
fn metadata(run: &Run, asked: &Interrupt) -> InterruptMetadata {
    let member = |place: &str| asked.data.pointer(place).cloned();
    let votes = (asked.required_approvals() > 1).then_some(asked.votes.len());
    let holdpoint = InterruptFacts {
        kind: asked.kind,
        run_id: run.id.clone(),
        node_id: asked.node.clone(),
        digest: asked.digest.clone(),
        title: member("/title"),
        tool_call: member("/toolCall").or_else(|| provider_call(run, asked)),
        artifact: member("/artifactData"),
        data: custom_interrupts::data(asked).filter(|_| InterruptForm::of(asked) == InterruptForm::Custom),
        required_approvals: votes.map(|_| asked.required_approvals()),
        votes,
    };
    InterruptMetadata { holdpoint }
}

fn call(run: &Run, asked: &Interrupt) -> Option<String> {
    asked.call_id().or(asked.provider_call()).map(|call| ids::wire_id(run, &asked.node, call))
}

/// Returns the call of a provider in the form of the calls of agents.
fn provider_call(run: &Run, asked: &Interrupt) -> Option<Value> {
    asked.provider_call()?;
    let member = |place: &str| asked.data.pointer(place).cloned().unwrap_or_default();
    let members = [
        ("id", call(run, asked)?.into()),
        ("name", member("/artifactData/tool")),
        ("arguments", member("/artifactData/input")),
    ];
    Some(members.into_iter().map(|(name, value)| (name.to_owned(), value)).collect::<Map<_, _>>().into())
}

fn text<'a>(asked: &'a Interrupt, place: &str) -> Option<&'a str> {
    asked.data.pointer(place).and_then(Value::as_str)
}

#[cfg(test)]
mod tests;
