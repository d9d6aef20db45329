//! Tests of many concurrent readers of one run: they share reads and pages.

use std::pin::Pin;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::StreamExt;
use holdpoint_core::{Answer, Command, NodeId, Owner, Principal, RunRef, StartRequest, TenantId, WorkflowId};
use holdpoint_engine::{Engine, Location, Options};
use serde_json::{Value, json};
use tokio::sync::watch;

use super::listing::EventListing;
use super::stream::RunEventStream;
use crate::openwop::log::{self, FrameContent, LogCache, LogReader};
use crate::openwop::stream_modes::StreamModes;
use crate::streams::FrameSource;

const GATES: usize = 4;
/// Larger than a page; the values of all gates exceed the cache.
const LARGE: usize = 700_000;
const SMALL: usize = 10;

type FrameStream = Pin<Box<dyn futures_util::Stream<Item = Bytes> + Send>>;

struct LogFixture {
    engine: Engine,
    log: Arc<LogCache>,
    of: RunRef,
    _folder: tempfile::TempDir,
    _stop: watch::Sender<bool>,
}

/// Returns a workflow of gates with a large output after each.
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

impl LogFixture {
    async fn with_run(payload_bytes: usize) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let location = Location::Sqlite(folder.path().join("holdpoint.db"));
        let engine = Engine::open(crate::extensions::add_default(Options::new(location).manual_worker()))
            .await
            .unwrap();
        let tenant = TenantId::parse("default").unwrap();
        engine.workflows().register(&tenant, workflow()).await.unwrap();
        let owner = Owner { tenant: tenant.clone(), principal: "ann".to_owned() };
        let mut start = StartRequest::new(owner);
        start.inputs.insert("payload".to_owned(), json!("x".repeat(payload_bytes)));
        let run = engine.runs().create(&WorkflowId::parse("crowded").unwrap(), start).await.unwrap();
        let (stop, stopping) = watch::channel(false);
        let log = LogCache::new(engine.clone(), stopping);
        let of = RunRef { tenant, run: run.id.clone() };
        Self { engine, log, of, _folder: folder, _stop: stop }
    }

    async fn frames(&self, modes: StreamModes) -> FrameStream {
        let reader = LogReader::open(&self.log, self.of.clone(), FrameContent::of(modes), 0).await.unwrap();
        let frames = RunEventStream::new(reader, modes, None, None).into_frames();
        Box::pin(frames)
    }

    async fn answer(&self, at: usize) {
        let by = Principal::named("ann");
        let answer = Answer::new(json!({"action": "accept"}), by);
        let node = NodeId::parse(&format!("gate{at}")).unwrap();
        self.engine
            .runs()
            .execute(&self.of, &Command::ResolveNode { node, interrupt: None, answer })
            .await
            .unwrap();
    }
}

fn text(chunks: &[Bytes]) -> Vec<u8> {
    chunks.concat()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_thousand_readers_cost_one_read_per_commit_and_do_not_wait_for_an_idle_reader() {
    const READERS: usize = 1000;
    let fixture = LogFixture::with_run(SMALL).await;
    let mut idle = fixture.frames(StreamModes::DEBUG).await;
    let mut readers = Vec::new();
    for _ in 0..READERS {
        let mut frames = fixture.frames(StreamModes::DEBUG).await;
        let first = frames.next().await.unwrap();
        readers.push(tokio::spawn(async move {
            let rest: Vec<Bytes> = frames.collect().await;
            [vec![first], rest].concat()
        }));
    }
    assert_eq!(fixture.log.reads(), 1, "the first commit was read once");
    for at in 0..GATES {
        fixture.answer(at).await;
    }
    let mut seen = Vec::new();
    for reader in readers {
        seen.push(reader.await.unwrap());
    }
    let (reads, commits) = (fixture.log.reads(), 1 + GATES as u64);
    assert!(reads <= commits, "{reads} reads for {commits} commits");
    for other in &seen {
        let pointers = |chunks: &[Bytes]| -> Vec<_> { chunks.iter().map(|chunk| chunk.as_ptr()).collect() };
        assert_eq!(pointers(other), pointers(&seen[0]), "all readers share one text");
    }
    let late: Vec<Bytes> = idle.by_ref().collect().await;
    assert_eq!(text(&late), text(&seen[0]));
}

#[tokio::test]
async fn a_late_reader_gets_evicted_pages_from_the_store() {
    let fixture = LogFixture::with_run(LARGE).await;
    let mut late = fixture.frames(StreamModes::DEBUG).await;
    let mut read = vec![late.next().await.unwrap()];
    for at in 0..GATES {
        fixture.answer(at).await;
    }
    let whole: Vec<Bytes> = fixture.frames(StreamModes::DEBUG).await.collect().await;
    assert!(text(&whole).len() > GATES * LARGE);
    assert!(
        fixture.log.cached_bytes() <= log::BYTES_MAX && fixture.log.page_count() < whole.len(),
        "not all pages are cached"
    );
    while let Some(chunk) = late.next().await {
        read.push(chunk);
    }
    assert!(text(&read) == text(&whole), "both readers get the same bytes");
}

#[tokio::test]
async fn readers_of_different_modes_are_served_from_the_same_pages() {
    let fixture = LogFixture::with_run(SMALL).await;
    for at in 0..GATES {
        fixture.answer(at).await;
    }
    let all: Vec<Bytes> = fixture.frames(StreamModes::DEBUG).await.collect().await;
    let reads = fixture.log.reads();
    let updates: Vec<Bytes> = fixture.frames(StreamModes::UPDATES).await.collect().await;
    assert!(text(&updates).len() < text(&all).len());
    let mut reader =
        LogReader::open(&fixture.log, fixture.of.clone(), FrameContent::Documents, 5).await.unwrap();
    let rest = reader.next().await.unwrap().unwrap();
    assert_eq!(rest.frames().next().unwrap().sequence, 5, "the reader begins in the middle of a page");
    assert_eq!(fixture.log.reads(), reads, "the pages were cached");
}

#[tokio::test]
async fn a_list_of_many_pages_is_one_document() {
    let fixture = LogFixture::with_run(LARGE).await;
    for at in 0..GATES {
        fixture.answer(at).await;
    }
    let reader = LogReader::open(&fixture.log, fixture.of.clone(), FrameContent::Documents, 0).await.unwrap();
    let response =
        EventListing::new(reader, StreamModes::DEBUG).with_completion().into_response().await.unwrap();
    let body = axum::body::to_bytes(response.into_body(), usize::MAX).await.unwrap();
    assert!(body.len() > GATES * LARGE);
    let body: Value = serde_json::from_slice(&body).unwrap();
    let sequences =
        body["events"].as_array().unwrap().iter().map(|event| event["sequence"].as_u64().unwrap());
    let length = fixture.engine.events().count(&fixture.of).await.unwrap();
    assert!(sequences.eq(0..length), "each event once, in order");
    assert_eq!(body["isComplete"], true);
}
