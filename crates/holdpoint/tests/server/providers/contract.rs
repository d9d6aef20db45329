//! What every provider does alike.

use serde_json::{Value, json};

use super::side::Side;
use super::talk::{Talk, outcome};
use crate::place::Place;

/// The stories of a side, as tests.
macro_rules! stories {
    ($side:expr) => {
        #[test]
        fn it_is_revised_approved_and_sent_once_and_every_answer_counts_once() {
            crate::providers::contract::whole_story(&mut $side, &crate::place::Place::sqlite());
        }

        #[test]
        fn the_same_on_postgres() {
            crate::providers::contract::whole_story(&mut $side, &crate::place::Place::postgres());
        }

        #[test]
        fn of_answers_at_once_one_counts_and_pauses_are_answered_anywhere() {
            crate::providers::contract::races_and_other_doors(&mut $side, &crate::place::Place::sqlite());
        }

        #[test]
        fn what_is_cancelled_or_too_late_takes_no_answers() {
            crate::providers::contract::ends(&mut $side, &crate::place::Place::sqlite());
        }

        #[test]
        fn nothing_is_lost_or_done_twice_when_the_server_is_killed() {
            crate::providers::kills::of_ours(&mut $side, &crate::place::Place::sqlite());
        }

        #[test]
        fn a_lock_that_was_left_behind_is_taken_over() {
            crate::providers::kills::left_behind(&mut $side, &crate::place::Place::postgres());
        }
    };
}
pub(crate) use stories;

pub(crate) fn whole_story(side: &mut dyn Side, place: &Place) {
    let talk = Talk::open(place, side, &json!({}));
    let first = talk.asked(side, "post-1");
    assert_eq!(keys(&first), ["interrupt", "outcome", "stateKey"], "and nothing else: {first}");
    assert_eq!(keys(&first["interrupt"]), ["data", "kind"]);
    assert_eq!((&first["stateKey"], &first["interrupt"]["kind"]), (&json!("post-1"), &json!(side.kind())));
    assert_eq!(talk.begin(side, "post-1").body, first, "the same start is the same start");
    let other = json!({"graph": side.graph(), "stateKey": "post-1", "input": {"topic": "something else"}});
    talk.send("POST", "/api/v1/ai/chat", Some(&other)).assert_envelope(409, "state_key_in_use");
    if let Some(unfit) = side.unfit() {
        assert_eq!(talk.resume("post-1", "r-0", &unfit).status, 400, "and nothing is used up");
    }
    let revised = talk.resume("post-1", "r-1", &side.revise());
    assert_eq!((revised.status, outcome(&revised)), (200, "needs_input"), "{revised:?}");
    assert_eq!(talk.resume("post-1", "r-1", &side.revise()), revised, "told again, it is the same");
    talk.resume("post-1", "r-1", &side.approve()).assert_envelope(409, "resume_id_conflict");
    let late = json!({
        "stateKey": "post-1", "resumeId": "late", "resumeValue": side.approve(), "interrupt": first["interrupt"],
    });
    let late = talk.send("POST", "/api/v1/ai/chat", Some(&late));
    late.assert_envelope(409, "interrupt_changed");
    assert_eq!(side.sent(), 0, "nothing is sent before somebody approves");
    let approved = talk.resume("post-1", "r-2", &side.approve());
    assert_eq!((approved.status, outcome(&approved)), (200, "completed"), "{approved:?}");
    assert_eq!(keys(&approved.body), ["outcome", "output", "stateKey"]);
    assert_eq!(side.sent(), 1);
    assert_eq!(talk.resume("post-1", "r-2", &side.approve()), approved);
    assert_eq!(talk.resume("post-1", "r-1", &side.revise()), revised, "also of what came earlier");
    talk.resume("post-1", "r-3", &side.approve()).assert_envelope(409, "graph_ended");
    let standing = talk.look("post-1");
    assert_eq!(
        (outcome(&standing), &standing.body["graph"]),
        ("completed", &json!(side.graph())),
        "{standing:?}"
    );
    assert_eq!(side.sent(), 1);
    talk.assert_nothing_leaked(side);
}

