//! Tools that are workflows: a run carries out the call, once, and the agent holds nothing until it has ended.

use std::sync::atomic::Ordering;

use holdpoint_engine::core::agent::CallStatus;
use holdpoint_engine::core::{ForkMode, RunRef, TenantId};
use holdpoint_engine::{Error, Fault, ForkRequest, InputMode, Overlay, RunFilter};
use serde_json::{Value, json};

use super::{Office, agent, call, furnished, refuse, resume, talk};
use crate::families::child_of;
use crate::house::{House, accept, alice, graph, line, node, tenant};
use crate::place::{Place, Subject, on_both};

on_both! {
    a_workflow_is_a_tool_and_what_it_comes_to_is_the_result,
    an_agent_holds_nothing_while_its_workflow_waits_over_a_restart_too,
    two_workflows_and_another_call_go_on_side_by_side,
    a_workflow_that_cannot_begin_or_fails_is_told_to_the_agent,
    a_workflow_that_is_cancelled_is_told_to_the_agent,
    a_cancelled_agent_takes_its_workflows_along,
    talking_on_cancels_the_workflow_and_goes_on_in_the_same_run,
    a_workflow_inherits_the_principals_that_spoke_to_its_agent,
    a_thread_that_is_interrupted_leaves_an_agent_that_waits_for_its_workflow,
    a_workflow_that_rules_ask_about_starts_with_the_arguments_that_were_approved,
    arguments_are_held_against_the_inputs_that_the_workflow_declares,
    a_crash_around_any_commit_leaves_one_run_for_one_call,
    agents_that_call_each_other_end_where_runs_may_be_no_deeper,
    a_branch_has_runs_of_its_own_for_calls_under_way,
    a_workflow_of_another_tenant_is_nobodys_here,
    a_workflow_that_is_given_up_ends_also_with_more_runs_below_it_than_one_commit_holds,
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

/// One call of `refund`, and a last word that repeats what it came to.
fn refunds(arguments: Value) -> Value {
    json!([{ "calls": [call("c1", "refund", arguments)] }, { "text": "So: {{lastResult}}" }])
}

/// Asks first, if it is told to; then says what was paid. The pin is nobody's business.
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

impl Office {
    async fn runs(&self) -> usize {
        let filter = RunFilter { limit: 100, ..RunFilter::default() };
        self.house.engine.runs(&tenant(), filter).await.unwrap().len()
    }

    async fn told_refund(&self, definition: Value) -> RunRef {
        self.hire(definition).await;
        self.told(None, "please").await
    }

    async fn result(&self, of: &RunRef, call: &str) -> Value {
        let agent = self.agent(of).await;
        let results = agent.messages.iter().filter(|said| said.call_id.as_deref() == Some(call));
        let results: Vec<_> = results.map(|said| said.content.clone()).collect();
        assert_eq!(results.len(), 1, "{results:?}");
        results[0].clone()
    }
}

async fn a_workflow_is_a_tool_and_what_it_comes_to_is_the_result(office: Office) {
    office.house.register(refund("refund", false)).await;
    let of = office.told_refund(clerk(&refunds(json!({ "amount": 5 })), &["refund"])).await;
    assert_eq!(office.house.status(&of).await, "completed");
    assert_eq!(office.call(&of, "c1").await, CallStatus::Succeeded);
    assert_eq!(office.result(&of, "c1").await, json!({ "paid": 5 }));
    assert_eq!(office.agent(&of).await.last_reply().unwrap().text(), "So: {\"paid\":5}");
    let child = office.house.run(&child_of(&of, 1)).await;
    let started = child.started.clone().unwrap();
    assert_eq!(Value::Object(started.inputs.clone()), json!({ "amount": 5 }));
    assert_eq!(started.parent.as_ref().map(|parent| &parent.run), Some(&of.run));
    assert_eq!(office.house.run(&of).await.children[0].call.as_deref(), Some("c1"));
    assert_eq!((office.runs().await, office.house.drain().await), (2, 0));
}

async fn an_agent_holds_nothing_while_its_workflow_waits_over_a_restart_too(office: Office) {
    office.house.register(refund("refund", true)).await;
    let of = office.told_refund(clerk(&refunds(json!({ "amount": 5 })), &["refund"])).await;
    let child = child_of(&of, 1);
    for _ in 0..2 {
        for of in [&of, &child] {
            assert_eq!(office.house.status(of).await, "waiting-approval");
        }
        assert_eq!(office.dispatches().await.keys().collect::<Vec<_>>(), ["acked"]);
        assert_eq!(office.house.drain().await, 0);
    }
    assert!(office.house.run(&of).await.interrupts.is_empty(), "the question is the child's");
    let office = office.reopened().await;
    assert_eq!((office.house.drain().await, office.call(&of, "c1").await), (0, CallStatus::Running));
    office.house.answer(&child, "gate", accept()).await.unwrap();
    office.house.drain().await;
    assert_eq!(office.house.status(&of).await, "completed");
    assert_eq!(office.result(&of, "c1").await, json!({ "paid": 5 }));
    assert_eq!(office.runs().await, 2);
}

async fn two_workflows_and_another_call_go_on_side_by_side(office: Office) {
    for id in ["refund", "credit"] {
        office.house.register(refund(id, true)).await;
    }
    let calls = [
        call("c1", "refund", json!({ "amount": 1 })),
        call("c2", "look", json!({ "to": "a" })),
        call("c3", "credit", json!({ "amount": 3 })),
        call("c4", "send", json!({ "to": "bob" })),
    ];
    let definition = clerk(&json!([{ "calls": calls }, { "text": "Done." }]), &["refund", "credit"]);
    let of = office.told_refund(definition).await;
    let states = async |office: &Office| {
        let agent = office.agent(&of).await;
        agent.calls.iter().map(|call| call.status.as_str()).collect::<Vec<_>>()
    };
    assert_eq!(states(&office).await, ["running", "succeeded", "running", "suspended"]);
    assert_eq!(office.dispatches().await.keys().collect::<Vec<_>>(), ["acked"]);
    office.house.answer(&child_of(&of, 2), "gate", accept()).await.unwrap();
    office.house.drain().await;
    assert_eq!(states(&office).await, ["running", "succeeded", "succeeded", "suspended"]);
    office.decide(&of, "c4", &resume("d1", Value::Null)).await.unwrap();
    office.house.drain().await;
    assert_eq!(states(&office).await, ["running", "succeeded", "succeeded", "succeeded"]);
    assert_eq!((office.house.status(&of).await, office.agent(&of).await.steps), ("waiting-approval", 1));
    office.house.answer(&child_of(&of, 1), "gate", accept()).await.unwrap();
    office.house.drain().await;
    assert_eq!(office.house.status(&of).await, "completed");
    let (one, three) = (office.result(&of, "c1").await, office.result(&of, "c3").await);
    assert_eq!((one, three, office.calls().len()), (json!({ "paid": 1 }), json!({ "paid": 3 }), 2));
}

async fn a_workflow_that_cannot_begin_or_fails_is_told_to_the_agent(office: Office) {
    let boom = json!({ "code": "no_money", "message": "the till is empty" });
    office.house.register(line("broken", &[("boom", "core.fail", boom)])).await;
    office.house.register(line("quiet", &[("only", "core.noop", json!({}))])).await;
    let calls = [
        call("c1", "broken", json!({})),
        call("c2", "nowhere", json!({})),
        call("c3", "quiet", json!({})),
        call("c4", "look", json!({})),
    ];
    let definition = clerk(&json!([{ "calls": calls }, { "text": "Oh." }]), &["broken", "nowhere", "quiet"]);
    let of = office.told_refund(definition).await;
    assert_eq!(office.house.status(&of).await, "completed");
    for (id, why) in [("c1", "no_money: the till is empty"), ("c2", "there is no workflow nowhere")] {
        assert_eq!(office.call(&of, id).await, CallStatus::Failed);
        let told = office.result(&of, id).await["error"].as_str().unwrap().to_owned();
        assert!(told.contains(why), "{told}");
    }
    assert_eq!(office.result(&of, "c3").await, json!({ "status": "completed" }));
    assert_eq!(office.house.drain().await, 0);
}

async fn a_workflow_that_is_cancelled_is_told_to_the_agent(office: Office) {
    office.house.register(refund("refund", true)).await;
    let of = office.told_refund(clerk(&refunds(json!({ "amount": 5 })), &["refund"])).await;
    office.house.engine.cancel(&child_of(&of, 1), None, alice()).await.unwrap();
    office.house.drain().await;
    assert_eq!(
        (office.house.status(&of).await, office.call(&of, "c1").await),
        ("completed", CallStatus::Cancelled)
    );
    let told = office.result(&of, "c1").await.to_string();
    assert!(told.contains("was cancelled"), "{told}");
}

async fn a_cancelled_agent_takes_its_workflows_along(office: Office) {
    office.house.register(refund("refund", true)).await;
    let of = office.told_refund(clerk(&refunds(json!({ "amount": 5 })), &["refund"])).await;
    office.house.engine.cancel(&of, None, alice()).await.unwrap();
    for of in [&of, &child_of(&of, 1)] {
        assert_eq!(office.house.status(of).await, "cancelled");
    }
    assert!(office.house.pending().await.is_empty());
    assert_eq!(office.house.drain().await, 0);
}

async fn talking_on_cancels_the_workflow_and_goes_on_in_the_same_run(office: Office) {
    office.house.register(refund("refund", true)).await;
    let of = office.told_refund(clerk(&refunds(json!({ "amount": 5 })), &["refund"])).await;
    let thread = office.house.run(&of).await.thread().to_owned();
    let run = office.house.engine.input(talk(Some(&thread), "never mind"), InputMode::Queue).await.unwrap();
    assert_eq!(run.id, of.run);
    assert_eq!(office.house.status(&child_of(&of, 1)).await, "cancelled", "in the same commit");
    office.house.drain().await;
    assert_eq!(
        (office.house.status(&of).await, office.call(&of, "c1").await),
        ("completed", CallStatus::Cancelled)
    );
    assert_eq!(office.result(&of, "c1").await, json!({ "cancelled": "superseded by input" }));
    assert!(office.house.pending().await.is_empty());
    assert_eq!(office.house.drain().await, 0);
}

async fn a_workflow_inherits_the_principals_that_spoke_to_its_agent(office: Office) {
    office.house.register(refund("refund", true)).await;
    let again = json!({ "calls": [call("c2", "refund", json!({ "amount": 900 }))] });
    let steps =
        json!([{ "calls": [call("c1", "refund", json!({ "amount": 5 }))] }, again, { "text": "Done." }]);
    let of = office.told_refund(clerk(&steps, &["refund"])).await;
    let thread = office.house.run(&of).await.thread().to_owned();
    let mut said = talk(Some(&thread), "900 to bob");
    said.messages[0].by = Some("bob".to_owned());
    office.house.engine.input(said, InputMode::Queue).await.unwrap();
    office.house.drain().await;
    let (first, second) =
        (office.house.run(&child_of(&of, 1)).await, office.house.run(&child_of(&of, 2)).await);
    assert!(!first.requesters().contains(&"bob"), "what is said later changes nothing");
    assert!(second.requesters().contains(&"bob"));
    assert_eq!(second.started.as_ref().unwrap().requested_by, ["bob"]);
}

async fn a_thread_that_is_interrupted_leaves_an_agent_that_waits_for_its_workflow(office: Office) {
    office.house.register(refund("refund", true)).await;
    let of = office.told_refund(clerk(&refunds(json!({ "amount": 5 })), &["refund"])).await;
    let thread = office.house.run(&of).await.thread().to_owned();
    let engine = &office.house.engine;
    let kept = engine.interrupt_thread(&tenant(), &thread, true, alice()).await.unwrap();
    assert_eq!((kept.cancelled, office.house.status(&of).await), (None, "waiting-approval"));
    let ended = engine.interrupt_thread(&tenant(), &thread, false, alice()).await.unwrap();
    assert_eq!(ended.cancelled, Some(of.run.clone()));
    assert_eq!(office.house.status(&child_of(&of, 1)).await, "cancelled");
}

async fn a_workflow_that_rules_ask_about_starts_with_the_arguments_that_were_approved(office: Office) {
    office.house.register(refund("refund", false)).await;
    let mut definition = clerk(&refunds(json!({ "amount": 5 })), &["refund"]);
    let rules = definition["permissions"]["rules"].as_array_mut().unwrap();
    rules.retain(|rule| rule["tool"] != "refund");
    rules.push(json!({ "tool": "refund", "behavior": "ask" }));
    office.hire(definition).await;
    let (yes, edit, no) = (
        office.told(None, "please").await,
        office.told(None, "please").await,
        office.told(None, "please").await,
    );
    assert_eq!((office.house.status(&yes).await, office.runs().await), ("waiting-approval", 3));
    office.decide(&yes, "c1", &resume("d1", Value::Null)).await.unwrap();
    let edited = json!({ "arguments": { "amount": 2 } });
    office.decide(&edit, "c1", &resume("d1", edited)).await.unwrap();
    office.decide(&no, "c1", &refuse("d1")).await.unwrap();
    office.house.drain().await;
    assert_eq!(office.result(&yes, "c1").await, json!({ "paid": 5 }));
    assert_eq!(office.result(&edit, "c1").await, json!({ "paid": 2 }));
    assert_eq!(office.call(&no, "c1").await, CallStatus::Cancelled);
    assert_eq!(office.runs().await, 5, "what was refused never began");
}

async fn arguments_are_held_against_the_inputs_that_the_workflow_declares(office: Office) {
    office.house.register(refund("refund", false)).await;
    let of = office.told_refund(clerk(&refunds(json!({ "amount": "five" })), &["refund"])).await;
    assert_eq!(office.call(&of, "c1").await, CallStatus::Failed);
    let told = office.result(&of, "c1").await.to_string();
    assert!(told.contains("the arguments are wrong") && told.contains("/amount"), "{told}");
    assert!(office.house.run(&of).await.children.is_empty());
    // What the definition says goes before what the workflow declares.
    let mut definition = clerk(&refunds(json!({ "amount": 5 })), &["refund"]);
    let most = json!({ "type": "object", "properties": { "amount": { "maximum": 3 } } });
    definition["tools"].as_array_mut().unwrap().last_mut().unwrap()["parameters"] = most;
    let of = office.told_refund(definition).await;
    assert_eq!(office.call(&of, "c1").await, CallStatus::Failed);
}

/// An agent whose workflow waits beside another call. Told as far as it goes; everything may have happened already.
async fn tell(house: &House) -> Result<RunRef, Error> {
    let engine = &house.engine;
    engine.register(&tenant(), refund("refund", true)).await?;
    let calls = [call("c1", "refund", json!({ "amount": 5 })), call("c2", "look", json!({}))];
    engine
        .put_agent(&tenant(), clerk(&json!([{ "calls": calls }, { "text": "Done." }]), &["refund"]), None)
        .await?;
    let known = engine.thread_runs(&tenant(), "t", None, 1).await?.into_iter().next();
    let run = match known {
        Some(known) => known.run,
        None => engine.start_agent(talk(Some("t"), "please")).await?.id.clone(),
    };
    let of = RunRef { tenant: tenant(), run };
    engine.worker().drain().await?;
    let child = child_of(&of, 1);
    if let Some(asked) = engine.run(&child).await?.waiting_on() {
        engine.execute(&child, &crate::house::resolve(asked.id, accept())).await?;
    }
    engine.worker().drain().await?;
    Ok(of)
}

async fn a_crash_around_any_commit_leaves_one_run_for_one_call(place: Place) {
    let office = Office::at(place.another().await).await;
    tell(&office.house).await.unwrap();
    let commits = office.house.engine.counters().commits.load(Ordering::SeqCst);
    for n in 3..=commits {
        for stop in [Fault::StopBefore(n), Fault::StopAfter(n)] {
            let calls = super::Calls::default();
            let furnish = |options| furnished(&calls)(options).fault(stop);
            let house = House::with(place.another().await, furnish).await;
            assert!(tell(&house).await.is_err(), "{stop:?} was reached");
            let office = Office { house: house.reopen(furnished(&calls)).await, calls };
            let of = tell(&office.house).await.unwrap();
            assert_eq!(office.house.status(&of).await, "completed", "{stop:?}");
            assert_eq!(office.result(&of, "c1").await, json!({ "paid": 5 }), "{stop:?}");
            assert_eq!(office.runs().await, 2, "{stop:?}");
            assert_eq!(office.house.drain().await, 0, "{stop:?}");
        }
    }
}

async fn agents_that_call_each_other_end_where_runs_may_be_no_deeper(office: Office) {
    let steps = json!([{ "calls": [call("c1", "me", json!({ "message": "again" }))] }, { "text": "Done." }]);
    let mut definition = clerk(&steps, &["me"]);
    definition["tools"].as_array_mut().unwrap().last_mut().unwrap()["workflowId"] = json!("agent:clerk");
    let of = office.told_refund(definition).await;
    assert_eq!((office.house.status(&of).await, office.runs().await), ("completed", 17));
    assert_eq!(office.result(&of, "c1").await["text"], "Done.");
    let below = (0..16).fold(of, |above, _| child_of(&above, 1));
    assert_eq!(office.agent(&below).await.messages[0].text(), "again");
    let told = office.result(&below, "c1").await.to_string();
    assert!(told.contains("too_deep"), "{told}");
}

async fn a_branch_has_runs_of_its_own_for_calls_under_way(office: Office) {
    office.house.register(refund("refund", true)).await;
    let of = office.told_refund(clerk(&refunds(json!({ "amount": 5 })), &["refund"])).await;
    let seq = office.house.run(&of).await.seq;
    let dispatched = office.house.log(&of).await.iter().position(|event| event.contains("node.dispatched"));
    for from_seq in [seq, dispatched.unwrap() as u64 + 1, dispatched.unwrap() as u64] {
        let request = ForkRequest {
            by: "tester".to_owned(),
            credential: None,
            mode: ForkMode::Branch,
            from_seq,
            overlay: Overlay::default(),
            once: None,
        };
        let copy = office.house.engine.fork(&of, request).await.unwrap();
        let copy = RunRef { tenant: tenant(), run: copy.id.clone() };
        office.house.drain().await;
        assert_eq!(office.house.status(&copy).await, "waiting-approval", "{from_seq}");
        office.house.answer(&child_of(&copy, 1), "gate", accept()).await.unwrap();
        office.house.drain().await;
        assert_eq!(office.house.status(&copy).await, "completed", "{from_seq}");
    }
    assert_eq!(office.house.status(&of).await, "waiting-approval", "and the source waits for its own");
}

async fn a_workflow_of_another_tenant_is_nobodys_here(office: Office) {
    let other = TenantId::parse("other").unwrap();
    office.house.engine.register(&other, refund("refund", false)).await.unwrap();
    let of = office.told_refund(clerk(&refunds(json!({ "amount": 5 })), &["refund"])).await;
    let told = office.result(&of, "c1").await.to_string();
    assert!(told.contains("there is no workflow refund"), "{told}");
}

async fn a_workflow_that_is_given_up_ends_also_with_more_runs_below_it_than_one_commit_holds(place: Place) {
    let calls = super::Calls::default();
    let house = House::with(place, |options| furnished(&calls)(options).cascade_max(1)).await;
    let office = Office { house, calls };
    office.house.register(refund("refund", true)).await;
    let config = json!({ "workflowId": "refund", "inputMapping": { "amount": "amount" } });
    let below = ["a", "b"].map(|id| node(id, "core.subWorkflow", config.clone()));
    office.house.register(graph("twice", &below, &[])).await;
    let steps = json!([{ "calls": [call("c1", "twice", json!({ "amount": 5 }))] }, { "text": "Done." }]);
    let of = office.told_refund(clerk(&steps, &["twice"])).await;
    assert_eq!((office.house.status(&of).await, office.runs().await), ("waiting-approval", 4));
    let thread = office.house.run(&of).await.thread().to_owned();
    office.house.engine.input(talk(Some(&thread), "never mind"), InputMode::Queue).await.unwrap();
    let twice = child_of(&of, 1);
    assert_eq!(office.house.status(&twice).await, "waiting-approval", "too many for one commit");
    office.house.drain().await;
    for below in [&twice, &child_of(&twice, 1), &child_of(&twice, 2)] {
        assert_eq!(office.house.status(below).await, "cancelled");
    }
    assert_eq!(office.house.status(&of).await, "completed");
    assert!(office.house.pending().await.is_empty());
}
