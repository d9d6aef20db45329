//! Fires timers and carries out dispatches: claim, run nodes with outside effects, settle. Holds nothing that a
//! restart, or another node, would miss.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use holdpoint_core::{Run, Timestamp};
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::task::{Id, JoinSet};
use tokio::time::Instant;
use uuid::Uuid;

use crate::engine::{Engine, Looks};
use crate::error::Error;
use crate::hands::{Hand, HandPool, Handed};
use crate::work_signal::{Shortage, WorkSignal};

mod asks;
mod giving_back;
mod holder;
mod leases;
mod timers;
mod upkeep;

use giving_back::{Setback, give_back};
pub(crate) use holder::Holder;
use leases::{Lease, Leases};

use crate::committer::{Claim, ClaimOrder};

/// Dispatches in flight at once: mostly they wait for somebody outside, such as a model.
const IN_FLIGHT_MAX: usize = 512;
/// Dispatches claimed at once: other nodes want some, too.
const CLAIM_MAX: usize = 64;
/// How long the worker waits before it asks again for what other nodes kept it from claiming; doubled each time.
const CONTENDED: Duration = Duration::from_millis(10);
/// How long the worker waits before it tries again what the store would not let it do.
const TROUBLE: Duration = Duration::from_secs(1);
const PURGE_EVERY: Duration = Duration::from_secs(60);

#[derive(Debug)]
pub struct Worker {
    engine: Engine,
    consumer: String,
    in_flight: JoinSet<Result<(), Error>>,
    claims: HashMap<Id, (Arc<Claim>, Option<Hand>)>,
    hands: HandPool,
    leases: Arc<Leases>,
    asks: asks::Asks,
    looks: Looks,
    signal: Arc<WorkSignal>,
    /// When the last look began: what became possible since then, it may not have seen.
    looked_at: Timestamp,
    /// Looks in a row that found something ready, had a hand free and could claim nothing.
    contended: u32,
    /// Claims that could not be given back, and why they should be. Tried again at every look.
    unreturned: Vec<(Arc<Claim>, Setback)>,
}

type Ended = Result<(Id, Result<(), Error>), tokio::task::JoinError>;

impl Worker {
    pub(crate) fn new(engine: Engine) -> Self {
        let consumer = format!("{}-{}", engine.name(), Uuid::now_v7());
        let leases = Arc::new(Leases::new(engine.clone()));
        let (in_flight, claims) = (JoinSet::new(), HashMap::new());
        let (asks, looks) = (asks::Asks::default(), Looks::default());
        let signal = engine.bus().work.clone();
        Self {
            looked_at: engine.now(),
            engine,
            consumer,
            in_flight,
            claims,
            hands: HandPool::new(IN_FLIGHT_MAX, signal.clone()),
            leases,
            asks,
            looks,
            signal,
            contended: 0,
            unreturned: Vec::new(),
        }
    }

    /// Does everything there is to do now and returns how many dispatches and timers that were. What cannot be done
    /// is an error, once everything else is done.
    pub async fn drain(&mut self) -> Result<usize, Error> {
        let (mut done, mut trouble) = (0, None);
        loop {
            let (begun, more) = self.look().await?;
            while let Some(ended) = self.in_flight.join_next_with_id().await {
                self.close(ended).await?;
            }
            while self.asks.ended().await {}
            done += begun;
            trouble = trouble.or(more);
            if begun == 0 {
                return trouble.map_or(Ok(done), Err);
            }
        }
    }

