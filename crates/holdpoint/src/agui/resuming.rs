//! Carries out a resume array: the answers in one command, and behind them what was said beside them.

use std::collections::BTreeMap;
use std::sync::Arc;

use holdpoint_core::agent::{Message, Role};
use holdpoint_core::{Command, Refusal, Run, RunId, RunRef};
use holdpoint_engine::Error;

use super::history::History;
use super::ids;
use super::resume::{self, Plan, Violation};
use super::run::{Asked, Latest, follow, fresh, restate, takes_no_input};
use super::stream::Segment;
use crate::error::ApiError;

/// Why answers were not taken.
enum Undone {
    /// Somebody was faster: look again.
    Outrun,
    Refused(Violation),
    Failed(ApiError),
}

impl From<Error> for Undone {
    fn from(error: Error) -> Self {
        match error {
            Error::Refused(Refusal::NodeNotRunning) | Error::Duplicate(_) => Self::Outrun,
            Error::Refused(refusal) => resume::refused(&refusal).map_or(Self::Outrun, Self::Refused),
            other => Self::Failed(other.into()),
        }
    }
}

impl From<ApiError> for Undone {
    fn from(error: ApiError) -> Self {
        Self::Failed(error)
    }
}

impl Asked<'_> {
    /// None if another request was faster.
    pub(super) async fn resume(
        &self,
        latest: &Latest,
        history: History,
        new: Vec<Message>,
    ) -> Result<Option<Segment>, ApiError> {
        let runs = self.named_runs().await?;
        // Somebody may have answered between the two looks: the later one counts.
        let newer = |(of, run): &(RunRef, Arc<Run>)| {
            let named = runs.get(&of.run).filter(|named| named.seq > run.seq);
            (of.clone(), named.unwrap_or(run).clone())
        };
        let latest = latest.as_ref().map(newer);
        let run = latest.as_ref().map(|(_, run)| run.as_ref());
        let plan = match resume::plan(run, &runs, &self.input.resume, self.app.engine.now()) {
            Ok(plan) => plan,
            Err(violation) => return Ok(Some(Segment::Refused(violation))),
        };
        let Some((of, run)) = &latest else { return Ok(None) };
        if plan.is_replay() && new.is_empty() {
            return Ok(Some(restate((of.clone(), run.clone()))));
        }
        if plan.is_replay() {
            return self.take_input(&latest, history, new).await;
        }
        let decided = match plan.cancels_run {
            true => self.cancel(of).await,
            false => self.decide((of, run), &plan, &new).await,
        };
        let after = match decided {
            Ok(after) => after,
            Err(Undone::Outrun) => return Ok(None),
            Err(Undone::Refused(violation)) => return Ok(Some(Segment::Refused(violation))),
            Err(Undone::Failed(error)) => return Err(error),
        };
        if plan.cancels_run && !new.is_empty() {
            return self.start(Some(&after), history, new).await;
        }
        let opening = self.remind(history.with(run, &new));
        Ok(Some(follow(of, Run::clone(run), after.seq, opening)))
    }

    async fn cancel(&self, of: &RunRef) -> Result<Arc<Run>, Undone> {
        if !self.caller.may("runs:cancel") {
            let message = "cancelling this interrupt cancels the run; this key lacks the scope runs:cancel";
            return Err(Undone::Refused(Violation::new("FORBIDDEN", message)));
        }
        let why = Some("an interrupt was cancelled in the front end".to_owned());
        Ok(self.app.engine.cancel(of, why, self.caller.principal()).await?)
    }

    /// Carries out everything in one command, so that all of it happens or nothing does.
    async fn decide(
        &self,
        (of, run): (&RunRef, &Run),
        plan: &Plan,
        new: &[Message],
    ) -> Result<Arc<Run>, Undone> {
        let engine = &self.app.engine;
        let mut answers = self.results(run)?;
        for (id, said) in &plan.answers {
            let mut answer = self.caller.answer(said.value.clone(), said.digest.clone());
            answer.decision = Some(format!("{}{}", said.name, fresh()?));
            answers.insert(*id, answer);
        }
        let mut after = None;
        for interrupt in &plan.expired {
            // Its timer may have been faster.
            match engine.execute(of, &Command::Expire { interrupt: *interrupt }).await {
                Ok(run) => after = Some(run),
                Err(Error::Refused(_)) => {}
                Err(error) => return Err(error.into()),
            }
        }
        if !new.is_empty() {
            let once = Some(&self.once_for(of, new));
            let heard = match answers.is_empty() {
                true => engine.say(of, new.to_vec(), once).await,
                false => engine.answer_and_queue(of, answers.clone(), new.to_vec(), once).await,
            };
            match heard {
                // Instructions that front ends put in front of every request are not worth a refusal.
                Err(Error::NotFound("agent")) if new.iter().all(|message| message.role != Role::User) => {}
                Err(Error::NotFound("agent")) => return Err(Undone::Refused(takes_no_input(&of.run))),
                other => return Ok(other?),
            }
        }
        match (answers.is_empty(), after) {
            (false, _) => Ok(engine.execute(of, &Command::Resolve { answers }).await?),
            (true, Some(after)) => Ok(after),
            (true, None) => Err(Undone::Outrun),
        }
    }

    /// The runs that the entries name, as far as they are runs of this thread and this agent.
    async fn named_runs(&self) -> Result<BTreeMap<RunId, Arc<Run>>, ApiError> {
        let mut runs = BTreeMap::new();
        let named = self.input.resume.iter().filter_map(|entry| ids::parse_interrupt(&entry.interrupt_id));
        for (run, _) in named {
            if runs.contains_key(&run) {
                continue;
            }
            let of = RunRef { tenant: self.caller.tenant().clone(), run };
            match self.app.engine.run(&of).await {
                Ok(found) if self.is_ours(&found) => {
                    runs.insert(of.run, found);
                }
                Ok(_) | Err(Error::NotFound(_)) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(runs)
    }

    fn is_ours(&self, run: &Run) -> bool {
        run.thread() == self.input.thread_id && run.workflow.id == *self.target.workflow()
    }
}
