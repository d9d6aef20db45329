//! Tests of the handle lock: one holder at a time, fencing after a takeover, and encryption of the stored state.

use std::time::Duration;

use holdpoint_core::{RunId, RunRef, TenantId};
use serde_json::json;

use holdpoint_engine::extension::Handle;
use holdpoint_engine::{Clock, Engine, Location, Options};

use super::locked_handle::{GraphAttempt, LockedHandle};
use super::{ProviderSettings, Providers, code};

const LOCK_MS: i64 = 30_000;

struct Fixture {
    folder: tempfile::TempDir,
    engine: Engine,
    row: Handle,
}

async fn insert_row(engine: &Engine, of: &RunRef) -> Handle {
    let mut row = Handle::new(of, "run-1", engine.now(), engine.now().plus_ms(3_600_000));
    row.graph = "langgraph:review".to_owned();
    assert!(engine.handles().insert(&row).await.unwrap());
    row
}

async fn fixture() -> Fixture {
    let folder = tempfile::tempdir().unwrap();
    let location = Location::Sqlite(folder.path().join("holdpoint.db"));
    let settings = ProviderSettings::parse("{}", folder.path(), folder.path().join("p")).unwrap();
    let options = Options::new(location)
        .manual_worker()
        .clock(Clock::manual(1_800_000_000_000))
        .extension(Providers::new(settings).unwrap());
    let engine = Engine::open(options).await.unwrap();
    let of = RunRef { tenant: TenantId::parse("default").unwrap(), run: RunId::parse("run-1").unwrap() };
    let row = insert_row(&engine, &of).await;
    Fixture { folder, engine, row }
}

impl Fixture {
    async fn handle(&self, attempt: &str) -> Option<LockedHandle> {
        let attempt = GraphAttempt {
            graph: "langgraph:review".into(),
            name: "review".into(),
            slot: "graph/1".into(),
            attempt: attempt.into(),
            starts_turn: true,
            within: Duration::from_secs(60),
        };
        LockedHandle::open(&self.engine, &self.row, attempt).await.unwrap()
    }
}

#[tokio::test]
async fn a_handle_has_one_holder_and_the_next_one_can_lock_after_the_release() {
    let fixture = fixture().await;
    let first = fixture.handle("a").await.expect("the lock is free");
    assert!(fixture.handle("b").await.is_none(), "the lock is held");
    first.close().await;
    assert!(fixture.handle("b").await.is_some());
}

#[tokio::test]
async fn an_expired_lock_is_taken_over_and_writes_of_the_old_holder_are_rejected() {
    let fixture = fixture().await;
    let stale = fixture.handle("a").await.unwrap();
    stale.begin(json!({"thread": "t-1"})).await.unwrap();
    fixture.engine.clock().advance(LOCK_MS - 1);
    assert!(fixture.handle("b").await.is_none(), "the lock has not expired");
    fixture.engine.clock().advance(1);
    let next = fixture.handle("a").await.expect("the lock has expired");
    assert!(next.may_have_been_sent(), "the new holder sees the attempt that was begun");
    assert_eq!(next.reference(), Some(json!({"thread": "t-1"})));
    for refused in
        [stale.keep(json!({"thread": "t-2"})).await, stale.keep_attachment(b"x").await, stale.settle().await]
    {
        assert_eq!(refused.unwrap_err().code, code::LOCK_LOST);
    }
    stale.close().await;
    assert!(fixture.handle("b").await.is_none(), "the old holder cannot release the new holder's lock");
    assert_eq!(next.reference(), Some(json!({"thread": "t-1"})));
}

#[tokio::test]
async fn one_of_several_concurrent_lock_attempts_succeeds() {
    let fixture = fixture().await;
    for round in 0..20 {
        let attempts = futures_util::future::join_all((0..8).map(|_| fixture.handle("a"))).await;
        let held: Vec<LockedHandle> = attempts.into_iter().flatten().collect();
        assert_eq!(held.len(), 1, "round {round}");
        for handle in held {
            handle.close().await;
        }
    }
}

#[tokio::test]
async fn the_state_of_a_provider_is_encrypted_in_the_database_files() {
    let fixture = fixture().await;
    let handle = fixture.handle("a").await.unwrap();
    let canary = "thread-4711-canary";
    handle.keep(json!({"thread": canary})).await.unwrap();
    handle.keep_attachment(format!("a transcript of {canary}").as_bytes()).await.unwrap();
    assert_eq!(handle.attachment().await.unwrap().unwrap(), format!("a transcript of {canary}").as_bytes());
    assert!(!format!("{handle:?}").contains("canary"));
    handle.close().await;
    let row = fixture.engine.handles().by_key(&fixture.row.tenant, &fixture.row.state_key).await.unwrap();
    assert!(!format!("{row:?}").contains("canary"));
    fixture.engine.close().await;
    let mut bytes_searched = 0;
    for entry in std::fs::read_dir(fixture.folder.path()).unwrap() {
        let bytes = std::fs::read(entry.unwrap().path()).unwrap();
        bytes_searched += bytes.len();
        assert!(!bytes.windows(canary.len()).any(|part| part == canary.as_bytes()));
    }
    assert!(bytes_searched > 10_000, "the folder contains a database");
}

#[tokio::test]
async fn a_held_lock_is_renewed() {
    let folder = tempfile::tempdir().unwrap();
    let settings =
        ProviderSettings::parse(r#"{"lockMs": 300}"#, folder.path(), folder.path().join("p")).unwrap();
    let options = Options::new(Location::Sqlite(folder.path().join("holdpoint.db")))
        .manual_worker()
        .extension(Providers::new(settings).unwrap());
    let engine = Engine::open(options).await.unwrap();
    let of = RunRef { tenant: TenantId::parse("default").unwrap(), run: RunId::parse("run-1").unwrap() };
    let row = insert_row(&engine, &of).await;
    let fixture = Fixture { folder, engine, row };
    let held = fixture.handle("a").await.unwrap();
    let first = locked_until(&fixture).await;
    let mut renewals = 0;
    let mut last = first;
    while renewals < 3 {
        tokio::task::yield_now().await;
        let now = locked_until(&fixture).await;
        if now > last {
            (renewals, last) = (renewals + 1, now);
        }
    }
    assert!(fixture.handle("b").await.is_none());
    held.close().await;
}

async fn locked_until(fixture: &Fixture) -> i64 {
    let row = fixture.engine.handles().by_key(&fixture.row.tenant, &fixture.row.state_key).await.unwrap();
    row.unwrap().locked_until.unwrap().0
}
