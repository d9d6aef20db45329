//! Fires timers and carries out dispatches: claim, run nodes with outside effects, settle. Holds nothing that a
//! restart would miss.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use holdpoint_core::{Command, Outcome, Refusal, Run, RunError, Timer, Timestamp, Work};
use tokio::sync::watch;
use tokio::task::{Id, JoinSet};
use uuid::Uuid;

use crate::advance::Draft;
use crate::committer::ClaimOrder;
use crate::context::{Context, EffectContext, Stop};
use crate::engine::Engine;
use crate::error::Error;
use crate::nodes::NodeType;
use crate::store::Guard;
use crate::store::dispatches::{Claim, Mail};
use crate::store::timers::Due;

/// Dispatches in flight at once.
const IN_FLIGHT_MAX: usize = 64;
/// Timers fired in one go.
const TIMERS_MAX: u64 = 256;
const LEASE_MS: u64 = 30_000;
const DISPATCH_ATTEMPTS_MAX: u64 = 5;
const RETRY_FIRST_MS: u64 = 250;
const RETRY_CAP_MS: u64 = 30_000;
/// Looks at the store this often even if nobody said that there is something to do.
const BACKSTOP: Duration = Duration::from_secs(30);
/// How long the worker waits before it tries again what the store would not let it do.
const TROUBLE: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub struct Worker {
    engine: Engine,
    consumer: String,
    in_flight: JoinSet<Result<(), Error>>,
    claims: HashMap<Id, Claim>,
    /// Claims that could not be given back, and why they should be. Tried again at every look.
    unreturned: Vec<(Claim, String)>,
}

impl Worker {
    pub(crate) fn new(engine: Engine) -> Self {
        let consumer = format!("worker-{}", Uuid::now_v7());
        Self { engine, consumer, in_flight: JoinSet::new(), claims: HashMap::new(), unreturned: Vec::new() }
    }

    /// Does everything there is to do now and returns how many dispatches and timers that were. What cannot be done
    /// is an error, once everything else is done.
    pub async fn drain(&mut self) -> Result<usize, Error> {
        let mut done = 0;
        loop {
            let (begun, trouble) = self.look().await?;
            while let Some(ended) = self.in_flight.join_next_with_id().await {
                self.close(ended).await?;
            }
            done += begun;
            match (begun, trouble) {
                (0, None) => return Ok(done),
                (0, Some(error)) => return Err(error),
                _ => {}
            }
        }
    }

    /// Works until told to stop, then finishes what is in flight.
    pub async fn run(mut self, mut stop: watch::Receiver<bool>) {
        while !*stop.borrow() {
            // From here on every new timer wakes us: one that is written after we looked would be missed otherwise.
            self.engine.bus().set_next_look(None);
            let next = match self.look().await {
                Ok((0, None)) => self.next_look().await,
                Ok((_, None)) => continue,
                Ok((_, Some(error))) | Err(error) => {
                    tracing::error!(%error, "the worker could not do all its work; it tries again");
                    TROUBLE
                }
            };
            let engine = self.engine.clone();
            tokio::select! {
                () = engine.bus().work() => {}
                () = tokio::time::sleep(next) => {}
                _ = stop.changed() => {}
                Some(ended) = self.in_flight.join_next_with_id() => self.close_or_log(ended).await,
            }
        }
        while let Some(ended) = self.in_flight.join_next_with_id().await {
            self.close_or_log(ended).await;
        }
    }

    /// Begins what is due. How much that was, and why something could not be begun.
    async fn look(&mut self) -> Result<(usize, Option<Error>), Error> {
        let mut trouble = None;
        for (claim, why) in std::mem::take(&mut self.unreturned) {
            trouble = self.give_back(claim, why).await.err().or(trouble);
        }
        let (timers, unfired) = self.fire_timers().await?;
        let trouble = unfired.or(trouble);
        let free = IN_FLIGHT_MAX.saturating_sub(self.in_flight.len());
        if free == 0 || self.engine.next_dispatch().await?.is_none_or(|at| at > self.engine.now()) {
            return Ok((timers, trouble));
        }
        let now = self.engine.now();
        let order = ClaimOrder {
            consumer: self.consumer.clone(),
            token_prefix: format!("{}:", Uuid::now_v7()),
            lease_until: now.plus_ms(LEASE_MS),
            now,
            limit: free as u64,
        };
        let claims = self.engine.claim(order).await?;
        let count = claims.len();
        for claim in claims {
            let holder = Holder { engine: self.engine.clone(), claim: claim.clone() };
            let handle = self.in_flight.spawn(holder.perform());
            self.claims.insert(handle.id(), claim);
        }
        Ok((timers + count, trouble))
    }

