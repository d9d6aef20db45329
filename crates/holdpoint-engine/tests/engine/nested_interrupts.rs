//! Interrupts of child runs, seen and answered from the run that waits for them.

use std::sync::atomic::Ordering;

use holdpoint_engine::core::{
    Answer, Command, ForkMode, InterruptId, NodeId, Principal, Refusal, RunRef, WorkflowId,
};
use holdpoint_engine::{
    AnswerAddress, CommitFault, Engine, Error, OpenInterrupt, PendingCursor, RunCommands,
};
use serde_json::json;

use crate::families::{assert_consistent, calls};
use crate::test_database::{TestDatabase, on_both};
use crate::test_env::{
    TestEnv, accept, child_of, fork, gated, graph, line, node, resolve, run_id, start, tenant, with_fault,
};

on_both! {
    the_root_lists_the_interrupts_of_two_levels_and_of_parallel_children,
    answers_at_the_root_reach_the_children_in_any_order,
    an_answer_without_a_name_is_refused_if_several_interrupts_are_open,
    an_address_outside_the_family_is_not_found,
    an_answer_at_the_root_obeys_the_rules_of_the_child,
    an_interrupt_that_expires_below_closes_at_the_root,
    the_handle_of_a_root_waits_for_interrupts_below_it,
    a_fork_shows_only_the_interrupts_of_its_own_child_runs,
    answers_for_several_runs_are_one_change,
    one_of_many_answers_to_a_nested_interrupt_wins,
    a_crash_around_any_commit_of_nested_interrupts_loses_and_repeats_nothing,
    a_pending_row_of_an_earlier_version_has_no_path,
}

/// Registers `top`, whose nodes `left` and `right` run side by side. Each calls `middle`, which calls `leaf`, which
/// waits for an approval.
async fn register(engine: &Engine) -> Result<(), Error> {
    let call = |id: &str| node(id, "core.subWorkflow", json!({"workflowId": "middle"}));
    let top = graph("top", &[call("left"), call("right")], &[]);
    for definition in [gated("leaf"), calls("middle", "leaf", json!({})), top] {
        engine.workflows().register(&tenant(), definition).await?;
    }
    Ok(())
}

/// Returns the run of the interrupt below a node of `top`: 1 for `left`, 2 for `right`.
fn leaf(top: &RunRef, n: usize) -> RunRef {
    child_of(&child_of(top, n), 1)
}

async fn waiting_family(env: &TestEnv) -> RunRef {
    register(&env.engine).await.unwrap();
    let of = env.start("top").await;
    env.drain().await;
    of
}

async fn open(env: &TestEnv, of: &RunRef) -> Vec<OpenInterrupt> {
    let run = env.run(of).await;
    env.engine.interrupts().of_family(&tenant(), &run).await.unwrap()
}

async fn open_names(env: &TestEnv, of: &RunRef) -> Vec<String> {
    open(env, of).await.iter().map(|one| one.run.interrupt_name(one.id)).collect()
}

async fn address(
    env: &TestEnv,
    of: &RunRef,
    at: &str,
    name: Option<&str>,
) -> Result<Option<AnswerAddress>, Error> {
    env.engine.interrupts().of_child(of, &NodeId::parse(at).unwrap(), name).await
}

/// Answers an interrupt as a route does that addresses it by its run and its node.
async fn answer_at(env: &TestEnv, address: AnswerAddress, by: &str) -> Result<(), Error> {
    let AnswerAddress { of, node, interrupt } = address;
    let answer = Answer::new(accept(), Principal::named(by));
    env.engine.runs().execute(&of, &Command::ResolveNode { node, interrupt, answer }).await.map(drop)
}

async fn the_root_lists_the_interrupts_of_two_levels_and_of_parallel_children(env: TestEnv) {
    let of = waiting_family(&env).await;
    assert_consistent(&env.engine, &of).await;
    let names = [1, 2].map(|n| format!("{}:i1", leaf(&of, n).run));
    assert_eq!(open_names(&env, &of).await, names);
    assert!(open(&env, &of).await.iter().all(OpenInterrupt::is_open));
    assert_eq!(open_names(&env, &child_of(&of, 1)).await, names[..1]);
    let rows = env.engine.interrupts().open(&tenant(), PendingCursor::default(), 10).await.unwrap();
    let paths: Vec<_> = rows
        .iter()
        .map(|row| row.path.iter().map(|above| format!("{} {}", above.run, above.node)).collect::<Vec<_>>())
        .collect();
    let path =
        |n: usize, side: &str| vec![format!("{} {side}", of.run), format!("{} call", child_of(&of, n).run)];
    assert_eq!(paths, [path(1, "left"), path(2, "right")]);
    let leaf = env.run(&leaf(&of, 1)).await;
    assert_eq!(leaf.root_id(), of.run);
}

