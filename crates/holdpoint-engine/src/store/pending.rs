//! The `pending` table: the open interrupts as lists show them. The rows are computed from the run.

use std::collections::BTreeSet;

use holdpoint_core::{
    Ancestor, Assignees, Event, Interrupt, InterruptId, NodeId, Run, RunId, RunRef, Timestamp, WorkflowId,
};
use serde::{Deserialize, Serialize};

use super::{Error, Param, Row, Statement, facets, params, unreadable};

mod paths;
mod scans;
mod side_questions;

pub(crate) use paths::{fill_path, without_path};
pub(crate) use scans::{AssigneeList, PendingScan, ScanRange, compare_requested};
pub(crate) use side_questions::{
    HOLD as HOLD_ASKS, OpenSideQuestions, SETTLE as SETTLE_ASKS, due as asks_due, next_due as next_ask_due,
    read as read_ask,
};

const INSERT: &str = "INSERT INTO pending (tenant_id, requested_ms, run_id, interrupt_id, workflow_id, node_id,
    kind, key, title, expires_ms, digest, required, votes, restricted, people, barred, tags, open_asks, ask_due_ms,
    excerpt, path)
    VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21)";
const VOTED: &str = "UPDATE pending SET votes = $1
    WHERE tenant_id = $2 AND requested_ms = $3 AND run_id = $4 AND interrupt_id = $5";
/// Makes the side questions due at once and resets the attempts (`side_questions::QUESTION_STEP`).
const ASKED: &str =
    "UPDATE pending SET open_asks = $1, ask_due_ms = $2, ask_attempts = (ask_attempts / 1000 + 1) * 1000
    WHERE tenant_id = $3 AND requested_ms = $4 AND run_id = $5 AND interrupt_id = $6";
const REPLIED: &str = "UPDATE pending SET open_asks = $1,
    ask_due_ms = CASE WHEN $1 = 0 THEN NULL ELSE ask_due_ms END
    WHERE tenant_id = $2 AND requested_ms = $3 AND run_id = $4 AND interrupt_id = $5";
const DELETE: &str = "DELETE FROM pending
    WHERE tenant_id = $1 AND requested_ms = $2 AND run_id = $3 AND interrupt_id = $4";

/// Returns the statements for the interrupts that `events` open, change and close. `after` is the run after the events.
/// An interrupt that the same events open and close gets no row.
pub(crate) fn write(of: &RunRef, after: &Run, events: &[Event]) -> Vec<Statement> {
    let (mut opened, mut closed, mut updates) = (BTreeSet::new(), BTreeSet::new(), Vec::new());
    for event in events {
        match event {
            Event::InterruptRequested { id, .. } => {
                opened.insert(*id);
            }
            Event::InterruptResolved { id, .. } | Event::InterruptTimedOut { id } => {
                closed.insert(*id);
            }
            Event::VoteCast { interrupt, .. } => updates.push((*interrupt, PendingUpdate::Vote)),
            Event::AskRaised { interrupt, .. } => updates.push((*interrupt, PendingUpdate::SideQuestion)),
            Event::AskAnswered { interrupt, .. } => updates.push((*interrupt, PendingUpdate::SideAnswer)),
            _ => {}
        }
    }
    if after.finished() {
        closed.extend(after.open_interrupts().map(|interrupt| interrupt.id));
    }
    let mut statements = Vec::new();
    for interrupt in opened.difference(&closed).filter_map(|id| after.interrupt(*id)) {
        insert(of, after, interrupt, &mut statements);
    }
    for interrupt in closed.difference(&opened).filter_map(|id| after.interrupt(*id)) {
        delete(of, after, interrupt, &mut statements);
    }
    updates.retain(|(id, _)| !opened.contains(id) && !closed.contains(id));
    for (id, what) in updates {
        statements.extend(after.interrupt(id).map(|interrupt| change(of, after, interrupt, what)));
    }
    statements
}

/// Returns true if the events change the list of open interrupts.
pub(crate) fn concerns(after: &Run, events: &[Event]) -> bool {
    let asked = |event: &Event| {
        matches!(
            event,
            Event::InterruptRequested { .. }
                | Event::InterruptResolved { .. }
                | Event::InterruptTimedOut { .. }
                | Event::VoteCast { .. }
        )
    };
    events.iter().any(asked) || (after.finished() && after.open_interrupts().next().is_some())
}

