//! Families that waited before runs recorded the interrupts of their child runs: the next start of the engine records
//! them, once.

use holdpoint_engine::core::{NodeId, RunRef};
use holdpoint_engine::{Location, PendingCursor};
use serde_json::{Value, json};

use crate::families::{assert_consistent, calls};
use crate::test_database::on_both;
use crate::test_env::{TestEnv, accept, child_of, gated, tenant};

on_both! {
    families_that_waited_before_the_migration_are_shown_at_their_root,
}

/// Removes what the versions before the migration did not store.
async fn store_as_before(env: &TestEnv, families: &[&RunRef]) {
    let database = &env.database;
    for of in families {
        let (log, starts) = env.engine.events().list_with_commits(of).await.unwrap();
        for start in &starts {
            let ends_at = starts.range(start + 1..).next().copied().unwrap_or(u64::MAX);
            let commit = log.iter().filter(|one| (*start..ends_at).contains(&one.seq));
            let mut events = json!(commit.map(|one| &one.event).collect::<Vec<_>>());
            strip(&mut events);
            let (events, run) = (events.to_string().replace('\'', "''"), &of.run);
            let sql =
                format!("UPDATE events SET events = '{events}' WHERE run_id = '{run}' AND seq = {start}");
            database.execute(&sql).await.unwrap();
        }
    }
    let earlier = "DROP INDEX pending_without_path; ALTER TABLE pending DROP COLUMN path";
    database.execute(earlier).await.unwrap();
    let migration = include_str!("../../src/store/migrations/0025_pending_paths.sql");
    let migration = match database.location() {
        Location::Sqlite(_) => migration.to_owned(),
        Location::Postgres(_) => migration.replace("TEXT", "TEXT COLLATE \"C\""),
    };
    database.execute(&migration).await.unwrap();
}

fn strip(value: &mut Value) {
    match value {
        Value::Object(members) => {
            members.shift_remove("interrupts");
            members.shift_remove("above");
            members.values_mut().for_each(strip);
        }
        Value::Array(items) => items.iter_mut().for_each(strip),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

async fn names(env: &TestEnv, of: &RunRef) -> Vec<String> {
    let open = env.engine.interrupts().of_family(&tenant(), &env.run(of).await).await.unwrap();
    open.iter().map(|one| one.run.interrupt_name(one.id)).collect()
}

async fn families_that_waited_before_the_migration_are_shown_at_their_root(env: TestEnv) {
    for definition in [
        gated("leaf"),
        calls("lower", "leaf", json!({})),
        calls("middle", "lower", json!({})),
        calls("top", "middle", json!({})),
    ] {
        env.register(definition).await;
    }
    let (of, alone) = (env.start("top").await, env.start("leaf").await);
    env.drain().await;
    let (middle, lower) = (child_of(&of, 1), child_of(&child_of(&of, 1), 1));
    let leaf = child_of(&lower, 1);
    store_as_before(&env, &[&of, &middle, &lower, &leaf, &alone]).await;
    let env = env.reopen(|options| options).await;
    assert_eq!(names(&env, &of).await, [format!("{}:i1", leaf.run)]);
    for run in [&of, &middle, &lower] {
        assert_consistent(&env.engine, run).await;
    }
    let rows = env.engine.interrupts().open(&tenant(), PendingCursor::default(), 10).await.unwrap();
    let path = |of: &RunRef| -> Vec<String> {
        let row = rows.iter().find(|row| row.run == of.run).unwrap();
        row.path.iter().map(|above| above.workflow.to_string()).collect()
    };
    assert_eq!((path(&leaf), path(&alone)), (["top", "middle", "lower"].map(str::to_owned).to_vec(), vec![]));
    let log = env.log(&of).await;
    let env = env.reopen(|options| options).await;
    assert_eq!(env.log(&of).await, log, "the interrupts are reported once");
    let node = NodeId::parse("call").unwrap();
    let name = format!("{}:i1", leaf.run);
    let found =
        env.engine.interrupts().of_child(&of, &node, Some(&name)).await.unwrap().expect("an interrupt below");
    assert_eq!(found.of, leaf);
    env.answer(&leaf, "gate", accept()).await.unwrap();
    env.drain().await;
    assert_eq!((env.status(&of).await, names(&env, &of).await), ("completed", vec![]));
}
