//! Answering a graph by its state key. A resume is known by the name its caller gave it, which the log keeps with the
//! answer: told again, it is the same resume and comes to the same.

use holdpoint_core::{Answer, Command, Interrupt, Refusal, Run, TenantId, digest};
use serde_json::Value;

use super::standing::key;
use super::{GraphError, Handle, Standing};
use crate::engine::Engine;
use crate::error::Error;
use crate::providers::asking;

/// In front of what the log calls the decision of a resume.
const PREFIX: &str = "resume:";

/// Somebody's answer to a graph.
#[derive(Clone, Debug)]
pub struct Resume {
    /// The caller's name for it.
    pub id: String,
    /// Whose it is; its value is that of the resume.
    pub answer: Answer,
    /// The kind and data of what is answered, where the caller says so: anything else is not answered.
    pub to: Option<(String, Value)>,
}

/// What the log calls a resume's answer to one question: with what was said, so that it is known again.
struct Name {
    said: String,
    id: String,
}

impl Name {
    fn of(resume: &Resume) -> Self {
        Self { said: digest(&resume.answer.value), id: resume.id.clone() }
    }

    fn text(&self, question: &str) -> String {
        format!("{PREFIX}{}/{question}/{}", self.said, self.id)
    }

    /// The digest in a decision of this resume, if it is one.
    fn said_in<'a>(&self, decision: &'a str) -> Option<&'a str> {
        let (said, rest) = decision.strip_prefix(PREFIX)?.split_once('/')?;
        let (_, id) = rest.split_once('/')?;
        (id == self.id).then_some(said)
    }
}

impl Engine {
    /// Answers what a graph waits for, all in one; the same resume again changes nothing. With what the log calls it, for
    /// [`Engine::graph_settled`].
    pub async fn resume_graph(
        &self,
        tenant: &TenantId,
        state_key: &str,
        resume: Resume,
    ) -> Result<(Handle, String), GraphError> {
        let handle = self.handle(tenant, state_key).await?;
        let run = match self.run(&handle.of).await {
            Err(Error::NotFound(_)) => return Err(GraphError::NoState),
            other => other?,
        };
        let name = Name::of(&resume);
        if let Some(decision) = said_before(&run, &name)? {
            return Ok((handle, decision));
        }
        if resume.to.is_some_and(|to| !asks(&run, &to)) {
            return Err(GraphError::AsksOther);
        }
        let answers = answers(&run, &name, &resume.answer)?;
        let decision = answers.values().find_map(|answer| answer.decision.clone()).unwrap_or_default();
        match self.execute(&handle.of, &Command::Resolve { answers }).await {
            Ok(_) => {
                self.prolong(&handle).await?;
                Ok((handle, decision))
            }
            // Another answer was faster; perhaps this one, sent twice.
            Err(Error::Refused(Refusal::AlreadyResolved | Refusal::RunFinished(_))) => {
                let run = self.load(&handle.of).await?;
                let decision = said_before(&run, &name)?.ok_or(GraphError::InFlight)?;
                Ok((handle, decision))
            }
            Err(error) => Err(error.into()),
        }
    }
}

/// Whether this is what the graph waits for now. One that does not wait is told so elsewhere.
fn asks(run: &Run, to: &(String, Value)) -> bool {
    match Standing::of(run) {
        Standing::Waiting { kind, data, .. } => (&kind, &data) == (&to.0, &to.1),
        Standing::Running | Standing::Completed(_) | Standing::Failed(_) | Standing::Cancelled { .. } => true,
    }
}

/// What the log calls this resume, if it is there.
fn said_before(run: &Run, name: &Name) -> Result<Option<String>, GraphError> {
    let asked = run.interrupts.iter();
    for (decision, _) in asked.flat_map(|asked| asked.decisions()) {
        match name.said_in(decision) {
            Some(said) if said == name.said => return Ok(Some(decision.to_owned())),
            Some(_) => return Err(GraphError::OtherValue),
            None => {}
        }
    }
    Ok(None)
}

type Answers = std::collections::BTreeMap<holdpoint_core::InterruptId, Answer>;

/// An answer to the one question that is open, or to some of several.
fn answers(run: &Run, name: &Name, given: &Answer) -> Result<Answers, GraphError> {
    let standing = Standing::of(run);
    match standing {
        Standing::Running => return Err(GraphError::InFlight),
        Standing::Completed(_) | Standing::Failed(_) | Standing::Cancelled { .. } => {
            return Err(GraphError::Ended);
        }
        Standing::Waiting { .. } => {}
    }
    let open: Vec<&Interrupt> = run.open_interrupts().collect();
    let answer = |asked: &Interrupt, question: &str, value: Value| {
        let value = asking::in_our_words(asked, value);
        (asked.id, Answer { value, decision: Some(name.text(question)), ..given.clone() })
    };
    if let [only] = open.as_slice() {
        return Ok([answer(only, &key(only), given.value.clone())].into());
    }
    let keys: Vec<String> = open.iter().map(|asked| key(asked)).collect();
    let several = || {
        let interrupts = open.iter().map(|asked| run.interrupt_name(asked.id)).collect();
        GraphError::Several { keys: keys.clone(), interrupts }
    };
    let Value::Object(members) = &given.value else { return Err(several()) };
    let known = members.keys().all(|member| keys.contains(member));
    if members.is_empty() || !known {
        return Err(several());
    }
    let chosen = keys.iter().zip(&open);
    Ok(chosen.filter_map(|(key, asked)| Some(answer(asked, key, members.get(key)?.clone()))).collect())
}
