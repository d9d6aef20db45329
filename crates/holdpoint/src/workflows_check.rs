//! `holdpoint workflows check`: checks workflow definitions without a server.

use std::collections::BTreeMap;

use clap::Args;
use holdpoint_api::errors::WorkflowFlaw;
use holdpoint_cli::failure::Failure;
use holdpoint_cli::output::{Output, clean};
use holdpoint_cli::values;
use holdpoint_core::workflow::Flaw;
use holdpoint_core::{limits, parse_strict};
use holdpoint_engine::{Checked, Location, Options};
use serde::{Serialize, Serializer};

use crate::config::OutgoingArgs;

pub(crate) const EXAMPLES: &str = "\
Examples:
  holdpoint workflows check release.json
  holdpoint workflows check flows/ && holdpoint serve --workflows flows --strict
  generate-flow | holdpoint workflows check - --json

Every flaw is printed with file, node and field, in up to three rounds, as when a definition is
registered: the shape of the document, then the graph, then the settings of the nodes.
A member without effect is a warning; a workflow that is started and not among the files is a note.
Neither changes the exit code.

Exit codes:
  0  all can be registered
  1  a file has flaws, or is not a definition
  2  wrong usage, or a file cannot be read

With --json: one line for each file, {\"file\", \"id\", \"valid\", \"flaws\", \"warnings\", \"notes\"};
an entry of the lists is {\"nodeId\"?, \"field\", \"message\"}.";

#[derive(Debug, Args)]
pub(crate) struct Check {
    /// JSON files, folders of them (as `serve --workflows` reads them), or `-` for standard input
    #[arg(required = true, value_name = "FILE")]
    files: Vec<String>,
    #[command(flatten)]
    outgoing: OutgoingArgs,
}

/// The result of one file.
#[derive(Debug, Serialize)]
struct Verdict {
    file: String,
    id: Option<String>,
    valid: bool,
    #[serde(serialize_with = "as_api")]
    flaws: Vec<Flaw>,
    #[serde(serialize_with = "as_api")]
    warnings: Vec<Flaw>,
    #[serde(serialize_with = "as_api")]
    notes: Vec<Flaw>,
    #[serde(skip)]
    checked: Option<Checked>,
}

/// Writes flaws in their form in the API.
fn as_api<S: Serializer>(flaws: &[Flaw], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(flaws.iter().cloned().map(|Flaw { node, field, message, .. }| WorkflowFlaw {
        node_id: node.map(|node| node.to_string()),
        field,
        message,
    }))
}

pub(crate) fn run(
    output: &Output,
    asked: Check,
    customize: impl FnOnce(Options) -> Options,
) -> Result<(), Failure> {
    // The database is never opened.
    let options = Options::new(Location::Sqlite("unopened".into()));
    let settings = asked.outgoing.settle().map_err(|error| Failure::usage(format!("{error:#}")))?;
    let options = customize(options.outgoing(settings.outgoing()));
    let (mut verdicts, mut unreadable) = (Vec::new(), Vec::new());
    for file in asked.files.iter().flat_map(|named| values::definition_files(named)) {
        match file.and_then(|file| Ok((values::read(&file)?, file))) {
            Ok((text, file)) => verdicts.push(judge(&options, file, &text)),
            Err(failure) => unreadable.push(failure),
        }
    }
    compare(&mut verdicts);
    for verdict in &verdicts {
        if output.json {
            output.json_line(verdict);
        } else {
            output.line(&verdict.text());
        }
    }
    let last = unreadable.pop();
    for failure in &unreadable {
        eprintln!("{failure}");
    }
    let flawed = verdicts.iter().filter(|verdict| !verdict.valid).count();
    match (last, flawed) {
        (Some(failure), _) => Err(failure),
        (None, 0) => Ok(()),
        (None, _) if verdicts.len() == 1 => Err(Failure::refused("this cannot be registered")),
        (None, flawed) => {
            Err(Failure::refused(format!("{flawed} of {} files cannot be registered", verdicts.len())))
        }
    }
}

fn judge(options: &Options, file: String, text: &str) -> Verdict {
    let parsed = parse_strict(text.as_bytes());
    let id = parsed.as_ref().ok().and_then(|definition| Some(definition["id"].as_str()?.to_string()));
    let checked = match parsed {
        Ok(definition) => options.check_workflow(&definition),
        Err(error) => Err(vec![Flaw::at_top("(document)", format!("is not valid JSON: {error}"))]),
    };
    let (flaws, checked) = match checked {
        Ok(checked) => (Vec::new(), Some(checked)),
        Err(flaws) => (flaws, None),
    };
    let warnings = checked.as_ref().map(|checked| checked.unheeded.clone()).unwrap_or_default();
    let mut verdict =
        Verdict { file, id, valid: flaws.is_empty(), flaws, warnings, notes: Vec::new(), checked };
    if text.len() > limits::REQUEST_BYTES_MAX {
        let message = format!(
            "has {} bytes: HTTP requests may have at most {}; `serve --workflows` accepts it",
            text.len(),
            limits::REQUEST_BYTES_MAX
        );
        verdict.warnings.push(Flaw::at_top("(document)", message));
    }
    verdict
}

/// Adds the warnings and notes that depend on all files.
fn compare(verdicts: &mut [Verdict]) {
    let mut first: BTreeMap<String, String> = BTreeMap::new();
    for verdict in verdicts.iter_mut() {
        let Some(id) = verdict.id.clone() else { continue };
        match first.get(&id) {
            Some(other) => {
                let message =
                    format!("{id:?} is also the id of {other}: the last one is the newest revision");
                verdict.warnings.push(Flaw::at_top("id", message));
            }
            None => {
                first.insert(id, verdict.file.clone());
            }
        }
    }
    for verdict in verdicts {
        let Some(checked) = &verdict.checked else { continue };
        let strangers = checked.starts().filter(|(_, workflow)| !first.contains_key(*workflow));
        let note = |(node, workflow): (&_, &str)| {
            let message = format!(
                "{workflow:?} is not among these files; it must be registered when a run reaches this node"
            );
            Flaw::of_node(node, "config.workflowId", message)
        };
        verdict.notes = strangers.map(note).collect();
    }
}

impl Verdict {
    fn text(&self) -> String {
        let file = if self.file == "-" { "standard input".to_string() } else { clean(&self.file) };
        let mut lines = Vec::new();
        for (word, said) in [("error", &self.flaws), ("warning", &self.warnings), ("note", &self.notes)] {
            lines.extend(said.iter().map(|flaw| format!("{file}: {word}: {}", clean(&flaw.to_string()))));
        }
        if let Some(checked) = &self.checked {
            let (id, version) = (&checked.workflow.id, clean(&checked.workflow.version));
            lines.push(format!("{file}: ok: {id} version {version}"));
        }
        lines.join("\n")
    }
}
