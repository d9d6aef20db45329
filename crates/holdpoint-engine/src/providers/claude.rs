//! Agents of the Claude Agent SDK: its program, driven over stdin and stdout, once for each start and each answer. A
//! call that somebody must allow is put off, which ends the program; the next one makes it or tells the agent why not.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::Value;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, timeout_at};

use super::{Answers, BadProviders, Case, Outcome, Probe, Trouble, code};
use crate::operator::{OperatorApproval, Tenants};
use folder::Folder;
use reference::Reference;
use step::{Step, Wanted};
use turn::Turn;
use version::Version;
use words::Decision;

mod command;
mod dialogue;
mod folder;
mod gate;
mod hygiene;
mod leftovers;
mod process;
mod reference;
pub(crate) mod sessions;
mod settings;
mod settle;
mod step;
mod transcript;
mod turn;
mod version;
mod words;

pub(crate) use settings::Settings;

pub(crate) struct Claude {
    settings: Settings,
    /// Where sessions have their folders.
    folder: PathBuf,
    children: Children,
    version: Version,
}

impl Claude {
    pub(crate) fn new(
        settings: Settings,
        base: &Path,
        folder: &Path,
        children: Children,
    ) -> Result<Self, BadProviders> {
        let settings = settings.ready(base)?;
        Ok(Self { settings, folder: folder.to_owned(), children, version: Version::default() })
    }

    pub(crate) fn approval(&self) -> &OperatorApproval {
        &self.settings.approval
    }

    pub(crate) fn tenants(&self) -> &Tenants {
        &self.settings.tenants
    }

    pub(crate) fn plan(&self, _case: &Case) -> Value {
        Reference::fresh(self.settings.tools_digest()).to_value()
    }

    pub(crate) async fn start(&self, case: &Case, input: &Value) -> Result<Outcome, Trouble> {
        let prompt = words::prompt(input)?;
        self.attempt(case, &Wanted::Start, Some(&prompt)).await
    }

    pub(crate) async fn resume(&self, case: &Case, answers: &Answers) -> Result<Outcome, Trouble> {
        let decision = Decision::of(answers)?;
        self.attempt(case, &Wanted::Answer(&decision), None).await
    }

    async fn attempt(
        &self,
        case: &Case,
        wanted: &Wanted<'_>,
        prompt: Option<&str>,
    ) -> Result<Outcome, Trouble> {
        let until = case.deadline().min(Instant::now() + self.settings.turn());
        let _place = self.children.place(until).await?;
        let version = self.version.check(&self.settings).await?;
        let mut turn = Turn::open(&self.settings, &self.folder, case).await?;
        turn.until = until;
        turn.reference.version = Some(version);
        match turn.step(wanted) {
            Step::Begin => turn.begin(prompt).await,
            Step::BeginAnew => {
                let fresh = Reference::fresh(self.settings.tools_digest());
                turn.reference = Reference { turn: turn.reference.turn, ..fresh };
                turn.begin(prompt).await
            }
            Step::GoOn => turn.go_on().await,
            Step::Decide(call) => match wanted {
                Wanted::Answer(decision) => turn.decide(&call, decision).await,
                Wanted::Start | Wanted::Look => Err(turn::lost()),
            },
            settled @ (Step::Paused(_) | Step::Unknown(..) | Step::Done(_)) => {
                turn.take(settled).await?.ok_or_else(turn::lost)
            }
            Step::Lost => Err(turn::lost()),
        }
    }

    pub(crate) async fn probe(&self, case: &Case) -> Result<Probe, Trouble> {
        let mut turn = Turn::open(&self.settings, &self.folder, case).await?;
        let step = turn.step(&Wanted::Look);
        Ok(match turn.take(step).await? {
            Some(outcome) => Probe::Settled(outcome),
            None => Probe::NotStarted,
        })
    }

    pub(crate) async fn cancel(&self, case: &Case) -> Result<(), Trouble> {
        let folder = Folder::of(&self.folder, case);
        blocking(move || {
            folder.stop_if_there();
            Ok(())
        })
        .await
    }

    pub(crate) async fn forget(&self, case: &Case) -> Result<(), Trouble> {
        let folder = Folder::of(&self.folder, case);
        blocking(move || {
            folder.stop_if_there();
            folder.delete().map_err(|error| folder::unusable(&error))
        })
        .await
    }
}

/// What touches files and waits for processes, where that holds up nobody else.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Trouble> + Send + 'static,
) -> Result<T, Trouble> {
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|_| Trouble::passing(code::UNREACHABLE, "the agent's folder cannot be used"))?
}

/// How many programs run at a time, over all profiles.
#[derive(Clone, Debug)]
pub(crate) struct Children {
    places: Arc<Semaphore>,
    most: usize,
}

impl Children {
    pub(crate) fn new(most: Option<usize>) -> Self {
        let most = most.unwrap_or(4).max(1);
        Self { places: Arc::new(Semaphore::new(most)), most }
    }

    async fn place(&self, until: Instant) -> Result<OwnedSemaphorePermit, Trouble> {
        match timeout_at(until, self.places.clone().acquire_owned()).await {
            Ok(Ok(place)) if Instant::now() < until => Ok(place),
            _ => {
                let most = self.most;
                let message =
                    format!("the turn's time was up before one of {most} programs had ended (processesMax)");
                Err(Trouble::lasting(code::TIMEOUT, message))
            }
        }
    }
}
