//! Gates through the engine: several approvers, questions beside the decision, conversations, agents that are not
//! sure.

use holdpoint_engine::Error;
use holdpoint_engine::core::{Answer, Command, NodeId, Principal, Refusal, RunRef, Start, WorkflowId};
use serde_json::{Value, json};

use crate::house::{House, accept, graph, line, node, start, tenant};
use crate::place::on_both;

on_both! {
    a_gate_opens_when_enough_have_agreed,
    a_question_beside_the_decision_is_kept_over_a_restart_of_the_cache,
    a_refusal_goes_where_an_edge_takes_it_and_is_asked_again_under_another_key,
    every_kind_can_be_written_out_and_by_either_name,
    a_conversation_is_held_and_closed,
    a_conversation_can_be_rehearsed,
    an_agent_that_is_not_sure_is_asked_about,
    an_agent_that_says_nothing_of_it_goes_on,
    gates_that_make_no_sense_are_flaws,
}

async fn tell(house: &House, of: &RunRef, by: &str, value: Value) -> Result<&'static str, Error> {
    let answer = Answer::new(value, Principal::named(by));
    let command = Command::ResolveNode { node: NodeId::parse("gate").unwrap(), interrupt: None, answer };
    Ok(house.engine.execute(of, &command).await?.status().as_str())
}

/// The names of the events, without those of nodes and runs.
async fn told(house: &House, of: &RunRef) -> Vec<String> {
    let log = house.log(of).await;
    let names = log.iter().map(|line| serde_json::from_str::<Value>(line).unwrap()["type"].clone());
    let names = names.map(|name| name.as_str().unwrap_or_default().to_owned());
    names.filter(|name| !name.starts_with("run.") && !name.starts_with("node.")).collect()
}

async fn a_gate_opens_when_enough_have_agreed(house: House) {
    let config = json!({
        "requiredApprovals": 2, "approversList": ["ann", "bob", "tester"], "requesterMayNotApprove": true,
    });
    house.register(line("two", &[("gate", "core.approvalGate", config)])).await;
    let of = house.start("two").await;
    assert_eq!(tell(&house, &of, "ann", accept()).await.unwrap(), "waiting-approval");
    assert_eq!(tell(&house, &of, "ann", accept()).await.unwrap(), "waiting-approval");
    let refused = |result: Result<&str, Error>| match result {
        Err(Error::Refused(refusal)) => refusal,
        other => panic!("{other:?}"),
    };
    assert_eq!(refused(tell(&house, &of, "eve", accept()).await), Refusal::NotAnApprover("eve".to_owned()));
    assert_eq!(
        refused(tell(&house, &of, "tester", accept()).await),
        Refusal::OwnRequest("tester".to_owned())
    );
    assert_eq!(house.pending().await, ["gate"]);
    assert_eq!(tell(&house, &of, "bob", accept()).await.unwrap(), "completed");
    assert!(house.pending().await.is_empty());
    assert_eq!(
        told(&house, &of).await,
        [
            "interrupt.requested",
            "approval.requested",
            "holdpoint.vote.cast",
            "holdpoint.vote.repeated",
            "interrupt.resolved",
            "approval.received",
        ]
    );
    assert_eq!(house.run(&of).await.variables["quorum"]["approvals"], 2);
}

async fn a_question_beside_the_decision_is_kept_over_a_restart_of_the_cache(house: House) {
    let config = json!({"actions": ["accept", "ask"]});
    house.register(line("asking", &[("gate", "core.approvalGate", config)])).await;
    let of = house.start("asking").await;
    let question = json!({"action": "ask", "question": "Why?"});
    assert_eq!(tell(&house, &of, "ann", question).await.unwrap(), "waiting-approval");
    let interrupt = house.run(&of).await.interrupts[0].id;
    let (answer, by) = ("So.".to_owned(), Principal::named("bot"));
    house.engine.execute(&of, &Command::AnswerAsk { interrupt, ask: 1, answer, by }).await.unwrap();
    let exchange = &house.run(&of).await.variables["_askExchanges:gate"][0];
    assert_eq!((&exchange["question"], &exchange["answer"]), (&json!("Why?"), &json!("So.")));
    assert_eq!(tell(&house, &of, "ann", accept()).await.unwrap(), "completed");
}

async fn a_refusal_goes_where_an_edge_takes_it_and_is_asked_again_under_another_key(house: House) {
    let back = json!({
        "id": "back", "sourceNodeId": "gate", "targetNodeId": "gate", "triggerRule": "any_failed",
    });
    let first = json!({"id": "first", "sourceNodeId": "start", "targetNodeId": "gate"});
    let nodes = [node("start", "core.start", json!({})), node("gate", "core.approvalGate", json!({}))];
    house.register(graph("again", &nodes, &[first, back])).await;
    let of = house.start("again").await;
    assert_eq!(tell(&house, &of, "ann", json!({"action": "reject"})).await.unwrap(), "waiting-approval");
    assert_eq!(tell(&house, &of, "ann", accept()).await.unwrap(), "completed");
    let run = house.run(&of).await;
    assert_ne!(run.interrupts[0].key, run.interrupts[1].key);
    let log = house.log(&of).await;
    let failures: Vec<&String> = log.iter().filter(|line| line.contains("node.failed")).collect();
    assert_eq!(failures.len(), 1);
    assert!(failures[0].contains("approval_rejected") && !failures[0].contains("retryable"), "{failures:?}");
}