async fn answers_at_the_root_reach_the_children_in_any_order(env: TestEnv) {
    for order in [["left", "right"], ["right", "left"]] {
        let of = waiting_family(&env).await;
        for (answered, side) in order.into_iter().enumerate() {
            let found = address(&env, &of, side, None).await.unwrap().expect("an interrupt of a child run");
            assert_eq!(found.of, leaf(&of, if side == "left" { 1 } else { 2 }));
            let again = address(&env, &of, side, found.interrupt.as_deref()).await.unwrap();
            assert_eq!(again.as_ref(), Some(&found), "the name of the interrupt leads to the same run");
            answer_at(&env, found.clone(), "alice").await.unwrap();
            assert_eq!(open(&env, &of).await.len(), 1 - answered);
            assert_consistent(&env.engine, &of).await;
            let second = answer_at(&env, found, "bob").await;
            assert!(matches!(second, Err(Error::Refused(Refusal::AlreadyResolved))), "{second:?}");
            env.drain().await;
        }
        assert_eq!(env.status(&of).await, "completed");
        assert!(env.pending().await.is_empty());
    }
}

async fn an_answer_without_a_name_is_refused_if_several_interrupts_are_open(env: TestEnv) {
    let gate = |id: &str| node(id, "core.approvalGate", json!({"title": "ok?", "actions": ["accept"]}));
    env.register(graph("gates", &[gate("a"), gate("b")], &[])).await;
    env.register(calls("caller", "gates", json!({}))).await;
    let of = env.start("caller").await;
    env.drain().await;
    let names = open_names(&env, &of).await;
    let refused = address(&env, &of, "call", None).await;
    let Err(Error::Refused(Refusal::InterruptAmbiguous(listed))) = refused else { panic!("{refused:?}") };
    assert_eq!((listed, names.len()), (names.clone(), 2));
    for name in names.iter().rev() {
        let found = address(&env, &of, "call", Some(name)).await.unwrap().expect("a named interrupt");
        answer_at(&env, found, "alice").await.unwrap();
    }
    env.drain().await;
    assert_eq!(env.status(&of).await, "completed");
}

async fn an_address_outside_the_family_is_not_found(env: TestEnv) {
    let (of, other) = (waiting_family(&env).await, waiting_family(&env).await);
    let name = |of: &RunRef| format!("{}:i1", leaf(of, 1).run);
    assert!(address(&env, &of, "left", Some(&name(&of))).await.unwrap().is_some());
    for (at, name, why) in [
        ("left", name(&other), "a run of another family"),
        ("right", name(&of), "a run below another node"),
        ("left", "nowhere:i1".to_owned(), "an unknown run"),
        ("left", format!("{}:i9", leaf(&of, 1).run), "an unknown interrupt"),
        ("left", format!("{}:i1", of.run), "the run itself"),
    ] {
        assert_eq!(address(&env, &of, at, Some(&name)).await.unwrap(), None, "{why}");
    }
    let foreign = RunRef { tenant: holdpoint_engine::core::TenantId::parse("rival").unwrap(), ..of.clone() };
    assert!(matches!(address(&env, &foreign, "left", None).await, Err(Error::NotFound(_))));
    assert_eq!(address(&env, &foreign, "left", Some(&name(&of))).await.unwrap(), None);
}

async fn an_answer_at_the_root_obeys_the_rules_of_the_child(env: TestEnv) {
    let gate = json!({"title": "ok?", "actions": ["accept"], "approversList": ["bob"]});
    env.register(line("strict", &[("gate", "core.approvalGate", gate)])).await;
    env.register(calls("caller", "strict", json!({}))).await;
    let of = env.start("caller").await;
    env.drain().await;
    let found = address(&env, &of, "call", None).await.unwrap().expect("an interrupt of the child run");
    let refused = answer_at(&env, found.clone(), "alice").await;
    assert!(matches!(refused, Err(Error::Refused(Refusal::NotAnApprover(_)))), "{refused:?}");
    assert_eq!(env.status(&of).await, "waiting-approval");
    answer_at(&env, found, "bob").await.unwrap();
    env.drain().await;
    assert_eq!(env.status(&of).await, "completed");
}

