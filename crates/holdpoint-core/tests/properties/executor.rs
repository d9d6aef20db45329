//! The executor inside the test: plays the nodes by the rules that node code follows, and sometimes against them.

use holdpoint_core::{
    Answer, Command, Completion, InterruptId, Kind, Outcome, Owner, Principal, Request, Resolution, Run,
    RunError, Start, TenantId, Timestamp,
};
use serde_json::{Map, json};

/// How many different answers and outcomes there are to choose from.
pub(crate) const ANSWERS: usize = 4;
pub(crate) const OUTCOMES: usize = 6;

pub(crate) fn somebody() -> Principal {
    Principal { name: "ada".to_owned(), roles: Vec::new() }
}

pub(crate) fn start() -> Command {
    let owner = Owner { tenant: TenantId::parse("acme").expect("a tenant id"), principal: "ada".to_owned() };
    let (configurable, metadata) = (Map::new(), Map::new());
    Command::Start(Start { configurable, metadata, ..Start::new(owner) })
}

pub(crate) fn answer(choice: usize) -> Answer {
    let value = match choice {
        0 | 1 => json!({"action": "accept"}),
        2 => json!({"action": "reject"}),
        _ => json!("a value that no gate takes"),
    };
    Answer { value, by: somebody() }
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
        _ => Outcome::Sleeping(now.plus_ms(10)),
    }
}

/// What node code would make of its turn: the same rules that the engine's contexts and nodes follow.
pub(crate) fn perform(run: &Run, position: usize, lucky: bool, now: Timestamp) -> Outcome {
    let config = &run.workflow.nodes[position].config;
    match run.workflow.nodes[position].type_id.as_str() {
        "gate" => {
            let key = config["key"].as_str().expect("a gate has a key");
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
        "delay" if run.nodes[position].slept == 0 => {
            Outcome::Sleeping(now.plus_ms(config["ms"].as_u64().expect("a delay has a length")))
        }
        _ if lucky => completed(Map::from_iter([("done".to_owned(), json!(position))])),
        _ => broken(),
    }
}

fn completed(outputs: Map<String, serde_json::Value>) -> Outcome {
    Outcome::Completed(Box::new(Completion::of(outputs)))
}
