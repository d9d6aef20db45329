//! Claims of side questions that are due for the answerer.

use holdpoint_core::Timestamp;

use super::Engine;
use crate::answerer::AnyAnswerer;
use crate::committer::{CommitReply, Work};
use crate::error::Error;
use crate::store::Statement;
use crate::store::pending::{self, OpenSideQuestions};

/// The duration of a claim in milliseconds, after which another worker may try. Longer than the timeout of an
/// answerer.
const CLAIM_MS: u64 = 60_000;

impl Engine {
    pub(crate) fn answerer(&self) -> Option<&AnyAnswerer> {
        self.0.answerer.as_ref()
    }

    /// Claims interrupts whose side questions are due.
    pub(crate) async fn claim_due_side_questions(&self, limit: u64) -> Result<Vec<OpenSideQuestions>, Error> {
        let now = self.now();
        let due = pending::asks_due(self.db(), now, limit).await?;
        if due.is_empty() {
            return Ok(due);
        }
        let sets = due.iter().map(|due| due.hold(now.plus_ms(CLAIM_MS), now)).collect();
        match self.0.committer.submit(Work::Each(pending::HOLD_ASKS, sets), None).await? {
            CommitReply::Table(rows) => Ok(rows.iter().map(pending::read_ask).collect::<Result<_, _>>()?),
            _ => Ok(Vec::new()),
        }
    }

    /// Sets the time at which the side questions of an interrupt are due again; `None` if the answerer is done with
    /// them. Returns false if this worker no longer holds the claim.
    pub(crate) async fn reschedule_side_questions(
        &self,
        claimed: &OpenSideQuestions,
        due: Option<Timestamp>,
    ) -> Result<bool, Error> {
        let update = Statement::new(pending::SETTLE_ASKS, claimed.settled(due));
        Ok(matches!(self.write(vec![update]).await?, CommitReply::Touched(rows) if rows > 0))
    }

    /// Extends a claim for another side question. Returns false if this worker no longer holds the claim.
    pub(crate) async fn extend_side_question_claim(
        &self,
        claimed: &OpenSideQuestions,
    ) -> Result<bool, Error> {
        self.reschedule_side_questions(claimed, Some(self.now().plus_ms(CLAIM_MS))).await
    }

    pub(crate) async fn next_side_question_due(&self) -> Result<Option<Timestamp>, Error> {
        match self.0.answerer {
            Some(_) => Ok(pending::next_ask_due(self.db()).await?),
            None => Ok(None),
        }
    }
}
