//! Copies of agent runs: calls that were approved in the source need another approval.

use std::collections::BTreeMap;

use holdpoint_engine::core::{Answer, Command, ForkMode, InterruptId, RunRef};
use serde_json::{Value, json};

use super::{AgentEnv, agent, call};
use crate::test_database::on_both;
use crate::test_env::fork;
use crate::test_env::{accept, alice};

on_both! {
    a_branch_after_the_start_of_an_approved_call_asks_again,
}

async fn answer(agents: &AgentEnv, of: &RunRef, interrupt: u32, value: Value) {
    let answers = BTreeMap::from([(InterruptId(interrupt), Answer::new(value, alice()))]);
    agents.env.engine.runs().execute(of, &Command::Resolve { answers }).await.unwrap();
    agents.env.drain().await;
}

/// This includes idempotent tools: the approval was for one call with the edited arguments.
async fn a_branch_after_the_start_of_an_approved_call_asks_again(agents: AgentEnv) {
    for tool in ["send", "look"] {
        let steps = json!([{ "calls": [call("c1", tool, json!({ "to": "bob" }))] }, { "text": "Done." }]);
        let mut definition = agent(&steps);
        definition["permissions"]["rules"] = json!([{ "tool": tool, "behavior": "ask" }]);
        agents.declare(definition).await;
        let of = agents.send(None, "please").await;
        let arguments = json!({ "to": "ann" });
        let edited = json!({ "name": tool, "arguments": arguments });
        answer(&agents, &of, 1, json!({ "action": "edit-accept", "editedArtifactData": edited })).await;
        assert_eq!(agents.env.status(&of).await, "completed");
        let made = agents.calls().len();
        let log = agents.env.log(&of).await;
        let begun = log.iter().position(|line| line.contains("holdpoint.tool.begun")).unwrap() as u64 + 1;
        let copy = fork(&agents.env, &of, ForkMode::Branch, begun).await;
        agents.env.drain().await;
        assert_eq!(
            (agents.env.status(&copy).await, agents.calls().len()),
            ("waiting-approval", made),
            "{tool}"
        );
        answer(&agents, &copy, 2, accept()).await;
        assert_eq!((agents.env.status(&copy).await, agents.calls().len()), ("completed", made + 1), "{tool}");
        let run = agents.env.run(&copy).await;
        let uses: Vec<usize> = run.interrupts.iter().map(|asked| asked.uses.len()).collect();
        assert_eq!(uses[1], 1, "the decision of the copy is used: {uses:?}");
    }
}
