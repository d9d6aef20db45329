//! Workflows as tools: a child run carries out each call once, and the agent holds no dispatch until it has ended.

use std::sync::atomic::Ordering;

use holdpoint_agents::EngineAgents;
use holdpoint_engine::core::agent::CallStatus;
use holdpoint_engine::core::{ForkMode, RunRef, TenantId};
use holdpoint_engine::{CommitFault, Error, ForkRequest, InputMode, Overlay, RunFilter, WaitingRun};
use serde_json::{Value, json};

use super::{AgentEnv, agent, call, input, reject, resume, with_tools};
use crate::test_database::{Subject, TestDatabase, on_both};
use crate::test_env::child_of;
use crate::test_env::{TestEnv, accept, alice, graph, line, node, tenant};

on_both! {
    a_workflow_is_a_tool_and_its_outputs_are_the_result,
    an_agent_holds_no_dispatch_while_its_workflow_waits,
    two_workflows_and_another_call_run_in_parallel,
    a_workflow_that_cannot_start_or_fails_is_reported_to_the_agent,
    a_cancelled_workflow_is_reported_to_the_agent,
    a_cancelled_agent_cancels_its_workflows,
    a_new_message_cancels_the_workflow_and_continues_the_run,
    a_workflow_inherits_the_principals_that_spoke_to_its_agent,
    interrupting_a_thread_can_keep_an_agent_that_waits_for_its_workflow,
    a_workflow_starts_with_the_approved_arguments,
    arguments_are_checked_against_the_inputs_of_the_workflow,
    a_crash_around_any_commit_leaves_one_run_for_one_call,
    agents_that_call_themselves_stop_at_the_depth_limit,
    a_branch_starts_its_own_runs_for_calls_in_flight,
    a_workflow_of_another_tenant_is_not_found,
    a_superseded_workflow_ends_with_more_child_runs_than_one_commit_holds,
}

fn tool(name: &str) -> Value {
    json!({ "type": "workflow", "name": name, "workflowId": name, "description": format!("does {name}") })
}

/// The clerk with workflows as tools, all of them allowed.
fn clerk(steps: &Value, workflows: &[&str]) -> Value {
    let mut definition = agent(steps);
    definition["tools"].as_array_mut().unwrap().extend(workflows.iter().map(|name| tool(name)));
    let allowed = workflows.iter().map(|name| json!({ "tool": name, "behavior": "allow" }));
    definition["permissions"]["rules"].as_array_mut().unwrap().extend(allowed);
    definition
}

/// One call of `refund`, and a final reply with its result.
fn refunds(arguments: Value) -> Value {
    json!([{ "calls": [call("c1", "refund", arguments)] }, { "text": "So: {{lastResult}}" }])
}

/// A workflow with an optional gate that returns the amount. The pin is sensitive and not part of the result.
fn refund(id: &str, asks: bool) -> Value {
    let mut pay = node("pay", "core.identity", json!({}));
    pay["inputs"] = json!({
        "paid": { "type": "variable", "variableName": "amount" }, "pin": { "type": "static", "value": "1234" },
    });
    let gate = node("gate", "core.approvalGate", json!({ "title": "Pay?" }));
    let edge = json!({ "id": "e", "sourceNodeId": "gate", "targetNodeId": "pay" });
    let mut workflow = if asks { graph(id, &[gate, pay], &[edge]) } else { graph(id, &[pay], &[]) };
    workflow["variables"] = json!([
        { "name": "amount", "type": "number", "required": true },
        { "name": "pin", "type": "string", "sensitive": true },
    ]);
    workflow
}

impl AgentEnv {
    async fn runs(&self) -> usize {
        let filter = RunFilter { limit: 100, ..RunFilter::default() };
        self.env.engine.runs().list(&tenant(), filter).await.unwrap().len()
    }

    async fn declare_and_send(&self, definition: Value) -> RunRef {
        self.declare(definition).await;
        self.send(None, "please").await
    }