pub(crate) fn races_and_other_doors(side: &mut dyn Side, place: &Place) {
    let talk = Talk::open(place, side, &json!({}));
    // Each says what it was asked: an answer that comes when the graph asks something else is for nobody.
    let asked = talk.asked(side, "race");
    let client = talk.client();
    let answers: Vec<(u16, Value)> = std::thread::scope(|scope| {
        let send = |id: usize| {
            let value = if id.is_multiple_of(2) { side.revise() } else { side.approve() };
            let body = json!({
                "stateKey": "race", "resumeId": format!("r-{id}"), "resumeValue": value, "interrupt": asked["interrupt"],
            });
            scope.spawn(move || {
                let answer = client.post("/api/v1/ai/chat", &body);
                (answer.status, answer.body)
            })
        };
        let racing: Vec<_> = (0..4).map(send).collect();
        racing.into_iter().map(|one| one.join().unwrap()).collect()
    });
    let (won, lost): (Vec<_>, Vec<_>) = answers.iter().partition(|(status, _)| *status == 200);
    assert_eq!(won.len(), 1, "{answers:?}");
    let known = ["resume_in_flight", "interrupt_changed", "graph_ended"];
    let told = |body: &Value| known.contains(&body["error"].as_str().unwrap_or_default());
    assert!(lost.iter().all(|(status, body)| *status == 409 && told(body)), "{answers:?}");
    if won[0].1["outcome"] == "needs_input" {
        assert_eq!(side.sent(), 0);
        assert_eq!(outcome(&talk.resume("race", "last", &side.approve())), "completed");
    }
    assert_eq!(side.sent(), 1);
    // The same pause, answered as people answer whatever waits for them.
    talk.asked(side, "elsewhere");
    let waiting = talk.waiting_run(side.graph().strip_prefix("native:").unwrap_or(side.graph()));
    let (run, node) = (waiting["runId"].as_str().unwrap(), waiting["nodeId"].as_str().unwrap());
    let answer = if waiting["kind"] == "approval" { json!({"action": "accept"}) } else { side.approve() };
    let path = format!("/v1/runs/{run}/interrupts/{node}");
    let answered = talk.send("POST", &path, Some(&json!({"resumeValue": answer})));
    assert_eq!(answered.status, 200, "{answered:?}");
    let done = talk.until("elsewhere", |answer| outcome(answer) != "running");
    assert_eq!(outcome(&done), "completed", "{done:?}");
    assert_eq!(side.sent(), 2);
    by_link(&talk, side);
    assert_eq!(side.sent(), 3);
    talk.assert_nothing_leaked(side);
}

/// The same over a signed link, without a key.
fn by_link(talk: &Talk<'_>, side: &dyn Side) {
    talk.asked(side, "linked");
    let waiting = talk.waiting_run(side.graph().strip_prefix("native:").unwrap_or(side.graph()));
    let (run, node) = (waiting["runId"].as_str().unwrap(), waiting["nodeId"].as_str().unwrap());
    let minted = talk.send("POST", &format!("/v1/runs/{run}/interrupts/{node}/tokens"), Some(&json!({})));
    let token = minted.body["token"].as_str().unwrap_or_else(|| panic!("{minted:?}"));
    let answer = if waiting["kind"] == "approval" { json!({"action": "accept"}) } else { side.approve() };
    let stranger = talk.client().with_key(None);
    let answered = stranger.post(&format!("/v1/interrupts/{token}"), &json!({"resumeValue": answer}));
    assert_eq!(answered.status, 200, "{answered:?}");
    let done = talk.until("linked", |answer| outcome(answer) != "running");
    assert_eq!(outcome(&done), "completed", "{done:?}");
}

pub(crate) fn ends(side: &mut dyn Side, place: &Place) {
    let talk = Talk::open(place, side, &json!({"expiresMs": 4000}));
    talk.asked(side, "unwanted");
    side.note_names(talk.data());
    let cancelled = talk.cancel("unwanted");
    assert_eq!((outcome(&cancelled), &cancelled.body["error"]["code"]), ("error", &json!("cancelled")));
    assert_eq!(talk.cancel("unwanted").status, 200, "twice is not wrong");
    talk.resume("unwanted", "r", &side.approve()).assert_envelope(409, "graph_ended");
    talk.asked(side, "late");
    side.note_names(talk.data());
    let late = talk.until("late", |answer| outcome(answer) != "needs_input");
    assert_eq!((outcome(&late), &late.body["error"]["code"]), ("error", &json!("expired")), "{late:?}");
    talk.resume("late", "r", &side.approve()).assert_envelope(409, "graph_ended");
    assert_eq!(side.sent(), 0);
    talk.assert_nothing_leaked(side);
}

fn keys(value: &Value) -> Vec<&str> {
    value.as_object().unwrap().keys().map(String::as_str).collect()
}
