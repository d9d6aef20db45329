//! kill -9 at random instants while runs are started and answered and durable webhooks are told of them: every event is
//! delivered or a dead letter, in the order of its run, under one name, and to nobody else.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Condvar, Mutex};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::dice::Dice;
use crate::harness::{Client, KEY, accept, gated, made_key};
use crate::kills::all_runs;
use crate::place::{Place, on_both};
use crate::receiver::{Delivered, Hook, Receiver, Reply, server_at};

on_both!(every_event_is_delivered_or_a_dead_letter_whatever_is_killed);

const KILLS: usize = 6;
/// Of the first tenant; another client belongs to another.
const CLIENTS: usize = 3;
/// That each client starts between two kills.
const RUNS: usize = 5;
/// Events that the receiver never takes; too few to give the subscription up.
const DOOMED: usize = 6;
/// Short, so that what a dead node had in hand is waited for in a test.
pub(crate) const LEASE: [&str; 2] = ["--webhook-lease", "6s"];
pub(crate) const EVENTS: [&str; 5] =
    ["run.started", "node.completed", "interrupt.requested", "interrupt.resolved", "run.completed"];

fn every_event_is_delivered_or_a_dead_letter_whatever_is_killed(place: &Place) {
    let seed = seed();
    println!("{}: HOLDPOINT_TEST_SEED={seed}", place.engine());
    let mut dice = Dice::new(seed);
    let (ours, theirs) = (Receiver::deciding(moody(seed)), Receiver::deciding(moody(!seed)));
    let mut server = server_at(place, &LEASE);
    let key = made_key(&server.client, &json!({"tenant": "elsewhere"}));
    let key = key["key"].as_str().unwrap().to_owned();
    let hook = subscribed(&server.client, &ours.url);
    let their_hook = subscribed(&server.client.with_key(Some(&key)), &theirs.url);
    let stage = Stage::new(&server.url);
    std::thread::scope(|scope| {
        let end = AtEnd(&stage);
        let keys = std::iter::repeat_n(KEY, CLIENTS).chain([key.as_str()]);
        let clients: Vec<_> = keys.map(|key| scope.spawn(|| busy_client(&stage, key))).collect();
        for _ in 0..KILLS {
            // Deliveries are under way then, and more to come: a client has more to do than this.
            let heard = ours.so_far().len() + 1 + dice.index(RUNS * EVENTS.len());
            ours.wait_for(heard);
            server.kill();
            server = server_at(place, &LEASE);
            stage.go_on(&server.url);
        }
        clients.into_iter().for_each(|client| client.join().unwrap());
        drop(end);
    });
    let client = Client::new(&server.url, Some(KEY));
    let account = Account::close(&client, &hook, "default", &ours);
    println!("{}: {account:?} over {KILLS} kills", place.engine());
    assert!(account.events >= CLIENTS * RUNS * EVENTS.len(), "the clients got something done");
    assert!(account.dead_letters > 0, "the receiver refused something for good");
    let elsewhere = Account::close(&client.with_key(Some(&key)), &their_hook, "elsewhere", &theirs);
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

/// Mostly takes what comes; sometimes it fails, sometimes it hangs up, and a few events it never takes.
fn moody(seed: u64) -> impl FnMut(&Delivered) -> Reply + Send {
    let (mut dice, mut doomed) = (Dice::new(seed), BTreeSet::new());
    move |one| {
        let name = one.header("x-openwop-dedup-key");
        if doomed.len() < DOOMED && dice.below(10) == 0 {
            doomed.insert(name.to_owned());
        }
        match dice.below(20) {
            _ if doomed.contains(name) => Reply::Status(500),
            0 | 1 => Reply::Status(500),
            2 => Reply::HangUp,
            _ => Reply::Status(200),
        }
    }
}

/// Registers the workflow, and a subscription to what it does.
pub(crate) fn subscribed(client: &Client, url: &str) -> Hook {
    assert_eq!(client.put("/v1/workflows/gated", &gated("gated")).status, 201);
    let policy = json!({"maxAttempts": 4, "backoff": "fixed", "baseMs": 5, "maxMs": 50});
    Hook::add(client, url, json!({"events": EVENTS, "durable": true, "retryPolicy": policy}))
}

/// Where the server is, and how much the clients may have done by now.
struct Stage {
    now: Mutex<Scene>,
    news: Condvar,
}

struct Scene {
    url: String,
    runs: usize,
    over: bool,
}

impl Stage {
    fn new(url: &str) -> Self {
        Self { now: Mutex::new(Scene { url: url.to_owned(), runs: RUNS, over: false }), news: Condvar::new() }
    }

    fn go_on(&self, url: &str) {
        let mut now = self.now.lock().unwrap();
        url.clone_into(&mut now.url);
        now.runs += RUNS;
        self.news.notify_all();
    }

    fn client(&self, key: &str) -> Option<Client> {
        let now = self.now.lock().unwrap();
        (!now.over).then(|| Client::new(&now.url, Some(key)))
    }

    /// Waits until somebody who has started so many runs may start another. False when there is nothing more to do.
    fn wait(&self, started: usize) -> bool {
        let now = self.news.wait_while(self.now.lock().unwrap(), |now| !now.over && started >= now.runs);
        !now.unwrap().over
    }
}

/// A test that fails must not leave its clients waiting.
struct AtEnd<'a>(&'a Stage);

