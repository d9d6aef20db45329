//! Graphs on a LangGraph server: one thread for each, and a run of it for each start and each answer.
//!
//! A run carries the name of its attempt, by which it is found again. What it has come to is read off the state, and
//! answers go to questions by the server's own names of them, so that one that comes too late answers nothing else.

use std::path::Path;
use std::time::Duration;

use serde_json::{Map, Value, json};
use tokio::time::Instant;

use super::{Answers, BadProviders, Case, Outcome, Probe, Trouble, code};
use crate::operator::{OperatorApproval, Tenants};

mod mapping;
mod reference;
mod scrub;
mod server;
mod settings;
mod settle;

use reference::Reference;
use server::{Begun, Run, Server, State};
pub(crate) use settings::Settings;
use settle::{gone, settle, settle_state};

/// How long is waited before a server is asked again that did not wait itself.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LAST_PAUSE: Duration = Duration::from_secs(2);

pub(crate) struct LangGraph {
    tenants: Tenants,
    approval: OperatorApproval,
    server: Server,
}

impl LangGraph {
    pub(crate) fn new(settings: Settings, base: &Path) -> Result<Self, BadProviders> {
        let server = Server::new(&settings, base)?;
        Ok(Self { server, tenants: settings.tenants, approval: settings.approval })
    }

    pub(crate) fn approval(&self) -> &OperatorApproval {
        &self.approval
    }

    pub(crate) fn tenants(&self) -> &Tenants {
        &self.tenants
    }

    #[expect(clippy::unused_self, reason = "other providers plan with their settings")]
    pub(crate) fn plan(&self, case: &Case) -> Value {
        Reference::new(case).json()
    }

    pub(crate) async fn start(&self, case: &Case, input: &Value) -> Result<Outcome, Trouble> {
        self.server.check_version().await?;
        let reference = Reference::of(case)?;
        if !self.server.make_thread(&reference.thread, case.called()).await? {
            let runs = self.server.runs(&reference.thread).await?;
            if let Some(run) = of_attempt(&runs, case) {
                return self.wait(case, reference, &run.run_id).await;
            }
            if !runs.is_empty() {
                let message = "the thread of the graph is in use for something else";
                return Err(Trouble::lasting(code::BUSY, message));
            }
        }
        // A server that was killed may have forgotten thread and run and still have what they came to.
        // One that does not know the graph has no state to show either, and says so when the graph is wanted.
        let state = self.server.state(&reference.thread).await?.unwrap_or_default();
        if state.is_empty() {
            let input = if input.is_null() { json!({}) } else { input.clone() };
            return self.send(case, reference, ("input", input)).await;
        }
        self.go_on(case, reference, state).await
    }

    pub(crate) async fn resume(&self, case: &Case, answers: &Answers) -> Result<Outcome, Trouble> {
        self.server.check_version().await?;
        let reference = Reference::of(case)?;
        let state = self.standing(case, &reference).await?;
        let named = named(&reference, case, answers)?;
        let open: Vec<String> = state.questions().into_iter().map(|question| question.id).collect();
        let open: Map<String, Value> = named.into_iter().filter(|(name, _)| open.contains(name)).collect();
        if open.is_empty() {
            // They were answered: an earlier try got through.
            return self.go_on(case, reference, state).await;
        }
        self.send(case, reference, ("command", json!({ "resume": open }))).await
    }

    pub(crate) async fn probe(&self, case: &Case) -> Result<Probe, Trouble> {
        let reference = Reference::of(case)?;
        let runs = self.server.runs(&reference.thread).await?;
        let Some(run) = of_attempt(&runs, case) else { return Ok(Probe::NotStarted) };
        if run.is_at_work() {
            return Ok(Probe::Running);
        }
        settle(&self.server, case, reference, run).await.map(Probe::Settled)
    }

    pub(crate) async fn cancel(&self, case: &Case) -> Result<(), Trouble> {
        let Some(thread) = thread_of(case) else { return Ok(()) };
        for run in self.server.runs(&thread).await?.iter().filter(|run| run.is_at_work()) {
            self.server.stop(&thread, &run.run_id).await?;
        }
        Ok(())
    }

    pub(crate) async fn forget(&self, case: &Case) -> Result<(), Trouble> {
        let Some(thread) = thread_of(case) else { return Ok(()) };
        self.server.delete_thread(&thread).await
    }

    /// The state of a thread that was begun. A server that was killed may know no more than its checkpoints, which it
    /// finds when the thread is made again.
    async fn standing(&self, case: &Case, reference: &Reference) -> Result<State, Trouble> {
        let mut found = self.server.state(&reference.thread).await?;
        if found.is_none() {
            tracing::info!("a server has lost a thread, which is made again");
            self.server.make_thread(&reference.thread, case.called()).await?;
            found = self.server.state(&reference.thread).await?;
        }
        let unknown = || Trouble::lasting(code::REJECTED, "the server does not know the graph any longer");
        let state = found.ok_or_else(unknown)?;
        if state.is_empty() {
            let message = "the server does not know the state of the graph any longer";
            return Err(Trouble::lasting(code::STATE_LOST, message));
        }
        Ok(state)
    }

