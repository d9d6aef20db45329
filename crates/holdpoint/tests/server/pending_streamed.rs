//! How much waits, as it is told to pages that stay open.

use std::io::{BufRead, BufReader};

use serde_json::{Value, json};

use crate::harness::{KEY, Server, accept, gated};
use crate::place::{Place, on_both};

on_both! {
    a_commit_is_told_to_whoever_watches,
}

/// An open stream, read count by count.
struct Watching(Box<dyn Iterator<Item = std::io::Result<String>>>);

impl Watching {
    fn open(server: &Server, query: &str) -> Self {
        let url = format!("{}/v1/interrupts/stream{query}", server.url);
        let answer = ureq::get(url).header("authorization", format!("Bearer {KEY}")).call().unwrap();
        assert_eq!(answer.headers()["content-type"], "text/event-stream");
        Self(Box::new(BufReader::new(answer.into_body().into_reader()).lines()))
    }

    /// The next counts; nothing at the end.
    fn next(&mut self) -> Option<Value> {
        self.0
            .by_ref()
            .map_while(Result::ok)
            .find_map(|line| line.strip_prefix("data: ").map(|data| serde_json::from_str(data).unwrap()))
    }

    /// Reads on until so many wait.
    fn until(&mut self, total: u64) -> Value {
        loop {
            let counts = self.next().expect("the stream goes on");
            if counts["total"] == total {
                return counts;
            }
        }
    }
}

fn a_commit_is_told_to_whoever_watches(place: &Place) {
    let server = place.start(&[]);
    server.client.put("/v1/workflows/gated", &gated("gated"));
    let mut all = Watching::open(&server, "");
    let mut mine = Watching::open(&server, "?assignee=me&kind=approval");
    assert_eq!(all.next().unwrap(), server.client.get("/v1/interrupts:counts").body, "told at once");
    mine.until(0);
    let run = server.client.start_run("gated");
    assert_eq!(all.until(1)["byKind"], json!({"approval": 1}));
    mine.until(1);
    server.client.answer(&run, "gate", &accept());
    all.until(0);
    mine.until(0);
    let cancelled = server.client.start_run("gated");
    all.until(1);
    server.client.send("POST", &format!("/v1/runs/{cancelled}/cancel"), None);
    all.until(0);
}

#[test]
fn what_happens_at_one_node_is_told_at_another() {
    let place = Place::postgres();
    let (one, two) = (place.start_node("one", &[]), place.start_node("two", &[]));
    one.client.put("/v1/workflows/gated", &gated("gated"));
    let mut watching = Watching::open(&two, "");
    watching.until(0);
    let run = one.client.start_run("gated");
    watching.until(1);
    one.client.answer(&run, "gate", &accept());
    watching.until(0);
}

#[test]
fn a_stream_ends_when_its_time_is_over_and_when_the_server_goes_down() {
    let mut server = Server::start();
    let mut brief = Watching::open(&server, "?seconds=1");
    assert!(brief.next().is_some() && brief.next().is_none());
    let mut watching = Watching::open(&server, "");
    assert!(watching.next().is_some());
    server.terminate();
    assert!(watching.next().is_none());
    assert!(server.wait().success());
    drop(watching);
}

#[test]
fn what_cannot_be_watched_is_refused_before_anything_is_streamed() {
    let server = Server::start();
    for query in ["?kind=odd", "?seconds=0", "?seconds=601", "?expiresBefore=soon"] {
        server.client.get(&format!("/v1/interrupts/stream{query}")).assert_envelope(400, "validation_error");
    }
}
