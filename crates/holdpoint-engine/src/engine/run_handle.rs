//! Handles for embedders: start a run, wait for its interrupts and its end without polling, and answer.
//!
//! ```
//! use holdpoint_engine::core::workflow::Approval;
//! use holdpoint_engine::{Engine, Workflow};
//!
//! # #[tokio::main]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let folder = tempfile::tempdir()?;
//! # let path = folder.path().join("holdpoint.db");
//! let engine = Engine::open(path).await?;
//! engine.workflows().put(Workflow::builder("deploy").node("review", Approval::new("Deploy?")).build()?).await?;
//! let run = engine.runs().start("deploy").input("version", "1.2").await?;
//! run.wait_for_interrupt().await?.accept().by("alice").await?;
//! assert!(run.wait().await?.is_completed());
//! # engine.close().await;
//! # Ok(())
//! # }
//! ```

use std::collections::BTreeMap;
use std::future::{Future, IntoFuture};
use std::pin::Pin;
use std::sync::Arc;

use holdpoint_core::{
    Answer, Command, Interrupt, InterruptId, Owner, Principal, Refusal, Run, RunEnd, RunError, RunId, RunRef,
    StartRequest, Status, TenantId, WorkflowId,
};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};
use tokio::sync::watch;

use super::{Engine, Runs, StartOptions};
use crate::bus::Subscription;
use crate::error::Error;

/// The tenant of runs whose tenant is not set.
const TENANT: &str = "default";
/// The principal that starts a run if none is set.
const STARTED_BY: &str = "system:embedded";

type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = Result<T, Error>> + Send + 'a>>;

impl<'e> Runs<'e> {
    /// Returns a start of the latest revision of a workflow. It is executed when it is awaited.
    pub fn start(self, workflow: impl Into<String>) -> RunStart<'e> {
        RunStart {
            engine: self.engine,
            workflow: workflow.into(),
            tenant: None,
            by: STARTED_BY.to_owned(),
            inputs: Ok(Map::new()),
            id: None,
        }
    }

    /// Returns a handle to a run that exists, for example after a restart.
    pub fn handle(self, of: RunRef) -> RunHandle {
        RunHandle { engine: self.engine.clone(), of }
    }
}

/// A run that is about to start. Await it to start it.
#[derive(Debug)]
#[must_use = "the run starts when this is awaited"]
pub struct RunStart<'e> {
    engine: &'e Engine,
    workflow: String,
    tenant: Option<TenantId>,
    by: String,
    inputs: Result<Map<String, Value>, Refusal>,
    id: Option<RunId>,
}

impl RunStart<'_> {
    /// Sets an input of the run.
    pub fn input(mut self, name: impl Into<String>, value: impl Serialize) -> Self {
        let name = name.into();
        self.inputs = self.inputs.and_then(|mut inputs| {
            inputs.insert(name.clone(), to_json(&format!("inputs.{name}"), value)?);
            Ok(inputs)
        });
        self
    }

    /// Sets all inputs from a struct or a map.
    pub fn inputs(mut self, inputs: impl Serialize) -> Self {
        self.inputs = to_json("inputs", inputs).and_then(|value| match value {
            Value::Object(members) => Ok(members),
            _ => Err(Refusal::invalid("inputs", "must be a struct or a map with texts as keys")),
        });
        self
    }

    /// Sets the principal that starts the run. The default is `system:embedded`.
    pub fn by(mut self, principal: impl Into<String>) -> Self {
        self.by = principal.into();
        self
    }

    /// Sets the tenant. The default is `default`.
    pub fn tenant(mut self, tenant: TenantId) -> Self {
        self.tenant = Some(tenant);
        self
    }

    /// Sets the id of the run. A second start with this id fails with [`Refusal::AlreadyStarted`], so that a caller can
    /// repeat a start whose result it did not receive.
    pub fn id(mut self, id: RunId) -> Self {
        self.id = Some(id);
        self
    }

    async fn send(self) -> Result<RunHandle, Error> {
        let tenant = self.tenant.map_or_else(default_tenant, Ok)?;
        let workflow = WorkflowId::parse(&self.workflow)
            .map_err(|error| Refusal::invalid("workflow", error.to_string()))?;
        let owner = Owner { tenant: tenant.clone(), principal: self.by };
        let start = StartRequest { inputs: self.inputs?, ..StartRequest::new(owner) };
        let options = StartOptions { id: self.id, ..StartOptions::default() };
        let run = self.engine.runs().create_with(&workflow, start, options).await?;
        let of = RunRef { tenant, run: run.id.clone() };
        Ok(RunHandle { engine: self.engine.clone(), of })
    }
}

