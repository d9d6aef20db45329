//! Generated files: the pages and schemas in `docs/reference`, from the command line and the types of the API, and the
//! JSDoc types for the inbox page. A test compares them with the committed files.

mod commands;
mod http_api;
mod js_types;
mod schemas;
mod settings;

use std::path::Path;

use anyhow::Context;

use crate::openapi;

/// Writes every generated file of the documentation into `docs`.
pub(crate) fn write(docs: &Path, program: &clap::Command) -> anyhow::Result<()> {
    for (name, text) in files(program) {
        let path = docs.join(name);
        let folder = path.parent().unwrap_or(docs);
        if name.starts_with("../") && !folder.is_dir() {
            // The folder has the documentation only, without the sources.
            continue;
        }
        std::fs::create_dir_all(folder).with_context(|| format!("cannot create {}", folder.display()))?;
        std::fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(())
}

/// Returns the generated files with their paths from `docs`.
fn files(program: &clap::Command) -> [(&'static str, String); 6] {
    let (document, schemas) = (openapi::document(), openapi::schemas());
    [
        ("openapi.json", format!("{document:#}\n")),
        ("reference/http-api.md", http_api::page(&document)),
        ("reference/schemas.json", schemas::bundle(&schemas)),
        ("../crates/holdpoint/src/inbox/api-types.js", js_types::file(&schemas)),
        ("reference/cli.md", commands::page(program)),
        ("reference/settings.md", settings::page(program)),
    ]
}

const GENERATED: &str = "<!-- Generated: cargo run -- reference docs -->\n";

/// Returns the text of a table cell: on one line, with escaped separators.
fn cell(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ").replace('|', "\\|")
}

fn row(cells: &[String]) -> String {
    format!("| {} |\n", cells.join(" | "))
}

fn table(head: &[&str], rows: impl IntoIterator<Item = Vec<String>>) -> String {
    let head: Vec<String> = head.iter().map(|name| (*name).to_owned()).collect();
    let line = vec!["---".to_owned(); head.len()];
    [head, line].into_iter().chain(rows).map(|cells| row(&cells)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_committed_pages_are_those_of_this_build() {
        let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
        for (name, text) in files(&crate::Arguments::command()) {
            let committed = std::fs::read_to_string(docs.join(name)).unwrap_or_default();
            assert!(committed == text, "docs/{name} is out of date; run: cargo run -- reference docs");
        }
    }
}
