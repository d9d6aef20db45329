//! Hooks of the published Claude program that call `holdpoint ask`: its behaviour for each outcome. The settings are
//! those of docs/hooks.md.

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::runtime::Runtime;

use super::fake_model_api::{FakeModelApi, KEY as MODEL_KEY, binary};
use crate::harness::{KEY, PROGRAM, Server, accept, client_with_key};

const DOCUMENTED: &str = include_str!("../../../../../docs/hooks.md");

/// A project in which the model calls one command, which appends a line to a file.
struct Project {
    // Serves the model.
    _runtime: Runtime,
    model: FakeModelApi,
    folder: TempDir,
}

impl Project {
    fn new() -> Self {
        let (runtime, folder) = (Runtime::new().unwrap(), tempfile::tempdir().unwrap());
        for name in ["project", "home", "bin"] {
            std::fs::create_dir(folder.path().join(name)).unwrap();
        }
        symlink(PROGRAM, folder.path().join("bin/holdpoint")).unwrap();
        let command = format!("echo ran >> '{}'", folder.path().join("ran").display());
        let steps = json!([{"calls": [["Bash", {"command": command}]]}, {"text": "final: {results}"}]);
        let model = runtime.block_on(FakeModelApi::with(steps));
        Self { _runtime: runtime, model, folder }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Starts the program with a hook of this command, or with the documented hook.
    fn start(&self, server: &str, hook: Option<&str>, mode: &str) -> Child {
        let mut settings = documented();
        if let Some(hook) = hook {
            settings["hooks"]["PreToolUse"][0]["hooks"][0] = json!({"type": "command", "command": hook});
        }
        std::fs::write(self.path("settings.json"), settings.to_string()).unwrap();
        let path = format!("{}:{}", self.path("bin").display(), std::env::var("PATH").unwrap());
        let mut command = Command::new(binary());
        command.args(["-p", "do it", "--max-turns", "3", "--permission-mode", mode, "--settings"]);
        command.arg(self.path("settings.json")).current_dir(self.path("project")).env_clear();
        command.env("PATH", path).env("HOME", self.path("home")).env("CLAUDE_CONFIG_DIR", self.path("home"));
        command.env("ANTHROPIC_BASE_URL", self.model.profile()["baseUrl"].as_str().unwrap());
        command.env("ANTHROPIC_API_KEY", MODEL_KEY).env("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1");
        // The program does not let root bypass its own permission prompts otherwise.
        command.env("IS_SANDBOX", "1").env("HOLDPOINT_SERVER", server).env("HOLDPOINT_KEY", KEY);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    }

    /// Waits for the end of the program. Returns the last message to the model, and how often the command ran.
    fn end(&self, child: Child) -> (String, usize) {
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "{output:?}");
        let requests = self.model.conversations();
        assert!(requests.len() > 1, "the model got no result of the call: {output:?}");
        let last = requests.last().unwrap().as_array().unwrap().last().unwrap().to_string();
        (last, runs(&self.path("ran")))
    }
}

fn runs(file: &Path) -> usize {
    std::fs::read_to_string(file).unwrap_or_default().lines().count()
}

fn documented() -> Value {
    let block = DOCUMENTED.split("```json\n").nth(1).unwrap().split("```").next().unwrap();
    serde_json::from_str(block).unwrap()
}

fn waiting(server: &Server) -> String {
    loop {
        let found = server.client.get("/v1/interrupts").body;
        if let Some(run) = found["interrupts"][0]["runId"].as_str() {
            return run.to_owned();
        }
    }
}

/// The permission mode in which the command runs without a prompt unless the hook stops it.
const BYPASS: &str = "bypassPermissions";

#[test]
fn a_rejected_command_does_not_run() {
    let (server, project) = (Server::start(), Project::new());
    let ann = client_with_key(&server.client, &json!({"principal": "ann"}));
    let child = project.start(&server.url, None, BYPASS);
    let answer = json!({"action": "reject", "feedback": "not on a Friday"});
    assert_eq!(ann.answer(&waiting(&server), "hold", &answer).status, 200);
    let (last_message, ran) = project.end(child);
    assert_eq!(ran, 0, "{last_message}");
    assert!(last_message.contains("rejected by ann: not on a Friday"), "{last_message}");
}

#[test]
fn an_approved_command_runs_once_without_another_prompt() {
    let (server, project) = (Server::start(), Project::new());
    let ann = client_with_key(&server.client, &json!({"principal": "ann"}));
    // In this mode a command runs only if the hook allows it.
    let child = project.start(&server.url, None, "default");
    let hold = waiting(&server);
    let shown =
        server.client.get(&format!("/v1/runs/{hold}")).body["interrupt"]["data"]["artifactData"].clone();
    assert_eq!(shown["tool"], "Bash", "{shown}");
    assert!(shown["input"]["command"].as_str().unwrap().starts_with("echo ran >>"), "{shown}");
    assert_eq!(runs(&project.path("ran")), 0, "the command waits");
    assert_eq!(ann.answer(&hold, "hold", &accept()).status, 200);
    let (last_message, ran) = project.end(child);
    assert_eq!(ran, 1, "{last_message}");
    let holds = server.client.get("/v1/runs?workflowId=holdpoint-hold").body;
    assert_eq!(holds["runs"].as_array().unwrap().len(), 1);
}

#[test]
fn a_command_does_not_run_if_the_hook_cannot_reach_the_server() {
    let mut server = Server::start();
    server.kill();
    let project = Project::new();
    let (last_message, ran) = project.end(project.start(&server.url, None, BYPASS));
    assert_eq!(ran, 0, "without a server: {last_message}");
    assert!(last_message.contains("cannot reach"), "{last_message}");
    let project = Project::new();
    std::fs::remove_file(project.path("bin/holdpoint")).unwrap();
    let (last_message, ran) = project.end(project.start(&server.url, None, BYPASS));
    assert_eq!(ran, 0, "without the program: {last_message}");
}

#[test]
fn a_command_does_not_run_if_its_hold_is_cancelled_or_times_out() {
    let (server, project) = (Server::start(), Project::new());
    let child = project.start(&server.url, None, BYPASS);
    server.client.send("DELETE", &format!("/v1/holds/{}", waiting(&server)), None);
    let (last_message, ran) = project.end(child);
    assert_eq!(ran, 0, "{last_message}");
    let project = Project::new();
    let hook = "holdpoint ask --hook claude-code --timeout 1s";
    let (last_message, ran) = project.end(project.start(&server.url, Some(hook), BYPASS));
    assert_eq!(ran, 0, "{last_message}");
    assert!(last_message.contains("no answer in time"), "{last_message}");
}

#[test]
fn a_plain_ask_command_in_a_hook_stops_a_rejected_command() {
    let (server, project) = (Server::start(), Project::new());
    let ann = client_with_key(&server.client, &json!({"principal": "ann"}));
    let hook = Some("holdpoint ask 'Run it?'");
    let child = project.start(&server.url, hook, BYPASS);
    assert_eq!(ann.answer(&waiting(&server), "hold", &json!({"action": "reject"})).status, 200);
    let (last_message, ran) = project.end(child);
    assert_eq!(ran, 0, "{last_message}");
    let child = project.start(&server.url, hook, BYPASS);
    assert_eq!(ann.answer(&waiting(&server), "hold", &accept()).status, 200);
    assert_eq!(project.end(child).1, 1, "an approved command runs");
}
