//! The contract with the published LangGraph server.

use std::path::Path;
use std::sync::Mutex;

use serde_json::{Value, json};
use tokio::runtime::Runtime;

use super::contract::provider_tests;
use super::provider_case::ProviderCase;
use super::real_server::{RealServer, TOKEN};
use super::recorded_server::{RecordedServer, outcome};
use crate::test_database::TestDatabase;

struct Letters {
    runtime: Runtime,
    server: Option<RealServer>,
    /// The internal names of the server before it was killed.
    names: Mutex<Vec<String>>,
}

impl Letters {
    fn new() -> Self {
        let runtime = Runtime::new().unwrap();
        let server = Some(runtime.block_on(RealServer::start()));
        Self { runtime, server, names: Mutex::default() }
    }

    fn server(&self) -> &RealServer {
        self.server.as_ref().unwrap()
    }
}

impl Drop for Letters {
    fn drop(&mut self) {
        // The server must be dropped inside the runtime that started it.
        let _entered = self.runtime.enter();
        self.server.take();
    }
}

impl ProviderCase for Letters {
    fn graph(&self) -> &'static str {
        "langgraph:letter"
    }

    fn input(&self) -> Value {
        json!({"topic": "cats"})
    }

    fn next_input(&self) -> Value {
        json!({"topic": "dogs"})
    }

    /// The steps of both turns are in the state of one thread.
    fn assert_continued(&self, second_output: &Value) {
        let steps = second_output["steps"].as_array().unwrap();
        assert_eq!(steps.iter().filter(|step| **step == "write").count(), 2, "{second_output}");
    }

    fn kind(&self) -> &'static str {
        "letter_review"
    }

    fn revise(&self) -> Value {
        json!({"action": "revise", "feedback": "shorter"})
    }

    fn approve(&self) -> Value {
        json!({"action": "approve"})
    }

    fn invalid_answer(&self) -> Option<Value> {
        None
    }

    fn settings(&self) -> Value {
        json!({"langgraph": {"default": self.server().settings()}})
    }

    fn sent(&self) -> usize {
        self.server().sent()
    }

    fn remember_internal_names(&self, _data: &Path) {
        let found = self.runtime.block_on(self.server().ids());
        self.names.lock().unwrap().extend(found);
    }

    fn internal_names(&self, data: &Path) -> Vec<String> {
        self.remember_internal_names(data);
        let names = self.names.lock().unwrap();
        assert!(!names.is_empty(), "the server has threads");
        names.iter().cloned().chain([TOKEN.to_owned(), self.server().url.clone()]).collect()
    }
}

impl Letters {
    /// Kills the server and starts it again.
    fn crash(&mut self) {
        let server = self.server.as_mut().unwrap();
        let names = self.runtime.block_on(async {
            let names = server.ids().await;
            server.kill().await;
            server.restart().await;
            names
        });
        self.names.lock().unwrap().extend(names);
    }
}

provider_tests!(Letters::new());

#[test]
fn a_graph_continues_after_kill_9_of_the_langgraph_server() {
    continue_after_crashes(&mut Letters::new());
}

/// Kills the LangGraph server while each interrupt is open.
fn continue_after_crashes(letters: &mut Letters) {
    let database = TestDatabase::sqlite();
    let server = RecordedServer::open(&database, letters, &json!({}));
    server.start_and_expect_interrupt(letters, "post-1");
    letters.crash();
    let revised = server.resume("post-1", "r-1", &letters.revise());
    assert_eq!(outcome(&revised), "needs_input", "{revised:?}");
    letters.crash();
    let approved = server.resume("post-1", "r-2", &letters.approve());
    assert_eq!(outcome(&approved), "completed", "{approved:?}");
    assert_eq!(letters.sent(), 1);
    server.assert_no_internal_names_leaked(letters);
}
