//! kill -9 with a deadline ahead: it passes all the same, at its time or as soon as there is a server again, once, and as
//! silence.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use crate::harness::{Client, KEY, Server};
use crate::place::{Place, on_both};
use crate::races::server;
use crate::races_with_silence::{assert_silence, deadline, gated_for};

on_both!(
    a_deadline_that_passes_while_nobody_is_there_fires_with_the_next_start,
    a_deadline_that_is_ahead_after_a_restart_fires_on_time,
    deadlines_fire_once_whatever_is_killed_around_them,
);

/// How late a timer may be on a machine that does much else.
const LATE_MAX: SignedDuration = SignedDuration::from_secs(10);

/// Runs that wait, each with the end of its patience.
fn waiting(client: &Client, runs: usize) -> Vec<(String, Timestamp)> {
    let start = |_| {
        let run = client.start_run("gated");
        let at = deadline(client, &run);
        (run, at)
    };
    (0..runs).map(start).collect()
}

fn sleep_until(instant: Timestamp) {
    // Time itself is what is tried here.
    std::thread::sleep(Duration::try_from(instant.duration_since(Timestamp::now())).unwrap_or_default());
}

fn assert_all_silent(server: &Server, runs: &[(String, Timestamp)], started: Timestamp) {
    let client = Client::new(&server.url, Some(KEY));
    for (run, at) in runs {
        let fired = assert_silence(&client, run, *at);
        let late = fired.duration_since((*at).max(started));
        assert!(late < LATE_MAX, "{run} was to end at {at} and did at {fired}");
    }
    assert_eq!(client.get("/v1/interrupts").body["interrupts"], serde_json::json!([]));
}

fn a_deadline_that_passes_while_nobody_is_there_fires_with_the_next_start(place: &Place) {
    let mut server = server(place, &gated_for(1_000));
    let runs = waiting(&server.client, 8);
    server.kill();
    sleep_until(runs.last().unwrap().1);
    let started = Timestamp::now();
    let server = place.start(&[]);
    assert_all_silent(&server, &runs, started);
}

fn a_deadline_that_is_ahead_after_a_restart_fires_on_time(place: &Place) {
    let server = server(place, &gated_for(2_500));
    let runs = waiting(&server.client, 8);
    let server = place.kill_and_restart(server);
    let back = Timestamp::now();
    let ahead = runs.iter().filter(|(_, at)| *at > back).count();
    println!("{}: {ahead} of {} deadlines were ahead at the restart", place.engine(), runs.len());
    assert_all_silent(&server, &runs, back);
}

fn deadlines_fire_once_whatever_is_killed_around_them(place: &Place) {
    let mut server = server(place, &gated_for(700));
    for round in 0..6 {
        let runs = waiting(&server.client, 6);
        let first = runs[0].1;
        // From just before the first of them to after the last.
        let shift = SignedDuration::from_millis(-15 + round * 8);
        sleep_until(first.checked_add(shift).unwrap());
        server = place.kill_and_restart(server);
        assert_all_silent(&server, &runs, Timestamp::now());
    }
}