async fn an_interrupt_that_expires_below_closes_at_the_root(env: TestEnv) {
    let gate = json!({"title": "Quick?", "actions": ["accept"], "timeoutMs": 1000});
    let quick = line("quick", &[("gate", "core.approvalGate", gate)]);
    for definition in [quick, calls("middle", "quick", json!({})), calls("top", "middle", json!({}))] {
        env.register(definition).await;
    }
    let of = env.start("top").await;
    env.drain().await;
    let name = format!("{}:i1", child_of(&child_of(&of, 1), 1).run);
    assert_eq!(open_names(&env, &of).await, std::slice::from_ref(&name));
    env.clock.advance(1001);
    env.drain().await;
    assert!(open(&env, &of).await.is_empty());
    assert_eq!(env.status(&of).await, "failed", "as without a parent");
    let log = env.log(&of).await;
    assert_eq!(log.iter().filter(|line| line.contains(r#""closed":[{"#)).count(), 1, "{log:#?}");
    let found = address(&env, &of, "call", Some(&name)).await.unwrap().expect("a closed interrupt");
    let late = answer_at(&env, found, "alice").await;
    assert!(matches!(late, Err(Error::Refused(_))), "{late:?}");
}

async fn the_handle_of_a_root_waits_for_interrupts_below_it(env: TestEnv) {
    register(&env.engine).await.unwrap();
    let root = env.engine.runs().start("top").by("tester").await.unwrap();
    env.drain().await;
    for side in [1, 2] {
        let interrupt = root.wait_for_interrupt().await.unwrap();
        interrupt.accept().by("alice").await.unwrap();
        env.drain().await;
        assert_eq!(open(&env, root.of()).await.len(), 2 - side);
    }
    assert!(root.wait_for_interrupt().await.is_err(), "the run has ended");
}

async fn a_fork_shows_only_the_interrupts_of_its_own_child_runs(env: TestEnv) {
    let of = waiting_family(&env).await;
    let until = env.run(&of).await.seq;
    for side in [2, 1] {
        env.answer(&leaf(&of, side), "gate", accept()).await.unwrap();
    }
    env.drain().await;
    for mode in [ForkMode::Replay, ForkMode::Branch] {
        for seq in 0..=until {
            let copy = fork(&env, &of, mode, seq).await;
            env.drain().await;
            let names = open_names(&env, &copy).await;
            assert!(
                names.iter().all(|name| name.starts_with(copy.run.as_str())),
                "{mode:?} {seq}: {names:?}"
            );
        }
    }
}

fn accept_first(of: RunRef) -> RunCommands {
    RunCommands { of, commands: vec![resolve(InterruptId(1), accept())] }
}

async fn answers_for_several_runs_are_one_change(env: TestEnv) {
    let of = waiting_family(&env).await;
    env.answer(&leaf(&of, 2), "gate", accept()).await.unwrap();
    let both = [accept_first(leaf(&of, 1)), accept_first(leaf(&of, 2))];
    let refused = env.engine.interrupts().answer_each(&both, None).await;
    assert!(matches!(refused, Err(Error::Refused(_))), "{refused:?}");
    assert_eq!(open(&env, &of).await.len(), 1, "a refused answer undoes the others");
    let of = waiting_family(&env).await;
    let both = [accept_first(leaf(&of, 1)), accept_first(leaf(&of, 2))];
    let first = env.engine.interrupts().answer_each(&both, None).await.unwrap();
    assert_eq!(first.id, leaf(&of, 1).run);
    assert_consistent(&env.engine, &of).await;
    env.drain().await;
    assert_eq!(env.status(&of).await, "completed");
}

async fn one_of_many_answers_to_a_nested_interrupt_wins(env: TestEnv) {
    let of = waiting_family(&env).await;
    let other = match env.database {
        TestDatabase::Sqlite(_) => env.engine.clone(),
        TestDatabase::Postgres(_) => env.second_engine(|options| options).await,
    };
    let mut answers = tokio::task::JoinSet::new();
    for n in 0..8 {
        let engine = if n % 2 == 0 { env.engine.clone() } else { other.clone() };
        let both = [accept_first(leaf(&of, 1)), accept_first(leaf(&of, 2))];
        let alone = leaf(&of, 1);
        answers.spawn(async move {
            match n % 4 {
                0 | 1 => engine.interrupts().answer_each(&both, None).await.is_ok(),
                _ => engine.runs().execute(&alone, &both[0].commands[0]).await.is_ok(),
            }
        });
    }
    let won = answers.join_all().await.into_iter().filter(|won| *won).count();
    assert_eq!(won, 1, "exactly one answer to the left interrupt counts");
    if !open(&env, &of).await.is_empty() {
        env.answer(&leaf(&of, 2), "gate", accept()).await.unwrap();
    }
    env.drain().await;
    assert_eq!(env.status(&of).await, "completed");
}

/// Performs a family with nested interrupts: an answer for the right side, then one for the left side with a new run in
/// the same change. Steps that already happened are skipped.
async fn perform(engine: &Engine) -> Result<(), Error> {
    let of = RunRef { tenant: tenant(), run: run_id("the-run") };
    register(engine).await?;
    match engine.runs().create_as(&of.run, &WorkflowId::parse("top").unwrap(), start(json!({}))).await {
        Ok(_) | Err(Error::Refused(Refusal::AlreadyStarted)) => {}
        Err(error) => return Err(error),
    }
    let mut worker = engine.worker();
    worker.drain().await?;
    for side in [2, 1] {
        for run in [of.clone(), child_of(&of, side)] {
            assert_consistent(engine, &run).await;
        }
        let asked = leaf(&of, side);
        if engine.runs().get(&asked).await?.waiting_on().is_some() {
            engine.runs().execute(&asked, &resolve(InterruptId(1), accept())).await?;
        }
        worker.drain().await?;
    }
    Ok(())
}

async fn assert_performed(env: &TestEnv, what: &str) {
    let of = RunRef { tenant: tenant(), run: run_id("the-run") };
    assert_eq!(env.status(&of).await, "completed", "{what}");
    assert_eq!(env.drain().await, 0, "{what}");
    assert!(env.pending().await.is_empty(), "{what}");
    let count = |log: &[String], part: &str| log.iter().map(|line| line.matches(part).count()).sum::<usize>();
    let log = env.log(&of).await;
    for part in [r#""opened":[{"id":1"#, r#""closed":[{"#] {
        assert_eq!(count(&log, part), 2, "{part} once for each interrupt, {what}: {log:#?}");
    }
    for side in [1, 2] {
        let log = env.log(&leaf(&of, side)).await;
        assert_eq!(count(&log, "interrupt.resolved"), 1, "{what}");
    }
}

async fn a_crash_around_any_commit_of_nested_interrupts_loses_and_repeats_nothing(database: TestDatabase) {
    let env = TestEnv::with(database.another().await, |options| options).await;
    perform(&env.engine).await.unwrap();
    let commits = env.engine.counters().commits.load(Ordering::SeqCst);
    assert_performed(&env, "no fault").await;
    // A worker acknowledges several dispatches in one commit if they end together, so that the last commits of this
    // count are not always reached.
    let (first, certain) = (4, commits - 4);
    for n in first..=commits {
        for stop in [CommitFault::StopBefore(n), CommitFault::StopAfter(n)] {
            let env = TestEnv::with(database.another().await, with_fault(stop)).await;
            let crashed = perform(&env.engine).await.is_err();
            assert!(crashed || n > certain, "{stop:?} was reached");
            let env = env.reopen(|options| options).await;
            perform(&env.engine).await.unwrap();
            assert_performed(&env, &format!("{stop:?}")).await;
        }
    }
}

async fn a_pending_row_of_an_earlier_version_has_no_path(env: TestEnv) {
    let of = waiting_family(&env).await;
    env.database.execute("UPDATE pending SET path = NULL").await.unwrap();
    let rows = env.engine.interrupts().open(&tenant(), PendingCursor::default(), 10).await.unwrap();
    assert!(rows.len() == 2 && rows.iter().all(|row| row.path.is_empty()));
    assert_eq!(open(&env, &of).await.len(), 2);
}
