//! `pooler=transaction`, as for a proxy that gives every transaction another session: everything works, and nothing
//! is left behind in a session. The server's own log is the witness.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use holdpoint_engine::core::{NodeId, RunRef, WorkflowId};
use holdpoint_engine::{Clock, EffectContext, Engine, Location, Node, Options, Outputs, Stop};
use serde_json::json;

use crate::cluster::Cluster;
use crate::house::{NOON, accept, line, resolve, start, tenant};
use crate::server::status;

/// Does something outside, and counts how often.
struct Outside(Arc<AtomicU32>);

impl Node for Outside {
    async fn run(&self, context: &mut EffectContext) -> Result<Outputs, Stop> {
        let done = self.0.clone();
        let number = context
            .step("once", || async move { Ok(json!(done.fetch_add(1, Ordering::SeqCst) + 1)) })
            .await?;
        Ok(Outputs::from_iter([("number".to_owned(), number)]))
    }
}

/// A gate, an effect, a sleep, and a gate that nobody answers in time.
async fn story(url: String) {
    let (clock, done) = (Clock::manual(NOON), Arc::new(AtomicU32::new(0)));
    let options = Options::new(Location::Postgres(url)).clock(clock.clone());
    let engine = Engine::open(options.node("test.outside", Outside(done.clone()))).await.unwrap();
    let gate = json!({"title": "Go on?", "actions": ["accept", "reject"]});
    let hurry = json!({"title": "Quick?", "actions": ["accept"], "timeoutMs": 1000});
    let nodes = [
        ("gate", "core.approvalGate", gate),
        ("outside", "test.outside", json!({})),
        ("nap", "core.delay", json!({"ms": 60_000})),
        ("hurry", "core.approvalGate", hurry),
    ];
    engine.register(&tenant(), line("flow", &nodes)).await.unwrap();
    let run = engine.start(&WorkflowId::parse("flow").unwrap(), start(json!({}))).await.unwrap();
    let of = RunRef { tenant: tenant(), run: run.id.clone() };
    let asked = run.interrupt_of_node(&NodeId::parse("gate").unwrap()).expect("asked").id;
    engine.execute(&of, &resolve(asked, accept())).await.unwrap();
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
async fn behind_a_pooler_nothing_is_kept_in_a_session() {
    let cluster = Cluster::start();
    cluster.configure("log_statement = all", "host all all 127.0.0.1/32 trust");
    cluster.execute("CREATE DATABASE straight").await;
    cluster.execute("CREATE DATABASE pooled").await;
    let address = |database: &str| format!("postgres://postgres@127.0.0.1:{}/{database}", cluster.port);

    let before = cluster.log().len();
    story(format!("{}?pooler=transaction", address("pooled"))).await;
    let log = cluster.log()[before..].to_owned();
    assert!(log.contains("execute <unnamed>: ") && log.contains("statement: BEGIN; SET LOCAL "), "{log}");
    assert_eq!(kept(&log), [""; 0]);

    // That the log would tell is shown by an engine that has its sessions to itself.
    let before = cluster.log().len();
    story(address("straight")).await;
    assert_ne!(kept(&cluster.log()[before..]), [""; 0]);
}

/// Statements with a name, settings of a session, and ears that only a session has.
fn kept(log: &str) -> Vec<&str> {
    let named =
        |line: &str| line.split_once("execute ").is_some_and(|(_, name)| !name.starts_with("<unnamed>"));
    let lasting =
        |sql: &str| sql.starts_with("LISTEN") || (sql.starts_with("SET ") && !sql.starts_with("SET LOCAL "));
    let session =
        |line: &str| line.split_once("statement: ").is_some_and(|(_, text)| text.split("; ").any(lasting));
    log.lines().filter(|line| line.contains(" LOG: ") && (named(line) || session(line))).collect()
}
