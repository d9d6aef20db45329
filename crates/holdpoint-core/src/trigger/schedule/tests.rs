//! Tests of the instants of schedules: time zones, missed instants and invalid expressions.

use super::*;

fn at(text: &str) -> Timestamp {
    Timestamp::parse_rfc3339(text).expect("an instant")
}

fn instants(cron: &str, zone: &str, after: &str, count: usize) -> Vec<String> {
    let found = Schedule::parse(cron, zone).expect("a schedule").preview(at(after), count);
    found.iter().map(|at| at.to_string().replace(":00.000Z", "Z")).collect()
}

fn refused(cron: &str, zone: &str) -> String {
    Schedule::parse(cron, zone).expect_err("the schedule is invalid").to_string()
}

#[test]
fn an_instant_follows_the_clock_of_its_zone() {
    let berlin = instants("30 9 * * MON-FRI", "Europe/Berlin", "2026-03-27T00:00:00Z", 3);
    assert_eq!(berlin, ["2026-03-27T08:30Z", "2026-03-30T07:30Z", "2026-03-31T07:30Z"]);
    let kolkata = instants("@daily", "Asia/Kolkata", "2026-01-01T00:00:00Z", 2);
    assert_eq!(kolkata, ["2026-01-01T18:30Z", "2026-01-02T18:30Z"]);
}

#[test]
fn a_time_that_a_zone_skips_fires_at_the_first_valid_instant_after_it() {
    // In Berlin, 2026-03-29 has no 02:30: the clock jumps from 02:00 to 03:00, which is 01:00 UTC.
    let fixed = instants("30 2 * * *", "Europe/Berlin", "2026-03-28T12:00:00Z", 2);
    assert_eq!(fixed, ["2026-03-29T01:00Z", "2026-03-30T00:30Z"]);
    let wildcard = instants("30 * * * *", "Europe/Berlin", "2026-03-28T23:45:00Z", 3);
    assert_eq!(wildcard, ["2026-03-29T00:30Z", "2026-03-29T01:30Z", "2026-03-29T02:30Z"], "no extra instant");
}

#[test]
fn a_time_that_exists_twice_fires_once_unless_the_expression_has_a_wildcard() {
    // In Berlin, 02:30 exists twice on 2026-10-25: at 00:30 and at 01:30 UTC.
    let fixed = instants("30 2 * * *", "Europe/Berlin", "2026-10-24T12:00:00Z", 2);
    assert_eq!(fixed, ["2026-10-25T00:30Z", "2026-10-26T01:30Z"]);
    let wildcard = instants("30 * * * *", "Europe/Berlin", "2026-10-24T23:45:00Z", 3);
    assert_eq!(wildcard, ["2026-10-25T00:30Z", "2026-10-25T01:30Z", "2026-10-25T02:30Z"]);
}

#[test]
fn a_search_from_inside_of_a_repeated_hour_finds_the_same_instants() {
    for (cron, zone) in [
        ("*/20 * * * *", "Europe/Berlin"),
        ("30 2 * * *", "Europe/Berlin"),
        ("5 1-3 * * *", "Australia/Lord_Howe"),
    ] {
        let schedule = Schedule::parse(cron, zone).expect("a schedule");
        for day in
            ["2026-10-25T00:00:00Z", "2026-03-29T00:00:00Z", "2026-04-04T12:00:00Z", "2026-10-03T12:00:00Z"]
        {
            let begin = Timestamp(at(day).0 - DAY_MS / 4);
            let all = schedule.preview(begin, 200);
            for minute in 0..(12 * 60) {
                let from = Timestamp(begin.0 + minute * 60_000);
                let expected = all.iter().find(|at| **at > from);
                assert_eq!(schedule.next_after(from).as_ref(), expected, "{cron} in {zone} after {from}");
            }
        }
    }
}

