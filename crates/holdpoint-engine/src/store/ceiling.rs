//! The maximum insert rate of a database, as a reference for benchmarks. Inserts rows into a table without a key, a
//! fixed number in each commit. Uses a table of its own.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::postgres::{self, PostgresSettings};
use crate::location::Location;

use super::{Error, Query, Tx, params, sqlite};
use crate::committer::Counters;

const CREATE: &str = "CREATE TABLE IF NOT EXISTS ceiling (first TEXT NOT NULL, second TEXT NOT NULL)";
const INSERT: &str = "INSERT INTO ceiling (first, second) VALUES ($1, $2)";
const DROP: &str = "DROP TABLE ceiling";
/// Bytes of each of the two columns: together a little more than the rows of an answered interrupt.
const WIDTH: usize = 200;

/// Returns the maximum insert rate of a database in rows per second. The database should be an empty one on the same
/// disk.
pub async fn ceiling(
    location: &Location,
    rows_per_commit: usize,
    length: Duration,
) -> Result<f64, crate::Error> {
    let rate = match location {
        Location::Sqlite(path) => {
            let writer = sqlite::Writer::open(path, sqlite::FileAccess::Exclusive)?;
            rows_per_second(&writer, rows_per_commit, length).await
        }
        Location::Postgres(url) => {
            let writer =
                postgres::Writer::new(Arc::new(PostgresSettings::parse(url)?), Arc::new(Counters::default()));
            rows_per_second(&writer, rows_per_commit, length).await
        }
    };
    Ok(rate?)
}

async fn rows_per_second<T: Tx>(tx: &T, rows_per_commit: usize, length: Duration) -> Result<f64, Error> {
    commit(tx, &Query::one(CREATE, Vec::new())).await?;
    let text = "r".repeat(WIDTH);
    let row = || params![text.as_str(), text.as_str()];
    let insert = Query::each(INSERT, (0..rows_per_commit.max(1)).map(|_| row()).collect());
    let begun = Instant::now();
    let mut rows = 0;
    while begun.elapsed() < length {
        commit(tx, &insert).await?;
        rows += insert.sets.len();
        // The SQLite driver never waits, so this is the only point at which the task can be cancelled.
        tokio::task::yield_now().await;
    }
    let rate = rows as f64 / begun.elapsed().as_secs_f64();
    commit(tx, &Query::one(DROP, Vec::new())).await?;
    Ok(rate)
}

async fn commit<T: Tx>(tx: &T, query: &Query) -> Result<(), Error> {
    tx.begin(std::slice::from_ref(query)).await?;
    tx.commit(&[]).await
}
