//! One attempt in its folder: the conversation is brought up to date, the program is run at most once, and what came of
//! it is on disk and in the store before anybody is told.

use std::path::Path;

use tokio::time::Instant;

use super::super::{Case, Outcome, Pause, Trouble, code};
use super::blocking;
use super::command::{Which, command};
use super::dialogue::Dialogue;
use super::folder::{Folder, Held, unusable};
use super::gate::{Decided, Gate};
use super::hygiene::Veil;
use super::process::Running;
use super::reference::{Deferred, Reference};
use super::settings::Settings;
use super::settle::{Settled, read_output, settle};
use super::step::{Step, Wanted, next};
use super::transcript::Told;
use super::version::not_started;
use super::words::{self, Decision};

/// What the agent says to itself when it goes on by itself.
const GO_ON: &str = "Continue from where you left off.";

pub(super) struct Turn<'a> {
    settings: &'a Settings,
    case: &'a Case,
    folder: Folder,
    // While this lives nobody else has a program in the folder.
    _held: Held,
    pub(super) reference: Reference,
    told: Option<Told>,
    pub(super) until: Instant,
}

impl<'a> Turn<'a> {
    pub(super) async fn open(settings: &'a Settings, all: &Path, case: &'a Case) -> Result<Self, Trouble> {
        let reference = Reference::of(case)?;
        let mut folder = Folder::of(all, case);
        let (folder, held) = blocking(move || {
            let held = folder.hold().map_err(|error| unusable(&error))?;
            Ok((folder, held))
        })
        .await?;
        let busy =
            || Trouble::passing(code::BUSY, "another process of this machine is at work on the session");
        let _held = held.ok_or_else(busy)?;
        let until = case.deadline();
        let mut turn = Self { settings, case, folder, _held, reference, told: None, until };
        turn.catch_up().await?;
        Ok(turn)
    }

    /// Another node may have carried the conversation on since it was here.
    async fn catch_up(&mut self) -> Result<(), Trouble> {
        let (folder, session) = (self.folder.clone(), self.reference.session.clone());
        let behind = folder.turn() < self.reference.turn;
        if behind && let Some(content) = self.case.attachment().await? {
            let (folder, turn) = (self.folder.clone(), self.reference.turn);
            blocking(move || {
                folder.restore(&session, &content)?;
                folder.note_turn(turn).map_err(|error| unusable(&error))
            })
            .await?;
        }
        self.read().await.map(drop)
    }

    async fn read(&mut self) -> Result<Option<Vec<u8>>, Trouble> {
        let (folder, session) = (self.folder.clone(), self.reference.session.clone());
        let content = blocking(move || folder.conversation(&session)).await?;
        self.told = content.as_deref().map(Told::read);
        Ok(content)
    }

    pub(super) fn step(&self, wanted: &Wanted<'_>) -> Step {
        next(&self.reference, self.told.as_ref(), self.case.attempt(), wanted, self.settings)
    }

    /// What is over without the program, if it is.
    pub(super) async fn take(&mut self, step: Step) -> Result<Option<Outcome>, Trouble> {
        let veil = self.veil();
        Ok(match step {
            Step::Paused(call) => {
                let content = self.read().await?;
                self.attach(content.as_deref()).await?;
                Some(Outcome::Paused(self.paused(call).await?))
            }
            Step::Unknown(call, input) => Some(Outcome::Paused(words::unknown(&call, input.as_ref(), &veil))),
            Step::Done(words) => Some(Outcome::Completed(veil.hide(&read_output(&words)))),
            Step::Begin | Step::BeginAnew | Step::GoOn | Step::Decide(_) | Step::Lost => None,
        })
    }

    pub(super) async fn begin(self, prompt: Option<&str>) -> Result<Outcome, Trouble> {
        let session = self.reference.session.clone();
        self.run(&Which::Fresh(&session), prompt, None).await
    }

    pub(super) async fn go_on(self) -> Result<Outcome, Trouble> {
        let session = self.reference.session.clone();
        self.run(&Which::Old(&session), Some(GO_ON), None).await
    }

    pub(super) async fn decide(self, call: &Deferred, decision: &Decision) -> Result<Outcome, Trouble> {
        let before = self.reference.allowed(&call.id);
        let input = match decision {
            Decision::Edit(input) => Some(self.veil().show(input)),
            Decision::Retry => before.and_then(|allowed| allowed.input.clone()),
            Decision::Approve | Decision::Reject(_) | Decision::Reply(_) => None,
        };
        let decided = Decided { call, decision, repeated: before.is_some(), input };
        let session = self.reference.session.clone();
        self.run(&Which::Old(&session), None, Some(decided)).await
    }

    async fn run(
        mut self,
        which: &Which<'_>,
        prompt: Option<&str>,
        decided: Option<Decided<'_>>,
    ) -> Result<Outcome, Trouble> {
        self.reference.keep(self.case).await?;
        let command = command(self.settings, &self.folder, which).await?;
        let running =
            Running::start(command, self.folder.root().to_owned()).map_err(|error| not_started(&error))?;
        if let Some(pid) = running.pid() {
            self.folder.note_started(pid).map_err(|error| unusable(&error))?;
        }
        let dialogue = Dialogue {
            case: self.case,
            reference: &mut self.reference,
            gate: Gate::new(self.settings, decided),
            until: self.until,
            first_event: self.settings.first_event(),
        };
        let heard = dialogue.hold(running, prompt).await?;
        let settled = settle(&heard);
        let content = self.read().await;
        if let Ok(Settled::Done(output)) = settled {
            // A conversation that has ended is not needed any longer, however long it was.
            return Ok(Outcome::Completed(self.veil().hide(&output)));
        }
        self.attach(content?.as_deref()).await?;
        match settled {
            Ok(Settled::Deferred(call)) => Ok(Outcome::Paused(self.paused(call).await?)),
            Ok(Settled::Done(output)) => Ok(Outcome::Completed(output)),
            Err(trouble) => Err(self.explained(trouble)),
        }
    }

    /// Who answers again should know what an answer still can do.
    fn explained(&self, mut trouble: Trouble) -> Trouble {
        let asked = self.reference.deferred.as_ref().zip(self.told.as_ref());
        let made = asked.is_some_and(|(call, told)| told.answered(&call.id));
        if made {
            trouble
                .message
                .push_str("; the decision was carried out, and any further answer goes on from there");
        }
        if trouble.code == code::MISCONFIGURED && self.reference.tools != self.settings.tools_digest() {
            trouble.message.push_str("; the profile's tools or servers have changed since the session began");
        }
        trouble
    }

    /// Gives the conversation to the store, so that any node can go on with it.
    async fn attach(&mut self, content: Option<&[u8]>) -> Result<(), Trouble> {
        let Some(content) = content else { return Ok(()) };
        self.case.keep_attachment(content).await?;
        self.reference.turn += 1;
        self.reference.keep(self.case).await?;
        self.folder.note_turn(self.reference.turn).map_err(|error| unusable(&error))
    }

    async fn paused(&mut self, mut call: Deferred) -> Result<Pause, Trouble> {
        call.attempt = self.case.attempt().to_owned();
        let pause = words::pause(&call, &self.veil());
        self.reference.deferred = Some(call);
        self.reference.keep(self.case).await?;
        Ok(pause)
    }

    fn veil(&self) -> Veil {
        Veil::new(self.folder.root(), &self.folder.work(), &self.reference.session)
    }
}

pub(super) fn lost() -> Trouble {
    Trouble::lasting(code::STATE_LOST, "the agent's conversation is gone, or does not wait for this answer")
}
