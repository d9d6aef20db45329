//! `bench ceiling`: a program without an engine. It serves the requests of the approval cycle from three tables, with
//! one thread that commits for all callers, and replies after the commit. `bench all` compares the server with it.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, mpsc};

use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::routing::{get, post};
use axum::{Json, Router};
use clap::Args;
use holdpoint_client::api::admin::{Health, HealthStatus};
use holdpoint_client::api::ids::{NodeId, RunId, Status};
use holdpoint_client::api::interrupts::{AnswerOutcome, InterruptResolved};
use holdpoint_client::api::runs::RunCreated;
use rusqlite::{Connection, params};
use serde::Serialize;
use serde_json::Value;
use tokio::sync::oneshot;

use super::{Failure, broken};

const SCHEMA: &str = "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL;
    CREATE TABLE runs (id INTEGER PRIMARY KEY, workflow TEXT, status TEXT, input TEXT, output TEXT, at INTEGER);
    CREATE TABLE pending (run INTEGER PRIMARY KEY, node TEXT, title TEXT, at INTEGER);
    CREATE TABLE events (run INTEGER, seq INTEGER, type TEXT, data TEXT, at INTEGER, PRIMARY KEY (run, seq))
        WITHOUT ROWID;";
const START: [&str; 4] = ["run.started", "node.started", "node.completed", "interrupt.requested"];
const ANSWER: [&str; 3] = ["interrupt.resolved", "node.completed", "run.completed"];
/// The maximum number of writes in one commit.
const BATCH_MAX: usize = 512;

#[derive(Debug, Args)]
pub(crate) struct Load {
    /// Address to listen on
    #[arg(long, value_name = "HOST:PORT")]
    listen: SocketAddr,
    /// File of the database
    #[arg(long, value_name = "FILE")]
    database: PathBuf,
}

/// Serves until the process is killed.
pub(super) async fn serve(load: &Load) -> Result<super::Report, Failure> {
    let writer = Connection::open(&load.database).map_err(broken)?;
    writer.execute_batch(SCHEMA).map_err(broken)?;
    let reader = Mutex::new(Connection::open(&load.database).map_err(broken)?);
    let (jobs, queue) = mpsc::channel();
    std::thread::spawn(move || write_all(&writer, &queue));
    let state = Arc::new(Ceiling { jobs, reader, last_id: AtomicI64::new(0) });
    let router = Router::new()
        .route("/readyz", get(async || Json(Health { status: HealthStatus::Ok })))
        .route("/v1/runs", post(start))
        .route("/v1/runs/{run}", get(show))
        .route("/v1/runs/{run}/interrupts/{node}", post(answer))
        .with_state(state);
    let listener = tokio::net::TcpListener::bind(load.listen).await.map_err(broken)?;
    axum::serve(listener, router).await.map_err(broken)?;
    Err(Failure::broken("the program without an engine has ended"))
}

struct Ceiling {
    jobs: mpsc::Sender<Job>,
    reader: Mutex<Connection>,
    last_id: AtomicI64,
}

struct Job {
    write: Write,
    done: oneshot::Sender<bool>,
}

enum Write {
    Start { run: i64, input: String },
    Answer { run: i64, answer: String },
}

impl Ceiling {
    /// Returns true if the write was committed and has changed a row.
    async fn write(&self, write: Write) -> bool {
        let (done, reply) = oneshot::channel();
        self.jobs.send(Job { write, done }).is_ok() && reply.await.unwrap_or(false)
    }
}

/// Commits the queued jobs together until the queue is closed.
fn write_all(connection: &Connection, queue: &mpsc::Receiver<Job>) {
    while let Ok(first) = queue.recv() {
        let mut batch = vec![first];
        batch.extend(queue.try_iter().take(BATCH_MAX - 1));
        let written = write_batch(connection, &batch).unwrap_or_else(|error| {
            eprintln!("a commit failed: {error}");
            vec![false; batch.len()]
        });
        for (job, changed) in batch.into_iter().zip(written) {
            // A client that has disconnected waits for no reply.
            let _ = job.done.send(changed);
        }
    }
}

