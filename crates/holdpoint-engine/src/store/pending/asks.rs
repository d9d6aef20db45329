//! Questions of approvers that somebody should be asked to answer: rows of `pending` whose time has come.

use holdpoint_core::{InterruptId, RunRef, Timestamp};

use crate::store::runs::reference;
use crate::store::{Database, Error, Param, Row, params};

const DUE: &str = "SELECT tenant_id, run_id, interrupt_id, requested_ms, ask_attempts FROM pending
    WHERE ask_due_ms IS NOT NULL AND ask_due_ms <= $1 ORDER BY ask_due_ms LIMIT $2";
const NEXT: &str = "SELECT MIN(ask_due_ms) FROM pending WHERE ask_due_ms IS NOT NULL";
/// Takes a row for one attempt: until $1 nobody else tries, and then it is tried again.
pub(crate) const HOLD: &str = "UPDATE pending SET ask_due_ms = $1, ask_attempts = ask_attempts + 1
    WHERE tenant_id = $2 AND requested_ms = $3 AND run_id = $4 AND interrupt_id = $5 AND ask_due_ms <= $6
    RETURNING tenant_id, run_id, interrupt_id, requested_ms, ask_attempts";
/// When the row is due again, said by whoever holds it: while it goes on, and at its end. Touches nothing once something
/// new was asked or somebody else holds it: no two holds of a row have the same number.
pub(crate) const SETTLE: &str =
    "UPDATE pending SET ask_due_ms = $1 WHERE tenant_id = $2 AND requested_ms = $3
    AND run_id = $4 AND interrupt_id = $5 AND ask_attempts = $6 AND ask_due_ms IS NOT NULL";

/// A new question begins with the next multiple of this, so that its attempts count from none and their numbers are
/// still new.
const QUESTION_STEP: u64 = 1000;

/// An interrupt with questions that nobody has answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Unanswered {
    pub of: RunRef,
    pub interrupt: InterruptId,
    requested: Timestamp,
    /// Which hold of the row this is.
    number: u64,
}

impl Unanswered {
    /// How often it was tried since the last question, this time included where it is held.
    pub(crate) fn attempts(&self) -> u64 {
        self.number % QUESTION_STEP
    }

    /// The values for `HOLD`.
    pub(crate) fn hold(&self, until: Timestamp, now: Timestamp) -> Vec<Param> {
        let (of, id) = (&self.of, u64::from(self.interrupt.0));
        params![until, of.tenant.as_str(), self.requested, of.run.as_str(), id, now]
    }

    /// The values for `SETTLE`: when it is due again, if ever.
    pub(crate) fn settled(&self, due: Option<Timestamp>) -> Vec<Param> {
        let (of, id) = (&self.of, u64::from(self.interrupt.0));
        params![due, of.tenant.as_str(), self.requested, of.run.as_str(), id, self.number]
    }
}

pub(crate) async fn due(db: &Database, now: Timestamp, limit: u64) -> Result<Vec<Unanswered>, Error> {
    db.query(DUE, params![now, limit]).await?.iter().map(read).collect()
}

pub(crate) async fn next_due(db: &Database) -> Result<Option<Timestamp>, Error> {
    let Some(row) = db.query_one(NEXT, Vec::new()).await? else { return Ok(None) };
    Ok(row.optional_int(0)?.map(Timestamp))
}

pub(crate) fn read(row: &Row) -> Result<Unanswered, Error> {
    Ok(Unanswered {
        of: reference(row)?,
        interrupt: InterruptId(row.small(2)?),
        requested: Timestamp(row.int(3)?),
        number: row.count(4)?,
    })
}
