//! Repeated calls of `core.http`: all attempts of one call have the same idempotency key, each round of a loop has its
//! own.

use serde_json::json;

use crate::outgoing::node::{failure, open};
use crate::peer::{Peer, PeerReply};
use crate::test_database::{TestDatabase, on_both};
use crate::test_env::{TestEnv, graph, node};

on_both! {
    a_retried_call_has_the_same_key,
    a_permanent_error_is_not_retried,
    each_round_of_a_loop_has_its_own_key,
}

async fn a_retried_call_has_the_same_key(database: TestDatabase) {
    let env = TestEnv::with(database, open).await;
    let replies = [PeerReply::json(503, ""), PeerReply::Say(String::new()), PeerReply::json(200, "7")];
    let peer = Peer::with_replies(replies).await;
    let mut call = node("call", "core.http", json!({"url": peer.url("/"), "method": "POST"}));
    call["settings"] = json!({"maxRetries": 5});
    env.register(graph("call", &[call], &[])).await;
    let of = env.start("call").await;
    for _ in 0..3 {
        env.drain().await;
        env.clock.advance(60_000);
    }
    let run = env.run(&of).await;
    assert_eq!((run.status().as_str(), &run.variables["body"]), ("completed", &json!(7)), "{:?}", run.end);
    let mut keys = peer.header("idempotency-key");
    assert_eq!(keys.len(), 3);
    keys.dedup();
    assert!(keys.len() == 1 && keys[0].is_some(), "{keys:?}");
}

async fn a_permanent_error_is_not_retried(database: TestDatabase) {
    let env = TestEnv::with(database, open).await;
    let peer = Peer::with_replies([PeerReply::json(404, "")]).await;
    let mut call = node("call", "core.http", json!({"url": peer.url("/")}));
    call["settings"] = json!({"maxRetries": 5});
    env.register(graph("call", &[call], &[])).await;
    let of = env.start("call").await;
    env.drain().await;
    assert_eq!(failure(&env, &of).await.code, "http_status");
    assert_eq!(peer.requests().len(), 1);
}

async fn each_round_of_a_loop_has_its_own_key(database: TestDatabase) {
    let env = TestEnv::with(database, open).await;
    let peer =
        Peer::with_replies([PeerReply::json(200, "1"), PeerReply::json(200, "2"), PeerReply::json(200, "3")])
            .await;
    let nodes = [
        node("begin", "core.noop", json!({})),
        node("call", "core.http", json!({"url": peer.url("/")})),
        node("look", "core.noop", json!({})),
    ];
    let edge = |id: &str, from: &str, to: &str| json!({"id": id, "sourceNodeId": from, "targetNodeId": to});
    let mut back = edge("back", "look", "call");
    back["condition"] = json!({"type": "expression", "expression": "body < 3"});
    env.register(graph("loop", &nodes, &[edge("in", "begin", "call"), edge("on", "call", "look"), back]))
        .await;
    let of = env.start("loop").await;
    env.drain().await;
    let run = env.run(&of).await;
    assert_eq!((run.status().as_str(), &run.variables["body"]), ("completed", &json!(3)), "{:?}", run.end);
    let mut keys = peer.header("idempotency-key");
    keys.sort();
    keys.dedup();
    assert_eq!(keys.len(), 3, "{keys:?}");
}
