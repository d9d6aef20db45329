//! Rules about the names of files and folders.

use crate::tree::files;

#[test]
fn no_file_has_a_name_that_says_nothing() {
    let found: Vec<_> = files().into_iter().map(|file| file.path).filter(|path| says_nothing(path)).collect();
    assert!(found.is_empty(), "name these after what lives in them:\n{}", found.join("\n"));
}

#[test]
fn no_working_paper_is_in_the_tree() {
    let found: Vec<_> =
        files().into_iter().map(|file| file.path).filter(|path| is_working_paper(path)).collect();
    assert!(found.is_empty(), "plans and notes belong into issues and commits:\n{}", found.join("\n"));
}

fn says_nothing(path: &str) -> bool {
    let empty = ["manager", "helper", "util", "common", "service", "coordinator", "processor"];
    // The names of systemd units end so.
    let path = path.strip_suffix(".service").unwrap_or(path);
    words(path).any(|word| empty.contains(&word.strip_suffix('s').unwrap_or(&word)))
}

fn is_working_paper(path: &str) -> bool {
    let papers = ["status", "plan", "todo", "session", "note", "progress", "handoff", "scratch", "worklog"];
    let Some((stem, "md" | "txt")) = path.rsplit('/').next().and_then(|name| name.rsplit_once('.')) else {
        return false;
    };
    words(stem).any(|word| papers.contains(&word.as_str()) || papers.contains(&word.trim_end_matches('s')))
}

/// The words a path is made of, in lower case.
fn words(path: &str) -> impl Iterator<Item = String> {
    path.split(|c: char| !c.is_alphanumeric()).map(str::to_lowercase)
}

#[test]
fn a_name_that_says_nothing_is_found() {
    for path in
        ["crates/a/src/run_manager.rs", "crates/a/src/utils.rs", "scripts/common.sh", "a/services/b.rs"]
    {
        assert!(says_nothing(path), "{path}");
    }
    for path in ["crates/a/src/run.rs", "docs/utilities-bill.md", "packaging/holdpoint.service"] {
        assert!(!says_nothing(path), "{path}");
    }
}

#[test]
fn a_working_paper_is_found() {
    for path in
        ["STATUS.md", "docs/plan.md", "docs/todo.md", "docs/session-notes.md", "crates/a/PROGRESS.txt"]
    {
        assert!(is_working_paper(path), "{path}");
    }
    for path in ["README.md", "docs/workflows.md", "crates/a/src/status.rs", "docs/planning-approvals.md"] {
        assert!(!is_working_paper(path), "{path}");
    }
}
