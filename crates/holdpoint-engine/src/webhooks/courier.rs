//! The loop that carries deliveries out: takes what waits in the lanes, claims what is due in the store, and keeps both
//! within bounds. Several nodes share what is in the store. Holds nothing durable that a restart would miss.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use holdpoint_core::Timestamp;
use tokio::sync::{Semaphore, watch};
use tokio::task::{JoinError, JoinSet};
use tokio::time::Instant;
use uuid::Uuid;

use super::attempt::Carrier;
use super::{Lane, Render};
use crate::committer::{Reply, Work};
use crate::engine::Engine;
use crate::error::Error;
use crate::store::deliveries::{self, Delivery, attempts};
use crate::store::{Statement, params};

/// Durable deliveries of one subscription that are claimed before their turn, so that claims are shared; in all.
const AHEAD: usize = 16;
const CLAIMED_MAX: usize = 256;
const TROUBLE: Duration = Duration::from_secs(1);
/// How often it is written down what was not tried.
const TELL_MISSED_EVERY: Duration = Duration::from_secs(1);

pub struct Courier {
    carrier: Arc<Carrier>,
    engine: Engine,
    name: String,
    /// Each tells whether it was durable.
    in_flight: JoinSet<bool>,
    overall: Arc<Semaphore>,
    /// When the store was last looked at: what became due since then, that look may not have seen.
    looked_at: Timestamp,
    /// Of whoever may tell it to stop.
    stop: Option<watch::Receiver<bool>>,
}

impl fmt::Debug for Courier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Courier").field("name", &self.name).finish_non_exhaustive()
    }
}

impl Courier {
    pub(crate) fn new(engine: Engine, render: Arc<dyn Render>) -> Self {
        engine.hooks().couriers.fetch_add(1, Ordering::SeqCst);
        let overall = engine.hooks().settings.overall.clamp(1, Semaphore::MAX_PERMITS);
        Self {
            carrier: Arc::new(Carrier { engine: engine.clone(), render }),
            name: format!("{}-{}", engine.name(), Uuid::now_v7().simple()),
            looked_at: engine.now(),
            engine,
            in_flight: JoinSet::new(),
            overall: Arc::new(Semaphore::new(overall)),
            stop: None,
        }
    }

    /// Carries out everything that is due now, and returns how much that was.
    pub async fn drain(&mut self) -> Result<usize, Error> {
        let mut done = 0;
        loop {
            let begun = self.look(true).await?;
            self.join_all().await;
            self.tell_missed().await?;
            done += begun;
            if begun == 0 {
                return Ok(done);
            }
        }
    }

    /// Works until told to stop. What is under way then ends; what is claimed and has not begun is given back.
    pub async fn run(mut self, mut stop: watch::Receiver<bool>) {
        self.stop = Some(stop.clone());
        let engine = self.engine.clone();
        let hooks = engine.hooks();
        let (mut told, mut looked) = (Instant::now(), None::<Instant>);
        let mut pause = engine.backstop();
        while !*stop.borrow() {
            let asked = hooks.durable.swap(false, Ordering::SeqCst);
            let durable = asked || looked.is_none_or(|at| at.elapsed() >= pause);
            if durable {
                looked = Some(Instant::now());
            }
            let begun = self.look(durable).await;
            if told.elapsed() >= TELL_MISSED_EVERY {
                told = Instant::now();
                self.tell_missed().await.unwrap_or_else(|error| {
                    tracing::warn!(%error, "what was not delivered could not be written down");
                });
            }
            pause = match begun {
                Ok(0) => self.next_look().await,
                Ok(_) => continue,
                Err(error) => {
                    tracing::error!(%error, "the courier could not do all its work; it tries again");
                    TROUBLE
                }
            };
            hooks.asleep.store(true, Ordering::SeqCst);
            tokio::select! {
                () = hooks.news.notified() => {}
                () = tokio::time::sleep(pause) => {}
                _ = stop.changed() => {}
                Some(ended) = self.in_flight.join_next() => self.note(ended),
            }
            hooks.asleep.store(false, Ordering::SeqCst);
        }
        self.join_all().await;
        self.engine.bus().outbox.note_deliveries();
        if let Err(error) = self.tell_missed().await {
            tracing::warn!(%error, "what was not delivered could not be written down");
        }
    }

    async fn join_all(&mut self) {
        while let Some(ended) = self.in_flight.join_next().await {
            self.note(ended);
        }
    }

    /// Behind a durable delivery that has ended there may be another.
    fn note(&self, ended: Result<bool, JoinError>) {
        if let Err(error) = &ended
            && error.is_panic()
        {
            tracing::error!(%error, "an attempt to deliver panicked; what is durable is tried again");
        }
        if ended.unwrap_or(true) {
            self.engine.hooks().durable.store(true, Ordering::SeqCst);
        }
    }

    /// Begins what can be begun, and says how much that was.
    async fn look(&mut self, durable: bool) -> Result<usize, Error> {
        while let Some(ended) = self.in_flight.try_join_next() {
            self.note(ended);
        }
        let mut begun = self.begin_waiting();
        if durable {
            begun += self.claim().await?;
        }
        Ok(begun)
    }