    async fn result(&self, of: &RunRef, call: &str) -> Value {
        let agent = self.agent(of).await;
        let results = agent.messages.iter().filter(|message| message.call_id.as_deref() == Some(call));
        let results: Vec<_> = results.map(|message| message.content.clone()).collect();
        assert_eq!(results.len(), 1, "{results:?}");
        results[0].clone()
    }
}

async fn a_workflow_is_a_tool_and_its_outputs_are_the_result(agents: AgentEnv) {
    agents.env.register(refund("refund", false)).await;
    let of = agents.declare_and_send(clerk(&refunds(json!({ "amount": 5 })), &["refund"])).await;
    assert_eq!(agents.env.status(&of).await, "completed");
    assert_eq!(agents.call(&of, "c1").await, CallStatus::Succeeded);
    assert_eq!(agents.result(&of, "c1").await, json!({ "paid": 5 }));
    assert_eq!(agents.agent(&of).await.last_reply().unwrap().text(), "So: {\"paid\":5}");
    let child = agents.env.run(&child_of(&of, 1)).await;
    let started = child.started.clone().unwrap();
    assert_eq!(Value::Object(started.inputs.clone()), json!({ "amount": 5 }));
    assert_eq!(started.parent.as_ref().map(|parent| &parent.run), Some(&of.run));
    assert_eq!(agents.env.run(&of).await.children[0].call.as_deref(), Some("c1"));
    assert_eq!((agents.runs().await, agents.env.drain().await), (2, 0));
}

async fn an_agent_holds_no_dispatch_while_its_workflow_waits(agents: AgentEnv) {
    agents.env.register(refund("refund", true)).await;
    let of = agents.declare_and_send(clerk(&refunds(json!({ "amount": 5 })), &["refund"])).await;
    let child = child_of(&of, 1);
    for _ in 0..2 {
        for of in [&of, &child] {
            assert_eq!(agents.env.status(of).await, "waiting-approval");
        }
        assert_eq!(agents.dispatches().await.keys().collect::<Vec<_>>(), ["acked"]);
        assert_eq!(agents.env.drain().await, 0);
    }
    assert!(agents.env.run(&of).await.interrupts.is_empty(), "the interrupt belongs to the child");
    let agents = agents.reopen().await;
    assert_eq!((agents.env.drain().await, agents.call(&of, "c1").await), (0, CallStatus::Running));
    agents.env.answer(&child, "gate", accept()).await.unwrap();
    agents.env.drain().await;
    assert_eq!(agents.env.status(&of).await, "completed");
    assert_eq!(agents.result(&of, "c1").await, json!({ "paid": 5 }));
    assert_eq!(agents.runs().await, 2);
}

async fn two_workflows_and_another_call_run_in_parallel(agents: AgentEnv) {
    for id in ["refund", "credit"] {
        agents.env.register(refund(id, true)).await;
    }
    let calls = [
        call("c1", "refund", json!({ "amount": 1 })),
        call("c2", "look", json!({ "to": "a" })),
        call("c3", "credit", json!({ "amount": 3 })),
        call("c4", "send", json!({ "to": "bob" })),
    ];
    let definition = clerk(&json!([{ "calls": calls }, { "text": "Done." }]), &["refund", "credit"]);
    let of = agents.declare_and_send(definition).await;
    let states = async |agents: &AgentEnv| {
        let agent = agents.agent(&of).await;
        agent.calls.iter().map(|call| call.status.as_str()).collect::<Vec<_>>()
    };
    assert_eq!(states(&agents).await, ["running", "succeeded", "running", "suspended"]);
    assert_eq!(agents.dispatches().await.keys().collect::<Vec<_>>(), ["acked"]);
    agents.env.answer(&child_of(&of, 2), "gate", accept()).await.unwrap();
    agents.env.drain().await;
    assert_eq!(states(&agents).await, ["running", "succeeded", "succeeded", "suspended"]);
    agents.decide(&of, "c4", &resume("d1", Value::Null)).await.unwrap();
    agents.env.drain().await;
    assert_eq!(states(&agents).await, ["running", "succeeded", "succeeded", "succeeded"]);
    assert_eq!((agents.env.status(&of).await, agents.agent(&of).await.steps), ("waiting-approval", 1));
    agents.env.answer(&child_of(&of, 1), "gate", accept()).await.unwrap();
    agents.env.drain().await;
    assert_eq!(agents.env.status(&of).await, "completed");
    let (one, three) = (agents.result(&of, "c1").await, agents.result(&of, "c3").await);
    assert_eq!((one, three, agents.calls().len()), (json!({ "paid": 1 }), json!({ "paid": 3 }), 2));
}

