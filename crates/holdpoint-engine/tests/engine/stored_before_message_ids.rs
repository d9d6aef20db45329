//! Messages that were stored before their ids were: the migration finds the ids of messages to agents.

use std::collections::BTreeSet;

use holdpoint_engine::Location;
use serde_json::json;

use crate::test_database::on_both;
use crate::test_env::{TestEnv, tenant};

on_both! {
    ids_of_stored_messages_to_agents_are_found_after_the_migration,
}

async fn ids_of_stored_messages_to_agents_are_found_after_the_migration(env: TestEnv) {
    let database = &env.database;
    database
        .execute("DROP INDEX messages_by_input; ALTER TABLE messages DROP COLUMN input_id")
        .await
        .unwrap();
    let messages = [
        json!({"id": "u1", "role": "user", "content": "an id: \",\"role\":\"system\" and NUL \u{0}"}),
        json!({"id": "ü'2\u{1F600}", "role": "user", "content": ["a"]}),
        json!({"id": "s1", "role": "system", "content": "", "by": "ann"}),
        json!({"id": "", "role": "user"}),
        json!({"id": "a\"b\\", "role": "user", "content": "the id is not found"}),
        json!({"id": "reply-1", "role": "assistant", "content": "b"}),
        json!({"id": "c1:result", "role": "tool", "callId": "c1", "content": "{\"id\":\"x\",\"role\":\"user\"}"}),
    ];
    for (at, message) in messages.iter().enumerate() {
        let text = message.to_string().replace('\'', "''");
        let row = format!(
            "INSERT INTO messages (tenant_id, thread_id, run_id, seq, at_ms, message) VALUES ('default', 't', 'r', {at}, 0, '{text}')"
        );
        database.execute(&row).await.unwrap();
    }
    let migration = include_str!("../../src/store/migrations/0024_message_ids.sql");
    let migration = match database.location() {
        Location::Sqlite(_) => migration.replace("{find}", "instr"),
        Location::Postgres(_) => migration.replace("{find}", "strpos").replace("TEXT", "TEXT COLLATE \"C\""),
    };
    database.execute(&migration).await.unwrap();
    let ids = ["u1", "ü'2\u{1F600}", "s1", "", "a\"b\\", "reply-1", "c1:result", "x", "b"];
    let found = env.engine.threads().input_ids(&tenant(), "t", ids.into_iter()).await.unwrap();
    assert_eq!(found, BTreeSet::from(["u1", "ü'2\u{1F600}", "s1", ""].map(str::to_owned)));
}
