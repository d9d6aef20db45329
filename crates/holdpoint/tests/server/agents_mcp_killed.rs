//! kill -9 around calls that somebody has allowed: before they are made, while they are under way, and when their result
//! is on record. With an MCP server that is a program, with one behind a URL, and with plain HTTP requests.

use serde_json::{Value, json};

use crate::place::{Place, on_both};
use crate::workshop::{Errand, Note, Workshop, cancel, descendants, gone, of_call, resume, until};

const CONFIRM: &str = "tool:PermissionConfirm";
const UNKNOWN: &str = "tool:OutcomeUnknown";

/// Threads that are decided about before a kill, and how often that is done.
const ERRANDS: usize = 6;
const KILLS: usize = 3;

on_both!(
    what_was_decided_before_kill_9_is_made_once_after_it,
    a_result_on_record_is_not_asked_for_again_by_whoever_decides_about_the_next_call,
);

macro_rules! with_each_kind_of_tool {
    ($($test:ident),+ $(,)?) => {
        with_each_kind_of_tool!(program: $($test),+);
        with_each_kind_of_tool!(web: $($test),+);
        with_each_kind_of_tool!(plain: $($test),+);
    };
    ($kind:ident: $($test:ident),+) => {
        mod $kind {
            $(#[test]
            fn $test() {
                super::$test(crate::workshop::Workshop::$kind());
            })+
        }
    };
}

// On SQLite the next start knows that whoever was at it is gone. On PostgreSQL that takes until its lease is over, which
// is for the tests of several nodes.
with_each_kind_of_tool!(
    a_call_that_was_under_way_is_asked_about_and_made_again_if_somebody_says_so,
    a_call_that_was_under_way_is_asked_about_and_left_if_somebody_says_so,
    a_call_that_was_under_way_is_asked_about_and_not_made_again_if_somebody_knows_its_result,
    a_call_that_was_under_way_and_may_be_repeated_is_repeated_without_a_question,
    a_result_on_record_is_not_asked_for_again_though_another_call_was_under_way,
);

fn kinds() -> [Workshop; 3] {
    [Workshop::program(), Workshop::web(), Workshop::plain()]
}

/// The first decision counts when it is acknowledged, and waits for the second one, which comes after the kill.
fn what_was_decided_before_kill_9_is_made_once_after_it(place: &Place) {
    for (at, workshop) in kinds().into_iter().enumerate() {
        let calls = [workshop.call("c1", "first"), workshop.call("c2", "second")];
        let agent = format!("clerk{at}");
        let steps = json!([{"calls": calls}, {"text": "Done."}]);
        workshop.hire(&agent, &steps, &json!({"resume": "wait_all"}));
        let mut server = workshop.open(place);
        let errand = Errand::begin(&server.client, &agent, &agent);
        errand.asked(CONFIRM, &["c1", "c2"]);
        let errand = Errand { client: &server.client.clone(), ..errand };
        errand.decide(&resume("c1"));
        server.kill();
        assert!(workshop.done().is_empty());
        let server = workshop.open(place);
        let errand = errand.with(&server.client);
        errand.asked(CONFIRM, &["c2"]);
        assert!(workshop.done().is_empty(), "the other one is yet to be decided");
        errand.decide(&resume("c2"));
        errand.completed();
        let mut done = workshop.done();
        done.sort();
        assert_eq!(done, ["first", "second"]);
    }
}

