//! The contract with the published OpenAI Agents SDK, and a provider that is written outside of our crates
//! (`examples/openai_agents`).

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;

use serde_json::{Value, json};
use tempfile::TempDir;

use super::contract::provider_tests;
use super::provider_case::{ProviderCase, SentFile};

const TOKEN: &str = "canary-token-of-the-shim";

/// A process that prints its address. Drop kills it.
struct Service {
    child: Child,
    url: String,
}

impl Service {
    fn start(script: &str, arguments: &[&str]) -> Self {
        let python = std::env::var_os("HOLDPOINT_OPENAI_AGENTS_PYTHON");
        let python =
            python.expect("HOLDPOINT_OPENAI_AGENTS_PYTHON must name a Python: run scripts/providers");
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/openai_agents").join(script);
        let mut command = Command::new(python);
        command.arg(script).args(arguments).env("SHIM_TOKEN", TOKEN).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let url = lines.next().expect("the service prints its address").unwrap();
        std::thread::spawn(move || lines.for_each(drop));
        Self { child, url }
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        // The process may have ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

struct Agents {
    // Dropped before the folder.
    shim: Service,
    _model: Service,
    sent: SentFile,
    folder: TempDir,
    seen: Mutex<BTreeSet<String>>,
}

impl Agents {
    fn new() -> Self {
        let (folder, sent) = (tempfile::tempdir().unwrap(), SentFile::new());
        let model = Service::start("stand_in_model.py", &[]);
        let path = folder.path().to_str().unwrap();
        let shim = Service::start("shim.py", &[path, &model.url, sent.path()]);
        Self { shim, _model: model, sent, folder, seen: Mutex::default() }
    }
}

impl ProviderCase for Agents {
    fn graph(&self) -> &'static str {
        "openai:publisher"
    }

    fn input(&self) -> Value {
        json!({"prompt": "publish it"})
    }

    fn next_input(&self) -> Value {
        json!({"prompt": "once more"})
    }

    /// The stand-in counts the messages of the user in the conversation.
    fn assert_continued(&self, second_output: &Value) {
        assert_eq!(second_output["result"], "published after 2 messages");
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
        json!({})
    }

    fn sent(&self) -> usize {
        self.sent.count()
    }

    fn program(&self) -> Option<PathBuf> {
        let test = std::env::current_exe().unwrap();
        let program = test.parent().and_then(Path::parent).unwrap().join("examples/openai_agents");
        assert!(program.exists(), "build it with `cargo build -p holdpoint --example openai_agents`");
        Some(program)
    }

    fn environment(&self) -> Vec<(&'static str, String)> {
        vec![("SHIM_URL", self.shim.url.clone()), ("SHIM_TOKEN", TOKEN.to_owned())]
    }

    /// Returns the names of the conversations, the ids of calls, the token and the address.
    fn internal_names(&self, _data: &Path) -> Vec<String> {
        let mut seen = self.seen.lock().unwrap();
        seen.extend([TOKEN.to_owned(), self.shim.url.clone()]);
        for entry in std::fs::read_dir(self.folder.path()).unwrap().flatten() {
            let name = entry.file_name().into_string().unwrap();
            seen.extend(name.strip_suffix(".json").map(str::to_owned));
            let text = std::fs::read_to_string(entry.path()).unwrap_or_default();
            seen.extend(
                text.split('"')
                    .filter(|part| part.starts_with("call_") && part.len() > 30)
                    .map(str::to_owned),
            );
        }
        seen.iter().cloned().collect()
    }
}

provider_tests!(Agents::new());
