//! Threads: their messages, their runs, and the messages that later runs read.

use holdpoint_agents::EngineAgents;
use holdpoint_engine::core::{ForkMode, RunId, RunRef, TenantId, WorkflowId};
use holdpoint_engine::{Error, ForkRequest, InputMode, Overlay, StartOptions};
use serde_json::json;

use super::{AgentEnv, agent, call, input, resume, send_script};
use crate::test_database::{TestDatabase, on_both};
use crate::test_env::{accept, gated, run_id, start, tenant};

on_both! {
    a_thread_keeps_its_messages_in_order,
    a_later_run_of_a_thread_answers_the_latest_message,
    the_runs_of_a_thread_are_listed_in_order_and_without_others,
    a_new_run_sorts_after_all_runs_of_its_thread_despite_clock_skew,
    a_copy_is_not_a_run_of_the_thread_of_its_source,
    the_own_thread_of_a_run_is_free_after_the_run_has_ended,
    subscribers_of_a_thread_are_notified_of_runs_that_start_on_any_node,
    a_waiting_run_knows_its_last_dispatch,
    requesters_of_earlier_runs_of_a_thread_are_requesters_of_the_next,
}

impl AgentEnv {
    /// Lists the runs of a thread one after another, as its readers do.
    async fn list_runs(&self, tenant: &TenantId, thread: &str) -> Vec<RunId> {
        let (engine, mut found) = (&self.env.engine, Vec::new());
        while let Some(run) = engine.threads().next_run(tenant, thread, found.last()).await.unwrap() {
            found.push(run);
        }
        found
    }
}

async fn the_runs_of_a_thread_are_listed_in_order_and_without_others(agents: AgentEnv) {
    agents.declare(agent(&json!([{ "text": "Yes." }]))).await;
    let mut started = Vec::new();
    for word in ["one", "two", "three"] {
        started.push(agents.send(Some("t"), word).await.run);
        agents.send(Some("u"), word).await;
    }
    assert_eq!(agents.list_runs(&tenant(), "t").await, started);
    let elsewhere = TenantId::parse("elsewhere").unwrap();
    assert_eq!(agents.list_runs(&elsewhere, "t").await, []);
    for unknown in ["unknown", "", "\0", started[0].as_str()] {
        assert_eq!(agents.list_runs(&tenant(), unknown).await, [], "{unknown:?}");
    }
    let length = async |thread: &str, run: &RunId| {
        agents.env.engine.threads().run_length(&tenant(), thread, run).await.unwrap()
    };
    let of = RunRef { tenant: tenant(), run: started[1].clone() };
    let events = agents.env.engine.events().count(&of).await.unwrap();
    assert_eq!((length("t", &of.run).await, length("u", &of.run).await), (Some(events), None));
    agents.env.register(gated("gated")).await;
    let plain = agents.env.start("gated").await.run;
    assert_eq!(agents.list_runs(&tenant(), plain.as_str()).await, std::slice::from_ref(&plain));
    assert!(length(plain.as_str(), &plain).await.is_some() && length("t", &plain).await.is_none());
    for plan in agents.env.engine.threads().plans(&tenant(), "t").await.unwrap() {
        let plan = plan.to_lowercase();
        assert!(plan.contains("index") || plan.contains("primary key"), "{plan}");
        assert!(!plan.contains("seq scan") && !plan.contains("scan runs"), "{plan}");
        // SQLite has no statistics of its tables, so the statement must name the index.
        let all_of_tenant = plan.contains("primary key (tenant_id=?)");
        assert!(!all_of_tenant, "the plan reads all runs of a tenant: {plan}");
    }
}

