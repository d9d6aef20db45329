//! Executes a resume array: all answers and the messages that came with them, in one change.

use std::collections::BTreeMap;
use std::sync::Arc;

use holdpoint_agents::EngineAgents;
use holdpoint_core::agent::{Message, Role};
use holdpoint_core::{Command, Refusal, Run, RunId, RunRef};
use holdpoint_engine::Error;

use super::history::History;
use super::ids;
use super::resume_plan::{self, AgUiViolation, ResumePlan};
use super::run::{AgUiRequest, LatestRun, accepts_no_input, follow, random_suffix, report_state};
use super::stream::StreamContent;
use crate::error::ApiError;

/// The reason why answers were not accepted.
enum ResumeFailure {
    /// A concurrent change: the caller must try again.
    Conflict,
    Refused(AgUiViolation),
    Failed(ApiError),
}

impl From<Error> for ResumeFailure {
    fn from(error: Error) -> Self {
        match error {
            // `NotDue` occurs if the clock was set back after the plan was made.
            Error::Refused(Refusal::NodeNotRunning | Refusal::NotDue) | Error::Duplicate(_) => Self::Conflict,
            Error::Refused(refusal) => {
                resume_plan::violation_of(&refusal).map_or(Self::Conflict, Self::Refused)
            }
            other => Self::Failed(other.into()),
        }
    }
}

impl From<ApiError> for ResumeFailure {
    fn from(error: ApiError) -> Self {
        Self::Failed(error)
    }
}

impl AgUiRequest<'_> {
    /// Executes the resume array of the request. Returns None after a concurrent change.
    pub(super) async fn resume(
        &self,
        latest: &LatestRun,
        history: History,
        new: Vec<Message>,
    ) -> Result<Option<StreamContent>, ApiError> {
        let runs = self.named_runs().await?;
        // The run may have changed between the two reads: the later state is used.
        let newer = |(of, run): &(RunRef, Arc<Run>)| {
            let named = runs.get(&of.run).filter(|named| named.seq > run.seq);
            (of.clone(), named.unwrap_or(run).clone())
        };
        let latest = latest.as_ref().map(newer);
        let run = latest.as_ref().map(|(_, run)| run.as_ref());
        let plan = match resume_plan::plan(run, &runs, &self.input.resume, self.app.engine.now()) {
            Ok(plan) => plan,
            Err(violation) => return Ok(Some(StreamContent::Refused(violation))),
        };
        let Some((of, run)) = &latest else { return Ok(None) };
        if plan.is_replay() && new.is_empty() {
            return Ok(Some(report_state(of.clone(), run)));
        }
        if plan.is_replay() {
            return self.deliver_input(&latest, history, new).await;
        }
        let decided = match plan.cancels_run {
            true => self.cancel(of).await,
            false => self.decide(of, run, &plan, &new).await,
        };
        let after = match decided {
            Ok(after) => after,
            Err(ResumeFailure::Conflict) => return Ok(None),
            Err(ResumeFailure::Refused(violation)) => return Ok(Some(StreamContent::Refused(violation))),
            Err(ResumeFailure::Failed(error)) => return Err(error),
        };
        if plan.cancels_run && !new.is_empty() {
            return self.start(Some(&after), history, new).await;
        }
        let opening = self.missing_history(history.with_new(run, &new));
        Ok(Some(follow(of, Run::clone(run), after.seq, opening)))
    }

    async fn cancel(&self, of: &RunRef) -> Result<Arc<Run>, ResumeFailure> {
        if !self.caller.may("runs:cancel") {
            let message = "cancelling this interrupt cancels the run; this key lacks the scope runs:cancel";
            return Err(ResumeFailure::Refused(AgUiViolation::new("FORBIDDEN", message)));
        }
        let why = Some("an interrupt was cancelled in the front end".to_owned());
        Ok(self.app.engine.runs().cancel(of, why, self.caller.principal()).await?)
    }

    /// Executes all answers and messages and closes the interrupts whose deadline has passed, in one change.
    async fn decide(
        &self,
        of: &RunRef,
        run: &Run,
        plan: &ResumePlan,
        new: &[Message],
    ) -> Result<Arc<Run>, ResumeFailure> {
        let engine = &self.app.engine;
        let mut answers = self.client_tool_results(run)?;
        for (id, planned) in &plan.answers {
            let mut answer = self.caller.answer(planned.value.clone(), planned.digest.clone());
            answer.decision = Some(format!("{}{}", planned.decision_prefix, random_suffix()?));
            answers.insert(*id, answer);
        }
        let has_answers = !answers.is_empty();
        // The answers come first. A denial that the run records ends the change; no expiry may be committed with it.
        let resolve = has_answers.then_some(Command::Resolve { answers });
        let expire = plan.expired.iter().map(|id| Command::Expire { interrupt: *id });
        let commands: Vec<_> = resolve.into_iter().chain(expire).collect();
        if !new.is_empty() {
            let once = Some(&self.dedup_request(of, new));
            let added = match has_answers {
                true => engine.agents().execute_and_queue(of, commands.clone(), new.to_vec(), once).await,
                false => engine.agents().execute_and_send(of, commands.clone(), new.to_vec(), once).await,
            };
            match added {
                // Instructions that front ends send with every request are ignored, not rejected.
                Err(Error::NotFound("agent")) if new.iter().all(|message| message.role != Role::User) => {}
                Err(Error::NotFound("agent")) => {
                    return Err(ResumeFailure::Refused(accepts_no_input(&of.run)));
                }
                other => return Ok(other?),
            }
        }
        Ok(engine.runs().execute_once(of, &commands, None).await?)
    }

    /// Returns the runs that the entries name and that belong to this thread and this agent.
    async fn named_runs(&self) -> Result<BTreeMap<RunId, Arc<Run>>, ApiError> {
        let mut runs = BTreeMap::new();
        let named = self.input.resume.iter().filter_map(|entry| ids::parse_interrupt_id(&entry.interrupt_id));
        for (run, _) in named {
            if runs.contains_key(&run) {
                continue;
            }
            let of = RunRef { tenant: self.caller.tenant().clone(), run };
            match self.app.engine.runs().get(&of).await {
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
