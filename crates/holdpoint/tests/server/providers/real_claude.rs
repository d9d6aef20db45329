//! The contract with the published program of the Claude Agent SDK. The program does not run while an interrupt is
//! open. Kills of the program during its work are tested in the engine (`tests/claude/real_crashes.rs`).

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Mutex;

use serde_json::{Value, json};
use tokio::runtime::Runtime;

use super::contract::provider_tests;
use super::fake_model_api::{FakeModelApi, KEY, KEY_FILE};
use super::provider_case::{ProviderCase, SentFile};

struct Publisher {
    // Serves the model.
    _runtime: Runtime,
    model: FakeModelApi,
    post: SentFile,
    /// The names that were found so far. Sessions may be deleted later.
    seen: Mutex<BTreeSet<String>>,
}

impl Publisher {
    fn new() -> Self {
        let (runtime, post) = (Runtime::new().unwrap(), SentFile::new());
        let call = |draft: usize| {
            let command = format!("echo letter-{draft} >> '{}'; echo IT-IS-SENT", post.path());
            json!({"calls": [["Bash", {"command": command}]], "unless": "IT-IS-SENT"})
        };
        let steps = json!([call(0), call(1), call(2), call(3), {"text": "final: {results}"}]);
        let model = runtime.block_on(FakeModelApi::with(steps));
        Self { _runtime: runtime, model, post, seen: Mutex::default() }
    }
}

impl ProviderCase for Publisher {
    fn graph(&self) -> &'static str {
        "claude:publisher"
    }

    fn input(&self) -> Value {
        json!({"prompt": "publish it"})
    }

    fn next_input(&self) -> Value {
        json!({"prompt": "once more"})
    }

    /// The model gets the messages of both turns.
    fn assert_continued(&self, _second_output: &Value) {
        let messages = self.model.conversations().last().unwrap().to_string();
        assert!(messages.contains("publish it") && messages.contains("once more"), "{messages}");
    }

    fn kind(&self) -> &'static str {
        "tool_approval"
    }

    fn revise(&self) -> Value {
        json!({"decision": "reject", "reason": "shorter"})
    }

    fn approve(&self) -> Value {
        json!({"decision": "approve"})
    }

    fn invalid_answer(&self) -> Option<Value> {
        Some(json!({"decision": "perhaps"}))
    }

    fn settings(&self) -> Value {
        json!({"claude": {"publisher": self.model.profile()}})
    }

    fn prepare(&self, folder: &Path) {
        std::fs::write(folder.join(KEY_FILE), KEY).unwrap();
    }

    fn sent(&self) -> usize {
        self.post.count()
    }

    /// Returns the call ids of the model, the session ids from the file names of the program, and the key.
    fn internal_names(&self, data: &Path) -> Vec<String> {
        let messages: String = self.model.conversations().iter().map(Value::to_string).collect();
        let calls = messages.split('"').filter(|part| part.starts_with("toolu_"));
        let mut seen = self.seen.lock().unwrap();
        seen.extend(calls.map(str::to_owned).chain([KEY.to_owned()]));
        sessions(&data.join("providers/claude"), &mut seen);
        assert!(seen.len() > 1, "there is no session: {seen:?}");
        seen.iter().cloned().collect()
    }
}

fn sessions(folder: &Path, seen: &mut BTreeSet<String>) {
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            sessions(&path, seen);
        } else if path.extension().is_some_and(|end| end == "jsonl") {
            seen.insert(path.file_stem().unwrap().to_str().unwrap().to_owned());
        }
    }
}

provider_tests!(Publisher::new());