async fn a_new_run_sorts_after_all_runs_of_its_thread_despite_clock_skew(agents: AgentEnv) {
    agents.declare(agent(&json!([{ "text": "Yes." }]))).await;
    agents.env.register(gated("gated")).await;
    let late = run_id("f0000000-0000-7000-8000-000000000000");
    let of_thread = holdpoint_engine::core::StartRequest {
        scope: Some("thread:t".to_owned()),
        thread: Some("t".to_owned()),
        ..start(json!({}))
    };
    let options = StartOptions { id: Some(late.clone()), exclusive: true, once: None };
    let engine = &agents.env.engine;
    engine.runs().create_with(&WorkflowId::parse("gated").unwrap(), of_thread, options).await.unwrap();
    let refused = engine.agents().start(input(Some("t"), "too early")).await.unwrap_err();
    assert!(matches!(refused, Error::ScopeBusy { active_run } if active_run == late));
    let of = RunRef { tenant: tenant(), run: late.clone() };
    agents.env.answer(&of, "gate", accept()).await.unwrap();
    let next = agents.send(Some("t"), "now").await.run;
    let last = agents.send(Some("t"), "and again").await.run;
    assert_eq!(agents.list_runs(&tenant(), "t").await, [late, next, last]);
}

async fn a_copy_is_not_a_run_of_the_thread_of_its_source(agents: AgentEnv) {
    agents.declare(agent(&send_script())).await;
    let source = agents.send(Some("t"), "one").await;
    let request = ForkRequest {
        by: "ann".to_owned(),
        credential: None,
        mode: ForkMode::Branch,
        from_seq: agents.env.engine.events().count(&source).await.unwrap(),
        overlay: Overlay::default(),
        once: None,
    };
    let copy = agents.env.engine.runs().fork(&source, request).await.unwrap();
    agents.env.drain().await;
    assert_eq!(copy.thread(), copy.id.as_str());
    assert_eq!(agents.list_runs(&tenant(), "t").await, std::slice::from_ref(&source.run));
    assert_eq!(agents.list_runs(&tenant(), copy.thread()).await, std::slice::from_ref(&copy.id));
    let open = agents.env.engine.threads().open_run(&tenant(), "t").await.unwrap();
    assert_eq!(open, Some(source), "the source stays the open run of the thread");
}

async fn the_own_thread_of_a_run_is_free_after_the_run_has_ended(agents: AgentEnv) {
    agents.declare(agent(&json!([{ "text": "Yes." }]))).await;
    agents.env.register(gated("gated")).await;
    let own = agents.env.start("gated").await;
    let thread = own.run.as_str();
    let engine = &agents.env.engine;
    for refused in [
        engine.agents().start(input(Some(thread), "hello")).await,
        engine.agents().send_input(input(Some(thread), "hello"), InputMode::Queue).await,
    ] {
        assert!(matches!(refused, Err(Error::ScopeBusy { active_run }) if active_run == own.run));
    }
    agents.env.answer(&own, "gate", accept()).await.unwrap();
    agents.env.drain().await;
    let next = agents.send(Some(thread), "hello").await.run;
    assert_eq!(agents.list_runs(&tenant(), thread).await, [own.run.clone(), next]);
}

async fn subscribers_of_a_thread_are_notified_of_runs_that_start_on_any_node(agents: AgentEnv) {
    agents.declare(agent(&json!([{ "text": "Yes." }]))).await;
    let mut last = agents.send(Some("t"), "one").await.run;
    let other = agents.env.second_engine(super::with_tools(&agents.calls)).await;
    let mut followers = vec![agents.env.engine.clone()];
    if let TestDatabase::Postgres(_) = agents.env.database {
        followers.push(other.clone());
    }
    for engine in followers {
        let mut changes = engine.threads().subscribe(&tenant(), "t");
        let begun = agents.send(Some("t"), "two").await.run;
        // A notification is a hint: it can arrive twice.
        loop {
            changes.changed().await;
            if engine.threads().next_run(&tenant(), "t", Some(&last)).await.unwrap().as_ref() == Some(&begun)
            {
                break;
            }
        }
        last = begun;
    }
    other.close().await;
}

