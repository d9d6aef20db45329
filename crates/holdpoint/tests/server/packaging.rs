//! The systemd unit: its flags are valid, and it restricts the service.

use std::process::Command;

use crate::harness::PROGRAM;

const UNIT: &str = include_str!("../../../../packaging/holdpoint.service");

/// Returns the value of a directive that the unit has exactly once.
fn directive(name: &str) -> &'static str {
    let lines = UNIT.lines().filter(|line| !line.starts_with('#'));
    let found: Vec<&str> = lines
        .filter_map(|line| line.split_once('='))
        .filter(|(key, _)| *key == name)
        .map(|(_, v)| v)
        .collect();
    assert_eq!(found.len(), 1, "{name} is in the unit once: {found:?}");
    found[0]
}

#[test]
fn the_unit_has_sections_and_directives_only() {
    for line in UNIT.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        let is_section = ["[Unit]", "[Service]", "[Install]"].contains(&line);
        let is_directive =
            line.split_once('=').is_some_and(|(name, _)| name.chars().all(char::is_alphanumeric));
        assert!(is_section || is_directive, "{line}");
    }
}

#[test]
fn the_unit_starts_the_server_with_flags_that_it_accepts() {
    let mut words = directive("ExecStart").split(' ');
    assert!(words.next().unwrap().ends_with("/holdpoint"));
    assert_eq!(words.next(), Some("serve"));
    let help = Command::new(PROGRAM).args(["serve", "--help"]).output().unwrap();
    let help = String::from_utf8(help.stdout).unwrap();
    for flag in words.clone().filter(|word| word.starts_with("--")) {
        assert!(
            help.lines().any(|line| line.trim_start().starts_with(&format!("{flag} <"))),
            "{flag}: {help}"
        );
    }
    let data = words.skip_while(|word| *word != "--data").nth(1).unwrap();
    assert_eq!(data, format!("/var/lib/{}", directive("StateDirectory")), "the folder that systemd creates");
}

#[test]
fn the_unit_restricts_the_service() {
    for (name, value) in [
        ("User", "holdpoint"),
        ("StateDirectoryMode", "0700"),
        ("UMask", "0077"),
        ("NoNewPrivileges", "yes"),
        ("ProtectSystem", "strict"),
        ("ProtectHome", "yes"),
        ("PrivateTmp", "yes"),
        ("PrivateDevices", "yes"),
        ("CapabilityBoundingSet", ""),
        ("AmbientCapabilities", ""),
        ("SystemCallFilter", "@system-service"),
        ("RestrictAddressFamilies", "AF_INET AF_INET6 AF_UNIX"),
        ("RestrictNamespaces", "yes"),
        ("MemoryDenyWriteExecute", "yes"),
    ] {
        assert_eq!(directive(name), value, "{name}");
    }
}

#[test]
fn the_documentation_refers_to_the_unit() {
    let operations = include_str!("../../../../docs/operations.md");
    assert!(operations.contains("../packaging/holdpoint.service"));
}