    /// Works until told to stop, then finishes what is in flight.
    pub async fn run(mut self, mut stop: watch::Receiver<bool>) {
        let beating = tokio::spawn(self.leases.clone().keep());
        let mut handed = self.engine.hands().open(&self.consumer, self.hands.clone());
        let mut purged = Instant::now();
        let mut expiring: Option<JoinHandle<()>> = None;
        while !*stop.borrow() {
            if purged.elapsed() >= PURGE_EVERY {
                purged = Instant::now();
                upkeep::purge(&self.engine).await;
                if expiring.as_ref().is_none_or(JoinHandle::is_finished) {
                    expiring = Some(tokio::spawn(upkeep::expire(self.engine.clone())));
                }
            }
            // While there is always something to begin, nobody waits for what is handed over or has ended.
            while let Ok(one) = handed.try_recv() {
                self.begin(one);
            }
            while let Some(ended) = self.in_flight.try_join_next_with_id() {
                self.close_or_log(ended).await;
            }
            let next = match self.look().await {
                Ok((0, None)) => self.next_look().await,
                Ok((_, None)) => continue,
                Ok((_, Some(error))) | Err(error) => {
                    tracing::error!(%error, "the worker could not do all its work; it tries again");
                    TROUBLE
                }
            };
            self.wait(next, &mut stop, &mut handed).await;
        }
        self.engine.hands().close();
        self.signal.end_looks();
        // Other nodes look for what this one was about to see.
        self.engine.bus().outbox.note_work();
        while let Some(handed) = handed.recv().await {
            self.begin(handed);
        }
        while let Some(ended) = self.in_flight.join_next_with_id().await {
            self.close_or_log(ended).await;
        }
        beating.abort();
    }

    /// Until there may be something to look for. What is handed over meanwhile needs no look.
    async fn wait(
        &mut self,
        most: Duration,
        stop: &mut watch::Receiver<bool>,
        handed: &mut UnboundedReceiver<Handed>,
    ) {
        let signal = self.signal.clone();
        let look = tokio::time::sleep(most);
        tokio::pin!(look);
        loop {
            tokio::select! {
                () = signal.wait() => return,
                () = &mut look => return,
                _ = stop.changed() => return,
                Some(handed) = handed.recv() => self.begin(handed),
                Some(ended) = self.in_flight.join_next_with_id() => {
                    // If a row waits for this hand, freeing it raises the signal.
                    self.close_or_log(ended).await;
                    if !self.unreturned.is_empty() {
                        return;
                    }
                }
                true = self.asks.ended() => return,
            }
        }
    }

    /// Deletes rows that nobody needs any more. `run` does so now and then.
    pub async fn tidy(&self) {
        upkeep::purge(&self.engine).await;
        upkeep::expire(self.engine.clone()).await;
    }

    /// Begins what is due. How much that was, and why something could not be begun.
    async fn look(&mut self) -> Result<(usize, Option<Error>), Error> {
        let mark = self.signal.begin_look();
        self.looked_at = self.engine.now();
        let mut trouble = None;
        for (claim, why) in std::mem::take(&mut self.unreturned) {
            trouble = self.give_back(claim, why).await.err().or(trouble);
        }
        let mut done = tally(timers::fire_all(&self.engine).await, &mut trouble);
        let mut doable = self.engine.doable().await?;
        if doable.lapsed {
            trouble = trouble.or(upkeep::reclaim(&self.engine).await.unwrap_or_else(Some));
            doable = self.engine.doable().await?;
        }
        done += tally(self.asks.look(&self.engine).await.map(|begun| (begun, None)), &mut trouble);
        if doable.unreconciled {
            done += tally(upkeep::reconcile(&self.engine).await, &mut trouble);
        }
        if doable.unmet {
            done += tally(self.engine.arrange_meetings(&mut self.looks).await, &mut trouble);
        }
        let free = self.hands.free();
        let claimed = if free > 0 && doable.ready { self.claim(free.min(CLAIM_MAX)).await? } else { 0 };
        let contended = doable.ready && free > 0 && claimed == 0;
        self.contended = if contended { self.contended.saturating_add(1) } else { 0 };
        self.signal.end_look(mark, Shortage::of(&doable, free));
        done += claimed;
        Ok((done, trouble))
    }

