//! The contract with the native graph of the server.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::{Value, json};

use super::contract::provider_tests;
use super::provider_case::ProviderCase;
use crate::receiver::Receiver;

struct ContentReview(Receiver);

impl ProviderCase for ContentReview {
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

    fn invalid_answer(&self) -> Option<Value> {
        Some(json!({"action": "perhaps"}))
    }

    fn settings(&self) -> Value {
        json!({})
    }

    /// Counts requests with different idempotency keys: an interrupted call is repeated with the same key.
    fn sent(&self) -> usize {
        let mut texts = BTreeMap::new();
        for sent in self.0.requests() {
            let first =
                texts.entry(sent.header("idempotency-key").to_owned()).or_insert_with(|| sent.body.clone());
            assert_eq!(*first, sent.body, "requests with one key have one body");
        }
        texts.len()
    }

    fn internal_names(&self, _data: &Path) -> Vec<String> {
        Vec::new()
    }
}

provider_tests!(ContentReview(Receiver::start()));
