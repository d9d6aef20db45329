//! Runs stored by a version without grants: they continue, and the rules of grants apply to them.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use holdpoint_agents::{AgentRuntime, AgentSettings};
use holdpoint_engine::core::agent::CallStatus;
use holdpoint_engine::core::{
    Answer, Command, ForkMode, InterruptId, Kind, NodeId, Principal, Run, RunEnd, RunRef, digest,
};
use holdpoint_engine::{EffectContext, Error, Node, Options, Outputs, PendingFilter, Stop};
use serde_json::json;

use crate::agents::{Calls, agent_of, counting_tool};
use crate::test_database::{Subject, TestDatabase, on_both, schema};
use crate::test_env::fork;
use crate::test_env::{TestEnv, accept, alice, run_id, tenant};

on_both! {
    waiting_runs_continue_and_perform_each_effect_once,
    interrupted_effects_are_performed_and_recorded_as_one_use,
    copies_cannot_use_the_decisions_of_their_source,
    copies_of_votes_count_only_their_own,
    new_copies_cannot_use_stored_decisions,
    copies_of_child_runs_cannot_use_the_grants_of_the_parent,
    agents_continue_with_stored_decisions,
    stored_holds_have_grants,
    a_stored_loop_without_its_gate_keeps_running_with_a_warning,
    usage_counts_rows_stored_by_older_versions,
    lists_find_rows_stored_by_older_versions,
}

const VOTED_BRANCH: &str = "01a1e653-8314-70ba-8459-8e77bb9f4077";
const SLEEPING_REPLAY: &str = "01a1e653-831c-7581-a661-c17d62269296";
const SLEEPING_BRANCH: &str = "01a1e653-831e-7754-80ac-a5fbf6b919d4";
const REPLAY_OF_SLEEPING_BRANCH: &str = "01a1e653-8320-7590-845f-b3ef5a07273e";
const PAUSED_BRANCH: &str = "01a1e653-8325-756b-96e8-b79479050478";
const AGENT_WAITING: &str = "01a1e653-835f-766e-9412-515ea02e3467";
const AGENT_DONE: &str = "01a1e653-8374-7093-bb93-c8b48e503522";
const AGENT_CALLING: &str = "01a1e653-83b1-733e-a1ad-39ae0ab33576";
const HOLD_OPEN: &str = "01a1e653-83a4-72a2-a06f-c943b4b34a22";
const HOLD_ACCEPTED: &str = "01a1e653-83a7-7386-81b5-5ed3515d5157";

/// An effect that records the run that performs it.
struct Payment(Arc<Mutex<Vec<String>>>);

impl Node for Payment {
    async fn run(&self, context: &mut EffectContext) -> Result<Outputs, Stop> {
        let (payments, run) = (self.0.clone(), context.run_id().to_string());
        let pay = || async move {
            payments.lock().unwrap().push(run);
            Ok(json!("paid"))
        };
        context.step("pay", pay).await.map(|_| Outputs::new())
    }
}

/// A test environment with the stored rows.
struct RestoredEnv {
    env: TestEnv,
    payments: Arc<Mutex<Vec<String>>>,
    calls: Calls,
}

impl Subject for RestoredEnv {
    async fn at(database: TestDatabase) -> Self {
        database.execute(&schema(&database, 15)).await.unwrap();
        database.execute(include_str!("stored_before_grants/rows.sql")).await.unwrap();
        let (payments, calls) = (Arc::default(), Calls::default());
        let payment = Payment(Arc::clone(&payments));
        let rust = BTreeMap::from([counting_tool("send", &calls, false, None)]);
        let configure = |options: Options| {
            options
                .node("test.pay", payment)
                .extension(AgentRuntime::new(AgentSettings { rust, ..AgentSettings::default() }))
        };
        let env = TestEnv::with(database, configure).await;
        env.expire_leases().await;
        // Decisions of the tests are later than the stored ones.
        env.clock.advance(1);
        Self { env, payments, calls }
    }
}

impl RestoredEnv {
    /// Performs all work that is due within two minutes.
    async fn finish_work(&self) {
        for _ in 0..2 {
            self.env.drain().await;
            self.env.clock.advance(60_000);
        }
        self.env.drain().await;
    }

    /// Returns how many payments each of these runs made.
    fn payments(&self, runs: &[&str]) -> Vec<usize> {
        let payments = self.payments.lock().unwrap();
        runs.iter().map(|run| payments.iter().filter(|payer| *payer == run).count()).collect()
    }

    async fn vote(&self, run: &str, name: &str) {
        let by = Principal { roles: vec!["release".to_owned()], ..Principal::named(name) };
        let answers = BTreeMap::from([(InterruptId(1), Answer::new(accept(), by))]);
        self.env.engine.runs().execute(&of(run), &Command::Resolve { answers }).await.unwrap();
    }

