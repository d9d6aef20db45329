//! The MCP servers that definitions share, and the limit for the number of their programs.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use holdpoint_core::TenantId;
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;

use super::McpServer;
use super::session::McpSession;
use crate::tool::definition::BadTools;

/// The default number of programs that may run at a time.
const PROGRAMS_MAX: usize = 32;

/// The servers of connections, one for each connection and tenant: tenants never share a program.
#[derive(Debug)]
pub(crate) struct McpServers {
    slots: Arc<ProgramSlots>,
    servers: Mutex<BTreeMap<(TenantId, String), Arc<McpServer>>>,
}

impl Default for McpServers {
    fn default() -> Self {
        Self::new(None)
    }
}

impl McpServers {
    /// Creates an empty set of servers. At most `most` programs run at a time; by default [`PROGRAMS_MAX`].
    pub(crate) fn new(most: Option<usize>) -> Self {
        Self { slots: Arc::new(ProgramSlots::new(most.unwrap_or(PROGRAMS_MAX))), servers: Mutex::default() }
    }

    pub(super) fn slots(&self) -> &Arc<ProgramSlots> {
        &self.slots
    }

    /// Returns the server of a connection for a tenant. The first call creates it.
    pub(super) fn shared(
        &self,
        tenant: &TenantId,
        connection: &str,
        make: impl FnOnce() -> Result<McpServer, BadTools>,
    ) -> Result<Arc<McpServer>, BadTools> {
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

/// The slots for running programs.
#[derive(Debug)]
pub(super) struct ProgramSlots {
    most: usize,
    free: Arc<Semaphore>,
    /// The running programs, to find one that is idle.
    running: Mutex<Vec<Weak<McpSession>>>,
    /// Wakes the callers that wait for a slot when a program becomes idle.
    idle: Notify,
}

impl ProgramSlots {
    fn new(most: usize) -> Self {
        Self { most, free: Arc::new(Semaphore::new(most)), running: Mutex::default(), idle: Notify::new() }
    }

    /// Returns a slot. If all slots are in use, ends the program that has been idle for the longest time. If no program
    /// is idle, waits for a slot until `until`.
    pub(super) async fn acquire(&self, until: Instant) -> Result<OwnedSemaphorePermit, String> {
        loop {
            let mut idle = std::pin::pin!(self.idle.notified());
            // After this call, a program that becomes idle wakes this caller.
            idle.as_mut().enable();
            if let Ok(slot) = self.free.clone().try_acquire_owned() {
                return Ok(slot);
            }
            self.end_longest_idle();
            tokio::select! {
                slot = self.free.clone().acquire_owned() => return slot.map_err(|error| error.to_string()),
                () = idle => {}
                () = tokio::time::sleep_until(until) => {
                    let most = self.most;
                    return Err(format!(
                        "programsMax: {most} MCP programs are running, which is the limit, and none of them is idle"
                    ));
                }
            }
        }
    }

    /// Adds a running program that is in use.
    pub(super) fn add(&self, session: &Arc<McpSession>) {
        let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        running.retain(|session| session.strong_count() > 0);
        running.push(Arc::downgrade(session));
    }

    /// Wakes the callers that wait for an idle program.
    pub(super) fn notify_idle(&self) {
        self.idle.notify_waiters();
    }

    fn end_longest_idle(&self) {
        let running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        let running: Vec<Arc<McpSession>> = running.iter().filter_map(Weak::upgrade).collect();
        let mut idle: Vec<_> = running.iter().filter_map(|one| Some((one.idle_since()?, one))).collect();
        idle.sort_by_key(|(since, _)| *since);
        // If another caller has started to use a program, the next one is tried.
        let _ended = idle.into_iter().find(|(_, session)| session.end_if_idle());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_caller_without_a_slot_waits_until_its_deadline() {
        let slots = Arc::new(ProgramSlots::new(1));
        let first = slots.acquire(Instant::now()).await.unwrap();
        let refused = slots.acquire(Instant::now()).await.unwrap_err();
        assert!(refused.starts_with("programsMax: 1 MCP programs are running"), "{refused}");
        let waiting = tokio::spawn({
            let slots = slots.clone();
            async move { slots.acquire(Instant::now() + std::time::Duration::from_secs(60)).await }
        });
        tokio::task::yield_now().await;
        drop(first);
        assert!(waiting.await.unwrap().is_ok());
    }
}
