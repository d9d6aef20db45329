//! Builds workflow definitions in code. The result is the same JSON document that a file contains.

use std::time::Duration;

use serde_json::{Map, Value, json};

use super::{DefinitionFlaw, Workflow};

/// A checked workflow definition as a JSON document.
#[derive(Clone, Debug, PartialEq)]
pub struct WorkflowDefinition(Value);

impl WorkflowDefinition {
    /// Returns the JSON document.
    pub fn json(&self) -> &Value {
        &self.0
    }
}

impl From<WorkflowDefinition> for Value {
    fn from(definition: WorkflowDefinition) -> Self {
        definition.0
    }
}

/// The flaws of a definition that was built in code.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the workflow has {} flaw(s); the first: {}", .0.len(), .0.first().map(ToString::to_string).unwrap_or_default())]
pub struct InvalidDefinition(pub Vec<DefinitionFlaw>);

/// The value of an input of a node.
#[derive(Clone, Debug, PartialEq)]
pub struct Input(Value);

impl Input {
    /// Returns a fixed value.
    pub fn value(value: impl Into<Value>) -> Self {
        Self(json!({ "type": "static", "value": value.into() }))
    }

    /// Returns the value of a variable of the run. Inputs of the run and outputs of nodes are variables.
    pub fn variable(name: &str) -> Self {
        Self(json!({ "type": "variable", "variableName": name }))
    }

    /// Returns an output of a node that completes earlier.
    pub fn output(node: &str, name: &str) -> Self {
        Self(json!({ "type": "connection", "nodeId": node, "outputKey": name }))
    }

    /// Returns the value of an expression over the variables.
    pub fn expression(text: &str) -> Self {
        Self(json!({ "type": "expression", "expression": text }))
    }
}

/// A node of a workflow: its type, settings and inputs. A text is a node of that type without settings.
#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    type_id: String,
    config: Map<String, Value>,
    inputs: Map<String, Value>,
}

impl Step {
    /// Returns a node of a type.
    pub fn new(type_id: impl Into<String>) -> Self {
        Self { type_id: type_id.into(), config: Map::new(), inputs: Map::new() }
    }

    /// Sets a member of the config.
    #[must_use]
    pub fn config(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.config.insert(name.to_owned(), value.into());
        self
    }

    /// Sets an input.
    #[must_use]
    pub fn input(mut self, name: &str, input: Input) -> Self {
        self.inputs.insert(name.to_owned(), input.0);
        self
    }
}

impl From<&str> for Step {
    fn from(type_id: &str) -> Self {
        Self::new(type_id)
    }
}

/// A node that requests an approval. The run fails if it is rejected or not answered in time.
#[derive(Clone, Debug, PartialEq)]
pub struct Approval(Step);

impl Approval {
    /// Returns an approval with a title.
    pub fn new(title: impl Into<String>) -> Self {
        Self(Step::new("core.approvalGate").config("title", title.into()))
    }

    /// Sets the text below the title.
    #[must_use]
    pub fn description(self, text: impl Into<String>) -> Self {
        Self(self.0.config("description", text.into()))
    }

    /// Shows a value to the approvers.
    #[must_use]
    pub fn show(self, input: Input) -> Self {
        Self(self.0.input("artifact", input))
    }

    /// Names the principals that may approve. Entries can also be `role:NAME` and `group:NAME`.
    #[must_use]
    pub fn approvers<S: Into<String>>(self, names: impl IntoIterator<Item = S>) -> Self {
        let names: Vec<String> = names.into_iter().map(Into::into).collect();
        Self(self.0.config("approversList", names))
    }

    /// Sets the number of approvals that are needed. The default is one.
    #[must_use]
    pub fn required(self, count: u32) -> Self {
        Self(self.0.config("requiredApprovals", count))
    }

    /// Rejects approvals of the principal that started the run.
    #[must_use]
    pub fn not_by_requester(self) -> Self {
        Self(self.0.config("requesterMayNotApprove", true))
    }

    /// Sets the deadline.
    #[must_use]
    pub fn timeout(self, timeout: Duration) -> Self {
        Self(self.0.config("timeoutMs", millis(timeout)))
    }
}

impl From<Approval> for Step {
    fn from(approval: Approval) -> Self {
        approval.0
    }
}

/// A node that asks questions. Its output `answers` has the answers by the ids of the questions.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Form {
    questions: Vec<Value>,
    timeout: Option<Duration>,
}

impl Form {
    /// Returns a form without questions.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a question with a text as its answer.
    #[must_use]
    pub fn text(self, id: &str, question: &str) -> Self {
        self.ask(id, question, &json!({ "type": "string", "minLength": 1 }))
    }

    /// Adds a question with a number as its answer.
    #[must_use]
    pub fn number(self, id: &str, question: &str) -> Self {
        self.ask(id, question, &json!({ "type": "number" }))
    }

    /// Adds a question with yes or no as its answer.
    #[must_use]
    pub fn yes_or_no(self, id: &str, question: &str) -> Self {
        self.ask(id, question, &json!({ "type": "boolean" }))
    }

    /// Adds a question with one of these texts as its answer.
    #[must_use]
    pub fn choice(self, id: &str, question: &str, choices: &[&str]) -> Self {
        self.ask(id, question, &json!({ "enum": choices }))
    }

    /// Adds a question whose answer must match a JSON Schema.
    #[must_use]
    pub fn ask(mut self, id: &str, question: &str, schema: &Value) -> Self {
        self.questions.push(json!({ "id": id, "question": question, "schema": schema }));
        self
    }

