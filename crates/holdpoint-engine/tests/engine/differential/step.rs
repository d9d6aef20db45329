//! The steps of the test and their random choice. A step refers to a random id by its number, so that it means the same
//! on both sides.

use holdpoint_engine::core::mailbox::{
    ClaimAction, RunDispatchResult, RunDispatchStatus, RunStatus, TerminationReason,
};
use holdpoint_engine::core::{InterruptId, Kind, Timestamp};
use serde_json::{Value, json};

use crate::differential::flows::SHAPES;
use crate::differential::random::{OTHER_THREADS, RUN_IDS, Random};
use crate::differential::side::Side;

#[derive(Clone, Debug)]
pub(crate) enum Step {
    Register {
        tenant: usize,
        shape: usize,
        title: String,
    },
    Start {
        tenant: usize,
        run: String,
        shape: usize,
    },
    Resolve {
        tenant: usize,
        run: String,
        interrupts: Vec<InterruptId>,
        value: Value,
    },
    Cancel {
        tenant: usize,
        run: String,
        reason: String,
    },
    Advance {
        ms: i64,
    },
    Drain,
    Restart {
        expire_leases: bool,
    },
    Enqueue {
        tenant: usize,
        rows: Vec<NewDispatch>,
    },
    Claim {
        tenant: usize,
        thread: String,
        lease_ms: u64,
        now: i64,
        limit: usize,
    },
    ClaimReady {
        lease_ms: u64,
        now: i64,
        all: bool,
    },
    ClaimDispatch {
        tenant: usize,
        dispatch: usize,
        lease_ms: u64,
        now: i64,
    },
    ActOnClaim {
        tenant: usize,
        claim: usize,
        wrong: bool,
        action: ClaimAction,
        now: i64,
    },
    Extend {
        tenant: usize,
        claims: Vec<(usize, bool)>,
        extension_ms: u64,
        now: i64,
    },
    CancelQueued {
        tenant: usize,
        dispatch: usize,
        now: i64,
    },
    Interrupt {
        tenant: usize,
        thread: String,
        now: i64,
    },
    Reclaim {
        now: i64,
        batch: usize,
    },
    Purge {
        before: i64,
        batch: usize,
    },
    Requeue {
        tenant: usize,
        dispatch: usize,
    },
    CancelDispatch {
        tenant: usize,
        dispatch: usize,
    },
    AddKey {
        tenant: usize,
        number: usize,
        text: String,
    },
    RevokeKey {
        tenant: usize,
        number: usize,
    },
    Runs {
        tenant: usize,
        before: Option<String>,
        status: Option<String>,
        limit: u64,
    },
    Pending {
        tenant: usize,
        limit: u64,
    },
    Dispatches {
        tenant: usize,
        thread: String,
        filter: Option<Vec<RunDispatchStatus>>,
        limit: usize,
        offset: usize,
    },
    NextWakeup {
        now: i64,
    },
}

/// A dispatch to be enqueued.
#[derive(Clone, Debug)]
pub(crate) struct NewDispatch {
    pub id: String,
    pub thread: String,
    pub run: String,
    pub priority: u8,
    pub key: Option<String>,
    pub available: i64,
    pub attempts: u32,
    pub max_attempts: u32,
    pub last_error: Option<String>,
}

impl Step {
    /// Chooses a step. Reads one side for open interrupts, dispatches and claims.
    pub(crate) async fn choose(random: &mut Random, side: &Side) -> Self {
        let (tenant, now) = (usize::from(random.percent(25)), side.clock.now().0);
        match random.below(100) {
            0..5 => Self::Register { tenant, shape: random.below(SHAPES), title: random.text() },
            5..17 => Self::Start { tenant, run: random.run_id(), shape: random.below(SHAPES) },
            17..35 => Self::resolve(random, side, tenant).await,
            35..38 => Self::Cancel { tenant, run: random.run_id(), reason: random.text() },
            38..46 => Self::Advance { ms: random.ms(12_000) },
            46..56 => Self::Drain,
            56..58 => Self::Restart { expire_leases: random.percent(60) },
            _ => Self::mail(random, side, tenant, now),
        }
    }