    async fn next_look(&self) -> Duration {
        let next = match self.next_wakeup().await {
            Ok(next) => next,
            Err(error) => {
                tracing::error!(%error, "the next deadline could not be read");
                None
            }
        };
        self.engine.bus().set_next_look(next);
        let now = self.engine.now();
        let ms = next.map_or(u64::MAX, |at| u64::try_from(at.0 - now.0).unwrap_or(0));
        Duration::from_millis(ms).min(BACKSTOP)
    }

    /// When there will be something to do that nobody announces. With all hands busy, a dispatch that waits is
    /// nothing to do: the end of one in flight is announced.
    async fn next_wakeup(&self) -> Result<Option<Timestamp>, Error> {
        let timer = self.engine.next_timer().await?;
        if self.in_flight.len() >= IN_FLIGHT_MAX {
            return Ok(timer);
        }
        let dispatch = self.engine.next_dispatch().await?;
        Ok([timer, dispatch].into_iter().flatten().min())
    }

    /// Timers fire side by side, so that many of them share a commit. One that cannot be fired stays where it is
    /// and holds nobody up. How many were fired, and why one was not.
    async fn fire_timers(&self) -> Result<(usize, Option<Error>), Error> {
        let mut firing: JoinSet<Result<(), Error>> = JoinSet::new();
        for due in self.engine.due_timers(TIMERS_MAX).await? {
            firing.spawn(fire(self.engine.clone(), due));
        }
        let (mut fired, mut trouble) = (0, None);
        while let Some(ended) = firing.join_next().await {
            match ended {
                Ok(Ok(())) => fired += 1,
                Ok(Err(error)) => trouble = Some(error),
                Err(panic) => trouble = Some(crate::store::Error::Failed(panic.to_string()).into()),
            }
        }
        Ok((fired, trouble))
    }

    async fn close_or_log(&mut self, ended: Ended) {
        if let Err(error) = self.close(ended).await {
            tracing::error!(%error, "a dispatch could not be given back; it is tried again");
        }
    }

    /// A dispatch whose holder failed or panicked is tried again, and given up after some attempts.
    async fn close(&mut self, ended: Ended) -> Result<(), Error> {
        let (id, why) = match ended {
            Ok((id, Ok(()))) => (id, None),
            Ok((id, Err(error))) => (id, Some(error.to_string())),
            Err(error) => (error.id(), Some(format!("the worker panicked: {error}"))),
        };
        match (self.claims.remove(&id), why) {
            (Some(claim), Some(why)) => self.give_back(claim, why).await,
            _ => Ok(()),
        }
    }

    async fn give_back(&mut self, claim: Claim, why: String) -> Result<(), Error> {
        let given = give_back(&self.engine, claim.clone(), why.clone()).await;
        if given.is_err() {
            self.unreturned.push((claim, why));
        }
        given
    }
}

type Ended = Result<(Id, Result<(), Error>), tokio::task::JoinError>;

async fn fire(engine: Engine, due: Due) -> Result<(), Error> {
    let command = match &due.timer {
        Timer::Interrupt(interrupt) => Command::Expire { interrupt: *interrupt },
        Timer::Sleep(node) => Command::Wake { node: node.clone() },
    };
    match engine.execute(&due.of, &command).await {
        Ok(_) => Ok(()),
        Err(Error::Refused(refusal)) => {
            // The run went on without the timer. Its row should be gone; make sure that it does not fire for ever.
            tracing::debug!(%refusal, run = %due.of.run, "a timer came too late");
            engine.write(due.clear().into_iter().collect()).await.map(|_| ())
        }
        Err(error) => Err(error),
    }
}

/// Tried again when others change the run meanwhile: a claim that nobody closes would park the run for good.
async fn give_back(engine: &Engine, claim: Claim, why: String) -> Result<(), Error> {
    tracing::warn!(run = %claim.run.run, attempts = claim.attempts + 1, why, "a dispatch failed");
    let of = claim.run.clone();
    loop {
        let run = engine.load(&of).await?;
        let before = run.seq;
        let mut draft = Draft::new(run, engine.now());
        let mail = returned(&mut draft, claim.clone(), why.clone())?;
        if engine.settle(&of, before, draft, mail).await? != Some(Guard::Sequence) {
            return Ok(());
        }
    }
}

/// Back into the queue while there are attempts left; otherwise the run ends with the error.
fn returned(draft: &mut Draft, claim: Claim, why: String) -> Result<Mail, Error> {
    if claim.attempts + 1 < DISPATCH_ATTEMPTS_MAX {
        let delay = (RETRY_FIRST_MS << claim.attempts.min(16)).min(RETRY_CAP_MS);
        return Ok(Mail::Retry { at: draft.now.plus_ms(delay), claim, error: why });
    }
    let error = RunError::new("dispatch_failed", why.clone());
    match draft.decide(&Command::Abandon { error }) {
        Ok(()) | Err(Refusal::RunFinished(_)) => Ok(Mail::DeadLetter { claim, error: why }),
        Err(refusal) => Err(refusal.into()),
    }
}

