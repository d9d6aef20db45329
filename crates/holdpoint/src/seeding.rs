//! Workflows that are registered at the start, from a folder of files.

use std::path::Path;

use anyhow::{Context, bail};
use holdpoint_cli::values::json_files;
use holdpoint_core::{TenantId, parse_strict};
use holdpoint_engine::{Engine, Error, Registration};

/// Published test workflows are named so. Others are nobody's business without a key.
const FIXTURE_PREFIX: &str = "conformance-";

/// Registers every `.json` file of a folder, exactly as it is, and returns the ids of published test workflows among
/// them. What cannot be registered is named with its flaws; the rest is served all the same, because one workflow that
/// this build cannot run is no reason to stop all others. Who would rather not start says so with `strict`.
pub(crate) async fn register_all(
    engine: &Engine,
    tenant: &TenantId,
    folder: &Path,
    strict: bool,
) -> anyhow::Result<Vec<String>> {
    let paths =
        json_files(folder).with_context(|| format!("cannot read --workflows {}", folder.display()))?;
    let (mut fixtures, mut flawed) = (Vec::new(), Vec::new());
    for path in &paths {
        match register(engine, tenant, path).await {
            Ok(id) => fixtures.extend(Some(id).filter(|id| id.starts_with(FIXTURE_PREFIX))),
            Err(Failed::Flawed(why)) => flawed.push(format!("{}: {why}", path.display())),
            Err(Failed::Broken(error)) => return Err(error),
        }
    }
    let summary = format!("{} of {} workflow files were not registered", flawed.len(), paths.len());
    if strict && !flawed.is_empty() {
        bail!("{summary}:\n  {}", flawed.join("\n  "));
    }
    for flaw in &flawed {
        tracing::error!("a workflow was not registered: {flaw}");
    }
    if !flawed.is_empty() {
        tracing::error!("{summary}; runs of them cannot be started. --strict refuses to start like this");
    }
    Ok(fixtures)
}

/// A file that says something we cannot take, or a machine that does not do what it should.
enum Failed {
    Flawed(String),
    Broken(anyhow::Error),
}

async fn register(engine: &Engine, tenant: &TenantId, path: &Path) -> Result<String, Failed> {
    let read = std::fs::read(path).with_context(|| format!("cannot read {}", path.display()));
    let bytes = read.map_err(Failed::Broken)?;
    let definition =
        parse_strict(&bytes).map_err(|error| Failed::Flawed(format!("is not valid JSON: {error}")))?;
    if let Some(why) = definition.get("id").and_then(|id| id.as_str()).and_then(crate::reserved::workflow) {
        return Err(Failed::Flawed(format!("id: {why}")));
    }
    match engine.register_for_operator(tenant, definition).await {
        Ok(Registration { workflow, stored }) => {
            tracing::info!(id = %workflow.id, stored, "workflow registered");
            Ok(workflow.id.to_string())
        }
        // All flaws, not only the first.
        Err(Error::InvalidWorkflow(flaws)) => {
            let lines: Vec<String> = flaws.iter().map(ToString::to_string).collect();
            Err(Failed::Flawed(lines.join("; ")))
        }
        Err(other) => Err(Failed::Broken(other.into())),
    }
}
