//! Gates through the engine: several approvers, side questions, conversations and low confidence.

use holdpoint_engine::core::{
    Answer, Command, Kind, NodeId, Principal, Refusal, RunRef, StartRequest, WorkflowId,
};
use holdpoint_engine::{Context, Error, Outputs, PureNode, Stop, SuspendRequest};
use serde_json::{Value, json};

use crate::test_database::{TestDatabase, on_both};
use crate::test_env::{TestEnv, accept, graph, line, node, start, tenant};

on_both! {
    a_gate_completes_after_the_required_approvals,
    a_side_question_and_its_answer_are_recorded_before_the_decision,
    a_rejection_follows_its_edge_and_the_gate_asks_again_under_another_key,
    interrupt_nodes_accept_their_kind_as_kind_or_reason,
    a_node_that_suspends_opens_an_interrupt_with_its_key_and_schema,
    a_conversation_is_exchanged_and_closed,
    a_conversation_with_mock_auto_resume_answers_itself,
    a_low_confidence_decision_opens_an_interrupt,
    a_decision_without_a_confidence_continues,
    invalid_gates_are_rejected,
}

async fn answer_as(env: &TestEnv, of: &RunRef, by: &str, value: Value) -> Result<&'static str, Error> {
    let answer = Answer::new(value, Principal::named(by));
    let command = Command::ResolveNode { node: NodeId::parse("gate").unwrap(), interrupt: None, answer };
    Ok(env.engine.runs().execute(of, &command).await?.status().as_str())
}

/// The types of all events except those of nodes and runs.
async fn event_types(env: &TestEnv, of: &RunRef) -> Vec<String> {
    let log = env.log(of).await;
    let names = log.iter().map(|line| serde_json::from_str::<Value>(line).unwrap()["type"].clone());
    let names = names.map(|name| name.as_str().unwrap_or_default().to_owned());
    names.filter(|name| !name.starts_with("run.") && !name.starts_with("node.")).collect()
}

async fn a_gate_completes_after_the_required_approvals(env: TestEnv) {
    let config = json!({
        "requiredApprovals": 2, "approversList": ["ann", "bob", "tester"], "requesterMayNotApprove": true,
    });
    env.register(line("two", &[("gate", "core.approvalGate", config)])).await;
    let of = env.start("two").await;
    assert_eq!(answer_as(&env, &of, "ann", accept()).await.unwrap(), "waiting-approval");
    assert_eq!(answer_as(&env, &of, "ann", accept()).await.unwrap(), "waiting-approval");
    let refused = |result: Result<&str, Error>| match result {
        Err(Error::Refused(refusal)) => refusal,
        other => panic!("{other:?}"),
    };
    assert_eq!(
        refused(answer_as(&env, &of, "eve", accept()).await),
        Refusal::NotAnApprover("eve".to_owned())
    );
    assert_eq!(
        refused(answer_as(&env, &of, "tester", accept()).await),
        Refusal::OwnRequest("tester".to_owned())
    );
    assert_eq!(env.pending().await, ["gate"]);
    assert_eq!(answer_as(&env, &of, "bob", accept()).await.unwrap(), "completed");
    assert!(env.pending().await.is_empty());
    assert_eq!(
        event_types(&env, &of).await,
        [
            "interrupt.requested",
            "approval.requested",
            "holdpoint.vote.cast",
            "holdpoint.vote.repeated",
            "interrupt.resolved",
            "approval.received",
        ]
    );
    assert_eq!(env.run(&of).await.variables["quorum"]["approvals"], 2);
}

async fn a_side_question_and_its_answer_are_recorded_before_the_decision(env: TestEnv) {
    let config = json!({"actions": ["accept", "ask"]});
    env.register(line("asking", &[("gate", "core.approvalGate", config)])).await;
    let of = env.start("asking").await;
    let question = json!({"action": "ask", "question": "Why?"});
    assert_eq!(answer_as(&env, &of, "ann", question).await.unwrap(), "waiting-approval");
    let interrupt = env.run(&of).await.interrupts[0].id;
    let (answer, by) = ("So.".to_owned(), Principal::named("bot"));
    env.engine
        .runs()
        .execute(&of, &Command::AnswerSideQuestion { interrupt, ask: 1, answer, by })
        .await
        .unwrap();
    let exchange = &env.run(&of).await.variables["_askExchanges:gate"][0];
    assert_eq!((&exchange["question"], &exchange["answer"]), (&json!("Why?"), &json!("So.")));
    assert_eq!(answer_as(&env, &of, "ann", accept()).await.unwrap(), "completed");
}

