//! What is asked about runs by many at a time. Whoever asks while enough questions are under way is part of the next
//! one, so a busy node asks the database once for many.

use std::collections::{BTreeSet, HashMap};
use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError};

use holdpoint_core::RunRef;
use tokio::sync::oneshot;

use crate::store::events::Stored;
use crate::store::{Database, Error, events, runs};

/// Something that can be asked about many runs at once.
pub(crate) trait Answer: Clone + Send + Sync + 'static {
    /// Runs in one question.
    const ASKED_MAX: usize;
    /// Questions under way at the same time.
    const AT_ONCE: usize;

    fn ask(db: &Database, of: &[RunRef])
    -> impl Future<Output = Result<HashMap<RunRef, Self>, Error>> + Send;
}

/// How many events of a run are stored.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sequence(pub u64);

impl Answer for Sequence {
    const ASKED_MAX: usize = 500;
    const AT_ONCE: usize = 1;

    async fn ask(db: &Database, of: &[RunRef]) -> Result<HashMap<RunRef, Self>, Error> {
        Ok(runs::sequences(db, of).await?.into_iter().map(|(of, seq)| (of, Self(seq))).collect())
    }
}

/// The whole log of a run as it is stored. Some are long: few are asked for at once, and others need not wait for them.
impl Answer for Arc<Stored> {
    const ASKED_MAX: usize = 32;
    const AT_ONCE: usize = 3;

    async fn ask(db: &Database, of: &[RunRef]) -> Result<HashMap<RunRef, Self>, Error> {
        let logs = events::logs(db, of).await?;
        Ok(logs.into_iter().map(|(of, stored)| (of, Self::new(stored))).collect())
    }
}

#[derive(Debug)]
pub(crate) struct Asking<T> {
    waiting: Mutex<Waiting<T>>,
}

#[derive(Debug)]
struct Waiting<T> {
    asked: Vec<Asked<T>>,
    /// How many are asking the database and will look here again.
    attendants: usize,
}

#[derive(Debug)]
struct Asked<T> {
    of: RunRef,
    reply: oneshot::Sender<Result<Option<T>, Error>>,
}

impl<T> Default for Asking<T> {
    fn default() -> Self {
        Self { waiting: Mutex::new(Waiting { asked: Vec::new(), attendants: 0 }) }
    }
}

/// Whatever ends an attendant at its work, a panic or the end of the runtime: whoever asks next finds its place free,
/// and those who wait are told, unless another attendant is there who sees to them.
struct Attendant<'a, T> {
    of: &'a Asking<T>,
    at_work: bool,
}

impl<T> Drop for Attendant<'_, T> {
    fn drop(&mut self) {
        if self.at_work {
            let mut waiting = self.of.lock();
            waiting.attendants -= 1;
            if waiting.attendants == 0 {
                waiting.asked.clear();
            }
        }
    }
}

impl<T: Answer> Asking<T> {
    /// What is true of the run at some moment after the call; nothing when there is no such run.
    pub(crate) async fn of(self: &Arc<Self>, db: &Database, of: &RunRef) -> Result<Option<T>, Error> {
        let (reply, answer) = oneshot::channel();
        let attend = {
            let mut waiting = self.lock();
            waiting.asked.push(Asked { of: of.clone(), reply });
            let attend = waiting.attendants < T::AT_ONCE;
            waiting.attendants += usize::from(attend);
            attend
        };
        if attend {
            // A task of its own: whoever asked first may go away.
            tokio::spawn(self.clone().attend(db.clone()));
        }
        answer.await.map_err(|_| Error::Closed)?
    }

    async fn attend(self: Arc<Self>, db: Database) {
        let mut attendant = Attendant { of: &self, at_work: true };
        loop {
            let asked: Vec<Asked<T>> = {
                let mut waiting = self.lock();
                if waiting.asked.is_empty() {
                    // At the same moment, so that nobody asks in between and relies on us.
                    waiting.attendants -= 1;
                    attendant.at_work = false;
                    return;
                }
                let most = waiting.asked.len().min(T::ASKED_MAX);
                waiting.asked.drain(..most).collect()
            };
            let of: BTreeSet<&RunRef> = asked.iter().map(|asked| &asked.of).collect();
            let of: Vec<RunRef> = of.into_iter().cloned().collect();
            let found = T::ask(&db, &of).await;
            for Asked { of, reply } in asked {
                let answer = match &found {
                    Ok(found) => Ok(found.get(&of).cloned()),
                    Err(error) => Err(error.again()),
                };
                // Whoever went away does not want to know any more.
                let _ = reply.send(answer);
            }
        }
    }
}

impl<T> Asking<T> {
    fn lock(&self) -> std::sync::MutexGuard<'_, Waiting<T>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::Semaphore;

    use super::*;
    use crate::engine::{Engine, Options};
    use crate::location::Location;

    /// Questions under way, and who may go on.
    static BEGUN: Semaphore = Semaphore::const_new(0);
    static SLOW: Semaphore = Semaphore::const_new(0);
    static DOOMED: Semaphore = Semaphore::const_new(0);

    #[derive(Clone, Debug, PartialEq)]
    struct Told;

    impl Answer for Told {
        const ASKED_MAX: usize = 1;
        const AT_ONCE: usize = 2;

        async fn ask(_: &Database, of: &[RunRef]) -> Result<HashMap<RunRef, Self>, Error> {
            BEGUN.add_permits(1);
            match of[0].run.as_str() {
                "slow" => SLOW.acquire().await.unwrap().forget(),
                "doomed" => {
                    DOOMED.acquire().await.unwrap().forget();
                    panic!("doomed");
                }
                _ => {}
            }
            Ok(of.iter().map(|of| (of.clone(), Self)).collect())
        }
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn who_waits_is_served_when_one_of_several_attendants_panics() {
        let folder = tempfile::tempdir().unwrap();
        let engine = Engine::open(Options::new(Location::Sqlite(folder.path().join("db")))).await.unwrap();
        let asking = Arc::new(Asking::<Told>::default());
        let ask = |run: &str| {
            let (asking, db) = (asking.clone(), engine.db().clone());
            let tenant = holdpoint_core::TenantId::parse("default").unwrap();
            let of = RunRef { tenant, run: holdpoint_core::RunId::parse(run).unwrap() };
            tokio::spawn(async move { asking.of(&db, &of).await })
        };
        let slow = ask("slow");
        BEGUN.acquire().await.unwrap().forget();
        let doomed = ask("doomed");
        BEGUN.acquire().await.unwrap().forget();
        let other = ask("other");
        while asking.lock().asked.is_empty() {
            tokio::task::yield_now().await;
        }
        DOOMED.add_permits(1);
        assert!(matches!(doomed.await.unwrap(), Err(Error::Closed)), "nobody will tell it any more");
        while asking.lock().attendants > 1 {
            tokio::task::yield_now().await;
        }
        SLOW.add_permits(1);
        assert_eq!(slow.await.unwrap().unwrap(), Some(Told));
        assert_eq!(other.await.unwrap().unwrap(), Some(Told));
        engine.close().await;
    }
}
