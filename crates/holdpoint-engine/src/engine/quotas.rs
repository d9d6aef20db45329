//! Quotas of tenants. Commits count the usage, and a node reads it at most once a second, so that a start needs no
//! query. Concurrent starts, on this node or others, can exceed a quota by their number.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use holdpoint_core::{Run, RunError, RunRef, TenantId, Timestamp};

use super::{Engine, Limits};
use crate::committer::CommitReply;
use crate::error::Error;
use crate::store::tokens::{self, TokenDay};
use crate::store::usage;

/// The time for which a usage reading admits runs, in milliseconds.
const FRESH_MS: i64 = 1000;
/// The same for the number of deliveries, which is counted row by row.
const FRESH_DELIVERIES_MS: i64 = 5000;
/// The maximum number of tenants whose usage is cached.
const SEEN_MAX: usize = 10_000;

/// The limits of each tenant. 0 means no limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quotas {
    /// Runs that have not ended.
    pub open_runs: u64,
    /// Bytes of the events of all runs.
    pub stored_bytes: u64,
    /// Stored revisions of workflows and agents.
    pub definitions: u64,
    /// Durable deliveries that have not ended. New runs are rejected while the limit is reached.
    pub deliveries: u64,
    /// Descendants of one run.
    pub family_runs: u64,
    /// Bytes of the events of a run that is forked.
    pub fork_bytes: u64,
    /// Tokens that models use on one UTC day. Runs of agents then fail before they call a model.
    pub tokens_per_day: u64,
}

impl Default for Quotas {
    fn default() -> Self {
        Self {
            open_runs: 2_000_000,
            stored_bytes: 100 << 30,
            definitions: 50_000,
            deliveries: 5_000_000,
            family_runs: 10_000,
            fork_bytes: 64 << 20,
            tokens_per_day: 0,
        }
    }
}

/// The usage of a tenant.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Runs that have not ended.
    pub open_runs: u64,
    /// Bytes of the events of all runs.
    pub stored_bytes: u64,
    /// Stored revisions of workflows and agents.
    pub definitions: u64,
    /// Durable deliveries that have not ended, counted up to the quota.
    pub deliveries: u64,
    /// Tokens that models have used on this UTC day.
    pub tokens_per_day: u64,
}

/// A quota that is used up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the tenant's quota {quota} is used up ({limit}); {remedy}")]
pub struct QuotaExceeded {
    /// The name as `GET /v1/usage` shows it.
    pub quota: &'static str,
    /// The limit.
    pub limit: u64,
    remedy: &'static str,
}

/// The texts of a quota in its error.
struct QuotaText {
    quota: &'static str,
    remedy: &'static str,
}

const OPEN_RUNS: QuotaText =
    QuotaText { quota: "openRuns", remedy: "wait until runs end or cancel some, or raise --quota-open-runs" };
const STORED_BYTES: QuotaText = QuotaText { quota: "storedBytes", remedy: "raise --quota-stored-bytes" };
const DEFINITIONS: QuotaText = QuotaText { quota: "definitions", remedy: "raise --quota-definitions" };
const DELIVERIES: QuotaText = QuotaText {
    quota: "deliveries",
    remedy: "repair or delete webhooks whose deliveries wait, or raise --quota-deliveries",
};
const FAMILY_RUNS: QuotaText =
    QuotaText { quota: "familyRuns", remedy: "start fewer runs from one run, or raise --quota-family-runs" };
const FORK_BYTES: QuotaText = QuotaText { quota: "forkBytes", remedy: "raise --quota-fork-bytes" };
const TOKENS_PER_DAY: QuotaText = QuotaText {
    quota: "tokensPerDay",
    remedy: "wait until the next day in UTC, or raise --quota-tokens-per-day",
};

/// Returns an error if `wanted` exceeds a quota.
fn check(text: &QuotaText, limit: u64, wanted: u64) -> Result<(), QuotaExceeded> {
    let QuotaText { quota, remedy } = *text;
    if limit == 0 || wanted <= limit { Ok(()) } else { Err(QuotaExceeded { quota, limit, remedy }) }
}

