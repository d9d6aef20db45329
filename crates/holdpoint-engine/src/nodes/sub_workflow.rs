//! `core.subWorkflow`, also known as `core.control.subWorkflow`: runs another workflow.

use holdpoint_core::workflow::{self, Flaw};
use holdpoint_core::{Child, Dispatch, RunError, Status, WorkflowId};
use serde_json::{Map, Value, json};

use super::{Outputs, PureNode, config_flaw, config_text, unknown_config};
use crate::context::{Context, Stop};

pub(super) struct SubWorkflow;

const KNOWN: [&str; 6] = [
    "workflowId",
    "waitForCompletion",
    "onChildFailure",
    "inputMapping",
    "outputMapping",
    "propagateCancellation",
];

impl PureNode for SubWorkflow {
    fn check(&self, node: &workflow::Node) -> Vec<Flaw> {
        let mut flaws = unknown_config(node, &KNOWN);
        flaws.extend(workflow_id(node).err());
        flaws.extend(flag(node, "waitForCompletion").err());
        flaws.extend(flag(node, "propagateCancellation").err());
        flaws.extend(mapping(node, "inputMapping").err());
        flaws.extend(mapping(node, "outputMapping").err());
        flaws.extend(fails_with_child(node).err());
        flaws
    }

    fn run(&self, context: &mut Context) -> Result<Outputs, Stop> {
        let node = context.node().clone();
        let invalid = |flaw: Flaw| Stop::failed("invalid_input", flaw.to_string());
        let dispatch = Dispatch {
            workflow: workflow_id(&node).map_err(invalid)?,
            inputs: inputs(context, &mapping(&node, "inputMapping").map_err(invalid)?),
            wait: flag(&node, "waitForCompletion").map_err(invalid)?,
            cascade: flag(&node, "propagateCancellation").map_err(invalid)?,
        };
        let child = context.child(dispatch)?;
        if child.result.is_some() && child.status != Status::Completed {
            let fails = fails_with_child(&node).map_err(invalid)?;
            if fails {
                return Err(failed(&child));
            }
        }
        Ok(outputs(&child, &mapping(&node, "outputMapping").map_err(invalid)?))
    }
}

/// A copy of what the parent's variables are now, over the node's own inputs.
fn inputs(context: &Context, mapping: &[(String, String)]) -> Map<String, Value> {
    let mut inputs = context.inputs.clone();
    for (of_child, of_parent) in mapping {
        if let Some(value) = context.variables().get(of_parent) {
            inputs.insert(of_child.clone(), value.clone());
        }
    }
    inputs
}

fn outputs(child: &Child, mapping: &[(String, String)]) -> Outputs {
    let mut outputs = Outputs::new();
    for (of_parent, of_child) in mapping {
        if let Some(value) = child.result.as_ref().and_then(|result| result.outputs.get(of_child)) {
            outputs.insert(of_parent.clone(), value.clone());
        }
    }
    outputs.insert("childRunId".to_owned(), json!(child.run));
    outputs.insert("childStatus".to_owned(), json!(child.status.as_str()));
    outputs
}

fn failed(child: &Child) -> Stop {
    let error = child.result.as_ref().and_then(|result| result.error.as_ref());
    let why = error.map_or_else(String::new, |error| format!(": {}: {}", error.code, error.message));
    let message = format!("run {} of {} was {}{why}", child.run, child.workflow, child.status.as_str());
    Stop::Failed(RunError::new("child_failed", message))
}

fn workflow_id(node: &workflow::Node) -> Result<WorkflowId, Flaw> {
    let text = config_text(node, "workflowId")?;
    let text = text.ok_or_else(|| config_flaw(node, "workflowId", "is missing"))?;
    WorkflowId::parse(text).map_err(|error| config_flaw(node, "workflowId", error.to_string()))
}

/// True where nothing is said.
fn flag(node: &workflow::Node, field: &str) -> Result<bool, Flaw> {
    match node.config.get(field) {
        None => Ok(true),
        Some(Value::Bool(flag)) => Ok(*flag),
        Some(_) => Err(config_flaw(node, field, "must be true or false")),
    }
}

fn fails_with_child(node: &workflow::Node) -> Result<bool, Flaw> {
    match config_text(node, "onChildFailure")? {
        None | Some("fail-parent") => Ok(true),
        Some("continue") => Ok(false),
        Some(_) => Err(config_flaw(node, "onChildFailure", "must be fail-parent or continue")),
    }
}

/// Names here by names there.
fn mapping(node: &workflow::Node, field: &str) -> Result<Vec<(String, String)>, Flaw> {
    let wrong = || config_flaw(node, field, "must be an object of names");
    let Some(value) = node.config.get(field) else { return Ok(Vec::new()) };
    let pairs = value.as_object().ok_or_else(wrong)?.iter();
    pairs.map(|(to, from)| Ok((to.clone(), from.as_str().ok_or_else(wrong)?.to_owned()))).collect()
}