    async fn run(&self, run: &str) -> Arc<Run> {
        self.env.run(&of(run)).await
    }

    async fn error_code(&self, run: &RunRef) -> String {
        match self.env.run(run).await.end.clone() {
            Some(RunEnd::Failed { error, .. }) => error.code,
            other => panic!("{} did not fail: {other:?}", run.run),
        }
    }

    async fn assert_not_transferable(&self, runs: &[&str]) {
        for run in runs {
            assert_eq!(self.error_code(&of(run)).await, "grant_not_transferable", "{run}");
        }
        assert_eq!(self.payments(runs), vec![0; runs.len()]);
    }
}

fn of(run: &str) -> RunRef {
    RunRef { tenant: tenant(), run: run_id(run) }
}

fn uses(run: &Run) -> usize {
    run.interrupts.iter().map(|interrupt| interrupt.uses.len()).sum()
}

async fn waiting_runs_continue_and_perform_each_effect_once(restored: RestoredEnv) {
    restored.vote("open", "ann").await;
    restored.vote("voted", "bob").await;
    restored.vote("parent-open", "ann").await;
    let granted = Answer::new(
        json!({"decision": "granted"}),
        Principal { roles: vec!["release".to_owned()], ..Principal::named("ann") },
    );
    let answers = BTreeMap::from([(InterruptId(1), granted)]);
    restored.env.engine.runs().execute(&of("governed"), &Command::Resolve { answers }).await.unwrap();
    restored.env.engine.runs().execute(&of("paused"), &Command::Resume { by: alice() }).await.unwrap();
    restored.finish_work().await;
    for run in ["open", "voted", "sleeping", "paused", "paid", "parent", "parent-open", "governed"] {
        let run = restored.run(run).await;
        assert_eq!((run.status().as_str(), uses(&run)), ("completed", 1), "{}", run.id);
    }
    let payers = ["open", "voted", "sleeping", "paused", "parent.1", "parent-open.1", "governed"];
    assert_eq!(restored.payments(&payers), [1; 7]);
    assert_eq!(restored.payments(&["paid", "rejected", "cancelled"]), [0; 3], "these runs had ended");
    assert_eq!(restored.env.status(&of("rejected")).await, "failed");
    assert_eq!(restored.env.status(&of("cancelled")).await, "cancelled");
}

async fn interrupted_effects_are_performed_and_recorded_as_one_use(restored: RestoredEnv) {
    restored.finish_work().await;
    for run in ["inside", "queued"] {
        let run = restored.run(run).await;
        assert_eq!((run.status().as_str(), uses(&run)), ("completed", 1), "{}", run.id);
    }
    assert_eq!(restored.payments(&["inside", "queued"]), [1, 1]);
}

async fn copies_cannot_use_the_decisions_of_their_source(restored: RestoredEnv) {
    restored.env.engine.runs().execute(&of(PAUSED_BRANCH), &Command::Resume { by: alice() }).await.unwrap();
    restored.finish_work().await;
    let copies = [SLEEPING_REPLAY, SLEEPING_BRANCH, REPLAY_OF_SLEEPING_BRANCH, PAUSED_BRANCH];
    restored.assert_not_transferable(&copies).await;
}

async fn copies_of_votes_count_only_their_own(restored: RestoredEnv) {
    restored.vote(VOTED_BRANCH, "bob").await;
    restored.finish_work().await;
    assert_eq!(restored.env.status(&of(VOTED_BRANCH)).await, "waiting-approval");
    restored.vote(VOTED_BRANCH, "ann").await;
    restored.finish_work().await;
    assert_eq!(restored.env.status(&of(VOTED_BRANCH)).await, "completed");
    assert_eq!(restored.payments(&[VOTED_BRANCH]), [1]);
}

async fn new_copies_cannot_use_stored_decisions(restored: RestoredEnv) {
    let env = &restored.env;
    let mut copies = vec![fork(env, &of("sleeping"), ForkMode::Replay, 0).await];
    for source in ["paid", "sleeping"] {
        let log = env.log(&of(source)).await;
        let decided = log.iter().position(|line| line.contains("interrupt.resolved")).unwrap() as u64 + 1;
        copies.push(fork(env, &of(source), ForkMode::Branch, decided).await);
    }
    restored.finish_work().await;
    let copies: Vec<_> = copies.iter().map(|copy| copy.run.as_str()).collect();
    restored.assert_not_transferable(&copies).await;
}