async fn a_workflow_that_cannot_start_or_fails_is_reported_to_the_agent(agents: AgentEnv) {
    let boom = json!({ "code": "no_money", "message": "the till is empty" });
    agents.env.register(line("broken", &[("boom", "core.fail", boom)])).await;
    agents.env.register(line("quiet", &[("only", "core.noop", json!({}))])).await;
    let calls = [
        call("c1", "broken", json!({})),
        call("c2", "nowhere", json!({})),
        call("c3", "quiet", json!({})),
        call("c4", "look", json!({})),
    ];
    let definition = clerk(&json!([{ "calls": calls }, { "text": "Oh." }]), &["broken", "nowhere", "quiet"]);
    let of = agents.declare_and_send(definition).await;
    assert_eq!(agents.env.status(&of).await, "completed");
    for (id, why) in [("c1", "no_money: the till is empty"), ("c2", "there is no workflow nowhere")] {
        assert_eq!(agents.call(&of, id).await, CallStatus::Failed);
        let result = agents.result(&of, id).await["error"].as_str().unwrap().to_owned();
        assert!(result.contains(why), "{result}");
    }
    assert_eq!(agents.result(&of, "c3").await, json!({ "status": "completed" }));
    assert_eq!(agents.env.drain().await, 0);
}

async fn a_cancelled_workflow_is_reported_to_the_agent(agents: AgentEnv) {
    agents.env.register(refund("refund", true)).await;
    let of = agents.declare_and_send(clerk(&refunds(json!({ "amount": 5 })), &["refund"])).await;
    agents.env.engine.runs().cancel(&child_of(&of, 1), None, alice()).await.unwrap();
    agents.env.drain().await;
    assert_eq!(
        (agents.env.status(&of).await, agents.call(&of, "c1").await),
        ("completed", CallStatus::Cancelled)
    );
    let result = agents.result(&of, "c1").await.to_string();
    assert!(result.contains("was cancelled"), "{result}");
}

async fn a_cancelled_agent_cancels_its_workflows(agents: AgentEnv) {
    agents.env.register(refund("refund", true)).await;
    let of = agents.declare_and_send(clerk(&refunds(json!({ "amount": 5 })), &["refund"])).await;
    agents.env.engine.runs().cancel(&of, None, alice()).await.unwrap();
    for of in [&of, &child_of(&of, 1)] {
        assert_eq!(agents.env.status(of).await, "cancelled");
    }
    assert!(agents.env.pending().await.is_empty());
    assert_eq!(agents.env.drain().await, 0);
}

