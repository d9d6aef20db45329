//! A server with a node type of its own: `acme.append` adds a line to a file. Everything else is as in `holdpoint`:
//!
//! ```sh
//! cargo run -p holdpoint --example own_nodes -- serve
//! ```
//!
//! A node of a workflow then says `"typeId": "acme.append"` with the config `{"file": "shipped.txt"}` and an input
//! port `text`.

use std::io::Write;
use std::process::ExitCode;

use holdpoint::engine::core::workflow;
use holdpoint::engine::core::workflow::Flaw;
use holdpoint::engine::{EffectContext, Node, Outputs, Stop};
use serde_json::{Value, json};

struct Append;

impl Node for Append {
    /// What is wrong with a definition is said when it is registered, not when a run comes to the node.
    fn check(&self, node: &workflow::Node) -> Vec<Flaw> {
        let named = node.config.get("file").is_some_and(Value::is_string);
        let flaw = || Flaw::of_node(&node.id, "config.file", "must name the file to add to");
        if named { Vec::new() } else { vec![flaw()] }
    }

    async fn run(&self, context: &mut EffectContext) -> Result<Outputs, Stop> {
        let file = context.config()["file"].as_str().unwrap_or_default().to_owned();
        let text = context.inputs.get("text").and_then(Value::as_str).unwrap_or_default().to_owned();
        // An effect belongs into a step: its result is recorded, and the line is not added again when the node is
        // entered again.
        let bytes = context.step("append", || async { append(&file, &text) }).await?;
        Ok(Outputs::from_iter([("bytes".to_owned(), bytes)]))
    }
}

fn append(file: &str, text: &str) -> Result<Value, Stop> {
    let opened = std::fs::OpenOptions::new().create(true).append(true).open(file);
    let written = opened.and_then(|mut file| {
        writeln!(file, "{text}")?;
        file.sync_all()
    });
    written.map_err(|error| Stop::failed("append_failed", error.to_string()))?;
    Ok(json!(text.len() + 1))
}

fn main() -> ExitCode {
    holdpoint::main_with(|options| options.node("acme.append", Append))
}
