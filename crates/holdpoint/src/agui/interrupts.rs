//! What a run waits for, as a front end sees it. Pure.

use holdpoint_api::agui::{self, InterruptFacts, InterruptMetadata};
use holdpoint_core::agent::{ARGUMENTS_SCHEMA, CLIENT_TOOL, CONFIRM, OUTCOME_UNKNOWN, ToolCallResumeMode};
use holdpoint_core::{Interrupt, Kind, Run};
use schemars::json_schema;
use serde_json::{Map, Value};

use super::{custom, ids};

/// What kind of question it is to a front end.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Form<'a> {
    /// Whether a call may be made; whether its arguments may be changed with it.
    Permission {
        edits: bool,
    },
    /// What became of a call.
    OutcomeUnknown,
    /// A call of a tool that the client has: nobody decides, the client carries it out.
    ClientTool,
    /// What a tool wants to know.
    Ticket {
        action: &'a str,
        mode: ToolCallResumeMode,
        schema: Option<&'a Value>,
    },
    /// A gate of a workflow; what it offers.
    Approval {
        edits: bool,
        rejects: bool,
    },
    Clarification,
    ExternalEvent,
    Conversation,
    LowConfidence,
    Custom,
}

impl<'a> Form<'a> {
    pub(super) fn of(asked: &'a Interrupt) -> Self {
        let offers = |wanted: &[&str]| {
            let offered = asked.data.get("actions").and_then(Value::as_array).into_iter().flatten();
            offered.filter_map(Value::as_str).any(|action| wanted.contains(&action))
        };
        let action = text(asked, "/suspension/action");
        match asked.kind {
            Kind::Approval => match action {
                Some(CONFIRM) => Self::Permission { edits: offers(&["edit", "edit-accept"]) },
                Some(OUTCOME_UNKNOWN) => Self::OutcomeUnknown,
                Some(_) | None => {
                    Self::Approval { edits: offers(&["edit", "edit-accept"]), rejects: offers(&["reject"]) }
                }
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

/// Whether somebody has to say something, and not the client's own code.
pub(super) fn is_for_people(asked: &Interrupt) -> bool {
    Form::of(asked) != Form::ClientTool
}

/// What is open and for people, the oldest first.
pub(super) fn open(run: &Run) -> impl Iterator<Item = &Interrupt> {
    run.open_interrupts().filter(|asked| !run.finished() && is_for_people(asked))
}

/// Calls of tools of the client's that wait for it.
pub(super) fn of_client(run: &Run) -> impl Iterator<Item = (String, &Interrupt)> {
    let open = run.open_interrupts().filter(|asked| !run.finished() && !is_for_people(asked));
    open.filter_map(|asked| Some((call(run, asked)?, asked)))
}

pub(super) fn shown(run: &Run, asked: &Interrupt) -> agui::Interrupt {
    let form = Form::of(asked);
    let reason = reason(&form, asked);
    let tool_call_id = match form {
        Form::Permission { .. } | Form::OutcomeUnknown => call(run, asked),
        Form::Ticket { .. } if reason == "tool_call" => call(run, asked),
        Form::Ticket { .. }
        | Form::ClientTool
        | Form::Approval { .. }
        | Form::Clarification
        | Form::ExternalEvent
        | Form::Conversation
        | Form::LowConfidence
        | Form::Custom => None,
    };
    agui::Interrupt {
        id: ids::interrupt(&run.id, asked.id),
        response_schema: shown_schema(asked),
        reason,
        message: message(asked),
        tool_call_id,
        expires_at: asked.expires_at().map(Into::into),
        metadata: Some(metadata(run, asked)),
    }
}

/// What a front end is told to answer with.
pub(super) fn shown_schema(asked: &Interrupt) -> Option<Value> {
    let form = Form::of(asked);
    schema(&form, &reason(&form, asked), asked).filter(Value::is_object)
}

/// Words of the protocol, or ours with our name before them.
fn reason(form: &Form<'_>, asked: &Interrupt) -> String {
    let reason = match form {
        Form::Permission { .. } | Form::ClientTool => "tool_call",
        Form::OutcomeUnknown => "holdpoint:outcome_unknown",
        Form::Ticket { action, .. } => named(action).unwrap_or("tool_call"),
        Form::Approval { .. } => "confirmation",
        Form::Clarification => "input_required",
        Form::ExternalEvent => "holdpoint:external_event",
        Form::Conversation => "holdpoint:conversation",
        Form::LowConfidence => "holdpoint:low_confidence",
        Form::Custom => {
            let own = text(asked, "/reason").or_else(|| text(asked, "/customKind").and_then(named));
            own.unwrap_or("holdpoint:custom")
        }
    };
    reason.to_owned()
}

/// A word that says to a front end what to show.
fn named(word: &str) -> Option<&str> {
    (["input_required", "confirmation"].contains(&word) || word.contains(':')).then_some(word)
}

fn schema(form: &Form<'_>, reason: &str, asked: &Interrupt) -> Option<Value> {
    match form {
        Form::Permission { edits } => {
            let edited = || ("editedArgs", edited_args(asked));
            Some(decision(edits.then(edited), "reason"))
        }
        Form::OutcomeUnknown => {
            let result = json_schema!({"description": "What the call returned; it is not made again then."});
            Some(decision(Some(("result", result.to_value())), "reason"))
        }
        Form::Ticket { schema: Some(schema), .. } => Some((*schema).clone()),
        Form::Ticket { .. } if reason == "confirmation" => Some(json_schema!({"type": "boolean"}).to_value()),
        Form::Ticket { .. } if reason == "tool_call" => Some(decision(None, "reason")),
        Form::Ticket { .. } | Form::ClientTool => None,
        Form::Approval { edits, .. } => {
            let edited = json_schema!({"description": "What is approved instead of what was shown."});
            let whole = decision(edits.then_some(("editedArtifactData", edited.to_value())), "feedback");
            Some(json_schema!({"anyOf": [{"type": "boolean"}, whole]}).to_value())
        }
        Form::Clarification => asked.resume_schema.clone().or_else(|| questions(&asked.data)),
        Form::Conversation => {
            asked.resume_schema.clone().or_else(|| asked.data.get("outcomeSchema").cloned())
        }
        Form::Custom => Some(custom::with_titles(asked, asked.resume_schema.clone()?)),
        Form::ExternalEvent | Form::LowConfidence => asked.resume_schema.clone(),
    }
}

/// Returns the schema of the tool as a part of the schema of the answer. Interrupts of older versions have none.
fn edited_args(asked: &Interrupt) -> Value {
    let mut schema = match asked.data.get(ARGUMENTS_SCHEMA) {
        Some(schema) => nested("/properties/editedArgs", schema),
        None => json_schema!({"type": "object"}).to_value(),
    };
    if let Some(members) = schema.as_object_mut() {
        let description = "Takes the place of all arguments; nothing is merged.";
        members.entry("description").or_insert_with(|| description.into());
    }
    schema
}

/// Returns a schema as it is at a place in another one: references from its root begin at that place.
fn nested(place: &str, schema: &Value) -> Value {
    match schema {
        Value::Object(members) => {
            let member = |(name, value): (&String, &Value)| {
                let value = match (name.as_str(), value) {
                    ("$ref", Value::String(to)) if to == "#" || to.starts_with("#/") => {
                        format!("#{place}{}", &to[1..]).into()
                    }
                    // The names in these are no keywords.
                    (
                        "properties" | "patternProperties" | "$defs" | "definitions" | "dependentSchemas",
                        parts,
                    ) => {
                        let parts = parts.as_object().into_iter().flatten();
                        let parts = parts.map(|(name, part)| (name.clone(), nested(place, part)));
                        Value::Object(parts.collect())
                    }
                    // Values, which only look like schemas.
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

/// An object with an answer to each question.
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
    let said = places.iter().find_map(|place| text(asked, place).filter(|said| !said.is_empty()));
    let shown = || custom::text(asked).filter(|_| Form::of(asked) == Form::Custom);
    let said = said.map(str::to_owned).or_else(shown).unwrap_or_else(|| asked.title().to_owned());
    (!said.is_empty()).then_some(said)
}

/// Returns the data for the front ends of this server, and the digest that an answer may name.
fn metadata(run: &Run, asked: &Interrupt) -> InterruptMetadata {
    let member = |place: &str| asked.data.pointer(place).cloned();
    let votes = (asked.required_approvals() > 1).then_some(asked.votes.len());
    let holdpoint = InterruptFacts {
        kind: asked.kind,
        run_id: run.id.clone(),
        node_id: asked.node.clone(),
        digest: asked.digest.clone(),
        title: member("/title"),
        tool_call: member("/toolCall"),
        artifact: member("/artifactData"),
        data: custom::data(asked).filter(|_| Form::of(asked) == Form::Custom),
        required_approvals: votes.map(|_| asked.required_approvals()),
        votes,
    };
    InterruptMetadata { holdpoint }
}

fn call(run: &Run, asked: &Interrupt) -> Option<String> {
    asked.call_id().map(|call| ids::said(run, &asked.node, call))
}

fn text<'a>(asked: &'a Interrupt, place: &str) -> Option<&'a str> {
    asked.data.pointer(place).and_then(Value::as_str)
}

#[cfg(test)]
mod tests;