    /// Sets the deadline.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }
}

impl From<Form> for Step {
    fn from(form: Form) -> Self {
        let step = Self::new("core.clarificationGate").config("questions", form.questions);
        match form.timeout {
            Some(timeout) => step.config("timeoutMs", millis(timeout)),
            None => step,
        }
    }
}

/// Builds a workflow definition. [`Workflow::builder`] returns it.
#[derive(Clone, Debug)]
pub struct WorkflowBuilder {
    id: String,
    name: Option<String>,
    nodes: Vec<Value>,
    edges: Vec<Value>,
    timeout_ms: Option<u64>,
    /// The id of the node that was added last.
    last: Option<String>,
}

impl Workflow {
    /// Builds a workflow definition in code.
    ///
    /// ```
    /// use holdpoint_core::Workflow;
    /// use holdpoint_core::workflow::{Approval, Input, Step};
    ///
    /// let refund = Workflow::builder("refund")
    ///     .node("review", Approval::new("Pay the refund?").show(Input::variable("amount")).approvers(["alice"]))
    ///     .then("pay", Step::new("core.noop"))
    ///     .build()?;
    /// assert_eq!(refund.json()["nodes"][0]["typeId"], "core.approvalGate");
    /// # Ok::<(), holdpoint_core::workflow::InvalidDefinition>(())
    /// ```
    pub fn builder(id: impl Into<String>) -> WorkflowBuilder {
        WorkflowBuilder {
            id: id.into(),
            name: None,
            nodes: Vec::new(),
            edges: Vec::new(),
            timeout_ms: None,
            last: None,
        }
    }
}

impl WorkflowBuilder {
    /// Sets the name for people. The default is the id.
    #[must_use]
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// Limits the duration of a run.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout_ms = Some(millis(timeout));
        self
    }

    /// Adds a node that starts with the run.
    #[must_use]
    pub fn node(self, id: &str, step: impl Into<Step>) -> Self {
        self.after([], id, step)
    }

    /// Adds a node that starts when the node that was added last is completed.
    #[must_use]
    pub fn then(self, id: &str, step: impl Into<Step>) -> Self {
        let last = self.last.clone();
        self.after(last.as_deref(), id, step)
    }

    /// Adds a node that starts when all of these nodes are completed.
    #[must_use]
    pub fn after<'a>(
        mut self,
        nodes: impl IntoIterator<Item = &'a str>,
        id: &str,
        step: impl Into<Step>,
    ) -> Self {
        let Step { type_id, config, inputs } = step.into();
        self.nodes.push(json!({
            "id": id, "typeId": type_id, "name": id, "config": config, "inputs": inputs,
        }));
        for source in nodes {
            let edge = format!("e{}", self.edges.len() + 1);
            self.edges.push(json!({ "id": edge, "sourceNodeId": source, "targetNodeId": id }));
        }
        self.last = Some(id.to_owned());
        self
    }

    /// Checks the shape of the definition. The engine checks the settings of the nodes when it is registered.
    pub fn build(self) -> Result<WorkflowDefinition, InvalidDefinition> {
        let mut settings = Map::new();
        settings.extend(self.timeout_ms.map(|ms| ("timeout".to_owned(), json!(ms))));
        let definition = json!({
            "name": self.name.as_ref().unwrap_or(&self.id), "id": self.id, "version": "1", "nodes": self.nodes,
            "edges": self.edges, "variables": [], "triggers": [], "metadata": {}, "settings": settings,
        });
        match Workflow::parse(&definition, 1) {
            Ok(_) => Ok(WorkflowDefinition(definition)),
            Err(flaws) => Err(InvalidDefinition(flaws)),
        }
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_are_connected_in_the_order_of_the_calls() {
        let built = Workflow::builder("trip")
            .name("A trip")
            .timeout(Duration::from_secs(60))
            .node("flight", "core.noop")
            .node("hotel", Step::new("core.noop").config("stars", 4).input("city", Input::value("Rome")))
            .after(
                ["flight", "hotel"],
                "ask",
                Form::new().text("why", "Why?").timeout(Duration::from_secs(5)),
            )
            .then("pay", Approval::new("Pay?").required(2).not_by_requester().timeout(Duration::from_secs(9)))
            .build()
            .unwrap();
        let ends = |edge: &Value| (edge["sourceNodeId"].clone(), edge["targetNodeId"].clone());
        let edges: Vec<_> = built.json()["edges"].as_array().unwrap().iter().map(ends).collect();
        let pair = |source: &str, target: &str| (json!(source), json!(target));
        assert_eq!(edges, [pair("flight", "ask"), pair("hotel", "ask"), pair("ask", "pay")]);
        assert_eq!(built.json()["settings"], json!({"timeout": 60_000}));
        assert_eq!(built.json()["nodes"][2]["config"]["timeoutMs"], 5_000);
        assert_eq!(built.json()["nodes"][3]["config"]["requiredApprovals"], 2);
        assert_eq!(built.json()["nodes"][1]["inputs"]["city"], json!({"type": "static", "value": "Rome"}));
    }

    #[test]
    fn all_flaws_are_returned() {
        let built = Workflow::builder("Bad Id").after(["missing"], "a", "core.noop").build();
        let flaws = built.unwrap_err();
        assert!(flaws.to_string().contains("flaw(s); the first: "), "{flaws}");
        assert!(Workflow::builder("empty").build().is_err(), "a workflow has at least one node");
    }
}
