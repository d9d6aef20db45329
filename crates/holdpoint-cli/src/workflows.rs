//! `holdpoint workflows`: registers and reads workflow definitions.

use std::collections::BTreeMap;

use clap::Subcommand;
use holdpoint_api::grants::WorkflowGrants;
use holdpoint_api::workflows::WorkflowSummary;

use super::client::Client;
use super::failure::Failure;
use super::output::{Output, age_since, cell, clean};
use super::{Connection, open, values};

pub const EXAMPLES: &str = "\
Examples:
  holdpoint workflows check flows/
  holdpoint workflows put release.json refund.json
  holdpoint workflows check flows/ && holdpoint workflows put flows/
  holdpoint workflows list
  holdpoint workflows show release > release.json";

#[derive(Debug, Subcommand)]
pub enum Action {
    /// Register definitions, or new revisions of them, under the `id` in each file
    Put {
        /// JSON files, folders of them (as `check` reads them), or `-` for standard input
        #[arg(required = true, value_name = "FILE")]
        files: Vec<String>,
    },
    /// List the registered workflows
    List,
    /// Print one definition as JSON, and on standard error the effects that its gates permit
    Show {
        /// Id of the workflow
        #[arg(value_name = "ID")]
        id: String,
    },
}

pub fn run(connection: &Connection, action: Action) -> Result<(), Failure> {
    let (client, output) = (&open(connection)?, &Output::of(connection));
    match action {
        Action::Put { files } => return put(client, output, &files),
        Action::List => {
            output.show(&client.send(client.workflows().list())?, |page| list(output, &page.workflows));
        }
        Action::Show { id } => {
            let reply = client.send(client.workflows().get(&id))?;
            output.show(&reply, |definition| format!("{definition:#}"));
            // On standard error, because standard output may be redirected to a file.
            if !output.json
                && let Ok(grants) = client.send(client.workflows().grants(&id))
            {
                print_permits(&grants.value);
            }
        }
    }
    Ok(())
}

fn put(client: &Client, output: &Output, files: &[String]) -> Result<(), Failure> {
    // All files are read before the first request, so that no definition is registered if a file cannot be read.
    let files =
        files.iter().flat_map(|named| values::definition_files(named)).collect::<Result<Vec<_>, _>>()?;
    let read = |file: &String| values::definition(file, "id");
    let definitions = files.iter().map(read).collect::<Result<Vec<_>, _>>()?;
    let mut known = if output.json { BTreeMap::new() } else { revisions(client) };
    for (sent, (file, (id, text))) in files.iter().zip(definitions).enumerate() {
        let reply = client.send(client.workflows().put_text(&id, text));
        let reply = reply.map_err(|failure| with_progress_hint(failure.about(file), &files, sent))?;
        let revision = reply.value.revision;
        let what = match (reply.status, known.insert(id.clone(), revision)) {
            (201, _) => "registered",
            (_, Some(before)) if before == revision => "unchanged",
            _ => "updated",
        };
        output.show(&reply, |now| {
            format!("{what} {} version {}, revision {revision}", clean(&id), cell(&now.version))
        });
        warn(&reply.value.warnings.unwrap_or_default());
    }
    Ok(())
}

/// Adds a hint that names the definitions that were registered before the refused one.
fn with_progress_hint(failure: Failure, files: &[String], sent: usize) -> Failure {
    let (done, left) = (files[..sent].join(", "), files[sent + 1..].join(", "));
    let check = "`holdpoint workflows check` lists all errors without a registration";
    match (files.len(), sent) {
        (1, _) => failure,
        (_, 0) => failure.hint(format!("none of the {} files is registered; {check}", files.len())),
        (_, _) if left.is_empty() => failure.hint(format!("registered before it: {done}; {check}")),
        _ => failure.hint(format!("registered before it: {done}; not sent: {left}; {check}")),
    }
}

/// Prints warnings of the server on standard error, apart from the output that scripts read.
pub(crate) fn warn(warnings: &[String]) {
    for warning in warnings {
        eprintln!("warning: {}", clean(warning));
    }
}

/// Returns the registered revisions; empty if this key may register workflows but not read them.
fn revisions(client: &Client) -> BTreeMap<String, u64> {
    let known = client.send(client.workflows().list()).map(|reply| reply.value.workflows).unwrap_or_default();
    known.into_iter().map(|workflow| (workflow.id.to_string(), workflow.revision)).collect()
}

fn list(output: &Output, workflows: &[WorkflowSummary]) -> String {
    let row = |workflow: &WorkflowSummary| {
        vec![
            cell(&workflow.id),
            cell(&workflow.version),
            workflow.revision.to_string(),
            age_since(workflow.updated_at),
            cell(&workflow.name),
        ]
    };
    let rows: Vec<_> = workflows.iter().map(row).collect();
    let empty = "no workflows; register one with `holdpoint workflows put FILE`";
    output.table(&["ID", "VERSION", "REVISION", "AGE", "NAME"], &rows, empty)
}

/// Prints a line for each effect that a gate permits, and a warning for each note.
fn print_permits(grants: &WorkflowGrants) {
    for gate in &grants.gates {
        for permit in &gate.permits {
            let repeat = if permit.repeat { ", every round of a loop" } else { "" };
            let (gate, node, type_id) =
                (clean(gate.node_id.as_str()), clean(permit.node_id.as_str()), clean(&permit.type_id));
            eprintln!("gate {gate} permits {node} ({type_id}): {}{repeat}", cell(permit.payload));
        }
    }
    for note in &grants.notes {
        eprintln!("warning: node {} {}", clean(note.node_id.as_str()), clean(&note.message));
    }
}
