//! Two servers on one database: whichever is asked, it is the same graph.

use serde_json::json;

use super::contract::race;
use super::side::Side;
use super::talk::{Talk, outcome};
use crate::place::Place;

pub(crate) fn two(side: &mut dyn Side, place: &Place) {
    let more = json!({"lockMs": 8000});
    let here = Talk::at_node("here", place, side, &more);
    let mut there = Talk::at_node("there", place, side, &more);
    let asked = here.asked(side, "post-1");
    assert_eq!(there.look("post-1").body["interrupt"], asked["interrupt"]);
    let revised = there.resume("post-1", "r-1", &side.revise());
    assert_eq!(outcome(&revised), "needs_input", "{revised:?}");
    assert_eq!(here.resume("post-1", "r-1", &side.revise()), revised, "told again elsewhere, it is the same");
    let (one, other) = (here.client(), there.client());
    let yes = side.approve();
    let again = &revised.body["interrupt"];
    let won = race("post-1", again, &[(one, &yes), (other, &yes), (one, &yes), (other, &yes)]);
    assert_eq!(won["outcome"], "completed", "{won}");
    assert_eq!((outcome(&here.look("post-1")), outcome(&there.look("post-1"))), ("completed", "completed"));
    assert_eq!(side.sent(), 1);
    // One dies with an answer in its hands; the other carries it on.
    there.asked(side, "post-2");
    let taken = there.answer("post-2", "r-1", &side.revise());
    assert!([200, 202].contains(&taken.status), "{taken:?}");
    there.kill();
    let revised = here.until("post-2", |answer| outcome(answer) != "running");
    assert_eq!(outcome(&revised), "needs_input", "{revised:?}");
    assert_eq!(outcome(&here.resume("post-2", "r-2", &side.approve())), "completed");
    assert_eq!(side.sent(), 2);
    there.start();
    here.assert_nothing_leaked(side);
    there.assert_nothing_leaked(side);
}
