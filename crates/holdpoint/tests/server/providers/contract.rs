//! What every provider does alike.

use serde_json::{Value, json};

use super::side::Side;
use super::talk::{Talk, outcome};
use crate::harness::{Answer, Client};
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
        fn of_answers_at_once_one_counts() {
            crate::providers::contract::races(&mut $side, &crate::place::Place::sqlite());
        }

        #[test]
        fn a_pause_is_told_of_and_answered_everywhere() {
            crate::providers::doors::all(&mut $side, &crate::place::Place::sqlite());
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

        #[test]
        fn two_servers_carry_one_graph_on() {
            crate::providers::nodes::two(&mut $side, &crate::place::Place::postgres());
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

pub(crate) fn races(side: &mut dyn Side, place: &Place) {
    let talk = Talk::open(place, side, &json!({}));
    // Each says what it was asked: an answer that comes when the graph asks something else is for nobody.
    let asked = talk.asked(side, "race");
    let (one, other) = (side.revise(), side.approve());
    let at = talk.client();
    let won = race("race", &asked["interrupt"], &[(at, &one), (at, &other), (at, &one), (at, &other)]);
    if won["outcome"] == "needs_input" {
        assert_eq!(side.sent(), 0);
        assert_eq!(outcome(&talk.resume("race", "last", &side.approve())), "completed");
    }
    assert_eq!(side.sent(), 1);
    talk.assert_nothing_leaked(side);
}

/// Sends these at once, each as an answer to what was asked; what the one was told that counts.
pub(crate) fn race(key: &str, asked: &Value, answers: &[(&Client, &Value)]) -> Value {
    let told: Vec<Answer> = std::thread::scope(|scope| {
        let send = |(id, (client, value)): (usize, &(&Client, &Value))| {
            let id = format!("at-once-{id}");
            let body = json!({"stateKey": key, "resumeId": id, "resumeValue": value, "interrupt": asked});
            let client = (*client).clone();
            scope.spawn(move || client.post("/api/v1/ai/chat", &body))
        };
        let racing: Vec<_> = answers.iter().enumerate().map(send).collect();
        racing.into_iter().map(|one| one.join().unwrap()).collect()
    });
    let (won, lost): (Vec<_>, Vec<_>) = told.iter().partition(|answer| answer.status == 200);
    assert_eq!(won.len(), 1, "{told:?}");
    let known = ["resume_in_flight", "interrupt_changed", "graph_ended"];
    let is_told = |answer: &Answer| known.contains(&answer.body["error"].as_str().unwrap_or_default());
    assert!(lost.iter().all(|answer| answer.status == 409 && is_told(answer)), "{told:?}");
    won[0].body.clone()
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
    let mut names: Vec<&str> = value.as_object().unwrap().keys().map(String::as_str).collect();
    names.sort_unstable();
    names
}