/// Returns the statements that insert all open interrupts of a run that has no rows yet.
pub(crate) fn write_open(of: &RunRef, run: &Run) -> Vec<Statement> {
    let mut statements = Vec::new();
    if !run.finished() {
        run.open_interrupts().for_each(|interrupt| insert(of, run, interrupt, &mut statements));
    }
    statements
}

/// An update of a row before the decision. A command has at most one of these for an interrupt.
#[derive(Clone, Copy)]
enum PendingUpdate {
    Vote,
    SideQuestion,
    SideAnswer,
}

fn insert(of: &RunRef, run: &Run, interrupt: &Interrupt, statements: &mut Vec<Statement>) {
    let assignees = interrupt.assignees(&run.requesters());
    let tags = tags(run);
    let open_asks = interrupt.open_side_questions().count() as u64;
    let values = params![
        &of.tenant,
        interrupt.requested_at,
        &of.run,
        u64::from(interrupt.id.0),
        &run.workflow.id,
        &interrupt.node,
        Param::word(interrupt.kind.as_str()),
        stored_key(&interrupt.key, &of.run, &interrupt.node),
        interrupt.title(),
        interrupt.expires_at(),
        interrupt.digest.as_deref(),
        interrupt.required_approvals(),
        votes(interrupt),
        u64::from(assignees.rules.is_some()),
        assignees.rules.as_ref().map(ToString::to_string),
        (!assignees.excluded.is_empty()).then(|| serde_json::json!(assignees.excluded).to_string()),
        (!tags.is_empty()).then(|| serde_json::json!(tags).to_string()),
        open_asks,
        (open_asks > 0).then_some(run.updated_at),
        interrupt.excerpt(),
        paths::stored(run)
    ];
    statements.push(Statement::new(INSERT, values));
    statements.extend(facets::insert(of, interrupt, facets_of(&assignees, tags)));
}

/// Returns the value of the column `key`: empty for the key of the first interrupt of a node, otherwise the key.
fn stored_key<'k>(key: &'k str, run: &RunId, node: &NodeId) -> &'k str {
    let rest = key.strip_prefix(run.as_str()).and_then(|rest| rest.strip_prefix(':'));
    match rest.and_then(|rest| rest.strip_prefix(node.as_str())) {
        Some(":0") => "",
        Some(_) | None => key,
    }
}

fn delete(of: &RunRef, run: &Run, interrupt: &Interrupt, statements: &mut Vec<Statement>) {
    statements.push(Statement::new(DELETE, row_key(of, interrupt).into()));
    let facets = facets_of(&interrupt.assignees(&run.requesters()), tags(run));
    statements.extend(facets::delete(of, interrupt, facets));
}

fn change(of: &RunRef, run: &Run, interrupt: &Interrupt, what: PendingUpdate) -> Statement {
    let open = interrupt.open_side_questions().count() as u64;
    let (sql, mut values) = match what {
        PendingUpdate::Vote => (VOTED, params![votes(interrupt)]),
        PendingUpdate::SideQuestion => (ASKED, params![open, run.updated_at]),
        PendingUpdate::SideAnswer => (REPLIED, params![open]),
    };
    values.extend(row_key(of, interrupt));
    Statement::new(sql, values)
}

fn row_key(of: &RunRef, interrupt: &Interrupt) -> [Param; 4] {
    let id = u64::from(interrupt.id.0);
    [(&of.tenant).into(), interrupt.requested_at.into(), (&of.run).into(), id.into()]
}

fn tags(run: &Run) -> &[String] {
    run.started.as_deref().map(|started| started.tags.as_slice()).unwrap_or_default()
}

fn facets_of(assignees: &Assignees, tags: &[String]) -> BTreeSet<String> {
    let people = assignees.entries().into_iter().map(|entry| facets::assignee(&entry));
    people.chain(tags.iter().map(|tag| facets::tag(tag))).collect()
}

/// The votes of an interrupt with a quorum.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Votes {
    /// The number of approvals.
    pub approvals: u64,
    /// The number of rejections.
    pub rejections: u64,
    /// The principals that have voted, in the order of their votes.
    pub voters: Vec<String>,
}