async fn a_new_message_cancels_the_workflow_and_continues_the_run(agents: AgentEnv) {
    agents.env.register(refund("refund", true)).await;
    let of = agents.declare_and_send(clerk(&refunds(json!({ "amount": 5 })), &["refund"])).await;
    let never_mind = input(Some(agents.env.run(&of).await.thread()), "never mind");
    let run = agents.env.engine.agents().send_input(never_mind, InputMode::Queue).await.unwrap();
    assert_eq!(run.id, of.run);
    assert_eq!(agents.env.status(&child_of(&of, 1)).await, "cancelled", "in the same commit");
    agents.env.drain().await;
    assert_eq!(
        (agents.env.status(&of).await, agents.call(&of, "c1").await),
        ("completed", CallStatus::Cancelled)
    );
    assert_eq!(agents.result(&of, "c1").await, json!({ "cancelled": "superseded by input" }));
    assert!(agents.env.pending().await.is_empty());
    assert_eq!(agents.env.drain().await, 0);
}

async fn a_workflow_inherits_the_principals_that_spoke_to_its_agent(agents: AgentEnv) {
    agents.env.register(refund("refund", true)).await;
    let again = json!({ "calls": [call("c2", "refund", json!({ "amount": 900 }))] });
    let steps =
        json!([{ "calls": [call("c1", "refund", json!({ "amount": 5 }))] }, again, { "text": "Done." }]);
    let of = agents.declare_and_send(clerk(&steps, &["refund"])).await;
    let thread = agents.env.run(&of).await.thread().to_owned();
    let mut input = input(Some(&thread), "900 to bob");
    input.messages[0].by = Some("bob".to_owned());
    agents.env.engine.agents().send_input(input, InputMode::Queue).await.unwrap();
    agents.env.drain().await;
    let (first, second) = (agents.env.run(&child_of(&of, 1)).await, agents.env.run(&child_of(&of, 2)).await);
    assert!(!first.requesters().contains(&"bob"), "a later message adds no requester");
    assert!(second.requesters().contains(&"bob"));
    assert_eq!(second.started.as_ref().unwrap().requested_by, ["bob"]);
}

async fn interrupting_a_thread_can_keep_an_agent_that_waits_for_its_workflow(agents: AgentEnv) {
    agents.env.register(refund("refund", true)).await;
    let of = agents.declare_and_send(clerk(&refunds(json!({ "amount": 5 })), &["refund"])).await;
    let thread = agents.env.run(&of).await.thread().to_owned();
    let engine = &agents.env.engine;
    let kept = engine.threads().interrupt(&tenant(), &thread, WaitingRun::Keep, alice()).await.unwrap();
    assert_eq!((kept.cancelled, agents.env.status(&of).await), (None, "waiting-approval"));
    let ended = engine.threads().interrupt(&tenant(), &thread, WaitingRun::Cancel, alice()).await.unwrap();
    assert_eq!(ended.cancelled, Some(of.run.clone()));
    assert_eq!(agents.env.status(&child_of(&of, 1)).await, "cancelled");
}

async fn a_workflow_starts_with_the_approved_arguments(agents: AgentEnv) {
    agents.env.register(refund("refund", false)).await;
    let mut definition = clerk(&refunds(json!({ "amount": 5 })), &["refund"]);
    let rules = definition["permissions"]["rules"].as_array_mut().unwrap();
    rules.retain(|rule| rule["tool"] != "refund");
    rules.push(json!({ "tool": "refund", "behavior": "ask" }));
    agents.declare(definition).await;
    let (yes, edit, no) = (
        agents.send(None, "please").await,
        agents.send(None, "please").await,
        agents.send(None, "please").await,
    );
    assert_eq!((agents.env.status(&yes).await, agents.runs().await), ("waiting-approval", 3));
    agents.decide(&yes, "c1", &resume("d1", Value::Null)).await.unwrap();
    let edited = json!({ "arguments": { "amount": 2 } });
    agents.decide(&edit, "c1", &resume("d1", edited)).await.unwrap();
    agents.decide(&no, "c1", &reject("d1")).await.unwrap();
    agents.env.drain().await;
    assert_eq!(agents.result(&yes, "c1").await, json!({ "paid": 5 }));
    assert_eq!(agents.result(&edit, "c1").await, json!({ "paid": 2 }));
    assert_eq!(agents.call(&no, "c1").await, CallStatus::Cancelled);
    assert_eq!(agents.runs().await, 5, "a rejected call starts no run");
}

