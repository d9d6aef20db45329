//! Resume of a graph by its state key. The log stores the caller's resume id with the answer, so that a repeated
//! resume is recognized and returns the same outcome.

use std::collections::BTreeMap;
use std::sync::Arc;

use holdpoint_core::{Answer, Command, InterruptId, Refusal, Run, RunId, RunRef, TenantId, digest};
use holdpoint_engine::{Error, Once, OpenInterrupt, RequestKey, RunCommands, SiblingsWait};
use serde_json::Value;
use tokio::time::{Instant, timeout_at};

use super::status::{decisions, key};
use super::turns::{Recorded, request_key};
use super::{GraphError, GraphHandle, GraphStatus, Graphs};
use crate::conversion;

/// The prefix of the decision ids of resumes.
const PREFIX: &str = "resume:";

/// An answer to a graph.
#[derive(Clone, Debug)]
pub struct GraphResume {
    /// The caller's id of the resume.
    pub id: String,
    /// The answer, with the principal that gives it.
    pub answer: Answer,
    /// The kind and data of the interrupt that the caller answers, if given. An interrupt that differs is not answered.
    pub to: Option<(String, Value)>,
}

/// The decision id of a resume. It contains the digest of the value, so that a repeated resume is recognized.
struct ResumeDecision {
    value_digest: String,
    id: String,
}

impl ResumeDecision {
    fn of(resume: &GraphResume) -> Self {
        Self { value_digest: digest(&resume.answer.value), id: resume.id.clone() }
    }

    fn text(&self, interrupt_key: &str) -> String {
        format!("{PREFIX}{}/{interrupt_key}/{}", self.value_digest, self.id)
    }

    /// Returns the digest in a decision id, if it belongs to this resume.
    fn parse_digest<'a>(&self, decision: &'a str) -> Option<&'a str> {
        let (value_digest, rest) = decision.strip_prefix(PREFIX)?.split_once('/')?;
        let (_, id) = rest.split_once('/')?;
        (id == self.id).then_some(value_digest)
    }
}

impl Graphs<'_> {
    /// Answers the open interrupts of a graph in one change. A repeated resume has no effect. Returns the handle and
    /// the decision id for [`Graphs::wait`].
    pub async fn resume(
        self,
        tenant: &TenantId,
        state_key: &str,
        resume: GraphResume,
    ) -> Result<(GraphHandle, String), GraphError> {
        let handle = self.handle(tenant, state_key).await?;
        let run = match self.run_between_child_results(&handle.of).await {
            Err(Error::NotFound(_)) => return Err(GraphError::UnknownStateKey),
            other => other?,
        };
        let name = ResumeDecision::of(&resume);
        if let Some(decision) = find_recorded_resume(&run, &name)? {
            return Ok((handle, decision));
        }
        // An answer to an earlier turn is not in the log of this run.
        let request = request_key(&handle, "chat resume", &resume.id, name.value_digest.clone());
        if let Some(recorded) = self.recorded_answer(&request).await? {
            let of = RunRef { run: recorded.run, ..handle.of.clone() };
            return Ok((GraphHandle { of, ..handle }, recorded.decision));
        }
        let open = self.engine.interrupts().of_family(tenant, &run).await?;
        let status = GraphStatus::of(&run, &open);
        if resume.to.is_some_and(|(kind, data)| !is_of_kind(&status, &kind, &data)) {
            return Err(GraphError::InterruptChanged);
        }
        check_waiting(&status)?;
        let answers = answers(&run, &open, &name, &resume.answer)?;
        let mut given = answers.values().flat_map(|answers| answers.values());
        let decision = given.find_map(|answer| answer.decision.clone()).unwrap_or_default();
        let changes = answers.into_iter().map(|(run, answers)| RunCommands {
            of: RunRef { run, ..handle.of.clone() },
            commands: vec![Command::Resolve { answers }],
        });
        let once = answer_once(request, &handle.of.run, &decision);
        match self.engine.interrupts().answer_each(&changes.collect::<Vec<_>>(), Some(&once)).await {
            Ok(_) => {
                self.extend_expiry(&handle).await?;
                Ok((handle, decision))
            }
            // A concurrent answer won. It may be the same resume, sent twice.
            Err(Error::Refused(Refusal::AlreadyResolved | Refusal::RunFinished(_)) | Error::Duplicate(_)) => {
                let run = self.engine.runs().get_stored(&handle.of).await?;
                let decision = find_recorded_resume(&run, &name)?.ok_or(GraphError::InFlight)?;
                Ok((handle, decision))
            }
            Err(error) => Err(error.into()),
        }
    }

    async fn recorded_answer(self, request: &RequestKey) -> Result<Option<Recorded>, GraphError> {
        let Some(receipt) = self.engine.receipts().get(request).await? else { return Ok(None) };
        Recorded::read(&receipt, &request.body_hash)?.map(Some).ok_or(GraphError::ResumeIdReused)
    }

    /// Returns the run. If it handles the result of one child run while another child run waits, waits a moment until it
    /// has done so: the caller answers an interrupt that an earlier response has shown.
    async fn run_between_child_results(self, of: &RunRef) -> Result<Arc<Run>, Error> {
        let mut news = self.engine.events().subscribe(of);
        let until = Instant::now() + SiblingsWait::MAX;
        loop {
            let run = self.engine.runs().get(of).await?;
            let handles_result = run.next_work().is_some() && run.child_interrupts().next().is_some();
            if !handles_result || timeout_at(until, news.changed()).await.is_err() {
                return Ok(run);
            }
        }
    }
}

