//! Topics, which connect events with the interrupts that await them, and the rules of correlation.

use holdpoint_core::{ExternalEvent, Interrupt, Kind, limits};
use serde_json::{Map, Value, json};

use crate::story::{Story, given};
use crate::vocabulary::*;

fn event(event_type: &str, correlation: Value, payload: Value) -> ExternalEvent {
    let (event_type, event_id) = (event_type.to_owned(), "e1".to_owned());
    ExternalEvent { event_type, event_id, correlation: object(correlation), payload }
}

fn waiting_for(correlation: Value) -> Story {
    let asked = request(Kind::ExternalEvent, json!({"eventType": "paid", "correlation": correlation}));
    given([start(), begin("gate"), ask("gate", asked)])
}

fn interrupt(story: &Story) -> &Interrupt {
    story.interrupt_of("gate").expect("an interrupt")
}

#[test]
fn an_event_and_the_interrupt_that_awaits_it_share_a_topic() {
    let story = waiting_for(json!({"order": 7, "shop": "north"}));
    let waits = interrupt(&story).topics();
    assert_eq!(waits.len(), 2);
    assert!(
        waits.iter().all(|topic| topic.len() == 32 && topic.chars().all(|digit| digit.is_ascii_hexdigit()))
    );
    let of = |correlation: Value| event("paid", correlation, json!({})).topics();
    assert!(waits.contains(&of(json!({"order": 7}))[0]) && waits.contains(&of(json!({"shop": "north"}))[0]));
    assert!(!waits.contains(&of(json!({"order": 8}))[0]));
    assert!(!waits.contains(&event("sent", json!({"order": 7}), json!({})).topics()[0]));
    let plain = waiting_for(json!({}));
    assert_eq!(interrupt(&plain).topics(), of(json!({})));
    let other = given([start(), begin("gate"), ask("gate", approval())]);
    assert_eq!(interrupt(&other).topics(), Vec::<String>::new());
}

#[test]
fn an_interrupt_awaits_events_whose_correlation_is_part_of_its_own() {
    let story = waiting_for(json!({"order": 7, "lines": [1, {"a": 1, "b": 2}]}));
    let awaits = |correlation: Value| interrupt(&story).awaits(&event("paid", correlation, json!({})));
    assert!(awaits(json!({"order": 7})) && awaits(json!({"lines": [1.0, {"b": 2, "a": 1}]})));
    for differs in [
        json!({}),
        json!({"order": 8}),
        json!({"lines": [1]}),
        json!({"lines": [1, {"a": 1, "b": 2}, 3]}),
        json!({"lines": [2, {"a": 1, "b": 2}]}),
        json!({"lines": [1, {"a": 1}]}),
        json!({"lines": [1, {"a": 1, "b": 2, "c": 3}]}),
        json!({"lines": [1, {"a": 1, "b": 3}]}),
        json!({"lines": [1, {"a": 1, "c": 2}]}),
    ] {
        assert!(!awaits(differs.clone()), "{differs}");
    }
    assert!(!interrupt(&story).awaits(&event("sent", json!({"order": 7}), json!({}))));
    let rated = waiting_for(json!({"rate": 0.5}));
    let at_rate = |rate: f64| interrupt(&rated).awaits(&event("paid", json!({"rate": rate}), json!({})));
    assert_eq!([0.5, 0.0, 0.25].map(at_rate), [true, false, false]);
}

#[test]
fn the_digest_of_an_event_covers_all_members_except_its_id() {
    let paid = || event("paid", json!({"order": 7}), json!({"amount": 3}));
    assert_eq!(paid().digest(), ExternalEvent { event_id: "e2".to_owned(), ..paid() }.digest());
    for other in [
        event("sent", json!({"order": 7}), json!({"amount": 3})),
        event("paid", json!({"order": 8}), json!({"amount": 3})),
        event("paid", json!({"order": 7}), json!({"amount": 4})),
    ] {
        assert_ne!(other.digest(), paid().digest());
    }
    assert!(paid().digest().starts_with("sha256:"));
}

#[test]
fn a_correlation_with_too_many_members_is_refused() {
    let members =
        |count: usize| -> Map<String, Value> { (0..count).map(|n| (format!("m{n}"), json!(n))).collect() };
    let most = limits::CORRELATION_MEMBERS_MAX;
    waiting_for(Value::Object(members(most))).next_is("nothing");
    waiting_for(Value::Object(members(most + 1))).failed_with("invalid_interrupt", "data.correlation");
    assert!(event("paid", Value::Object(members(most)), json!({})).check().is_ok());
    assert!(event("paid", Value::Object(members(most + 1)), json!({})).check().is_err());
    let named = |event_type: &str, event_id: &str| {
        ExternalEvent { event_id: event_id.to_owned(), ..event(event_type, json!({}), json!({})) }
            .check()
            .is_ok()
    };
    let (of_type, of_id) = ("t".repeat(limits::EVENT_TYPE_CHARS_MAX), "i".repeat(limits::EVENT_ID_CHARS_MAX));
    assert!(
        named(&of_type, &of_id) && !named(&format!("{of_type}x"), "i") && !named("t", &format!("{of_id}x"))
    );
    assert!(!named("", "i") && !named("t", "") && !named("a\nb", "i") && !named("t", "a\nb"));
}
