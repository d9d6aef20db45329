//! `holdpoint permissions`: tests and checks the rules for tool calls. Needs no server.

use std::process::ExitCode;

use clap::{Args, Subcommand};
use holdpoint_core::parse_strict;
use holdpoint_core::permission::{Behaviour, PermissionSet, Rule, RuleError, RuleScope, call_digest};
use serde::Serialize;
use serde_json::Value;

use super::failure::Failure;
use super::output::{Output, cell, clean};
use super::values;

#[cfg(test)]
mod tests;

pub(crate) const EXAMPLES: &str = "\
Examples:
  holdpoint permissions check rules.json
  holdpoint permissions test --rules rules.json --tool Bash --args '{\"command\": \"git push\"}'

A file of rules is {\"default\": \"ask\", \"rules\": [...]}, or the array of rules alone. A rule is an
object, or a text such as \"allow Bash(git *)\". A deny wins; otherwise the most specific rule that
matches decides; of equal rules ask wins over allow; without a match the default decides. See
docs/permissions.md.";

const TEST_EXAMPLES: &str = "\
Examples:
  holdpoint permissions test --rules rules.json --tool Bash --args '{\"command\": \"git push\"}'
  holdpoint permissions test --agent agent.json --tool sendEmail --args @call.json --json
  holdpoint permissions test --rule 'allow Bash(git *)' --rule 'deny Bash(*--force*)' \\
    --tool Bash --args '{\"command\": \"git push --force\"}'
  holdpoint permissions test --rules rules.json --primary command --tool Bash --args @call.json

Prints the decision, the rule that decided, and for every other matching rule the reason why it did
not decide. Rules of --rule follow those of the file, like rules that an approval adds.

Exit codes:
  0   allow
  10  ask
  11  deny
  1   the rules have errors
  2   wrong usage, or a file cannot be read

With --json: {\"behavior\", \"rule\"?, \"why\", \"considered\", \"hidden\", \"digest\"}; a rule is
{\"place\", \"text\", \"behavior\", \"scope\"?, \"source\"?, \"reason\"?}.";

const CHECK_EXAMPLES: &str = "\
Examples:
  holdpoint permissions check rules.json
  holdpoint permissions check agents/*.json --json

Prints every error with its path. Valid rules are printed as they were parsed, in the short form,
so that you can compare them with your intention.

Exit codes:
  0  all files are valid
  1  a file has errors
  2  wrong usage, or a file cannot be read

With --json: one line for each file, {\"file\", \"valid\", \"default\"?, \"rules\", \"flaws\", \"warnings\"};
a flaw is {\"field\", \"message\"}.";

/// Exit codes of `test`, in addition to those of every command.
const ASK: u8 = 10;
const DENY: u8 = 11;

#[derive(Debug, Subcommand)]
pub(crate) enum Action {
    /// Test rules with a tool call; the exit code is the decision
    #[command(after_help = TEST_EXAMPLES)]
    Test(TestArgs),
    /// Check rules and print their errors, or the rules as they were parsed
    #[command(after_help = CHECK_EXAMPLES)]
    Check {
        /// JSON files of rules, or agent definitions with `permissions`; `-` reads standard input
        #[arg(required = true, value_name = "FILE")]
        files: Vec<String>,
    },
}

#[derive(Debug, Args)]
pub(crate) struct TestArgs {
    /// JSON file of rules; `-` reads standard input
    #[arg(long, value_name = "FILE", conflicts_with = "agent", required_unless_present_any = ["agent", "rule"])]
    rules: Option<String>,
    /// JSON file of an agent definition with `permissions`
    #[arg(long, value_name = "FILE")]
    agent: Option<String>,
    /// Additional rule, such as 'allow Bash(git *)'; repeatable
    #[arg(long, value_name = "RULE")]
    rule: Vec<String>,
    /// Name of the tool
    #[arg(long, value_name = "NAME")]
    tool: String,
    /// Arguments of the call: JSON, `@file`, or `-` for standard input
    #[arg(long, value_name = "JSON", default_value = "{}")]
    args: String,
    /// Declared primary argument of the tool [default: the only text among the arguments]
    #[arg(long, value_name = "FIELD")]
    primary: Option<String>,
}

/// The output of `test`.
#[derive(Debug, Serialize)]
struct TestReport {
    behavior: Behaviour,
    #[serde(skip_serializing_if = "Option::is_none")]
    rule: Option<RuleReport>,
    why: String,
    considered: Vec<OverruledRule>,
    hidden: bool,
    digest: String,
}

/// A matching rule that did not decide.
#[derive(Debug, Serialize)]
struct OverruledRule {
    rule: RuleReport,
    why: String,
}

#[derive(Debug, Serialize)]
struct RuleReport {
    place: usize,
    text: String,
    behavior: Behaviour,
    #[serde(skip_serializing_if = "Option::is_none")]
    scope: Option<RuleScope>,
    #[serde(skip_serializing_if = "Option::is_none")]
    source: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
}

/// The output of `check` for one file.
#[derive(Debug, Serialize)]
struct CheckReport<'a> {
    file: &'a str,
    valid: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    default: Option<Behaviour>,
    rules: Vec<String>,
    flaws: Vec<RuleError>,
    warnings: Vec<RuleError>,
}

pub(crate) fn run(output: &Output, action: Action) -> Result<ExitCode, Failure> {
    match action {
        Action::Test(args) => test(output, &args),
        Action::Check { files } => check(output, &files).map(|()| ExitCode::SUCCESS),
    }
}

fn test(output: &Output, args: &TestArgs) -> Result<ExitCode, Failure> {
    let set = match (&args.rules, &args.agent) {
        (Some(file), _) => parse_valid(file, &read(file)?)?,
        (None, Some(file)) => {
            let agent = read(file)?;
            if agent.get("permissions").is_none() {
                return Err(Failure::usage(format!("{file}: this agent definition has no `permissions`"))
                    .hint("without rules every call requires approval; use --rules for a file of rules"));
            }
            parse_valid(file, &agent)?
        }
        (None, None) => PermissionSet::default(),
    };
    let more = args.rule.iter().map(|text| {
        text.parse::<Rule>().map_err(|flaw| Failure::usage(format!("--rule {text:?}: {}", flaw.message)))
    });
    let set = set
        .with_rules(&more.collect::<Result<Vec<_>, _>>()?)
        .map_err(|flaw| Failure::refused(clean(&flaw.to_string())))?;
    let arguments = values::json("--args", &args.args)?;
    let report = TestReport::new(&set, &args.tool, args.primary.as_deref(), &arguments);
    if output.json {
        output.json_line(&report);
    } else {
        output.line(&report.text(output));
    }
    Ok(match report.behavior {
        Behaviour::Allow => ExitCode::SUCCESS,
        Behaviour::Ask => ExitCode::from(ASK),
        Behaviour::Deny => ExitCode::from(DENY),
    })
}

impl TestReport {
    fn new(set: &PermissionSet, tool: &str, primary: Option<&str>, arguments: &Value) -> Self {
        let rule = |place: usize| {
            let rule = &set.rules()[place];
            RuleReport {
                place,
                text: rule.to_string(),
                behavior: rule.behaviour(),
                scope: rule.scope,
                source: rule.source.clone(),
                reason: rule.reason.clone(),
            }
        };
        let decision = set.evaluate(tool, primary, arguments);
        Self {
            behavior: decision.behaviour,
            rule: decision.rule.map(rule),
            why: decision.why,
            considered: decision
                .considered
                .into_iter()
                .map(|one| OverruledRule { rule: rule(one.rule), why: one.why })
                .collect(),
            hidden: set.always_denies(tool),
            digest: call_digest(tool, arguments),
        }
    }

    fn text(&self, output: &Output) -> String {
        let rule = self.rule.as_ref();
        let overruled = self.considered.iter().map(|OverruledRule { rule, why }| {
            clean(&format!("rules[{}], `{}`: {why}", rule.place, rule.text))
        });
        let hidden = if self.hidden { "every call is denied; the model does not see the tool" } else { "" };
        output.fields(&[
            ("decision", self.behavior.to_string()),
            ("why", clean(&self.why)),
            ("reason", cell(rule.and_then(|rule| rule.reason.as_ref()))),
            ("source", cell(rule.and_then(|rule| rule.source.as_ref()))),
            ("scope", cell(rule.and_then(|rule| rule.scope))),
            ("overruled", overruled.collect::<Vec<_>>().join("\n")),
            ("hidden", hidden.to_owned()),
            ("digest", self.digest.clone()),
        ])
    }
}

fn check(output: &Output, files: &[String]) -> Result<(), Failure> {
    let mut invalid = 0;
    for file in files {
        let report = match parse_strict(values::read(file)?.as_bytes()) {
            Ok(document) => CheckReport::new(file, parse(&document)),
            Err(error) => {
                CheckReport::new(file, Err(vec![flaw("(document)", format!("is not valid JSON: {error}"))]))
            }
        };
        invalid += usize::from(!report.valid);
        if output.json {
            output.json_line(&report);
        } else {
            output.line(&report.text());
        }
    }
    match invalid {
        0 => Ok(()),
        _ if files.len() == 1 => Err(Failure::refused("the rules are invalid")),
        _ => Err(Failure::refused(format!("{invalid} of {} files are invalid", files.len()))),
    }
}

impl<'a> CheckReport<'a> {
    fn new(file: &'a str, parsed: Result<PermissionSet, Vec<RuleError>>) -> Self {
        let empty =
            Self { file, valid: false, default: None, rules: vec![], flaws: vec![], warnings: vec![] };
        match parsed {
            Err(flaws) => Self { flaws, ..empty },
            Ok(set) => Self {
                valid: true,
                default: Some(set.default_behaviour()),
                rules: set.rules().iter().map(ToString::to_string).collect(),
                warnings: warnings(&set),
                ..empty
            },
        }
    }

    fn text(&self) -> String {
        let file = if self.file == "-" { "standard input".to_string() } else { clean(self.file) };
        let line = |word: &str, flaw: &RuleError| format!("{file}: {word}: {}", clean(&flaw.to_string()));
        let mut lines: Vec<String> = self.flaws.iter().map(|flaw| line("error", flaw)).collect();
        lines.extend(self.warnings.iter().map(|flaw| line("warning", flaw)));
        if let Some(default) = self.default {
            lines.push(format!("{file}: ok: {} rules, default {default}", self.rules.len()));
        }
        let rules = self.rules.iter().enumerate();
        lines.extend(rules.map(|(place, rule)| format!("  rules[{place}]  {}", clean(rule))));
        lines.join("\n")
    }
}

/// Returns warnings about the dangerous parts of a valid set.
fn warnings(set: &PermissionSet) -> Vec<RuleError> {
    let mut found = Vec::new();
    if set.default_behaviour() == Behaviour::Allow {
        found.push(flaw(
            "default",
            "calls without a matching rule are allowed, including calls of tools that are added later",
        ));
    }
    for (place, rule) in set.rules().iter().enumerate().filter(|(_, rule)| rule.to_string() == "allow *") {
        let message = format!("`{rule}` allows every tool that no other rule names");
        found.push(flaw(&format!("rules[{place}]"), message));
    }
    found
}

fn read(file: &str) -> Result<Value, Failure> {
    let text = values::read(file)?;
    parse_strict(text.as_bytes()).map_err(|error| Failure::usage(format!("{file}: not JSON: {error}")))
}

fn parse_valid(file: &str, document: &Value) -> Result<PermissionSet, Failure> {
    parse(document).map_err(|flaws| {
        let lines: Vec<String> =
            flaws.iter().map(|flaw| format!("\n  {}", clean(&flaw.to_string()))).collect();
        Failure::refused(format!("{file}: the rules are invalid{}", lines.concat()))
    })
}

/// Parses a set of rules, or the `permissions` of an agent definition.
fn parse(document: &Value) -> Result<PermissionSet, Vec<RuleError>> {
    let Some(permissions) = document.get("permissions") else { return PermissionSet::parse(document) };
    PermissionSet::parse(permissions).map_err(|flaws| {
        let below = |found: RuleError| match found.field.as_str() {
            "(document)" => flaw("permissions", found.message),
            field => flaw(&format!("permissions.{field}"), found.message.clone()),
        };
        flaws.into_iter().map(below).collect()
    })
}

fn flaw(field: &str, message: impl Into<String>) -> RuleError {
    RuleError { field: field.to_string(), message: message.into() }
}
