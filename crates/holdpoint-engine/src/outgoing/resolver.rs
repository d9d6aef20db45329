//! From a name to all of its addresses.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::net::{IpAddr, ToSocketAddrs};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::Semaphore;

/// Where addresses come from.
#[derive(Clone, Debug)]
pub enum Resolver {
    /// What this machine uses for everything else.
    System,
    /// Answers that a test wrote down.
    Scripted(Script),
}

impl Resolver {
    /// Asks once. Whoever wants to rely on the answer must not ask again.
    pub(super) async fn resolve(&self, name: &str) -> io::Result<Vec<IpAddr>> {
        match self {
            Self::System => ask_system(name.to_owned()).await,
            Self::Scripted(script) => script.next(name),
        }
    }
}

/// What a test's names lead to, answer by answer. The last answer is given for ever.
#[derive(Clone, Debug, Default)]
pub struct Script(Arc<Mutex<Told>>);

#[derive(Debug, Default)]
struct Told {
    answers: HashMap<String, VecDeque<Vec<IpAddr>>>,
    questions: usize,
}

impl Script {
    /// Adds an answer to those that the name has.
    #[must_use]
    pub fn answer(self, name: &str, addresses: &[IpAddr]) -> Self {
        let mut told = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        told.answers.entry(name.to_owned()).or_default().push_back(addresses.to_vec());
        drop(told);
        self
    }

    /// How often anything was asked.
    pub fn questions(&self) -> usize {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).questions
    }

    fn next(&self, name: &str) -> io::Result<Vec<IpAddr>> {
        let mut told = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        told.questions += 1;
        let unknown = || io::Error::new(io::ErrorKind::NotFound, "nobody knows this name");
        let answers = told.answers.get_mut(name).ok_or_else(unknown)?;
        let answer = if answers.len() > 1 { answers.pop_front() } else { answers.front().cloned() };
        answer.ok_or_else(unknown)
    }
}

/// A caller that gives up leaves its question behind on a thread. So that a resolver which hangs does not take all of
/// them, the right to ask belongs to the question and not to the caller.
async fn ask_system(name: String) -> io::Result<Vec<IpAddr>> {
    let right = QUESTIONS.acquire().await.map_err(io::Error::other)?;
    let asking = tokio::task::spawn_blocking(move || {
        let _right = right;
        // The port is no part of the question, but of the only function that asks it.
        (name.as_str(), 0).to_socket_addrs().map(|found| found.map(|one| one.ip()).collect())
    });
    asking.await.map_err(io::Error::other)?
}

static QUESTIONS: Semaphore = Semaphore::const_new(64);