impl Drop for AtEnd<'_> {
    fn drop(&mut self) {
        self.0.now.lock().unwrap().over = true;
        self.0.news.notify_all();
    }
}

/// Starts and answers runs. An error of the network means: perhaps. A run whose id was lost waits for ever.
fn busy_client(stage: &Stage, key: &str) {
    let mut started = 0;
    while started < RUNS * (KILLS + 1) && stage.wait(started) {
        let Some(client) = stage.client(key) else { return };
        let Ok(made) = client.try_send("POST", "/v1/runs", Some(br#"{"workflowId":"gated"}"#)) else {
            continue;
        };
        let Some(run) = made.body["runId"].as_str() else { continue };
        started += 1;
        let path = format!("/v1/runs/{run}/interrupts/gate");
        let body = json!({"resumeValue": accept()}).to_string();
        while let Some(client) = stage.client(key) {
            match client.try_send("POST", &path, Some(body.as_bytes())) {
                // A conflict: an earlier try had counted although its answer was lost.
                Ok(answer) if answer.status == 200 || answer.status == 409 => break,
                Ok(answer) if answer.status < 500 => panic!("{answer:?}"),
                Ok(_) | Err(_) => {}
            }
        }
    }
}

/// A run and a number in its log.
type Spot = (String, u64);

/// What came of everything that a subscriber was to be told.
#[derive(Debug)]
pub(crate) struct Account {
    pub events: usize,
    pub requests: usize,
    pub dead_letters: usize,
    /// Requests for what had been taken before.
    pub repeats: usize,
}

impl Account {
    /// Waits until nothing is pending, and holds what the receiver heard against the logs of all runs of the tenant.
    pub(crate) fn close(client: &Client, hook: &Hook, tenant: &str, receiver: &Receiver) -> Self {
        let deliveries = until_ended(client, hook);
        let heard = receiver.so_far();
        let expected = in_the_logs(client);
        let place = |shown: &Value| -> Spot {
            (shown["runId"].as_str().unwrap().to_owned(), shown["sequence"].as_u64().unwrap())
        };
        let in_state = |state: &str| -> BTreeSet<Spot> {
            deliveries.iter().filter(|one| one["state"] == state).map(place).collect()
        };
        let (delivered, dead) = (in_state("delivered"), in_state("dead-lettered"));
        let (mut taken, mut seen, mut repeats) = (BTreeSet::new(), BTreeMap::new(), 0);
        let mut last: BTreeMap<String, u64> = BTreeMap::new();
        for one in &heard {
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
            assert_eq!(*known, name, "{at:?} has one name");
            if one.is_taken() && !taken.insert(at) {
                repeats += 1;
            }
        }
        let names: BTreeSet<&String> = seen.values().collect();
        assert_eq!(names.len(), seen.len(), "and no other has it");
        assert_eq!(
            &taken | &dead,
            expected,
            "everything was taken or is a dead letter, and nothing else was sent"
        );
        assert_eq!(&delivered | &dead, expected, "which is what operators see");
        assert!(delivered.is_subset(&taken), "what is said to be delivered was");
        Self { events: expected.len(), requests: heard.len(), dead_letters: dead.len(), repeats }
    }
}

/// All deliveries of a subscription, when the last has ended. What has ended stays so.
fn until_ended(client: &Client, hook: &Hook) -> Vec<Value> {
    let until = Instant::now() + Duration::from_secs(60);
    loop {
        let deliveries = all_deliveries(client, hook);
        let pending: Vec<&Value> = deliveries.iter().filter(|one| one.get("endedAt").is_none()).collect();
        if pending.is_empty() {
            return deliveries;
        }
        assert!(Instant::now() < until, "{} are stuck, such as {}", pending.len(), pending[0]);
        // Asks again when the oldest of them has moved on, or has had the time to.
        let oldest = pending[pending.len() - 1]["deliveryId"].as_str().unwrap();
        let path = format!("/deliveries/{oldest}");
        hook.until(client, &path, |one| one.get("endedAt").is_some());
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

/// Every event of every run that the subscription is about.
fn in_the_logs(client: &Client) -> BTreeSet<Spot> {
    let wanted = |event: &Value| EVENTS.iter().any(|kind| event["type"] == *kind);
    let of_run = |run: String| {
        let log = client.events(&run);
        log.into_iter().filter(wanted).map(move |event| (run.clone(), event["sequence"].as_u64().unwrap()))
    };
    all_runs(client).into_iter().flat_map(of_run).collect()
}