/// Returns the votes as JSON; None if one approval is enough.
fn votes(interrupt: &Interrupt) -> Option<String> {
    if interrupt.required_approvals() == 1 {
        return None;
    }
    let counted: Vec<_> = interrupt.votes.iter().filter(|vote| !vote.copied).collect();
    let approvals = counted.iter().filter(|vote| vote.grants()).count() as u64;
    let rejections = counted.len() as u64 - approvals;
    let voters = counted.iter().map(|vote| vote.by.clone()).collect();
    serde_json::to_string(&Votes { approvals, rejections, voters }).ok()
}

/// An open interrupt as lists show it.
#[derive(Clone, Debug, PartialEq)]
pub struct PendingRow {
    /// The run of the interrupt.
    pub run: RunId,
    /// The id of the interrupt in its run.
    pub id: InterruptId,
    /// The workflow of the run.
    pub workflow: WorkflowId,
    /// The node that opened the interrupt.
    pub node: NodeId,
    /// The kind of the interrupt.
    pub kind: String,
    /// The key of the interrupt, unique in its run.
    pub key: String,
    /// The title.
    pub title: String,
    /// One line of the payload.
    pub excerpt: Option<String>,
    /// The time at which the interrupt was opened.
    pub requested_at: Timestamp,
    /// The deadline.
    pub expires_at: Option<Timestamp>,
    /// The digest of the payload, if it is known.
    pub digest: Option<String>,
    /// The number of approvals that are needed.
    pub required: u64,
    /// The votes so far; None if one approval is enough.
    pub votes: Option<Votes>,
    /// The principals that may answer.
    pub assignees: Assignees,
    /// The tags of the run.
    pub tags: Vec<String>,
    /// The number of side questions without an answer.
    pub open_asks: u64,
    /// The ancestors of the run, beginning with the root. Empty if it has none, or if an earlier version did not store all
    /// of them; the next start of the engine completes the row.
    pub path: Vec<Ancestor>,
}

/// A position in a list of open interrupts. The next page starts after it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PendingCursor {
    /// The time at which the interrupt was opened, or its deadline in a list that is ordered by deadlines.
    pub at_ms: i64,
    /// The run of the interrupt.
    pub run: String,
    /// The id of the interrupt in its run.
    pub interrupt: i64,
}

fn read(row: &Row) -> Result<PendingRow, Error> {
    let bad = |error: holdpoint_core::BadId| unreadable("pending interrupt", error);
    let rules = row.optional_text("people")?.map(json).transpose()?;
    let run = RunId::parse(row.text("run_id")?).map_err(bad)?;
    let node = NodeId::parse(row.text("node_id")?).map_err(bad)?;
    let key = match row.text("key")? {
        "" => format!("{run}:{node}:0"),
        key => key.to_owned(),
    };
    Ok(PendingRow {
        requested_at: Timestamp(row.int("requested_ms")?),
        run,
        id: InterruptId(row.small("interrupt_id")?),
        workflow: WorkflowId::parse(row.text("workflow_id")?).map_err(bad)?,
        node,
        kind: row.text("kind")?.to_owned(),
        key,
        title: row.text("title")?.to_owned(),
        expires_at: row.optional_int("expires_ms")?.map(Timestamp),
        digest: row.optional_text("digest")?.map(str::to_owned),
        required: row.count("required")?,
        votes: row.optional_text("votes")?.map(json).transpose()?,
        open_asks: row.count("open_asks")?,
        assignees: Assignees {
            rules,
            excluded: row.optional_text("barred")?.map(excluded).unwrap_or_default(),
        },
        tags: row.optional_text("tags")?.map(json).transpose()?.unwrap_or_default(),
        excerpt: row.optional_text("excerpt")?.map(str::to_owned),
        path: paths::read(row)?,
    })
}

/// Reads the names of excluded principals. Rows of older versions contain one name instead of JSON.
fn excluded(text: &str) -> Vec<String> {
    serde_json::from_str(text).unwrap_or_else(|_| vec![text.to_owned()])
}

fn json<'a, T: Deserialize<'a>>(text: &'a str) -> Result<T, Error> {
    serde_json::from_str(text).map_err(|error| unreadable("pending interrupt", error))
}
