//! Three nodes as one server: what happens at one is seen at the others, and any of them may go.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::sync::RwLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::cluster::Cluster;
use crate::dice::Dice;
use crate::harness::{KEY, accept, gated};
use crate::ledger::Ledger;
use crate::load::{AtEnd, GATE, paying};
use crate::node::{Node, Site, until};

/// How late a reader at another node may be.
const NEWS_MAX: Duration = Duration::from_secs(2);

/// Three nodes on an empty database of a cluster of their own.
pub(crate) struct Trio {
    pub nodes: Vec<Node>,
    pub site: Site,
    _cluster: Cluster,
    _folder: TempDir,
}

impl Trio {
    /// `parameters` are added to the database's address.
    pub(crate) fn start(parameters: &str) -> Self {
        let cluster = Cluster::start();
        let database = format!("{}{parameters}", cluster.database("trio"));
        let folder = tempfile::tempdir().unwrap();
        let site = Site::new(&database, folder.path());
        let nodes = site.start(3);
        Self { nodes, site, _cluster: cluster, _folder: folder }
    }
}

/// A stream of a run's events at one node.
pub(crate) struct Stream(BufReader<TcpStream>);

impl Stream {
    pub(crate) fn open(node: &Node, run: &str) -> Self {
        let mut stream = TcpStream::connect(node.url.strip_prefix("http://").unwrap()).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        let head =
            format!("GET /v1/runs/{run}/events HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {KEY}\r\n\r\n");
        stream.write_all(head.as_bytes()).unwrap();
        Self(BufReader::new(stream))
    }

    /// Reads until an event of this kind has come.
    pub(crate) fn wait_for(&mut self, kind: &str) {
        let mut line = String::new();
        while line.trim_end() != format!("event: {kind}") {
            line.clear();
            assert_ne!(self.0.read_line(&mut line).unwrap(), 0, "the stream ended before {kind}");
        }
    }
}

/// Starts at one node, reads at the second, answers at the third; how late the reader was each time.
pub(crate) fn news(nodes: &[Node], rounds: usize) -> Vec<Duration> {
    let [a, b, c] = nodes else { panic!("three nodes") };
    let put = a.client().put("/v1/workflows/gated", &gated("gated"));
    assert_eq!(put.status, 201, "{put:?}");
    let round = || {
        let run = a.client().start_run("gated");
        let mut stream = Stream::open(b, &run);
        stream.wait_for("interrupt.requested");
        assert_eq!(c.client().answer(&run, "gate", &accept()).status, 200);
        let answered = Instant::now();
        stream.wait_for("run.completed");
        answered.elapsed()
    };
    let mut late: Vec<Duration> = (0..rounds).map(|_| round()).collect();
    late.sort();
    println!("news from another node: median {:?}, at most {:?}", late[rounds / 2], late[rounds - 1]);
    late
}

#[test]
fn a_reader_at_one_node_sees_at_once_what_is_answered_at_another() {
    let trio = Trio::start("?notify=on");
    let late = news(&trio.nodes, 20);
    assert!(*late.last().unwrap() < NEWS_MAX);
    // Without notifications it would be found by looking, once a second: half of it later than half a second.
    assert!(late[late.len() / 2] < Duration::from_millis(250), "{late:?}");
}

#[test]
fn a_reader_sees_it_soon_when_nodes_cannot_notify_each_other() {
    let trio = Trio::start("?notify=off");
    assert!(*news(&trio.nodes, 8).last().unwrap() < NEWS_MAX);
}

