//! The lock of a handle: one holder at a time, fenced when another took over, and nothing readable in the database.

use std::time::Duration;

use holdpoint_core::{RunId, RunRef, TenantId};
use serde_json::json;

use super::case::{About, Case};
use super::{ProviderSettings, code};
use crate::clock::Clock;
use crate::engine::{Engine, Options};
use crate::location::Location;
use crate::store::handles::{self, HandleRow};

const LOCK_MS: i64 = 30_000;

struct House {
    folder: tempfile::TempDir,
    engine: Engine,
    row: HandleRow,
}

async fn house() -> House {
    let folder = tempfile::tempdir().unwrap();
    let location = Location::Sqlite(folder.path().join("holdpoint.db"));
    let settings = ProviderSettings::parse("{}", folder.path(), folder.path().join("p")).unwrap();
    let options = Options::new(location).clock(Clock::manual(1_800_000_000_000)).providers(settings);
    let engine = Engine::open(options).await.unwrap();
    let of = RunRef { tenant: TenantId::parse("default").unwrap(), run: RunId::parse("run-1").unwrap() };
    let row = engine.handle_of(&of, "langgraph:review").await.unwrap();
    House { folder, engine, row }
}

impl House {
    async fn case(&self, attempt: &str) -> Option<Case> {
        let about = About {
            graph: "langgraph:review".into(),
            name: "review".into(),
            slot: "graph/1".into(),
            attempt: attempt.into(),
            within: Duration::from_secs(60),
        };
        Case::open(&self.engine, &self.row, about).await.unwrap()
    }
}

#[tokio::test]
async fn there_is_one_holder_at_a_time_and_the_next_comes_when_it_lets_go() {
    let house = house().await;
    let first = house.case("a").await.expect("nobody has it");
    assert!(house.case("b").await.is_none(), "it is held");
    first.close().await;
    assert!(house.case("b").await.is_some());
}

#[tokio::test]
async fn a_lock_whose_holder_is_silent_is_taken_over_when_it_has_run_out_and_the_old_holder_writes_nothing() {
    let house = house().await;
    let stale = house.case("a").await.unwrap();
    stale.begin(json!({"thread": "t-1"})).await.unwrap();
    house.engine.clock().advance(LOCK_MS - 1);
    assert!(house.case("b").await.is_none(), "not yet");
    house.engine.clock().advance(1);
    let next = house.case("a").await.expect("30 seconds are over");
    assert!(next.has_begun(), "what was begun is known to whoever takes over: it asks before it sends");
    assert_eq!(next.reference(), Some(json!({"thread": "t-1"})));
    for refused in
        [stale.keep(json!({"thread": "t-2"})).await, stale.keep_attachment(b"x").await, stale.settle().await]
    {
        assert_eq!(refused.unwrap_err().code, code::LOCK_LOST);
    }
    stale.close().await;
    assert!(house.case("b").await.is_none(), "the old holder cannot give away the new one's lock");
    assert_eq!(next.reference(), Some(json!({"thread": "t-1"})));
}

#[tokio::test]
async fn of_many_who_want_it_at_once_one_has_it() {
    let house = house().await;
    for round in 0..20 {
        let cases = futures_util::future::join_all((0..8).map(|_| house.case("a"))).await;
        let held: Vec<Case> = cases.into_iter().flatten().collect();
        assert_eq!(held.len(), 1, "round {round}");
        for case in held {
            case.close().await;
        }
    }
}

#[tokio::test]
async fn what_a_provider_keeps_is_in_no_file_of_the_database() {
    let house = house().await;
    let case = house.case("a").await.unwrap();
    let canary = "thread-4711-canary";
    case.keep(json!({"thread": canary})).await.unwrap();
    case.keep_attachment(format!("a transcript of {canary}").as_bytes()).await.unwrap();
    assert_eq!(case.attachment().await.unwrap().unwrap(), format!("a transcript of {canary}").as_bytes());
    assert!(!format!("{case:?}").contains("canary"));
    case.close().await;
    let row = handles::by_key(house.engine.db(), &house.row.tenant, &house.row.state_key).await.unwrap();
    assert!(!format!("{row:?}").contains("canary"));
    house.engine.close().await;
    let mut looked_at = 0;
    for entry in std::fs::read_dir(house.folder.path()).unwrap() {
        let bytes = std::fs::read(entry.unwrap().path()).unwrap();
        looked_at += bytes.len();
        assert!(!bytes.windows(canary.len()).any(|part| part == canary.as_bytes()));
    }
    assert!(looked_at > 10_000, "there is a database to look at");
}

#[tokio::test]
async fn a_lock_is_renewed_while_somebody_is_at_work() {
    let folder = tempfile::tempdir().unwrap();
    let settings =
        ProviderSettings::parse(r#"{"lockMs": 300}"#, folder.path(), folder.path().join("p")).unwrap();
    let options = Options::new(Location::Sqlite(folder.path().join("holdpoint.db"))).providers(settings);
    let engine = Engine::open(options).await.unwrap();
    let of = RunRef { tenant: TenantId::parse("default").unwrap(), run: RunId::parse("run-1").unwrap() };
    let row = engine.handle_of(&of, "langgraph:review").await.unwrap();
    let house = House { folder, engine, row };
    let held = house.case("a").await.unwrap();
    let first = locked_until(&house).await;
    let mut renewals = 0;
    let mut last = first;
    while renewals < 3 {
        tokio::task::yield_now().await;
        let now = locked_until(&house).await;
        if now > last {
            (renewals, last) = (renewals + 1, now);
        }
    }
    assert!(house.case("b").await.is_none());
    held.close().await;
}

async fn locked_until(house: &House) -> i64 {
    let row = handles::by_key(house.engine.db(), &house.row.tenant, &house.row.state_key).await.unwrap();
    row.unwrap().locked_until.unwrap().0
}
