//! Starting runs.

use std::sync::Arc;

use holdpoint_core::{Command, Refusal, Run, RunId, RunRef, Start, TenantId, WorkflowId};
use uuid::{Builder, Uuid};

use super::{ATTEMPTS_MAX, Before, Engine, Once};
use crate::advance::Draft;
use crate::committer::Guard;
use crate::error::Error;
use crate::store::threads;

/// A scope is part of an index, and PostgreSQL takes no more than 2704 bytes into an entry, with tenant and run.
const SCOPE_CHARS_MAX: usize = 256;

/// How a run is started, besides what it is started with.
#[derive(Clone, Debug, Default)]
pub struct StartOptions {
    /// Nothing for a new one, which sorts by time.
    pub id: Option<RunId>,
    /// Refused with [`Error::ScopeBusy`] while another run of the tenant with the same scope is unfinished.
    pub exclusive: bool,
    /// The request whose receipt is written with the run.
    pub once: Option<Once<Run>>,
}

impl Engine {
    /// Starts a run of the latest revision under a new id.
    pub async fn start(&self, workflow: &WorkflowId, start: Start) -> Result<Arc<Run>, Error> {
        self.start_with(workflow, start, StartOptions::default()).await
    }

    /// Starts a run under an id of the caller's choice; refused when there is such a run.
    pub async fn start_as(&self, id: &RunId, workflow: &WorkflowId, start: Start) -> Result<Arc<Run>, Error> {
        let options = StartOptions { id: Some(id.clone()), ..StartOptions::default() };
        self.start_with(workflow, start, options).await
    }

    pub async fn start_with(
        &self,
        workflow: &WorkflowId,
        start: Start,
        options: StartOptions,
    ) -> Result<Arc<Run>, Error> {
        check_scope(start.scope.as_deref())?;
        let tenant = start.owner.tenant.clone();
        self.admit_run(&tenant).await?;
        let thread = start.thread.clone().filter(|_| options.exclusive);
        for _ in 0..ATTEMPTS_MAX {
            let previous = match &thread {
                Some(thread) if options.id.is_none() => self.previous_run(&tenant, thread).await?,
                Some(_) | None => None,
            };
            let id = options.id.clone().map_or_else(|| id_after(previous.as_ref()), Ok)?;
            let command = Command::Start(Box::new(self.completed_start(&start, previous).await?));
            let of = RunRef { tenant: tenant.clone(), run: id.clone() };
            let latest = self.0.registry.latest(&self.0.db, &tenant, workflow).await?;
            let Some(latest) = latest else {
                // A graph of a provider is a workflow as soon as somebody wants it.
                if Box::pin(self.ensure_graph(&tenant, workflow)).await? {
                    continue;
                }
                return Err(Error::NotFound("workflow"));
            };
            // It may have been registered when more was switched on.
            let missing = self.0.nodes.missing(&latest);
            if !missing.is_empty() {
                return Err(Error::InvalidWorkflow(missing));
            }
            let unborn = Arc::new(Run::unborn(id, latest));
            match self.try_start(&of, unborn, &command, &options).await? {
                Ok(run) => return Ok(run),
                Err(Guard::Revision | Guard::Receipt | Guard::Arrival) => {}
                // Or it was a run that this one starts, or that started it.
                Err(Guard::Sequence | Guard::Claim) => {
                    if self.sequence(&of).await?.is_some() {
                        return Err(Refusal::AlreadyStarted.into());
                    }
                }
            }
        }
        Err(Error::Busy)
    }

    /// Returns the latest run of a thread.
    async fn previous_run(&self, tenant: &TenantId, thread: &str) -> Result<Option<RunId>, Error> {
        match threads::newest(self.db(), tenant, thread).await? {
            Some(newest) => Ok(Some(newest)),
            None => Ok(threads::one(self.db(), tenant, thread, thread).await?.map(|(run, _)| run)),
        }
    }

    /// Adds the version of the engine, and the requesters of the thread's previous run: its messages and variables are
    /// part of the new run.
    async fn completed_start(&self, start: &Start, previous: Option<RunId>) -> Result<Start, Error> {
        let mut start = Start { engine_version: Some(Self::VERSION), ..start.clone() };
        let Some(run) = previous else { return Ok(start) };
        let previous = match self.run(&RunRef { tenant: start.owner.tenant.clone(), run }).await {
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

    async fn try_start(
        &self,
        of: &RunRef,
        unborn: Arc<Run>,
        command: &Command,
        options: &StartOptions,
    ) -> Result<Result<Arc<Run>, Guard>, Error> {
        let before = Before::of(&unborn);
        let mut draft = Draft::new(unborn, self.now());
        draft.decide(command)?;
        let mail = self.activate(of, &mut draft).await?;
        let after = draft.run.clone();
        let mut changes = match self.family(of, before, draft, mail).await? {
            Ok(changes) => changes,
            Err(guard) => return Ok(Err(guard)),
        };
        if let Some(first) = changes.first_mut() {
            first.exclusive = options.exclusive;
        }
        Ok(self.commit(changes, options.once.as_ref()).await?.map_or(Ok(after), Err))
    }
}

/// Sorts by time.
pub(super) fn fresh_id() -> Result<RunId, Error> {
    let id = Uuid::now_v7().to_string();
    Ok(RunId::parse(&id).map_err(|error| crate::store::unreadable("run", error))?)
}

/// Returns a new id that sorts behind that of the thread's previous run, also if a node with another clock started it.
fn id_after(previous: Option<&RunId>) -> Result<RunId, Error> {
    let fresh = fresh_id()?;
    let behind = previous.filter(|previous| previous.as_str() >= fresh.as_str()).and_then(id_behind);
    Ok(behind.unwrap_or(fresh))
}

/// Nothing where the other one is none of ours.
fn id_behind(newest: &RunId) -> Option<RunId> {
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
