//! kill -9 at random instants while clients start and answer runs with durable webhooks: every event is delivered or a
//! dead letter, in the order of its run, with one dedup key, and only to the webhook of its tenant.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Condvar, Mutex};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::harness::{Client, KEY, accept, create_key, gated};
use crate::kills::all_runs;
use crate::random::SeededRandom;
use crate::receiver::{Hook, ReceivedRequest, Receiver, Reply, server_at};
use crate::test_database::{TestDatabase, on_both};

on_both!(every_event_is_delivered_or_dead_lettered_with_kill_9_at_random_instants);

const KILLS: usize = 6;
/// Clients of the first tenant; one more client belongs to another tenant.
const CLIENTS: usize = 3;
/// Runs that each client starts between two kills.
const RUNS: usize = 5;
/// Events that the receiver always rejects; too few to end the webhook.
const ALWAYS_REJECTED: usize = 6;
/// A short lease, so that a test can wait until deliveries of a killed node are claimed again.
pub(crate) const LEASE: [&str; 2] = ["--webhook-lease", "6s"];
pub(crate) const EVENTS: [&str; 5] =
    ["run.started", "node.completed", "interrupt.requested", "interrupt.resolved", "run.completed"];

fn every_event_is_delivered_or_dead_lettered_with_kill_9_at_random_instants(database: &TestDatabase) {
    let seed = seed();
    println!("{}: HOLDPOINT_TEST_SEED={seed}", database.engine());
    let mut random = SeededRandom::new(seed);
    let (ours, theirs) =
        (Receiver::with_reply(unreliable_replies(seed)), Receiver::with_reply(unreliable_replies(!seed)));
    let mut server = server_at(database, &LEASE);
    let key = create_key(&server.client, &json!({"tenant": "elsewhere"}));
    let key = key["key"].as_str().unwrap().to_owned();
    let hook = subscribe(&server.client, &ours.url);
    let their_hook = subscribe(&server.client.with_key(Some(&key)), &theirs.url);
    let control = LoadControl::new(&server.url);
    std::thread::scope(|scope| {
        let end = StopOnDrop(&control);
        let keys = std::iter::repeat_n(KEY, CLIENTS).chain([key.as_str()]);
        let clients: Vec<_> = keys.map(|key| scope.spawn(|| busy_client(&control, key))).collect();
        for _ in 0..KILLS {
            // Deliveries are in flight at this time, and clients still have runs to start.
            let count = ours.requests().len() + 1 + random.index(RUNS * EVENTS.len());
            ours.wait_for(count);
            server.kill();
            server = server_at(database, &LEASE);
            control.continue_at(&server.url);
        }
        clients.into_iter().for_each(|client| client.join().unwrap());
        drop(end);
    });
    let client = Client::new(&server.url, Some(KEY));
    let check = DeliveryCheck::wait_and_check(&client, &hook, "default", &ours);
    println!("{}: {check:?} over {KILLS} kills", database.engine());
    assert!(check.events >= CLIENTS * RUNS * EVENTS.len(), "the clients completed too few runs");
    assert!(check.dead_letters > 0, "there is no dead letter");
    let elsewhere =
        DeliveryCheck::wait_and_check(&client.with_key(Some(&key)), &their_hook, "elsewhere", &theirs);
    assert!(elsewhere.events >= RUNS * EVENTS.len());
}

fn seed() -> u64 {
    let given = std::env::var("HOLDPOINT_TEST_SEED").ok();
    given.map_or_else(
        || {
            let mut bytes = [0; 8];
            getrandom::fill(&mut bytes).unwrap();
            u64::from_le_bytes(bytes)
        },
        |text| text.parse().unwrap(),
    )
}

