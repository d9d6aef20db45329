//! Three nodes on one database: each sees the changes of the others, and each can be stopped.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::sync::RwLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::cluster::Cluster;
use crate::harness::{KEY, accept, gated};
use crate::ledger::Ledger;
use crate::load::{GATE, SetOnDrop, paying};
use crate::node::{Deployment, Node, until};
use crate::random::SeededRandom;

/// Longest delay until a reader at another node sees a change.
const DELAY_MAX: Duration = Duration::from_secs(2);

/// Three nodes on an empty database of a new PostgreSQL server.
pub(crate) struct ThreeNodes {
    pub nodes: Vec<Node>,
    pub deployment: Deployment,
    _cluster: Cluster,
    _folder: TempDir,
}

impl ThreeNodes {
    /// Starts the nodes. `parameters` are added to the address of the database.
    pub(crate) fn start(parameters: &str) -> Self {
        let cluster = Cluster::start();
        let database = format!("{}{parameters}", cluster.database("three_nodes"));
        let folder = tempfile::tempdir().unwrap();
        let deployment = Deployment::new(&database, folder.path());
        let nodes = deployment.start(3);
        Self { nodes, deployment, _cluster: cluster, _folder: folder }
    }
}

/// A stream of the events of a run at one node.
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

    /// Reads until an event of this kind arrives.
    pub(crate) fn wait_for(&mut self, kind: &str) {
        let mut line = String::new();
        while line.trim_end() != format!("event: {kind}") {
            line.clear();
            assert_ne!(self.0.read_line(&mut line).unwrap(), 0, "the stream ended before {kind}");
        }
    }
}

/// Starts runs at one node, reads at the second and answers at the third. Returns the sorted delays of the reader.
pub(crate) fn measure_delays(nodes: &[Node], rounds: usize) -> Vec<Duration> {
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
    println!("delay at another node: median {:?}, at most {:?}", late[rounds / 2], late[rounds - 1]);
    late
}

#[test]
fn a_reader_at_one_node_sees_an_answer_at_another_at_once() {
    let three_nodes = ThreeNodes::start("?notify=on");
    let late = measure_delays(&three_nodes.nodes, 20);
    assert!(*late.last().unwrap() < DELAY_MAX);
    // Without notifications a node polls once a second: the median would be half a second.
    assert!(late[late.len() / 2] < Duration::from_millis(250), "{late:?}");
}

#[test]
fn a_reader_sees_an_answer_within_two_seconds_without_notifications() {
    let three_nodes = ThreeNodes::start("?notify=off");
    assert!(*measure_delays(&three_nodes.nodes, 8).last().unwrap() < DELAY_MAX);
}

#[test]
fn a_timer_set_at_one_node_fires_at_another_when_the_first_is_dead() {
    let mut three_nodes = ThreeNodes::start("");
    let mut flow = gated("slow");
    flow["nodes"][2]["typeId"] = json!("core.delay");
    flow["nodes"][2]["config"] = json!({"ms": 1500});
    assert_eq!(three_nodes.nodes[1].client().put("/v1/workflows/slow", &flow).status, 201);
    let client = three_nodes.nodes[0].client();
    let runs: Vec<String> = (0..10).map(|_| client.start_run("slow")).collect();
    for run in &runs {
        assert_eq!(client.answer(run, "gate", &accept()).status, 200);
        assert_eq!(client.status(run), "running");
    }
    three_nodes.nodes[0].kill();
    let client = three_nodes.nodes[1].client();
    let fired = until(Duration::from_secs(10), || runs.iter().all(|run| client.status(run) == "completed"));
    assert!(fired.is_some(), "no node fired the timers of a dead node");
    for run in &runs {
        let ended = |event: &&Value| event["type"] == "holdpoint.sleep.ended";
        assert_eq!(client.events(run).iter().filter(ended).count(), 1);
    }
}

/// The nodes. A node that is being restarted is locked, and clients take another.
type Slots = Vec<RwLock<Node>>;

#[test]
fn a_rolling_restart_fails_no_request_and_loses_no_run() {
    let mut three_nodes = ThreeNodes::start("");
    assert_eq!(three_nodes.nodes[0].client().put("/v1/workflows/paying", &paying()).status, 201);
    let slots: Slots = std::mem::take(&mut three_nodes.nodes).into_iter().map(RwLock::new).collect();
    let over = AtomicBool::new(false);
    let started: Vec<String> = std::thread::scope(|scope| {
        let ending = SetOnDrop(&over);
        let clients: Vec<_> = [1, 2]
            .map(|seed| {
                scope.spawn({
                    let (slots, over) = (&slots, &over);
                    move || light_load(slots, over, seed)
                })
            })
            .into();
        for slot in &slots {
            // Waits for requests in flight and delays new ones.
            let mut node = slot.write().unwrap();
            let ended = node.terminate();
            assert!(ended.success(), "the exit status after SIGTERM: {ended}");
            node.start_again();
            node.ready();
        }
        drop(ending);
        clients.into_iter().flat_map(|client| client.join().unwrap()).collect()
    });
    let client = slots[0].read().unwrap().client();
    let completed = || started.iter().all(|run| client.status(run) == "completed");
    assert!(until(Duration::from_secs(30), completed).is_some(), "some of {} runs are stuck", started.len());
    let ledger = Ledger::read(&three_nodes.deployment.ledger());
    for run in &started {
        assert_eq!(ledger.payments_of(run).len(), 1, "{run} is paid once");
    }
    println!("{} runs were started and answered during a rolling restart", started.len());
    assert!(!started.is_empty());
}

/// Starts and answers runs at nodes that are not being restarted. Every request must succeed.
fn light_load(slots: &Slots, over: &AtomicBool, seed: u64) -> Vec<String> {
    let mut random = SeededRandom::new(seed);
    let mut started = Vec::new();
    let mut at_some_node = |request: &dyn Fn(&Node)| {
        loop {
            if let Ok(node) = slots[random.index(slots.len())].try_read() {
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
        std::thread::sleep(Duration::from_millis(20));
    }
    started
}

#[test]
fn exactly_one_of_three_nodes_that_start_on_an_empty_database_creates_a_key() {
    let cluster = Cluster::start();
    let folder = tempfile::tempdir().unwrap();
    let mut deployment = Deployment::new(&cluster.database("fresh"), folder.path());
    deployment.key = None;
    let nodes = deployment.start(3);
    let written = |node: &Node| {
        let left: Value =
            serde_json::from_slice(&std::fs::read(node.data().join("client.json")).unwrap()).unwrap();
        left["key"].as_str().map(str::to_owned)
    };
    let keys: Vec<String> = nodes.iter().filter_map(written).collect();
    assert_eq!(keys.len(), 1, "{:?}", nodes.iter().map(|node| &node.printed).collect::<Vec<_>>());
    for node in &nodes {
        node.ready();
        node.client().with_key(Some(&keys[0])).start_run("sample-approval");
    }
}