    /// Nothing is to be sent. Either somebody is at work in the thread, or it stands still, or it stopped on its way.
    async fn go_on(&self, case: &Case, reference: Reference, state: State) -> Result<Outcome, Trouble> {
        if state.questions().is_empty() && !state.next.is_empty() {
            let runs = self.server.runs(&reference.thread).await?;
            return match runs.iter().find(|run| run.is_at_work()) {
                Some(run) => self.wait(case, reference, &run.run_id).await,
                // Without input a graph goes on from its last checkpoint.
                None => self.send(case, reference, ("input", Value::Null)).await,
            };
        }
        settle_state(case, reference, state).await
    }

    async fn send(
        &self,
        case: &Case,
        reference: Reference,
        (member, content): (&str, Value),
    ) -> Result<Outcome, Trouble> {
        let body = json!({
            "assistant_id": case.called(),
            member: content,
            "multitask_strategy": "reject",
            "durability": "sync",
            "metadata": { "resume_id": case.attempt() },
        });
        let run = match self.server.begin(&reference.thread, &body).await? {
            Begun::Run(run) => run,
            Begun::NoThread => return Err(gone()),
            // It may be the same attempt, of which no more was heard.
            Begun::Busy => {
                let runs = self.server.runs(&reference.thread).await?;
                of_attempt(&runs, case).ok_or_else(busy)?.run_id.clone()
            }
        };
        self.wait(case, reference, &run).await
    }

    /// Waits for the end of a run, in calls of limited length, and stops it when its time is up. A server that goes
    /// away for a while may come back with the run.
    async fn wait(&self, case: &Case, reference: Reference, run: &str) -> Result<Outcome, Trouble> {
        let until = case.deadline().min(Instant::now() + self.server.times.run);
        let (mut pause, mut heard) = (FIRST_PAUSE, Instant::now());
        loop {
            let asked = Instant::now();
            let within = self.server.times.wait.min(until.saturating_duration_since(asked));
            // However the call ended: the run says where it stands.
            let _ = self.server.join(&reference.thread, run, within).await;
            match self.server.run(&reference.thread, run).await {
                Ok(Some(found)) if found.is_at_work() => heard = Instant::now(),
                Ok(Some(found)) => return settle(&self.server, case, reference, &found).await,
                Ok(None) => return Err(gone()),
                Err(trouble) if trouble.passing && heard.elapsed() < self.server.times.outage => {}
                Err(trouble) => return Err(trouble),
            }
            if Instant::now() >= until {
                return self.stop(case, reference, run).await;
            }
            if asked.elapsed() < within {
                tokio::time::sleep(pause).await;
                pause = (pause * 2).min(LAST_PAUSE);
            } else {
                pause = FIRST_PAUSE;
            }
        }
    }

    /// The time is up. What ended in the last moment has ended all the same.
    async fn stop(&self, case: &Case, reference: Reference, run: &str) -> Result<Outcome, Trouble> {
        self.server.stop(&reference.thread, run).await?;
        match self.server.run(&reference.thread, run).await? {
            Some(found) if found.status != "interrupted" && !found.is_at_work() => {
                settle(&self.server, case, reference, &found).await
            }
            _ => Err(Trouble::lasting(
                code::TIMEOUT,
                "the graph neither paused nor ended in time, and was stopped",
            )),
        }
    }
}

fn of_attempt<'a>(runs: &'a [Run], case: &Case) -> Option<&'a Run> {
    runs.iter().find(|run| run.is_for(case.attempt()))
}

/// Answers under the server's names of what they answer. A single question is shown without a key, and its answer has none
/// either: it may be the last one of several, and have another key than a question that was always alone.
fn named(reference: &Reference, case: &Case, answers: &Answers) -> Result<Map<String, Value>, Trouble> {
    let names = reference.asked(case.attempt());
    let only = names.values().next().filter(|_| names.len() == 1 && answers.len() == 1);
    let named = answers.iter().map(|(key, value)| match only.or_else(|| names.get(key)) {
        Some(name) => Ok((name.clone(), value.clone())),
        None => Err(Trouble::lasting(code::REJECTED, format!("nothing was asked under {key:?}"))),
    });
    named.collect()
}

fn thread_of(case: &Case) -> Option<String> {
    Reference::of(case).ok().map(|reference| reference.thread)
}

fn busy() -> Trouble {
    Trouble::passing(code::BUSY, "the graph is at work for somebody else")
}
