//! Short constructors for the workflows, requests, commands and events of the scenarios.

use holdpoint_core::mailbox::DispatchOptions;
use holdpoint_core::{
    Answer, Command, Completion, Drain, Effect, Event, InterruptId, InterruptRequest, Kind, NodeId,
    NodeOutcome, Owner, Principal, RequestSource, RunError, RunParameters, StartRequest, TenantId, Timestamp,
    Via, Workflow, WorkflowId,
};
use serde_json::{Map, Value, json};

pub(crate) fn workflow(nodes: impl Into<Vec<Value>>, edges: impl Into<Vec<Value>>) -> Workflow {
    workflow_with(nodes, edges, [])
}

pub(crate) fn workflow_with(
    nodes: impl Into<Vec<Value>>,
    edges: impl Into<Vec<Value>>,
    variables: impl Into<Vec<Value>>,
) -> Workflow {
    let definition = json!({
        "id": "story", "name": "Story", "version": "1", "triggers": [], "metadata": {}, "settings": {},
        "nodes": nodes.into(), "edges": edges.into(), "variables": variables.into(),
    });
    Workflow::parse(&definition, 1).expect("a valid definition")
}

/// Returns a workflow with additional members, such as settings and channels.
pub(crate) fn workflow_with_members(
    nodes: impl Into<Vec<Value>>,
    edges: impl Into<Vec<Value>>,
    members: Value,
) -> Workflow {
    let mut definition = json!({
        "id": "story", "name": "Story", "version": "1", "triggers": [], "metadata": {}, "settings": {},
        "nodes": nodes.into(), "edges": edges.into(), "variables": [],
    });
    for (name, value) in object(members) {
        definition[name] = value;
    }
    Workflow::parse(&definition, 1).expect("a valid definition")
}

pub(crate) fn gate_then_after() -> Workflow {
    workflow([node("gate"), node("after")], [edge("gate", "after")])
}

/// Returns a workflow with two nodes that may both begin first.
pub(crate) fn left_and_right() -> Workflow {
    workflow([node("left"), node("right")], [])
}

pub(crate) fn node(id: &str) -> Value {
    json!({"id": id, "typeId": "core.noop", "name": id, "config": {}, "inputs": {}})
}

pub(crate) fn disabled(id: &str) -> Value {
    with(node(id), "disabled", json!(true))
}

pub(crate) fn edge(source: &str, target: &str) -> Value {
    json!({"id": format!("{source}-{target}"), "sourceNodeId": source, "targetNodeId": target})
}

pub(crate) fn edge_when(rule: &str, source: &str, target: &str) -> Value {
    with(edge(source, target), "triggerRule", json!(rule))
}

pub(crate) fn edge_if(expression: &str, source: &str, target: &str) -> Value {
    let condition = json!({"type": "expression", "expression": expression});
    with(edge(source, target), "condition", condition)
}

pub(crate) fn with(mut object: Value, member: &str, value: Value) -> Value {
    object[member] = value;
    object
}

pub(crate) fn object(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(map) => map,
        other => panic!("not an object: {other}"),
    }
}

pub(crate) fn node_id(id: &str) -> NodeId {
    NodeId::parse(id).expect("a node id")
}

pub(crate) fn ada() -> Principal {
    Principal { roles: vec!["finance".to_owned()], ..Principal::named("ada") }
}

fn owner() -> Owner {
    Owner { tenant: TenantId::parse("acme").expect("a tenant id"), principal: "ada".to_owned() }
}

// Requests of nodes. All have the key `k`.

pub(crate) fn approval() -> InterruptRequest {
    approval_of(json!({"actions": ["accept", "reject"]}))
}

/// Returns an approval with these members and the required ones.
pub(crate) fn approval_of(members: Value) -> InterruptRequest {
    let mut data = object(json!({"artifactId": "a1", "artifactType": "invoice", "title": "Pay?"}));
    data.extend(object(members));
    request(Kind::Approval, Value::Object(data))
}

pub(crate) fn request(kind: Kind, data: Value) -> InterruptRequest {
    InterruptRequest { key: Some("k".to_owned()), ..InterruptRequest::new(kind, data) }
}

pub(crate) fn with_key(key: &str, request: InterruptRequest) -> InterruptRequest {
    InterruptRequest { key: Some(key.to_owned()), ..request }
}

