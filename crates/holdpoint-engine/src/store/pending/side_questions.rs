//! Side questions without an answer: rows of `pending` for which an answerer is due.

use holdpoint_core::{InterruptId, RunRef, Timestamp};

use crate::store::runs::reference;
use crate::store::{Database, Error, Param, Row, params};

const DUE: &str = "SELECT tenant_id, run_id, interrupt_id, requested_ms, ask_attempts FROM pending
    WHERE ask_due_ms IS NOT NULL AND ask_due_ms <= $1 ORDER BY ask_due_ms LIMIT $2";
const NEXT: &str = "SELECT MIN(ask_due_ms) AS next_due_ms FROM pending WHERE ask_due_ms IS NOT NULL";
/// Reserves a row for one attempt until $1. After that it is due again.
pub(crate) const HOLD: &str = "UPDATE pending SET ask_due_ms = $1, ask_attempts = ask_attempts + 1
    WHERE tenant_id = $2 AND requested_ms = $3 AND run_id = $4 AND interrupt_id = $5 AND ask_due_ms <= $6
    RETURNING tenant_id, run_id, interrupt_id, requested_ms, ask_attempts";
/// Sets the time at which a reserved row is due again, during an attempt and at its end. Changes no row if there is a
/// new question or another process has reserved the row: every reservation of a row has another number.
pub(crate) const SETTLE: &str =
    "UPDATE pending SET ask_due_ms = $1 WHERE tenant_id = $2 AND requested_ms = $3
    AND run_id = $4 AND interrupt_id = $5 AND ask_attempts = $6 AND ask_due_ms IS NOT NULL";

/// A new question raises the number to the next multiple of this, so that its attempts count from 0 and no number is
/// used twice.
const QUESTION_STEP: u64 = 1000;

/// An interrupt with side questions that have no answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct OpenSideQuestions {
    pub of: RunRef,
    pub interrupt: InterruptId,
    requested: Timestamp,
    /// The number of the reservation of the row.
    number: u64,
}

impl OpenSideQuestions {
    /// Returns the number of attempts since the last question, including the current one if the row is reserved.
    pub(crate) fn attempts(&self) -> u64 {
        self.number % QUESTION_STEP
    }

    /// Returns the values of `HOLD`.
    pub(crate) fn hold(&self, until: Timestamp, now: Timestamp) -> Vec<Param> {
        let (of, id) = (&self.of, u64::from(self.interrupt.0));
        params![until, of.tenant.as_str(), self.requested, of.run.as_str(), id, now]
    }

    /// Returns the values of `SETTLE`. With None, the row is not due again.
    pub(crate) fn settled(&self, due: Option<Timestamp>) -> Vec<Param> {
        let (of, id) = (&self.of, u64::from(self.interrupt.0));
        params![due, of.tenant.as_str(), self.requested, of.run.as_str(), id, self.number]
    }
}

pub(crate) async fn due(db: &Database, now: Timestamp, limit: u64) -> Result<Vec<OpenSideQuestions>, Error> {
    db.query(DUE, params![now, limit]).await?.iter().map(read).collect()
}

pub(crate) async fn next_due(db: &Database) -> Result<Option<Timestamp>, Error> {
    let Some(row) = db.query_one(NEXT, Vec::new()).await? else { return Ok(None) };
    Ok(row.optional_int("next_due_ms")?.map(Timestamp))
}

pub(crate) fn read(row: &Row) -> Result<OpenSideQuestions, Error> {
    Ok(OpenSideQuestions {
        of: reference(row)?,
        interrupt: InterruptId(row.small("interrupt_id")?),
        requested: Timestamp(row.int("requested_ms")?),
        number: row.count("ask_attempts")?,
    })
}
