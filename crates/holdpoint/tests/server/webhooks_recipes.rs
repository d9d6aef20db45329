//! The recipes in docs/protocols/webhooks.md are taken from it and tried on real deliveries, good ones and bad ones.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::json;

use crate::harness::{Client, PROGRAM, gated};
use crate::receiver::{Delivered, Hook, Receiver, server};

const DOCUMENT: &str = include_str!("../../../../docs/protocols/webhooks.md");

/// The block of the document that is written in this language.
fn recipe(language: &str) -> String {
    let start = format!("```{language}\n");
    let mut blocks = DOCUMENT.split(&start).skip(1).map(|rest| rest.split("```").next().unwrap());
    let block = blocks.next().unwrap_or_else(|| panic!("there is no recipe in {language}"));
    assert!(blocks.next().is_none(), "one recipe for {language}");
    block.to_owned()
}

/// A program that takes headers as `name=value`, the secret in `SECRET` and the body on standard input.
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

    fn takes(&self, one: &Delivered, secret: &str) -> bool {
        let mut command = Command::new(self.command);
        command.arg(&self.file);
        runs(command, one, secret)
    }
}

fn runs(mut command: Command, one: &Delivered, secret: &str) -> bool {
    command.args(one.headers.iter().map(|(name, value)| format!("{name}={value}"))).env("SECRET", secret);
    let mut child = command.stdin(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(&one.body).unwrap();
    let output = child.wait_with_output().unwrap();
    let complaint = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(complaint.is_empty(), "it says no without breaking: {complaint}");
    output.status.success()
}

/// Deliveries that no receiver may take, made from one that is good.
fn forgeries(one: &Delivered) -> Vec<(&'static str, Delivered)> {
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
        ("a signature of nothing", with("x-openwop-signature", "sha256=")),
        ("what is no signature", with("x-openwop-signature", "sha256=zz")),
        ("no signature", without("x-openwop-signature")),
        ("a later timestamp", with("x-openwop-timestamp", &(at + 1).to_string())),
        ("an old timestamp", with("x-openwop-timestamp", &(at - 301).to_string())),
        ("what is no timestamp", with("x-openwop-timestamp", "soon")),
        ("no timestamp", without("x-openwop-timestamp")),
        ("an unknown algorithm", with("x-openwop-signature-algorithm", "v2")),
    ]
}

fn judged(takes: impl Fn(&Delivered, &str) -> bool) {
    let (server, _folder) = server(&[]);
    let client = &server.client;
    client.put("/v1/workflows/gated", &gated("gated"));
    let receiver = Receiver::start();
    for durable in [false, true] {
        let hook = Hook::add(client, &receiver.url, json!({"events": ["run.started"], "durable": durable}));
        let seen = receiver.so_far().len();
        client.post("/v1/runs", &json!({"workflowId": "gated", "inputs": {"title": "\u{e9}\u{1f600}"}}));
        let all = receiver.wait_for(seen + 1);
        let one = all.iter().rev().find(|one| one.header("x-openwop-webhook-id") == hook.id).unwrap();
        assert!(takes(one, &hook.secret), "a genuine delivery is taken");
        let mut unnamed = one.clone();
        unnamed.headers.remove("x-openwop-signature-algorithm");
        assert!(takes(&unnamed, &hook.secret), "without a word it is v1");
        assert!(!takes(one, "another"), "another secret");
        for (what, forged) in forgeries(one) {
            assert!(!takes(&forged, &hook.secret), "{what}");
        }
        rotated(client, &receiver, &hook, &takes);
        assert_eq!(client.send("DELETE", &hook.path(), None).status, 204);
    }
}

/// During the overlap of a rotation a delivery is genuine for each of the two secrets.
fn rotated(client: &Client, receiver: &Receiver, hook: &Hook, takes: impl Fn(&Delivered, &str) -> bool) {
    let made = client.post(&format!("{}:rotate", hook.path()), &json!({})).body;
    let seen = receiver.so_far().len();
    client.start_run("gated");
    let one = receiver.wait_for(seen + 1).pop().unwrap();
    assert!(takes(&one, &hook.secret), "the old secret");
    assert!(takes(&one, made["secret"].as_str().unwrap()), "the new secret");
    assert!(!takes(&one, "another"), "another secret");
    let mut forged = one.clone();
    forged.headers.insert("x-openwop-signature-next".to_owned(), "sha256=00".to_owned());
    assert!(!takes(&forged, made["secret"].as_str().unwrap()), "a forged signature");
}

#[test]
fn the_recipe_for_python_takes_what_is_genuine_and_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    let checker = Checker::python(folder.path());
    judged(|one, secret| checker.takes(one, secret));
}

#[test]
fn the_recipe_for_node_takes_what_is_genuine_and_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    let checker = Checker::node(folder.path());
    judged(|one, secret| checker.takes(one, secret));
}

#[test]
fn the_recipe_for_rust_takes_what_is_genuine_and_nothing_else() {
    let example = include_str!("../../examples/verify_delivery.rs");
    assert!(example.contains(&recipe("rust")), "the document shows what the example has");
    let program = Path::new(PROGRAM).with_file_name("examples").join("verify_delivery");
    judged(|one, secret| runs(Command::new(&program), one, secret));
}
