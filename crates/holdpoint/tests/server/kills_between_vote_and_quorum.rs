//! kill -9 after votes and before the quorum: an acknowledged vote counts after the restart, and a repeated vote counts
//! once.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Value, json};

use crate::harness::{Client, KEY, Server, accept, create_key};
use crate::races::{assert_ended, count, server};
use crate::races_between_votes::two_of_three;
use crate::test_database::{TestDatabase, on_both};

on_both!(an_acknowledged_vote_counts_once_after_kill_9);

const KILLS: usize = 8;
const RUNS: usize = 12;

fn an_acknowledged_vote_counts_once_after_kill_9(database: &TestDatabase) {
    let mut server = server(database, &two_of_three());
    let keys = ["ann", "bob"].map(|name| {
        create_key(&server.client, &json!({"principal": name}))["key"].as_str().unwrap().to_owned()
    });
    let (mut acknowledged_count, mut unknown) = (0, 0);
    for kill in 0..KILLS {
        let runs: Vec<String> = (0..RUNS).map(|_| server.client.start_run("gated")).collect();
        let votes = vote_during_kill(&mut server, &keys[0], &runs, kill as u64);
        server = database.start(&[]);
        let admin = Client::new(&server.url, Some(KEY));
        for run in &runs {
            let acknowledged = votes.get(run).copied();
            let [ann, bob] = keys.each_ref().map(|key| admin.with_key(Some(key)));
            check(&admin, &ann, &bob, run, acknowledged);
        }
        acknowledged_count += votes.values().filter(|acknowledged| **acknowledged).count();
        unknown += votes.values().filter(|acknowledged| !**acknowledged).count();
    }
    println!(
        "{}: {acknowledged_count} votes acknowledged before {KILLS} kills, {unknown} unknown",
        database.engine()
    );
    assert!(acknowledged_count >= KILLS, "each kill comes after a vote");
}

/// Votes on one run after the other until the server is killed. Returns the runs it voted on, true if the vote was
/// acknowledged.
fn vote_during_kill(server: &mut Server, key: &str, runs: &[String], round: u64) -> BTreeMap<String, bool> {
    let voter = Client::new(&server.url, Some(key));
    let body = json!({"resumeValue": accept()}).to_string();
    let vote = |run: &String| {
        let path = format!("/v1/runs/{run}/interrupts/gate");
        voter.try_send("POST", &path, Some(body.as_bytes())).is_ok_and(|answer| {
            assert_eq!((answer.status, &answer.body["outcome"]), (200, &json!("voted")), "{answer:?}");
            true
        })
    };
    let mut votes = BTreeMap::from([(runs[0].clone(), vote(&runs[0]))]);
    std::thread::scope(|scope| {
        let voting = scope.spawn(|| {
            let mut votes = BTreeMap::new();
            for run in &runs[1..] {
                let acknowledged = vote(run);
                votes.insert(run.clone(), acknowledged);
                if !acknowledged {
                    break;
                }
            }
            votes
        });
        // The kill comes at different instants; no condition is awaited.
        std::thread::sleep(Duration::from_millis(round * 3));
        server.kill();
        votes.extend(voting.join().unwrap());
    });
    votes
}

/// Checks one run. `acknowledged` is `None` if no vote was sent.
fn check(admin: &Client, ann: &Client, bob: &Client, run: &str, acknowledged: Option<bool>) {
    let cast = |log: &[Value]| count(log, "holdpoint.vote.cast");
    let before = cast(&admin.events(run));
    match acknowledged {
        Some(true) => assert_eq!(before, 1, "{run} has lost a vote"),
        Some(false) => assert!(before <= 1, "{run} has too many votes"),
        None => assert_eq!(before, 0, "no vote was sent for {run}"),
    }
    let again = ann.answer(run, "gate", &accept());
    let outcome = if before == 1 { "repeated" } else { "voted" };
    assert_eq!((again.status, &again.body["outcome"]), (200, &json!(outcome)), "{again:?}");
    assert_eq!(again.body["votes"].as_array().unwrap().len(), 1, "one principal has one vote: {again:?}");
    assert_eq!(admin.status(run), "waiting-approval");
    assert_eq!(bob.answer(run, "gate", &accept()).body["outcome"], "resolved");
    assert_ended(admin, run, "completed", 1);
    let log = admin.events(run);
    assert_eq!((cast(&log), count(&log, "holdpoint.vote.repeated")), (1, before));
    let received = log.iter().find(|event| event["type"] == "approval.received").unwrap();
    assert_eq!(received["payload"]["quorum"]["approvals"], 2, "{log:?}");
}
