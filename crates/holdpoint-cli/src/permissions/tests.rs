//! Tests of the output and the exit codes of `holdpoint permissions`.

use clap::Parser;
use serde_json::json;

use super::*;

#[derive(Parser)]
struct TestCommand {
    #[command(subcommand)]
    action: Action,
}

/// Returns the exit code of a command, or its error.
fn run_words(words: &[&str]) -> Result<ExitCode, String> {
    let line = TestCommand::try_parse_from(["permissions"].iter().chain(words))
        .map_err(|error| error.to_string())?;
    run(&Output::json(), line.action).map_err(|failure| format!("{:?} {failure}", failure.exit_code()))
}

fn write_file(document: &Value) -> (tempfile::TempDir, String) {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("rules.json");
    std::fs::write(&file, document.to_string()).expect("written");
    let file = file.to_string_lossy().into_owned();
    (folder, file)
}

#[test]
fn the_exit_code_is_the_decision() {
    let (_folder, file) = write_file(&json!(["allow Bash(git *)", "deny Bash(*--force*)"]));
    for (command, expected) in [("git log", 0), ("ls", ASK), ("git push --force", DENY)] {
        let arguments = json!({"command": command}).to_string();
        let found = run_words(&["test", "--rules", &file, "--tool", "Bash", "--args", &arguments]);
        assert_eq!(found, Ok(ExitCode::from(expected)), "{command}");
    }
    let found = run_words(&["test", "--rule", "deny Bash", "--rules", &file, "--tool", "Bash"]);
    assert_eq!(found, Ok(ExitCode::from(DENY)));
}

#[test]
fn the_rules_of_an_agent_are_its_permissions() {
    let (_folder, file) =
        write_file(&json!({"id": "a", "permissions": {"default": "deny", "rules": ["allow t"]}}));
    assert_eq!(run_words(&["test", "--agent", &file, "--tool", "t"]), Ok(ExitCode::SUCCESS));
    assert_eq!(run_words(&["test", "--agent", &file, "--tool", "u"]), Ok(ExitCode::from(DENY)));
    let (_folder, file) = write_file(&json!({"id": "a"}));
    let found = run_words(&["test", "--agent", &file, "--tool", "t"]).expect_err("no permissions");
    assert!(found.contains("has no `permissions`"), "{found}");
}

#[test]
fn errors_are_printed_with_their_paths_and_the_exit_code_is_1() {
    let (_folder, file) = write_file(&json!({"permissions": ["allow t", {"tool": "t", "behavour": "ask"}]}));
    let found = run_words(&["test", "--agent", &file, "--tool", "t"]).expect_err("flaws");
    assert!(found.contains("permissions.rules[1].behavour: is not a member"), "{found}");
    assert!(found.starts_with(&format!("{:?} ", ExitCode::from(1))), "{found}");
    let found = run_words(&["check", &file]).expect_err("flaws");
    assert!(found.contains("the rules are invalid"), "{found}");
    let text = CheckReport::new("f.json", parse(&json!({"permissions": 7}))).text();
    assert!(text.starts_with("f.json: error: permissions: must be an array of rules"), "{text}");
}

#[test]
fn valid_rules_are_printed_as_parsed_with_warnings_about_dangerous_ones() {
    let document = json!({"default": "allow", "rules": ["allow *", "ask t( a~\"x\" )"]});
    let report = CheckReport::new("f.json", parse(&document));
    assert_eq!(report.rules, ["allow *", "ask t(a ~ x)"]);
    let warned: Vec<&str> = report.warnings.iter().map(|flaw| flaw.field.as_str()).collect();
    assert_eq!(warned, ["default", "rules[0]"]);
    let text = report.text();
    assert!(text.contains("f.json: ok: 2 rules, default allow\n  rules[0]  allow *\n"), "{text}");
}

#[test]
fn a_command_without_rules_or_with_two_sources_is_wrong_usage() {
    assert!(run_words(&["test", "--tool", "t"]).is_err());
    assert!(run_words(&["test", "--rules", "a", "--agent", "b", "--tool", "t"]).is_err());
    let found = run_words(&["test", "--rule", "t", "--tool", "t"]).expect_err("no behaviour");
    assert!(found.contains("--rule \"t\": write a behaviour and a tool"), "{found}");
    assert_eq!(run_words(&["test", "--rule", "allow t", "--tool", "t"]), Ok(ExitCode::SUCCESS));
}

#[test]
fn the_decision_is_printed_with_the_overruled_rules() {
    let set =
        PermissionSet::parse(&json!(["allow *", {"tool": "t", "behavior": "ask", "reason": "costs money"}]));
    let set = set.expect("good rules");
    let arguments = json!({"secret": "s3cret"});
    let report = TestReport::new(&set, "t", None, &arguments);
    let shown = serde_json::to_value(&report).expect("JSON");
    assert_eq!(
        shown["rule"],
        json!({"place": 1, "text": "ask t", "behavior": "ask", "reason": "costs money"})
    );
    assert_eq!(shown["considered"][0]["rule"]["text"], "allow *");
    let text = report.text(&Output::text());
    assert!(text.contains("costs money") && text.contains("rules[0], `allow *`: less specific"), "{text}");
    assert!(!text.contains("s3cret") && !shown.to_string().contains("s3cret"), "{text}");
}