impl<'e> IntoFuture for RunStart<'e> {
    type Output = Result<RunHandle, Error>;
    type IntoFuture = BoxFuture<'e, RunHandle>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.send())
    }
}

/// A handle to a run. Clones refer to the same run.
#[derive(Clone, Debug)]
pub struct RunHandle {
    engine: Engine,
    of: RunRef,
}

impl RunHandle {
    /// Returns the tenant and the id of the run.
    pub fn of(&self) -> &RunRef {
        &self.of
    }

    /// Returns the current state of the run.
    pub async fn state(&self) -> Result<Arc<Run>, Error> {
        self.engine.runs().get(&self.of).await
    }

    /// Waits until an interrupt is open and returns the first one: of the run, or else of the child runs that it waits
    /// for and of the runs below them. Fails with [`Refusal::RunFinished`] if the run ends first, and with an error of the
    /// store if the engine is closed.
    pub async fn wait_for_interrupt(&self) -> Result<InterruptHandle, Error> {
        let mut changes = RunChanges::of(self);
        loop {
            let run = self.state().await?;
            if run.finished() {
                return Err(Refusal::RunFinished(run.status()).into());
            }
            let open = self.engine.interrupts().of_family(&self.of.tenant, &run).await?;
            let found = open.iter().filter(|one| one.is_open()).find_map(|one| {
                let of = RunRef { run: one.run.id.clone(), ..self.of.clone() };
                let run = Self { engine: self.engine.clone(), of };
                Some(InterruptHandle { run, interrupt: Box::new(one.interrupt()?.clone()) })
            });
            match found {
                Some(found) => return Ok(found),
                None => changes.wait().await?,
            }
        }
    }

    /// Waits until the run ends.
    pub async fn wait(&self) -> Result<FinishedRun, Error> {
        let mut changes = RunChanges::of(self);
        loop {
            let run = self.state().await?;
            if run.finished() {
                return Ok(FinishedRun(run));
            }
            changes.wait().await?;
        }
    }

    /// Cancels the run. Has no effect on a run that has already ended.
    pub async fn cancel(&self, reason: Option<String>, by: impl Into<String>) -> Result<(), Error> {
        self.engine.runs().cancel(&self.of, reason, Principal::named(by)).await.map(|_| ())
    }
}

/// The changes of a run for a caller that waits. Created before the first read of the run, so that no change is missed.
struct RunChanges {
    changes: Subscription,
    closing: watch::Receiver<bool>,
    is_closing: bool,
}

impl RunChanges {
    fn of(run: &RunHandle) -> Self {
        let (changes, closing) = (run.engine.events().subscribe(&run.of), run.engine.0.closing.subscribe());
        Self { changes, closing, is_closing: false }
    }

    /// Waits for a change or for the close of the engine. After the close, the caller reads the run once more, because it
    /// may have ended before; the next wait fails.
    async fn wait(&mut self) -> Result<(), Error> {
        if self.is_closing {
            return Err(crate::store::Error::Closed.into());
        }
        tokio::select! {
            () = self.changes.changed() => {}
            _ = self.closing.wait_for(|closing| *closing) => self.is_closing = true,
        }
        Ok(())
    }
}

/// An open interrupt of a run.
#[derive(Clone, Debug)]
pub struct InterruptHandle {
    run: RunHandle,
    interrupt: Box<Interrupt>,
}