fn write_batch(connection: &Connection, batch: &[Job]) -> rusqlite::Result<Vec<bool>> {
    let transaction = connection.unchecked_transaction()?;
    let written = batch.iter().map(|job| write_one(connection, &job.write)).collect::<Result<Vec<_>, _>>()?;
    transaction.commit()?;
    Ok(written)
}

fn write_one(connection: &Connection, write: &Write) -> rusqlite::Result<bool> {
    let execute =
        |sql: &str, values: &[&dyn rusqlite::ToSql]| connection.prepare_cached(sql)?.execute(values);
    let append = |run: i64, first: usize, events: &[&str], data: &str| {
        events.iter().enumerate().try_for_each(|(at, event)| {
            let seq = i64::try_from(first + at).unwrap_or(i64::MAX);
            let sql = "INSERT INTO events VALUES (?1, ?2, ?3, ?4, unixepoch())";
            execute(sql, params![run, seq, event, data]).map(drop)
        })
    };
    match write {
        Write::Start { run, input } => {
            let sql = "INSERT INTO runs VALUES (?1, 'cycle', 'waiting', ?2, NULL, unixepoch())";
            execute(sql, params![run, input])?;
            append(*run, 0, &START, input)?;
            execute("INSERT INTO pending VALUES (?1, 'gate', 'Benchmark', unixepoch())", params![run])?;
            Ok(true)
        }
        Write::Answer { run, answer } => {
            if execute("DELETE FROM pending WHERE run = ?1", params![run])? == 0 {
                return Ok(false);
            }
            append(*run, START.len(), &ANSWER, answer)?;
            execute("UPDATE runs SET status = 'completed', output = ?2 WHERE id = ?1", params![run, answer])?;
            Ok(true)
        }
    }
}

type CeilingState = State<Arc<Ceiling>>;

async fn start(
    State(ceiling): CeilingState,
    Json(body): Json<Value>,
) -> Result<Json<RunCreated>, StatusCode> {
    let run = ceiling.last_id.fetch_add(1, Ordering::Relaxed) + 1;
    if !ceiling.write(Write::Start { run, input: body.to_string() }).await {
        return Err(StatusCode::INTERNAL_SERVER_ERROR);
    }
    Ok(Json(RunCreated {
        run_id: run_id(run)?,
        status: Status::WaitingApproval,
        events_url: format!("/v1/runs/{run}/events"),
        status_url: format!("/v1/runs/{run}"),
        callback_secret: None,
    }))
}

/// The document of a run.
#[derive(Serialize)]
struct RunDocument {
    id: i64,
    status: Status,
    input: String,
    output: Option<String>,
}

async fn show(State(ceiling): CeilingState, Path(run): Path<i64>) -> Result<Json<RunDocument>, StatusCode> {
    let reader = ceiling.reader.lock().unwrap_or_else(PoisonError::into_inner);
    let read = |row: &rusqlite::Row<'_>| {
        let output: Option<String> = row.get(1)?;
        let status = if output.is_some() { Status::Completed } else { Status::WaitingApproval };
        Ok(RunDocument { id: run, status, input: row.get(0)?, output })
    };
    let found = reader
        .prepare_cached("SELECT input, output FROM runs WHERE id = ?1")
        .and_then(|mut select| select.query_row([run], read));
    found.map(Json).map_err(|_| StatusCode::NOT_FOUND)
}

async fn answer(
    State(ceiling): CeilingState,
    Path((run, node)): Path<(i64, String)>,
    Json(body): Json<Value>,
) -> Result<Json<InterruptResolved>, StatusCode> {
    if !ceiling.write(Write::Answer { run, answer: body.to_string() }).await {
        return Err(StatusCode::CONFLICT);
    }
    Ok(Json(InterruptResolved {
        run_id: run_id(run)?,
        node_id: NodeId::parse(&node).map_err(|_| StatusCode::NOT_FOUND)?,
        interrupt_id: None,
        status: Status::Completed,
        outcome: AnswerOutcome::Resolved,
        ask_id: None,
        required_approvals: None,
        votes: None,
        grant_id: None,
    }))
}

fn run_id(run: i64) -> Result<RunId, StatusCode> {
    RunId::parse(&run.to_string()).map_err(|_| StatusCode::INTERNAL_SERVER_ERROR)
}
