//! What is done to the nodes and to their database, one thing after another, by a script that a seed repeats.

use std::time::{Duration, Instant, SystemTime};

use crate::cluster::{Cluster, Stop};
use crate::dice::Dice;
use crate::ledger::Ledger;
use crate::load::{Fleet, Journal};
use crate::node::{LEASE, Node, Site, until};

/// How long it may take until another node has done the work of a frozen one.
const TAKE_OVER_MAX: Duration = Duration::from_secs(30);
/// What was entered longer ago is not work in progress but work that ended without a payment.
const AT_WORK_MS: u64 = 500;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    Kill,
    KillTwo,
    KillAll,
    Freeze,
    RestartFast,
    RestartImmediate,
}

impl Action {
    pub(crate) const ALL: [Self; 6] =
        [Self::Kill, Self::Freeze, Self::RestartFast, Self::RestartImmediate, Self::KillTwo, Self::KillAll];
}

/// What was done when, in Unix milliseconds, and how long it took until every node was ready again.
#[derive(Clone, Debug)]
pub(crate) struct Deed {
    pub action: Action,
    pub began: u64,
    /// When the cause was gone: processes started or thawed, the database up.
    pub healed: u64,
    /// When every node was ready again.
    pub ended: u64,
    /// The processes it was done to; none when it was the database.
    pub pids: Vec<u32>,
    /// How long a frozen node's work waited for another node.
    pub taken_over_after: Option<Duration>,
    pub at: Instant,
}

impl Deed {
    pub(crate) fn recovery(&self) -> Duration {
        Duration::from_millis(self.ended - self.healed)
    }
}

/// When the cause of a trouble was gone, and what is known of it.
struct Healed {
    at: u64,
    pids: Vec<u32>,
    taken_over_after: Option<Duration>,
}

pub(crate) struct Nemesis<'a> {
    pub cluster: &'a mut Cluster,
    pub nodes: &'a mut Vec<Node>,
    pub fleet: &'a Fleet,
    pub journal: &'a Journal,
    pub site: &'a Site,
    pub dice: Dice,
    pub deeds: Vec<Deed>,
}

impl Nemesis<'_> {
    pub(crate) fn act(&mut self, action: Action) {
        for node in self.nodes.iter_mut() {
            assert_eq!(node.ended(), None);
        }
        let (began, at) = (now(), Instant::now());
        let healed = match action {
            Action::Kill => self.kill(1),
            Action::KillTwo => self.kill(2),
            Action::KillAll => self.kill(self.nodes.len()),
            Action::Freeze => self.freeze(),
            Action::RestartFast => self.restart(Stop::Fast),
            Action::RestartImmediate => self.restart(Stop::Immediate),
        };
        for node in self.nodes.iter() {
            node.ready();
        }
        let Healed { at: healed, pids, taken_over_after } = healed;
        let deed = Deed { action, began, healed, ended: now(), pids, taken_over_after, at };
        println!("{action:?}: ready again {} ms after its end", deed.recovery().as_millis());
        self.deeds.push(deed);
    }

    /// Kills some nodes at once and starts them again, one to three seconds later, all at once.
    fn kill(&mut self, count: usize) -> Healed {
        let first = self.dice.index(self.nodes.len());
        let chosen: Vec<usize> = (0..count).map(|step| (first + step) % self.nodes.len()).collect();
        let pids = chosen.iter().map(|index| self.nodes[*index].pid()).collect();
        chosen.iter().for_each(|index| self.nodes[*index].kill());
        // Nobody waits for anything here: this is how long they are dead.
        std::thread::sleep(Duration::from_millis(1000 + self.dice.below(2000)));
        let at = now();
        let spawned: Vec<_> = chosen.iter().map(|index| self.nodes[*index].spawn_again()).collect();
        for (index, node) in chosen.into_iter().zip(spawned) {
            self.nodes[index] = node.wait();
            self.fleet.urls.write().unwrap()[index].clone_from(&self.nodes[index].url);
        }
        Healed { at, pids, taken_over_after: None }
    }

    /// Freezes a node in the middle of its work until its lease is over and others have done that work.
    fn freeze(&mut self) -> Healed {
        let index = self.dice.index(self.nodes.len());
        let node = &self.nodes[index];
        loop {
            let held = self.freeze_at_work(node);
            let frozen = Instant::now();
            let paid_by_another = || {
                let ledger = Ledger::read(&self.site.ledger());
                held.iter().any(|run| ledger.payments_of(run).iter().any(|line| line.pid != node.pid()))
            };
            let all_cancelled = || held.iter().all(|run| self.cancelled(run));
            let done = until(TAKE_OVER_MAX, || paid_by_another() || all_cancelled());
            let after = done.unwrap_or_else(|| panic!("nobody took over {held:?} from a frozen node"));
            if !paid_by_another() {
                node.thaw();
                continue;
            }
            // Past its lease for certain, also where the others were faster.
            std::thread::sleep((LEASE + LEASE / 2).saturating_sub(frozen.elapsed()));
            let at = now();
            node.thaw();
            return Healed { at, pids: vec![node.pid()], taken_over_after: Some(after) };
        }
    }

    /// Freezes a node at an instant at which it has entered runs and not paid for them yet; these runs.
    fn freeze_at_work(&self, node: &Node) -> Vec<String> {
        let mut held = Vec::new();
        let found = until(TAKE_OVER_MAX, || {
            node.freeze();
            let since = now().saturating_sub(AT_WORK_MS);
            held = Ledger::read(&self.site.ledger()).in_flight(node.pid(), since);
            held.retain(|run| !self.cancelled(run));
            if held.is_empty() {
                node.thaw();
            }
            !held.is_empty()
        });
        assert!(found.is_some(), "the node is never in the middle of anything");
        held
    }

    /// Nobody pays for a run that was cancelled.
    fn cancelled(&self, run: &str) -> bool {
        self.journal.runs.lock().unwrap().get(run).is_some_and(|known| known.cancel.is_some())
    }

    fn restart(&mut self, how: Stop) -> Healed {
        self.cluster.stop(how);
        // How long it is down: sometimes longer than a lease.
        std::thread::sleep(Duration::from_millis(self.dice.below(4000)));
        self.cluster.run();
        Healed { at: now(), pids: Vec::new(), taken_over_after: None }
    }

    pub(crate) fn pause(&mut self, ms: u64) {
        std::thread::sleep(Duration::from_millis(ms / 2 + self.dice.below(ms)));
    }
}

pub(crate) fn now() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
    u64::try_from(since.as_millis()).unwrap()
}
