//! Sign-outs that meet a rotation of a key in the database. Row locks hold each of the two at a chosen statement.

use holdpoint_engine::core::Timestamp;
use holdpoint_engine::{ApiKey, Engine};
use tokio::task::JoinHandle;
use tokio_postgres::Client;

use crate::house::{House, NOON, tenant};
use crate::place::Place;
use crate::sessions::{fresh_key, key, made_over};
use crate::slow_node::until_async;

/// Two nodes, and a session of the test in their schema.
struct Race {
    house: House,
    other: Engine,
    by_hand: Client,
    ann: ApiKey,
    /// Made over the session `ses_out`, which is to be signed out.
    made: ApiKey,
    /// Made over the session `ses_caller` as the successor of `made`.
    successor: ApiKey,
}

impl Race {
    async fn prepare() -> Self {
        let place = Place::postgres().await;
        let Place::Postgres(schema) = &place else { unreachable!("it was just made there") };
        let by_hand = schema.session().await;
        let house = House::with(place, |options| options).await;
        let other = house.second_engine(|options| options).await;
        let ann = key(&house, "ann").await;
        let out = house.engine.add_session(&ann, "ses_out", "t1").await.unwrap();
        let caller = house.engine.add_session(&ann, "ses_caller", "t2").await.unwrap();
        let made = made_over(&out, "made");
        assert!(house.engine.add_key(&made, None).await.unwrap());
        let depends_on = made.depends_on.clone().joined(&caller.dependents());
        let successor =
            ApiKey { lineage: made.lineage.clone(), depends_on, ..made_over(&caller, "successor") };
        Self { house, other, by_hand, ann, made, successor }
    }

    fn sign_out(&self) -> JoinHandle<bool> {
        let (engine, key_id) = (self.house.engine.clone(), self.ann.key_id.clone());
        tokio::spawn(async move { engine.revoke_session(&tenant(), &key_id, "ses_out").await.unwrap() })
    }

    fn rotate(&self) -> JoinHandle<bool> {
        rotate(&self.other, &self.made, &self.successor)
    }

    /// Lets a rotation take its locks and then wait for a key of another transaction with the hash of the successor.
    async fn hold_insert(&self) {
        let insert = "BEGIN; INSERT INTO keys (key_id, key_hash, tenant_id, principal, roles, scopes, created_ms, test)
            SELECT 'key_other', 'hash of successor', tenant_id, principal, roles, scopes, created_ms, test
            FROM keys WHERE key_id = 'key_made'";
        self.by_hand.batch_execute(insert).await.unwrap();
    }

    /// Waits until this many transactions in the schema wait for locks.
    async fn blocked(&self, count: i64) {
        let sql = "SELECT COUNT(DISTINCT waiting.pid) FROM pg_locks waiting JOIN pg_locks held ON held.pid = waiting.pid
            WHERE NOT waiting.granted AND held.relation IN ('keys'::regclass, 'sessions'::regclass)";
        until_async("that transactions wait for locks", async || {
            self.by_hand.query_one(sql, &[]).await.unwrap().get::<_, i64>(0) == count
        })
        .await;
    }

    async fn assert_no_active_successor(&self) {
        let stored = self.house.engine.key_by_hash(&self.successor.key_hash).await.unwrap();
        assert!(stored.is_none_or(|key| key.revoked_at.is_some()), "the successor has outlived the session");
    }
}

/// Replaces a key at once.
fn rotate(engine: &Engine, old: &ApiKey, successor: &ApiKey) -> JoinHandle<bool> {
    let (engine, old, successor) = (engine.clone(), old.key_id.clone(), successor.clone());
    tokio::spawn(async move { engine.rotate_key(&successor, &old, Timestamp(NOON), None).await.unwrap() })
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rotation_that_meets_a_sign_out_stores_no_successor() {
    let race = Race::prepare().await;
    // The sign-out revokes `made` and then waits for this later key.
    let late = ApiKey { depends_on: race.made.depends_on.clone(), ..race.made.clone() };
    let late = ApiKey { key_id: "key_late".to_owned(), key_hash: "hash of late".to_owned(), ..late };
    assert!(race.house.engine.add_key(&late, None).await.unwrap());
    race.by_hand
        .batch_execute("BEGIN; SELECT 1 FROM keys WHERE key_id = 'key_late' FOR UPDATE")
        .await
        .unwrap();
    let signed_out = race.sign_out();
    race.blocked(1).await;
    let rotated = race.rotate();
    race.blocked(2).await;
    race.by_hand.batch_execute("ROLLBACK").await.unwrap();
    assert!(signed_out.await.unwrap());
    assert!(!rotated.await.unwrap(), "its predecessor was revoked");
    race.assert_no_active_successor().await;
    race.other.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sign_out_that_meets_a_rotation_revokes_the_successor() {
    let race = Race::prepare().await;
    race.hold_insert().await;
    let rotated = race.rotate();
    race.blocked(1).await;
    let signed_out = race.sign_out();
    race.blocked(2).await;
    race.by_hand.batch_execute("ROLLBACK").await.unwrap();
    assert!(rotated.await.unwrap(), "the session was active");
    assert!(signed_out.await.unwrap());
    race.assert_no_active_successor().await;
    race.other.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn of_two_rotations_of_a_key_at_once_one_stores_a_successor() {
    let race = Race::prepare().await;
    race.hold_insert().await;
    let first = race.rotate();
    race.blocked(1).await;
    // Made with a key: it waits for no session.
    let second = rotate(&race.house.engine, &race.made, &fresh_key("second"));
    race.blocked(2).await;
    race.by_hand.batch_execute("ROLLBACK").await.unwrap();
    assert!(first.await.unwrap());
    assert!(!second.await.unwrap(), "the key has ended");
    race.other.close().await;
}
