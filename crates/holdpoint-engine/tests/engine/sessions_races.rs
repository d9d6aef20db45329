//! Races of sign-outs and key rotations in PostgreSQL. Row locks of the test stop each transaction at a chosen
//! statement.

use holdpoint_engine::core::Timestamp;
use holdpoint_engine::{ApiKey, Engine};
use tokio::task::JoinHandle;
use tokio_postgres::Client;

use crate::sessions::{fresh_key, key, made_over};
use crate::slow_node::until_async;
use crate::test_database::TestDatabase;
use crate::test_env::{NOON, TestEnv, tenant};

/// Two nodes, and a session of the test in their schema.
struct Race {
    env: TestEnv,
    other: Engine,
    client: Client,
    ann: ApiKey,
    /// A key made over the session `ses_out`, which is signed out.
    made: ApiKey,
    /// The successor of `made`, made over the session `ses_caller`.
    successor: ApiKey,
}

impl Race {
    async fn prepare() -> Self {
        let database = TestDatabase::postgres().await;
        let TestDatabase::Postgres(schema) = &database else { unreachable!("the database is PostgreSQL") };
        let client = schema.session().await;
        let env = TestEnv::with(database, |options| options).await;
        let other = env.second_engine(|options| options).await;
        let ann = key(&env, "ann").await;
        let out = env.engine.sessions().add(&ann, "ses_out", "t1").await.unwrap();
        let caller = env.engine.sessions().add(&ann, "ses_caller", "t2").await.unwrap();
        let made = made_over(&out, "made");
        assert!(env.engine.keys().add(&made, None).await.unwrap());
        let depends_on = made.depends_on.clone().joined(&caller.dependents());
        let successor =
            ApiKey { lineage: made.lineage.clone(), depends_on, ..made_over(&caller, "successor") };
        Self { env, other, client, ann, made, successor }
    }

    fn sign_out(&self) -> JoinHandle<bool> {
        let (engine, key_id) = (self.env.engine.clone(), self.ann.key_id.clone());
        tokio::spawn(async move { engine.sessions().revoke(&tenant(), &key_id, "ses_out").await.unwrap() })
    }

    fn rotate(&self) -> JoinHandle<bool> {
        rotate(&self.other, &self.made, &self.successor)
    }

    /// Makes a rotation wait after it has its locks: another transaction inserts a key with the hash of the successor.
    async fn hold_insert(&self) {
        let insert = "BEGIN; INSERT INTO keys (key_id, key_hash, tenant_id, principal, roles, scopes, created_ms, test)
            SELECT 'key_other', 'hash of successor', tenant_id, principal, roles, scopes, created_ms, test
            FROM keys WHERE key_id = 'key_made'";
        self.client.batch_execute(insert).await.unwrap();
    }

    /// Waits until this many transactions in the schema wait for locks.
    async fn wait_until_blocked(&self, count: i64) {
        let sql = "SELECT COUNT(DISTINCT waiting.pid) FROM pg_locks waiting JOIN pg_locks held ON held.pid = waiting.pid
            WHERE NOT waiting.granted AND held.relation IN ('keys'::regclass, 'sessions'::regclass)";
        until_async("transactions wait for locks", async || {
            self.client.query_one(sql, &[]).await.unwrap().get::<_, i64>(0) == count
        })
        .await;
    }

    async fn assert_no_active_successor(&self) {
        let stored = self.env.engine.keys().get_by_hash(&self.successor.key_hash).await.unwrap();
        assert!(
            stored.is_none_or(|key| key.revoked_at.is_some()),
            "the successor is active after the sign-out"
        );
    }
}

/// Replaces a key at once.
fn rotate(engine: &Engine, old: &ApiKey, successor: &ApiKey) -> JoinHandle<bool> {
    let (engine, old, successor) = (engine.clone(), old.key_id.clone(), successor.clone());
    tokio::spawn(async move { engine.keys().rotate(&successor, &old, Timestamp(NOON), None).await.unwrap() })
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rotation_that_meets_a_sign_out_stores_no_successor() {
    let race = Race::prepare().await;
    // The sign-out revokes `made` and then waits for this later key.
    let late = ApiKey { depends_on: race.made.depends_on.clone(), ..race.made.clone() };
    let late = ApiKey { key_id: "key_late".to_owned(), key_hash: "hash of late".to_owned(), ..late };
    assert!(race.env.engine.keys().add(&late, None).await.unwrap());
    race.client
        .batch_execute("BEGIN; SELECT 1 FROM keys WHERE key_id = 'key_late' FOR UPDATE")
        .await
        .unwrap();
    let signed_out = race.sign_out();
    race.wait_until_blocked(1).await;
    let rotated = race.rotate();
    race.wait_until_blocked(2).await;
    race.client.batch_execute("ROLLBACK").await.unwrap();
    assert!(signed_out.await.unwrap());
    assert!(!rotated.await.unwrap(), "the predecessor is revoked");
    race.assert_no_active_successor().await;
    race.other.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sign_out_that_meets_a_rotation_revokes_the_successor() {
    let race = Race::prepare().await;
    race.hold_insert().await;
    let rotated = race.rotate();
    race.wait_until_blocked(1).await;
    let signed_out = race.sign_out();
    race.wait_until_blocked(2).await;
    race.client.batch_execute("ROLLBACK").await.unwrap();
    assert!(rotated.await.unwrap(), "the session is active");
    assert!(signed_out.await.unwrap());
    race.assert_no_active_successor().await;
    race.other.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn of_two_concurrent_rotations_of_a_key_one_stores_a_successor() {
    let race = Race::prepare().await;
    race.hold_insert().await;
    let first = race.rotate();
    race.wait_until_blocked(1).await;
    // This successor depends on no session, so the rotation waits for none.
    let second = rotate(&race.env.engine, &race.made, &fresh_key("second"));
    race.wait_until_blocked(2).await;
    race.client.batch_execute("ROLLBACK").await.unwrap();
    assert!(first.await.unwrap());
    assert!(!second.await.unwrap(), "the key is already rotated");
    race.other.close().await;
}
