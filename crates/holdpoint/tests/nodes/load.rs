//! Clients that start and answer runs at random nodes, sometimes two for one run, and record the responses. After a
//! network error, a 503 or a timeout the outcome is unknown.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, RwLock};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::harness::{Client, Response};
use crate::random::SeededRandom;

pub(crate) const CLIENTS: u64 = 6;
/// Timeout of a request, because a frozen node does not respond.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(2);
/// Longest delay between two runs of a client. The test is about faults under load, not about the highest load.
const PAUSE_MS_MAX: u64 = 80;
/// Delay after an unknown outcome, so that clients do not spin on a dead node.
const PAUSE_AFTER_TROUBLE: Duration = Duration::from_millis(20);
pub(crate) const GATE: &str = "gate";

/// A workflow with a step, a gate, a payment, a timer and a step.
pub(crate) fn paying() -> Value {
    let node = |id: &str, type_id: &str, config: Value| json!({"id": id, "typeId": type_id, "name": id, "position": {"x": 0, "y": 0}, "config": config, "inputs": {}});
    let nodes = json!([
        node("before", "core.noop", json!({})),
        node(GATE, "core.approvalGate", json!({"title": "Pay?", "actions": ["accept"]})),
        node("pay", "test.ledger", json!({"ms": 200})),
        node("rest", "core.delay", json!({"ms": 50})),
        node("after", "core.noop", json!({})),
    ]);
    let names = ["before", GATE, "pay", "rest", "after"];
    let edge = |pair: &[&str]| json!({"id": pair[0], "sourceNodeId": pair[0], "targetNodeId": pair[1]});
    json!({
        "id": "paying", "name": "paying", "version": "1", "nodes": nodes,
        "edges": names.windows(2).map(edge).collect::<Vec<_>>(),
        "triggers": [{"id": "manual", "type": "manual", "enabled": true}],
        "variables": [], "metadata": {}, "settings": {},
    })
}

/// The outcome of a command for its client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Acknowledged,
    /// Refused because another command had come first.
    TooLate,
    Unknown,
}

#[derive(Clone, Debug)]
pub(crate) struct SentAnswer {
    /// The unique comment of this answer.
    pub mark: String,
    pub by: String,
    pub outcome: Outcome,
}

/// The commands that clients sent to a run whose start was acknowledged.
#[derive(Clone, Debug, Default)]
pub(crate) struct KnownRun {
    pub answers: Vec<SentAnswer>,
    pub cancel: Option<Outcome>,
}

/// The outcomes that the clients know.
#[derive(Debug, Default)]
pub(crate) struct Journal {
    pub runs: Mutex<BTreeMap<String, KnownRun>>,
    /// The times of acknowledgements.
    pub acknowledged: Mutex<Vec<Instant>>,
    /// Requests without a certain outcome.
    pub unknown: AtomicU64,
    pub raced: AtomicU64,
    /// Responses that violate a rule.
    pub wrong: Mutex<Vec<String>>,
}

impl Journal {
    fn report_violation(&self, what: String) {
        self.wrong.lock().unwrap().push(what);
    }
}

/// The addresses of the nodes, and two principals with their keys.
pub(crate) struct Fleet {
    pub urls: RwLock<Vec<String>>,
    pub callers: [(String, String); 2],
}

/// One caller's connections.
struct Caller<'a> {
    fleet: &'a Fleet,
    journal: &'a Journal,
    who: usize,
    clients: HashMap<String, Client>,
    random: SeededRandom,
}

impl<'a> Caller<'a> {
    fn new(fleet: &'a Fleet, journal: &'a Journal, who: usize, seed: u64) -> Self {
        Self { fleet, journal, who, clients: HashMap::new(), random: SeededRandom::new(seed) }
    }

    /// Sends a request to a random node. Returns `None` if the outcome is unknown.
    fn send(&mut self, method: &str, path: &str, body: &Value) -> Option<Response> {
        let urls = self.fleet.urls.read().unwrap().clone();
        let url = &urls[self.random.index(urls.len())];
        self.clients.retain(|known, _| urls.contains(known));
        let key = &self.fleet.callers[self.who].1;
        let client = || Client::with_timeout(url, Some(key), REQUEST_TIMEOUT);
        let client = self.clients.entry(url.clone()).or_insert_with(client);
        let bytes = body.to_string();
        let answer = client.try_send(method, path, (method == "POST").then_some(bytes.as_bytes()));
        match answer {
            Ok(answer) if answer.status < 500 => {
                if method == "POST" && answer.status < 300 {
                    self.journal.acknowledged.lock().unwrap().push(Instant::now());
                }
                return Some(answer);
            }
            Ok(answer) if answer.status == 503 => {}
            Ok(answer) => self.journal.report_violation(format!("{method} {path}: {answer:?}")),
            Err(_) => {}
        }
        self.journal.unknown.fetch_add(1, Ordering::Relaxed);
        std::thread::sleep(PAUSE_AFTER_TROUBLE);
        None
    }

