//! `core.subWorkflow`, also known as `core.control.subWorkflow`: starts a child run of another workflow.

use holdpoint_core::workflow::{self, DefinitionFlaw};
use holdpoint_core::{ChildRunRequest, ChildRunState, RunError, Status, WorkflowId};
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
    fn check(&self, node: &workflow::Node) -> Vec<DefinitionFlaw> {
        let mut flaws = unknown_config(node, &KNOWN);
        flaws.extend(workflow_id(node).err());
        flaws.extend(flag(node, "waitForCompletion").err());
        flaws.extend(flag(node, "propagateCancellation").err());
        flaws.extend(mapping(node, "inputMapping").err());
        flaws.extend(mapping(node, "outputMapping").err());
        flaws.extend(fails_with_child(node).err());
        flaws
    }

    fn starts_runs(&self) -> bool {
        true
    }

    fn run(&self, context: &mut Context) -> Result<Outputs, Stop> {
        let node = context.node().clone();
        let invalid = |flaw: DefinitionFlaw| Stop::failed("invalid_input", flaw.to_string());
        let request = ChildRunRequest {
            workflow: workflow_id(&node).map_err(invalid)?,
            inputs: inputs(context, &mapping(&node, "inputMapping").map_err(invalid)?),
            wait: flag(&node, "waitForCompletion").map_err(invalid)?,
            cascade: flag(&node, "propagateCancellation").map_err(invalid)?,
        };
        let child = context.start_child(request)?;
        if child.result.is_some() && child.status != Status::Completed {
            let fails = fails_with_child(&node).map_err(invalid)?;
            if fails {
                return Err(failed(&child));
            }
        }
        Ok(outputs(&child, &mapping(&node, "outputMapping").map_err(invalid)?))
    }
}

/// Returns the inputs of the child run: the inputs of the node, overridden by mapped variables of the parent.
fn inputs(context: &Context, mapping: &[(String, String)]) -> Map<String, Value> {
    let mut inputs = context.inputs.clone();
    for (of_child, of_parent) in mapping {
        if let Some(value) = context.variables().get(of_parent) {
            inputs.insert(of_child.clone(), value.clone());
        }
    }
    inputs
}

