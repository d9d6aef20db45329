//! The right to carry on one run: a claimed dispatch. Whatever it writes is fenced by the claim's token.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use holdpoint_core::agent::Act;
use holdpoint_core::mailbox::Fenced;
use holdpoint_core::{Command, NodeStatus, Outcome, Refusal, Run, RunError, RunRef, Timestamp, Work};

use super::Lease;
use crate::advance::Draft;
use crate::committer::{Claim, Guard, Mail, result};
use crate::context::{Context, EffectContext, Stop};
use crate::engine::{Before, Engine};
use crate::error::Error;
use crate::nodes::NodeType;

#[derive(Clone, Debug)]
pub(crate) struct Holder {
    engine: Engine,
    claim: Arc<Claim>,
    lease: Arc<Lease>,
    ahead: Arc<Mutex<Ahead>>,
    /// Of a holder that has no claim, and therefore does nothing outside.
    unclaimed: Option<Arc<Unclaimed>>,
}

/// What this holder knows better than the store, or as well.
#[derive(Debug, Default)]
struct Ahead {
    /// What is decided and not yet written: it goes with the first thing that the node writes, or with its end.
    unwritten: Option<Unwritten>,
    /// The run as we have written it. If somebody else has changed it since, that is found out at the next write.
    written: Option<Arc<Run>>,
}

#[derive(Debug)]
struct Unwritten {
    before: Before,
    draft: Draft,
    what: Fenced,
}

#[derive(Debug)]
struct Unclaimed {
    at: Timestamp,
    /// Only what the node did before is wanted.
    replays: bool,
    /// The node wanted to do something that is not on record.
    stopped: AtomicBool,
}

impl Holder {
    pub(super) fn new(engine: Engine, claim: Arc<Claim>, lease: Arc<Lease>) -> Self {
        Self { engine, claim, lease, ahead: Arc::default(), unclaimed: None }
    }

    /// Holds nothing and does nothing outside. The time is `at`.
    pub(crate) fn replaying(engine: Engine, at: Timestamp) -> Self {
        Self::unclaimed(engine, Claim::none(), at, true)
    }

    /// For a run that nobody holds yet, and what can be done for it in the change that wakes it.
    pub(crate) fn inside(engine: Engine, of: RunRef, at: Timestamp) -> Self {
        Self::unclaimed(engine, Claim { run: of, ..Claim::none() }, at, false)
    }

    fn unclaimed(engine: Engine, claim: Claim, at: Timestamp, replays: bool) -> Self {
        let unclaimed = Some(Arc::new(Unclaimed { at, replays, stopped: AtomicBool::new(false) }));
        let lease = Arc::new(Lease::new(Timestamp(i64::MIN)));
        Self { engine, claim: Arc::new(claim), lease, ahead: Arc::default(), unclaimed }
    }

    /// Enters a node with the steps that are on record; nothing when that is not enough. With what an agent does
    /// without anything outside.
    pub(crate) async fn enter(&self, run: Arc<Run>, position: usize) -> Option<(Vec<Act>, Outcome)> {
        let Done { acts, outcome } = self.execute(run, Work::Enter(position), self.now()).await.ok()?;
        let stopped = self.unclaimed.as_ref().is_some_and(|none| none.stopped.load(Ordering::SeqCst));
        (!stopped).then_some((acts, outcome))
    }

    /// Whether only what was done before is wanted.
    pub(crate) fn replays(&self) -> bool {
        self.unclaimed.as_ref().is_some_and(|unclaimed| unclaimed.replays)
    }

    /// Nothing outside is done, and nothing written, by who has no claim.
    fn check_claimed(&self) -> Result<(), Stop> {
        let Some(unclaimed) = &self.unclaimed else { return Ok(()) };
        unclaimed.stopped.store(true, Ordering::SeqCst);
        Err(Stop::Lost)
    }

