//! Registers the workflows of a folder at the start.

use std::path::Path;

use anyhow::{Context, bail};
use holdpoint_cli::values::json_files;
use holdpoint_core::{TenantId, parse_strict};
use holdpoint_engine::{Engine, Error, Registration};

use crate::config::InvalidFiles;

/// Prefix of the ids of published test workflows. The discovery document, which needs no key, lists only these ids.
const FIXTURE_PREFIX: &str = "conformance-";

/// Registers every `.json` file of a folder without changes, and returns the ids of published test workflows among
/// them. With [`InvalidFiles::Skip`], invalid files are logged with their flaws, and the others are served: one
/// workflow that this build cannot execute does not stop the others.
pub(crate) async fn register_all(
    engine: &Engine,
    tenant: &TenantId,
    folder: &Path,
    invalid: InvalidFiles,
) -> anyhow::Result<Vec<String>> {
    let paths =
        json_files(folder).with_context(|| format!("cannot read --workflows {}", folder.display()))?;
    let (mut fixtures, mut flawed) = (Vec::new(), Vec::new());
    for path in &paths {
        match register(engine, tenant, path).await {
            Ok(id) => fixtures.extend(Some(id).filter(|id| id.starts_with(FIXTURE_PREFIX))),
            Err(FileError::Invalid(why)) => flawed.push(format!("{}: {why}", path.display())),
            Err(FileError::Failed(error)) => return Err(error),
        }
    }
    let summary = format!("{} of {} workflow files were not registered", flawed.len(), paths.len());
    if invalid == InvalidFiles::Stop && !flawed.is_empty() {
        bail!("{summary}:\n  {}", flawed.join("\n  "));
    }
    for flaw in &flawed {
        tracing::error!("a workflow was not registered: {flaw}");
    }
    if !flawed.is_empty() {
        tracing::error!("{summary}; their runs cannot be started. With --strict the server does not start");
    }
    Ok(fixtures)
}

/// The reason for which a file was not registered: an invalid definition, or a failure of the machine.
enum FileError {
    Invalid(String),
    Failed(anyhow::Error),
}

async fn register(engine: &Engine, tenant: &TenantId, path: &Path) -> Result<String, FileError> {
    let read = std::fs::read(path).with_context(|| format!("cannot read {}", path.display()));
    let bytes = read.map_err(FileError::Failed)?;
    let definition =
        parse_strict(&bytes).map_err(|error| FileError::Invalid(format!("is not valid JSON: {error}")))?;
    if let Some(why) =
        definition.get("id").and_then(|id| id.as_str()).and_then(crate::reserved::explain_reserved_workflow)
    {
        return Err(FileError::Invalid(format!("id: {why}")));
    }
    match engine.workflows().register_for_operator(tenant, definition).await {
        Ok(Registration { workflow, stored }) => {
            tracing::info!(id = %workflow.id, stored, "workflow registered");
            Ok(workflow.id.to_string())
        }
        // All flaws, not only the first.
        Err(Error::InvalidWorkflow(flaws)) => {
            let lines: Vec<String> = flaws.iter().map(ToString::to_string).collect();
            Err(FileError::Invalid(lines.join("; ")))
        }
        Err(other) => Err(FileError::Failed(other.into())),
    }
}