async fn copies_of_child_runs_cannot_use_the_grants_of_the_parent(restored: RestoredEnv) {
    let branch = fork(&restored.env, &of("parent.1"), ForkMode::Branch, 1).await;
    let replay = fork(&restored.env, &of("parent.1"), ForkMode::Replay, 0).await;
    restored.finish_work().await;
    restored.assert_not_transferable(&[branch.run.as_str(), replay.run.as_str()]).await;
}

async fn agents_continue_with_stored_decisions(restored: RestoredEnv) {
    restored.vote(AGENT_WAITING, "ann").await;
    restored.finish_work().await;
    let run = restored.run(AGENT_WAITING).await;
    assert_eq!((run.status().as_str(), uses(&run)), ("completed", 1));
    assert_eq!(restored.calls.lock().unwrap().len(), 1);
    // The process ended during a call that must not be repeated without a decision.
    let run = restored.run(AGENT_CALLING).await;
    assert_eq!(run.status().as_str(), "waiting-approval");
    assert_eq!(agent_of(&run).call("c1").unwrap().status, CallStatus::Suspended);
    assert_eq!(uses(&*restored.run(AGENT_DONE).await), 1);
}

async fn stored_holds_have_grants(restored: RestoredEnv) {
    restored.vote(HOLD_OPEN, "ann").await;
    for hold in [HOLD_OPEN, HOLD_ACCEPTED].map(of) {
        let shown = digest(&restored.env.run(&hold).await.interrupts[0].data);
        let engine = &restored.env.engine;
        let consume =
            |key: &str| engine.grants().consume(&hold, InterruptId(1), &shown, "bot", key.to_owned());
        consume("one").await.unwrap();
        assert!(
            matches!(consume("two").await, Err(Error::Refused(refusal)) if refusal.code().as_str() == "grant_used")
        );
    }
}

async fn a_stored_loop_without_its_gate_keeps_running_with_a_warning(restored: RestoredEnv) {
    let run = restored.run("loop").await;
    let permits = restored.env.engine.workflows().permits(&run.workflow, &NodeId::parse("gate").unwrap());
    assert_eq!(permits.len(), 1, "{permits:?}");
    let notes = restored.env.engine.workflows().grant_notes(&run.workflow);
    assert!(notes.iter().any(|note| note.message.contains("every round")), "{notes:?}");
    restored.vote("loop", "ann").await;
    restored.finish_work().await;
    assert!(restored.payments(&["loop"])[0] > 1, "the loop repeats its effect");
}

async fn usage_counts_rows_stored_by_older_versions(restored: RestoredEnv) {
    let env = &restored.env;
    let stored = async || {
        let sql = "SELECT (SELECT COUNT(*) FROM runs WHERE status NOT IN ('completed', 'failed', 'cancelled')) AS open, \
            (SELECT SUM(OCTET_LENGTH(events)) FROM events) AS bytes, (SELECT COUNT(*) FROM workflows) AS definitions";
        let rows = env.database.read(sql).await;
        rows[0].iter().map(|(_, value)| value.as_deref().unwrap().parse().unwrap()).collect::<Vec<u64>>()
    };
    let counted = async || {
        let usage = env.engine.limits().usage(&tenant()).await.unwrap();
        vec![usage.open_runs, usage.stored_bytes, usage.definitions]
    };
    let before = counted().await;
    assert_eq!(before, stored().await);
    restored.finish_work().await;
    assert_eq!(counted().await, stored().await);
    assert!(counted().await[0] < before[0], "runs have ended");
    let names: Vec<_> = env.engine.workflows().list(&tenant(), 100).await.unwrap();
    assert!(!names.is_empty() && names.iter().all(|one| !one.name.is_empty()), "{names:?}");
}

async fn lists_find_rows_stored_by_older_versions(restored: RestoredEnv) {
    let rows = async |filter: PendingFilter| {
        let page = restored.env.engine.interrupts().page(&tenant(), &filter, 500).await.unwrap();
        page.rows.into_iter().map(|row| (row.run, row.id, row.kind, row.workflow)).collect::<Vec<_>>()
    };
    let all = rows(PendingFilter::default()).await;
    let approvals = rows(PendingFilter { kinds: vec![Kind::Approval], ..PendingFilter::default() }).await;
    assert!(!approvals.is_empty());
    assert_eq!(approvals, all.iter().filter(|row| row.2 == "approval").cloned().collect::<Vec<_>>());
    let workflow = Some(all[0].3.as_str().to_owned());
    let of_workflow = rows(PendingFilter { workflow, ..PendingFilter::default() }).await;
    assert_eq!(of_workflow, all.iter().filter(|row| row.3 == all[0].3).cloned().collect::<Vec<_>>());
}
