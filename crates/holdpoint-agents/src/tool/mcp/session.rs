//! A session with an MCP server. It begins with the handshake and ends after an idle time, or earlier if it is lost.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use rmcp::model::{
    CallToolRequestParams, CallToolResponse, ClientRequest, PaginatedRequestParams, PingRequest, Tool,
};
use rmcp::service::{RoleClient, RunningService, ServiceError};
use rmcp::transport::IntoTransport;
use tokio::time::Instant;

use super::client_handler::McpClientHandler;
use super::process::ServerProcess;
use super::programs::ProgramSlots;
use super::tracked_call::{self, CallError};
use crate::tool::CallReporter;

/// The maximum number of tools of a server. Further tools are ignored.
pub(super) const TOOLS_MAX: usize = 128;

/// The age at which a list of tools is read again. Not every server reports changes.
const LIST_AGE_MAX: Duration = Duration::from_secs(60);

#[derive(Debug)]
pub(super) struct McpSession {
    service: RunningService<RoleClient, McpClientHandler>,
    process: Mutex<Option<ServerProcess>>,
    /// The program slots, if the server is a program.
    slots: Option<Arc<ProgramSlots>>,
    usage: Mutex<SessionUsage>,
    changed: Arc<AtomicBool>,
    /// A call has timed out. The server must be pinged before the next use.
    suspect: AtomicBool,
    listed: tokio::sync::Mutex<Option<(Instant, Arc<Vec<Tool>>)>>,
}

#[derive(Debug)]
struct SessionUsage {
    /// The number of guards that exist.
    active: usize,
    last_use: Instant,
    ended: bool,
}

/// A guard that marks the session as in use until it is dropped.
pub(super) struct SessionGuard(Arc<McpSession>);

impl SessionGuard {
    pub(super) fn is(&self, session: &Arc<McpSession>) -> bool {
        Arc::ptr_eq(&self.0, session)
    }
}

impl std::ops::Deref for SessionGuard {
    type Target = McpSession;

    fn deref(&self) -> &McpSession {
        &self.0
    }
}

impl Drop for SessionGuard {
    fn drop(&mut self) {
        let mut usage = self.0.usage();
        usage.active -= 1;
        usage.last_use = Instant::now();
        let is_idle = usage.active == 0;
        drop(usage);
        if let Some(slots) = self.0.slots.as_ref().filter(|_| is_idle) {
            slots.notify_idle();
        }
    }
}

impl McpSession {
    pub(super) async fn open<T, E, A>(
        transport: T,
        process: Option<(ServerProcess, Arc<ProgramSlots>)>,
        idle: Duration,
    ) -> Result<Arc<Self>, String>
    where
        T: IntoTransport<RoleClient, E, A>,
        E: std::error::Error + Send + Sync + 'static,
    {
        let (process, slots) = process.unzip();
        let handler = McpClientHandler::default();
        let changed = handler.changed.clone();
        let service = match rmcp::service::serve_client(handler, transport).await {
            Ok(service) => service,
            Err(error) => {
                let flaw = process.as_ref().and_then(ServerProcess::flaw);
                return Err(flaw.map_or_else(|| error.to_string(), str::to_owned));
            }
        };
        let session = Arc::new(Self {
            service,
            process: Mutex::new(process),
            slots,
            usage: Mutex::new(SessionUsage { active: 0, last_use: Instant::now(), ended: false }),
            changed,
            suspect: AtomicBool::new(false),
            listed: tokio::sync::Mutex::default(),
        });
        tokio::spawn(end_when_idle(Arc::downgrade(&session), idle));
        Ok(session)
    }

    /// Marks the session as in use. Returns None if it has ended.
    pub(super) fn begin(self: &Arc<Self>) -> Option<SessionGuard> {
        if self.service.peer().is_transport_closed() {
            return None;
        }
        let mut usage = self.usage();
        if usage.ended {
            return None;
        }
        usage.active += 1;
        Some(SessionGuard(self.clone()))
    }

