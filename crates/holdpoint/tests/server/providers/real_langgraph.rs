//! The contract with the real LangGraph server.

use std::path::Path;
use std::sync::Mutex;

use serde_json::{Value, json};
use tokio::runtime::Runtime;

use super::contract::stories;
use super::real_server::{RealServer, TOKEN};
use super::side::Side;
use super::talk::{Talk, outcome};
use crate::place::Place;

struct Letters {
    runtime: Runtime,
    server: Option<RealServer>,
    /// What the server called its own before it was killed.
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
        // Within the runtime that it was started in.
        let _entered = self.runtime.enter();
        self.server.take();
    }
}

impl Side for Letters {
    fn graph(&self) -> &'static str {
        "langgraph:letter"
    }

    fn input(&self) -> Value {
        json!({"topic": "cats"})
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

    fn unfit(&self) -> Option<Value> {
        None
    }

    fn settings(&self) -> Value {
        json!({"langgraph": {"default": self.server().settings()}})
    }

    fn sent(&self) -> usize {
        self.server().sent()
    }

    fn note_names(&self, _data: &Path) {
        let found = self.runtime.block_on(self.server().names());
        self.names.lock().unwrap().extend(found);
    }

    fn names(&self, data: &Path) -> Vec<String> {
        self.note_names(data);
        let names = self.names.lock().unwrap();
        assert!(!names.is_empty(), "the server has threads");
        names.iter().cloned().chain([TOKEN.to_owned(), self.server().url.clone()]).collect()
    }
}

impl Letters {
    /// Dies without a warning, and comes back.
    fn crash(&mut self) {
        let server = self.server.as_mut().unwrap();
        let names = self.runtime.block_on(async {
            let names = server.names().await;
            server.kill().await;
            server.start_again().await;
            names
        });
        self.names.lock().unwrap().extend(names);
    }
}

stories!(Letters::new());

#[test]
fn nothing_is_lost_when_the_server_of_graphs_is_killed() {
    crash_story(&mut Letters::new());
}

/// It dies while somebody thinks, each time.
fn crash_story(letters: &mut Letters) {
    let place = Place::sqlite();
    let talk = Talk::open(&place, letters, &json!({}));
    talk.asked(letters, "post-1");
    letters.crash();
    let revised = talk.resume("post-1", "r-1", &letters.revise());
    assert_eq!(outcome(&revised), "needs_input", "{revised:?}");
    letters.crash();
    let approved = talk.resume("post-1", "r-2", &letters.approve());
    assert_eq!(outcome(&approved), "completed", "{approved:?}");
    assert_eq!(letters.sent(), 1);
    talk.assert_nothing_leaked(letters);
}