pub(crate) fn custom() -> InterruptRequest {
    request(Kind::Custom, json!({"customKind": "colour"}))
}

// Commands.

pub(crate) fn start() -> Command {
    start_with(json!({}))
}

pub(crate) fn start_with(inputs: Value) -> Command {
    Command::Start(Box::new(start_request(inputs)))
}

pub(crate) fn start_request(inputs: Value) -> StartRequest {
    StartRequest { inputs: object(inputs), ..StartRequest::new(owner()) }
}

pub(crate) fn begin(node: &str) -> Command {
    Command::Begin { node: node_id(node), effect: Effect::None }
}

pub(crate) fn finish(node: &str, outcome: NodeOutcome) -> Command {
    Command::Finish { node: node_id(node), outcome }
}

pub(crate) fn done(node: &str) -> Command {
    done_with(node, json!({}))
}

pub(crate) fn done_with(node: &str, outputs: Value) -> Command {
    finish(node, NodeOutcome::Completed(Box::new(Completion::of(object(outputs)))))
}

pub(crate) fn fail(node: &str) -> Command {
    finish(node, NodeOutcome::Failed(boom()))
}

pub(crate) fn ask(node: &str, request: InterruptRequest) -> Command {
    finish(node, NodeOutcome::Asked(Box::new(request)))
}

pub(crate) fn join(node: &str, interrupt: u32) -> Command {
    finish(node, NodeOutcome::Joined(InterruptId(interrupt)))
}

pub(crate) fn sleep(node: &str, until: Timestamp) -> Command {
    finish(node, NodeOutcome::Sleeping(until))
}

pub(crate) fn record(node: &str, name: &str, result: Value) -> Command {
    Command::Record { node: node_id(node), name: name.to_owned(), result, took_ms: None }
}

pub(crate) fn answer(interrupt: u32, value: Value) -> Command {
    answer_by(ada(), interrupt, value)
}

pub(crate) fn answer_by(by: Principal, interrupt: u32, value: Value) -> Command {
    Command::Resolve { answers: [(InterruptId(interrupt), Answer::new(value, by))].into() }
}

pub(crate) fn answer_all<const N: usize>(answers: [(u32, Value); N]) -> Command {
    let answers = answers.map(|(id, value)| (InterruptId(id), Answer::new(value, ada())));
    Command::Resolve { answers: answers.into() }
}

pub(crate) fn accept(interrupt: u32) -> Command {
    answer(interrupt, json!({"action": "accept"}))
}

pub(crate) fn accept_at(node: &str) -> Command {
    let answer = Answer::new(json!({"action": "accept"}), ada());
    Command::ResolveNode { node: node_id(node), interrupt: None, answer }
}

pub(crate) fn expire(interrupt: u32) -> Command {
    Command::Expire { interrupt: InterruptId(interrupt) }
}

pub(crate) fn wake(node: &str) -> Command {
    Command::Wake { node: node_id(node) }
}

pub(crate) fn cancel() -> Command {
    Command::Cancel { reason: Some("no longer wanted".to_owned()), by: ada() }
}

pub(crate) fn abandon() -> Command {
    Command::Abandon { error: boom() }
}

pub(crate) fn boom() -> RunError {
    RunError::new("boom", "it broke")
}

/// Starts a run with these options.
pub(crate) fn start_configured(options: Value) -> Command {
    Command::Start(Box::new(StartRequest { configurable: object(options), ..StartRequest::new(owner()) }))
}

pub(crate) fn complete(node: &str, completion: Completion) -> Command {
    finish(node, NodeOutcome::Completed(Box::new(completion)))
}

/// Completes a node with a branch.
pub(crate) fn choose(node: &str, branch: &str) -> Command {
    complete(node, Completion { branch: Some(branch.to_owned()), ..Completion::default() })
}

pub(crate) fn fail_retryable(node: &str) -> Command {
    finish(node, NodeOutcome::Failed(busy()))
}

/// Returns a retryable error.
pub(crate) fn busy() -> RunError {
    RunError { retryable: true, ..RunError::new("busy", "not now") }
}

pub(crate) fn pause(drain: Drain) -> Command {
    Command::Pause { reason: None, drain, by: ada() }
}