    /// Ends the session even if it is in use.
    pub(super) fn end(&self) {
        self.usage().ended = true;
        self.service.cancellation_token().cancel();
        drop(self.process.lock().unwrap_or_else(PoisonError::into_inner).take());
    }

    /// Returns the time since which the session is idle. None if it is in use or has ended.
    pub(super) fn idle_since(&self) -> Option<Instant> {
        let usage = self.usage();
        (usage.active == 0 && !usage.ended).then_some(usage.last_use)
    }

    /// Ends the session unless it is in use. Returns true if this call ended it.
    pub(super) fn end_if_idle(&self) -> bool {
        let mut usage = self.usage();
        if usage.active > 0 || usage.ended {
            return false;
        }
        usage.ended = true;
        drop(usage);
        self.end();
        true
    }

    /// Returns the reason why the engine ended the program of the server, if it did.
    pub(super) fn flaw(&self) -> Option<&'static str> {
        let process = self.process.lock().unwrap_or_else(PoisonError::into_inner);
        process.as_ref().and_then(ServerProcess::flaw)
    }

    pub(super) fn suspect(&self) {
        self.suspect.store(true, Ordering::SeqCst);
    }

    /// Returns true if the server is alive. Pings it only after a call has timed out.
    pub(super) async fn is_alive(&self, within: Duration) -> bool {
        if !self.suspect.swap(false, Ordering::SeqCst) {
            return true;
        }
        let ping = self.service.peer().send_request(ClientRequest::PingRequest(PingRequest::default()));
        // A protocol error also proves that the server is alive.
        matches!(tokio::time::timeout(within, ping).await, Ok(Ok(_) | Err(ServiceError::McpError(_))))
    }

    /// Makes a call. Dropping the future sends a cancellation to the server.
    pub(super) async fn call(
        &self,
        params: CallToolRequestParams,
        reporter: &CallReporter,
    ) -> Result<CallToolResponse, CallError> {
        let listeners = &self.service.service().progress;
        tracked_call::call(self.service.peer(), params, listeners, reporter).await
    }

    /// Returns the tools of the server. Stops reading pages at more than [`TOOLS_MAX`] tools.
    pub(super) async fn tools(&self) -> Result<Arc<Vec<Tool>>, ServiceError> {
        let mut listed = self.listed.lock().await;
        let changed = self.changed.swap(false, Ordering::SeqCst);
        if let Some((at, tools)) = &*listed
            && !changed
            && at.elapsed() < LIST_AGE_MAX
        {
            return Ok(tools.clone());
        }
        let (mut tools, mut cursor) = (Vec::new(), None);
        loop {
            let page =
                self.service.peer().list_tools(Some(PaginatedRequestParams::default().with_cursor(cursor)));
            let page = page.await?;
            let empty = page.tools.is_empty();
            tools.extend(page.tools);
            cursor = page.next_cursor;
            if cursor.is_none() || empty || tools.len() > TOOLS_MAX {
                break;
            }
        }
        let tools = Arc::new(tools);
        *listed = Some((Instant::now(), tools.clone()));
        Ok(tools)
    }

    fn usage(&self) -> MutexGuard<'_, SessionUsage> {
        self.usage.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the earliest time at which the session can be ended as idle. Returns None, and closes the session to new
    /// users, if that time has passed.
    fn idle_deadline(&self, idle: Duration) -> Option<Instant> {
        let mut usage = self.usage();
        let from = if usage.active > 0 { Instant::now() } else { usage.last_use };
        let until = from + idle;
        if until > Instant::now() {
            return Some(until);
        }
        usage.ended = true;
        None
    }
}

/// Ends a session that has been idle for this time.
async fn end_when_idle(session: Weak<McpSession>, idle: Duration) {
    let mut until = Instant::now() + idle;
    loop {
        tokio::time::sleep_until(until).await;
        let Some(session) = session.upgrade() else { return };
        match session.idle_deadline(idle) {
            Some(later) => until = later,
            None => {
                session.end();
                return;
            }
        }
    }
}
