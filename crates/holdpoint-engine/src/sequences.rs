//! How far runs have come, asked for by many at a time. Whoever asks while a question is under way is part of the
//! next one, so a busy node asks the database once for all its readers.

use std::sync::{Arc, Mutex, PoisonError};

use holdpoint_core::RunRef;
use tokio::sync::oneshot;

use crate::store::{Database, Error, runs};

/// Runs asked about in one question.
const ASKED_MAX: usize = 500;

#[derive(Debug, Default)]
pub(crate) struct Sequences {
    waiting: Mutex<Waiting>,
}

#[derive(Debug, Default)]
struct Waiting {
    asked: Vec<Asked>,
    /// Somebody is asking the database and will look here again.
    attended: bool,
}

/// Whatever ends the attendant: whoever asks next becomes one, and those who wait are told.
struct Attendant<'a>(&'a Sequences);

impl Drop for Attendant<'_> {
    fn drop(&mut self) {
        let mut waiting = self.0.lock();
        if std::thread::panicking() {
            waiting.attended = false;
            waiting.asked.clear();
        }
    }
}

#[derive(Debug)]
struct Asked {
    of: RunRef,
    reply: oneshot::Sender<Result<Option<u64>, Error>>,
}

impl Sequences {
    /// How many events of the run were stored at some moment after the call; nothing when there is no such run.
    pub(crate) async fn of(self: &Arc<Self>, db: &Database, of: &RunRef) -> Result<Option<u64>, Error> {
        let (reply, answer) = oneshot::channel();
        let attended = {
            let mut waiting = self.lock();
            waiting.asked.push(Asked { of: of.clone(), reply });
            std::mem::replace(&mut waiting.attended, true)
        };
        if !attended {
            // A task of its own: whoever asked first may go away.
            tokio::spawn(self.clone().attend(db.clone()));
        }
        answer.await.map_err(|_| Error::Closed)?
    }

    async fn attend(self: Arc<Self>, db: Database) {
        let _attendant = Attendant(&self);
        loop {
            let asked = {
                let mut waiting = self.lock();
                let rest = waiting.asked.len().min(ASKED_MAX);
                let asked: Vec<Asked> = waiting.asked.drain(..rest).collect();
                waiting.attended = !asked.is_empty();
                asked
            };
            if asked.is_empty() {
                return;
            }
            let of: Vec<RunRef> = asked.iter().map(|asked| asked.of.clone()).collect();
            let found = runs::sequences(&db, &of).await;
            for Asked { of, reply } in asked {
                let answer = match &found {
                    Ok(found) => Ok(found.iter().find(|(run, _)| *run == of).map(|(_, seq)| *seq)),
                    Err(error) => Err(error.again()),
                };
                // Whoever went away does not want to know any more.
                let _ = reply.send(answer);
            }
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
