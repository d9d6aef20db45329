//! kill -9 of the server, at each stage.

use serde_json::json;

use super::side::Side;
use super::talk::{Talk, outcome};
use crate::place::Place;

/// The server dies while it waits, right after an answer was taken, and after the end.
pub(crate) fn of_ours(side: &mut dyn Side, place: &Place) {
    let mut talk = Talk::open(place, side, &json!({"lockMs": 1000}));
    let asked = talk.asked(side, "post-1");
    talk.kill();
    talk.start();
    assert_eq!(talk.look("post-1").body["interrupt"], asked["interrupt"], "it still waits");
    // The answer is on disk; perhaps the provider has heard it, perhaps not.
    let taken = talk.answer("post-1", "r-1", &side.revise());
    assert!([200, 202].contains(&taken.status), "{taken:?}");
    talk.kill();
    talk.start();
    let revised = talk.until("post-1", |answer| outcome(answer) != "running");
    assert_eq!(outcome(&revised), "needs_input", "{revised:?}");
    let again = talk.resume("post-1", "r-1", &side.revise());
    assert_eq!(again.body["interrupt"], revised.body["interrupt"], "the same answer changes nothing");
    assert_eq!(side.sent(), 0);
    let taken = talk.answer("post-1", "r-2", &side.approve());
    assert!([200, 202].contains(&taken.status), "{taken:?}");
    talk.kill();
    talk.start();
    let mut approved = talk.until("post-1", |answer| outcome(answer) != "running");
    // A program that was killed in the middle of a call cannot say whether it was made: somebody is asked.
    if approved.body["interrupt"]["kind"] == "outcome_unknown" {
        let decision = if side.sent() == 0 { "retry" } else { "reject" };
        approved = talk.resume("post-1", "r-3", &json!({"decision": decision}));
    }
    // An agent that was told so asks again, until it gives up.
    for again in 0..4 {
        if outcome(&approved) == "needs_input" && side.sent() == 1 {
            approved = talk.resume("post-1", &format!("no-{again}"), &side.revise());
        }
    }
    assert_eq!(outcome(&approved), "completed", "{approved:?}");
    assert_eq!(side.sent(), 1);
    talk.kill();
    talk.start();
    assert_eq!(outcome(&talk.resume("post-1", "r-1", &side.revise())), "needs_input", "still the same");
    assert_eq!(outcome(&talk.look("post-1")), "completed");
    assert_eq!(side.sent(), 1);
    talk.assert_nothing_leaked(side);
}

/// Where several servers may share a database, nobody knows at once that one is gone: its work is taken over when its lease
/// and its lock have run out.
pub(crate) fn left_behind(side: &mut dyn Side, place: &Place) {
    let mut talk = Talk::open(place, side, &json!({"lockMs": 1000}));
    talk.asked(side, "post-1");
    let taken = talk.answer("post-1", "r-1", &side.revise());
    assert!([200, 202].contains(&taken.status), "{taken:?}");
    talk.kill();
    talk.start();
    let revised = talk.until("post-1", |answer| outcome(answer) != "running");
    assert_eq!(outcome(&revised), "needs_input", "{revised:?}");
    assert_eq!(outcome(&talk.resume("post-1", "r-2", &side.approve())), "completed");
    assert_eq!(side.sent(), 1);
    talk.assert_nothing_leaked(side);
}