impl QuotaExceeded {
    /// Returns whether the same request can succeed later without a change of the request or the quota.
    pub fn is_temporary(&self) -> bool {
        [OPEN_RUNS.quota, DELIVERIES.quota].contains(&self.quota)
    }
}

/// The cached usage of tenants.
#[derive(Debug, Default)]
pub(super) struct Admissions(Mutex<HashMap<TenantId, UsageReading>>);

#[derive(Clone, Copy, Debug)]
struct UsageReading {
    at: Timestamp,
    open_runs: u64,
    stored_bytes: u64,
    deliveries: u64,
    deliveries_at: Timestamp,
    /// Runs that were admitted since the reading.
    admitted: u64,
}

impl UsageReading {
    fn check(&self, quotas: &Quotas) -> Result<(), QuotaExceeded> {
        check(&OPEN_RUNS, quotas.open_runs, self.open_runs + self.admitted + 1)?;
        check(&STORED_BYTES, quotas.stored_bytes, self.stored_bytes)?;
        check(&DELIVERIES, quotas.deliveries, self.deliveries.saturating_add(1))
    }
}

impl Admissions {
    fn lock(&self) -> MutexGuard<'_, HashMap<TenantId, UsageReading>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Admits a run by a recent reading. Returns false if the usage must be read again.
    fn admit(&self, tenant: &TenantId, quotas: &Quotas, now: Timestamp) -> bool {
        let mut all = self.lock();
        let reading = all.get_mut(tenant).filter(|reading| is_within(reading.at, now, FRESH_MS));
        let Some(reading) = reading else { return false };
        let permitted = reading.check(quotas).is_ok();
        reading.admitted += u64::from(permitted);
        permitted
    }

    fn deliveries(&self, tenant: &TenantId, now: Timestamp) -> Option<(u64, Timestamp)> {
        let all = self.lock();
        let is_fresh = |reading: &&UsageReading| is_within(reading.deliveries_at, now, FRESH_DELIVERIES_MS);
        all.get(tenant).filter(is_fresh).map(|reading| (reading.deliveries, reading.deliveries_at))
    }

    fn put(&self, tenant: &TenantId, reading: UsageReading) {
        let mut all = self.lock();
        if all.len() >= SEEN_MAX {
            all.clear();
        }
        all.insert(tenant.clone(), reading);
    }
}

/// Returns whether less than `ms` milliseconds have passed. A clock that was set back makes every reading old.
fn is_within(since: Timestamp, now: Timestamp, ms: i64) -> bool {
    (0..ms).contains(&now.0.saturating_sub(since.0))
}

impl<'e> Limits<'e> {
    /// Returns the limits.
    pub fn quotas(self) -> &'e Quotas {
        &self.engine.0.quotas
    }

    /// Returns the usage of a tenant.
    pub async fn usage(self, tenant: &TenantId) -> Result<Usage, Error> {
        let (open_runs, stored_bytes) = usage::of_tenant(self.engine.db(), tenant).await?;
        let definitions = usage::definitions(self.engine.db(), tenant).await?;
        let limit = Some(self.engine.0.quotas.deliveries).filter(|limit| *limit > 0);
        let most = limit.unwrap_or(i64::MAX.unsigned_abs());
        let deliveries = usage::deliveries(self.engine.db(), tenant, most).await?;
        let tokens_per_day = self.tokens_of_today(tenant).await?;
        Ok(Usage { open_runs, stored_bytes, definitions, deliveries, tokens_per_day })
    }

    /// Returns the tokens that models have used in a thread since the count began.
    pub async fn thread_tokens(self, tenant: &TenantId, thread: &str) -> Result<u64, Error> {
        Ok(tokens::of_thread(self.engine.db(), tenant, thread).await?)
    }

    /// Checks that a model may be called for a tenant. Concurrent calls can exceed the quota by their tokens.
    pub async fn check_tokens(self, tenant: &TenantId) -> Result<(), Error> {
        let limit = self.engine.0.quotas.tokens_per_day;
        if limit > 0 {
            check(&TOKENS_PER_DAY, limit, self.tokens_of_today(tenant).await?.saturating_add(1))?;
        }
        Ok(())
    }

    async fn tokens_of_today(self, tenant: &TenantId) -> Result<u64, Error> {
        Ok(tokens::of_day(self.engine.db(), &TokenDay::of(tenant, self.engine.now())).await?)
    }

    /// Checks that the quotas permit more data. Called before a run is cancelled in favour of a new one.
    pub async fn check_growth(self, tenant: &TenantId) -> Result<(), Error> {
        let (usage, quotas) = (self.usage(tenant).await?, &self.engine.0.quotas);
        check(&STORED_BYTES, quotas.stored_bytes, usage.stored_bytes)?;
        Ok(check(&DELIVERIES, quotas.deliveries, usage.deliveries.saturating_add(1))?)
    }
}