impl InterruptHandle {
    /// Returns the interrupt with its kind, node and data.
    pub fn interrupt(&self) -> &Interrupt {
        &self.interrupt
    }

    /// Returns an answer. It is sent when it is awaited.
    pub fn answer(&self, value: impl Serialize) -> InterruptAnswer {
        let value = to_json("answer", value);
        InterruptAnswer { run: self.run.clone(), id: self.interrupt.id, value, by: None }
    }

    /// Returns an answer that accepts an approval. It is sent when it is awaited.
    pub fn accept(&self) -> InterruptAnswer {
        self.answer(json!({ "action": "accept" }))
    }

    /// Returns an answer that rejects an approval. It is sent when it is awaited.
    pub fn reject(&self, reason: impl Into<String>) -> InterruptAnswer {
        self.answer(json!({ "action": "reject", "feedback": reason.into() }))
    }

    /// Returns answers to the questions of a form, by the ids of the questions.
    pub fn answers(&self, answers: impl Serialize) -> InterruptAnswer {
        let value = to_json("answers", answers).map(|answers| json!({ "answers": answers }));
        InterruptAnswer { run: self.run.clone(), id: self.interrupt.id, value, by: None }
    }
}

/// An answer that is about to be sent. Set the principal and await it.
#[derive(Debug)]
#[must_use = "the answer is sent when this is awaited"]
pub struct InterruptAnswer {
    run: RunHandle,
    id: InterruptId,
    value: Result<Value, Refusal>,
    by: Option<Principal>,
}

impl InterruptAnswer {
    /// Sets the principal that answers. The caller must authenticate it first.
    pub fn by(self, name: impl Into<String>) -> Self {
        self.by_principal(Principal::named(name))
    }

    /// Sets the principal that answers, with its roles and groups.
    pub fn by_principal(mut self, principal: Principal) -> Self {
        self.by = Some(principal);
        self
    }

    async fn send(self) -> Result<Arc<Run>, Error> {
        let by = self.by.ok_or_else(|| {
            Refusal::invalid("by", "is missing: an answer needs the principal that gives it; call by(name)")
        })?;
        let answers = BTreeMap::from([(self.id, Answer::new(self.value?, by))]);
        self.run.engine.runs().execute(&self.run.of, &Command::Resolve { answers }).await
    }
}

impl IntoFuture for InterruptAnswer {
    type Output = Result<Arc<Run>, Error>;
    type IntoFuture = BoxFuture<'static, Arc<Run>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.send())
    }
}

/// A run that has ended.
#[derive(Clone, Debug)]
pub struct FinishedRun(Arc<Run>);

impl FinishedRun {
    /// Returns the status: completed, failed or cancelled.
    pub fn status(&self) -> Status {
        self.0.status()
    }

    /// Returns whether the run completed.
    pub fn is_completed(&self) -> bool {
        self.status() == Status::Completed
    }

    /// Returns the error of a failed run.
    pub fn error(&self) -> Option<&RunError> {
        match &self.0.end {
            Some(RunEnd::Failed { error, .. }) => Some(error),
            Some(RunEnd::Completed { .. } | RunEnd::Cancelled { .. }) | None => None,
        }
    }

    /// Returns a variable of the run. Outputs of nodes are variables. Fails if there is none or if it has another type.
    pub fn variable<T: DeserializeOwned>(&self, name: &str) -> Result<T, Error> {
        let value = self.0.variables.get(name).ok_or(Error::NotFound("variable"))?;
        T::deserialize(value).map_err(|error| Refusal::invalid(name, error.to_string()).into())
    }

    /// Returns the final state of the run.
    pub fn state(&self) -> &Arc<Run> {
        &self.0
    }
}

pub(super) fn default_tenant() -> Result<TenantId, Error> {
    Ok(TenantId::parse(TENANT).map_err(|error| crate::store::unreadable("tenant", error))?)
}

fn to_json(field: &str, value: impl Serialize) -> Result<Value, Refusal> {
    serde_json::to_value(value)
        .map_err(|error| Refusal::invalid(field, format!("cannot be written as JSON: {error}")))
}
