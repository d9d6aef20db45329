//! Threads: what was said in them, and what agents remember of it.

use holdpoint_engine::core::{ForkMode, RunId, RunRef, TenantId, WorkflowId};
use holdpoint_engine::{Error, ForkRequest, InputMode, Overlay, StartOptions};
use serde_json::json;

use super::{Office, agent, call, resume, sends, talk};
use crate::house::{accept, gated, run_id, start, tenant};
use crate::place::{Place, on_both};

on_both! {
    a_thread_keeps_what_was_said_in_its_order,
    a_later_run_knows_what_was_said_before,
    runs_of_a_thread_are_found_one_after_another_and_nobody_elses,
    a_run_sorts_behind_all_runs_of_its_thread_whatever_the_clocks_say,
    a_copy_is_no_run_of_the_thread_of_its_source,
    a_thread_that_is_a_runs_own_is_free_once_the_run_has_ended,
    whoever_follows_a_thread_hears_of_runs_that_begin_on_any_node,
    a_run_that_waits_knows_the_dispatch_in_which_it_came_to_wait,
    requesters_of_earlier_runs_of_a_thread_are_requesters_of_the_next,
}

impl Office {
    /// Every run of a thread, by the way that its readers go.
    async fn walk(&self, tenant: &TenantId, thread: &str) -> Vec<RunId> {
        let (engine, mut found) = (&self.house.engine, Vec::new());
        while let Some(run) = engine.next_thread_run(tenant, thread, found.last()).await.unwrap() {
            found.push(run);
        }
        found
    }
}

async fn runs_of_a_thread_are_found_one_after_another_and_nobody_elses(office: Office) {
    office.hire(agent(&json!([{ "text": "Yes." }]))).await;
    let mut begun = Vec::new();
    for word in ["one", "two", "three"] {
        begun.push(office.told(Some("t"), word).await.run);
        office.told(Some("u"), word).await;
    }
    assert_eq!(office.walk(&tenant(), "t").await, begun);
    let elsewhere = TenantId::parse("elsewhere").unwrap();
    assert_eq!(office.walk(&elsewhere, "t").await, []);
    for nobody in ["nobody", "", "\0", begun[0].as_str()] {
        assert_eq!(office.walk(&tenant(), nobody).await, [], "{nobody:?}");
    }
    let length = async |thread: &str, run: &RunId| {
        office.house.engine.thread_run_length(&tenant(), thread, run).await.unwrap()
    };
    let of = RunRef { tenant: tenant(), run: begun[1].clone() };
    let events = office.house.engine.length(&of).await.unwrap();
    assert_eq!((length("t", &of.run).await, length("u", &of.run).await), (Some(events), None));
    office.house.register(gated("gated")).await;
    let plain = office.house.start("gated").await.run;
    assert_eq!(office.walk(&tenant(), plain.as_str()).await, std::slice::from_ref(&plain));
    assert!(length(plain.as_str(), &plain).await.is_some() && length("t", &plain).await.is_none());
    for plan in office.house.engine.thread_plans(&tenant(), "t").await.unwrap() {
        let plan = plan.to_lowercase();
        assert!(plan.contains("index") || plan.contains("primary key"), "{plan}");
        assert!(!plan.contains("seq scan") && !plan.contains("scan runs"), "{plan}");
        // SQLite knows nothing of what is in its tables, and must be led there.
        let all_of_tenant = plan.contains("primary key (tenant_id=?)");
        assert!(!all_of_tenant, "looks through all runs of a tenant: {plan}");
    }
}

async fn a_run_sorts_behind_all_runs_of_its_thread_whatever_the_clocks_say(office: Office) {
    office.hire(agent(&json!([{ "text": "Yes." }]))).await;
    office.house.register(gated("gated")).await;
    let late = run_id("f0000000-0000-7000-8000-000000000000");
    let of_thread = holdpoint_engine::core::Start {
        scope: Some("thread:t".to_owned()),
        thread: Some("t".to_owned()),
        ..start(json!({}))
    };
    let options = StartOptions { id: Some(late.clone()), exclusive: true, once: None };
    let engine = &office.house.engine;
    engine.start_with(&WorkflowId::parse("gated").unwrap(), of_thread, options).await.unwrap();
    let refused = engine.start_agent(talk(Some("t"), "too early")).await.unwrap_err();
    assert!(matches!(refused, Error::ScopeBusy { active_run } if active_run == late));
    let of = RunRef { tenant: tenant(), run: late.clone() };
    office.house.answer(&of, "gate", accept()).await.unwrap();
    let next = office.told(Some("t"), "now").await.run;
    let last = office.told(Some("t"), "and again").await.run;
    assert_eq!(office.walk(&tenant(), "t").await, [late, next, last]);
}

async fn a_copy_is_no_run_of_the_thread_of_its_source(office: Office) {
    office.hire(agent(&sends())).await;
    let source = office.told(Some("t"), "one").await;
    let request = ForkRequest {
        by: "ann".to_owned(),
        credential: None,
        mode: ForkMode::Branch,
        from_seq: office.house.engine.length(&source).await.unwrap(),
        overlay: Overlay::default(),
        once: None,
    };
    let copy = office.house.engine.fork(&source, request).await.unwrap();
    office.house.drain().await;
    assert_eq!(copy.thread(), copy.id.as_str());
    assert_eq!(office.walk(&tenant(), "t").await, std::slice::from_ref(&source.run));
    assert_eq!(office.walk(&tenant(), copy.thread()).await, std::slice::from_ref(&copy.id));
    let open = office.house.engine.open_run(&tenant(), "t").await.unwrap();
    assert_eq!(open, Some(source), "what is said in the thread is said to the one that stands there");
}