/// Returns the caller's resume id in a decision id. Returns None if another protocol sent the answer.
pub(super) fn resume_id(decision: &str) -> Option<&str> {
    let (_, rest) = decision.strip_prefix(PREFIX)?.split_once('/')?;
    rest.split_once('/').map(|(_, id)| id)
}

/// Returns the request whose receipt is written with an answer to the turn of a run.
fn answer_once(request: RequestKey, run: &RunId, decision: &str) -> Once<Run> {
    let recorded = Recorded { run: run.clone(), decision: decision.to_owned() };
    let text = serde_json::to_string(&recorded).unwrap_or_default();
    Once { request, respond: Arc::new(move |_| (200, text.clone())) }
}

/// Returns whether the open interrupts have this kind and data. Returns true for a graph that does not wait;
/// `check_waiting` rejects it.
fn is_of_kind(status: &GraphStatus, kind: &str, data: &Value) -> bool {
    match status {
        GraphStatus::Waiting { kind: open_kind, data: open_data, .. } => {
            open_kind == kind && open_data == data
        }
        GraphStatus::Running
        | GraphStatus::Completed(_)
        | GraphStatus::Failed(_)
        | GraphStatus::Cancelled { .. } => true,
    }
}

fn check_waiting(status: &GraphStatus) -> Result<(), GraphError> {
    match status {
        GraphStatus::Waiting { .. } => Ok(()),
        GraphStatus::Running => Err(GraphError::InFlight),
        GraphStatus::Completed(_) | GraphStatus::Failed(_) | GraphStatus::Cancelled { .. } => {
            Err(GraphError::Ended)
        }
    }
}

/// Returns the recorded decision id of this resume, if there is one.
fn find_recorded_resume(run: &Run, name: &ResumeDecision) -> Result<Option<String>, GraphError> {
    for decision in decisions(run) {
        match name.parse_digest(decision) {
            Some(found) if found == name.value_digest => return Ok(Some(decision.to_owned())),
            Some(_) => return Err(GraphError::ResumeIdReused),
            None => {}
        }
    }
    Ok(None)
}

type Answers = BTreeMap<RunId, BTreeMap<InterruptId, Answer>>;

/// Returns the answer to the only open interrupt, or the answers to those of several that the value names by key.
fn answers(
    run: &Run,
    open: &[OpenInterrupt],
    name: &ResumeDecision,
    given: &Answer,
) -> Result<Answers, GraphError> {
    let mut answers = Answers::new();
    let mut add = |one: &OpenInterrupt, value: &Value| {
        let Some(asked) = one.interrupt() else { return };
        let value = conversion::to_run_answer(asked, value.clone());
        let answer = Answer { value, decision: Some(name.text(&key(run, one))), ..given.clone() };
        answers.entry(one.run.id.clone()).or_default().insert(one.id, answer);
    };
    if let [only] = open {
        add(only, &given.value);
        return Ok(answers);
    }
    let keys: Vec<String> = open.iter().map(|one| key(run, one)).collect();
    let members = match &given.value {
        Value::Object(members) if !members.is_empty() => members,
        _ => return Err(several(keys, open)),
    };
    if !members.keys().all(|member| keys.contains(member)) {
        return Err(several(keys, open));
    }
    for (key, one) in keys.iter().zip(open) {
        if let Some(value) = members.get(key) {
            add(one, value);
        }
    }
    Ok(answers)
}

fn several(keys: Vec<String>, open: &[OpenInterrupt]) -> GraphError {
    let interrupts = open.iter().map(|one| one.run.interrupt_name(one.id)).collect();
    GraphError::SeveralInterrupts { keys, interrupts }
}