/// Mostly accepts; sometimes fails or closes the connection; always rejects a few events.
fn unreliable_replies(seed: u64) -> impl FnMut(&ReceivedRequest) -> Reply + Send {
    let (mut random, mut rejected) = (SeededRandom::new(seed), BTreeSet::new());
    move |one| {
        let name = one.header("x-openwop-dedup-key");
        if rejected.len() < ALWAYS_REJECTED && random.below(10) == 0 {
            rejected.insert(name.to_owned());
        }
        match random.below(20) {
            _ if rejected.contains(name) => Reply::Status(500),
            0 | 1 => Reply::Status(500),
            2 => Reply::HangUp,
            _ => Reply::Status(200),
        }
    }
}

/// Registers the workflow and a webhook for its events.
pub(crate) fn subscribe(client: &Client, url: &str) -> Hook {
    assert_eq!(client.put("/v1/workflows/gated", &gated("gated")).status, 201);
    let policy = json!({"maxAttempts": 4, "backoff": "fixed", "baseMs": 5, "maxMs": 50});
    Hook::create(client, url, json!({"events": EVENTS, "durable": true, "retryPolicy": policy}))
}

/// The address of the server and the number of runs that each client may have started.
struct LoadControl {
    now: Mutex<LoadState>,
    changed: Condvar,
}

struct LoadState {
    url: String,
    runs: usize,
    over: bool,
}

impl LoadControl {
    fn new(url: &str) -> Self {
        Self {
            now: Mutex::new(LoadState { url: url.to_owned(), runs: RUNS, over: false }),
            changed: Condvar::new(),
        }
    }

    fn continue_at(&self, url: &str) {
        let mut now = self.now.lock().unwrap();
        url.clone_into(&mut now.url);
        now.runs += RUNS;
        self.changed.notify_all();
    }

    fn client(&self, key: &str) -> Option<Client> {
        let now = self.now.lock().unwrap();
        (!now.over).then(|| Client::new(&now.url, Some(key)))
    }

    /// Waits until a client that has started this number of runs may start another. Returns false at the end of the
    /// test.
    fn wait(&self, started: usize) -> bool {
        let now = self.changed.wait_while(self.now.lock().unwrap(), |now| !now.over && started >= now.runs);
        !now.unwrap().over
    }
}

/// Stops the clients on drop, also if the test fails.
struct StopOnDrop<'a>(&'a LoadControl);

impl Drop for StopOnDrop<'_> {
    fn drop(&mut self) {
        self.0.now.lock().unwrap().over = true;
        self.0.changed.notify_all();
    }
}

