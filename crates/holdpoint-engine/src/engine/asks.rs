//! Questions of approvers that are due to be brought to whoever answers them.

use holdpoint_core::Timestamp;

use super::Engine;
use crate::answering::AnyAnswerer;
use crate::committer::{Reply, Work};
use crate::error::Error;
use crate::store::Statement;
use crate::store::pending::{self, Unanswered};

/// How long one question has before somebody else may try. Longer than anybody waits for an answer to one.
const HOLD_MS: u64 = 60_000;

impl Engine {
    pub(crate) fn answerer(&self) -> Option<&AnyAnswerer> {
        self.0.answerer.as_ref()
    }

    /// Interrupts with questions, each of them for us alone for a while.
    pub(crate) async fn hold_due_asks(&self, limit: u64) -> Result<Vec<Unanswered>, Error> {
        let now = self.now();
        let due = pending::asks_due(self.db(), now, limit).await?;
        if due.is_empty() {
            return Ok(due);
        }
        let sets = due.iter().map(|due| due.hold(now.plus_ms(HOLD_MS), now)).collect();
        match self.0.committer.submit(Work::Each(pending::HOLD_ASKS, sets), None).await? {
            Reply::Table(rows) => Ok(rows.iter().map(pending::read_ask).collect::<Result<_, _>>()?),
            _ => Ok(Vec::new()),
        }
    }

    /// When the questions of an interrupt are due again; never, when nobody is to be asked any more.
    /// False when they are no longer ours to speak for.
    pub(crate) async fn settle_ask(&self, held: &Unanswered, due: Option<Timestamp>) -> Result<bool, Error> {
        let settled = Statement::new(pending::SETTLE_ASKS, held.settled(due));
        Ok(matches!(self.write(vec![settled]).await?, Reply::Touched(rows) if rows > 0))
    }

    /// Has them to ourselves for the time of another question. False when others have them by now, or nobody needs to.
    pub(crate) async fn hold_ask_on(&self, held: &Unanswered) -> Result<bool, Error> {
        self.settle_ask(held, Some(self.now().plus_ms(HOLD_MS))).await
    }

    pub(crate) async fn next_ask(&self) -> Result<Option<Timestamp>, Error> {
        match self.0.answerer {
            Some(_) => Ok(pending::next_ask_due(self.db()).await?),
            None => Ok(None),
        }
    }
}
