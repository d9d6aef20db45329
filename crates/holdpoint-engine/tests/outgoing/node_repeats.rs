//! `core.http` again: the same key for every attempt of one call, another one when a loop leads back to the node.

use serde_json::json;

use crate::house::{House, graph, node};
use crate::node::{failure, open};
use crate::peer::{Peer, Reply};
use crate::place::{Place, on_both};

on_both! {
    a_call_that_is_tried_again_carries_the_same_key,
    what_cannot_help_is_not_tried_again,
    each_turn_of_a_loop_is_a_call_of_its_own,
}

async fn a_call_that_is_tried_again_carries_the_same_key(place: Place) {
    let house = House::with(place, open).await;
    let replies = [Reply::json(503, ""), Reply::Say(String::new()), Reply::json(200, "7")];
    let peer = Peer::saying(replies).await;
    let mut call = node("call", "core.http", json!({"url": peer.url("/"), "method": "POST"}));
    call["settings"] = json!({"maxRetries": 5});
    house.register(graph("call", &[call], &[])).await;
    let of = house.start("call").await;
    for _ in 0..3 {
        house.drain().await;
        house.clock.advance(60_000);
    }
    let run = house.run(&of).await;
    assert_eq!((run.status().as_str(), &run.variables["body"]), ("completed", &json!(7)), "{:?}", run.end);
    let mut keys = peer.header("idempotency-key");
    assert_eq!(keys.len(), 3);
    keys.dedup();
    assert!(keys.len() == 1 && keys[0].is_some(), "{keys:?}");
}

async fn what_cannot_help_is_not_tried_again(place: Place) {
    let house = House::with(place, open).await;
    let peer = Peer::saying([Reply::json(404, "")]).await;
    let mut call = node("call", "core.http", json!({"url": peer.url("/")}));
    call["settings"] = json!({"maxRetries": 5});
    house.register(graph("call", &[call], &[])).await;
    let of = house.start("call").await;
    house.drain().await;
    assert_eq!(failure(&house, &of).await.code, "http_status");
    assert_eq!(peer.heard().len(), 1);
}

async fn each_turn_of_a_loop_is_a_call_of_its_own(place: Place) {
    let house = House::with(place, open).await;
    let peer = Peer::saying([Reply::json(200, "1"), Reply::json(200, "2"), Reply::json(200, "3")]).await;
    let nodes = [
        node("begin", "core.noop", json!({})),
        node("call", "core.http", json!({"url": peer.url("/")})),
        node("look", "core.noop", json!({})),
    ];
    let edge = |id: &str, from: &str, to: &str| json!({"id": id, "sourceNodeId": from, "targetNodeId": to});
    let mut back = edge("back", "look", "call");
    back["condition"] = json!({"type": "expression", "expression": "body < 3"});
    house
        .register(graph("loop", &nodes, &[edge("in", "begin", "call"), edge("on", "call", "look"), back]))
        .await;
    let of = house.start("loop").await;
    house.drain().await;
    let run = house.run(&of).await;
    assert_eq!((run.status().as_str(), &run.variables["body"]), ("completed", &json!(3)), "{:?}", run.end);
    let mut keys = peer.header("idempotency-key");
    keys.sort();
    keys.dedup();
    assert_eq!(keys.len(), 3, "{keys:?}");
}
