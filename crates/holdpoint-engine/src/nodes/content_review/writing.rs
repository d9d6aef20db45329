//! `contentReview.draft` and `contentReview.revise`: who writes. That is a declared agent, if the run names one, and else a
//! template, which needs no model and writes nothing that anybody would want to read.

use holdpoint_core::workflow::{self, Flaw};
use holdpoint_core::{Dispatch, Status};
use serde_json::{Map, Value, json};

use super::payload::{Feedback, shown_place};
use super::{REVISIONS_DEFAULT, REVISIONS_MAX, input, invalid, needed, outputs, sound};
use crate::agent::workflow_id;
use crate::context::{Context, Stop};
use crate::nodes::{Outputs, PureNode, config_flaw, unknown_config};

/// Of a remark, in what the template writes: a text must not outgrow what can be shown, however often it is revised.
const REMARK_CHARS_COPIED: usize = 200;

pub(super) struct Draft;
pub(super) struct Revise;

impl PureNode for Draft {
    fn check(&self, node: &workflow::Node) -> Vec<Flaw> {
        flaws(node)
    }

    /// Everything that could be wrong with the run's inputs is told now, and not when somebody has read the text.
    fn run(&self, context: &mut Context) -> Result<Outputs, Stop> {
        if let Some(url) = input::<String>(context, "publishUrl")? {
            shown_place(&url)?;
        }
        let allowed = revisions_allowed(context)?;
        let draft = match input::<String>(context, "draft")? {
            Some(draft) => draft,
            None => first_draft(context)?,
        };
        Ok(outputs([("draft", &sound(draft)?), ("revision", &0), ("maxRevisions", &allowed)]))
    }
}

/// What a run leaves to the one that started it is named in the config of the node that did.
fn flaws(node: &workflow::Node) -> Vec<Flaw> {
    let mut flaws = unknown_config(node, &["outputMapping"]);
    if node.config.get("outputMapping") != Some(&json!({ "text": "text" })) {
        let message = "must be {\"text\": \"text\"}: that is what a writer leaves";
        flaws.push(config_flaw(node, "outputMapping", message));
    }
    flaws
}

pub(super) fn revisions_allowed(context: &Context) -> Result<u64, Stop> {
    let allowed = input::<u64>(context, "maxRevisions")?.unwrap_or(REVISIONS_DEFAULT);
    if allowed > REVISIONS_MAX {
        return Err(invalid(format!("the input maxRevisions: {REVISIONS_MAX} are the most")));
    }
    Ok(allowed)
}

fn first_draft(context: &mut Context) -> Result<String, Stop> {
    let topic = topic(context)?;
    match input::<String>(context, "writer")? {
        Some(writer) => ask(context, &writer, &format!("Write a text about this topic:\n\n{topic}")),
        None => Ok(format!("{topic}\n\nThis text is a template: nobody has written about the topic yet.")),
    }
}

/// What to write about: said as such, as the only thing that was said, or in a chat.
fn topic(context: &Context) -> Result<String, Stop> {
    let said = |name: &str| context.inputs.get(name).and_then(Value::as_str);
    let in_chat = || {
        let messages = context.inputs.get("messages")?.as_array()?;
        let by_user = messages.iter().rev().find(|message| message["role"] == "user")?;
        by_user["content"].as_str()
    };
    let topic = said("topic").or_else(|| said("input")).or_else(in_chat);
    let topic = topic.filter(|topic| !topic.trim().is_empty());
    topic.map(str::to_owned).ok_or_else(|| invalid("one of the inputs topic and draft must be a text"))
}

impl PureNode for Revise {
    fn check(&self, node: &workflow::Node) -> Vec<Flaw> {
        flaws(node)
    }

    fn run(&self, context: &mut Context) -> Result<Outputs, Stop> {
        let shown: String = needed(context, "draft")?;
        let revision = needed::<u64>(context, "revision")? + 1;
        let feedback: Vec<Feedback> = input(context, "feedback")?.unwrap_or_default();
        let draft = match input::<String>(context, "edited")? {
            Some(edited) => edited,
            None => revised(context, &shown, &feedback, revision)?,
        };
        Ok(outputs([("draft", &draft), ("revision", &revision), ("feedback", &feedback)]))
    }
}

fn revised(context: &mut Context, shown: &str, feedback: &[Feedback], revision: u64) -> Result<String, Stop> {
    let last = feedback.last().map(|last| last.text.as_str()).unwrap_or_default();
    match input::<String>(context, "writer")? {
        Some(writer) => {
            let request = format!(
                "Revise the text. Reply with the whole new text and nothing else.\n\nA reviewer said:\n{last}\n\n\
                 The text:\n{shown}"
            );
            ask(context, &writer, &request)
        }
        None => {
            let remark: String = last.chars().take(REMARK_CHARS_COPIED).collect();
            Ok(format!("{shown}\n\n[Revision {revision}: {remark}]"))
        }
    }
}

/// The agent works in a run of its own, which ends with this one.
fn ask(context: &mut Context, writer: &str, request: &str) -> Result<String, Stop> {
    let workflow = workflow_id(writer).map_err(|flaw| invalid(format!("the input writer: {flaw}")))?;
    let inputs = Map::from_iter([("message".to_owned(), json!(request))]);
    let child = context.child(Dispatch { workflow, inputs, wait: true, cascade: true })?;
    let result = child.result.as_deref();
    if child.status != Status::Completed {
        let error = result.and_then(|result| result.error.as_ref());
        let why = error.map_or_else(String::new, |error| format!(": {}: {}", error.code, error.message));
        let message = format!("{writer} has not written it; its run was {}{why}", child.status.as_str());
        return Err(Stop::failed("writer_failed", message));
    }
    let text = result.and_then(|result| result.outputs.get("text")).and_then(Value::as_str);
    match sound(text.unwrap_or_default().to_owned()) {
        Err(Stop::Failed(error)) => {
            Err(Stop::failed("writer_failed", format!("{writer}: {}", error.message)))
        }
        other => other,
    }
}