    async fn resolve(random: &mut Random, side: &Side, tenant: usize) -> Self {
        // An open interrupt, if there is one. Answers to other interrupts are rejected early.
        let waiting = side.waiting(tenant).await;
        let invalid = json!({"action": "explode", "text": random.text()});
        let invalid_values =
            [json!(null), json!("accept"), json!({"answers": {"r": 1}}), json!({"order": 2}), invalid];
        let (run, id, kind) = match waiting.len() {
            0 => (random.run_id(), InterruptId(1), Kind::Custom),
            _ => random.pick(&waiting).clone(),
        };
        let text = random.text();
        let valid = match kind {
            Kind::Approval if random.percent(80) => json!({"action": "accept"}),
            Kind::Approval => json!({"action": "reject"}),
            Kind::Clarification => json!({"answers": {"q": text}}),
            Kind::ExternalEvent => json!({"eventPayload": {"order": 1, "text": text}}),
            Kind::Custom
            | Kind::ConversationStart
            | Kind::ConversationExchange
            | Kind::ConversationClose
            | Kind::LowConfidence => json!({"note": text, "large": (1_i64 << 53) + 1}),
        };
        let value = if random.percent(75) { valid } else { random.pick(&invalid_values).clone() };
        let interrupts = match random.below(12) {
            0 => vec![InterruptId(id.0 + 1)],
            1 => vec![id, InterruptId(1)],
            2 => vec![InterruptId(1)],
            _ => vec![id],
        };
        Self::Resolve { tenant, run, interrupts, value }
    }

    fn mail(random: &mut Random, side: &Side, tenant: usize, now: i64) -> Self {
        let (dispatch, claim) = (random.below(side.known.len() + 1), random.below(side.claims.len() + 1));
        let lease_ms = *random.pick(&[0, 1, 1000, 20_000, 20_000, 1 << 53, u64::MAX]);
        let instant = random.instant(now);
        let (batch, limit) = (random.below(4) + 1, random.below(4));
        match random.below(44) {
            0..8 => {
                let count = if random.percent(70) { 1 } else { 3 };
                Self::Enqueue { tenant, rows: (0..count).map(|_| NewDispatch::choose(random, now)).collect() }
            }
            8..11 => Self::Claim { tenant, thread: thread(random), lease_ms, now: instant, limit },
            11..13 => Self::ClaimReady { lease_ms, now: instant, all: random.percent(30) },
            13..16 => Self::ClaimDispatch { tenant, dispatch, lease_ms, now: instant },
            16..25 => {
                // The most recent claims are the most likely to be valid.
                let claim = side.claims.len().saturating_sub(1 + claim.min(random.below(4)));
                let tenant = side.claims.get(claim).map_or(tenant, |held| held.tenant);
                let action =
                    choose_action(random, side.claims.get(claim).map_or("unknown", |held| &held.run), now);
                Self::ActOnClaim { tenant, claim, wrong: random.percent(10), action, now: instant }
            }
            25..27 => {
                let claims =
                    (0..limit).map(|_| (random.below(side.claims.len() + 1), random.percent(20))).collect();
                Self::Extend { tenant, claims, extension_ms: lease_ms, now: instant }
            }
            27..29 => Self::CancelQueued { tenant, dispatch, now: instant },
            29..31 => Self::Interrupt { tenant, thread: thread(random), now: instant },
            31 => Self::Reclaim { now: instant, batch },
            32 => Self::Purge { before: instant, batch },
            33..35 => Self::Requeue { tenant, dispatch },
            35 => Self::CancelDispatch { tenant, dispatch },
            36 => Self::AddKey { tenant, number: random.below(6), text: random.text() },
            37 => Self::RevokeKey { tenant, number: random.below(6) },
            38 => Self::runs(random, tenant),
            39 => Self::Pending { tenant, limit: batch as u64 },
            40..42 => Self::dispatches(random, tenant),
            _ => Self::NextWakeup { now: instant },
        }
    }

