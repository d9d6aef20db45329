//! A server with one more node type, `test.ledger`, whose effect can be counted: it appends a line to the file named by
//! LEDGER. The tests of several nodes on one database run this program and kill it during the effect.

// A test program may panic.
#![allow(clippy::unwrap_used)]

use std::fs::OpenOptions;
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, SystemTime};

use holdpoint::engine::{EffectContext, Node, Outputs, Stop};
use serde_json::{Value, json};

fn main() -> ExitCode {
    holdpoint::main_with(|options| {
        let path = std::env::var_os("LEDGER").map(PathBuf::from);
        let options = options.node("test.ledger", Ledger { path: path.expect("LEDGER names a file") });
        match std::env::var("HOLDPOINT_TEST_LEASE_MS") {
            Ok(ms) => options.lease(Duration::from_millis(ms.parse().unwrap())),
            Err(_) => options,
        }
    })
}

struct Ledger {
    path: PathBuf,
}

impl Node for Ledger {
    /// Waits up to `ms` milliseconds of its config before it pays, so that a test can kill the process in between.
    async fn run(&self, context: &mut EffectContext) -> Result<Outputs, Stop> {
        let (run, node) = (context.run_id().to_string(), context.node().id.to_string());
        self.append(&run, &node, "enter");
        let below = context.config().get("ms").and_then(Value::as_u64).unwrap_or(0);
        tokio::time::sleep(Duration::from_millis(random() % (below + 1))).await;
        let nonce = context.step("pay", || async { Ok(json!(self.append(&run, &node, "pay"))) }).await?;
        Ok(Outputs::from_iter([("nonce".to_owned(), nonce)]))
    }
}

impl Ledger {
    /// Writes one line at once: run, node, step, nonce, process and start time. Returns the nonce.
    fn append(&self, run: &str, node: &str, what: &str) -> String {
        let began = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_millis();
        let nonce = format!("{:016x}", random());
        let line = format!("{run} {node} {what} {nonce} {} {began}\n", std::process::id());
        let mut file = OpenOptions::new().append(true).create(true).open(&self.path).unwrap();
        file.write_all(line.as_bytes()).unwrap();
        nonce
    }
}

fn random() -> u64 {
    let mut bytes = [0; 8];
    getrandom::fill(&mut bytes).unwrap();
    u64::from_le_bytes(bytes)
}