/// The right to carry on one run: a claimed dispatch. Whatever it writes is fenced by the claim's token.
#[derive(Clone, Debug)]
pub(crate) struct Holder {
    engine: Engine,
    claim: Claim,
}

impl Holder {
    /// Runs the run's nodes until it waits, ends, or is taken away.
    async fn perform(self) -> Result<(), Error> {
        let mut finished: Option<(usize, Outcome)> = None;
        loop {
            // From the store: a claim can be seen before the cache has heard of the commit that caused it.
            let run = self.engine.load(&self.claim.run).await?;
            let before = run.seq;
            let mut draft = Draft::new(run, self.engine.now());
            if let Some((position, outcome)) = finished.clone() {
                // Refused, the outcome came too late: the run ended, or the node must be entered again.
                let _ = draft.finish(position, outcome);
            }
            draft.advance(self.engine.nodes())?;
            let work = draft.run.next_work();
            if let Some(work) = work {
                draft.begin(work)?;
            }
            let mail = match work {
                Some(_) => Mail::Progress(self.claim.clone()),
                None => Mail::Ack(self.claim.clone()),
            };
            let (run, now) = (draft.run.clone(), draft.now);
            match self.engine.settle(&self.claim.run, before, draft, mail).await? {
                Some(Guard::Claim) => return Ok(()),
                Some(Guard::Sequence) => continue,
                None => {}
            }
            let Some(work) = work else { return Ok(()) };
            finished = Some((work.position(), self.execute(run, work, now).await?));
        }
    }

    /// Enters one node with effects.
    async fn execute(&self, run: Arc<Run>, work: Work, now: Timestamp) -> Result<Outcome, Error> {
        let node = &run.workflow.nodes[work.position()];
        let Some(NodeType::Effect(effect)) = self.engine.nodes().get(&node.type_id).cloned() else {
            let message = format!("this engine has no node type {:?}", node.type_id);
            return Ok(Outcome::Failed(RunError::new("unknown_node_type", message)));
        };
        let result = match Context::new(run, work.position(), now) {
            Ok(context) => effect.run(&mut EffectContext::new(context, self.clone())).await,
            Err(stop) => Err(stop),
        };
        match result {
            Ok(outputs) => Ok(Outcome::Completed(outputs)),
            Err(stop) => Ok(stop.outcome()?),
        }
    }

    /// Commits a recorded step before the node goes on, and returns the run as it is then. The effect is done and
    /// must not be done again because the store is busy: that is waited for.
    pub(crate) async fn record(&self, command: Command) -> Result<Arc<Run>, Stop> {
        let mut waits = RECORD_WAITS.iter();
        loop {
            match self.try_record(&command).await {
                Ok(Some(run)) => return Ok(run),
                Ok(None) => {}
                Err(Unrecorded::Stop(stop)) => return Err(stop),
                Err(Unrecorded::Trouble(Error::Store(error @ crate::store::Error::Closed))) => {
                    return Err(Stop::Broken(error.to_string()));
                }
                Err(Unrecorded::Trouble(error)) => match waits.next() {
                    Some(wait) => tokio::time::sleep(*wait).await,
                    None => return Err(Stop::Broken(error.to_string())),
                },
            }
        }
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.engine.now()
    }

    /// Nothing when somebody else changed the run first.
    async fn try_record(&self, command: &Command) -> Result<Option<Arc<Run>>, Unrecorded> {
        let run = self.engine.load(&self.claim.run).await?;
        let before = run.seq;
        let mut draft = Draft::new(run, self.engine.now());
        match draft.decide(command) {
            Ok(()) => {}
            Err(Refusal::RunFinished(_) | Refusal::NodeNotRunning) => {
                return Err(Unrecorded::Stop(Stop::Lost));
            }
            Err(refusal) => return Err(Unrecorded::Stop(Stop::failed(refusal.code(), refusal.to_string()))),
        }
        let after = draft.run.clone();
        match self.engine.settle(&self.claim.run, before, draft, Mail::Progress(self.claim.clone())).await? {
            None => Ok(Some(after)),
            Some(Guard::Claim) => Err(Unrecorded::Stop(Stop::Lost)),
            Some(Guard::Sequence) => Ok(None),
        }
    }
}

/// How long a finished effect waits for the store, again and again, before it is given up: about a minute.
const RECORD_WAITS: [Duration; 16] = {
    let mut waits = [Duration::from_secs(6); 16];
    let short = [50, 100, 200, 400, 800, 1600, 3200];
    let mut at = 0;
    while at < short.len() {
        waits[at] = Duration::from_millis(short[at]);
        at += 1;
    }
    waits
};

/// Why a step was not recorded.
enum Unrecorded {
    Stop(Stop),
    Trouble(Error),
}

impl From<Error> for Unrecorded {
    fn from(error: Error) -> Self {
        Self::Trouble(error)
    }
}