async fn a_rejection_follows_its_edge_and_the_gate_asks_again_under_another_key(env: TestEnv) {
    let back = json!({
        "id": "back", "sourceNodeId": "gate", "targetNodeId": "gate", "triggerRule": "any_failed",
    });
    let first = json!({"id": "first", "sourceNodeId": "start", "targetNodeId": "gate"});
    let nodes = [node("start", "core.start", json!({})), node("gate", "core.approvalGate", json!({}))];
    env.register(graph("again", &nodes, &[first, back])).await;
    let of = env.start("again").await;
    assert_eq!(answer_as(&env, &of, "ann", json!({"action": "reject"})).await.unwrap(), "waiting-approval");
    assert_eq!(answer_as(&env, &of, "ann", accept()).await.unwrap(), "completed");
    let run = env.run(&of).await;
    assert_ne!(run.interrupts[0].key, run.interrupts[1].key);
    let log = env.log(&of).await;
    let failures: Vec<&String> = log.iter().filter(|line| line.contains("node.failed")).collect();
    assert_eq!(failures.len(), 1);
    assert!(failures[0].contains("approval_rejected") && !failures[0].contains("retryable"), "{failures:?}");
}

async fn interrupt_nodes_accept_their_kind_as_kind_or_reason(env: TestEnv) {
    let nodes = [
        ("open", "core.interrupt", json!({"kind": "conversation.start", "data": {"conversationId": "c"}})),
        (
            "gate",
            "core.interrupt",
            json!({"reason": "custom", "resumeKey": "k", "data": {"customKind": "x"}}),
        ),
        ("close", "core.interrupt", json!({"kind": "conversation.close", "data": {"conversationId": "c"}})),
    ];
    env.register(line("kinds", &nodes)).await;
    let of = env.start("kinds").await;
    assert_eq!(env.status(&of).await, "waiting-input");
    assert_eq!(
        env.run(&of).await.interrupt_by_key("k").map(|interrupt| interrupt.node.as_str()),
        Some("gate")
    );
    assert_eq!(answer_as(&env, &of, "ann", json!(5)).await.unwrap(), "completed");
    let run = env.run(&of).await;
    assert_eq!(run.conversations[0].id, format!("{}:c", of.run));
    assert!(run.conversations[0].closed_by.is_some());
}

async fn a_node_that_suspends_opens_an_interrupt_with_its_key_and_schema(database: TestDatabase) {
    struct Suspending;
    impl PureNode for Suspending {
        fn run(&self, context: &mut Context) -> Result<Outputs, Stop> {
            let request = SuspendRequest {
                resume_key: Some("k".to_owned()),
                answer_schema: Some(json!({"type": "number"})),
                timeout_ms: Some(5000),
                ..SuspendRequest::new(Kind::Custom, json!({"customKind": "x"}))
            };
            let first = context.suspend(request.clone())?;
            assert_eq!(context.suspend(request)?, first, "the key opens one interrupt");
            Ok(Outputs::from_iter([("answer".to_owned(), first)]))
        }
    }
    let env = TestEnv::with(database, |options| options.pure_node("test.suspending", Suspending)).await;
    env.register(line("flow", &[("gate", "test.suspending", json!({}))])).await;
    let of = env.start("flow").await;
    let run = env.run(&of).await;
    let asked = run.interrupt_by_key("k").expect("the interrupt is open");
    assert_eq!((asked.kind, asked.timeout_ms), (Kind::Custom, Some(5000)));
    let refused = answer_as(&env, &of, "ann", json!("five")).await;
    assert!(matches!(refused, Err(Error::Refused(_))), "the answer does not match the schema: {refused:?}");
    assert_eq!(answer_as(&env, &of, "ann", json!(5)).await.unwrap(), "completed");
    assert_eq!(env.run(&of).await.variables["answer"], json!(5));
}

