//! Three nodes on one PostgreSQL under load while nodes are killed and frozen and the database is restarted. Every
//! acknowledged command is recorded, every interrupt is answered once, every effect happens once, no run is stuck, and
//! the nodes recover without help. `HOLDPOINT_TEST_CHAOS_MINUTES` sets the duration, `HOLDPOINT_TEST_CHAOS_SEED`
//! repeats a sequence of faults, `HOLDPOINT_TEST_CHAOS_REPORT` names a file for the report; `scripts/nodes-chaos` sets
//! all three.

use std::sync::RwLock;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use serde_json::json;

use crate::check::{Findings, check, settle};
use crate::cluster::Cluster;
use crate::harness::{Client, KEY};
use crate::ledger::Ledger;
use crate::load::{CLIENTS, Fleet, Journal, SetOnDrop, client, paying};
use crate::nemesis::{Action, Nemesis};
use crate::node::{Deployment, Node, until};
use crate::random::SeededRandom;
use crate::report::Report;

/// The faults of the short form, in this order.
const SHORT: [Action; 4] = [Action::Kill, Action::Freeze, Action::RestartImmediate, Action::RestartFast];
/// Time to recover between two faults, in milliseconds.
const PAUSE_MS: u64 = 2000;
const QUEUES_MAX: Duration = Duration::from_secs(30);
const DATABASE: &str = "chaos";

#[test]
fn kills_freezes_and_restarts_lose_no_command_repeat_no_effect_and_block_no_run() {
    let setting = |name: &str| std::env::var(name).ok().filter(|text| !text.is_empty());
    let minutes = setting("HOLDPOINT_TEST_CHAOS_MINUTES").map(|text| text.parse::<u64>().unwrap());
    let seed: u64 = setting("HOLDPOINT_TEST_CHAOS_SEED").map_or(1, |text| text.parse().unwrap());
    let folder = tempfile::tempdir().unwrap();
    let mut cluster = Cluster::start();
    let deployment = Deployment::new(&cluster.database(DATABASE), folder.path());
    let mut nodes = deployment.start(3);
    let fleet = fleet(&nodes);
    let journal = Journal::default();
    let (over, began) = (AtomicBool::new(false), Instant::now());
    let faults = std::thread::scope(|scope| {
        let _over = SetOnDrop(&over);
        for number in 0..CLIENTS {
            let (fleet, journal, over) = (&fleet, &journal, &over);
            scope.spawn(move || client(fleet, journal, over, seed.wrapping_mul(1000) + number));
        }
        let mut nemesis = Nemesis {
            cluster: &mut cluster,
            nodes: &mut nodes,
            fleet: &fleet,
            journal: &journal,
            deployment: &deployment,
            random: SeededRandom::new(seed),
            faults: Vec::new(),
        };
        inject_faults(&mut nemesis, minutes.map(|minutes| Duration::from_secs(60 * minutes)));
        nemesis.faults
    });
    let lasted = began.elapsed();
    let clients: Vec<Client> = nodes.iter().map(Node::client).collect();
    let settled = settle(&clients);
    let ledger = Ledger::read(&deployment.ledger());
    let known = journal.runs.lock().unwrap().clone();
    let mut findings = check(&clients, &known, &ledger, &faults);
    findings.wrong.extend(journal.wrong.lock().unwrap().drain(..));
    match settled {
        Ok(left_over) => findings.left_over = left_over,
        Err(stuck) => findings.wrong.push(stuck),
    }
    check_queues(&cluster, &mut findings);
    findings.wrong.extend(nodes.iter_mut().filter_map(Node::ended));
    let report = Report {
        seed,
        began,
        lasted,
        journal: &journal,
        faults: &faults,
        ledger: &ledger,
        findings: &findings,
    };
    publish(&report.text(), setting("HOLDPOINT_TEST_CHAOS_REPORT").as_deref());
    assert_eq!(findings.wrong.len(), 0, "seed {seed}: the report lists the violations");
    assert!(ledger.taken_over() > 0, "no process took over the work of a killed or frozen one");
}

/// Registers the workflow and a key for a second principal, which races the first.
fn fleet(nodes: &[Node]) -> Fleet {
    let client = nodes[0].client();
    assert_eq!(client.put("/v1/workflows/paying", &paying()).status, 201);
    let second = client.post("/v1/keys", &json!({"principal": "second", "addScopes": ["approvals:respond"]}));
    assert_eq!(second.status, 201, "{second:?}");
    let key = second.body["key"].as_str().unwrap().to_owned();
    let urls = nodes.iter().map(|node| node.url.clone()).collect();
    let first = ("bootstrap".to_owned(), KEY.to_owned());
    Fleet { urls: RwLock::new(urls), callers: [first, ("second".to_owned(), key)] }
}

/// Injects the listed faults in the short form. The long form injects every kind once and then random ones until its
/// time is over.
fn inject_faults(nemesis: &mut Nemesis<'_>, time: Option<Duration>) {
    nemesis.pause(PAUSE_MS);
    let Some(time) = time else {
        for action in SHORT {
            nemesis.act(action);
            nemesis.pause(PAUSE_MS);
        }
        return;
    };
    let began = Instant::now();
    let mut count = 0;
    while began.elapsed() < time {
        let index = if count < Action::ALL.len() { count } else { nemesis.random.index(Action::ALL.len()) };
        nemesis.act(Action::ALL[index]);
        nemesis.pause(2 * PAUSE_MS);
        count += 1;
    }
}

/// Checks that the queues are empty after every run has ended. The dispatch of a cancelled run may be closed a little
/// later.
fn check_queues(cluster: &Cluster, findings: &mut Findings) {
    let live = "SELECT dispatch_id, run_id, status, last_error FROM dispatches
        WHERE status IN ('queued', 'claimed', 'dead_letter')";
    for sql in [live, "SELECT * FROM timers", "SELECT * FROM pending"] {
        let mut rows = String::new();
        let empty = until(QUEUES_MAX, || {
            rows = cluster.query(DATABASE, sql);
            rows.is_empty()
        });
        if empty.is_none() {
            findings.wrong.push(format!("rows left in a queue, {sql}:\n{rows}"));
        }
    }
}

fn publish(text: &str, path: Option<&str>) {
    println!("{text}");
    if let Some(path) = path {
        std::fs::write(path, text).unwrap();
    }
}
