//! One connection to a server, from its handshake until nobody has used it for a while. Ends by itself.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use rmcp::model::{
    CallToolRequestParams, CallToolResponse, ClientRequest, PaginatedRequestParams, PingRequest, Tool,
};
use rmcp::service::{RoleClient, RunningService, ServiceError};
use rmcp::transport::IntoTransport;
use tokio::time::Instant;

use super::asked::Asked;
use super::process::Process;
use super::programs::Places;
use super::sending::{self, Failure};

/// How many tools of a server are looked at.
pub(super) const TOOLS_MAX: usize = 128;

/// How long a list of tools is believed. Not every server can tell us that it has changed.
const LIST_AGE_MAX: Duration = Duration::from_secs(60);

#[derive(Debug)]
pub(super) struct Session {
    service: RunningService<RoleClient, Asked>,
    process: Mutex<Option<Process>>,
    /// The places of programs, of a server that is one.
    places: Option<Arc<Places>>,
    usage: Mutex<Usage>,
    changed: Arc<AtomicBool>,
    /// A call has had no answer in time: whether the server still lives is to be found out.
    suspect: AtomicBool,
    listed: tokio::sync::Mutex<Option<(Instant, Arc<Vec<Tool>>)>>,
}

#[derive(Debug)]
struct Usage {
    under_way: usize,
    last: Instant,
    over: bool,
}

/// As long as this lives, the session is in use.
pub(super) struct Use(Arc<Session>);

impl Use {
    pub(super) fn is(&self, session: &Arc<Session>) -> bool {
        Arc::ptr_eq(&self.0, session)
    }
}

impl std::ops::Deref for Use {
    type Target = Session;

    fn deref(&self) -> &Session {
        &self.0
    }
}

impl Drop for Use {
    fn drop(&mut self) {
        let mut usage = self.0.usage();
        usage.under_way -= 1;
        usage.last = Instant::now();
        let is_idle = usage.under_way == 0;
        drop(usage);
        if let Some(places) = self.0.places.as_ref().filter(|_| is_idle) {
            places.tell_idle();
        }
    }
}

impl Session {
    pub(super) async fn open<T, E, A>(
        transport: T,
        process: Option<(Process, Arc<Places>)>,
        idle: Duration,
    ) -> Result<Arc<Self>, String>
    where
        T: IntoTransport<RoleClient, E, A>,
        E: std::error::Error + Send + Sync + 'static,
    {
        let (process, places) = process.unzip();
        let asked = Asked::default();
        let changed = asked.changed.clone();
        let service = match rmcp::service::serve_client(asked, transport).await {
            Ok(service) => service,
            Err(error) => {
                let flaw = process.as_ref().and_then(Process::flaw);
                return Err(flaw.map_or_else(|| error.to_string(), str::to_owned));
            }
        };
        let session = Arc::new(Self {
            service,
            process: Mutex::new(process),
            places,
            usage: Mutex::new(Usage { under_way: 0, last: Instant::now(), over: false }),
            changed,
            suspect: AtomicBool::new(false),
            listed: tokio::sync::Mutex::default(),
        });
        tokio::spawn(retire(Arc::downgrade(&session), idle));
        Ok(session)
    }

    /// Nothing when it has ended.
    pub(super) fn begin(self: &Arc<Self>) -> Option<Use> {
        if self.service.peer().is_transport_closed() {
            return None;
        }
        let mut usage = self.usage();
        if usage.over {
            return None;
        }
        usage.under_way += 1;
        Some(Use(self.clone()))
    }

    /// Ends it, whoever uses it.
    pub(super) fn end(&self) {
        self.usage().over = true;
        self.service.cancellation_token().cancel();
        drop(self.process.lock().unwrap_or_else(PoisonError::into_inner).take());
    }

    /// Returns since when the session is not in use. None if it is in use or has ended.
    pub(super) fn idle_since(&self) -> Option<Instant> {
        let usage = self.usage();
        (usage.under_way == 0 && !usage.over).then_some(usage.last)
    }

    /// Ends the session unless it is in use. Returns whether it was ended now.
    pub(super) fn end_if_idle(&self) -> bool {
        let mut usage = self.usage();
        if usage.under_way > 0 || usage.over {
            return false;
        }
        usage.over = true;
        drop(usage);
        self.end();
        true
    }

    /// What the server did that ended it, if it was our decision.
    pub(super) fn flaw(&self) -> Option<&'static str> {
        let process = self.process.lock().unwrap_or_else(PoisonError::into_inner);
        process.as_ref().and_then(Process::flaw)
    }

    pub(super) fn suspect(&self) {
        self.suspect.store(true, Ordering::SeqCst);
    }

    /// Whether it can be relied on; asks the server where there is doubt.
    pub(super) async fn lives(&self, within: Duration) -> bool {
        if !self.suspect.swap(false, Ordering::SeqCst) {
            return true;
        }
        let ping = self.service.peer().send_request(ClientRequest::PingRequest(PingRequest::default()));
        // An error is an answer too.
        matches!(tokio::time::timeout(within, ping).await, Ok(Ok(_) | Err(ServiceError::McpError(_))))
    }

    /// Given up, the server is told so.
    pub(super) async fn call(&self, params: CallToolRequestParams) -> Result<CallToolResponse, Failure> {
        sending::call(self.service.peer(), params).await
    }

    /// The tools of the server, the first of them if they are too many.
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

    fn usage(&self) -> MutexGuard<'_, Usage> {
        self.usage.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// When it may be retired at the earliest; nothing when that is now.
    fn rests_until(&self, idle: Duration) -> Option<Instant> {
        let mut usage = self.usage();
        let from = if usage.under_way > 0 { Instant::now() } else { usage.last };
        let until = from + idle;
        if until > Instant::now() {
            return Some(until);
        }
        usage.over = true;
        None
    }
}

/// Ends a session that nobody has used for so long.
async fn retire(session: Weak<Session>, idle: Duration) {
    let mut until = Instant::now() + idle;
    loop {
        tokio::time::sleep_until(until).await;
        let Some(session) = session.upgrade() else { return };
        match session.rests_until(idle) {
            Some(later) => until = later,
            None => {
                session.end();
                return;
            }
        }
    }
}
