//! Resolves a host name to all of its addresses.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::net::{IpAddr, ToSocketAddrs};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::Semaphore;

/// Resolves host names.
#[derive(Clone, Debug)]
pub enum Resolver {
    /// The resolver of this machine.
    System,
    /// For tests: scripted answers.
    Scripted(ScriptedResolver),
}

impl Resolver {
    /// Resolves a name once. The caller must use these addresses: a second lookup could return others.
    pub(super) async fn resolve(&self, name: &str) -> io::Result<Vec<IpAddr>> {
        match self {
            Self::System => resolve_with_system(name.to_owned()).await,
            Self::Scripted(script) => script.next(name),
        }
    }
}

/// Scripted answers by name. The last answer of a name is repeated.
#[derive(Clone, Debug, Default)]
pub struct ScriptedResolver(Arc<Mutex<ScriptedAnswers>>);

#[derive(Debug, Default)]
struct ScriptedAnswers {
    answers: HashMap<String, VecDeque<Vec<IpAddr>>>,
    lookups: usize,
}

impl ScriptedResolver {
    /// Adds an answer for a name.
    #[must_use]
    pub fn answer(self, name: &str, addresses: &[IpAddr]) -> Self {
        let mut script = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        script.answers.entry(name.to_owned()).or_default().push_back(addresses.to_vec());
        drop(script);
        self
    }

    /// Returns the number of lookups.
    pub fn lookups(&self) -> usize {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).lookups
    }

    fn next(&self, name: &str) -> io::Result<Vec<IpAddr>> {
        let mut script = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        script.lookups += 1;
        let unknown = || io::Error::new(io::ErrorKind::NotFound, "unknown name");
        let answers = script.answers.get_mut(name).ok_or_else(unknown)?;
        let answer = if answers.len() > 1 { answers.pop_front() } else { answers.front().cloned() };
        answer.ok_or_else(unknown)
    }
}

/// Resolves a name on a thread for blocking work. A caller that gives up leaves the lookup running; the lookup keeps
/// its permit, so that a hanging resolver does not block all threads.
async fn resolve_with_system(name: String) -> io::Result<Vec<IpAddr>> {
    let permit = LOOKUPS.acquire().await.map_err(io::Error::other)?;
    let lookup = tokio::task::spawn_blocking(move || {
        let _permit = permit;
        // The function requires a port.
        (name.as_str(), 0).to_socket_addrs().map(|found| found.map(|one| one.ip()).collect())
    });
    lookup.await.map_err(io::Error::other)?
}

static LOOKUPS: Semaphore = Semaphore::const_new(64);
