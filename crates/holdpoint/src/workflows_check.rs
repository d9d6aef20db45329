//! `holdpoint workflows check`: checks workflow definitions without a server.

use std::collections::BTreeMap;

use clap::Args;
use holdpoint_api::errors::WorkflowFlaw;
use holdpoint_cli::failure::Failure;
use holdpoint_cli::output::{Output, clean};
use holdpoint_cli::values;
use holdpoint_core::workflow::DefinitionFlaw;
use holdpoint_core::{limits, parse_strict};
use holdpoint_engine::{CheckedWorkflow, Location, Options};
use serde::{Serialize, Serializer};

use crate::config::OutgoingArgs;
use crate::extensions;
use crate::reserved::explain_reserved_workflow;

pub(crate) const EXAMPLES: &str = "\
Examples:
  holdpoint workflows check release.json
  holdpoint workflows check flows/ && holdpoint serve --workflows flows --strict
  generate-flow | holdpoint workflows check - --json

Every flaw is printed with file, node and field. There are three stages, as for a registration: the
shape of the document, then the graph, then the settings of the nodes.
A member without effect is a warning; a workflow that a node starts and that is not among the files
is a note. Neither changes the exit code.

Exit codes:
  0  all files can be registered
  1  a file has flaws, or is not a definition
  2  wrong usage, or a file cannot be read

With --json: one line for each file, {\"file\", \"id\", \"valid\", \"flaws\", \"warnings\", \"notes\"};
an entry of the lists is {\"nodeId\"?, \"field\", \"message\"}.";

#[derive(Debug, Args)]
pub(crate) struct CheckArgs {
    /// JSON files, folders of them (as `serve --workflows` reads them), or `-` for standard input
    #[arg(required = true, value_name = "FILE")]
    files: Vec<String>,
    #[command(flatten)]
    outgoing: OutgoingArgs,
}

/// The result of one file.
#[derive(Debug, Serialize)]
struct FileCheck {
    file: String,
    id: Option<String>,
    valid: bool,
    #[serde(serialize_with = "as_api")]
    flaws: Vec<DefinitionFlaw>,
    #[serde(serialize_with = "as_api")]
    warnings: Vec<DefinitionFlaw>,
    #[serde(serialize_with = "as_api")]
    notes: Vec<DefinitionFlaw>,
    #[serde(skip)]
    checked: Option<CheckedWorkflow>,
}

/// Writes flaws in their form in the API.
fn as_api<S: Serializer>(flaws: &[DefinitionFlaw], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(flaws.iter().cloned().map(|DefinitionFlaw { node, field, message, .. }| {
        WorkflowFlaw { node_id: node.map(|node| node.to_string()), field, message }
    }))
}

pub(crate) fn run(
    output: &Output,
    args: CheckArgs,
    customize: impl FnOnce(Options) -> Options,
) -> Result<(), Failure> {
    // The database is never opened.
    let options = Options::new(Location::Sqlite("unopened".into())).manual_worker();
    let settings = args.outgoing.into_settings().map_err(|error| Failure::usage(format!("{error:#}")))?;
    let options = customize(extensions::add_default(options.outgoing(settings.outgoing())));
    let (mut checks, mut unreadable) = (Vec::new(), Vec::new());
    for file in args.files.iter().flat_map(|named| values::definition_files(named)) {
        match file.and_then(|file| Ok((values::read(&file)?, file))) {
            Ok((text, file)) => checks.push(check_file(&options, file, &text)),
            Err(failure) => unreadable.push(failure),
        }
    }
    compare(&mut checks);
    for check in &checks {
        if output.json {
            output.json_line(check);
        } else {
            output.line(&check.text());
        }
    }
    let last = unreadable.pop();
    for failure in &unreadable {
        eprintln!("{failure}");
    }
    let flawed = checks.iter().filter(|check| !check.valid).count();
    match (last, flawed) {
        (Some(failure), _) => Err(failure),
        (None, 0) => Ok(()),
        (None, _) if checks.len() == 1 => Err(Failure::refused("the file cannot be registered")),
        (None, flawed) => {
            Err(Failure::refused(format!("{flawed} of {} files cannot be registered", checks.len())))
        }
    }
}

fn check_file(options: &Options, file: String, text: &str) -> FileCheck {
    let parsed = parse_strict(text.as_bytes());
    let id = parsed.as_ref().ok().and_then(|definition| Some(definition["id"].as_str()?.to_string()));
    let checked = match parsed {
        Ok(definition) => match id.as_deref().and_then(explain_reserved_workflow) {
            Some(why) => Err(vec![DefinitionFlaw::at_top("id", why)]),
            None => options.check_workflow(&definition),
        },
        Err(error) => Err(vec![DefinitionFlaw::at_top("(document)", format!("is not valid JSON: {error}"))]),
    };
    let (flaws, checked) = match checked {
        Ok(checked) => (Vec::new(), Some(checked)),
        Err(flaws) => (flaws, None),
    };
    let warnings = checked.as_ref().map(|checked| checked.ignored.clone()).unwrap_or_default();
    let mut check =
        FileCheck { file, id, valid: flaws.is_empty(), flaws, warnings, notes: Vec::new(), checked };
    if text.len() > limits::REQUEST_BYTES_MAX {
        let message = format!(
            "has {} bytes: HTTP requests may have at most {}; `serve --workflows` accepts it",
            text.len(),
            limits::REQUEST_BYTES_MAX
        );
        check.warnings.push(DefinitionFlaw::at_top("(document)", message));
    }
    check
}

/// Adds the warnings and notes that depend on all files.
fn compare(checks: &mut [FileCheck]) {
    let mut first: BTreeMap<String, String> = BTreeMap::new();
    for check in checks.iter_mut() {
        let Some(id) = check.id.clone() else { continue };
        match first.get(&id) {
            Some(other) => {
                let message =
                    format!("{id:?} is also the id of {other}: the last one is the newest revision");
                check.warnings.push(DefinitionFlaw::at_top("id", message));
            }
            None => {
                first.insert(id, check.file.clone());
            }
        }
    }
    for check in checks {
        let Some(checked) = &check.checked else { continue };
        let unknown = checked.child_workflows().filter(|(_, workflow)| !first.contains_key(*workflow));
        let note = |(node, workflow): (&_, &str)| {
            let message = format!(
                "{workflow:?} is not among these files; it must be registered when a run reaches this node"
            );
            DefinitionFlaw::of_node(node, "config.workflowId", message)
        };
        check.notes = unknown.map(note).collect();
    }
}

impl FileCheck {
    fn text(&self) -> String {
        let file = if self.file == "-" { "standard input".to_string() } else { clean(&self.file) };
        let mut lines = Vec::new();
        for (word, flaws) in [("error", &self.flaws), ("warning", &self.warnings), ("note", &self.notes)] {
            lines.extend(flaws.iter().map(|flaw| format!("{file}: {word}: {}", clean(&flaw.to_string()))));
        }
        if let Some(checked) = &self.checked {
            let (id, version) = (&checked.workflow.id, clean(&checked.workflow.version));
            lines.push(format!("{file}: ok: {id} version {version}"));
        }
        lines.join("\n")
    }
}
