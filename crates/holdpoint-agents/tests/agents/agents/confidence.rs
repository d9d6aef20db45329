//! Models that return a confidence: a reply below the threshold waits until an approver ratifies it.

use holdpoint_agents::EngineAgents;
use holdpoint_engine::core::agent::{CallStatus, Role};
use holdpoint_engine::core::{ForkMode, RunRef, StartRequest, WorkflowId};
use holdpoint_engine::{Engine, ForkRequest, InputMode, Overlay};
use serde_json::{Value, json};

use super::{AgentEnv, agent, call, input, send_script};
use crate::test_database::on_both;
use crate::test_env::{accept, line, start, tenant};

on_both! {
    a_low_confidence_reply_waits_before_its_calls_are_made,
    a_ratified_reply_takes_effect,
    a_different_decision_is_sent_to_the_model,
    a_final_low_confidence_reply_ends_the_run_only_after_it_is_ratified,
    the_threshold_of_the_definition_takes_precedence_over_that_of_the_run,
    a_new_message_withdraws_a_low_confidence_reply,
    answers_to_low_confidence_replies_survive_a_restart,
    runs_with_answered_interrupts_are_replayed,
}

/// A model that calls `look` with this confidence, and then replies with text.
fn unsure(confidence: Value) -> Value {
    let mut first = json!({ "text": "I look.", "calls": [call("c1", "look", json!({ "at": "sky" }))] });
    if !confidence.is_null() {
        first["confidence"] = confidence;
    }
    json!([first, { "text": "Then: {{user}}" }])
}

fn shown_decision() -> Value {
    json!({ "text": "I look.", "calls": [call("c1", "look", json!({ "at": "sky" }))] })
}

/// The types of all events except chunks.
async fn log(agents: &AgentEnv, of: &RunRef) -> Vec<String> {
    let log = agents.env.log(of).await;
    let kinds = log.iter().map(|event| serde_json::from_str::<Value>(event).unwrap()["type"].clone());
    let kinds = kinds.map(|kind| kind.as_str().unwrap().to_owned());
    kinds.filter(|kind| !kind.ends_with("chunk")).collect()
}

async fn last_reply(agents: &AgentEnv, of: &RunRef) -> String {
    agents.agent(of).await.last_reply().unwrap().text()
}

async fn a_low_confidence_reply_waits_before_its_calls_are_made(agents: AgentEnv) {
    let of = agents.run_script(&unsure(json!(0.69))).await;
    assert_eq!((agents.env.status(&of).await, agents.calls().len()), ("waiting-approval", 0));
    let kinds = log(&agents, &of).await;
    let tail = ["agent.toolCalled", "agent.decided", "interrupt.requested", "node.suspended"];
    assert!(kinds.ends_with(&tail.map(str::to_owned)), "{kinds:?}");
    let run = agents.env.run(&of).await;
    let interrupt = run.open_interrupts().next().unwrap();
    let data = json!({ "agentId": "clerk", "threshold": 0.7, "observed": 0.69, "decision": shown_decision(), "messageId": "reply-1" });
    assert_eq!((interrupt.kind.as_str(), &*interrupt.data), ("low-confidence", &data));
    assert_eq!(agents.env.pending().await, ["agent"]);
    for sure in [json!(0.7), json!(1), Value::Null] {
        let of = agents.run_script(&unsure(sure.clone())).await;
        assert_eq!(agents.env.status(&of).await, "completed", "{sure}");
        let decided = log(&agents, &of).await.iter().filter(|kind| *kind == "agent.decided").count();
        assert_eq!(decided, usize::from(!sure.is_null()), "a reply without a confidence records no decision");
    }
}

async fn a_ratified_reply_takes_effect(agents: AgentEnv) {
    agents.declare(agent(&unsure(json!(0.2)))).await;
    for value in [accept(), shown_decision()] {
        let (of, before) = (agents.send(None, "please").await, agents.calls().len());
        agents.env.answer(&of, "agent", value).await.unwrap();
        agents.env.drain().await;
        assert_eq!((agents.env.status(&of).await, agents.calls().len()), ("completed", before + 1));
        assert_eq!(last_reply(&agents, &of).await, "Then: please");
    }
}

async fn a_different_decision_is_sent_to_the_model(agents: AgentEnv) {
    let of = agents.run_script(&unsure(json!(0.2))).await;
    agents.env.answer(&of, "agent", json!("Look at the sea")).await.unwrap();
    agents.env.drain().await;
    assert_eq!((agents.env.status(&of).await, agents.calls()), ("completed", Vec::new()));
    assert_eq!(agents.call(&of, "c1").await, CallStatus::Cancelled);
    let agent = agents.agent(&of).await;
    let message = agent.messages.iter().find(|message| message.id == "decision-1").unwrap();
    assert_eq!((message.role, message.by.as_deref()), (Role::User, Some("alice")));
    let last = last_reply(&agents, &of).await;
    assert!(last.starts_with("Then: ") && last.ends_with("Look at the sea"), "{last}");
}

