//! The executor of the tests: returns outcomes of nodes that follow the rules of node code, and some that violate them.

use holdpoint_core::{
    Answer, ChannelWrite, ChildRunRequest, Command, Completion, InterruptId, InterruptRequest, Kind,
    NodeOutcome, Owner, Principal, Reducer, Resolution, Run, RunError, StartRequest, TenantId, Timestamp,
    WorkflowId,
};
use serde_json::{Map, Value, json};

/// The number of answers and of outcomes to choose from.
pub(crate) const ANSWERS: usize = 4;
pub(crate) const OUTCOMES: usize = 9;

pub(crate) fn ada() -> Principal {
    Principal::named("ada")
}

/// A low limit, so that some runs reach it.
pub(crate) const EXECUTIONS_MAX: u64 = 25;

pub(crate) fn start() -> Command {
    let options = json!({"recursionLimit": EXECUTIONS_MAX, "runTimeoutMs": 600});
    let options = options.as_object().cloned().unwrap_or_default();
    let owner = Owner { tenant: TenantId::parse("acme").expect("a tenant id"), principal: "ada".to_owned() };
    Command::Start(Box::new(StartRequest { configurable: options, ..StartRequest::new(owner) }))
}

pub(crate) fn answer(choice: usize) -> Answer {
    let value = match choice {
        0 | 1 => json!({"action": "accept"}),
        2 => json!({"action": "reject"}),
        _ => json!("a value that no gate takes"),
    };
    Answer::new(value, ada())
}

fn request_approval(key: &str, timeout_ms: Option<u64>) -> NodeOutcome {
    let data = json!({"artifactId": "x", "artifactType": "t", "title": "?", "actions": ["accept", "reject"]});
    NodeOutcome::Asked(Box::new(InterruptRequest {
        key: Some(key.to_owned()),
        timeout_ms,
        ..InterruptRequest::new(Kind::Approval, data)
    }))
}

fn failed() -> NodeOutcome {
    NodeOutcome::Failed(RunError::new("boom", "it broke"))
}

/// Returns an outcome that does not depend on the node.
pub(crate) fn any_outcome(choice: usize, now: Timestamp) -> NodeOutcome {
    match choice {
        0 => NodeOutcome::Completed(Box::default()),
        1 => failed(),
        2 => request_approval("k", None),
        3 => request_approval("another", Some(20)),
        4 => NodeOutcome::Joined(InterruptId(1)),
        5 => NodeOutcome::Failed(RunError { retryable: true, ..RunError::new("busy", "later") }),
        6 => start_child(true),
        7 => start_child(false),
        _ => NodeOutcome::Sleeping(now.plus_ms(10)),
    }
}

/// Returns the outcome of node code, by the rules that the contexts and nodes of the engine follow.
pub(crate) fn perform(run: &Run, position: usize, lucky: bool, now: Timestamp) -> NodeOutcome {
    let config = &run.workflow.nodes[position].config;
    match run.workflow.nodes[position].type_id.as_str() {
        "gate" => {
            // A gate without a key opens a new interrupt in each visit, as node code does.
            let derived = run.interrupt_key(position, run.nodes[position].keys_from);
            let key = config["key"].as_str().unwrap_or(&derived);
            match run.interrupt_by_key(key).map(|interrupt| (interrupt.id, &interrupt.resolution)) {
                None => request_approval(key, config["timeoutMs"].as_u64()),
                // A worker that read an old state requests the interrupt again.
                Some(_) if !lucky => request_approval(key, None),
                Some((id, None)) => NodeOutcome::Joined(id),
                Some((_, Some(Resolution::Answered { value, .. }))) if value["action"] == "accept" => {
                    completed(value.as_object().expect("a decision is an object").clone())
                }
                Some((_, Some(_))) => failed(),
            }
        }
        "parent" => match run.nodes[position].children.last().and_then(|child| run.child(child)) {
            None => start_child(config["wait"] == true),
            Some(child) => completed(Map::from_iter([("child".to_owned(), json!(child.run))])),
        },
        "shaky" if !lucky => {
            NodeOutcome::Failed(RunError { retryable: true, ..RunError::new("busy", "later") })
        }
        "choice" => NodeOutcome::Completed(Box::new(Completion {
            branch: Some(if lucky { "body" } else { "done" }.to_owned()),
            variables: vec![("round".to_owned(), json!(run.iteration_of(position)))],
            ..Completion::default()
        })),
        "writer" => NodeOutcome::Completed(Box::new(Completion {
            channels: write(config, now),
            ..Completion::default()
        })),
        "delay" if run.nodes[position].slept == 0 => {
            NodeOutcome::Sleeping(now.plus_ms(config["ms"].as_u64().expect("a delay has a length")))
        }
        _ if lucky => completed(Map::from_iter([("done".to_owned(), json!(position))])),
        _ => failed(),
    }
}

fn start_child(wait: bool) -> NodeOutcome {
    let workflow = WorkflowId::parse("child").expect("a workflow id");
    NodeOutcome::ChildRequested(Box::new(ChildRunRequest {
        workflow,
        inputs: Map::new(),
        wait,
        cascade: wait,
    }))
}

/// Returns a write to one channel. The reducer depends on the time, so a reducer also gets values of other reducers.
fn write(config: &Map<String, Value>, now: Timestamp) -> Vec<ChannelWrite> {
    let place = usize::try_from(now.0.rem_euclid(7)).expect("less than seven");
    let reducer = Reducer::ALL[place];
    let value = match reducer {
        Reducer::Counter => json!(now.0),
        _ => json!({"userId": "ada", "messageId": now.0.to_string(), "at": now.0}),
    };
    let ttl_ms = config.get("ttlMs").and_then(Value::as_u64);
    vec![ChannelWrite { channel: "log".to_owned(), value, reducer, ttl_ms, max_size: Some(2) }]
}

fn completed(outputs: Map<String, serde_json::Value>) -> NodeOutcome {
    NodeOutcome::Completed(Box::new(Completion::of(outputs)))
}