async fn a_thread_that_is_a_runs_own_is_free_once_the_run_has_ended(office: Office) {
    office.hire(agent(&json!([{ "text": "Yes." }]))).await;
    office.house.register(gated("gated")).await;
    let own = office.house.start("gated").await;
    let thread = own.run.as_str();
    let engine = &office.house.engine;
    for refused in [
        engine.start_agent(talk(Some(thread), "hello")).await,
        engine.input(talk(Some(thread), "hello"), InputMode::Queue).await,
    ] {
        assert!(matches!(refused, Err(Error::ScopeBusy { active_run }) if active_run == own.run));
    }
    office.house.answer(&own, "gate", accept()).await.unwrap();
    office.house.drain().await;
    let next = office.told(Some(thread), "hello").await.run;
    assert_eq!(office.walk(&tenant(), thread).await, [own.run.clone(), next]);
}

async fn whoever_follows_a_thread_hears_of_runs_that_begin_on_any_node(office: Office) {
    office.hire(agent(&json!([{ "text": "Yes." }]))).await;
    let mut last = office.told(Some("t"), "one").await.run;
    let other = office.house.second_engine(super::furnished(&office.calls)).await;
    let mut followers = vec![office.house.engine.clone()];
    if let Place::Postgres(_) = office.house.place {
        followers.push(other.clone());
    }
    for engine in followers {
        let mut news = engine.subscribe_thread(&tenant(), "t");
        let begun = office.told(Some("t"), "two").await.run;
        // Only a hint: it may come twice, but it does come.
        loop {
            news.changed().await;
            if engine.next_thread_run(&tenant(), "t", Some(&last)).await.unwrap().as_ref() == Some(&begun) {
                break;
            }
        }
        last = begun;
    }
    other.close().await;
}

async fn a_run_that_waits_knows_the_dispatch_in_which_it_came_to_wait(office: Office) {
    let twice = json!([
        { "calls": [call("c1", "send", json!({ "to": "bob" }))] },
        { "calls": [call("c2", "send", json!({ "to": "ann" }))] },
        { "text": "Done." },
    ]);
    let of = office.asked(&twice).await;
    let engine = office.house.engine.clone();
    let last = async || {
        let run = engine.run(&of).await.unwrap();
        let id = engine.last_dispatch(&tenant(), &run).await.unwrap().unwrap();
        let row = engine.mailbox(&tenant()).load_dispatch(&id).await.unwrap().unwrap();
        assert_eq!((row.run_id.as_str(), row.thread_id.as_str()), (of.run.as_str(), run.thread()));
        assert_eq!(row.status.as_str(), "acked");
        id
    };
    let first = last().await;
    assert_eq!(first, last().await);
    office.decide(&of, "c1", &resume("d1", json!(null))).await.unwrap();
    office.house.drain().await;
    assert_ne!(first, last().await, "it came to wait again");
}

async fn a_thread_keeps_what_was_said_in_its_order(office: Office) {
    let steps = json!([{ "calls": [call("c1", "look", json!({ "to": "x" }))] }, { "text": "Seen." }]);
    office.hire(agent(&steps)).await;
    office.told(Some("t"), "one").await;
    office.told(Some("t"), "two").await;
    office.told(Some("u"), "elsewhere").await;
    let said = office.house.engine.messages(&tenant(), "t", None, 100).await.unwrap();
    let roles: Vec<String> = said.iter().map(|said| format!("{:?}", said.message.role)).collect();
    let one = ["User", "Assistant", "Tool", "Assistant"];
    assert_eq!(roles, [one, one].concat());
    assert_eq!((said[0].message.text(), said[4].message.text()), ("one".to_owned(), "two".to_owned()));
    let behind = (&said[2].run, said[2].seq);
    let rest = office.house.engine.messages(&tenant(), "t", Some(behind), 2).await.unwrap();
    assert_eq!(rest, said[3..5]);
    let mut reversed = said.clone();
    reversed.reverse();
    let (tenant, engine) = (tenant(), &office.house.engine);
    assert_eq!(engine.last_messages(&tenant, "t", None, 3).await.unwrap(), reversed[..3]);
    let before = Some((&said[5].run, said[5].seq));
    assert_eq!(engine.last_messages(&tenant, "t", before, 100).await.unwrap(), reversed[3..]);
}

async fn a_later_run_knows_what_was_said_before(office: Office) {
    office.hire(agent(&json!([{ "text": "You said {{user}}." }]))).await;
    office.told(Some("t"), "one").await;
    let of = office.told(Some("t"), "two").await;
    assert_eq!(office.agent(&of).await.last_reply().unwrap().text(), "You said two.");
    assert_eq!(office.house.status(&of).await, "completed");
}

/// The messages and variables of earlier runs are part of what a later run asks about.
async fn requesters_of_earlier_runs_of_a_thread_are_requesters_of_the_next(office: Office) {
    office.hire(agent(&json!([{ "text": "Yes." }]))).await;
    let said_by = |name: &str| {
        let mut talk = talk(Some("t"), name);
        talk.owner.principal = name.to_owned();
        talk
    };
    let engine = &office.house.engine;
    for (name, requesters) in
        [("bob", vec!["bob"]), ("bot", vec!["bot", "bob"]), ("eve", vec!["eve", "bot", "bob"])]
    {
        let run = engine.start_agent(said_by(name)).await.unwrap();
        assert_eq!(run.requesters(), requesters);
        office.house.drain().await;
    }
    office.house.register(gated("gated")).await;
    let id = WorkflowId::parse("gated").unwrap();
    let run = engine.start_in_thread(&id, "t", start(json!({}))).await.unwrap();
    assert_eq!(run.requesters(), ["tester", "eve", "bot", "bob"]);
}
