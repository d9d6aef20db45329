//! `holdpoint workflows`: definitions from files to the server and back. The server judges them, or its engine without
//! one.

use std::collections::BTreeMap;

use clap::Subcommand;
use serde_json::Value;

use super::client::{Client, encode};
use super::failure::Failure;
use super::output::{Output, age_cell, cell, clean};
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
    /// List what is registered
    List,
    /// Print one definition as JSON, and on standard error the effects that its gates permit
    Show {
        #[arg(value_name = "ID")]
        id: String,
    },
}

pub fn run(connection: &Connection, action: Action) -> Result<(), Failure> {
    let output = &Output::of(connection);
    match action {
        Action::Put { files } => return put(&open(connection)?, output, &files),
        Action::List => {
            let reply = open(connection)?.get("/v1/workflows")?;
            output.show(&reply, |page| list(output, page));
        }
        Action::Show { id } => {
            let client = open(connection)?;
            let reply = client.get(&path(&id))?;
            output.show(&reply, |definition| format!("{definition:#}"));
            // On standard error, because standard output may be redirected to a file.
            if !output.json
                && let Ok(grants) = client.get(&format!("{}/grants", path(&id)))
            {
                describe_permits(&grants.value).iter().for_each(|line| eprintln!("{line}"));
            }
        }
    }
    Ok(())
}

fn put(client: &Client, output: &Output, files: &[String]) -> Result<(), Failure> {
    // All files are read before the first is sent, so that a typing error registers nothing.
    let files =
        files.iter().flat_map(|named| values::definition_files(named)).collect::<Result<Vec<_>, _>>()?;
    let definitions = files.iter().map(|file| read(file)).collect::<Result<Vec<_>, _>>()?;
    let mut known = if output.json { BTreeMap::new() } else { revisions(client) };
    for (sent, (file, (id, text))) in files.iter().zip(definitions).enumerate() {
        let reply =
            client.put(&path(&id), text).map_err(|failure| partly(failure.about(file), &files, sent))?;
        let revision = reply.value["revision"].as_u64();
        let what = match (reply.status, known.insert(id.clone(), revision)) {
            (201, _) => "registered",
            (_, Some(before)) if before == revision => "unchanged",
            _ => "updated",
        };
        output.show(&reply, |now| {
            format!(
                "{what} {} version {}, revision {}",
                clean(&id),
                cell(&now["version"]),
                cell(&now["revision"])
            )
        });
        warn(&serde_json::from_value::<Vec<String>>(reply.value["warnings"].clone()).unwrap_or_default());
    }
    Ok(())
}

/// Says which of several definitions are registered although one was refused.
fn partly(failure: Failure, files: &[String], sent: usize) -> Failure {
    let (done, left) = (files[..sent].join(", "), files[sent + 1..].join(", "));
    let check = "`holdpoint workflows check` lists all errors without registering anything";
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

/// What is registered before we begin. Empty when this key may not look: it may register all the same.
fn revisions(client: &Client) -> BTreeMap<String, Option<u64>> {
    let page = client.get("/v1/workflows").map(|reply| reply.value).unwrap_or_default();
    let known = page["workflows"].as_array().into_iter().flatten();
    known.map(|one| (cell(&one["id"]), one["revision"].as_u64())).collect()
}

fn read(file: &str) -> Result<(String, String), Failure> {
    let text = values::read(file)?;
    let definition: Value =
        serde_json::from_str(&text).map_err(|error| Failure::usage(format!("{file}: not JSON: {error}")))?;
    match definition["id"].as_str() {
        Some(id) if !id.is_empty() => Ok((id.to_string(), text)),
        _ => Err(Failure::usage(format!("{file}: no workflow definition: it has no `id`"))),
    }
}

fn list(output: &Output, page: &Value) -> String {
    let row = |workflow: &Value| {
        let mut row: Vec<String> = ["id", "version", "revision"].map(|name| cell(&workflow[name])).into();
        row.extend([age_cell(&workflow["updatedAt"]), cell(&workflow["name"])]);
        row
    };
    let rows: Vec<_> = page["workflows"].as_array().into_iter().flatten().map(row).collect();
    let empty = "no workflows; register one with `holdpoint workflows put FILE`";
    output.table(&["ID", "VERSION", "REVISION", "AGE", "NAME"], &rows, empty)
}

/// Returns a line for each effect that a gate permits, and for each note.
fn describe_permits(grants: &Value) -> Vec<String> {
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let gates = list(&grants["gates"]).into_iter().flat_map(|gate| {
        let gate_id = cell(&gate["nodeId"]);
        list(&gate["permits"]).into_iter().map(move |permit| {
            let repeat = if permit["repeat"] == true { ", every round of a loop" } else { "" };
            let (node, type_id) = (cell(&permit["nodeId"]), cell(&permit["typeId"]));
            format!("gate {gate_id} permits {node} ({type_id}): {}{repeat}", cell(&permit["payload"]))
        })
    });
    let notes = list(&grants["notes"]);
    let notes = notes
        .iter()
        .map(|note| format!("warning: node {} {}", cell(&note["nodeId"]), cell(&note["message"])));
    gates.chain(notes.collect::<Vec<_>>()).collect()
}

fn path(id: &str) -> String {
    format!("/v1/workflows/{}", encode(id))
}