fn outputs(child: &ChildRunState, mapping: &[(String, String)]) -> Outputs {
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

fn failed(child: &ChildRunState) -> Stop {
    let error = child.result.as_ref().and_then(|result| result.error.as_ref());
    let why = error.map_or_else(String::new, |error| format!(": {}: {}", error.code, error.message));
    let message = format!("run {} of {} was {}{why}", child.run, child.workflow, child.status.as_str());
    Stop::Failed(RunError::new("child_failed", message))
}

fn workflow_id(node: &workflow::Node) -> Result<WorkflowId, DefinitionFlaw> {
    let text = config_text(node, "workflowId")?;
    let text = text.ok_or_else(|| config_flaw(node, "workflowId", "is missing"))?;
    WorkflowId::parse(text).map_err(|error| config_flaw(node, "workflowId", error.to_string()))
}

/// Reads a flag that is true by default.
fn flag(node: &workflow::Node, field: &str) -> Result<bool, DefinitionFlaw> {
    match node.config.get(field) {
        None => Ok(true),
        Some(Value::Bool(flag)) => Ok(*flag),
        Some(_) => Err(config_flaw(node, field, "must be true or false")),
    }
}

fn fails_with_child(node: &workflow::Node) -> Result<bool, DefinitionFlaw> {
    match config_text(node, "onChildFailure")? {
        None | Some("fail-parent") => Ok(true),
        Some("continue") => Ok(false),
        Some(_) => Err(config_flaw(node, "onChildFailure", "must be fail-parent or continue")),
    }
}

/// Reads a mapping as pairs of target and source names.
fn mapping(node: &workflow::Node, field: &str) -> Result<Vec<(String, String)>, DefinitionFlaw> {
    let wrong = || config_flaw(node, field, "must be an object of names");
    let Some(value) = node.config.get(field) else { return Ok(Vec::new()) };
    let pairs = value.as_object().ok_or_else(wrong)?.iter();
    pairs.map(|(to, from)| Ok((to.clone(), from.as_str().ok_or_else(wrong)?.to_owned()))).collect()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use holdpoint_core::{
        ChildInterruptChanges, ChildResult, Command, Obligation, Owner, Run, RunEnd, RunId, RunRef,
        StartRequest, TenantId, Timestamp,
    };
    use holdpoint_core::{NodeStatus, Workflow};

    use super::*;
    use crate::draft::RunDraft;
    use crate::nodes::NodeTypes;

    /// Starts a run with one sub-workflow node and advances it as far as possible.
    fn started(config: Value) -> RunDraft {
        let port = json!({"type": "static", "value": 1});
        let definition = json!({
            "id": "parent", "name": "p", "version": "1", "edges": [], "triggers": [], "variables": [],
            "metadata": {}, "settings": {},
            "nodes": [{"id": "call", "typeId": "core.subWorkflow", "name": "call", "config": config,
                "inputs": {"port": port}}],
        });
        let workflow = Workflow::parse(&definition, 1).expect("a valid definition");
        let types = NodeTypes::built_in();
        assert!(types.flaws(&workflow).is_empty());
        let run = Run::new(RunId::parse("r").expect("a run id"), Arc::new(workflow));
        let tenant = TenantId::parse("acme").expect("a tenant id");
        let of = RunRef { tenant: tenant.clone(), run: run.id.clone() };
        let mut draft = RunDraft::new(of, Arc::new(run), Timestamp(0));
        let owner = Owner { tenant, principal: "ada".to_owned() };
        let inputs = Map::from_iter([("amount".to_owned(), json!(250))]);
        draft
            .decide(&Command::Start(Box::new(StartRequest { inputs, ..StartRequest::new(owner) })))
            .expect("started");
        draft.execute_pure_nodes(&types).expect("advanced");
        draft
    }

    fn ended(mut draft: RunDraft, status: Status, outputs: Value) -> RunDraft {
        let outputs = outputs.as_object().cloned().unwrap_or_default();
        let error = (status == Status::Failed).then(|| RunError::new("boom", "it broke"));
        let child = RunId::parse("r.1").expect("a run id");
        let result = Some(ChildResult { outputs, error });
        let interrupts = ChildInterruptChanges::default();
        draft.decide(&Command::Child { child, status, interrupts, result }).expect("accepted");
        draft.execute_pure_nodes(&NodeTypes::built_in()).expect("advanced");
        draft
    }

    #[test]
    fn a_child_run_gets_the_inputs_of_the_node_and_the_mapped_variables() {
        let mapping = json!({"sum": "amount", "nothing": "missing"});
        let draft = started(json!({"workflowId": "child", "inputMapping": mapping}));
        let child = &draft.run.children[0];
        assert_eq!(Value::Object(child.inputs.clone()), json!({"port": 1, "sum": 250}));
        assert_eq!((child.workflow.as_str(), child.wait, child.cascade), ("child", true, true));
        assert!(draft.obligations.contains(&Obligation::StartChild { child: child.run.clone() }));
        assert_eq!(draft.run.nodes[0].status, NodeStatus::Awaiting(child.run.clone()));
    }

    #[test]
    fn outputs_of_the_child_run_are_mapped_to_outputs_of_the_node() {
        let config = json!({"workflowId": "child", "outputMapping": {"total": "sum", "nothing": "missing"}});
        let draft = ended(started(config), Status::Completed, json!({"sum": 3, "other": 4}));
        assert_eq!(draft.run.status(), Status::Completed);
        let expected = json!({"total": 3, "childRunId": "r.1", "childStatus": "completed"});
        assert_eq!(*draft.run.nodes[0].outputs, expected);
    }

    #[test]
    fn the_node_fails_with_its_child_run_unless_on_child_failure_is_continue() {
        for status in [Status::Failed, Status::Cancelled] {
            let draft = ended(started(json!({"workflowId": "child"})), status, json!({}));
            let Some(RunEnd::Failed { error, .. }) = &draft.run.end else { panic!("{:?}", draft.run.end) };
            assert_eq!(error.code, "child_failed");
            assert!(error.message.contains(status.as_str()), "{}", error.message);
            let config = json!({"workflowId": "child", "onChildFailure": "continue"});
            let draft = ended(started(config), status, json!({}));
            assert_eq!(draft.run.nodes[0].outputs["childStatus"], status.as_str());
            assert_eq!(draft.run.status(), Status::Completed);
        }
    }

    #[test]
    fn a_child_run_without_wait_for_completion_is_started_once() {
        let config =
            json!({"workflowId": "child", "waitForCompletion": false, "propagateCancellation": false});
        let draft = started(config);
        assert_eq!(draft.run.status(), Status::Completed);
        assert_eq!(draft.run.children.len(), 1);
        let expected = json!({"childRunId": "r.1", "childStatus": "pending"});
        assert_eq!(*draft.run.nodes[0].outputs, expected);
        assert!(!draft.run.children[0].cascade);
    }
}