/// The kill comes with the last acknowledgement: some calls are done by then, some are under way, some are not begun.
#[test]
fn decisions_are_carried_out_once_whenever_the_kill_comes() {
    let (place, workshop) = (Place::sqlite(), Workshop::program());
    for kill in 0..KILLS {
        let named: Vec<String> = (0..ERRANDS).map(|at| format!("clerk-{kill}-{at}")).collect();
        for name in &named {
            let steps = json!([{"calls": [workshop.call("c1", name)]}, {"text": "Done: {{lastResult}}"}]);
            workshop.hire(name, &steps, &json!({}));
        }
        let mut server = workshop.open(&place);
        let client = server.client.clone();
        let errands: Vec<Errand<'_>> = named.iter().map(|name| Errand::begin(&client, name, name)).collect();
        errands.iter().for_each(|errand| drop(errand.asked(CONFIRM, &["c1"])));
        let programs = descendants(&server);
        assert!(!programs.is_empty());
        errands.iter().for_each(|errand| errand.decide(&resume("c1")));
        server.kill();
        // A program may still carry out what it was told last; it ends because nobody speaks to it any longer.
        programs.into_iter().for_each(gone);
        let server = workshop.open(&place);
        for (errand, name) in errands.iter().zip(&named) {
            let errand = errand.with(&server.client);
            if is_in_doubt(&errand) {
                let done = workshop.done().contains(name);
                let known = json!({"toolCallId": "c1", "action": "resume", "result": {"result": name}});
                errand.decide(&if done { known } else { resume("c1") });
            }
            let log = errand.completed();
            assert_eq!(of_call(&log, "agent.toolReturned", "c1").len(), 1);
            assert!(errand.told("c1").1.ends_with(name.as_str()));
            assert_eq!(workshop.done().iter().filter(|text| *text == name).count(), 1, "{name}");
        }
    }
}

/// Waits for the end, or for the question.
fn is_in_doubt(errand: &Errand<'_>) -> bool {
    until("the end, or a question", || match errand.client.status(&errand.run).as_str() {
        "completed" => Some(false),
        "waiting-approval" => Some(true),
        _ => None,
    })
}