    async fn claim(&mut self, limit: usize) -> Result<usize, Error> {
        let now = self.engine.now();
        let lease_until = now.plus_ms(self.engine.lease_ms());
        let order = ClaimOrder { consumer: self.consumer.clone(), lease_until, now, limit };
        let rows = self.engine.claim_ready(order).await?;
        let count = rows.len();
        for row in rows {
            let Some(claim) = Claim::of(&row).map(Arc::new) else {
                // Left alone it is taken back when its lease runs out; the others must not wait for that.
                if let Err(error) = upkeep::refuse(&self.engine, &row).await {
                    tracing::warn!(%error, dispatch = row.dispatch_id, "a dispatch of no run could not be closed");
                }
                continue;
            };
            let hand = self.hands.take();
            self.carry_out(claim, lease_until, None, hand);
        }
        Ok(count)
    }

    fn begin(&mut self, handed: Handed) {
        let Handed { claim, lease_until, run, hand } = handed;
        self.carry_out(claim, lease_until, Some(run), hand);
    }

    fn carry_out(
        &mut self,
        claim: Arc<Claim>,
        lease_until: Timestamp,
        run: Option<Arc<Run>>,
        hand: Option<Hand>,
    ) {
        let lease = Arc::new(Lease::new(lease_until));
        let holder = Holder::new(self.engine.clone(), claim.clone(), lease.clone());
        let handle = self.in_flight.spawn(holder.perform(run));
        self.leases.add(&claim, lease, handle.clone());
        self.claims.insert(handle.id(), (claim, hand));
    }

    async fn next_look(&self) -> Duration {
        let next = match self.next_wakeup().await {
            Ok(next) => next,
            Err(error) => {
                tracing::error!(%error, "the next deadline could not be read");
                None
            }
        };
        self.signal.sleep_until(next);
        let now = self.engine.now();
        let ms = next.map_or(u64::MAX, |at| u64::try_from(at.0 - now.0).unwrap_or(0));
        let again = match self.contended.checked_sub(1) {
            Some(times) => CONTENDED.saturating_mul(1 << times.min(16)),
            None => Duration::MAX,
        };
        Duration::from_millis(ms).min(again).min(self.engine.backstop())
    }

    /// Returns when time alone makes something possible that the last look has not seen.
    async fn next_wakeup(&self) -> Result<Option<Timestamp>, Error> {
        let since = self.looked_at;
        let ask = if self.asks.has_room() { self.engine.next_ask().await? } else { None };
        let (timer, dispatch) =
            (self.engine.next_timer(since).await?, self.engine.next_dispatch(since).await?);
        Ok([ask, timer, dispatch].into_iter().flatten().min())
    }

    async fn close_or_log(&mut self, ended: Ended) {
        if let Err(error) = self.close(ended).await {
            tracing::error!(%error, "a dispatch could not be given back; it is tried again");
        }
    }

    /// A dispatch whose holder failed or panicked is tried again, and given up after some attempts. One that was
    /// taken away is not ours to give back.
    async fn close(&mut self, ended: Ended) -> Result<(), Error> {
        let (id, why) = match ended {
            Ok((id, Ok(()))) => (id, None),
            Ok((id, Err(error))) => (id, Some(Setback::from(error))),
            Err(error) if error.is_cancelled() => (error.id(), None),
            Err(error) => (error.id(), Some(Setback::Failed(format!("the worker panicked: {error}")))),
        };
        let Some((claim, _)) = self.claims.remove(&id) else { return Ok(()) };
        self.leases.remove(&claim);
        match why {
            Some(why) => self.give_back(claim, why).await,
            None => Ok(()),
        }
    }

    async fn give_back(&mut self, claim: Arc<Claim>, why: Setback) -> Result<(), Error> {
        let given = give_back(&self.engine, claim.clone(), why.clone()).await;
        if given.is_err() {
            self.unreturned.push((claim, why));
        }
        given
    }
}

/// What was done of one kind of work. A row of it that nobody can read must not keep the worker from all the others.
fn tally(done: Result<(usize, Option<Error>), Error>, trouble: &mut Option<Error>) -> usize {
    let (done, error) = done.unwrap_or_else(|error| (0, Some(error)));
    *trouble = trouble.take().or(error);
    done
}
