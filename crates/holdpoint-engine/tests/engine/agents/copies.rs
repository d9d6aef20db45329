//! Copies of agent runs: calls that were approved in the source are asked about again.

use std::collections::BTreeMap;

use holdpoint_engine::core::{Answer, Command, ForkMode, InterruptId, RunRef};
use serde_json::{Value, json};

use super::{Office, agent, call};
use crate::forks::fork;
use crate::house::{accept, alice};
use crate::place::on_both;

on_both! {
    a_branch_behind_the_start_of_an_approved_call_asks_again,
}

async fn answer(office: &Office, of: &RunRef, interrupt: u32, value: Value) {
    let answers = BTreeMap::from([(InterruptId(interrupt), Answer::new(value, alice()))]);
    office.house.engine.execute(of, &Command::Resolve { answers }).await.unwrap();
    office.house.drain().await;
}

/// Also for a tool that may be called twice: the approval was for one call with the edited arguments.
async fn a_branch_behind_the_start_of_an_approved_call_asks_again(office: Office) {
    for tool in ["send", "look"] {
        let steps = json!([{ "calls": [call("c1", tool, json!({ "to": "bob" }))] }, { "text": "Done." }]);
        let mut definition = agent(&steps);
        definition["permissions"]["rules"] = json!([{ "tool": tool, "behavior": "ask" }]);
        office.hire(definition).await;
        let of = office.told(None, "please").await;
        let arguments = json!({ "to": "ann" });
        let edited = json!({ "name": tool, "arguments": arguments });
        answer(&office, &of, 1, json!({ "action": "edit-accept", "editedArtifactData": edited })).await;
        assert_eq!(office.house.status(&of).await, "completed");
        let made = office.calls().len();
        let log = office.house.log(&of).await;
        let begun = log.iter().position(|line| line.contains("holdpoint.tool.begun")).unwrap() as u64 + 1;
        let copy = fork(&office.house, &of, ForkMode::Branch, begun).await;
        office.house.drain().await;
        assert_eq!(
            (office.house.status(&copy).await, office.calls().len()),
            ("waiting-approval", made),
            "{tool}"
        );
        answer(&office, &copy, 2, accept()).await;
        assert_eq!(
            (office.house.status(&copy).await, office.calls().len()),
            ("completed", made + 1),
            "{tool}"
        );
        let run = office.house.run(&copy).await;
        let uses: Vec<usize> = run.interrupts.iter().map(|asked| asked.uses.len()).collect();
        assert_eq!(uses[1], 1, "the decision of the copy is used: {uses:?}");
    }
}