    /// One of each lane in turn, for as long as there is room.
    fn begin_waiting(&mut self) -> usize {
        let (lanes, mut begun) = (self.engine.hooks().lanes(), 0);
        loop {
            let before = begun;
            for lane in &lanes {
                if !lane.has_waiting() {
                    continue;
                }
                let Ok(turn) = lane.turns.clone().try_acquire_owned() else { continue };
                let Ok(place) = self.overall.clone().try_acquire_owned() else { return begun };
                let Some(notice) = lane.pop() else { continue };
                let (carrier, own) = (self.carrier.clone(), lane.clone());
                let task = self.in_flight.spawn(async move {
                    let _holds = (turn, place);
                    if let Err(error) = carrier.try_once(&own, notice).await {
                        tracing::warn!(%error, webhook = own.webhook, "an event could not be delivered");
                    }
                    false
                });
                lane.add_running(task);
                begun += 1;
            }
            if begun == before {
                return begun;
            }
        }
    }

    async fn claim(&mut self) -> Result<usize, Error> {
        let (db, now) = (self.engine.db(), self.engine.now());
        self.looked_at = now;
        if deliveries::any_lapsed(db, now).await? {
            tracing::warn!("deliveries of a node that went silent are taken over");
            self.engine.write(vec![Statement::new(deliveries::TAKE_BACK, params![now])]).await?;
        }
        let mut room = CLAIMED_MAX.saturating_sub(self.in_flight.len());
        let mut wanted = Vec::new();
        for (webhook, due) in deliveries::ready(db).await? {
            let limit = self.engine.hooks().durable_room(&webhook, AHEAD, now).min(room);
            if due <= now && limit > 0 {
                let found = deliveries::candidates(db, &webhook, now, limit as u64).await?;
                room -= found.len();
                wanted.extend(found);
            }
        }
        if wanted.is_empty() {
            return Ok(0);
        }
        // In one order, as every node claims them.
        wanted.sort();
        let lease = now.plus_ms(self.engine.hooks().settings.lease_ms());
        // Of this claim alone: what another claim of ours has lost, it must not settle.
        let holder = format!("{}/{}", self.name, Uuid::now_v7().simple());
        let set = |id: &String| params![holder.as_str(), lease, id.as_str()];
        let claim = Work::Each(deliveries::CLAIM, wanted.iter().map(set).collect());
        let Reply::Table(rows) = self.engine.submit_work(claim).await? else { return Ok(0) };
        let mut claimed = rows.iter().map(deliveries::read).collect::<Result<Vec<_>, _>>()?;
        claimed.sort_by_key(|delivery| delivery.seq);
        let count = claimed.len();
        claimed.into_iter().for_each(|delivery| self.begin(delivery));
        Ok(count)
    }

    fn begin(&mut self, delivery: Delivery) {
        let lane = self.engine.hooks().lane(&delivery.of.tenant, &delivery.webhook);
        let held = Held::new(lane.clone());
        let (carrier, overall, stop) = (self.carrier.clone(), self.overall.clone(), self.stop.clone());
        let task = self.in_flight.spawn(async move {
            let lane = held.0.clone();
            // Neither is ever closed.
            let (Ok(_turn), Ok(_place)) = (lane.turns.acquire().await, overall.acquire().await) else { return true };
            let id = delivery.id.clone();
            let stopped = stop.is_some_and(|stop| *stop.borrow());
            // What has waited here for so long that an attempt would outlast its lease might be sent by two.
            let engine = &carrier.engine;
            let done_by = engine.now().plus_ms(engine.hooks().settings.attempt_timeout_ms());
            let carried = if stopped || delivery.lease.is_none_or(|lease| lease < done_by) {
                carrier.engine.write_rows(vec![delivery.give_back()]).await.map(|()| None)
            } else {
                carrier.carry(delivery).await
            };
            match carried {
                Ok(Some(taken)) => lane.note_durable(taken, carrier.engine.now()),
                Ok(None) => {}
                Err(error) => {
                    tracing::warn!(%error, delivery = id, "a delivery could not be carried out; it is taken over later");
                }
            }
            true
        });
        lane.add_running(task);
    }

    async fn next_look(&self) -> Duration {
        let (now, since) = (self.engine.now(), self.looked_at);
        let next = deliveries::next(self.engine.db(), since).await.unwrap_or_else(|error| {
            tracing::error!(%error, "the next delivery could not be read");
            None
        });
        let until = |at: Timestamp| u64::try_from(at.0.saturating_sub(now.0)).unwrap_or(0);
        let lanes = self.engine.hooks().lanes();
        let untold = lanes.iter().any(|lane| lane.has_missed());
        let backstop = self.engine.backstop();
        let backstop = if untold { backstop.min(TELL_MISSED_EVERY) } else { backstop };
        let rested = lanes.iter().filter_map(|lane| lane.rests_until(since)).min();
        let next = next.into_iter().chain(rested).min();
        next.map_or(backstop, |at| Duration::from_millis(until(at)).min(backstop))
    }

    /// Writes down how often nothing was tried.
    async fn tell_missed(&self) -> Result<(), Error> {
        let now = self.engine.now();
        let mut rows = Vec::new();
        for lane in self.engine.hooks().lanes() {
            let (crowded_out, skipped) = lane.take_missed();
            let told = [(crowded_out, "too many events were waiting"), (skipped, "the circuit was open")];
            for (times, why) in told.into_iter().filter(|(times, _)| *times > 0) {
                rows.push(attempts::missed(&lane.tenant, &lane.webhook, now, times, why));
            }
        }
        if rows.is_empty() { Ok(()) } else { self.engine.write_rows(rows).await }
    }
}

impl Drop for Courier {
    fn drop(&mut self) {
        self.engine.hooks().couriers.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Counts a claimed delivery of a lane for as long as it is there, also when its task is aborted.
struct Held(Arc<Lane>);

impl Held {
    fn new(lane: Arc<Lane>) -> Self {
        lane.claimed.fetch_add(1, Ordering::SeqCst);
        Self(lane)
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.0.claimed.fetch_sub(1, Ordering::SeqCst);
    }
}
