//! Interrupts of child runs that an earlier version opened: their paths are filled in, and the runs above record them.

use holdpoint_core::RunRef;

use super::commit::CommitOutcome;
use super::families::ShownState;
use super::{ATTEMPTS_MAX, Engine};
use crate::draft::RunDraft;
use crate::error::Error;
use crate::store::pending;

/// The number of runs that are read at a time.
const PAGE: usize = 100;

impl Engine {
    /// Completes the records of all waiting child runs of earlier versions. A run that cannot be read stays as it is.
    pub(super) async fn complete_earlier_interrupts(&self) -> Result<(), Error> {
        let mut last = None;
        loop {
            let page = pending::without_path(self.db(), last.as_ref(), PAGE as u64).await?;
            for of in &page {
                match self.complete_earlier(of).await {
                    Ok(()) => {}
                    Err(Error::Store(error @ crate::store::Error::Closed)) => return Err(error.into()),
                    Err(error) => {
                        tracing::error!(%error, run = %of.run, "cannot record the interrupts of a child run in its ancestors; the next start tries again");
                    }
                }
            }
            if page.len() < PAGE {
                return Ok(());
            }
            last = page.into_iter().last();
        }
    }

    /// Reports the open interrupts of a run to its parent and fills in the path of its rows. Can be repeated.
    async fn complete_earlier(&self, of: &RunRef) -> Result<(), Error> {
        for _ in 0..ATTEMPTS_MAX {
            let run = self.runs().get_stored(of).await?;
            let path = self.ancestors(&of.tenant, &run).await?;
            let mut draft = RunDraft::new(of.clone(), run, self.now());
            // With this state as the earlier one, the report contains every interrupt that the parent has not recorded.
            draft.before.shown = ShownState::UNKNOWN;
            if self.commit(draft, None).await? == CommitOutcome::Written {
                return self.write(vec![pending::fill_path(of, &path)]).await.map(|_| ());
            }
        }
        Err(Error::Busy)
    }
}