async fn a_final_low_confidence_reply_ends_the_run_only_after_it_is_ratified(agents: AgentEnv) {
    let steps = json!([{ "text": "It is blue.", "confidence": 0.1 }, { "text": "Sorry." }]);
    for (value, last) in [(json!("It is blue."), "It is blue."), (json!("It is red."), "Sorry.")] {
        let of = agents.run_script(&steps).await;
        assert_eq!(agents.env.status(&of).await, "waiting-approval");
        agents.env.answer(&of, "agent", value).await.unwrap();
        agents.env.drain().await;
        assert_eq!(agents.env.status(&of).await, "completed");
        assert_eq!(last_reply(&agents, &of).await, last);
    }
}

async fn status_in_a_workflow(agents: &AgentEnv, options: Value) -> &'static str {
    let id = WorkflowId::parse("flow").unwrap();
    let options = options.as_object().unwrap().clone();
    let begin = StartRequest { configurable: options, ..start(json!({ "prompt": "please" })) };
    let run = agents.env.engine.runs().create(&id, begin).await.unwrap();
    agents.env.drain().await;
    agents.env.status(&RunRef { tenant: tenant(), run: run.id.clone() }).await
}

async fn the_threshold_of_the_definition_takes_precedence_over_that_of_the_run(agents: AgentEnv) {
    let strict = json!({ "escalationThreshold": 0.95 });
    let lax = json!({ "escalationThreshold": 0.05 });
    agents.env.register(line("flow", &[("agent", "core.agent", json!({ "agentId": "clerk" }))])).await;
    agents.declare(agent(&unsure(json!(0.5)))).await;
    assert_eq!(status_in_a_workflow(&agents, json!({})).await, "waiting-approval");
    assert_eq!(status_in_a_workflow(&agents, lax.clone()).await, "completed");
    for (own, expected) in [(0.5, "completed"), (0.51, "waiting-approval"), (0.0, "completed")] {
        let mut definition = agent(&unsure(json!(0.5)));
        definition["escalationThreshold"] = json!(own);
        agents.declare(definition).await;
        assert_eq!(status_in_a_workflow(&agents, strict.clone()).await, expected, "{own}");
    }
    let mut wrong = agent(&unsure(json!(0.5)));
    wrong["escalationThreshold"] = json!(1.5);
    let flaw = agents.env.engine.agents().put(&tenant(), wrong, None).await.unwrap_err();
    assert!(flaw.to_string().contains("escalationThreshold"), "{flaw}");
}

async fn a_new_message_withdraws_a_low_confidence_reply(agents: AgentEnv) {
    let of = agents.run_script(&unsure(json!(0.2))).await;
    let thread = agents.env.run(&of).await.thread().to_owned();
    agents
        .env
        .engine
        .agents()
        .send_input(input(Some(&thread), "never mind"), InputMode::Queue)
        .await
        .unwrap();
    agents.env.drain().await;
    assert_eq!((agents.env.status(&of).await, agents.calls()), ("completed", Vec::new()));
    assert_eq!(last_reply(&agents, &of).await, "Then: never mind");
    assert!(agents.env.pending().await.is_empty());
}

async fn answers_to_low_confidence_replies_survive_a_restart(agents: AgentEnv) {
    let of = agents.run_script(&unsure(json!(0.2))).await;
    let other = agents.send(None, "again").await;
    let agents = agents.reopen().await;
    agents.env.answer(&of, "agent", accept()).await.unwrap();
    agents.env.answer(&other, "agent", json!("no")).await.unwrap();
    let agents = agents.reopen().await;
    agents.env.drain().await;
    assert_eq!(finished(&agents.env.engine, &of).await, [true, true]);
    assert_eq!(finished(&agents.env.engine, &other).await, [true, false]);
    assert_eq!(agents.calls().len(), 1);
}

/// Returns two flags: the run has ended, and its call was made.
async fn finished(engine: &Engine, of: &RunRef) -> [bool; 2] {
    let run = engine.runs().get(of).await.unwrap();
    let made = super::agent_of(&run).call("c1").unwrap().status == CallStatus::Succeeded;
    [run.finished(), made]
}

async fn runs_with_answered_interrupts_are_replayed(agents: AgentEnv) {
    let overruled = (unsure(json!(0.2)), json!("Look at the sea"));
    for (steps, value) in [(send_script(), accept()), (unsure(json!(0.2)), accept()), overruled] {
        let of = agents.run_script(&steps).await;
        agents.env.answer(&of, "agent", value).await.unwrap();
        agents.env.drain().await;
        let (made, expected) = (agents.calls().len(), log(&agents, &of).await);
        for from_seq in 0..=agents.env.run(&of).await.seq {
            let (by, mode, overlay) = ("forker".to_owned(), ForkMode::Replay, Overlay::default());
            let request = ForkRequest { by, credential: None, mode, from_seq, overlay, once: None };
            let copy = agents.env.engine.runs().fork(&of, request).await.unwrap();
            assert!(copy.finished() && !copy.diverged, "from {from_seq}");
            let copy = RunRef { tenant: tenant(), run: copy.id.clone() };
            assert_eq!(log(&agents, &copy).await, expected, "from {from_seq}");
        }
        assert_eq!(agents.calls().len(), made, "no tool is called again");
    }
}
