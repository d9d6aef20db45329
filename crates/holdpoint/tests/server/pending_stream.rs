//! The stream of counts of pending interrupts.

use std::io::{BufRead, BufReader};

use serde_json::{Value, json};

use crate::harness::{KEY, Server, accept, gated};
use crate::test_database::{TestDatabase, on_both};

on_both! {
    an_open_stream_gets_new_counts_after_each_commit,
}

/// An open stream of counts.
struct CountStream(Box<dyn Iterator<Item = std::io::Result<String>>>);

impl CountStream {
    fn open(server: &Server, query: &str) -> Self {
        let url = format!("{}/v1/interrupts/stream{query}", server.url);
        let answer = ureq::get(url).header("authorization", format!("Bearer {KEY}")).call().unwrap();
        assert_eq!(answer.headers()["content-type"], "text/event-stream");
        Self(Box::new(BufReader::new(answer.into_body().into_reader()).lines()))
    }

    /// Returns the next counts, or `None` at the end of the stream.
    fn next(&mut self) -> Option<Value> {
        self.0
            .by_ref()
            .map_while(Result::ok)
            .find_map(|line| line.strip_prefix("data: ").map(|data| serde_json::from_str(data).unwrap()))
    }

    /// Reads until the total has this value.
    fn until(&mut self, total: u64) -> Value {
        loop {
            let counts = self.next().expect("the stream has not ended");
            if counts["total"] == total {
                return counts;
            }
        }
    }
}

fn an_open_stream_gets_new_counts_after_each_commit(database: &TestDatabase) {
    let server = database.start(&[]);
    server.client.put("/v1/workflows/gated", &gated("gated"));
    let mut all = CountStream::open(&server, "");
    let mut mine = CountStream::open(&server, "?assignee=me&kind=approval");
    assert_eq!(
        all.next().unwrap(),
        server.client.get("/v1/interrupts:counts").body,
        "the first counts come at once"
    );
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
fn a_stream_at_one_node_gets_counts_of_changes_at_another() {
    let database = TestDatabase::postgres();
    let (one, two) = (database.start_node("one", &[]), database.start_node("two", &[]));
    one.client.put("/v1/workflows/gated", &gated("gated"));
    let mut stream = CountStream::open(&two, "");
    stream.until(0);
    let run = one.client.start_run("gated");
    stream.until(1);
    one.client.answer(&run, "gate", &accept());
    stream.until(0);
}

#[test]
fn a_stream_ends_when_its_time_is_over_and_when_the_server_goes_down() {
    let mut server = Server::start();
    let mut brief = CountStream::open(&server, "?seconds=1");
    assert!(brief.next().is_some() && brief.next().is_none());
    let mut stream = CountStream::open(&server, "");
    assert!(stream.next().is_some());
    server.terminate();
    assert!(stream.next().is_none());
    assert!(server.wait().success());
    drop(stream);
}

#[test]
fn an_invalid_stream_query_is_refused_before_the_stream_starts() {
    let server = Server::start();
    for query in ["?kind=odd", "?seconds=0", "?seconds=601", "?expiresBefore=soon"] {
        server.client.get(&format!("/v1/interrupts/stream{query}")).assert_envelope(400, "validation_error");
    }
}