pub(crate) fn resume() -> Command {
    Command::Resume { by: ada() }
}

// Events.

pub(crate) fn loop_turned(edge: &str, iteration: u32) -> Event {
    Event::LoopTurned { edge: edge.to_owned(), iteration }
}

pub(crate) fn started() -> Event {
    started_with(json!({}))
}

pub(crate) fn started_with(inputs: Value) -> Event {
    Event::RunStarted(std::sync::Arc::new(RunParameters {
        workflow: WorkflowId::parse("story").expect("a workflow id"),
        revision: 1,
        owner: owner(),
        inputs: object(inputs),
        configurable: Map::new(),
        tags: Vec::new(),
        metadata: Map::new(),
        thread: None,
        scope: None,
        callback_url: None,
        trace: None,
        trace_state: None,
        engine_version: None,
        parent: None,
        fork: None,
        forked_by: Vec::new(),
        grants: Vec::new(),
        requested_by: Vec::new(),
        credentials: Vec::new(),
        callback_secret: None,
        source: Some(RequestSource::INTERNAL),
        branch_of: None,
        client_run: None,
        dispatch: DispatchOptions::default(),
        trigger: None,
    }))
}

pub(crate) fn node_started(node: &str) -> Event {
    Event::NodeStarted { node: node_id(node), uses: Vec::new() }
}

pub(crate) fn completed(node: &str) -> Event {
    Event::NodeCompleted { node: node_id(node), outputs: Map::new(), branch: None, unmapped: Vec::new() }
}

pub(crate) fn failed(node: &str) -> Event {
    Event::NodeFailed { node: node_id(node), error: boom() }
}

pub(crate) fn skipped(node: &str) -> Event {
    Event::NodeSkipped { node: node_id(node), reason: "no incoming edge lets it run".to_owned() }
}

pub(crate) fn suspended(node: &str, interrupt: u32) -> Event {
    Event::NodeSuspended { node: node_id(node), interrupt: InterruptId(interrupt), all: false }
}

pub(crate) fn resumed(node: &str, interrupt: u32) -> Event {
    Event::NodeResumed { node: node_id(node), interrupt: InterruptId(interrupt) }
}

/// Returns the event of a request of this node.
pub(crate) fn requested(id: u32, node: &str, request: InterruptRequest) -> Event {
    let digest = Some(holdpoint_core::digest(&request.data));
    Event::InterruptRequested {
        id: InterruptId(id),
        node: node_id(node),
        kind: request.kind,
        key: request.key.expect("a request of a story has a key"),
        data: request.data.into(),
        resume_schema: request.resume_schema.map(Into::into),
        timeout_ms: request.timeout_ms,
        digest,
    }
}

pub(crate) fn approval_requested(interrupt: u32) -> Event {
    Event::ApprovalRequested { interrupt: InterruptId(interrupt) }
}

pub(crate) fn approval_received(interrupt: u32) -> Event {
    Event::ApprovalReceived { interrupt: InterruptId(interrupt) }
}

/// Returns the event of an answer by Ada.
pub(crate) fn resolved(id: u32, value: Value) -> Event {
    resolved_via(id, value, None)
}

pub(crate) fn resolved_via(id: u32, value: Value, via: Option<Via>) -> Event {
    Event::InterruptResolved {
        id: InterruptId(id),
        value,
        by: "ada".to_owned(),
        decision: None,
        via,
        copied: false,
        client_metadata: serde_json::Map::new(),
        vote: None,
    }
}

pub(crate) fn timed_out(id: u32) -> Event {
    Event::InterruptTimedOut { id: InterruptId(id) }
}

pub(crate) fn run_failed_at(node: &str) -> Event {
    Event::RunFailed { error: boom(), node: Some(node_id(node)) }
}

/// Returns the event of a run that is cancelled with its parent.
pub(crate) fn cancelled_with_parent() -> Event {
    let parent = Some(holdpoint_core::RunId::parse("run-0").expect("a run id"));
    Event::RunCancelled {
        reason: Some("parent-cancelled".to_owned()),
        by: "system:parent".to_owned(),
        parent,
    }
}

pub(crate) fn run_cancelled() -> Event {
    Event::RunCancelled { reason: Some("no longer wanted".to_owned()), by: "ada".to_owned(), parent: None }
}
