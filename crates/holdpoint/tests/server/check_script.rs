//! `scripts/check` names in its last line what it left out, and leaves no advisories out for a release.

use std::process::{Command, Output};

const SCRIPT: &str = include_str!("../../../../scripts/check");

/// Runs lines of bash with the functions of the script, as on a machine that cannot fetch the advisory database.
fn run(lines: &str) -> Output {
    let functions = SCRIPT.strip_suffix("main \"$@\"\n").expect("the last line runs the check");
    let no_network = "cargo() { false; }; timeout() { shift; \"$@\"; }\n";
    let folder = tempfile::tempdir().unwrap();
    let script = folder.path().join("check");
    std::fs::write(&script, format!("{functions}{no_network}{lines}\n")).unwrap();
    Command::new("bash").arg(script).output().unwrap()
}

#[test]
fn advisories_that_were_not_checked_are_named_in_the_last_line() {
    let output = run("check_advisories; last_line");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{output:?}");
    let last = text.lines().last().unwrap();
    assert!(last.starts_with("All checks passed in "), "{text}");
    assert!(last.contains("NOT CHECKED: security advisories"), "{text}");
    let complete = run("last_line");
    assert!(!String::from_utf8_lossy(&complete.stdout).contains("NOT CHECKED"), "{complete:?}");
}

#[test]
fn a_check_for_a_release_fails_if_the_advisories_cannot_be_checked() {
    let output = run("read_options --release; check_advisories; last_line");
    assert!(!output.status.success(), "{output:?}");
    assert!(String::from_utf8_lossy(&output.stderr).contains("advisory database"), "{output:?}");
    assert!(!String::from_utf8_lossy(&output.stdout).contains("All checks passed"), "{output:?}");
}
