//! Executes a resume array: all answers and the messages that came with them, in one change.

use std::collections::BTreeMap;
use std::sync::Arc;

use holdpoint_agents::{EngineAgents, MessageTiming};
use holdpoint_core::agent::{Message, Role};
use holdpoint_core::{Command, Refusal, Run, RunId, RunRef};
use holdpoint_engine::{Error, Once, OpenInterrupt, RunCommands};

use super::history::History;
use super::ids;
use super::open_interrupts::open_interrupts;
use super::resume_plan::{
    self, AgUiViolation, InterruptPlace, NamedRun, PARTIAL_RESUME, ResumePlan, ResumeTarget,
};
use super::run::{AgUiRequest, LatestRun, accepts_no_input, follow, random_suffix, report_state};
use super::shown_interrupts::shown_with;
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
        let named = self.named_runs().await?;
        // The run may have changed between the two reads: the later state is used.
        let newer = |(of, run): &(RunRef, Arc<Run>)| {
            let named = named.get(&of.run).map(|named| &named.run).filter(|named| named.seq > run.seq);
            (of.clone(), named.unwrap_or(run).clone())
        };
        let latest = latest.as_ref().map(newer);
        let plan = match self.plan(&latest, &named).await? {
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

    /// Plans the resume array. It must address the open interrupts that the client was shown.
    async fn plan(
        &self,
        latest: &LatestRun,
        named: &BTreeMap<RunId, NamedRun>,
    ) -> Result<Result<ResumePlan, AgUiViolation>, ApiError> {
        let (engine, entries) = (&self.app.engine, &self.input.resume);
        let plan = |open: &[OpenInterrupt]| {
            let latest = latest.as_ref().map(|(_, run)| run.as_ref());
            resume_plan::plan(&ResumeTarget { latest, open, named }, entries, engine.now())
        };
        let Some((of, run)) = latest else { return Ok(plan(&[])) };
        let mut open = open_interrupts(engine, &of.tenant, run).await?;
        match plan(&open) {
            Err(violation) if violation.code == PARTIAL_RESUME => {}
            planned => return Ok(planned),
        }
        let names = entries.iter().filter_map(|entry| ids::parse_interrupt_id(&entry.interrupt_id));
        let names = names.map(|(run, id)| InterruptPlace { run, id }).collect();
        let (log, starts) = engine.events().list_with_commits(of).await?;
        let shown = shown_with(&names, Run::new(run.id.clone(), run.workflow.clone()), &log, &starts);
        open.retain(|one| shown.contains(&InterruptPlace { run: one.run.id.clone(), id: one.id }));
        Ok(plan(&open))
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
        let mut changes = self.commands(of, run, plan)?;
        if new.is_empty() {
            return self.answer(of, &changes, None).await;
        }
        let timing = if changes.iter().any(has_answers) {
            MessageTiming::AfterEffects
        } else {
            MessageTiming::BeforeNextStep
        };
        let Some(message) = engine.agents().message_command(run, new.to_vec(), timing) else {
            // Instructions that front ends send with every request are ignored, not rejected.
            return match new.iter().all(|message| message.role != Role::User) {
                true => self.answer(of, &changes, None).await,
                false => Err(ResumeFailure::Refused(accepts_no_input(&of.run))),
            };
        };
        match changes.iter_mut().find(|change| change.of == *of) {
            Some(own) => own.commands.push(message),
            None => changes.insert(0, RunCommands { of: of.clone(), commands: vec![message] }),
        }
        self.answer(of, &changes, Some(&self.dedup_request(of, new))).await
    }

    /// Executes the commands in one change and returns the run of the thread after it.
    async fn answer(
        &self,
        of: &RunRef,
        changes: &[RunCommands],
        once: Option<&Once<Run>>,
    ) -> Result<Arc<Run>, ResumeFailure> {
        let engine = &self.app.engine;
        let first = engine.interrupts().answer_each(changes, once).await?;
        match first.id == of.run {
            true => Ok(first),
            false => Ok(engine.runs().get(of).await?),
        }
    }

    /// Returns the commands of a plan, first those for the run of the thread.
    fn commands(&self, of: &RunRef, run: &Run, plan: &ResumePlan) -> Result<Vec<RunCommands>, ResumeFailure> {
        let mut answers = BTreeMap::from([(of.run.clone(), self.client_tool_results(run)?)]);
        for (InterruptPlace { run, id }, planned) in &plan.answers {
            let mut answer = self.caller.answer(planned.value.clone(), planned.digest.clone());
            answer.decision = Some(format!("{}{}", planned.decision_prefix, random_suffix()?));
            answer.client_metadata.clone_from(&planned.metadata);
            answers.entry(run.clone()).or_default().insert(*id, answer);
        }
        for place in &plan.expired {
            answers.entry(place.run.clone()).or_default();
        }
        let mut changes = Vec::with_capacity(answers.len());
        for (run, answers) in answers {
            // The answers come first. A denial that the run records ends the change; no expiry may be committed with
            // it.
            let resolve = (!answers.is_empty()).then_some(Command::Resolve { answers });
            let expired = plan.expired.iter().filter(|place| place.run == run);
            let expire = expired.map(|place| Command::Expire { interrupt: place.id });
            let commands: Vec<_> = resolve.into_iter().chain(expire).collect();
            if !commands.is_empty() {
                changes.push(RunCommands { of: RunRef { run, ..of.clone() }, commands });
            }
        }
        changes.sort_by_key(|change| change.of != *of);
        Ok(changes)
    }

    /// Returns the runs that the entries name and that belong to this thread and this agent: runs of the thread, and
    /// runs that they started.
    async fn named_runs(&self) -> Result<BTreeMap<RunId, NamedRun>, ApiError> {
        let engine = &self.app.engine;
        let mut runs = BTreeMap::new();
        let named = self.input.resume.iter().filter_map(|entry| ids::parse_interrupt_id(&entry.interrupt_id));
        for (run, _) in named {
            if runs.contains_key(&run) {
                continue;
            }
            let of = RunRef { tenant: self.caller.tenant().clone(), run };
            let found = match engine.runs().get(&of).await {
                Ok(found) => found,
                Err(Error::NotFound(_)) => continue,
                Err(error) => return Err(error.into()),
            };
            let root = match found.root_id() {
                root if root == of.run => found.clone(),
                root => engine.runs().get(&RunRef { run: root, ..of.clone() }).await?,
            };
            if self.is_ours(&root) {
                runs.insert(of.run, NamedRun { run: found, root: root.id.clone() });
            }
        }
        Ok(runs)
    }

    fn is_ours(&self, run: &Run) -> bool {
        run.thread() == self.input.thread_id && run.workflow.id == *self.target.workflow()
    }
}

fn has_answers(change: &RunCommands) -> bool {
    change.commands.iter().any(|command| matches!(command, Command::Resolve { .. }))
}
