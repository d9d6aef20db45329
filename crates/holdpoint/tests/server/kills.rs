//! kill -9 at random instants while clients start and answer runs: every acknowledged request is recorded, no interrupt
//! is opened or answered twice, and no run is stuck. `HOLDPOINT_TEST_KILLS` sets the number of kills;
//! `scripts/kill-loop` sets a large number.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, RwLock};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::harness::{Client, KEY, Server, accept, gated};

const CLIENTS: usize = 4;
const KILLS_DEFAULT: usize = 10;

/// The acknowledged runs by id; true if the answer was acknowledged too.
type Acknowledged = Mutex<BTreeMap<String, bool>>;

#[test]
fn acknowledged_starts_and_answers_survive_kill_9_at_random_instants() {
    let kills =
        std::env::var("HOLDPOINT_TEST_KILLS").ok().map_or(KILLS_DEFAULT, |text| text.parse().unwrap());
    let first = Server::start();
    assert_eq!(first.client.put("/v1/workflows/slow", &slow()).status, 201);
    let url = RwLock::new(first.url.clone());
    let (acknowledged, over) = (Acknowledged::default(), AtomicBool::new(false));
    let last = std::thread::scope(|scope| {
        for _ in 0..CLIENTS {
            scope.spawn(|| busy_client(&url, &acknowledged, &over));
        }
        let last = (0..kills).fold(first, |server, _| {
            // A random instant; no condition is awaited.
            std::thread::sleep(Duration::from_millis(random(150)));
            let next = server.kill_and_restart();
            url.write().unwrap().clone_from(&next.url);
            next
        });
        over.store(true, Ordering::SeqCst);
        last
    });
    let server = last.kill_and_restart();
    let acknowledged = acknowledged.into_inner().unwrap();
    let total = check(&server.client, &acknowledged);
    let answered = acknowledged.values().filter(|answered| **answered).count();
    println!(
        "{kills} kills: {total} runs, {} acknowledged starts, {answered} acknowledged answers",
        acknowledged.len()
    );
    assert!(answered > 0, "the clients completed no request");
}

/// A gate, then a short delay, so that timers are in flight too.
fn slow() -> Value {
    let mut flow = gated("slow");
    flow["nodes"][2]["typeId"] = json!("core.delay");
    flow["nodes"][2]["config"] = json!({"ms": 5});
    flow
}

fn random(below: u64) -> u64 {
    let mut bytes = [0; 8];
    getrandom::fill(&mut bytes).unwrap();
    u64::from_le_bytes(bytes) % below
}

/// Starts and answers runs. After a network error the outcome is unknown, so it repeats the request.
fn busy_client(url: &RwLock<String>, acknowledged: &Acknowledged, over: &AtomicBool) {
    let client = || Client::new(&url.read().unwrap(), Some(KEY));
    while !over.load(Ordering::SeqCst) {
        let created = client().try_send("POST", "/v1/runs", Some(br#"{"workflowId":"slow"}"#));
        let Some(run) = created.ok().and_then(|answer| answer.body["runId"].as_str().map(str::to_owned))
        else {
            continue;
        };
        acknowledged.lock().unwrap().insert(run.clone(), false);
        let path = format!("/v1/runs/{run}/interrupts/gate");
        let body = json!({"resumeValue": accept()}).to_string();
        while !over.load(Ordering::SeqCst) {
            match client().try_send("POST", &path, Some(body.as_bytes())) {
                // A conflict: an earlier attempt succeeded although its response was lost.
                Ok(answer) if answer.status == 200 || answer.status == 409 => {
                    acknowledged.lock().unwrap().insert(run.clone(), true);
                    break;
                }
                Ok(answer) if answer.status < 500 => panic!("{answer:?}"),
                Ok(_) | Err(_) => {}
            }
        }
    }
}

/// Checks every run. Returns their number.
fn check(client: &Client, acknowledged: &BTreeMap<String, bool>) -> usize {
    let runs = all_runs(client);
    for (run, answered) in acknowledged {
        assert!(runs.contains(run), "{run} was acknowledged and is missing");
        if *answered {
            client.answer(run, "gate", &accept()).assert_envelope(409, "interrupt_already_resolved");
        }
    }
    for run in &runs {
        let answer = client.answer(run, "gate", &accept());
        assert!(answer.status == 200 || answer.status == 409, "{answer:?}");
        finish(client, run);
        let log = client.events(run);
        let count = |kind: &str| log.iter().filter(|event| event["type"] == kind).count();
        for kind in
            ["run.started", "interrupt.requested", "interrupt.resolved", "node.resumed", "run.completed"]
        {
            assert_eq!(count(kind), 1, "{kind} of {run}: {log:?}");
        }
        assert_eq!(count("node.completed"), 3, "{log:?}");
        assert!(log.iter().enumerate().all(|(at, event)| event["sequence"] == at), "{log:?}");
    }
    assert_eq!(client.get("/v1/interrupts").body["interrupts"], json!([]));
    runs.len()
}

fn finish(client: &Client, run: &str) {
    let began = Instant::now();
    let mut last = 0;
    loop {
        let page = client.get(&format!("/v1/runs/{run}/events/poll?lastSequence={last}&timeout=10"));
        if page.body["isComplete"] == true {
            return;
        }
        last += page.body["events"].as_array().map_or(0, Vec::len);
        assert!(began.elapsed() < Duration::from_secs(30), "{run} is stuck: {:?}", client.events(run));
    }
}

pub(crate) fn all_runs(client: &Client) -> Vec<String> {
    let (mut runs, mut cursor) = (Vec::new(), String::new());
    loop {
        let page = client.get(&format!("/v1/runs?limit=200{cursor}")).body;
        runs.extend(
            page["runs"].as_array().unwrap().iter().map(|run| run["runId"].as_str().unwrap().to_owned()),
        );
        match page["nextCursor"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => return runs,
        }
    }
}