async fn every_kind_can_be_written_out_and_by_either_name(house: House) {
    let nodes = [
        ("open", "core.interrupt", json!({"kind": "conversation.start", "data": {"conversationId": "c"}})),
        (
            "gate",
            "core.interrupt",
            json!({"reason": "custom", "resumeKey": "k", "data": {"customKind": "x"}}),
        ),
        ("close", "core.interrupt", json!({"kind": "conversation.close", "data": {"conversationId": "c"}})),
    ];
    house.register(line("kinds", &nodes)).await;
    let of = house.start("kinds").await;
    assert_eq!(house.status(&of).await, "waiting-input");
    assert_eq!(house.run(&of).await.interrupt_by_key("k").map(|asked| asked.node.as_str()), Some("gate"));
    assert_eq!(tell(&house, &of, "ann", json!(5)).await.unwrap(), "completed");
    let run = house.run(&of).await;
    assert_eq!(run.conversations[0].id, format!("{}:c", of.run));
    assert!(run.conversations[0].closed_by.is_some());
}

async fn a_conversation_is_held_and_closed(house: House) {
    let config = json!({
        "lifecycle": "open-exchange-close", "turnCount": 2, "prompt": "Colour?", "outcomeSchema": {"type": "string"},
    });
    house.register(line("talk", &[("gate", "core.conversationGate", config)])).await;
    let of = house.start("talk").await;
    assert_eq!(house.status(&of).await, "waiting-approval");
    assert!(tell(&house, &of, "ann", json!(5)).await.is_err());
    assert_eq!(tell(&house, &of, "ann", json!("red")).await.unwrap(), "waiting-approval");
    assert_eq!(tell(&house, &of, "ann", json!("blue")).await.unwrap(), "completed");
    let variables = house.run(&of).await.variables.clone();
    let id = format!("{}:gate.1", of.run);
    assert_eq!(*variables, json!({"conversationId": id, "turnCount": 2, "outcomes": ["red", "blue"]}));
    let of_conversation = |names: Vec<String>| {
        names.into_iter().filter(|name| name.starts_with("conversation.")).collect::<Vec<_>>()
    };
    assert_eq!(
        of_conversation(told(&house, &of).await),
        ["conversation.opened", "conversation.exchanged", "conversation.exchanged", "conversation.closed"]
    );
}

async fn a_conversation_can_be_rehearsed(house: House) {
    let config = json!({"lifecycle": "open-exchange-close", "mockAutoResume": true, "turnCount": 1});
    house.register(line("mock", &[("gate", "core.conversationGate", config)])).await;
    let of = house.start("mock").await;
    assert_eq!(house.status(&of).await, "completed");
    assert!(told(&house, &of).await.contains(&"conversation.exchanged".to_owned()));
}

async fn decide(house: &House, decision: Value, options: Value) -> RunRef {
    let config = json!({"agentId": "planner", "mockDecision": decision});
    house.register(line("agent", &[("gate", "core.conformance.mock-agent", config)])).await;
    let configurable = options.as_object().cloned().unwrap();
    let id = WorkflowId::parse("agent").unwrap();
    let run = house.engine.start(&id, Start { configurable, ..start(json!({})) }).await.unwrap();
    RunRef { tenant: tenant(), run: run.id.clone() }
}

async fn an_agent_that_is_not_sure_is_asked_about(house: House) {
    let of = decide(&house, json!({"decision": "go", "confidence": 0.5}), json!({})).await;
    assert_eq!(house.status(&of).await, "waiting-approval");
    assert_eq!(tell(&house, &of, "ann", json!("stay")).await.unwrap(), "completed");
    assert_eq!(house.run(&of).await.variables["decision"], "stay");
    assert_eq!(told(&house, &of).await, ["agent.decided", "interrupt.requested", "interrupt.resolved"]);
    let lenient = json!({"escalationThreshold": 0.5});
    let of = decide(&house, json!({"decision": "go", "confidence": 0.5}), lenient).await;
    assert_eq!(house.status(&of).await, "completed");
    assert_eq!(told(&house, &of).await, ["agent.decided"]);
}

async fn an_agent_that_says_nothing_of_it_goes_on(house: House) {
    for confidence in [json!(null), json!("NaN")] {
        let of = decide(&house, json!({"decision": "go", "confidence": confidence}), json!({})).await;
        assert_eq!(house.status(&of).await, "completed");
        assert_eq!(house.run(&of).await.variables["decision"], "go");
        let flawed = house.log(&of).await.iter().any(|line| line.contains("not a finite number"));
        assert_eq!(flawed, confidence == "NaN");
    }
}

async fn gates_that_make_no_sense_are_flaws(house: House) {
    for (type_id, config, field) in [
        ("core.approvalGate", json!({"requiredApprovals": 0}), "config.requiredApprovals"),
        ("core.approvalGate", json!({"rejectionPolicy": "dictator"}), "config.rejectionPolicy"),
        ("core.approvalGate", json!({"requesterMayNotApprove": 1}), "config.requesterMayNotApprove"),
        ("core.approvalGate", json!({"approvers": ["ann"]}), "config.approvers"),
        ("core.conversationGate", json!({"lifecycle": "endless"}), "config.lifecycle"),
        ("core.conversationGate", json!({"turnCount": -1}), "config.turnCount"),
        ("core.conversationGate", json!({"outcomeSchema": 5}), "config.outcomeSchema"),
        ("core.interrupt", json!({"kind": "custom", "reason": "approval", "data": {}}), "config.reason"),
        ("core.interrupt", json!({"kind": "custom", "data": {}}), "config.data.customKind"),
        ("core.interrupt", json!({"kind": "custom", "rehearsed": 1}), "config.rehearsed"),
    ] {
        let definition = line("flawed", &[("gate", type_id, config)]);
        match house.engine.register(&tenant(), definition).await {
            Err(Error::InvalidWorkflow(flaws)) => {
                assert!(flaws.iter().any(|flaw| flaw.field == field), "{field}: {flaws:?}");
            }
            other => panic!("{field}: {other:?}"),
        }
    }
}
