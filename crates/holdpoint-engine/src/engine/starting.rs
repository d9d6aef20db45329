//! Starts of runs.

use std::sync::Arc;

use holdpoint_core::{Command, Refusal, Run, RunId, RunRef, StartRequest, TenantId, WorkflowId};
use uuid::{Builder, Uuid};

use super::commands::{Attempt, CommandOutcome, RunSource};
use super::{ATTEMPTS_MAX, Engine, Once, Runs};
use crate::committer::Precondition;
use crate::draft::RunDraft;
use crate::error::Error;
use crate::store::{Statement, threads};

/// The maximum length of a scope. It is part of an index entry, which PostgreSQL limits to 2704 bytes with tenant and
/// run.
const SCOPE_CHARS_MAX: usize = 256;

/// Options of a start.
#[derive(Clone, Debug, Default)]
pub struct StartOptions {
    /// The id of the run. `None` generates a time-ordered id (UUIDv7).
    pub id: Option<RunId>,
    /// True to fail with [`Error::ScopeBusy`] while another run of the tenant with the same scope has not ended.
    pub exclusive: bool,
    /// The request whose receipt is written with the run.
    pub once: Option<Once<Run>>,
}

impl Runs<'_> {
    /// Starts a run of the latest revision under a new id.
    pub async fn create(self, workflow: &WorkflowId, start: StartRequest) -> Result<Arc<Run>, Error> {
        self.create_with(workflow, start, StartOptions::default()).await
    }

    /// Starts a run with an id that the caller chose. Fails if a run with this id exists.
    pub async fn create_as(
        self,
        id: &RunId,
        workflow: &WorkflowId,
        start: StartRequest,
    ) -> Result<Arc<Run>, Error> {
        let options = StartOptions { id: Some(id.clone()), ..StartOptions::default() };
        self.create_with(workflow, start, options).await
    }

    /// Starts a run of the latest revision with options.
    pub async fn create_with(
        self,
        workflow: &WorkflowId,
        start: StartRequest,
        options: StartOptions,
    ) -> Result<Arc<Run>, Error> {
        self.create_with_rows(workflow, start, options, Vec::new()).await
    }

    /// Starts a run, and writes further statements in its commit.
    pub(crate) async fn create_with_rows(
        self,
        workflow: &WorkflowId,
        start: StartRequest,
        options: StartOptions,
        rows: Vec<Statement>,
    ) -> Result<Arc<Run>, Error> {
        check_scope(start.scope.as_deref())?;
        let tenant = start.owner.tenant.clone();
        self.engine.admit_run(&tenant).await?;
        let thread = start.thread.clone().filter(|_| options.exclusive);
        for _ in 0..ATTEMPTS_MAX {
            let previous = match &thread {
                Some(thread) if options.id.is_none() => self.engine.previous_run(&tenant, thread).await?,
                Some(_) | None => None,
            };
            let id = options.id.clone().map_or_else(|| id_after(previous.as_ref()), Ok)?;
            let command = Command::Start(Box::new(self.engine.completed_start(&start, previous).await?));
            let of = RunRef { tenant: tenant.clone(), run: id.clone() };
            let latest = self.engine.0.registry.latest(&self.engine.0.db, &tenant, workflow).await?;
            let Some(latest) = latest else {
                if Box::pin(self.engine.workflows().register_offered(&tenant, workflow)).await? {
                    continue;
                }
                return Err(Error::NotFound("workflow"));
            };
            // The workflow may have been registered when more node types were enabled.
            let missing = self.engine.0.nodes.capability_flaws(&latest);
            if !missing.is_empty() {
                return Err(Error::InvalidWorkflow(missing));
            }
            let draft = RunDraft::new(of.clone(), Arc::new(Run::new(id, latest)), self.engine.now());
            let attempt = Attempt {
                draft,
                commands: &[command],
                source: RunSource::New,
                exclusive: options.exclusive,
                once: options.once.as_ref(),
                rows: rows.clone(),
            };
            match self.engine.attempt(attempt).await? {
                CommandOutcome::Done(run) => return Ok(run),
                CommandOutcome::Denied(refusal) => return Err(refusal.into()),
                CommandOutcome::Conflict(
                    Precondition::Revision | Precondition::Receipt | Precondition::Arrival,
                ) => {}
                // The conflict can also be in a child run or the parent of this run.
                CommandOutcome::Conflict(Precondition::Sequence | Precondition::Claim) => {
                    if self.engine.stored_event_count(&of).await?.is_some() {
                        return Err(Refusal::AlreadyStarted.into());
                    }
                }
            }
        }
        Err(Error::Busy)
    }
}

impl Engine {
    /// Returns the latest run of a thread.
    async fn previous_run(&self, tenant: &TenantId, thread: &str) -> Result<Option<RunId>, Error> {
        match threads::newest(self.db(), tenant, thread).await? {
            Some(newest) => Ok(Some(newest)),
            None => Ok(threads::one(self.db(), tenant, thread, thread).await?.map(|(run, _)| run)),
        }
    }

    /// Adds the version of the engine, and the requesters of the thread's previous run: its messages and variables are
    /// part of the new run.
    async fn completed_start(
        &self,
        start: &StartRequest,
        previous: Option<RunId>,
    ) -> Result<StartRequest, Error> {
        let mut start = StartRequest { engine_version: Some(Self::VERSION), ..start.clone() };
        let Some(run) = previous else { return Ok(start) };
        let previous = match self.runs().get(&RunRef { tenant: start.owner.tenant.clone(), run }).await {
            Ok(previous) => previous,
            Err(Error::NotFound(_)) => return Ok(start),
            Err(error) => return Err(error),
        };
        for name in previous.requesters() {
            if *name != start.owner.principal && !start.requested_by.iter().any(|known| known == name) {
                start.requested_by.push(name.to_owned());
            }
        }
        Ok(start)
    }
}

/// Returns a new time-ordered id.
pub fn new_run_id() -> Result<RunId, Error> {
    let id = Uuid::now_v7().to_string();
    Ok(RunId::parse(&id).map_err(|error| crate::store::unreadable("run", error))?)
}

/// Returns a new id that sorts after that of the thread's previous run, even if a node with another clock started that
/// run.
fn id_after(previous: Option<&RunId>) -> Result<RunId, Error> {
    let fresh = new_run_id()?;
    let later = previous.filter(|previous| previous.as_str() >= fresh.as_str()).and_then(next_id_after);
    Ok(later.unwrap_or(fresh))
}

/// Returns the next id after another one. `None` if the other id is not a UUIDv7.
fn next_id_after(newest: &RunId) -> Option<RunId> {
    let (seconds, nanos) = Uuid::parse_str(newest.as_str()).ok()?.get_timestamp()?.to_unix();
    let next_ms = seconds * 1000 + u64::from(nanos / 1_000_000) + 1;
    let fresh = Uuid::now_v7().into_bytes();
    let id = Builder::from_unix_timestamp_millis(next_ms, fresh.last_chunk()?).into_uuid();
    RunId::parse(&id.to_string()).ok()
}

fn check_scope(scope: Option<&str>) -> Result<(), Refusal> {
    match scope.map(|scope| scope.chars().count()) {
        Some(0) => Err(Refusal::invalid("scopeId", "is empty")),
        Some(length) if length > SCOPE_CHARS_MAX => {
            let message = format!("is longer than {SCOPE_CHARS_MAX} characters");
            Err(Refusal::invalid("scopeId", message))
        }
        _ => Ok(()),
    }
}
