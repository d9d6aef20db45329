//! The recipes of docs/protocols/webhooks.md, applied to genuine and forged deliveries.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::json;

use crate::harness::{Client, PROGRAM, gated};
use crate::receiver::{Hook, ReceivedRequest, Receiver, server};

const DOCUMENT: &str = include_str!("../../../../docs/protocols/webhooks.md");

/// Returns the code block of the document in this language.
fn recipe(language: &str) -> String {
    let start = format!("```{language}\n");
    let mut blocks = DOCUMENT.split(&start).skip(1).map(|rest| rest.split("```").next().unwrap());
    let block = blocks.next().unwrap_or_else(|| panic!("there is no recipe in {language}"));
    assert!(blocks.next().is_none(), "there is more than one recipe in {language}");
    block.to_owned()
}

/// A program that reads headers from arguments `name=value`, the secret from `SECRET` and the body from standard input.
struct Checker {
    command: &'static str,
    file: PathBuf,
}

impl Checker {
    fn python(folder: &Path) -> Self {
        let driver = "\nimport os, sys\n\
            headers = dict(pair.split('=', 1) for pair in sys.argv[1:])\n\
            sys.exit(0 if is_genuine(sys.stdin.buffer.read(), headers, os.environ['SECRET']) else 1)\n";
        let file = folder.join("receiver.py");
        std::fs::write(&file, recipe("python") + driver).unwrap();
        Self { command: "python3", file }
    }

    fn node(folder: &Path) -> Self {
        let driver = "\nimport { readFileSync } from 'node:fs';\n\
            const pairs = process.argv.slice(2).map((pair) => [pair.slice(0, pair.indexOf('=')), pair.slice(pair.indexOf('=') + 1)]);\n\
            process.exit(isGenuine(readFileSync(0), Object.fromEntries(pairs), process.env.SECRET) ? 0 : 1);\n";
        let file = folder.join("receiver.mjs");
        std::fs::write(&file, recipe("js") + driver).unwrap();
        Self { command: "node", file }
    }

    fn accepts(&self, one: &ReceivedRequest, secret: &str) -> bool {
        let mut command = Command::new(self.command);
        command.arg(&self.file);
        run_checker(command, one, secret)
    }
}

fn run_checker(mut command: Command, one: &ReceivedRequest, secret: &str) -> bool {
    command.args(one.headers.iter().map(|(name, value)| format!("{name}={value}"))).env("SECRET", secret);
    let mut child = command.stdin(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(&one.body).unwrap();
    let output = child.wait_with_output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(stderr.is_empty(), "the program failed with an error: {stderr}");
    output.status.success()
}

/// Returns forged deliveries, made from a genuine one.
fn forgeries(one: &ReceivedRequest) -> Vec<(&'static str, ReceivedRequest)> {
    let with = |name: &str, value: &str| {
        let mut other = one.clone();
        other.headers.insert(name.to_owned(), value.to_owned());
        other
    };
    let without = |name: &str| {
        let mut other = one.clone();
        other.headers.remove(name);
        other
    };
    let mut longer = one.clone();
    longer.body.push(b' ');
    let signature = one.header("x-openwop-signature");
    let at: i64 = one.header("x-openwop-timestamp").parse().unwrap();
    vec![
        ("another body", longer),
        ("a signature cut short", with("x-openwop-signature", &signature[..signature.len() - 2])),
        ("an empty signature", with("x-openwop-signature", "sha256=")),
        ("an invalid signature", with("x-openwop-signature", "sha256=zz")),
        ("no signature", without("x-openwop-signature")),
        ("a later timestamp", with("x-openwop-timestamp", &(at + 1).to_string())),
        ("an old timestamp", with("x-openwop-timestamp", &(at - 301).to_string())),
        ("an invalid timestamp", with("x-openwop-timestamp", "soon")),
        ("no timestamp", without("x-openwop-timestamp")),
        ("an unknown algorithm", with("x-openwop-signature-algorithm", "v2")),
    ]
}

fn check_recipe(accepts: impl Fn(&ReceivedRequest, &str) -> bool) {
    let (server, _folder) = server(&[]);
    let client = &server.client;
    client.put("/v1/workflows/gated", &gated("gated"));
    let receiver = Receiver::start();
    for durable in [false, true] {
        let hook =
            Hook::create(client, &receiver.url, json!({"events": ["run.started"], "durable": durable}));
        let seen = receiver.requests().len();
        client.post("/v1/runs", &json!({"workflowId": "gated", "inputs": {"title": "\u{e9}\u{1f600}"}}));
        let all = receiver.wait_for(seen + 1);
        let one = all.iter().rev().find(|one| one.header("x-openwop-webhook-id") == hook.id).unwrap();
        assert!(accepts(one, &hook.secret), "a genuine delivery is accepted");
        let mut unnamed = one.clone();
        unnamed.headers.remove("x-openwop-signature-algorithm");
        assert!(accepts(&unnamed, &hook.secret), "without the header the algorithm is v1");
        assert!(!accepts(one, "another"), "another secret");
        for (what, forged) in forgeries(one) {
            assert!(!accepts(&forged, &hook.secret), "{what}");
        }
        check_rotation(client, &receiver, &hook, &accepts);
        assert_eq!(client.send("DELETE", &hook.path(), None).status, 204);
    }
}

/// Checks that a delivery is genuine for both secrets during the overlap of a rotation.
fn check_rotation(
    client: &Client,
    receiver: &Receiver,
    hook: &Hook,
    accepts: impl Fn(&ReceivedRequest, &str) -> bool,
) {
    let made = client.post(&format!("{}:rotate", hook.path()), &json!({})).body;
    let seen = receiver.requests().len();
    client.start_run("gated");
    let one = receiver.wait_for(seen + 1).pop().unwrap();
    assert!(accepts(&one, &hook.secret), "the old secret");
    assert!(accepts(&one, made["secret"].as_str().unwrap()), "the new secret");
    assert!(!accepts(&one, "another"), "another secret");
    let mut forged = one.clone();
    forged.headers.insert("x-openwop-signature-next".to_owned(), "sha256=00".to_owned());
    assert!(!accepts(&forged, made["secret"].as_str().unwrap()), "a forged signature");
}

#[test]
fn the_python_recipe_accepts_only_genuine_deliveries() {
    let folder = tempfile::tempdir().unwrap();
    let checker = Checker::python(folder.path());
    check_recipe(|one, secret| checker.accepts(one, secret));
}

#[test]
fn the_node_recipe_accepts_only_genuine_deliveries() {
    let folder = tempfile::tempdir().unwrap();
    let checker = Checker::node(folder.path());
    check_recipe(|one, secret| checker.accepts(one, secret));
}

#[test]
fn the_rust_recipe_accepts_only_genuine_deliveries() {
    let example = include_str!("../../examples/verify_delivery.rs");
    assert!(example.contains(&recipe("rust")), "the recipe of the document is part of the example");
    let program = Path::new(PROGRAM).with_file_name("examples").join("verify_delivery");
    check_recipe(|one, secret| run_checker(Command::new(&program), one, secret));
}
