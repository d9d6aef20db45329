//! Hooks of the real Claude program that ask with `holdpoint ask`: what it does with each outcome. The settings are those
//! of docs/hooks.md.

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::runtime::Runtime;

use super::stand_in::{KEY as MODEL_KEY, StandIn, binary};
use crate::harness::{KEY, PROGRAM, Server, accept, keyed};

const DOCUMENTED: &str = include_str!("../../../../../docs/hooks.md");

/// A project in which the model calls one command, which leaves a line in a file.
struct Project {
    // Serves the model.
    _runtime: Runtime,
    model: StandIn,
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
        let model = runtime.block_on(StandIn::with(steps));
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
        // Otherwise root may not do without the program's own questions.
        command.env("IS_SANDBOX", "1").env("HOLDPOINT_SERVER", server).env("HOLDPOINT_KEY", KEY);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    }

    /// Waits for the end of the program. Returns what the model heard at last, and how often the command ran.
    fn end(&self, child: Child) -> (String, usize) {
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "{output:?}");
        let heard = self.model.heard();
        assert!(heard.len() > 1, "the call came to something: {output:?}");
        let last = heard.last().unwrap().as_array().unwrap().last().unwrap().to_string();
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

/// The command would run without being asked about, were it not for the hook.
const FREE: &str = "bypassPermissions";

#[test]
fn a_rejected_command_does_not_run() {
    let (server, project) = (Server::start(), Project::new());
    let ann = keyed(&server.client, &json!({"principal": "ann"}));
    let child = project.start(&server.url, None, FREE);
    let answer = json!({"action": "reject", "feedback": "not on a Friday"});
    assert_eq!(ann.answer(&waiting(&server), "hold", &answer).status, 200);
    let (heard, ran) = project.end(child);
    assert_eq!(ran, 0, "{heard}");
    assert!(heard.contains("rejected by ann: not on a Friday"), "{heard}");
}

#[test]
fn an_approved_command_runs_once_without_another_question() {
    let (server, project) = (Server::start(), Project::new());
    let ann = keyed(&server.client, &json!({"principal": "ann"}));
    // Here nothing runs that is not allowed.
    let child = project.start(&server.url, None, "default");
    let hold = waiting(&server);
    let shown =
        server.client.get(&format!("/v1/runs/{hold}")).body["interrupt"]["data"]["artifactData"].clone();
    assert_eq!(shown["tool"], "Bash", "{shown}");
    assert!(shown["input"]["command"].as_str().unwrap().starts_with("echo ran >>"), "{shown}");
    assert_eq!(runs(&project.path("ran")), 0, "it waits");
    assert_eq!(ann.answer(&hold, "hold", &accept()).status, 200);
    let (heard, ran) = project.end(child);
    assert_eq!(ran, 1, "{heard}");
    let holds = server.client.get("/v1/runs?workflowId=holdpoint-hold").body;
    assert_eq!(holds["runs"].as_array().unwrap().len(), 1);
}

#[test]
fn a_command_does_not_run_if_it_cannot_be_asked_about() {
    let mut server = Server::start();
    server.kill();
    let project = Project::new();
    let (heard, ran) = project.end(project.start(&server.url, None, FREE));
    assert_eq!(ran, 0, "without a server: {heard}");
    assert!(heard.contains("cannot reach"), "{heard}");
    let project = Project::new();
    std::fs::remove_file(project.path("bin/holdpoint")).unwrap();
    let (heard, ran) = project.end(project.start(&server.url, None, FREE));
    assert_eq!(ran, 0, "without the program: {heard}");
}

#[test]
fn a_command_does_not_run_if_its_question_is_cancelled_or_times_out() {
    let (server, project) = (Server::start(), Project::new());
    let child = project.start(&server.url, None, FREE);
    server.client.send("DELETE", &format!("/v1/holds/{}", waiting(&server)), None);
    let (heard, ran) = project.end(child);
    assert_eq!(ran, 0, "{heard}");
    let project = Project::new();
    let hook = "holdpoint ask --hook claude-code --timeout 1s";
    let (heard, ran) = project.end(project.start(&server.url, Some(hook), FREE));
    assert_eq!(ran, 0, "{heard}");
    assert!(heard.contains("no answer in time"), "{heard}");
}

#[test]
fn a_plain_question_in_a_hook_stops_a_rejected_command() {
    let (server, project) = (Server::start(), Project::new());
    let ann = keyed(&server.client, &json!({"principal": "ann"}));
    let hook = Some("holdpoint ask 'Run it?'");
    let child = project.start(&server.url, hook, FREE);
    assert_eq!(ann.answer(&waiting(&server), "hold", &json!({"action": "reject"})).status, 200);
    let (heard, ran) = project.end(child);
    assert_eq!(ran, 0, "{heard}");
    let child = project.start(&server.url, hook, FREE);
    assert_eq!(ann.answer(&waiting(&server), "hold", &accept()).status, 200);
    assert_eq!(project.end(child).1, 1, "an approved one runs");
}