impl Engine {
    /// Deletes up to `limit` token counts of days that no quota needs.
    pub(crate) async fn purge_tokens(&self, limit: usize) -> Result<usize, Error> {
        match self.write(vec![tokens::purge(self.now(), limit as u64)]).await? {
            CommitReply::Touched(rows) => Ok(usize::try_from(rows).unwrap_or(usize::MAX)),
            _ => Ok(0),
        }
    }

    /// Admits one more run of a tenant, or returns the quota that is used up.
    pub(super) async fn admit_run(&self, tenant: &TenantId) -> Result<(), Error> {
        let (quotas, admissions) = (&self.0.quotas, &self.0.admissions);
        let at = self.now();
        if admissions.admit(tenant, quotas, at) {
            return Ok(());
        }
        let (open_runs, stored_bytes) = usage::of_tenant(self.db(), tenant).await?;
        let (deliveries, deliveries_at) = match (quotas.deliveries, admissions.deliveries(tenant, at)) {
            (0, _) => (0, at),
            (_, Some(known)) => known,
            (most, None) => (usage::deliveries(self.db(), tenant, most).await?, at),
        };
        let mut reading =
            UsageReading { at, open_runs, stored_bytes, deliveries, deliveries_at, admitted: 0 };
        let checked = reading.check(quotas);
        reading.admitted = u64::from(checked.is_ok());
        admissions.put(tenant, reading);
        Ok(checked?)
    }

    /// Checks that a run may start the child run `of`. The outer error is a failure of the store.
    pub(super) async fn admit_child(&self, of: &RunRef, parent: &Run) -> Result<Result<(), RunError>, Error> {
        let most = self.0.quotas.family_runs;
        let exceeded = match self.admit_run(&of.tenant).await {
            Ok(()) if most == 0 => return Ok(Ok(())),
            Ok(()) => {
                let root = RunRef { tenant: of.tenant.clone(), run: parent.root_id() };
                let others = usage::family(self.db(), &root, &parent.id, most).await?;
                // Siblings may be part of the same commit.
                let siblings = parent.children.iter().take_while(|known| known.run != of.run).count() as u64;
                check(&FAMILY_RUNS, most, others + siblings + 1).err()
            }
            Err(Error::Quota(exceeded)) => Some(exceeded),
            Err(error) => return Err(error),
        };
        Ok(exceeded.map_or(Ok(()), |exceeded| Err(RunError::new("quota_exceeded", exceeded.to_string()))))
    }

    /// Checks that a run may be forked. The size of the whole log counts, because a fork reads all of it.
    pub(super) async fn admit_copy(&self, source: &RunRef) -> Result<(), Error> {
        let most = self.0.quotas.fork_bytes;
        if most > 0 {
            check(&FORK_BYTES, most, usage::log_bytes(self.db(), source).await?)?;
        }
        self.admit_run(&source.tenant).await
    }

    /// Checks that one more revision of a definition may be stored.
    pub(super) async fn admit_definition(&self, tenant: &TenantId) -> Result<(), Error> {
        let most = self.0.quotas.definitions;
        if most > 0 {
            check(&DEFINITIONS, most, usage::definitions(self.db(), tenant).await? + 1)?;
        }
        Ok(())
    }
}
