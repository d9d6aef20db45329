//! `pooler=transaction`, for a proxy that assigns a session to each transaction: runs complete, and the engine leaves
//! no state in a session. The tests read the server's log.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use holdpoint_engine::core::{NodeId, RunRef, WorkflowId};
use holdpoint_engine::{Clock, EffectContext, Engine, Location, Node, Options, Outputs, Stop};
use serde_json::json;

use crate::postgres::cluster::Cluster;
use crate::postgres::server::status;
use crate::test_env::{NOON, accept, line, resolve, start, tenant};

/// A node with an effect. Counts its executions.
struct Effect(Arc<AtomicU32>);

impl Node for Effect {
    async fn run(&self, context: &mut EffectContext) -> Result<Outputs, Stop> {
        let done = self.0.clone();
        let number = context
            .step("once", || async move { Ok(json!(done.fetch_add(1, Ordering::SeqCst) + 1)) })
            .await?;
        Ok(Outputs::from_iter([("number".to_owned(), number)]))
    }
}

/// Executes a run with a gate, an effect, a delay, and a gate that expires.
async fn execute_run(url: String) {
    let (clock, done) = (Clock::manual(NOON), Arc::new(AtomicU32::new(0)));
    let options = Options::new(Location::Postgres(url)).manual_worker().clock(clock.clone());
    let engine = Engine::open(options.node("test.effect", Effect(done.clone()))).await.unwrap();
    let gate = json!({"title": "Go on?", "actions": ["accept", "reject"]});
    let expiring = json!({"title": "Quick?", "actions": ["accept"], "timeoutMs": 1000});
    let nodes = [
        ("gate", "core.approvalGate", gate),
        ("effect", "test.effect", json!({})),
        ("delay", "core.delay", json!({"ms": 60_000})),
        ("expiring", "core.approvalGate", expiring),
    ];
    engine.workflows().register(&tenant(), line("flow", &nodes)).await.unwrap();
    let run = engine.runs().create(&WorkflowId::parse("flow").unwrap(), start(json!({}))).await.unwrap();
    let of = RunRef { tenant: tenant(), run: run.id.clone() };
    let asked = run.interrupt_of_node(&NodeId::parse("gate").unwrap()).expect("asked").id;
    engine.runs().execute(&of, &resolve(asked, accept())).await.unwrap();
    let mut worker = engine.worker();
    assert_eq!(worker.drain().await.unwrap(), 1, "the effect");
    assert_eq!(done.load(Ordering::SeqCst), 1);
    assert_eq!(status(&engine, &of).await, "running");
    clock.advance(60_000);
    worker.drain().await.unwrap();
    assert_eq!(status(&engine, &of).await, "waiting-approval");
    clock.advance(1000);
    worker.drain().await.unwrap();
    assert_eq!(status(&engine, &of).await, "failed");
    assert_eq!(done.load(Ordering::SeqCst), 1);
    engine.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn with_a_pooler_the_engine_keeps_no_state_in_a_session() {
    let cluster = Cluster::start();
    cluster.configure("log_statement = all", "host all all 127.0.0.1/32 trust");
    cluster.execute("CREATE DATABASE straight").await;
    cluster.execute("CREATE DATABASE pooled").await;
    let address = |database: &str| format!("postgres://postgres@127.0.0.1:{}/{database}", cluster.port);

    let before = cluster.log().len();
    execute_run(format!("{}?pooler=transaction", address("pooled"))).await;
    let log = cluster.log()[before..].to_owned();
    assert!(log.contains("execute <unnamed>: ") && log.contains("statement: BEGIN; SET LOCAL "), "{log}");
    assert_eq!(session_statements(&log), [""; 0]);

    // Without a pooler the log does contain such statements.
    let before = cluster.log().len();
    execute_run(address("straight")).await;
    assert_ne!(session_statements(&cluster.log()[before..]), [""; 0]);
}

/// Returns the log lines of named statements, session settings and `LISTEN`.
fn session_statements(log: &str) -> Vec<&str> {
    let named =
        |line: &str| line.split_once("execute ").is_some_and(|(_, name)| !name.starts_with("<unnamed>"));
    let sets_state =
        |sql: &str| sql.starts_with("LISTEN") || (sql.starts_with("SET ") && !sql.starts_with("SET LOCAL "));
    let session =
        |line: &str| line.split_once("statement: ").is_some_and(|(_, text)| text.split("; ").any(sets_state));
    log.lines().filter(|line| line.contains(" LOG: ") && (named(line) || session(line))).collect()
}