    /// Runs the run's nodes until it waits, ends, or is taken away. The run as it was handed over need not be read.
    pub(super) async fn perform(self, handed: Option<Arc<Run>>) -> Result<(), Error> {
        let mut finished: Option<(usize, Done)> = None;
        // What was handed over was begun in the change that made it.
        let (mut started, mut first) = (handed.is_some(), true);
        self.ahead().written = handed;
        loop {
            let unwritten = self.ahead().unwritten.take();
            let (before, mut draft) = match unwritten {
                Some(Unwritten { before, draft, .. }) => (before, draft),
                None => self.fresh(std::mem::take(&mut first)).await?,
            };
            if let Some((position, done)) = finished.clone() {
                // Refused, it came too late: the run ended, or the node must be entered again.
                let _ = draft.act(position, done.acts).and_then(|()| draft.finish(position, done.outcome));
            }
            self.engine.carry_on(&mut draft).await?;
            // What is done must not wait for what another node does next.
            let settled = draft.events.is_empty();
            let work = draft.begin_next()?;
            let what = match work {
                Some(_) if started => Fenced::Touch,
                Some(_) => Fenced::RecordStart { instance_id: self.claim.instance.clone() },
                None => Fenced::Complete(result(&draft.run, Some(&self.claim.instance))),
            };
            let (run, now) = (draft.run.clone(), draft.now);
            if let Some(work) = work.filter(|work| settled && self.writes_first(&run, *work)) {
                self.ahead().unwritten = Some(Unwritten { before, draft, what });
                finished = Some((work.position(), self.execute(run, work, now).await?));
                started |= self.ahead().unwritten.is_none();
                continue;
            }
            match self.settle(before, draft, what).await? {
                Some(Guard::Claim) => return Ok(()),
                Some(Guard::Sequence | Guard::Revision | Guard::Receipt | Guard::Arrival) => continue,
                None => started = true,
            }
            self.ahead().written = Some(run.clone());
            let Some(work) = work else { return Ok(()) };
            finished = Some((work.position(), self.execute(run, work, now).await?));
        }
    }

    /// The run as it is, and what must happen to it first.
    async fn fresh(&self, first: bool) -> Result<(Before, Draft), Error> {
        let run = self.known().await?;
        let before = Before::of(&run);
        let mut draft = Draft::new(run, self.engine.now());
        // The rest of this change is then refused, or finds nothing left to do.
        if self.engine.outlives_parent(&self.claim.run, &draft.run, first).await? {
            draft.decide(&Command::CancelWithParent)?;
        }
        Ok((before, draft))
    }

    fn writes_first(&self, run: &Run, work: Work) -> bool {
        let node = &run.workflow.nodes[work.position()];
        match self.engine.nodes().get(&node.type_id) {
            Some(NodeType::Effect(effect)) => effect.writes_first(),
            Some(NodeType::Pure(_)) | None => false,
        }
    }

    fn ahead(&self) -> MutexGuard<'_, Ahead> {
        self.ahead.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The run as we have written it; once, and then from the store: a claim can be seen before the cache has heard of the
    /// commit that caused it.
    async fn known(&self) -> Result<Arc<Run>, Error> {
        let written = self.ahead().written.take();
        match written {
            Some(run) => Ok(run),
            None => self.engine.load(&self.claim.run).await,
        }
    }

    async fn settle(&self, before: Before, draft: Draft, what: Fenced) -> Result<Option<Guard>, Error> {
        let mail = Mail::Held { claim: self.claim.clone(), what };
        self.engine.settle(&self.claim.run, before, draft, mail, None).await
    }

    /// Enters one node with effects.
    async fn execute(&self, run: Arc<Run>, work: Work, now: Timestamp) -> Result<Done, Error> {
        let node = &run.workflow.nodes[work.position()];
        let Some(NodeType::Effect(effect)) = self.engine.nodes().get(&node.type_id).cloned() else {
            let message = format!("this engine has no node type {:?}", node.type_id);
            return Ok(Outcome::Failed(RunError::new("unknown_node_type", message)).into());
        };
        // Covers nodes whose start was copied from another run.
        if !self.replays()
            && let Err(grant) = self.engine.check_grants(&self.claim.run, &run, node).await?
        {
            return Ok(Outcome::Failed(grant.error()).into());
        }
        let mut context = match Context::new(run.clone(), work.position(), now) {
            Ok(context) => EffectContext::new(context, self.clone()),
            Err(stop) => return Ok(stop.outcome(&node.id)?.into()),
        };
        let ended = effect.run(&mut context).await;
        let acts = context.take_acts();
        let outcome = match ended {
            Ok(outputs) => context.complete(outputs),
            // What is on record was permitted when it happened.
            Err(stop) if self.replays() => stop.outcome(&node.id)?,
            Err(stop) => self.engine.nodes().permitted(stop.outcome(&node.id)?),
        };
        Ok(Done { acts, outcome })
    }