    fn runs(random: &mut Random, tenant: usize) -> Self {
        let statuses = ["completed", "running", "waiting-approval", "failed", "Completed", "'"];
        let status = random.percent(40).then(|| (*random.pick(&statuses)).to_owned());
        let before = match random.below(4) {
            0 => Some(random.text()),
            1 => Some(random.run_id()),
            _ => None,
        };
        Self::Runs { tenant, before, status, limit: random.below(6) as u64 }
    }

    fn dispatches(random: &mut Random, tenant: usize) -> Self {
        let some =
            |random: &mut Random| RunDispatchStatus::ALL.into_iter().filter(|_| random.percent(40)).collect();
        let filter = random.percent(60).then(|| some(random));
        Self::Dispatches {
            tenant,
            thread: thread(random),
            filter,
            limit: random.below(6),
            offset: random.below(3),
        }
    }
}

impl NewDispatch {
    fn choose(random: &mut Random, now: i64) -> Self {
        let thread = thread(random);
        // A run has dispatches in its own thread only; otherwise two workers could execute it concurrently.
        let run = match OTHER_THREADS.contains(&thread.as_str()) {
            true => (*random.pick(&["unknown", "no\nrun", " ", ""])).to_owned(),
            false => thread.clone(),
        };
        let ids = ["x", "X", "é", "e\u{301}", "it's", "", " ", "with \0"];
        let id = if random.percent(10) {
            (*random.pick(&ids)).to_owned()
        } else {
            format!("d{}", random.below(1000))
        };
        Self {
            id,
            thread,
            run,
            priority: *random.pick(&[0, 1, 128, 128, 128, 255]),
            key: random.percent(30).then(|| (*random.pick(&["k", "K", "", "ü", "\0"])).to_owned()),
            available: random.instant(now),
            attempts: u32::from(random.percent(20)),
            max_attempts: *random.pick(&[1, 1, 2, 5, 5, u32::MAX, 0]),
            last_error: random.percent(10).then(|| random.text()),
        }
    }
}

fn thread(random: &mut Random) -> String {
    match random.below(10) {
        0 => random.text(),
        1..5 => (*random.pick(&RUN_IDS)).to_owned(),
        _ => (*random.pick(&OTHER_THREADS)).to_owned(),
    }
}

/// Chooses an action of the holder of a claim.
fn choose_action(random: &mut Random, run: &str, now: i64) -> ClaimAction {
    let text = random.text();
    match random.below(10) {
        0..2 => ClaimAction::Ack,
        2 => ClaimAction::Nack { retry_at: Timestamp(random.instant(now)), error: text },
        3 => ClaimAction::Postpone { retry_at: Timestamp(random.instant(now)), error: text },
        4 => ClaimAction::DeadLetter { error: text },
        5 => ClaimAction::RecordStart { instance_id: text },
        6 => ClaimAction::RecordResult(result(random, run)),
        7 => ClaimAction::Complete(result(random, run)),
        8 => ClaimAction::Supersede { reason: text },
        _ => ClaimAction::ExtendLease { until: Timestamp(random.instant(now)) },
    }
}

fn result(random: &mut Random, run: &str) -> RunDispatchResult {
    let reasons = [
        TerminationReason::NaturalEnd,
        TerminationReason::Suspended,
        TerminationReason::Blocked(random.text()),
    ];
    RunDispatchResult {
        run_id: if random.percent(90) { run.to_owned() } else { "another".to_owned() },
        dispatch_instance_id: random.percent(50).then(|| random.text()),
        status: *random.pick(&[RunStatus::Created, RunStatus::Running, RunStatus::Waiting, RunStatus::Done]),
        termination: random.percent(60).then(|| random.pick(&reasons).clone()),
        response: random.percent(50).then(|| random.text()),
        error: random.percent(50).then(|| random.text()),
    }
}
