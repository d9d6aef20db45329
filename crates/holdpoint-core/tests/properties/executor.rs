//! The executor inside the test: plays the nodes by the rules that node code follows, and sometimes against them.

use holdpoint_core::{
    Answer, ChannelWrite, Command, Completion, Dispatch, InterruptId, Kind, Outcome, Owner, Principal,
    Reducer, Request, Resolution, Run, RunError, Start, TenantId, Timestamp, WorkflowId,
};
use serde_json::{Map, Value, json};

/// How many different answers and outcomes there are to choose from.
pub(crate) const ANSWERS: usize = 4;
pub(crate) const OUTCOMES: usize = 9;

pub(crate) fn somebody() -> Principal {
    Principal::named("ada")
}

/// Few executions, so that some runs come to their end by them.
pub(crate) const EXECUTIONS_MAX: u64 = 25;

pub(crate) fn start() -> Command {
    let options = json!({"recursionLimit": EXECUTIONS_MAX, "runTimeoutMs": 600});
    let options = options.as_object().cloned().unwrap_or_default();
    let owner = Owner { tenant: TenantId::parse("acme").expect("a tenant id"), principal: "ada".to_owned() };
    Command::Start(Box::new(Start { configurable: options, ..Start::new(owner) }))
}

pub(crate) fn answer(choice: usize) -> Answer {
    let value = match choice {
        0 | 1 => json!({"action": "accept"}),
        2 => json!({"action": "reject"}),
        _ => json!("a value that no gate takes"),
    };
    Answer::new(value, somebody())
}

fn question(key: &str, timeout_ms: Option<u64>) -> Outcome {
    let data = json!({"artifactId": "x", "artifactType": "t", "title": "?", "actions": ["accept", "reject"]});
    Outcome::Asked(Box::new(Request {
        key: Some(key.to_owned()),
        timeout_ms,
        ..Request::new(Kind::Approval, data)
    }))
}

fn broken() -> Outcome {
    Outcome::Failed(RunError::new("boom", "it broke"))
}

/// An outcome that has nothing to do with the node.
pub(crate) fn any_outcome(choice: usize, now: Timestamp) -> Outcome {
    match choice {
        0 => Outcome::Completed(Box::default()),
        1 => broken(),
        2 => question("k", None),
        3 => question("another", Some(20)),
        4 => Outcome::Joined(InterruptId(1)),
        5 => Outcome::Failed(RunError { retryable: true, ..RunError::new("busy", "later") }),
        6 => dispatch(true),
        7 => dispatch(false),
        _ => Outcome::Sleeping(now.plus_ms(10)),
    }
}

/// What node code would make of its turn: the same rules that the engine's contexts and nodes follow.
pub(crate) fn perform(run: &Run, position: usize, lucky: bool, now: Timestamp) -> Outcome {
    let config = &run.workflow.nodes[position].config;
    match run.workflow.nodes[position].type_id.as_str() {
        "gate" => {
            // A gate without a key asks anew in each visit, as node code does.
            let derived = run.interrupt_key(position, run.nodes[position].keys_from);
            let key = config["key"].as_str().unwrap_or(&derived);
            match run.interrupt_by_key(key).map(|asked| (asked.id, &asked.resolution)) {
                None => question(key, config["timeoutMs"].as_u64()),
                // A worker that saw an old state asks again.
                Some(_) if !lucky => question(key, None),
                Some((id, None)) => Outcome::Joined(id),
                Some((_, Some(Resolution::Answered { value, .. }))) if value["action"] == "accept" => {
                    completed(value.as_object().expect("a decision is an object").clone())
                }
                Some((_, Some(_))) => broken(),
            }
        }
        "parent" => match run.nodes[position].children.last().and_then(|child| run.child(child)) {
            None => dispatch(config["wait"] == true),
            Some(child) => completed(Map::from_iter([("child".to_owned(), json!(child.run))])),
        },
        "shaky" if !lucky => Outcome::Failed(RunError { retryable: true, ..RunError::new("busy", "later") }),
        "choice" => Outcome::Completed(Box::new(Completion {
            branch: Some(if lucky { "body" } else { "done" }.to_owned()),
            variables: vec![("round".to_owned(), json!(run.iteration_of(position)))],
            ..Completion::default()
        })),
        "writer" => {
            Outcome::Completed(Box::new(Completion { channels: write(config, now), ..Completion::default() }))
        }
        "delay" if run.nodes[position].slept == 0 => {
            Outcome::Sleeping(now.plus_ms(config["ms"].as_u64().expect("a delay has a length")))
        }
        _ if lucky => completed(Map::from_iter([("done".to_owned(), json!(position))])),
        _ => broken(),
    }
}

fn dispatch(wait: bool) -> Outcome {
    let workflow = WorkflowId::parse("child").expect("a workflow id");
    Outcome::Dispatched(Box::new(Dispatch { workflow, inputs: Map::new(), wait, cascade: wait }))
}

/// With a reducer that changes with the time, on one channel: whatever is there must be dealt with.
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

fn completed(outputs: Map<String, serde_json::Value>) -> Outcome {
    Outcome::Completed(Box::new(Completion::of(outputs)))
}