    /// Right before an effect: whether it is still ours to do. Asks the store only when the lease may be over, as
    /// after a long stop of the whole process.
    pub(crate) async fn check(&self) -> Result<(), Stop> {
        self.check_claimed()?;
        let now = self.engine.now();
        if self.lease.holds(now) {
            return Ok(());
        }
        let until = now.plus_ms(self.engine.lease_ms());
        let claim = (self.claim.dispatch_id.clone(), self.claim.token.clone());
        match self.engine.extend_leases(None, vec![claim], until, now).await {
            Ok(kept) if kept == [true] => {
                self.lease.renew(until);
                Ok(())
            }
            Ok(_) => Err(Stop::Lost),
            Err(error) => Err(Stop::Broken(error.to_string())),
        }
    }

    /// Commits a recorded step before the node goes on, and returns the run as it is then. The effect is done and
    /// must not be done again because the store is busy: that is waited for.
    pub(crate) async fn record(&self, command: Command) -> Result<Arc<Run>, Stop> {
        self.check_claimed()?;
        let _recording = self.lease.record();
        self.record_whole(command).await
    }

    async fn record_whole(&self, command: Command) -> Result<Arc<Run>, Stop> {
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

    pub(crate) fn of(&self) -> RunRef {
        self.claim.run.clone()
    }

    pub(crate) fn engine(&self) -> &Engine {
        &self.engine
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.unclaimed.as_ref().map_or_else(|| self.engine.now(), |unclaimed| unclaimed.at)
    }

    /// Nothing when somebody else changed the run first.
    async fn try_record(&self, command: &Command) -> Result<Option<Arc<Run>>, Unrecorded> {
        let unwritten = self.ahead().unwritten.take();
        if let Some(Unwritten { before, mut draft, what }) = unwritten {
            decided(&mut draft, command)?;
            return self.write(before, draft, what).await;
        }
        let run = self.known().await?;
        if let Command::Record { node, name, result, .. } = command
            && let Some(recorded) = run.node_state(node).and_then(|state| state.steps.get(name))
        {
            // An earlier try has landed, though nobody could say so; or somebody else has done the step.
            return if recorded == result { Ok(Some(run)) } else { Err(Unrecorded::Stop(Stop::Lost)) };
        }
        let before = Before::of(&run);
        let mut draft = Draft::new(run, self.engine.now());
        decided(&mut draft, command)?;
        self.write(before, draft, Fenced::Touch).await
    }

    /// Commits that the node was entered, where that is not on disk yet.
    pub(crate) async fn write_entry(&self, position: usize) -> Result<(), Stop> {
        let unwritten = self.ahead().unwritten.take();
        let Some(Unwritten { before, draft, what }) = unwritten else { return Ok(()) };
        match self.write(before, draft, what).await {
            Ok(Some(_)) => Ok(()),
            // Somebody was faster. An entry that is on disk stands; another is made again, on what is true now.
            Ok(None) => match self.known().await {
                Ok(run) if run.nodes.get(position).is_some_and(|node| node.status == NodeStatus::Running) => {
                    Ok(())
                }
                Ok(_) => Err(Stop::Lost),
                Err(error) => Err(Stop::Broken(error.to_string())),
            },
            Err(Unrecorded::Stop(stop)) => Err(stop),
            Err(Unrecorded::Trouble(error)) => Err(Stop::Broken(error.to_string())),
        }
    }

    async fn write(
        &self,
        before: Before,
        mut draft: Draft,
        what: Fenced,
    ) -> Result<Option<Arc<Run>>, Unrecorded> {
        self.engine.hear_stillborn(&mut draft, &mut 0).await?;
        let after = draft.run.clone();
        match self.settle(before, draft, what).await? {
            None => {
                self.ahead().written = Some(after.clone());
                Ok(Some(after))
            }
            Some(Guard::Claim) => Err(Unrecorded::Stop(Stop::Lost)),
            Some(Guard::Sequence | Guard::Revision | Guard::Receipt | Guard::Arrival) => Ok(None),
        }
    }
}

fn decided(draft: &mut Draft, command: &Command) -> Result<(), Unrecorded> {
    draft.decide(command).map_err(|refusal| {
        Unrecorded::Stop(match refusal {
            Refusal::RunFinished(_) | Refusal::NodeNotRunning => Stop::Lost,
            // It was written down by a try that seemed to fail: what is stored says how to go on.
            Refusal::BadCall(_) => Stop::Broken(refusal.to_string()),
            refusal => Stop::failed(refusal.code().as_str(), refusal.to_string()),
        })
    })
}

/// What an execution of a node came to, and what an agent did last in it.
#[derive(Clone)]
struct Done {
    acts: Vec<Act>,
    outcome: Outcome,
}

impl From<Outcome> for Done {
    fn from(outcome: Outcome) -> Self {
        Self { acts: Vec::new(), outcome }
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
