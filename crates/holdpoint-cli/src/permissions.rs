//! `holdpoint permissions`: what rules for tool calls say of a call, and what is wrong with them. Asks no server.

use std::process::ExitCode;

use clap::{Args, Subcommand};
use holdpoint_core::parse_strict;
use holdpoint_core::permission::{Behaviour, Flaw, PermissionSet, Rule, Verdict, call_digest};
use serde_json::{Value, json};

use super::failure::Failure;
use super::output::{Output, clean};
use super::values;

#[cfg(test)]
mod tests;

pub(crate) const EXAMPLES: &str = "\
Examples:
  holdpoint permissions check rules.json
  holdpoint permissions test --rules rules.json --tool Bash --args '{\"command\": \"git push\"}'

A file of rules is {\"default\": \"ask\", \"rules\": [...]}, or the array of rules alone. A rule is an
object, or a text such as \"allow Bash(git *)\". A deny wins; otherwise the most specific rule that
matches decides; of equals ask beats allow; where none matches, the default. All of it is in
docs/permissions.md.";

const TEST_EXAMPLES: &str = "\
Examples:
  holdpoint permissions test --rules rules.json --tool Bash --args '{\"command\": \"git push\"}'
  holdpoint permissions test --agent agent.json --tool sendEmail --args @call.json --json
  holdpoint permissions test --rule 'allow Bash(git *)' --rule 'deny Bash(*--force*)' \\
    --tool Bash --args '{\"command\": \"git push --force\"}'
  holdpoint permissions test --rules rules.json --primary command --tool Bash --args @call.json

Tells the verdict, the rule that decided, and of every other rule that matches why it did not.
Rules given with --rule come after those of the file, as rules given with an approval would.

Exit codes:
  0   allow
  10  ask
  11  deny
  1   the rules have flaws
  2   wrong usage, or a file cannot be read

With --json: {\"behavior\", \"rule\"?, \"why\", \"considered\", \"hidden\", \"digest\"}; a rule is told as
{\"place\", \"text\", \"behavior\", \"scope\"?, \"source\"?, \"reason\"?}.";

const CHECK_EXAMPLES: &str = "\
Examples:
  holdpoint permissions check rules.json
  holdpoint permissions check agents/*.json --json

Tells every flaw with its path. Of rules without flaws it shows each as it was understood, in its
short form: look it over, for a rule that says something else than you meant is no flaw.

Exit codes:
  0  all are good
  1  a file has flaws
  2  wrong usage, or a file cannot be read

With --json: one line for each file, {\"file\", \"valid\", \"default\"?, \"rules\", \"flaws\", \"warnings\"};
a flaw is {\"field\", \"message\"}.";

/// Apart from those that every command has.
const ASK: u8 = 10;
const DENY: u8 = 11;

#[derive(Debug, Subcommand)]
pub(crate) enum Action {
    /// Judge one tool call and tell why; the exit code tells the verdict
    #[command(after_help = TEST_EXAMPLES)]
    Test(Test),
    /// Say what is wrong with rules, and how they are understood
    #[command(after_help = CHECK_EXAMPLES)]
    Check {
        /// JSON files of rules, or agent definitions with `permissions`; `-` reads standard input
        #[arg(required = true, value_name = "FILE")]
        files: Vec<String>,
    },
}

#[derive(Debug, Args)]
pub(crate) struct Test {
    /// JSON file of rules; `-` reads standard input
    #[arg(long, value_name = "FILE", conflicts_with = "agent", required_unless_present_any = ["agent", "rule"])]
    rules: Option<String>,
    /// JSON file of an agent definition, whose `permissions` are meant
    #[arg(long, value_name = "FILE")]
    agent: Option<String>,
    /// One more rule, such as 'allow Bash(git *)'; repeat for more
    #[arg(long, value_name = "RULE")]
    rule: Vec<String>,
    /// The tool's name
    #[arg(long, value_name = "NAME")]
    tool: String,
    /// The arguments of the call: JSON, `@file`, or `-` for standard input
    #[arg(long, value_name = "JSON", default_value = "{}")]
    args: String,
    /// The tool's declared primary argument; without it, the only text among the arguments
    #[arg(long, value_name = "FIELD")]
    primary: Option<String>,
}

pub(crate) fn run(output: &Output, action: Action) -> Result<ExitCode, Failure> {
    match action {
        Action::Test(asked) => test(output, &asked),
        Action::Check { files } => check(output, &files).map(|()| ExitCode::SUCCESS),
    }
}

fn test(output: &Output, asked: &Test) -> Result<ExitCode, Failure> {
    let set = match (&asked.rules, &asked.agent) {
        (Some(file), _) => good(file, &read(file)?)?,
        (None, Some(file)) => {
            let agent = read(file)?;
            if agent.get("permissions").is_none() {
                return Err(Failure::usage(format!("{file}: this agent definition has no `permissions`"))
                    .hint("without rules every call is asked about; a file of rules is given with --rules"));
            }
            good(file, &agent)?
        }
        (None, None) => PermissionSet::default(),
    };
    let more = asked.rule.iter().map(|text| {
        text.parse::<Rule>().map_err(|flaw| Failure::usage(format!("--rule {text:?}: {}", flaw.message)))
    });
    let set = set
        .with(&more.collect::<Result<Vec<_>, _>>()?)
        .map_err(|flaw| Failure::refused(clean(&flaw.to_string())))?;
    let arguments = values::json("--args", &asked.args)?;
    let verdict = set.judge(&asked.tool, asked.primary.as_deref(), &arguments);
    let told = Told { set: &set, verdict: &verdict, tool: &asked.tool, arguments: &arguments };
    output.line(&if output.json { told.json().to_string() } else { told.text(output) });
    Ok(code(verdict.behaviour))
}

fn code(behaviour: Behaviour) -> ExitCode {
    match behaviour {
        Behaviour::Allow => ExitCode::SUCCESS,
        Behaviour::Ask => ExitCode::from(ASK),
        Behaviour::Deny => ExitCode::from(DENY),
    }
}

/// A verdict and what it is about.
struct Told<'a> {
    set: &'a PermissionSet,
    verdict: &'a Verdict,
    tool: &'a str,
    arguments: &'a Value,
}

impl Told<'_> {
    fn text(&self, output: &Output) -> String {
        let decided = self.verdict.rule.map(|place| &self.set.rules()[place]);
        let note = |note: Option<&String>| note.map(|text| clean(text)).unwrap_or_default();
        let lost: Vec<String> = self
            .verdict
            .considered
            .iter()
            .map(|one| format!("rules[{}], `{}`: {}", one.rule, self.set.rules()[one.rule], one.why))
            .collect();
        let hidden =
            if self.set.hidden(self.tool) { "every call is denied; the model is not told of it" } else { "" };
        output.facts(&[
            ("verdict", self.verdict.behaviour.to_string()),
            ("why", clean(&self.verdict.why)),
            ("reason", note(decided.and_then(|rule| rule.reason.as_ref()))),
            ("source", note(decided.and_then(|rule| rule.source.as_ref()))),
            (
                "scope",
                decided.and_then(|rule| rule.scope).map(|scope| scope.name().to_string()).unwrap_or_default(),
            ),
            ("lost", lost.iter().map(|line| clean(line)).collect::<Vec<_>>().join("\n")),
            ("hidden", hidden.to_string()),
            ("digest", call_digest(self.tool, self.arguments)),
        ])
    }

    fn json(&self) -> Value {
        let rule = |place: usize| {
            let rule = &self.set.rules()[place];
            let mut shown = json!({"place": place, "text": rule.to_string(), "behavior": rule.behaviour()});
            let scope = rule.scope.map(|scope| scope.name().to_string());
            for (name, text) in [("scope", &scope), ("source", &rule.source), ("reason", &rule.reason)] {
                if let Some(text) = text {
                    shown[name] = json!(text);
                }
            }
            shown
        };
        let considered: Vec<Value> = self
            .verdict
            .considered
            .iter()
            .map(|one| json!({"rule": rule(one.rule), "why": one.why}))
            .collect();
        let mut told = json!({
            "behavior": self.verdict.behaviour, "why": self.verdict.why, "considered": considered,
            "hidden": self.set.hidden(self.tool), "digest": call_digest(self.tool, self.arguments),
        });
        if let Some(place) = self.verdict.rule {
            told["rule"] = rule(place);
        }
        told
    }
}

fn check(output: &Output, files: &[String]) -> Result<(), Failure> {
    let mut flawed = 0;
    for file in files {
        let text = values::read(file)?;
        let parsed = match parse_strict(text.as_bytes()) {
            Ok(document) => parse(&document),
            Err(error) => Err(vec![flaw("(document)", format!("is not valid JSON: {error}"))]),
        };
        flawed += usize::from(parsed.is_err());
        output.line(&if output.json {
            checked_json(file, &parsed).to_string()
        } else {
            checked_text(file, &parsed)
        });
    }
    match flawed {
        0 => Ok(()),
        _ if files.len() == 1 => Err(Failure::refused("these rules cannot be used")),
        _ => Err(Failure::refused(format!("{flawed} of {} files cannot be used", files.len()))),
    }
}

fn checked_text(file: &str, parsed: &Result<PermissionSet, Vec<Flaw>>) -> String {
    let file = if file == "-" { "standard input".to_string() } else { clean(file) };
    let line = |word: &str, text: &str| format!("{file}: {word}: {}", clean(text));
    match parsed {
        Err(flaws) => {
            flaws.iter().map(|flaw| line("error", &flaw.to_string())).collect::<Vec<_>>().join("\n")
        }
        Ok(set) => {
            let mut lines: Vec<String> =
                warnings(set).iter().map(|flaw| line("warning", &flaw.to_string())).collect();
            lines.push(line(
                "ok",
                &format!("{} rules, default {}", set.rules().len(), set.default_behaviour()),
            ));
            let rules = set.rules().iter().enumerate();
            lines
                .extend(rules.map(|(place, rule)| format!("  rules[{place}]  {}", clean(&rule.to_string()))));
            lines.join("\n")
        }
    }
}

fn checked_json(file: &str, parsed: &Result<PermissionSet, Vec<Flaw>>) -> Value {
    match parsed {
        Err(flaws) => json!({"file": file, "valid": false, "rules": [], "flaws": flaws, "warnings": []}),
        Ok(set) => {
            let rules: Vec<String> = set.rules().iter().map(ToString::to_string).collect();
            json!({
                "file": file, "valid": true, "default": set.default_behaviour(), "rules": rules, "flaws": [],
                "warnings": warnings(set),
            })
        }
    }
}

/// What is good and may yet be a mistake.
fn warnings(set: &PermissionSet) -> Vec<Flaw> {
    let mut found = Vec::new();
    if set.default_behaviour() == Behaviour::Allow {
        found.push(flaw("default", "what no rule is about is allowed, tools that are added later included"));
    }
    for (place, rule) in set.rules().iter().enumerate().filter(|(_, rule)| rule.to_string() == "allow *") {
        let message = format!("`{rule}` allows every tool that no other rule is about");
        found.push(flaw(&format!("rules[{place}]"), message));
    }
    found
}

fn read(file: &str) -> Result<Value, Failure> {
    let text = values::read(file)?;
    parse_strict(text.as_bytes()).map_err(|error| Failure::usage(format!("{file}: not JSON: {error}")))
}

fn good(file: &str, document: &Value) -> Result<PermissionSet, Failure> {
    parse(document).map_err(|flaws| {
        let lines: Vec<String> =
            flaws.iter().map(|flaw| format!("\n  {}", clean(&flaw.to_string()))).collect();
        Failure::refused(format!("{file}: these rules cannot be used{}", lines.concat()))
    })
}

/// A set, or the definition of an agent that has one.
fn parse(document: &Value) -> Result<PermissionSet, Vec<Flaw>> {
    let Some(permissions) = document.get("permissions") else { return PermissionSet::parse(document) };
    PermissionSet::parse(permissions).map_err(|flaws| {
        let below = |found: Flaw| match found.field.as_str() {
            "(document)" => flaw("permissions", found.message),
            field => flaw(&format!("permissions.{field}"), found.message.clone()),
        };
        flaws.into_iter().map(below).collect()
    })
}

fn flaw(field: &str, message: impl Into<String>) -> Flaw {
    Flaw { field: field.to_string(), message: message.into() }
}
