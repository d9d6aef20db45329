//! Graphs by their state key: which answers are which, what was once said of them, and when they end by themselves.

use holdpoint_engine::core::{Answer, Owner, Principal, RunRef};
use holdpoint_engine::{GraphError, GraphStart, Resume, Standing};
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::house::{House, tenant};
use crate::place::on_both;

const WEEK: i64 = 7 * 24 * 3_600_000;
const DAY: i64 = 24 * 3_600_000;

on_both! {
    a_vote_that_is_told_again_is_no_answer_to_the_next_question,
    what_an_answer_came_to_is_told_while_the_graph_is_at_work_on_the_next,
    questions_that_stay_open_keep_their_keys,
    a_graph_that_nobody_answers_for_a_week_is_ended_and_forgotten_a_day_later,
    an_answer_through_any_door_begins_a_new_week,
    a_deadline_of_its_own_may_be_later_than_a_week,
    a_graph_that_does_not_wait_is_not_ended,
}

fn node(id: &str, type_id: &str, config: Value) -> Value {
    json!({"id": id, "typeId": type_id, "name": id, "position": {"x": 0, "y": 0}, "config": config, "inputs": {}})
}

fn flow(nodes: Value, edges: &[(&str, &str)]) -> Value {
    let edges: Vec<Value> = edges
        .iter()
        .map(|(from, to)| json!({"id": format!("{from}-{to}"), "sourceNodeId": from, "targetNodeId": to}))
        .collect();
    json!({
        "id": "flow", "name": "flow", "version": "1", "triggers": [], "variables": [], "metadata": {}, "settings": {},
        "nodes": nodes, "edges": edges,
    })
}

impl House {
    async fn graph(&self, definition: Value) -> RunRef {
        self.register(definition).await;
        let owner = Owner { tenant: tenant(), principal: "tester".to_owned() };
        let (graph, state_key, input) = ("native:flow".to_owned(), Some("key".to_owned()), json!({}));
        self.engine.start_graph(GraphStart { owner, graph, state_key, input }).await.unwrap().0.of
    }

    async fn says(&self, who: &str, id: &str, value: Value) -> Result<Standing, GraphError> {
        let answer = Answer::new(value, Principal::named(who));
        let resume = Resume { id: id.to_owned(), answer, to: None };
        let (handle, decision) = self.engine.resume_graph(&tenant(), "key", resume).await?;
        Ok(self.engine.graph_settled(&handle.of, Some(&decision), Instant::now()).await?)
    }

    async fn standing(&self) -> Result<Standing, GraphError> {
        let handle = self.engine.handle(&tenant(), "key").await?;
        Ok(self.engine.graph_standing(&handle.of).await?)
    }

    async fn tidied(&self) {
        self.engine.worker().tidy().await;
    }
}

fn title(standing: &Standing) -> &str {
    let Standing::Waiting { data, .. } = standing else { panic!("it does not wait: {standing:?}") };
    data["title"].as_str().unwrap()
}

fn accept() -> Value {
    json!({"action": "accept"})
}

async fn a_vote_that_is_told_again_is_no_answer_to_the_next_question(house: House) {
    let first = json!({"title": "first", "requiredApprovals": 2});
    let gates = json!([
        node("first", "core.approvalGate", first),
        node("second", "core.approvalGate", json!({"title": "second"})),
    ]);
    house.graph(flow(gates, &[("first", "second")])).await;
    assert_eq!(
        title(&house.says("alice", "r-a", accept()).await.unwrap()),
        "first",
        "one voice is not enough"
    );
    assert_eq!(title(&house.says("bob", "r-b", accept()).await.unwrap()), "second");
    // Her answer was lost on the way, and she sends it again.
    assert_eq!(title(&house.says("alice", "r-a", accept()).await.unwrap()), "first", "as it was then");
    assert_eq!(title(&house.standing().await.unwrap()), "second", "nobody has answered that");
    let other = house.says("alice", "r-a", json!({"action": "reject"})).await;
    assert!(matches!(other, Err(GraphError::OtherValue)), "{other:?}");
}

async fn what_an_answer_came_to_is_told_while_the_graph_is_at_work_on_the_next(house: House) {
    let call = json!({"method": "POST", "url": "https://example.com/"});
    let nodes = json!([
        node("first", "core.approvalGate", json!({"title": "first"})),
        node("second", "core.approvalGate", json!({"title": "second"})),
        node("call", "core.http", call),
    ]);
    house.graph(flow(nodes, &[("first", "second"), ("second", "call")])).await;
    let then = house.says("alice", "r-1", accept()).await.unwrap();
    assert_eq!(title(&then), "second");
    assert_eq!(house.says("alice", "r-2", accept()).await.unwrap(), Standing::Running, "no worker is there");
    assert_eq!(house.says("alice", "r-1", accept()).await.unwrap(), then);
}

async fn questions_that_stay_open_keep_their_keys(house: House) {
    let gate = |name: &str| node(name, "core.approvalGate", json!({"title": name}));
    let of = house.graph(flow(json!([gate("a"), gate("b"), gate("c")]), &[])).await;
    house.answer(&of, "a", accept()).await.unwrap();
    // Meant for b, by somebody who saw all three.
    let left = house.says("alice", "r", json!({"i1": {"action": "accept"}})).await.unwrap();
    assert_eq!(title(&left), "c");
}

fn one_gate(config: Value) -> Value {
    flow(
        json!([node("gate", "core.approvalGate", config), node("after", "core.approvalGate", json!({}))]),
        &[("gate", "after")],
    )
}

async fn a_graph_that_nobody_answers_for_a_week_is_ended_and_forgotten_a_day_later(house: House) {
    house.graph(one_gate(json!({}))).await;
    house.clock.advance(WEEK - 1);
    house.tidied().await;
    assert!(matches!(house.standing().await, Ok(Standing::Waiting { .. })));
    house.clock.advance(1);
    house.tidied().await;
    assert!(matches!(house.standing().await, Ok(Standing::Cancelled { expired: true, .. })));
    house.clock.advance(DAY - 1);
    house.tidied().await;
    assert!(house.standing().await.is_ok(), "whoever asks is still told");
    house.clock.advance(1);
    house.tidied().await;
    assert!(matches!(house.standing().await, Err(GraphError::NoState)));
}

async fn an_answer_through_any_door_begins_a_new_week(house: House) {
    let of = house.graph(one_gate(json!({}))).await;
    house.clock.advance(WEEK - 1);
    house.answer(&of, "gate", accept()).await.unwrap();
    house.clock.advance(WEEK - 1);
    house.tidied().await;
    assert!(matches!(house.standing().await, Ok(Standing::Waiting { .. })));
    house.clock.advance(1);
    house.tidied().await;
    assert!(matches!(house.standing().await, Ok(Standing::Cancelled { expired: true, .. })));
}

async fn a_deadline_of_its_own_may_be_later_than_a_week(house: House) {
    house.graph(one_gate(json!({"timeoutMs": 2 * WEEK}))).await;
    house.clock.advance(2 * WEEK - 1);
    house.tidied().await;
    assert!(matches!(house.standing().await, Ok(Standing::Waiting { .. })));
}

async fn a_graph_that_does_not_wait_is_not_ended(house: House) {
    let nodes = json!([node("sleep", "core.delay", json!({"ms": 3 * WEEK}))]);
    house.graph(flow(nodes, &[])).await;
    house.clock.advance(2 * WEEK);
    house.tidied().await;
    assert_eq!(house.standing().await.unwrap(), Standing::Running);
}