async fn arguments_are_checked_against_the_inputs_of_the_workflow(agents: AgentEnv) {
    agents.env.register(refund("refund", false)).await;
    let of = agents.declare_and_send(clerk(&refunds(json!({ "amount": "five" })), &["refund"])).await;
    assert_eq!(agents.call(&of, "c1").await, CallStatus::Failed);
    let result = agents.result(&of, "c1").await.to_string();
    assert!(result.contains("the arguments are wrong") && result.contains("/amount"), "{result}");
    assert!(agents.env.run(&of).await.children.is_empty());
    // The schema of the definition takes precedence over the variables of the workflow.
    let mut definition = clerk(&refunds(json!({ "amount": 5 })), &["refund"]);
    let most = json!({ "type": "object", "properties": { "amount": { "maximum": 3 } } });
    definition["tools"].as_array_mut().unwrap().last_mut().unwrap()["parameters"] = most;
    let of = agents.declare_and_send(definition).await;
    assert_eq!(agents.call(&of, "c1").await, CallStatus::Failed);
}

/// Performs a run of an agent with a waiting workflow and another call. Steps that already happened are skipped.
async fn perform(env: &TestEnv) -> Result<RunRef, Error> {
    let engine = &env.engine;
    engine.workflows().register(&tenant(), refund("refund", true)).await?;
    let calls = [call("c1", "refund", json!({ "amount": 5 })), call("c2", "look", json!({}))];
    engine
        .agents()
        .put(&tenant(), clerk(&json!([{ "calls": calls }, { "text": "Done." }]), &["refund"]), None)
        .await?;
    let known = engine.threads().runs(&tenant(), "t", None, 1).await?.into_iter().next();
    let run = match known {
        Some(known) => known.run,
        None => engine.agents().start(input(Some("t"), "please")).await?.id.clone(),
    };
    let of = RunRef { tenant: tenant(), run };
    engine.worker().drain().await?;
    let child = child_of(&of, 1);
    if let Some(asked) = engine.runs().get(&child).await?.waiting_on() {
        engine.runs().execute(&child, &crate::test_env::resolve(asked.id, accept())).await?;
    }
    engine.worker().drain().await?;
    Ok(of)
}

async fn a_crash_around_any_commit_leaves_one_run_for_one_call(database: TestDatabase) {
    let agents = AgentEnv::at(database.another().await).await;
    perform(&agents.env).await.unwrap();
    let commits = agents.env.engine.counters().commits.load(Ordering::SeqCst);
    for n in 3..=commits {
        for stop in [CommitFault::StopBefore(n), CommitFault::StopAfter(n)] {
            let calls = super::Calls::default();
            let configure = |options| with_tools(&calls)(options).fault(stop);
            let env = TestEnv::with(database.another().await, configure).await;
            assert!(perform(&env).await.is_err(), "{stop:?} was reached");
            let agents = AgentEnv { env: env.reopen(with_tools(&calls)).await, calls };
            let of = perform(&agents.env).await.unwrap();
            assert_eq!(agents.env.status(&of).await, "completed", "{stop:?}");
            assert_eq!(agents.result(&of, "c1").await, json!({ "paid": 5 }), "{stop:?}");
            assert_eq!(agents.runs().await, 2, "{stop:?}");
            assert_eq!(agents.env.drain().await, 0, "{stop:?}");
        }
    }
}