#[test]
fn a_timer_set_at_one_node_fires_at_another_when_the_first_is_dead() {
    let mut trio = Trio::start("");
    let mut flow = gated("slow");
    flow["nodes"][2]["typeId"] = json!("core.delay");
    flow["nodes"][2]["config"] = json!({"ms": 1500});
    assert_eq!(trio.nodes[1].client().put("/v1/workflows/slow", &flow).status, 201);
    let client = trio.nodes[0].client();
    let runs: Vec<String> = (0..10).map(|_| client.start_run("slow")).collect();
    for run in &runs {
        assert_eq!(client.answer(run, "gate", &accept()).status, 200);
        assert_eq!(client.status(run), "running");
    }
    trio.nodes[0].kill();
    let client = trio.nodes[1].client();
    let fired = until(Duration::from_secs(10), || runs.iter().all(|run| client.status(run) == "completed"));
    assert!(fired.is_some(), "nobody fired the timers of a dead node");
    for run in &runs {
        let ended = |event: &&Value| event["type"] == "holdpoint.sleep.ended";
        assert_eq!(client.events(run).iter().filter(ended).count(), 1);
    }
}

/// A node that is being restarted is locked; clients take another.
type Slots = Vec<RwLock<Node>>;

#[test]
fn a_rolling_restart_loses_nothing_and_nobody_notices() {
    let mut trio = Trio::start("");
    assert_eq!(trio.nodes[0].client().put("/v1/workflows/paying", &paying()).status, 201);
    let slots: Slots = std::mem::take(&mut trio.nodes).into_iter().map(RwLock::new).collect();
    let over = AtomicBool::new(false);
    let started: Vec<String> = std::thread::scope(|scope| {
        let ending = AtEnd(&over);
        let clients: Vec<_> = [1, 2]
            .map(|seed| {
                scope.spawn({
                    let (slots, over) = (&slots, &over);
                    move || light_load(slots, over, seed)
                })
            })
            .into();
        for slot in &slots {
            // Waits for requests in flight, and holds off new ones.
            let mut node = slot.write().unwrap();
            let ended = node.terminate();
            assert!(ended.success(), "told to stop, it ends well: {ended}");
            node.start_again();
            node.ready();
        }
        drop(ending);
        clients.into_iter().flat_map(|client| client.join().unwrap()).collect()
    });
    let client = slots[0].read().unwrap().client();
    let completed = || started.iter().all(|run| client.status(run) == "completed");
    assert!(until(Duration::from_secs(30), completed).is_some(), "some of {} runs are stuck", started.len());
    let ledger = Ledger::read(&trio.site.ledger());
    for run in &started {
        assert_eq!(ledger.payments_of(run).len(), 1, "{run} is paid once");
    }
    println!("{} runs were started and answered during a rolling restart", started.len());
    assert!(!started.is_empty());
}

/// Starts and answers runs, each request at a node that nobody is restarting. Every one must succeed.
fn light_load(slots: &Slots, over: &AtomicBool, seed: u64) -> Vec<String> {
    let mut dice = Dice::new(seed);
    let mut started = Vec::new();
    let mut at_some_node = |request: &dyn Fn(&Node)| {
        loop {
            if let Ok(node) = slots[dice.index(slots.len())].try_read() {
                return request(&node);
            }
            std::thread::yield_now();
        }
    };
    while !over.load(Ordering::SeqCst) {
        let run = std::cell::RefCell::new(String::new());
        at_some_node(&|node| *run.borrow_mut() = node.client().start_run("paying"));
        let run = run.into_inner();
        at_some_node(&|node| assert_eq!(node.client().answer(&run, GATE, &accept()).status, 200));
        started.push(run);
        // A light load.
        std::thread::sleep(Duration::from_millis(20));
    }
    started
}

#[test]
fn of_three_nodes_that_start_at_once_on_nothing_one_writes_a_key() {
    let cluster = Cluster::start();
    let folder = tempfile::tempdir().unwrap();
    let mut site = Site::new(&cluster.database("fresh"), folder.path());
    site.key = None;
    let nodes = site.start(3);
    let written = |node: &Node| {
        let left: Value =
            serde_json::from_slice(&std::fs::read(node.data().join("client.json")).unwrap()).unwrap();
        left["key"].as_str().map(str::to_owned)
    };
    let keys: Vec<String> = nodes.iter().filter_map(written).collect();
    assert_eq!(keys.len(), 1, "{:?}", nodes.iter().map(|node| &node.said).collect::<Vec<_>>());
    for node in &nodes {
        node.ready();
        node.client().with_key(Some(&keys[0])).start_run("sample-approval");
    }
}
