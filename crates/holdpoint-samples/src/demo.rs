//! Demo agents, and a workflow that one of them calls. They need no model and no service, and their tools have no
//! effect.

use serde_json::Value;

const AGENTS: [(&str, &str); 10] = [
    ("echo", include_str!("demo/echo.json")),
    ("approve", include_str!("demo/approve.json")),
    ("edit", include_str!("demo/edit.json")),
    ("parallel", include_str!("demo/parallel.json")),
    ("form", include_str!("demo/form.json")),
    ("expiring", include_str!("demo/expiring.json")),
    ("confirm", include_str!("demo/confirm.json")),
    ("chain", include_str!("demo/chain.json")),
    ("nested", include_str!("demo/nested.json")),
    ("reasoning", include_str!("demo/reasoning.json")),
];

/// The workflow that the agent `nested` calls. It calls `sample-approval`.
const RELEASE: &str = include_str!("demo/release.json");

/// Returns the ids of the demo agents.
pub fn agent_ids() -> impl Iterator<Item = &'static str> {
    AGENTS.iter().map(|(id, _)| *id)
}

/// Returns the definitions of the demo agents.
pub fn agents() -> impl Iterator<Item = Value> {
    AGENTS.iter().map(|(_, text)| parse(text))
}

/// Returns the definition of the workflow `demo-release`. It calls `sample-approval`, which the caller must register.
pub fn release_workflow() -> Value {
    parse(RELEASE)
}

fn parse(text: &str) -> Value {
    serde_json::from_str(text).expect("the file is part of this crate and a test reads it")
}

#[cfg(test)]
mod tests {
    #[test]
    fn every_file_has_the_definition_of_its_agent() {
        let ids: Vec<_> =
            super::agents().map(|agent| agent["agentId"].as_str().unwrap().to_owned()).collect();
        assert_eq!(ids, super::agent_ids().collect::<Vec<_>>());
        assert_eq!(super::release_workflow()["id"], "demo-release");
    }
}
