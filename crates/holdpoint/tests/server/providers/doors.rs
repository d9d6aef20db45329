//! A pause of a provider is one of ours: subscribers hear of it, and people answer it where they answer everything else.

use serde_json::{Value, json};

use super::side::Side;
use super::talk::{Talk, outcome};
use crate::agui::{Front, resolved};
use crate::place::Place;
use crate::receiver::Receiver;

type Door = fn(&Talk<'_>, &dyn Side, &Waiting);

/// A pause as the pending view has it, and the answer that lets it go on.
struct Waiting {
    run: String,
    node: String,
    interrupt: String,
    answer: Value,
}

pub(crate) fn all(side: &mut dyn Side, place: &Place) {
    let talk = Talk::open(place, side, &json!({}));
    let subscriber = Receiver::start();
    let events = json!({"url": subscriber.url, "events": ["interrupt.requested", "interrupt.resolved"]});
    assert_eq!(talk.send("POST", "/v1/webhooks", Some(&events)).status, 201);
    let doors: [(&str, Door); 3] =
        [("with-a-key", with_a_key), ("by-link", by_link), ("in-a-front-end", in_a_front_end)];
    for ((key, door), count) in doors.into_iter().zip(1..) {
        talk.asked(side, key);
        let waiting = waiting(&talk, side);
        door(&talk, side, &waiting);
        let done = talk.until(key, |answer| outcome(answer) != "running");
        assert_eq!(outcome(&done), "completed", "{key}: {done:?}");
        assert_eq!(side.sent(), count, "{key}");
        // Both are told, of this very pause, and before the next is made.
        let told = subscriber.wait_for(2 * count);
        let of: Vec<_> = told
            .iter()
            .skip(2 * (count - 1))
            .map(|one| (one.event_type(), one.json()["runId"].clone()))
            .collect();
        let run = json!(waiting.run);
        assert_eq!(
            of,
            [("interrupt.requested", run.clone()), ("interrupt.resolved", run)],
            "{key}: {told:?}"
        );
    }
    for told in subscriber.so_far() {
        talk.hear(&String::from_utf8_lossy(&told.body));
    }
    talk.assert_nothing_leaked(side);
}

fn waiting(talk: &Talk<'_>, side: &dyn Side) -> Waiting {
    let waiting = talk.waiting_run(workflow(side));
    let text = |name: &str| waiting[name].as_str().unwrap_or_else(|| panic!("{name}: {waiting}")).to_owned();
    let answer = if waiting["kind"] == "approval" { json!({"action": "accept"}) } else { side.approve() };
    Waiting { run: text("runId"), node: text("nodeId"), interrupt: text("interruptId"), answer }
}

/// What the runs of its graph are runs of.
fn workflow(side: &dyn Side) -> &'static str {
    side.graph().strip_prefix("native:").unwrap_or(side.graph())
}

fn with_a_key(talk: &Talk<'_>, _side: &dyn Side, waiting: &Waiting) {
    let path = format!("/v1/runs/{}/interrupts/{}", waiting.run, waiting.node);
    let answered = talk.send("POST", &path, Some(&json!({"resumeValue": waiting.answer})));
    assert_eq!(answered.status, 200, "{answered:?}");
}

fn by_link(talk: &Talk<'_>, _side: &dyn Side, waiting: &Waiting) {
    let path = format!("/v1/runs/{}/interrupts/{}/tokens", waiting.run, waiting.node);
    let minted = talk.send("POST", &path, Some(&json!({})));
    let token = minted.body["token"].as_str().unwrap_or_else(|| panic!("{minted:?}"));
    let stranger = talk.client().with_key(None);
    let answered = stranger.post(&format!("/v1/interrupts/{token}"), &json!({"resumeValue": waiting.answer}));
    assert_eq!(answered.status, 200, "{answered:?}");
}

/// The thread of a run that nobody put into another is its own.
fn in_a_front_end(talk: &Talk<'_>, side: &dyn Side, waiting: &Waiting) {
    let front = Front::new(talk.client(), workflow(side), &waiting.run);
    let shown = front.thread();
    talk.hear(&shown.to_string());
    assert_eq!(shown["interrupts"][0]["id"], waiting.interrupt.as_str(), "{shown}");
    let payload = if waiting.answer["action"] == "accept" { json!(true) } else { waiting.answer.clone() };
    let told = front.resume(json!([resolved(&waiting.interrupt, payload)]));
    told.assert_success();
    talk.hear(&format!("{told:?}"));
}
