//! The open event streams of this node, counted for each tenant.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use holdpoint_core::TenantId;

use crate::app::App;
use crate::auth::{Caller, CredentialGuard};
use crate::error::{ApiError, QUOTA_RETRY_SECONDS};

/// Counts the open streams of each tenant. Clones share the counts.
#[derive(Clone, Debug, Default)]
pub(crate) struct Streams {
    open: Arc<Mutex<HashMap<TenantId, u64>>>,
    /// The limit for each tenant; 0 means no limit.
    limit: u64,
}

/// The right to keep a stream open: its slot in the quota, and the guard that ends it with the credential.
#[derive(Debug)]
pub(crate) struct StreamPermit {
    pub guard: CredentialGuard,
    pub slot: StreamSlot,
}

impl Caller {
    /// Takes a slot for a stream of the caller's tenant. Rejects the stream if the quota is used up, so call this
    /// before the request has effects.
    pub(crate) fn open_stream(&self, app: &App) -> Result<StreamPermit, ApiError> {
        Ok(StreamPermit { slot: app.streams.take(self.tenant())?, guard: self.guard(app) })
    }
}

/// One open stream. It is counted until it is dropped.
#[derive(Debug)]
pub(crate) struct StreamSlot {
    streams: Streams,
    tenant: TenantId,
}

impl Streams {
    pub(crate) fn new(limit: u64) -> Self {
        Self { open: Arc::default(), limit }
    }

    pub(crate) fn limit(&self) -> u64 {
        self.limit
    }

    pub(crate) fn open(&self, tenant: &TenantId) -> u64 {
        self.lock().get(tenant).copied().unwrap_or(0)
    }

    /// Counts one more stream of a tenant. Rejects the stream if the quota is used up.
    pub(crate) fn take(&self, tenant: &TenantId) -> Result<StreamSlot, ApiError> {
        let mut open = self.lock();
        let count = open.entry(tenant.clone()).or_default();
        if self.limit > 0 && *count >= self.limit {
            let message = format!(
                "the tenant's quota streams is used up ({}); close streams, or raise --quota-streams",
                self.limit
            );
            let error = ApiError::quota_exceeded("streams", self.limit, message);
            return Err(error.retry_after_s(QUOTA_RETRY_SECONDS));
        }
        *count += 1;
        Ok(StreamSlot { streams: self.clone(), tenant: tenant.clone() })
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<TenantId, u64>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for StreamSlot {
    fn drop(&mut self) {
        let mut open = self.streams.lock();
        if let Some(count) = open.get_mut(&self.tenant) {
            *count -= 1;
            if *count == 0 {
                open.remove(&self.tenant);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_counts_until_it_is_dropped() {
        let (streams, tenant) = (Streams::new(1), TenantId::parse("a").unwrap());
        let slot = streams.take(&tenant).unwrap();
        assert_eq!(streams.open(&tenant), 1);
        assert_eq!(streams.take(&tenant).unwrap_err().status(), 429);
        assert!(streams.take(&TenantId::parse("b").unwrap()).is_ok(), "another tenant");
        drop(slot);
        assert_eq!(streams.open(&tenant), 0);
        assert!(streams.take(&tenant).is_ok());
    }
}