/// An agent whose call was allowed, and was under way when the server was killed; the next server runs.
fn interrupted(workshop: &Workshop, then: impl FnOnce(&Errand<'_>)) {
    interrupted_after(workshop, &resume("c1"), then);
}

fn interrupted_after(workshop: &Workshop, decision: &Value, then: impl FnOnce(&Errand<'_>)) {
    let place = Place::sqlite();
    let steps = json!([{"calls": [workshop.stalling("c1", "first")]}, {"text": "I heard: {{lastResult}}"}]);
    workshop.hire("clerk", &steps, &json!({}));
    let mut server = workshop.open(&place);
    let client = server.client.clone();
    let errand = Errand::begin(&client, "clerk", "t1");
    errand.asked(CONFIRM, &["c1"]);
    errand.decide(decision);
    workshop.wait_for(1);
    let programs = descendants(&server);
    server.kill();
    programs.into_iter().for_each(gone);
    let server = workshop.open(&place);
    then(&errand.with(&server.client));
}

fn assert_one_call(notes: &[Note], times: usize) {
    assert_eq!(notes.len(), times, "{notes:?}");
    let same = notes.iter().all(|note| note.key == notes[0].key && note.text == "first");
    assert!(same && !notes[0].key.is_empty(), "one call, however often it was made: {notes:?}");
}

fn a_call_that_was_under_way_is_asked_about_and_made_again_if_somebody_says_so(workshop: Workshop) {
    interrupted(&workshop, |errand| {
        let tickets = errand.asked(UNKNOWN, &["c1"]);
        assert_eq!(tickets[0]["arguments"], json!({"text": "first"}));
        assert_one_call(&workshop.notes(), 1);
        errand.decide(&resume("c1"));
        errand.completed();
        assert_one_call(&workshop.notes(), 2);
        assert_eq!(errand.told("c1"), (json!("noted first"), "I heard: noted first".to_owned()));
    });
}

fn a_call_that_was_under_way_is_asked_about_and_left_if_somebody_says_so(workshop: Workshop) {
    interrupted(&workshop, |errand| {
        errand.asked(UNKNOWN, &["c1"]);
        errand.decide(&cancel("c1", "leave it"));
        errand.completed();
        assert_one_call(&workshop.notes(), 1);
        assert_eq!(errand.told("c1").0, json!({"cancelled": "leave it"}));
    });
}

fn a_call_that_was_under_way_is_asked_about_and_not_made_again_if_somebody_knows_its_result(
    workshop: Workshop,
) {
    interrupted(&workshop, |errand| {
        errand.asked(UNKNOWN, &["c1"]);
        errand.decide(&json!({"toolCallId": "c1", "action": "resume", "result": {"result": "it was done"}}));
        errand.completed();
        assert_one_call(&workshop.notes(), 1);
        assert_eq!(errand.told("c1"), (json!("it was done"), "I heard: it was done".to_owned()));
    });
}

/// What was allowed is what is asked about, and what is made again.
#[test]
fn a_call_with_other_arguments_is_made_again_with_those() {
    let workshop = Workshop::program();
    let edited = json!({"toolCallId": "c1", "action": "resume", "result": {"arguments": {"text": "edited"}}});
    interrupted_after(&workshop, &edited, |errand| {
        let tickets = errand.asked(UNKNOWN, &["c1"]);
        assert_eq!(tickets[0]["arguments"], json!({"text": "edited"}));
        errand.decide(&resume("c1"));
        errand.completed();
        assert_eq!(workshop.done(), ["edited", "edited"]);
    });
}

fn a_call_that_was_under_way_and_may_be_repeated_is_repeated_without_a_question(workshop: Workshop) {
    let workshop = workshop.repeatable();
    interrupted(&workshop, |errand| {
        let log = errand.completed();
        assert_one_call(&workshop.notes(), 2);
        let asked: Vec<&Value> = of_call(&log, "holdpoint.tool.suspended", "c1");
        assert_eq!(asked.len(), 1, "only whether it may be made: {asked:?}");
        assert_eq!(errand.told("c1").0, json!("noted first"));
    });
}

fn a_result_on_record_is_not_asked_for_again_though_another_call_was_under_way(workshop: Workshop) {
    let place = Place::sqlite();
    let calls = [workshop.call("c1", "first"), workshop.stalling("c2", "second")];
    let steps = json!([{"calls": calls}, {"text": "Done."}]);
    workshop.hire("clerk", &steps, &json!({"resume": "wait_all"}));
    let mut server = workshop.open(&place);
    let client = server.client.clone();
    let errand = Errand::begin(&client, "clerk", "t1");
    errand.asked(CONFIRM, &["c1", "c2"]);
    errand.decide(&resume("c1"));
    errand.decide(&resume("c2"));
    let returned =
        |event: &Value| event["type"] == "agent.toolReturned" && event["payload"]["callId"] == "c1";
    client.until(&errand.run, returned);
    workshop.wait_for(2);
    server.kill();
    let server = workshop.open(&place);
    let errand = errand.with(&server.client);
    errand.asked(UNKNOWN, &["c2"]);
    errand.decide(&cancel("c2", "leave it"));
    let log = errand.completed();
    let mut done = workshop.done();
    done.sort();
    assert_eq!(done, ["first", "second"], "each once");
    assert_eq!(of_call(&log, "agent.toolReturned", "c1").len(), 1);
    assert_eq!(errand.told("c1").0, json!("noted first"));
}

fn a_result_on_record_is_not_asked_for_again_by_whoever_decides_about_the_next_call(place: &Place) {
    for (at, workshop) in kinds().into_iter().enumerate() {
        let agent = format!("clerk{at}");
        let steps = json!([
            {"calls": [workshop.call("c1", "first")]}, {"calls": [workshop.call("c2", "second")]}, {"text": "Done."},
        ]);
        workshop.hire(&agent, &steps, &json!({}));
        let mut server = workshop.open(place);
        let client = server.client.clone();
        let errand = Errand::begin(&client, &agent, &agent);
        errand.asked(CONFIRM, &["c1"]);
        errand.decide(&resume("c1"));
        errand.asked(CONFIRM, &["c2"]);
        assert_eq!(workshop.done(), ["first"]);
        server.kill();
        let server = workshop.open(place);
        let errand = errand.with(&server.client);
        errand.decide(&resume("c2"));
        errand.completed();
        assert_eq!(workshop.done(), ["first", "second"]);
        assert_eq!(errand.told("c1").0, json!("noted first"));
    }
}
