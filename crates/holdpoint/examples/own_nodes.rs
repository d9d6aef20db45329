//! A server with an additional node type: `acme.append` adds a line to a file. Otherwise it is the same as `holdpoint`:
//!
//! ```sh
//! cargo run -p holdpoint --example own_nodes -- serve
//! ```
//!
//! A node of a workflow then has `"typeId": "acme.append"`, the config `{"file": "shipped.txt"}` and an input port
//! `text`.

use std::io::Write;
use std::process::ExitCode;

use holdpoint::engine::core::workflow;
use holdpoint::engine::core::workflow::DefinitionFlaw;
use holdpoint::engine::{EffectContext, Node, Outputs, Stop};
use serde_json::{Value, json};

struct Append;

impl Node for Append {
    /// Checks the config when a definition is registered, before a run reaches the node.
    fn check(&self, node: &workflow::Node) -> Vec<DefinitionFlaw> {
        let named = node.config.get("file").is_some_and(Value::is_string);
        let flaw =
            || DefinitionFlaw::of_node(&node.id, "config.file", "must be the path of the file to append to");
        if named { Vec::new() } else { vec![flaw()] }
    }

    async fn run(&self, context: &mut EffectContext) -> Result<Outputs, Stop> {
        let file = context.config()["file"].as_str().unwrap_or_default().to_owned();
        let text = context.inputs.get("text").and_then(Value::as_str).unwrap_or_default().to_owned();
        // An effect must be in a step: its result is recorded, and the line is not added again if the node is executed
        // again.
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