    fn start(&mut self) -> Option<String> {
        let answer = self.send("POST", "/v1/runs", &json!({"workflowId": "paying"}))?;
        let run = answer.body["runId"].as_str().map(str::to_owned);
        if answer.status != 201 || run.is_none() {
            self.journal.report_violation(format!("a start: {answer:?}"));
        }
        run
    }

    /// Sends an answer until its outcome is known.
    fn answer(&mut self, run: &str, over: &AtomicBool) {
        let (by, mark) = (
            self.fleet.callers[self.who].0.clone(),
            format!("{}-{:x}", self.who, self.random.below(u64::MAX)),
        );
        let body = json!({"resumeValue": {"action": "accept", "comment": mark}});
        let path = format!("/v1/runs/{run}/interrupts/{GATE}");
        let mut outcome = Outcome::Unknown;
        while outcome == Outcome::Unknown && !over.load(Ordering::SeqCst) {
            outcome = match self.send("POST", &path, &body) {
                None => Outcome::Unknown,
                Some(answer) => match (answer.status, answer.code()) {
                    (200, _) => Outcome::Acknowledged,
                    (409, "interrupt_already_resolved") | (422, "interrupt_cancelled") => Outcome::TooLate,
                    _ => {
                        self.journal.report_violation(format!("an answer to {run}: {answer:?}"));
                        return;
                    }
                },
            };
        }
        let mut runs = self.journal.runs.lock().unwrap();
        runs.entry(run.to_owned()).or_default().answers.push(SentAnswer { mark, by, outcome });
    }

    /// Sends one cancellation. One with an unknown outcome is as good a test as an acknowledged one.
    fn cancel(&mut self, run: &str) {
        let outcome = match self.send("POST", &format!("/v1/runs/{run}/cancel"), &json!({})) {
            None => Outcome::Unknown,
            Some(answer) if answer.status == 200 && answer.body["status"] == "cancelled" => {
                Outcome::Acknowledged
            }
            Some(answer) if answer.status == 200 => Outcome::TooLate,
            Some(answer) => {
                return self.journal.report_violation(format!("a cancellation of {run}: {answer:?}"));
            }
        };
        self.journal.runs.lock().unwrap().entry(run.to_owned()).or_default().cancel = Some(outcome);
    }

    /// Checks that a node returns a run whose start was acknowledged.
    fn look(&mut self, run: &str) {
        if let Some(answer) = self.send("GET", &format!("/v1/runs/{run}"), &Value::Null)
            && answer.status != 200
        {
            self.journal.report_violation(format!("{run} was acknowledged, and a node responds: {answer:?}"));
        }
    }
}

/// Sets the flag on drop, also during a panic: the clients would never stop otherwise.
pub(crate) struct SetOnDrop<'a>(pub &'a AtomicBool);

impl Drop for SetOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// Starts and answers runs until `over` is set. The other principal races half of the answers.
pub(crate) fn client(fleet: &Fleet, journal: &Journal, over: &AtomicBool, seed: u64) {
    let mut first = Caller::new(fleet, journal, 0, seed);
    let mut second = Caller::new(fleet, journal, 1, !seed);
    let mut random = SeededRandom::new(seed.rotate_left(32));
    while !over.load(Ordering::SeqCst) {
        let Some(run) = first.start() else { continue };
        journal.runs.lock().unwrap().entry(run.clone()).or_default();
        match random.below(100) {
            0..4 => first.cancel(&run),
            4..8 => {
                first.answer(&run, over);
                second.cancel(&run);
            }
            8..54 => {
                journal.raced.fetch_add(1, Ordering::Relaxed);
                std::thread::scope(|scope| {
                    scope.spawn(|| second.answer(&run, over));
                    first.answer(&run, over);
                });
            }
            54..64 => {
                first.look(&run);
                second.answer(&run, over);
            }
            _ => first.answer(&run, over),
        }
        std::thread::sleep(Duration::from_millis(random.below(PAUSE_MS_MAX)));
    }
}
