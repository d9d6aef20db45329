//! Nodes that share a database wake each other's workers: here no worker looks by itself.

use crate::house::House;
use crate::place::Place;
use crate::slow_node::{Control, sleeps, slow, start_slow, until, work};

/// Two nodes that know of each other.
async fn given() -> (House, holdpoint_engine::Engine, Control) {
    let control = Control::new();
    let house = House::with(Place::postgres().await, |options| control.furnish(options)).await;
    house.register(slow()).await;
    let other = house.second_engine(|options| control.furnish(options)).await;
    until("that the nodes hear of each other", || {
        house.engine.hears_other_nodes() && other.hears_other_nodes()
    })
    .await;
    (house, other, control)
}

#[tokio::test(flavor = "multi_thread")]
async fn what_another_node_queues_in_a_busy_thread_begins_when_the_holder_ends() {
    let (house, other, mut control) = given().await;
    let (_stop, _worker) = work(&house.engine);
    start_slow(&house.engine, "t").await;
    control.one_begins().await;
    // The other node has no worker: it queues, and says so.
    start_slow(&other, "t").await;
    start_slow(&other, "u").await;
    control.one_begins().await;
    sleeps(&house.engine).await;
    control.none_has_begun();
    control.end_one();
    control.end_one();
    control.one_begins().await;
    control.end_one();
    other.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_node_that_goes_down_held_up_begins_on_the_other() {
    let (house, other, mut control) = given().await;
    let (stop, going_down) = work(&house.engine);
    start_slow(&house.engine, "t").await;
    control.one_begins().await;
    let (_stop, _worker) = work(&other);
    start_slow(&other, "t").await;
    sleeps(&other).await;
    stop.send(true).unwrap();
    control.none_has_begun();
    control.end_one();
    going_down.await.unwrap();
    control.one_begins().await;
    control.end_one();
    other.close().await;
}
