//! What can be done to an engine, and how it is chosen. Steps name random ids by their number, so that one step
//! means the same on both sides.

use holdpoint_engine::core::mailbox::{
    Fenced, RunDispatchResult, RunDispatchStatus, RunStatus, TerminationReason,
};
use holdpoint_engine::core::{InterruptId, Kind, Timestamp};
use serde_json::{Value, json};

use crate::dice::{Dice, FOREIGN, RUN_IDS};
use crate::flows::SHAPES;
use crate::side::Side;

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
        lapse: bool,
    },
    Enqueue {
        tenant: usize,
        rows: Vec<New>,
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
    Held {
        tenant: usize,
        claim: usize,
        wrong: bool,
        what: Fenced,
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
        bite: usize,
    },
    Purge {
        before: i64,
        bite: usize,
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
        words: String,
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
pub(crate) struct New {
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
    /// Chosen by the dice, with a look at one side for what there is to answer.
    pub(crate) async fn choose(dice: &mut Dice, side: &Side) -> Self {
        let (tenant, now) = (usize::from(dice.percent(25)), side.clock.now().0);
        match dice.roll(100) {
            0..5 => Self::Register { tenant, shape: dice.roll(SHAPES), title: dice.words() },
            5..17 => Self::Start { tenant, run: dice.run_id(), shape: dice.roll(SHAPES) },
            17..35 => Self::resolve(dice, side, tenant).await,
            35..38 => Self::Cancel { tenant, run: dice.run_id(), reason: dice.words() },
            38..46 => Self::Advance { ms: dice.ms(12_000) },
            46..56 => Self::Drain,
            56..58 => Self::Restart { lapse: dice.percent(60) },
            _ => Self::mail(dice, side, tenant, now),
        }
    }

    async fn resolve(dice: &mut Dice, side: &Side, tenant: usize) -> Self {
        // Somebody that waits, if there is one: an answer that nobody asked for is quickly refused.
        let waiting = side.waiting(tenant).await;
        let invalid = json!({"action": "explode", "text": dice.words()});
        let stray =
            [json!(null), json!("accept"), json!({"answers": {"r": 1}}), json!({"order": 2}), invalid];
        let (run, id, kind) = match waiting.len() {
            0 => (dice.run_id(), InterruptId(1), Kind::Custom),
            _ => dice.pick(&waiting).clone(),
        };
        let words = dice.words();
        let fitting = match kind {
            Kind::Approval if dice.percent(80) => json!({"action": "accept"}),
            Kind::Approval => json!({"action": "reject"}),
            Kind::Clarification => json!({"answers": {"q": words}}),
            Kind::ExternalEvent => json!({"eventPayload": {"order": 1, "text": words}}),
            Kind::Custom
            | Kind::ConversationStart
            | Kind::ConversationExchange
            | Kind::ConversationClose
            | Kind::LowConfidence => json!({"note": words, "large": (1_i64 << 53) + 1}),
        };
        let value = if dice.percent(75) { fitting } else { dice.pick(&stray).clone() };
        let interrupts = match dice.roll(12) {
            0 => vec![InterruptId(id.0 + 1)],
            1 => vec![id, InterruptId(1)],
            2 => vec![InterruptId(1)],
            _ => vec![id],
        };
        Self::Resolve { tenant, run, interrupts, value }
    }

    fn mail(dice: &mut Dice, side: &Side, tenant: usize, now: i64) -> Self {
        let (dispatch, claim) = (dice.roll(side.known.len() + 1), dice.roll(side.claims.len() + 1));
        let lease_ms = *dice.pick(&[0, 1, 1000, 20_000, 20_000, 1 << 53, u64::MAX]);
        let instant = dice.instant(now);
        let (bite, limit) = (dice.roll(4) + 1, dice.roll(4));
        match dice.roll(44) {
            0..8 => {
                let count = if dice.percent(70) { 1 } else { 3 };
                Self::Enqueue { tenant, rows: (0..count).map(|_| New::choose(dice, now)).collect() }
            }
            8..11 => Self::Claim { tenant, thread: thread(dice), lease_ms, now: instant, limit },
            11..13 => Self::ClaimReady { lease_ms, now: instant, all: dice.percent(30) },
            13..16 => Self::ClaimDispatch { tenant, dispatch, lease_ms, now: instant },
            16..25 => {
                // The last claims are the ones that are most likely still held.
                let claim = side.claims.len().saturating_sub(1 + claim.min(dice.roll(4)));
                let tenant = side.claims.get(claim).map_or(tenant, |held| held.tenant);
                let what = act(dice, side.claims.get(claim).map_or("nobody", |held| &held.run), now);
                Self::Held { tenant, claim, wrong: dice.percent(10), what, now: instant }
            }
            25..27 => {
                let claims =
                    (0..limit).map(|_| (dice.roll(side.claims.len() + 1), dice.percent(20))).collect();
                Self::Extend { tenant, claims, extension_ms: lease_ms, now: instant }
            }
            27..29 => Self::CancelQueued { tenant, dispatch, now: instant },
            29..31 => Self::Interrupt { tenant, thread: thread(dice), now: instant },
            31 => Self::Reclaim { now: instant, bite },
            32 => Self::Purge { before: instant, bite },
            33..35 => Self::Requeue { tenant, dispatch },
            35 => Self::CancelDispatch { tenant, dispatch },
            36 => Self::AddKey { tenant, number: dice.roll(6), words: dice.words() },
            37 => Self::RevokeKey { tenant, number: dice.roll(6) },
            38 => Self::runs(dice, tenant),
            39 => Self::Pending { tenant, limit: bite as u64 },
            40..42 => Self::dispatches(dice, tenant),
            _ => Self::NextWakeup { now: instant },
        }
    }

    fn runs(dice: &mut Dice, tenant: usize) -> Self {
        let statuses = ["completed", "running", "waiting-approval", "failed", "Completed", "'"];
        let status = dice.percent(40).then(|| (*dice.pick(&statuses)).to_owned());
        let before = match dice.roll(4) {
            0 => Some(dice.words()),
            1 => Some(dice.run_id()),
            _ => None,
        };
        Self::Runs { tenant, before, status, limit: dice.roll(6) as u64 }
    }

    fn dispatches(dice: &mut Dice, tenant: usize) -> Self {
        let some =
            |dice: &mut Dice| RunDispatchStatus::ALL.into_iter().filter(|_| dice.percent(40)).collect();
        let filter = dice.percent(60).then(|| some(dice));
        Self::Dispatches { tenant, thread: thread(dice), filter, limit: dice.roll(6), offset: dice.roll(3) }
    }
}

impl New {
    fn choose(dice: &mut Dice, now: i64) -> Self {
        let thread = thread(dice);
        // A run stands in its own thread and in no other, or two holders could work on it side by side.
        let run = match FOREIGN.contains(&thread.as_str()) {
            true => (*dice.pick(&["nobody", "no\nrun", " ", ""])).to_owned(),
            false => thread.clone(),
        };
        let ids = ["x", "X", "é", "e\u{301}", "it's", "", " ", "with \0"];
        let id =
            if dice.percent(10) { (*dice.pick(&ids)).to_owned() } else { format!("d{}", dice.roll(1000)) };
        Self {
            id,
            thread,
            run,
            priority: *dice.pick(&[0, 1, 128, 128, 128, 255]),
            key: dice.percent(30).then(|| (*dice.pick(&["k", "K", "", "ü", "\0"])).to_owned()),
            available: dice.instant(now),
            attempts: u32::from(dice.percent(20)),
            max_attempts: *dice.pick(&[1, 1, 2, 5, 5, u32::MAX, 0]),
            last_error: dice.percent(10).then(|| dice.words()),
        }
    }
}

fn thread(dice: &mut Dice) -> String {
    match dice.roll(10) {
        0 => dice.words(),
        1..5 => (*dice.pick(&RUN_IDS)).to_owned(),
        _ => (*dice.pick(&FOREIGN)).to_owned(),
    }
}

/// What a holder does with its claim.
fn act(dice: &mut Dice, run: &str, now: i64) -> Fenced {
    let words = dice.words();
    match dice.roll(10) {
        0..2 => Fenced::Ack,
        2 => Fenced::Nack { retry_at: Timestamp(dice.instant(now)), error: words },
        3 => Fenced::Postpone { retry_at: Timestamp(dice.instant(now)), error: words },
        4 => Fenced::DeadLetter { error: words },
        5 => Fenced::RecordStart { instance_id: words },
        6 => Fenced::RecordResult(result(dice, run)),
        7 => Fenced::Complete(result(dice, run)),
        8 => Fenced::Supersede { reason: words },
        _ => Fenced::ExtendLease { until: Timestamp(dice.instant(now)) },
    }
}

fn result(dice: &mut Dice, run: &str) -> RunDispatchResult {
    let reasons = [
        TerminationReason::NaturalEnd,
        TerminationReason::Suspended,
        TerminationReason::Blocked(dice.words()),
    ];
    RunDispatchResult {
        run_id: if dice.percent(90) { run.to_owned() } else { "another".to_owned() },
        dispatch_instance_id: dice.percent(50).then(|| dice.words()),
        status: *dice.pick(&[RunStatus::Created, RunStatus::Running, RunStatus::Waiting, RunStatus::Done]),
        termination: dice.percent(60).then(|| dice.pick(&reasons).clone()),
        response: dice.percent(50).then(|| dice.words()),
        error: dice.percent(50).then(|| dice.words()),
    }
}
