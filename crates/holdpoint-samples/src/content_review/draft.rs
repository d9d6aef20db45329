//! `contentReview.draft` and `contentReview.revise`: write the text. If the run names an agent as the writer, that
//! agent writes; otherwise a template fills in a placeholder text without a model.

use holdpoint_agents::workflow_id;
use holdpoint_core::workflow::{self, DefinitionFlaw};
use holdpoint_core::{ChildRunRequest, Status};
use holdpoint_engine::extension::{config_flaw, unknown_config};
use holdpoint_engine::{Context, Outputs, PureNode, Stop};
use serde_json::{Map, Value, json};

use super::payload::{Feedback, displayed_url};
use super::{REVISIONS_DEFAULT, REVISIONS_MAX, check_draft, input, invalid, outputs, required_input};

/// The number of characters of a remark that the template copies into the text. It is limited so that a draft that is
/// revised many times stays below its size limit.
const REMARK_CHARS_COPIED: usize = 200;

pub(super) struct DraftNode;
pub(super) struct ReviseNode;

impl PureNode for DraftNode {
    fn check(&self, node: &workflow::Node) -> Vec<DefinitionFlaw> {
        check_output_mapping(node)
    }

    /// Checks all inputs of the run now, so that invalid ones do not fail the run after the review.
    fn run(&self, context: &mut Context) -> Result<Outputs, Stop> {
        if let Some(url) = input::<String>(context, "publishUrl")? {
            displayed_url(&url)?;
        }
        let allowed = revisions_allowed(context)?;
        let draft = match input::<String>(context, "draft")? {
            Some(draft) => draft,
            None => first_draft(context)?,
        };
        Ok(outputs([("draft", &check_draft(draft)?), ("revision", &0), ("maxRevisions", &allowed)]))
    }
}

/// Checks the config. Its `outputMapping` must name the output of the child run that the node reads.
fn check_output_mapping(node: &workflow::Node) -> Vec<DefinitionFlaw> {
    let mut flaws = unknown_config(node, &["outputMapping"]);
    if node.config.get("outputMapping") != Some(&json!({ "text": "text" })) {
        let message = "must be {\"text\": \"text\"}, the output of a writer";
        flaws.push(config_flaw(node, "outputMapping", message));
    }
    flaws
}

pub(super) fn revisions_allowed(context: &Context) -> Result<u64, Stop> {
    let allowed = input::<u64>(context, "maxRevisions")?.unwrap_or(REVISIONS_DEFAULT);
    if allowed > REVISIONS_MAX {
        return Err(invalid(format!("the input maxRevisions must be at most {REVISIONS_MAX}")));
    }
    Ok(allowed)
}

fn first_draft(context: &mut Context) -> Result<String, Stop> {
    let topic = topic(context)?;
    match input::<String>(context, "writer")? {
        Some(writer) => run_writer(context, &writer, &format!("Write a text about this topic:\n\n{topic}")),
        None => Ok(format!("{topic}\n\nThis text is a template: nobody has written about the topic yet.")),
    }
}

/// Returns the topic: the input `topic` or `input`, or the last user message in `messages`.
fn topic(context: &Context) -> Result<String, Stop> {
    let text = |name: &str| context.inputs.get(name).and_then(Value::as_str);
    let in_chat = || {
        let messages = context.inputs.get("messages")?.as_array()?;
        let by_user = messages.iter().rev().find(|message| message["role"] == "user")?;
        by_user["content"].as_str()
    };
    let topic = text("topic").or_else(|| text("input")).or_else(in_chat);
    let topic = topic.filter(|topic| !topic.trim().is_empty());
    topic
        .map(str::to_owned)
        .ok_or_else(|| invalid("give the input topic or draft; one of them must be a string"))
}

impl PureNode for ReviseNode {
    fn check(&self, node: &workflow::Node) -> Vec<DefinitionFlaw> {
        check_output_mapping(node)
    }

    fn run(&self, context: &mut Context) -> Result<Outputs, Stop> {
        let shown: String = required_input(context, "draft")?;
        let revision = required_input::<u64>(context, "revision")? + 1;
        let feedback: Vec<Feedback> = input(context, "feedback")?.unwrap_or_default();
        let draft = match input::<String>(context, "edited")? {
            Some(edited) => edited,
            None => revise(context, &shown, &feedback, revision)?,
        };
        Ok(outputs([("draft", &draft), ("revision", &revision), ("feedback", &feedback)]))
    }
}

fn revise(context: &mut Context, shown: &str, feedback: &[Feedback], revision: u64) -> Result<String, Stop> {
    let last = feedback.last().map(|last| last.text.as_str()).unwrap_or_default();
    match input::<String>(context, "writer")? {
        Some(writer) => {
            let request = format!(
                "Revise the text. Reply with the whole new text and nothing else.\n\nA reviewer said:\n{last}\n\n\
                 The text:\n{shown}"
            );
            run_writer(context, &writer, &request)
        }
        None => {
            let remark: String = last.chars().take(REMARK_CHARS_COPIED).collect();
            Ok(format!("{shown}\n\n[Revision {revision}: {remark}]"))
        }
    }
}

/// Starts a child run of the writer agent and returns its text. The child run is cancelled with this run.
fn run_writer(context: &mut Context, writer: &str, request: &str) -> Result<String, Stop> {
    let workflow = workflow_id(writer).map_err(|flaw| invalid(format!("the input writer: {flaw}")))?;
    let inputs = Map::from_iter([("message".to_owned(), json!(request))]);
    let child = context.start_child(ChildRunRequest { workflow, inputs, wait: true, cascade: true })?;
    let result = child.result.as_deref();
    if child.status != Status::Completed {
        let error = result.and_then(|result| result.error.as_ref());
        let why = error.map_or_else(String::new, |error| format!(": {}: {}", error.code, error.message));
        let message =
            format!("the run of the writer {writer} ended with status {}{why}", child.status.as_str());
        return Err(Stop::failed("writer_failed", message));
    }
    let text = result.and_then(|result| result.outputs.get("text")).and_then(Value::as_str);
    match check_draft(text.unwrap_or_default().to_owned()) {
        Err(Stop::Failed(error)) => {
            Err(Stop::failed("writer_failed", format!("{writer}: {}", error.message)))
        }
        other => other,
    }
}