async fn agents_that_call_themselves_stop_at_the_depth_limit(agents: AgentEnv) {
    let steps = json!([{ "calls": [call("c1", "me", json!({ "message": "again" }))] }, { "text": "Done." }]);
    let mut definition = clerk(&steps, &["me"]);
    definition["tools"].as_array_mut().unwrap().last_mut().unwrap()["workflowId"] = json!("agent:clerk");
    let of = agents.declare_and_send(definition).await;
    assert_eq!((agents.env.status(&of).await, agents.runs().await), ("completed", 17));
    assert_eq!(agents.result(&of, "c1").await["text"], "Done.");
    let below = (0..16).fold(of, |above, _| child_of(&above, 1));
    assert_eq!(agents.agent(&below).await.messages[0].text(), "again");
    let result = agents.result(&below, "c1").await.to_string();
    assert!(result.contains("too_deep"), "{result}");
}

async fn a_branch_starts_its_own_runs_for_calls_in_flight(agents: AgentEnv) {
    agents.env.register(refund("refund", true)).await;
    let of = agents.declare_and_send(clerk(&refunds(json!({ "amount": 5 })), &["refund"])).await;
    let seq = agents.env.run(&of).await.seq;
    let dispatched = agents.env.log(&of).await.iter().position(|event| event.contains("node.dispatched"));
    for from_seq in [seq, dispatched.unwrap() as u64 + 1, dispatched.unwrap() as u64] {
        let request = ForkRequest {
            by: "tester".to_owned(),
            credential: None,
            mode: ForkMode::Branch,
            from_seq,
            overlay: Overlay::default(),
            once: None,
        };
        let copy = agents.env.engine.runs().fork(&of, request).await.unwrap();
        let copy = RunRef { tenant: tenant(), run: copy.id.clone() };
        agents.env.drain().await;
        assert_eq!(agents.env.status(&copy).await, "waiting-approval", "{from_seq}");
        agents.env.answer(&child_of(&copy, 1), "gate", accept()).await.unwrap();
        agents.env.drain().await;
        assert_eq!(agents.env.status(&copy).await, "completed", "{from_seq}");
    }
    assert_eq!(agents.env.status(&of).await, "waiting-approval", "the source waits for its own child");
}

async fn a_workflow_of_another_tenant_is_not_found(agents: AgentEnv) {
    let other = TenantId::parse("other").unwrap();
    agents.env.engine.workflows().register(&other, refund("refund", false)).await.unwrap();
    let of = agents.declare_and_send(clerk(&refunds(json!({ "amount": 5 })), &["refund"])).await;
    let result = agents.result(&of, "c1").await.to_string();
    assert!(result.contains("there is no workflow refund"), "{result}");
}

async fn a_superseded_workflow_ends_with_more_child_runs_than_one_commit_holds(database: TestDatabase) {
    let calls = super::Calls::default();
    let env = TestEnv::with(database, |options| with_tools(&calls)(options).cascade_max(1)).await;
    let agents = AgentEnv { env, calls };
    agents.env.register(refund("refund", true)).await;
    let config = json!({ "workflowId": "refund", "inputMapping": { "amount": "amount" } });
    let below = ["a", "b"].map(|id| node(id, "core.subWorkflow", config.clone()));
    agents.env.register(graph("twice", &below, &[])).await;
    let steps = json!([{ "calls": [call("c1", "twice", json!({ "amount": 5 }))] }, { "text": "Done." }]);
    let of = agents.declare_and_send(clerk(&steps, &["twice"])).await;
    assert_eq!((agents.env.status(&of).await, agents.runs().await), ("waiting-approval", 4));
    let thread = agents.env.run(&of).await.thread().to_owned();
    let never_mind = input(Some(&thread), "never mind");
    agents.env.engine.agents().send_input(never_mind, InputMode::Queue).await.unwrap();
    let twice = child_of(&of, 1);
    assert_eq!(agents.env.status(&twice).await, "waiting-approval", "one commit cannot cancel them all");
    agents.env.drain().await;
    for below in [&twice, &child_of(&twice, 1), &child_of(&twice, 2)] {
        assert_eq!(agents.env.status(below).await, "cancelled");
    }
    assert_eq!(agents.env.status(&of).await, "completed");
    assert!(agents.env.pending().await.is_empty());
}