async fn a_conversation_is_exchanged_and_closed(env: TestEnv) {
    let config = json!({
        "lifecycle": "open-exchange-close", "turnCount": 2, "prompt": "Colour?", "outcomeSchema": {"type": "string"},
    });
    env.register(line("talk", &[("gate", "core.conversationGate", config)])).await;
    let of = env.start("talk").await;
    assert_eq!(env.status(&of).await, "waiting-approval");
    assert!(answer_as(&env, &of, "ann", json!(5)).await.is_err());
    assert_eq!(answer_as(&env, &of, "ann", json!("red")).await.unwrap(), "waiting-approval");
    assert_eq!(answer_as(&env, &of, "ann", json!("blue")).await.unwrap(), "completed");
    let variables = env.run(&of).await.variables.clone();
    let id = format!("{}:gate.1", of.run);
    assert_eq!(*variables, json!({"conversationId": id, "turnCount": 2, "outcomes": ["red", "blue"]}));
    let of_conversation = |names: Vec<String>| {
        names.into_iter().filter(|name| name.starts_with("conversation.")).collect::<Vec<_>>()
    };
    assert_eq!(
        of_conversation(event_types(&env, &of).await),
        ["conversation.opened", "conversation.exchanged", "conversation.exchanged", "conversation.closed"]
    );
}

async fn a_conversation_with_mock_auto_resume_answers_itself(env: TestEnv) {
    let config = json!({"lifecycle": "open-exchange-close", "mockAutoResume": true, "turnCount": 1});
    env.register(line("mock", &[("gate", "core.conversationGate", config)])).await;
    let of = env.start("mock").await;
    assert_eq!(env.status(&of).await, "completed");
    assert!(event_types(&env, &of).await.contains(&"conversation.exchanged".to_owned()));
}

async fn decide(env: &TestEnv, decision: Value, options: Value) -> RunRef {
    let config = json!({"agentId": "planner", "mockDecision": decision});
    env.register(line("agent", &[("gate", "core.conformance.mock-agent", config)])).await;
    let configurable = options.as_object().cloned().unwrap();
    let id = WorkflowId::parse("agent").unwrap();
    let run = env.engine.runs().create(&id, StartRequest { configurable, ..start(json!({})) }).await.unwrap();
    RunRef { tenant: tenant(), run: run.id.clone() }
}

async fn a_low_confidence_decision_opens_an_interrupt(env: TestEnv) {
    let of = decide(&env, json!({"decision": "go", "confidence": 0.5}), json!({})).await;
    assert_eq!(env.status(&of).await, "waiting-approval");
    assert_eq!(answer_as(&env, &of, "ann", json!("stay")).await.unwrap(), "completed");
    assert_eq!(env.run(&of).await.variables["decision"], "stay");
    assert_eq!(event_types(&env, &of).await, ["agent.decided", "interrupt.requested", "interrupt.resolved"]);
    let lenient = json!({"escalationThreshold": 0.5});
    let of = decide(&env, json!({"decision": "go", "confidence": 0.5}), lenient).await;
    assert_eq!(env.status(&of).await, "completed");
    assert_eq!(event_types(&env, &of).await, ["agent.decided"]);
}

async fn a_decision_without_a_confidence_continues(env: TestEnv) {
    for confidence in [json!(null), json!("NaN")] {
        let of = decide(&env, json!({"decision": "go", "confidence": confidence}), json!({})).await;
        assert_eq!(env.status(&of).await, "completed");
        assert_eq!(env.run(&of).await.variables["decision"], "go");
        let flawed = env.log(&of).await.iter().any(|line| line.contains("not a finite number"));
        assert_eq!(flawed, confidence == "NaN");
    }
}

async fn invalid_gates_are_rejected(env: TestEnv) {
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
        match env.engine.workflows().register(&tenant(), definition).await {
            Err(Error::InvalidWorkflow(flaws)) => {
                assert!(flaws.iter().any(|flaw| flaw.field == field), "{field}: {flaws:?}");
            }
            other => panic!("{field}: {other:?}"),
        }
    }
}
