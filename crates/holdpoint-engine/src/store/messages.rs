//! The `messages` table: the messages of agent threads, written with the events that contain them.

use std::collections::BTreeSet;

use holdpoint_core::agent::{Message, Role};
use holdpoint_core::{Event, RunId, RunRef, TenantId, Timestamp};

use super::{Database, Error, Row, Statement, params, unreadable};
use crate::committer::Change;

const INSERT: &str = "INSERT INTO messages (tenant_id, thread_id, run_id, seq, at_ms, message, input_id) \
    VALUES ($1, $2, $3, $4, $5, $6, $7)";
/// Selects the messages after a position, the oldest first.
const PAGE: &str = "SELECT run_id, seq, at_ms, message FROM messages WHERE tenant_id = $1 AND thread_id = $2
    AND (run_id, seq) > ($3, $4) ORDER BY run_id, seq LIMIT $5";
/// Selects the messages before a position, the newest first.
const LAST: &str = "SELECT run_id, seq, at_ms, message FROM messages WHERE tenant_id = $1 AND thread_id = $2
    AND (run_id, seq) < ($3, $4) ORDER BY run_id DESC, seq DESC LIMIT $5";
/// A text that is greater than the id of every run, byte by byte.
const END: &str = "\u{10FFFF}";
/// Selects the messages from a position on and before a run, the newest first.
const BEFORE: &str =
    "SELECT run_id, seq, at_ms, message FROM messages WHERE tenant_id = $1 AND thread_id = $2
    AND (run_id, seq) >= ($3, $4) AND run_id < $5 ORDER BY run_id DESC, seq DESC LIMIT $6";
/// Moves the messages of the runs between two runs to another thread.
const ABANDON: &str = "UPDATE messages SET thread_id = $1 WHERE tenant_id = $2 AND thread_id = $3
    AND run_id > $4 AND run_id < $5";
/// Selects the id of a message to an agent if the thread has it.
const INPUT: &str = "SELECT m.input_id FROM messages m WHERE m.tenant_id = $1 AND m.thread_id = $2
    AND m.input_id = $3";

/// A message and its position in its thread.
#[derive(Clone, Debug, PartialEq)]
pub struct ThreadMessage {
    /// The run of the message.
    pub run: RunId,
    /// The sequence number of the event with the message.
    pub seq: u64,
    /// The time of the event.
    pub at: Timestamp,
    /// The message.
    pub message: Message,
}

/// Returns the statements for the messages of a change. The table has only messages of runs in threads.
pub(crate) fn write(of: &RunRef, change: &Change) -> Result<Vec<Statement>, Error> {
    let named = change.after.started.as_ref().and_then(|started| started.thread.as_deref());
    let Some(thread) = named else { return Ok(Vec::new()) };
    let own = std::iter::once((change.at, &*change.events));
    let all = change.history.iter().map(|(at, events)| (*at, events.as_slice())).chain(own);
    let mut rows = Vec::new();
    if change.before == 0 {
        rows.extend(abandon_later(of, change, thread));
    }
    let mut seq = change.before;
    for (at, events) in all {
        for event in events {
            if let Some(message) = message_of(event) {
                let text = serde_json::to_string(&message).map_err(|error| unreadable("message", error))?;
                let input = matches!(message.role, Role::System | Role::User).then_some(message.id.as_str());
                let values = params![&of.tenant, thread, &of.run, seq, at, text, input];
                rows.push(Statement::new(INSERT, values));
            }
            seq += 1;
        }
    }
    Ok(rows)
}

/// Returns the statement that removes the messages of later runs from the thread if a run branches off an earlier one.
/// They stay stored under the name of a thread that no client can use.
fn abandon_later(of: &RunRef, change: &Change, thread: &str) -> Option<Statement> {
    let branch_of = change.after.started.as_ref()?.branch_of.as_ref()?;
    let abandoned = format!("{thread}\u{1}{}", of.run);
    Some(Statement::new(ABANDON, params![abandoned, &of.tenant, thread, branch_of, &of.run]))
}

fn message_of(event: &Event) -> Option<Message> {
    if let Event::MessageAdded { message, .. } | Event::ModelReplied { message, .. } = event {
        return Some((**message).clone());
    }
    let Event::ToolReturned { call, content, .. } = event else { return None };
    Some(Message::result_of(call, content))
}

/// The position of a message in its thread.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MessagePosition<'a> {
    pub run: &'a str,
    pub seq: u64,
}

/// Returns the messages after a position, or from the beginning.
pub(crate) async fn page(
    db: &Database,
    tenant: &TenantId,
    thread: &str,
    after: Option<MessagePosition<'_>>,
    limit: u64,
) -> Result<Vec<ThreadMessage>, Error> {
    let MessagePosition { run, seq } = after.unwrap_or(MessagePosition { run: "", seq: 0 });
    let rows = db.query(PAGE, params![tenant, thread, run, seq, limit]).await?;
    rows.iter().map(read).collect()
}

/// Returns the last messages before a position, or of the whole thread, the newest first.
pub(crate) async fn last(
    db: &Database,
    tenant: &TenantId,
    thread: &str,
    before: Option<MessagePosition<'_>>,
    limit: u64,
) -> Result<Vec<ThreadMessage>, Error> {
    let MessagePosition { run, seq } = before.unwrap_or(MessagePosition { run: END, seq: 0 });
    let rows = db.query(LAST, params![tenant, thread, run, seq, limit]).await?;
    rows.iter().map(read).collect()
}

/// Returns the last messages before a run, or those of them from a position on, the oldest first.
pub(crate) async fn before(
    db: &Database,
    of: &RunRef,
    thread: &str,
    since: Option<MessagePosition<'_>>,
    limit: u32,
) -> Result<Vec<ThreadMessage>, Error> {
    let MessagePosition { run, seq } = since.unwrap_or(MessagePosition { run: "", seq: 0 });
    let values = params![of.tenant.as_str(), thread, run, seq, of.run.as_str(), u64::from(limit)];
    let rows = db.query(BEFORE, values).await?;
    rows.iter().rev().map(read).collect()
}

/// Returns those of the ids that messages to agents in the thread have.
pub(crate) async fn input_ids(
    db: &Database,
    tenant: &TenantId,
    thread: &str,
    ids: impl Iterator<Item = &str>,
) -> Result<BTreeSet<String>, Error> {
    let values = |id: &str| params![tenant.as_str(), thread, id];
    let rows = db.query_each(INPUT, ids.map(values).collect()).await?;
    rows.iter().map(|row| Ok(row.text("input_id")?.to_owned())).collect()
}

/// Returns the query plans of the reads whose cost must not depend on the length of the thread, for tests.
pub(crate) async fn plan(db: &Database, tenant: &TenantId, thread: &str) -> Result<Vec<String>, Error> {
    let (tenant, run) = (tenant.as_str(), "run");
    Ok(vec![
        db.plan(PAGE, params![tenant, thread, run, 0_u64, 1_u64]).await?,
        db.plan(LAST, params![tenant, thread, run, 0_u64, 1_u64]).await?,
        db.plan(BEFORE, params![tenant, thread, "", 0_u64, run, 1_u64]).await?,
        db.plan(INPUT, params![tenant, thread, "id"]).await?,
    ])
}

fn read(row: &Row) -> Result<ThreadMessage, Error> {
    Ok(ThreadMessage {
        run: RunId::parse(row.text("run_id")?).map_err(|error| unreadable("message", error))?,
        seq: row.count("seq")?,
        at: Timestamp(row.int("at_ms")?),
        message: serde_json::from_str(row.text("message")?).map_err(|error| unreadable("message", error))?,
    })
}
