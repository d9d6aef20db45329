//! Calls of real MCP servers that somebody must allow first: one that others have published, and our own as a program
//! and behind a URL. What counts is what can be seen outside.

use serde_json::json;

use crate::place::Place;
use crate::workshop::{Errand, Workshop, cancel, of_call, resume};

const CONFIRM: &str = "tool:PermissionConfirm";

/// One test for each server out of a story.
macro_rules! with_each_server {
    ($($test:ident),+ $(,)?) => {
        with_each_server!(published: $($test),+);
        with_each_server!(program: $($test),+);
        with_each_server!(web: $($test),+);
    };
    ($server:ident: $($test:ident),+) => {
        mod $server {
            $(#[test]
            fn $test() {
                super::$test(&crate::workshop::Workshop::$server());
            })+
        }
    };
}

with_each_server!(
    an_approved_call_is_made_once_and_its_result_is_told,
    a_denied_call_is_not_made_and_the_agent_goes_on,
    a_call_with_other_arguments_is_made_with_those_and_both_are_on_record,
    of_two_calls_the_allowed_one_is_made_and_in_whatever_order_they_are_decided,
);

fn an_approved_call_is_made_once_and_its_result_is_told(workshop: &Workshop) {
    let steps = json!([{"calls": [workshop.call("c1", "first")]}, {"text": "Done: {{lastResult}}"}]);
    workshop.hire("clerk", &steps, &json!({}));
    let place = Place::sqlite();
    let server = workshop.open(&place);
    let errand = Errand::begin(&server.client, "clerk", "t1");
    let tickets = errand.asked(CONFIRM, &["c1"]);
    assert_eq!(tickets[0]["arguments"], workshop.arguments("first"));
    assert!(workshop.done().is_empty(), "nobody has allowed it");
    errand.decide(&resume("c1"));
    let log = errand.completed();
    assert_eq!(workshop.done(), ["first"]);
    let returned = of_call(&log, "agent.toolReturned", "c1");
    assert_eq!((returned.len(), &returned[0]["payload"]["status"]), (1, &json!("succeeded")), "{returned:?}");
    let (result, last) = errand.told("c1");
    assert_eq!(result, returned[0]["payload"]["result"]);
    assert!(result.as_str().unwrap().contains("first"), "what the server said: {result}");
    assert!(last.starts_with("Done: ") && last.contains("first"), "{last}");
}

fn a_denied_call_is_not_made_and_the_agent_goes_on(workshop: &Workshop) {
    let steps = json!([{"calls": [workshop.call("c1", "first")]}, {"text": "I heard: {{lastResult}}"}]);
    workshop.hire("clerk", &steps, &json!({}));
    let place = Place::sqlite();
    let server = workshop.open(&place);
    let errand = Errand::begin(&server.client, "clerk", "t1");
    errand.asked(CONFIRM, &["c1"]);
    errand.decide(&cancel("c1", "not today"));
    let log = errand.completed();
    assert!(workshop.done().is_empty());
    assert!(of_call(&log, "holdpoint.tool.begun", "c1").is_empty(), "{log:?}");
    let (result, last) = errand.told("c1");
    assert_eq!(result, json!({"cancelled": "not today"}));
    assert!(last.starts_with("I heard: ") && last.contains("not today"), "{last}");
}

fn a_call_with_other_arguments_is_made_with_those_and_both_are_on_record(workshop: &Workshop) {
    let steps = json!([{"calls": [workshop.call("c1", "first")]}, {"text": "Done: {{lastResult}}"}]);
    workshop.hire("clerk", &steps, &json!({}));
    let place = Place::sqlite();
    let server = workshop.open(&place);
    let errand = Errand::begin(&server.client, "clerk", "t1");
    errand.asked(CONFIRM, &["c1"]);
    let edited = workshop.arguments("edited");
    errand.decide(&json!({"toolCallId": "c1", "action": "resume", "result": {"arguments": edited}}));
    let log = errand.completed();
    assert_eq!(workshop.done(), ["edited"]);
    let begun = of_call(&log, "holdpoint.tool.begun", "c1");
    let [begun] = begun[..] else { panic!("{begun:?}") };
    assert_eq!(begun["payload"]["arguments"], workshop.arguments("first"), "as the model gave them");
    assert_eq!(begun["payload"]["effectiveArguments"], edited, "as they were allowed");
    assert!(errand.told("c1").1.contains("edited"));
}

fn of_two_calls_the_allowed_one_is_made_and_in_whatever_order_they_are_decided(workshop: &Workshop) {
    let calls = [workshop.call("c1", "first"), workshop.call("c2", "second")];
    let steps = json!([{"calls": calls}, {"text": "Done."}]);
    workshop.hire("clerk", &steps, &json!({"resume": "as_decided"}));
    workshop.hire("patient", &steps, &json!({"resume": "wait_all"}));
    let place = Place::sqlite();
    let server = workshop.open(&place);
    let mut expected = Vec::new();
    for (agent, allowed, denied, text, allow_first) in [
        ("clerk", "c1", "c2", "first", true),
        ("clerk", "c2", "c1", "second", false),
        ("patient", "c2", "c1", "second", true),
        ("patient", "c1", "c2", "first", false),
    ] {
        let errand = Errand::begin(&server.client, agent, &format!("{agent}-{allowed}"));
        errand.asked(CONFIRM, &["c1", "c2"]);
        let mut decisions = [resume(allowed), cancel(denied, "one is enough")];
        if !allow_first {
            decisions.reverse();
        }
        decisions.iter().for_each(|decision| errand.decide(decision));
        errand.completed();
        expected.push(text);
        assert_eq!(workshop.done(), expected, "{agent} {allowed}");
        assert_eq!(errand.told(denied).0, json!({"cancelled": "one is enough"}));
        assert!(errand.told(allowed).0.as_str().unwrap().contains(text));
    }
}
