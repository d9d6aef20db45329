//! The contract with the graph that comes with the server.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::{Value, json};

use super::contract::stories;
use super::side::Side;
use crate::receiver::Receiver;

struct ContentReview(Receiver);

impl Side for ContentReview {
    fn graph(&self) -> &'static str {
        "native:content-review"
    }

    fn input(&self) -> Value {
        json!({"topic": "cats", "publishUrl": self.0.url})
    }

    fn kind(&self) -> &'static str {
        "content_review"
    }

    fn revise(&self) -> Value {
        json!({"action": "revise", "feedback": "shorter"})
    }

    fn approve(&self) -> Value {
        json!({"action": "approve"})
    }

    fn unfit(&self) -> Option<Value> {
        Some(json!({"action": "perhaps"}))
    }

    fn settings(&self) -> Value {
        json!({})
    }

    /// As a receiver counts that heeds `Idempotency-Key`: a call that was cut off is made again under its key.
    fn sent(&self) -> usize {
        let mut texts = BTreeMap::new();
        for sent in self.0.so_far() {
            let first =
                texts.entry(sent.header("idempotency-key").to_owned()).or_insert_with(|| sent.body.clone());
            assert_eq!(*first, sent.body, "one key, one text");
        }
        texts.len()
    }

    fn names(&self, _data: &Path) -> Vec<String> {
        Vec::new()
    }
}

stories!(ContentReview(Receiver::start()));
