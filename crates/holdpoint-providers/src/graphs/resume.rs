//! Resume of a graph by its state key. The log stores the caller's resume id with the answer, so that a repeated
//! resume is recognized and returns the same outcome.

use holdpoint_core::{Answer, Command, Interrupt, Refusal, Run, TenantId, digest};
use holdpoint_engine::Error;
use serde_json::Value;

use super::status::key;
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
        let run = match self.engine.runs().get(&handle.of).await {
            Err(Error::NotFound(_)) => return Err(GraphError::UnknownStateKey),
            other => other?,
        };
        let name = ResumeDecision::of(&resume);
        if let Some(decision) = find_recorded_resume(&run, &name)? {
            return Ok((handle, decision));
        }
        if resume.to.is_some_and(|(kind, data)| !matches_open_interrupts(&run, &kind, &data)) {
            return Err(GraphError::InterruptChanged);
        }
        let answers = answers(&run, &name, &resume.answer)?;
        let decision = answers.values().find_map(|answer| answer.decision.clone()).unwrap_or_default();
        match self.engine.runs().execute(&handle.of, &Command::Resolve { answers }).await {
            Ok(_) => {
                self.extend_expiry(&handle).await?;
                Ok((handle, decision))
            }
            // A concurrent answer won. It may be the same resume, sent twice.
            Err(Error::Refused(Refusal::AlreadyResolved | Refusal::RunFinished(_))) => {
                let run = self.engine.runs().get_stored(&handle.of).await?;
                let decision = find_recorded_resume(&run, &name)?.ok_or(GraphError::InFlight)?;
                Ok((handle, decision))
            }
            Err(error) => Err(error.into()),
        }
    }
}

/// Returns whether the open interrupts have this kind and data. Returns true for a graph that does not wait; `answers`
/// rejects it.
fn matches_open_interrupts(run: &Run, kind: &str, data: &Value) -> bool {
    match GraphStatus::of(run) {
        GraphStatus::Waiting { kind: open_kind, data: open_data, .. } => {
            open_kind == kind && open_data == *data
        }
        GraphStatus::Running
        | GraphStatus::Completed(_)
        | GraphStatus::Failed(_)
        | GraphStatus::Cancelled { .. } => true,
    }
}

/// Returns the recorded decision id of this resume, if there is one.
fn find_recorded_resume(run: &Run, name: &ResumeDecision) -> Result<Option<String>, GraphError> {
    let asked = run.interrupts.iter();
    for (decision, _) in asked.flat_map(|asked| asked.decisions()) {
        match name.parse_digest(decision) {
            Some(found) if found == name.value_digest => return Ok(Some(decision.to_owned())),
            Some(_) => return Err(GraphError::ResumeIdReused),
            None => {}
        }
    }
    Ok(None)
}

type Answers = std::collections::BTreeMap<holdpoint_core::InterruptId, Answer>;

/// Returns the answer to the only open interrupt, or the answers to those of several that the value names by key.
fn answers(run: &Run, name: &ResumeDecision, given: &Answer) -> Result<Answers, GraphError> {
    let status = GraphStatus::of(run);
    match status {
        GraphStatus::Running => return Err(GraphError::InFlight),
        GraphStatus::Completed(_) | GraphStatus::Failed(_) | GraphStatus::Cancelled { .. } => {
            return Err(GraphError::Ended);
        }
        GraphStatus::Waiting { .. } => {}
    }
    let open: Vec<&Interrupt> = run.open_interrupts().collect();
    let answer = |asked: &Interrupt, interrupt_key: &str, value: Value| {
        let value = conversion::to_run_answer(asked, value);
        (asked.id, Answer { value, decision: Some(name.text(interrupt_key)), ..given.clone() })
    };
    if let [only] = open.as_slice() {
        return Ok([answer(only, &key(only), given.value.clone())].into());
    }
    let keys: Vec<String> = open.iter().map(|asked| key(asked)).collect();
    let several = || {
        let interrupts = open.iter().map(|asked| run.interrupt_name(asked.id)).collect();
        GraphError::SeveralInterrupts { keys: keys.clone(), interrupts }
    };
    let Value::Object(members) = &given.value else { return Err(several()) };
    let known = members.keys().all(|member| keys.contains(member));
    if members.is_empty() || !known {
        return Err(several());
    }
    let chosen = keys.iter().zip(&open);
    Ok(chosen.filter_map(|(key, asked)| Some(answer(asked, key, members.get(key)?.clone()))).collect())
}