async fn a_waiting_run_knows_its_last_dispatch(agents: AgentEnv) {
    let twice = json!([
        { "calls": [call("c1", "send", json!({ "to": "bob" }))] },
        { "calls": [call("c2", "send", json!({ "to": "ann" }))] },
        { "text": "Done." },
    ]);
    let of = agents.run_script(&twice).await;
    let engine = agents.env.engine.clone();
    let last = async || {
        let run = engine.runs().get(&of).await.unwrap();
        let id = engine.threads().waiting_since(&tenant(), &run).await.unwrap().unwrap();
        let row = engine.mailbox(&tenant()).load_dispatch(&id).await.unwrap().unwrap();
        assert_eq!((row.run_id.as_str(), row.thread_id.as_str()), (of.run.as_str(), run.thread()));
        assert_eq!(row.status.as_str(), "acked");
        id
    };
    let first = last().await;
    assert_eq!(first, last().await);
    agents.decide(&of, "c1", &resume("d1", json!(null))).await.unwrap();
    agents.env.drain().await;
    assert_ne!(first, last().await, "the run has another dispatch");
}

async fn a_thread_keeps_its_messages_in_order(agents: AgentEnv) {
    let steps = json!([{ "calls": [call("c1", "look", json!({ "to": "x" }))] }, { "text": "Seen." }]);
    agents.declare(agent(&steps)).await;
    agents.send(Some("t"), "one").await;
    agents.send(Some("t"), "two").await;
    agents.send(Some("u"), "elsewhere").await;
    let messages = agents.env.engine.threads().messages(&tenant(), "t", None, 100).await.unwrap();
    let roles: Vec<String> = messages.iter().map(|messages| format!("{:?}", messages.message.role)).collect();
    let one = ["User", "Assistant", "Tool", "Assistant"];
    assert_eq!(roles, [one, one].concat());
    assert_eq!(
        (messages[0].message.text(), messages[4].message.text()),
        ("one".to_owned(), "two".to_owned())
    );
    let behind = (&messages[2].run, messages[2].seq);
    let rest = agents.env.engine.threads().messages(&tenant(), "t", Some(behind), 2).await.unwrap();
    assert_eq!(rest, messages[3..5]);
    let mut reversed = messages.clone();
    reversed.reverse();
    let (tenant, engine) = (tenant(), &agents.env.engine);
    assert_eq!(engine.threads().last_messages(&tenant, "t", None, 3).await.unwrap(), reversed[..3]);
    let before = Some((&messages[5].run, messages[5].seq));
    assert_eq!(engine.threads().last_messages(&tenant, "t", before, 100).await.unwrap(), reversed[3..]);
}

async fn a_later_run_of_a_thread_answers_the_latest_message(agents: AgentEnv) {
    agents.declare(agent(&json!([{ "text": "You said {{user}}." }]))).await;
    agents.send(Some("t"), "one").await;
    let of = agents.send(Some("t"), "two").await;
    assert_eq!(agents.agent(&of).await.last_reply().unwrap().text(), "You said two.");
    assert_eq!(agents.env.status(&of).await, "completed");
}

/// The messages and variables of earlier runs can be part of the payload of a later run.
async fn requesters_of_earlier_runs_of_a_thread_are_requesters_of_the_next(agents: AgentEnv) {
    agents.declare(agent(&json!([{ "text": "Yes." }]))).await;
    let input_by = |name: &str| {
        let mut input = input(Some("t"), name);
        input.owner.principal = name.to_owned();
        input
    };
    let engine = &agents.env.engine;
    for (name, requesters) in
        [("bob", vec!["bob"]), ("bot", vec!["bot", "bob"]), ("eve", vec!["eve", "bot", "bob"])]
    {
        let run = engine.agents().start(input_by(name)).await.unwrap();
        assert_eq!(run.requesters(), requesters);
        agents.env.drain().await;
    }
    agents.env.register(gated("gated")).await;
    let id = WorkflowId::parse("gated").unwrap();
    let run = engine.threads().start(&id, "t", start(json!({})), None).await.unwrap();
    assert_eq!(run.requesters(), ["tester", "eve", "bot", "bob"]);
}
