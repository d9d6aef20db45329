//! Exclusive scopes of runs, and lists of runs by scope, tag and time.

use holdpoint_engine::core::{Refusal, RunRef, StartRequest, Timestamp, WorkflowId};
use holdpoint_engine::{Engine, Error, RunFilter, StartOptions};
use serde_json::json;

use crate::test_database::on_both;
use crate::test_env::{NOON, TestEnv, alice, gated, start, tenant};

on_both! {
    an_exclusive_scope_has_one_run_at_a_time,
    of_concurrent_starts_in_one_scope_on_two_nodes_one_succeeds,
    the_length_of_a_scope_is_limited,
    runs_are_listed_by_scope_tag_and_time,
}

fn in_scope(scope: &str) -> StartRequest {
    StartRequest { scope: Some(scope.to_owned()), ..start(json!({})) }
}

async fn begin(engine: &Engine, scope: &str, exclusive: bool) -> Result<RunRef, Error> {
    let flow = WorkflowId::parse("flow").unwrap();
    let options = StartOptions { exclusive, ..StartOptions::default() };
    let run = engine.runs().create_with(&flow, in_scope(scope), options).await?;
    Ok(RunRef { tenant: tenant(), run: run.id.clone() })
}

async fn an_exclusive_scope_has_one_run_at_a_time(env: TestEnv) {
    env.register(gated("flow")).await;
    let first = begin(&env.engine, "order-1", true).await.unwrap();
    let refused = begin(&env.engine, "order-1", true).await.unwrap_err();
    assert!(matches!(refused, Error::ScopeBusy { active_run } if active_run == first.run));
    begin(&env.engine, "order-2", true).await.unwrap();
    let beside = begin(&env.engine, "order-1", false).await.unwrap();
    env.engine.runs().cancel(&first, None, alice()).await.unwrap();
    let refused = begin(&env.engine, "order-1", true).await.unwrap_err();
    assert!(matches!(refused, Error::ScopeBusy { active_run } if active_run == beside.run));
    env.answer(&beside, "gate", crate::test_env::accept()).await.unwrap();
    begin(&env.engine, "order-1", true).await.unwrap();
}

async fn of_concurrent_starts_in_one_scope_on_two_nodes_one_succeeds(env: TestEnv) {
    env.register(gated("flow")).await;
    let other = env.second_engine(|options| options).await;
    let mut calls = tokio::task::JoinSet::new();
    for n in 0..20 {
        let engine = if n % 2 == 0 { env.engine.clone() } else { other.clone() };
        calls.spawn(async move { begin(&engine, "order", true).await });
    }
    let (won, lost): (Vec<_>, Vec<_>) = calls.join_all().await.into_iter().partition(Result::is_ok);
    assert_eq!((won.len(), lost.len()), (1, 19));
    let winner = won.into_iter().next().unwrap().unwrap();
    for error in lost {
        assert!(matches!(error, Err(Error::ScopeBusy { active_run }) if active_run == winner.run));
    }
    other.close().await;
}

async fn the_length_of_a_scope_is_limited(env: TestEnv) {
    env.register(gated("flow")).await;
    for bad in ["", &"x".repeat(257)] {
        let refused = begin(&env.engine, bad, false).await;
        assert!(
            matches!(refused, Err(Error::Refused(Refusal::InvalidRequest { field, .. })) if field == "scopeId")
        );
    }
    begin(&env.engine, &"ü".repeat(256), true).await.unwrap();
}

async fn runs_are_listed_by_scope_tag_and_time(env: TestEnv) {
    env.register(gated("flow")).await;
    let flow = WorkflowId::parse("flow").unwrap();
    let plain = env.start("flow").await.run;
    env.clock.advance(1000);
    let scoped = begin(&env.engine, "order", false).await.unwrap().run;
    env.clock.advance(1000);
    let tags = vec!["red".to_owned(), "blue".to_owned(), "red".to_owned()];
    let tagged = StartRequest { tags, ..in_scope("order") };
    let tagged = env.engine.runs().create(&flow, tagged).await.unwrap().id.clone();
    let list = async |filter: RunFilter| {
        let found = env.engine.runs().list(&tenant(), RunFilter { limit: 10, ..filter }).await.unwrap();
        found.into_iter().map(|run| run.run).collect::<Vec<_>>()
    };
    let text = |text: &str| Some(text.to_owned());
    let all = RunFilter::default;
    assert_eq!(list(RunFilter { scope: text("order"), ..all() }).await, [tagged.clone(), scoped.clone()]);
    assert_eq!(list(RunFilter { tag: text("red"), ..all() }).await, std::slice::from_ref(&tagged));
    assert_eq!(list(RunFilter { tag: text("green"), ..all() }).await, []);
    let before = text(tagged.as_str());
    assert_eq!(
        list(RunFilter { scope: text("order"), before, ..all() }).await,
        std::slice::from_ref(&scoped)
    );
    let (from, to) = (Some(Timestamp(NOON + 1000)), Some(Timestamp(NOON + 2000)));
    assert_eq!(list(RunFilter { created_from: from, ..all() }).await, [tagged, scoped.clone()]);
    assert_eq!(list(RunFilter { created_from: from, created_to: to, ..all() }).await, [scoped]);
    assert_eq!(list(RunFilter { created_to: from, ..all() }).await, [plain]);
    let filter = RunFilter { limit: 1, ..all() };
    let newest = env.engine.runs().list(&tenant(), filter).await.unwrap().remove(0);
    assert_eq!((newest.scope.as_deref(), newest.parent), (Some("order"), None));
}
