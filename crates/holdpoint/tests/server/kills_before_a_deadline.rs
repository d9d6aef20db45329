//! kill -9 before a deadline: the interrupt expires once, at its time or at the next start of the server.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use crate::harness::{Client, KEY, Server};
use crate::races::server;
use crate::races_with_expiry::{assert_expired, deadline, gated_for};
use crate::test_database::{TestDatabase, on_both};

on_both!(
    a_deadline_that_passes_while_no_server_runs_fires_at_the_next_start,
    a_deadline_after_the_restart_fires_on_time,
    deadlines_fire_once_with_kill_9_around_them,
);

/// Longest delay of a timer on a busy machine.
const LATE_MAX: SignedDuration = SignedDuration::from_secs(10);

/// Starts waiting runs. Returns each with its deadline.
fn waiting(client: &Client, runs: usize) -> Vec<(String, Timestamp)> {
    let start = |_| {
        let run = client.start_run("gated");
        let at = deadline(client, &run);
        (run, at)
    };
    (0..runs).map(start).collect()
}

fn sleep_until(instant: Timestamp) {
    // The test needs real time to pass.
    std::thread::sleep(Duration::try_from(instant.duration_since(Timestamp::now())).unwrap_or_default());
}

fn assert_all_expired(server: &Server, runs: &[(String, Timestamp)], started: Timestamp) {
    let client = Client::new(&server.url, Some(KEY));
    for (run, at) in runs {
        let fired = assert_expired(&client, run, *at);
        let late = fired.duration_since((*at).max(started));
        assert!(late < LATE_MAX, "{run} had to expire at {at} and expired at {fired}");
    }
    assert_eq!(client.get("/v1/interrupts").body["interrupts"], serde_json::json!([]));
}

fn a_deadline_that_passes_while_no_server_runs_fires_at_the_next_start(database: &TestDatabase) {
    let mut server = server(database, &gated_for(1_000));
    let runs = waiting(&server.client, 8);
    server.kill();
    sleep_until(runs.last().unwrap().1);
    let started = Timestamp::now();
    let server = database.start(&[]);
    assert_all_expired(&server, &runs, started);
}

fn a_deadline_after_the_restart_fires_on_time(database: &TestDatabase) {
    let server = server(database, &gated_for(2_500));
    let runs = waiting(&server.client, 8);
    let server = database.kill_and_restart(server);
    let back = Timestamp::now();
    let ahead = runs.iter().filter(|(_, at)| *at > back).count();
    println!("{}: {ahead} of {} deadlines were ahead at the restart", database.engine(), runs.len());
    assert_all_expired(&server, &runs, back);
}

fn deadlines_fire_once_with_kill_9_around_them(database: &TestDatabase) {
    let mut server = server(database, &gated_for(700));
    for round in 0..6 {
        let runs = waiting(&server.client, 6);
        let first = runs[0].1;
        // From just before the first deadline to after the last.
        let shift = SignedDuration::from_millis(-15 + round * 8);
        sleep_until(first.checked_add(shift).unwrap());
        server = database.kill_and_restart(server);
        assert_all_expired(&server, &runs, Timestamp::now());
    }
}
