//! Which answers go where: by the server's own names of questions, once, and only as long as they are open.

use serde_json::{Value, json};

use crate::fake::{Fake, Fault};
use crate::fake_world::{Step, World, ask, hang};
use crate::house::{House, asked, completed, failed, trouble};
use crate::place::Place;

#[tokio::test(flavor = "multi_thread")]
async fn several_questions_are_answered_one_by_one_in_any_order() {
    const VOTERS: [&str; 3] = ["ann", "bob", "cleo"];
    for order in [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]] {
        let three = VOTERS.map(|name| json!({"kind": "vote", "data": name})).to_vec();
        let fake = Fake::playing([Step::Ask(three), ask(2), Step::Finish(json!({"ok": 1}))]).await;
        let (place, settings) = (Place::sqlite(), fake.settings());
        let house = House::open(&place, settings).await;
        let (kind, data) = asked(house.start("g", "k", json!({})).await);
        assert_eq!((kind.as_str(), voters(&data)), ("multi", json!(VOTERS)));
        let [first, second, last] = order;
        let (_, data) = asked(house.resume("k", "r1", json!({format!("i{first}"): first})).await);
        let mut left = [second, last];
        left.sort_unstable();
        assert_eq!(voters(&data), json!(left.map(|at| VOTERS[at])), "{order:?}");
        // What stays open keeps its key.
        let (kind, data) = asked(house.resume("k", "r2", json!({format!("i{second}"): second})).await);
        assert_eq!((kind.as_str(), data), ("vote", json!(VOTERS[last])), "{order:?}");
        // One question is answered with the bare value, and so is the next one of the same graph.
        assert_eq!(asked(house.resume("k", "r3", json!(last)).await).1, json!({"round": 2}), "{order:?}");
        completed(house.resume("k", "r4", json!(null)).await);
        let heard = fake.look(|world| world.answers.clone());
        assert_eq!(heard, [json!(first), json!(second), json!(last), json!(null)], "{order:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_last_of_several_questions_is_answered_once_when_its_outcome_is_lost() {
    let two = vec![json!("a?"), json!("b?")];
    let fake = Fake::playing([Step::Ask(two), ask(2)]).await;
    let place = Place::sqlite();
    let house = House::open(&place, fake.settings()).await;
    asked(house.start("g", "k", json!({})).await);
    asked(house.resume("k", "r1", json!({"i0": "first"})).await);
    fake.fail("POST /threads/X/runs", Fault::Cut);
    assert_eq!(asked(house.resume("k", "r2", json!("second")).await).1, json!({"round": 2}));
    assert_eq!(fake.look(|world| world.answers.clone()), [json!("first"), json!("second")]);
}

fn voters(data: &Value) -> Value {
    data["items"].as_array().unwrap().iter().map(|item| item["data"].clone()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn several_questions_can_be_answered_at_once() {
    let two = vec![json!("a?"), json!("b?")];
    let fake = Fake::playing([Step::Ask(two), Step::Finish(json!({}))]).await;
    let place = Place::sqlite();
    let house = House::open(&place, fake.settings()).await;
    asked(house.start("g", "k", json!({})).await);
    completed(house.resume("k", "r1", json!({"i0": 1, "i1": 2})).await);
    assert_eq!(fake.look(|world| world.answers.clone()), [json!(1), json!(2)]);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_answered_over_there_meanwhile_is_not_answered_again() {
    let fake = Fake::playing([ask(1), Step::Finish(json!({"by": "somebody else"}))]).await;
    let place = Place::sqlite();
    let house = House::open(&place, fake.settings()).await;
    asked(house.start("g", "k", json!({})).await);
    // Somebody answers at the server itself.
    fake.change(|world| {
        let id = world.open().remove(0);
        let body = json!({
            "command": {"resume": {id: "theirs"}}, "multitask_strategy": "reject", "durability": "sync",
        });
        let thread = world.names()[0].clone();
        world.answer(&format!("POST /threads/{thread}/runs"), &body);
    });
    assert_eq!(completed(house.resume("k", "r1", json!("ours")).await), json!({"by": "somebody else"}));
    assert_eq!(fake.look(|world| world.answers.clone()), [json!("theirs")]);
    assert_eq!(fake.heard("POST /threads/X/runs"), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_the_graph_does_not_take_can_be_given_again() {
    let question = json!({"kind": "form", "data": 1});
    let wrong = Step::Fail("ValidationError", "field required, see https://errors.test/x");
    let fake = Fake::playing([Step::AskTyped(question), wrong, Step::Finish(json!({}))]).await;
    let place = Place::sqlite();
    let house = House::open(&place, fake.settings()).await;
    asked(house.start("g", "k", json!({})).await);
    assert_eq!(trouble(house.resume("k", "r1", json!({"a": 1})).await), "answer_rejected");
    assert!(house.told("k").await.contains("field required, see […]"));
    completed(house.resume("k", "r2", json!({"a": 2})).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_error_of_the_same_name_that_no_answer_caused_ends_the_graph() {
    let fake = Fake::playing([ask(1), Step::Fail("ValidationError", "bad config")]).await;
    let place = Place::sqlite();
    let house = House::open(&place, fake.settings()).await;
    asked(house.start("g", "k", json!({})).await);
    let (code, message) = failed(house.resume("k", "r1", json!(1)).await);
    assert_eq!((code.as_str(), message.as_str()), ("graph_error", "ValidationError: bad config"));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_arrived_although_nobody_heard_so_is_not_sent_again() {
    for fault in [Fault::Cut, Fault::Broken(500), Fault::Broken(504)] {
        let fake = Fake::playing([ask(1), ask(2)]).await;
        let place = Place::sqlite();
        let house = House::open(&place, fake.settings()).await;
        asked(house.start("g", "k", json!({})).await);
        fake.fail("POST /threads/X/runs", fault);
        assert_eq!(asked(house.resume("k", "r1", json!(1)).await).1, json!({"round": 2}), "{fault:?}");
        assert_eq!(fake.look(|world| world.answers.len()), 1, "{fault:?}");
        assert_eq!(fake.heard("POST /threads/X/runs"), 2, "{fault:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_arrived_and_is_still_at_work_is_waited_for() {
    let fake = Fake::playing([ask(1), hang(Step::Finish(json!({"ok": 1})))]).await;
    let place = Place::sqlite();
    let house = House::open(&place, fake.settings()).await;
    asked(house.start("g", "k", json!({})).await);
    fake.fail("POST /threads/X/runs", Fault::Cut);
    house.answer("k", "r1", json!(1)).await.unwrap();
    fake.heard_times("/join", 2).await;
    fake.release();
    assert_eq!(completed(house.settled("k").await), json!({"ok": 1}));
    assert_eq!(fake.look(|world| world.answers.len()), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_waits_for_nobody_elses_work() {
    let fake = Fake::playing([ask(1), Step::Finish(json!({}))]).await;
    let place = Place::sqlite();
    let house = House::open(&place, fake.settings()).await;
    asked(house.start("g", "k", json!({})).await);
    fake.change(|world| world.intrude("running"));
    assert_eq!(trouble(house.resume("k", "r1", json!(1)).await), "provider_busy");
    fake.change(World::stop_all);
    completed(house.resume("k", "r2", json!(1)).await);
}
