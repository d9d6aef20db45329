//! Many readers of one run, and what they cost.

use std::pin::Pin;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::StreamExt;
use holdpoint_core::{Answer, Command, NodeId, Owner, Principal, RunRef, Start, TenantId, WorkflowId};
use holdpoint_engine::{Engine, Location, Options};
use serde_json::{Value, json};
use tokio::sync::watch;

use super::listing::Listing;
use super::stream::Stream;
use crate::openwop::log::{self, Log, Reader, Shape};
use crate::openwop::mode::Modes;

const GATES: usize = 4;
/// More than fits a page, and more than is kept of all the pages of a run.
const LARGE: usize = 700_000;
const SMALL: usize = 10;

type Frames = Pin<Box<dyn futures_util::Stream<Item = Bytes> + Send>>;

struct House {
    engine: Engine,
    log: Arc<Log>,
    of: RunRef,
    _folder: tempfile::TempDir,
    _stop: watch::Sender<bool>,
}

/// Gates with a large value behind each.
fn workflow() -> Value {
    let node = |id: String, type_id: &str, config: Value, inputs: Value| json!({"id": id, "typeId": type_id, "name": id, "position": {"x": 0, "y": 0}, "config": config, "inputs": inputs});
    let gate = |at| node(format!("gate{at}"), "core.approvalGate", json!({"title": "Go on?"}), json!({}));
    let payload = json!({"payload": {"type": "variable", "variableName": "payload"}});
    let large = |at| node(format!("large{at}"), "core.identity", json!({}), payload.clone());
    let nodes: Vec<Value> = (0..GATES).flat_map(|at| [gate(at), large(at)]).collect();
    let edges: Vec<Value> = nodes
        .windows(2)
        .enumerate()
        .map(|(at, pair)| json!({"id": at.to_string(), "sourceNodeId": pair[0]["id"], "targetNodeId": pair[1]["id"]}))
        .collect();
    json!({
        "id": "crowded", "name": "crowded", "version": "1", "nodes": nodes, "edges": edges, "triggers": [],
        "variables": [{"name": "payload", "type": "string"}], "metadata": {}, "settings": {},
    })
}

impl House {
    async fn with_run(payload_bytes: usize) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let location = Location::Sqlite(folder.path().join("holdpoint.db"));
        let engine = Engine::open(Options::new(location)).await.unwrap();
        let tenant = TenantId::parse("default").unwrap();
        engine.register(&tenant, workflow()).await.unwrap();
        let owner = Owner { tenant: tenant.clone(), principal: "ann".to_owned() };
        let mut start = Start::new(owner);
        start.inputs.insert("payload".to_owned(), json!("x".repeat(payload_bytes)));
        let run = engine.start(&WorkflowId::parse("crowded").unwrap(), start).await.unwrap();
        let (stop, stopping) = watch::channel(false);
        let log = Log::new(engine.clone(), stopping);
        let of = RunRef { tenant, run: run.id.clone() };
        Self { engine, log, of, _folder: folder, _stop: stop }
    }

    async fn frames(&self, modes: Modes) -> Frames {
        let reader = Reader::open(&self.log, self.of.clone(), Shape::of(modes), 0).await.unwrap();
        let frames = Stream::new(reader, modes, None, None).into_frames();
        Box::pin(frames)
    }

    async fn answer(&self, at: usize) {
        let by = Principal::named("ann");
        let answer = Answer::new(json!({"action": "accept"}), by);
        let node = NodeId::parse(&format!("gate{at}")).unwrap();
        self.engine.execute(&self.of, &Command::ResolveNode { node, interrupt: None, answer }).await.unwrap();
    }
}

fn text(chunks: &[Bytes]) -> Vec<u8> {
    chunks.concat()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_thousand_readers_cost_one_read_for_each_commit_and_nobody_waits_for_one_who_does_not_read() {
    const READERS: usize = 1000;
    let house = House::with_run(SMALL).await;
    let mut asleep = house.frames(Modes::DEBUG).await;
    let mut readers = Vec::new();
    for _ in 0..READERS {
        let mut frames = house.frames(Modes::DEBUG).await;
        let first = frames.next().await.unwrap();
        readers.push(tokio::spawn(async move {
            let rest: Vec<Bytes> = frames.collect().await;
            [vec![first], rest].concat()
        }));
    }
    assert_eq!(house.log.reads(), 1, "the first commit was read once");
    for at in 0..GATES {
        house.answer(at).await;
    }
    let mut seen = Vec::new();
    for reader in readers {
        seen.push(reader.await.unwrap());
    }
    let (reads, commits) = (house.log.reads(), 1 + GATES as u64);
    assert!(reads <= commits, "{reads} reads for {commits} commits");
    for other in &seen {
        let pointers = |chunks: &[Bytes]| -> Vec<_> { chunks.iter().map(|chunk| chunk.as_ptr()).collect() };
        assert_eq!(pointers(other), pointers(&seen[0]), "one text for all");
    }
    let late: Vec<Bytes> = asleep.by_ref().collect().await;
    assert_eq!(text(&late), text(&seen[0]));
}

#[tokio::test]
async fn what_is_not_kept_for_a_reader_who_is_late_is_still_in_the_store() {
    let house = House::with_run(LARGE).await;
    let mut late = house.frames(Modes::DEBUG).await;
    let mut read = vec![late.next().await.unwrap()];
    for at in 0..GATES {
        house.answer(at).await;
    }
    let whole: Vec<Bytes> = house.frames(Modes::DEBUG).await.collect().await;
    assert!(text(&whole).len() > GATES * LARGE);
    assert!(house.log.kept_bytes() <= log::BYTES_MAX && house.log.places() < whole.len(), "not all is kept");
    while let Some(chunk) = late.next().await {
        read.push(chunk);
    }
    assert!(text(&read) == text(&whole), "the same, byte for byte");
}

#[tokio::test]
async fn readers_of_different_modes_are_served_from_the_same_pages() {
    let house = House::with_run(SMALL).await;
    for at in 0..GATES {
        house.answer(at).await;
    }
    let all: Vec<Bytes> = house.frames(Modes::DEBUG).await.collect().await;
    let reads = house.log.reads();
    let updates: Vec<Bytes> = house.frames(Modes::UPDATES).await.collect().await;
    assert!(text(&updates).len() < text(&all).len());
    let mut reader = Reader::open(&house.log, house.of.clone(), Shape::Documents, 5).await.unwrap();
    let rest = reader.next().await.unwrap().unwrap();
    assert_eq!(rest.frames().next().unwrap().sequence, 5, "in the middle of a page");
    assert_eq!(house.log.reads(), reads, "the pages were there");
}

#[tokio::test]
async fn a_list_of_many_pages_is_one_document() {
    let house = House::with_run(LARGE).await;
    for at in 0..GATES {
        house.answer(at).await;
    }
    let reader = Reader::open(&house.log, house.of.clone(), Shape::Documents, 0).await.unwrap();
    let response = Listing::new(reader, Modes::DEBUG).tells_end().into_response().await.unwrap();
    let body = axum::body::to_bytes(response.into_body(), usize::MAX).await.unwrap();
    assert!(body.len() > GATES * LARGE);
    let body: Value = serde_json::from_slice(&body).unwrap();
    let sequences =
        body["events"].as_array().unwrap().iter().map(|event| event["sequence"].as_u64().unwrap());
    let length = house.engine.length(&house.of).await.unwrap();
    assert!(sequences.eq(0..length), "each once, in order");
    assert_eq!(body["isComplete"], true);
}
