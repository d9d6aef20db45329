//! Injects faults into the nodes and their database, one after another, in an order that the seed repeats.

use std::time::{Duration, Instant, SystemTime};

use crate::cluster::{Cluster, Stop};
use crate::ledger::Ledger;
use crate::load::{Fleet, Journal};
use crate::node::{Deployment, LEASE, Node, until};
use crate::random::SeededRandom;

/// Longest time until another node has done the work of a frozen one.
const TAKE_OVER_MAX: Duration = Duration::from_secs(30);
/// A run that was entered longer ago is not in progress: it ended without a payment.
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

/// An injected fault with its times in Unix milliseconds.
#[derive(Clone, Debug)]
pub(crate) struct Fault {
    pub action: Action,
    pub began: u64,
    /// The time at which the cause was removed: processes started or thawed, the database up.
    pub healed: u64,
    /// The time at which every node was ready again.
    pub ended: u64,
    /// The processes that were killed or frozen; empty for a restart of the database.
    pub pids: Vec<u32>,
    /// The time until another node had done the work of a frozen node.
    pub taken_over_after: Option<Duration>,
    pub at: Instant,
}

impl Fault {
    pub(crate) fn recovery(&self) -> Duration {
        Duration::from_millis(self.ended - self.healed)
    }
}

/// The end of a fault: the time at which its cause was removed.
struct FaultEnd {
    at: u64,
    pids: Vec<u32>,
    taken_over_after: Option<Duration>,
}

pub(crate) struct Nemesis<'a> {
    pub cluster: &'a mut Cluster,
    pub nodes: &'a mut Vec<Node>,
    pub fleet: &'a Fleet,
    pub journal: &'a Journal,
    pub deployment: &'a Deployment,
    pub random: SeededRandom,
    pub faults: Vec<Fault>,
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
        let FaultEnd { at: healed, pids, taken_over_after } = healed;
        let fault = Fault { action, began, healed, ended: now(), pids, taken_over_after, at };
        println!("{action:?}: all nodes ready {} ms after its end", fault.recovery().as_millis());
        self.faults.push(fault);
    }

    /// Kills some nodes at the same time and restarts them together one to three seconds later.
    fn kill(&mut self, count: usize) -> FaultEnd {
        let first = self.random.index(self.nodes.len());
        let chosen: Vec<usize> = (0..count).map(|step| (first + step) % self.nodes.len()).collect();
        let pids = chosen.iter().map(|index| self.nodes[*index].pid()).collect();
        chosen.iter().for_each(|index| self.nodes[*index].kill());
        // The time for which the nodes are dead; no condition is awaited here.
        std::thread::sleep(Duration::from_millis(1000 + self.random.below(2000)));
        let at = now();
        let spawned: Vec<_> = chosen.iter().map(|index| self.nodes[*index].spawn_again()).collect();
        for (index, node) in chosen.into_iter().zip(spawned) {
            self.nodes[index] = node.wait();
            self.fleet.urls.write().unwrap()[index].clone_from(&self.nodes[index].url);
        }
        FaultEnd { at, pids, taken_over_after: None }
    }

    /// Freezes a node during its work until its lease has expired and other nodes have done that work.
    fn freeze(&mut self) -> FaultEnd {
        let index = self.random.index(self.nodes.len());
        let node = &self.nodes[index];
        loop {
            let held = self.freeze_at_work(node);
            let frozen = Instant::now();
            let paid_by_another = || {
                let ledger = Ledger::read(&self.deployment.ledger());
                held.iter().any(|run| ledger.payments_of(run).iter().any(|line| line.pid != node.pid()))
            };
            let all_cancelled = || held.iter().all(|run| self.cancelled(run));
            let done = until(TAKE_OVER_MAX, || paid_by_another() || all_cancelled());
            let after = done.unwrap_or_else(|| panic!("no node took over {held:?} from a frozen node"));
            if !paid_by_another() {
                node.thaw();
                continue;
            }
            // The lease must have expired, also if the other nodes were faster.
            std::thread::sleep((LEASE + LEASE / 2).saturating_sub(frozen.elapsed()));
            let at = now();
            node.thaw();
            return FaultEnd { at, pids: vec![node.pid()], taken_over_after: Some(after) };
        }
    }

    /// Freezes a node while it has entered runs and not yet paid for them. Returns these runs.
    fn freeze_at_work(&self, node: &Node) -> Vec<String> {
        let mut held = Vec::new();
        let found = until(TAKE_OVER_MAX, || {
            node.freeze();
            let since = now().saturating_sub(AT_WORK_MS);
            held = Ledger::read(&self.deployment.ledger()).in_flight(node.pid(), since);
            held.retain(|run| !self.cancelled(run));
            if held.is_empty() {
                node.thaw();
            }
            !held.is_empty()
        });
        assert!(found.is_some(), "the node was never at work");
        held
    }

    /// Returns true if a client cancelled the run, which is then not paid for.
    fn cancelled(&self, run: &str) -> bool {
        self.journal.runs.lock().unwrap().get(run).is_some_and(|known| known.cancel.is_some())
    }

    fn restart(&mut self, how: Stop) -> FaultEnd {
        self.cluster.stop(how);
        // The database is down for up to four seconds, which can be longer than a lease.
        std::thread::sleep(Duration::from_millis(self.random.below(4000)));
        self.cluster.run();
        FaultEnd { at: now(), pids: Vec::new(), taken_over_after: None }
    }

    pub(crate) fn pause(&mut self, ms: u64) {
        std::thread::sleep(Duration::from_millis(ms / 2 + self.random.below(ms)));
    }
}

pub(crate) fn now() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
    u64::try_from(since.as_millis()).unwrap()
}