/// Starts and answers runs. After a network error the outcome is unknown. A run whose id was lost stays open.
fn busy_client(control: &LoadControl, key: &str) {
    let mut started = 0;
    while started < RUNS * (KILLS + 1) && control.wait(started) {
        let Some(client) = control.client(key) else { return };
        let Ok(made) = client.try_send("POST", "/v1/runs", Some(br#"{"workflowId":"gated"}"#)) else {
            continue;
        };
        let Some(run) = made.body["runId"].as_str() else { continue };
        started += 1;
        let path = format!("/v1/runs/{run}/interrupts/gate");
        let body = json!({"resumeValue": accept()}).to_string();
        while let Some(client) = control.client(key) {
            match client.try_send("POST", &path, Some(body.as_bytes())) {
                // A conflict: an earlier attempt succeeded although its response was lost.
                Ok(answer) if answer.status == 200 || answer.status == 409 => break,
                Ok(answer) if answer.status < 500 => panic!("{answer:?}"),
                Ok(_) | Err(_) => {}
            }
        }
    }
}

/// A run and the sequence of an event.
type EventPosition = (String, u64);

/// The result of the check of all deliveries of a webhook.
#[derive(Debug)]
pub(crate) struct DeliveryCheck {
    pub events: usize,
    pub requests: usize,
    pub dead_letters: usize,
    /// Requests for events that were accepted before.
    pub repeats: usize,
}

impl DeliveryCheck {
    /// Waits until no delivery is pending, and compares the requests of the receiver with the logs of all runs of the
    /// tenant.
    pub(crate) fn wait_and_check(client: &Client, hook: &Hook, tenant: &str, receiver: &Receiver) -> Self {
        let deliveries = wait_until_ended(client, hook);
        let requests = receiver.requests();
        let expected = logged_events(client);
        let position = |shown: &Value| -> EventPosition {
            (shown["runId"].as_str().unwrap().to_owned(), shown["sequence"].as_u64().unwrap())
        };
        let in_state = |state: &str| -> BTreeSet<EventPosition> {
            deliveries.iter().filter(|one| one["state"] == state).map(position).collect()
        };
        let (delivered, dead) = (in_state("delivered"), in_state("dead-lettered"));
        let (mut accepted, mut seen, mut repeats) = (BTreeSet::new(), BTreeMap::new(), 0);
        let mut last: BTreeMap<String, u64> = BTreeMap::new();
        for one in &requests {
            let body = one.json();
            assert_eq!(
                (one.header("x-openwop-webhook-id"), &body["workspaceId"]),
                (&*hook.id, &json!(tenant))
            );
            assert!(one.is_signed_with(&hook.secret));
            let run = body["runId"].as_str().unwrap().to_owned();
            let at = (run.clone(), body["event"]["sequence"].as_u64().unwrap());
            let name = one.header("x-openwop-dedup-key").to_owned();
            let known = seen.entry(at.clone()).or_insert_with(|| {
                let before = last.insert(run, at.1);
                assert!(before < Some(at.1), "{at:?} came for the first time after {before:?}");
                name.clone()
            });
            assert_eq!(*known, name, "{at:?} has one dedup key");
            if one.is_accepted() && !accepted.insert(at) {
                repeats += 1;
            }
        }
        let names: BTreeSet<&String> = seen.values().collect();
        assert_eq!(names.len(), seen.len(), "each event has its own dedup key");
        assert_eq!(
            &accepted | &dead,
            expected,
            "each event was accepted or is a dead letter, and no other was sent"
        );
        assert_eq!(&delivered | &dead, expected, "the API shows the same deliveries");
        assert!(delivered.is_subset(&accepted), "each delivery with the state delivered was accepted");
        Self { events: expected.len(), requests: requests.len(), dead_letters: dead.len(), repeats }
    }
}

/// Returns all deliveries of a webhook after the last has ended.
fn wait_until_ended(client: &Client, hook: &Hook) -> Vec<Value> {
    let until = Instant::now() + Duration::from_secs(60);
    loop {
        let deliveries = all_deliveries(client, hook);
        let pending: Vec<&Value> = deliveries.iter().filter(|one| one.get("endedAt").is_none()).collect();
        if pending.is_empty() {
            return deliveries;
        }
        assert!(Instant::now() < until, "{} are stuck, such as {}", pending.len(), pending[0]);
        // Waits for the oldest pending delivery before the next check.
        let oldest = pending[pending.len() - 1]["deliveryId"].as_str().unwrap();
        let path = format!("/deliveries/{oldest}");
        hook.wait_until(client, &path, |one| one.get("endedAt").is_some());
    }
}

fn all_deliveries(client: &Client, hook: &Hook) -> Vec<Value> {
    let (mut all, mut cursor) = (Vec::new(), String::new());
    loop {
        let mut page = client.get(&format!("{}/deliveries?limit=200{cursor}", hook.path())).body;
        all.append(page["deliveries"].as_array_mut().unwrap());
        match page["nextCursor"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => return all,
        }
    }
}

/// Returns all logged events that the webhook subscribes to.
fn logged_events(client: &Client) -> BTreeSet<EventPosition> {
    let wanted = |event: &Value| EVENTS.iter().any(|kind| event["type"] == *kind);
    let of_run = |run: String| {
        let log = client.events(&run);
        log.into_iter().filter(wanted).map(move |event| (run.clone(), event["sequence"].as_u64().unwrap()))
    };
    all_runs(client).into_iter().flat_map(of_run).collect()
}
