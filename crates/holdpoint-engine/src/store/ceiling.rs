//! What a database allows at most, for benchmarks to compare with: rows of a plain table without a key, each an insert
//! of its own, so many to a commit that is on the disk before the next begins. Touches no table of ours.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::postgres::{self, Settings};
use crate::location::Location;

use super::{Error, Query, Tx, params, sqlite};
use crate::committer::Counters;

const CREATE: &str = "CREATE TABLE IF NOT EXISTS ceiling (first TEXT NOT NULL, second TEXT NOT NULL)";
const INSERT: &str = "INSERT INTO ceiling (first, second) VALUES ($1, $2)";
const DROP: &str = "DROP TABLE ceiling";
/// Bytes of each of the two columns: together a little more than what an answered interrupt leaves.
const WIDTH: usize = 200;

/// Rows per second. The database is best one of its own on the disk that is meant.
pub async fn ceiling(
    location: &Location,
    rows_per_commit: usize,
    length: Duration,
) -> Result<f64, crate::Error> {
    let rate = match location {
        Location::Sqlite(path) => {
            rows_per_second(&sqlite::Writer::open(path, true)?, rows_per_commit, length).await
        }
        Location::Postgres(url) => {
            let writer =
                postgres::Writer::new(Arc::new(Settings::parse(url)?), Arc::new(Counters::default()));
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
        // A file never makes us wait, and whoever wants to interrupt us must be heard.
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
