//! The programs of MCP connections: definitions share them, and their number is limited.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use holdpoint_core::TenantId;
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;

use super::Server;
use super::session::Session;
use crate::agent::tool::definition::BadTools;

/// The number of programs that may run at a time if the operator does not say.
const PROGRAMS_MAX: usize = 32;

/// The servers of connections, one for each connection and tenant: tenants never share a program.
#[derive(Debug)]
pub(crate) struct Programs {
    places: Arc<Places>,
    servers: Mutex<BTreeMap<(TenantId, String), Arc<Server>>>,
}

impl Default for Programs {
    fn default() -> Self {
        Self::new(None)
    }
}

impl Programs {
    /// `most` is the number of programs that may run at a time.
    pub(crate) fn new(most: Option<usize>) -> Self {
        Self { places: Arc::new(Places::new(most.unwrap_or(PROGRAMS_MAX))), servers: Mutex::default() }
    }

    pub(super) fn places(&self) -> &Arc<Places> {
        &self.places
    }

    /// Returns the server of a connection for a tenant. It is made once.
    pub(super) fn shared(
        &self,
        tenant: &TenantId,
        connection: &str,
        make: impl FnOnce() -> Result<Server, BadTools>,
    ) -> Result<Arc<Server>, BadTools> {
        let key = (tenant.clone(), connection.to_owned());
        let mut servers = self.servers.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(server) = servers.get(&key) {
            return Ok(server.clone());
        }
        let server = Arc::new(make()?);
        servers.insert(key, server.clone());
        Ok(server)
    }
}

/// The places for programs that run.
#[derive(Debug)]
pub(super) struct Places {
    most: usize,
    free: Arc<Semaphore>,
    /// The programs that run, to find one that is idle.
    running: Mutex<Vec<Weak<Session>>>,
    /// Wakes the callers that wait for a place when a program has become idle.
    idle: Notify,
}

impl Places {
    fn new(most: usize) -> Self {
        Self { most, free: Arc::new(Semaphore::new(most)), running: Mutex::default(), idle: Notify::new() }
    }

    /// Returns a place. If all are taken, the program that has been idle for the longest time is ended; if none is idle,
    /// the caller waits for one until `until`.
    pub(super) async fn take(&self, until: Instant) -> Result<OwnedSemaphorePermit, String> {
        loop {
            let mut idle = std::pin::pin!(self.idle.notified());
            // A program that becomes idle from here on is heard of.
            idle.as_mut().enable();
            if let Ok(place) = self.free.clone().try_acquire_owned() {
                return Ok(place);
            }
            self.end_idle();
            tokio::select! {
                place = self.free.clone().acquire_owned() => return place.map_err(|error| error.to_string()),
                () = idle => {}
                () = tokio::time::sleep_until(until) => {
                    let most = self.most;
                    return Err(format!(
                        "{most} MCP programs run, as many as programsMax allows, and none of them is idle"
                    ));
                }
            }
        }
    }

    /// Adds a program that runs and is in use.
    pub(super) fn add(&self, session: &Arc<Session>) {
        let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        running.retain(|session| session.strong_count() > 0);
        running.push(Arc::downgrade(session));
    }

    /// Tells waiting callers that a program is idle.
    pub(super) fn tell_idle(&self) {
        self.idle.notify_waiters();
    }

    fn end_idle(&self) {
        let running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        let running: Vec<Arc<Session>> = running.iter().filter_map(Weak::upgrade).collect();
        let mut idle: Vec<_> = running.iter().filter_map(|one| Some((one.idle_since()?, one))).collect();
        idle.sort_by_key(|(since, _)| *since);
        // Another caller may have begun to use one meanwhile; then the next is tried.
        let _ended = idle.into_iter().find(|(_, session)| session.end_if_idle());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_caller_without_a_place_is_told_the_limit_or_waits_for_one() {
        let places = Arc::new(Places::new(1));
        let first = places.take(Instant::now()).await.unwrap();
        let refused = places.take(Instant::now()).await.unwrap_err();
        assert!(refused.starts_with("1 MCP programs run, as many as programsMax allows"), "{refused}");
        let waiting = tokio::spawn({
            let places = places.clone();
            async move { places.take(Instant::now() + std::time::Duration::from_secs(60)).await }
        });
        tokio::task::yield_now().await;
        drop(first);
        assert!(waiting.await.unwrap().is_ok());
    }
}