#[test]
fn leap_days_and_both_day_fields_work_as_in_cron() {
    let leap = instants("0 0 29 2 *", "UTC", "2026-01-01T00:00:00Z", 2);
    assert_eq!(leap, ["2028-02-29T00:00Z", "2032-02-29T00:00Z"]);
    // A day matches if one of both fields matches.
    let either = instants("0 0 13 * FRI", "UTC", "2026-02-08T00:00:00Z", 3);
    assert_eq!(either, ["2026-02-13T00:00Z", "2026-02-20T00:00Z", "2026-02-27T00:00Z"]);
}

#[test]
fn invalid_schedules_are_refused() {
    for cron in [
        "",
        "* * * *",
        "* * * * * *",
        "* * * * * * *",
        "60 * * * *",
        "@reboot",
        "@every 1s",
        "0 0 1 13 *",
        "a b c d e",
    ] {
        let message = refused(cron, "UTC");
        assert!(message.starts_with("schedule.cron must have the five fields"), "{cron}: {message}");
    }
    assert_eq!(refused("0 0 30 2 *", "UTC"), "schedule.cron names no date that exists");
    assert_eq!(refused(&"1,".repeat(200), "UTC"), "schedule.cron must have at most 256 characters");
    for zone in ["", "Mars/Olympus", "../etc/passwd", "Europe/Berlin2"] {
        assert!(refused("@daily", zone).starts_with("schedule.timeZone is no time zone"), "{zone}");
    }
}

#[test]
fn an_instant_on_time_fires_under_every_policy() {
    let schedule = Schedule::parse("*/5 * * * *", "UTC").expect("a schedule");
    let (due, now) = (at("2026-01-01T00:05:00Z"), at("2026-01-01T00:06:00Z"));
    for policy in MissedPolicy::ALL {
        let found = schedule.due(due, now, policy);
        assert_eq!(found, DueInstants { fire: vec![due], next: Some(at("2026-01-01T00:10:00Z")) });
    }
}

#[test]
fn missed_instants_follow_the_policy() {
    let schedule = Schedule::parse("0 * * * *", "UTC").expect("a schedule");
    let (due, now) = (at("2026-01-01T01:00:00Z"), at("2026-01-01T04:30:00Z"));
    let fired = |policy| schedule.due(due, now, policy).fire;
    assert_eq!(fired(MissedPolicy::Skip), []);
    assert_eq!(fired(MissedPolicy::Last), [at("2026-01-01T04:00:00Z")]);
    let all = ["01", "02", "03", "04"].map(|hour| at(&format!("2026-01-01T{hour}:00:00Z")));
    assert_eq!(fired(MissedPolicy::All), all);
    assert_eq!(schedule.due(due, now, MissedPolicy::Skip).next, Some(at("2026-01-01T05:00:00Z")));
    // The last instant is on time, those before it are missed.
    assert_eq!(schedule.due(due, at("2026-01-01T04:00:30Z"), MissedPolicy::Skip).fire, [all[3]]);
}

#[test]
fn a_million_missed_instants_are_not_enumerated() {
    let schedule = Schedule::parse("* * * * *", "UTC").expect("a schedule");
    let (due, now) = (at("2024-01-01T00:00:00Z"), at("2026-01-01T00:00:30Z"));
    let found = schedule.due(due, now, MissedPolicy::All).fire;
    assert_eq!((found.len(), found[99]), (100, at("2026-01-01T00:00:00Z")));
    assert_eq!(found[0], at("2025-12-31T22:21:00Z"), "the newest hundred");
    // A rare schedule is found, however long ago its instant was.
    let rare = Schedule::parse("0 0 29 2 *", "UTC").expect("a schedule");
    let leap = at("2004-02-29T00:00:00Z");
    assert_eq!(rare.due(leap, at("2007-06-01T00:00:00Z"), MissedPolicy::Last).fire, [leap]);
    let four = rare.due(leap, now, MissedPolicy::All).fire;
    assert_eq!((four.len(), four[0]), (6, leap));
}
