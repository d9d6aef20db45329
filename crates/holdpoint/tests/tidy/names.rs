//! Rules about the names of files and folders.

use crate::tree::files;

#[test]
fn no_file_has_a_meaningless_name() {
    let found: Vec<_> =
        files().into_iter().map(|file| file.path).filter(|path| is_meaningless(path)).collect();
    assert!(found.is_empty(), "name these files after their content:\n{}", found.join("\n"));
}

#[test]
fn no_working_notes_are_in_the_tree() {
    let found: Vec<_> =
        files().into_iter().map(|file| file.path).filter(|path| is_working_note(path)).collect();
    assert!(found.is_empty(), "plans and notes belong in issues and commits:\n{}", found.join("\n"));
}

fn is_meaningless(path: &str) -> bool {
    let empty = ["manager", "helper", "util", "common", "service", "coordinator", "processor"];
    // `.service` is the extension of systemd units.
    let path = path.strip_suffix(".service").unwrap_or(path);
    words(path).any(|word| empty.contains(&word.strip_suffix('s').unwrap_or(&word)))
}

fn is_working_note(path: &str) -> bool {
    let notes = ["status", "plan", "todo", "session", "note", "progress", "handoff", "scratch", "worklog"];
    let Some((stem, "md" | "txt")) = path.rsplit('/').next().and_then(|name| name.rsplit_once('.')) else {
        return false;
    };
    words(stem).any(|word| notes.contains(&word.as_str()) || notes.contains(&word.trim_end_matches('s')))
}

/// Returns the words of a path in lower case.
fn words(path: &str) -> impl Iterator<Item = String> {
    path.split(|c: char| !c.is_alphanumeric()).map(str::to_lowercase)
}

#[test]
fn a_meaningless_file_name_is_found() {
    for path in
        ["crates/a/src/run_manager.rs", "crates/a/src/utils.rs", "scripts/common.sh", "a/services/b.rs"]
    {
        assert!(is_meaningless(path), "{path}");
    }
    for path in ["crates/a/src/run.rs", "docs/utilities-bill.md", "packaging/holdpoint.service"] {
        assert!(!is_meaningless(path), "{path}");
    }
}

#[test]
fn working_notes_are_found() {
    for path in
        ["STATUS.md", "docs/plan.md", "docs/todo.md", "docs/session-notes.md", "crates/a/PROGRESS.txt"]
    {
        assert!(is_working_note(path), "{path}");
    }
    for path in ["README.md", "docs/workflows.md", "crates/a/src/status.rs", "docs/planning-approvals.md"] {
        assert!(!is_working_note(path), "{path}");
    }
}
