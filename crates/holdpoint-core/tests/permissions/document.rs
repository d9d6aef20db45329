//! Checks the table, the example, the pitfalls and the limits of `docs/permissions.md` against the code.

use holdpoint_core::permission::{self, Behaviour, PermissionSet};
use serde_json::{Value, json};

use crate::behaviour_of;

const DOCUMENT: &str = include_str!("../../../../docs/permissions.md");

/// Returns the rule in a row of a table that has this behaviour, without the behaviour.
fn rule_in_row<'a>(row: &'a str, behaviour: &str) -> Option<&'a str> {
    let start = row.find(&format!("`{behaviour} "))? + behaviour.len() + 2;
    row[start..].split_once('`').map(|(rule, _)| rule)
}

#[test]
fn the_precedence_table_holds_for_ask_and_for_allow() {
    let rows = DOCUMENT.lines().filter(|line| line.starts_with('|'));
    let pairs: Vec<_> =
        rows.filter_map(|row| Some((rule_in_row(row, "ask")?, rule_in_row(row, "allow")?))).collect();
    assert_eq!(pairs.len(), 7, "{pairs:?}");
    for (narrow, broad) in pairs {
        let (tool, call) = match narrow.starts_with("Bash") {
            true => ("Bash", json!({"command": "git push"})),
            false => ("mail_send", json!({"to": "a@example.com", "cc": "b@example.com"})),
        };
        for [one, other] in [["ask", "allow"], ["allow", "ask"]] {
            let rules = [format!("{one} {narrow}"), format!("{other} {broad}")];
            let found = PermissionSet::parse(&json!(rules)).unwrap().evaluate(tool, None, &call);
            assert_eq!((found.rule, found.considered.len()), (Some(0), 1), "{rules:?}: {found:?}");
        }
    }
}

#[test]
fn the_example_set_is_valid() {
    let (_, rest) = DOCUMENT.split_once("```json\n").unwrap();
    let shown: Value = serde_json::from_str(rest.split_once("```").unwrap().0).unwrap();
    let set = PermissionSet::parse(&shown).unwrap();
    let call = json!({"to": ["a@example.com"], "cc": null});
    assert_eq!(set.evaluate("sendEmail", None, &call).behaviour, Behaviour::Allow);
    assert!(set.always_denies("delete_user"));
}

#[test]
fn the_documented_pitfalls_and_their_workarounds_are_real() {
    let mail = json!({"to": "a@example.com", "cc": "x@evil.example"});
    let plain = "allow sendEmail(to ~ *@example.com)";
    assert_eq!(behaviour_of(&[plain], "sendEmail", &mail), Behaviour::Allow);
    let exception = "ask sendEmail(to ~ *@example.com, cc ~ *)";
    assert_eq!(behaviour_of(&[plain, exception], "sendEmail", &mail), Behaviour::Ask);
    let shell = json!({"command": "git log; rm -rf /"});
    assert_eq!(behaviour_of(&["allow Bash(git *)"], "Bash", &shell), Behaviour::Allow);
    assert_eq!(behaviour_of(&["allow Bash(git *)", "deny Bash(*;*)"], "Bash", &shell), Behaviour::Deny);
    let push = json!({"command": "git push"});
    assert_eq!(behaviour_of(&["allow Bash(git *)", "ask Bash(git push *)"], "Bash", &push), Behaviour::Allow);
    assert_eq!(behaviour_of(&["allow Bash(git *)", "ask Bash(git push*)"], "Bash", &push), Behaviour::Ask);
}

#[test]
fn the_documented_limits_are_the_limits_of_the_code() {
    let limit = |what: &str| {
        let row = DOCUMENT.lines().find(|line| line.starts_with(&format!("| {what}"))).unwrap();
        row.trim_end_matches(" |").rsplit_once("| ").unwrap().1.to_string()
    };
    for (what, max) in [
        ("rules of a set", permission::RULES_MAX.to_string()),
        ("conditions of a rule", permission::CONDITIONS_MAX.to_string()),
        ("characters of a name", permission::PATTERN_CHARS_MAX.to_string()),
        ("regular expressions of a set", permission::REGEXES_MAX.to_string()),
        ("bytes of a regular", format!("{} KiB", permission::REGEX_BYTES_MAX / 1024)),
        ("steps", format!("{}, {}", permission::PATH_STEPS_MAX, permission::PATH_CHARS_MAX)),
        ("bytes of a value", permission::VALUE_BYTES_MAX.to_string()),
        ("characters of a `reason`", permission::NOTE_CHARS_MAX.to_string()),
    ] {
        assert_eq!(limit(what), max, "{what}");
    }
}
