//! Reads the files of the source tree and reports violations. Contains no rules.

use std::fs;
use std::path::{Path, PathBuf};

/// One file. Its path is relative to the root of the repository and uses `/` on every platform.
pub(crate) struct File {
    pub(crate) path: String,
    pub(crate) text: String,
}

impl File {
    pub(crate) fn has_extension(&self, extensions: &[&str]) -> bool {
        Path::new(&self.path)
            .extension()
            .is_some_and(|found| extensions.iter().any(|wanted| found == *wanted))
    }
}

/// The line of a violation and its message.
pub(crate) type Violation = (usize, String);

/// Returns every text file of the source tree. Build output and other generated folders are excluded.
pub(crate) fn files() -> Vec<File> {
    let mut paths = Vec::new();
    collect(&root(), &mut paths);
    paths.sort();
    let files: Vec<File> = paths.iter().filter_map(|path| read(path)).collect();
    assert!(files.len() > 10, "found no source tree at {}", root().display());
    files
}

/// Returns the Rust files under one of these paths. Panics if there is none: the rule would check no file.
pub(crate) fn rust_under(prefixes: &[&str]) -> Vec<File> {
    let mut files = files();
    files.retain(|file| {
        file.has_extension(&["rs"]) && prefixes.iter().any(|prefix| file.path.starts_with(prefix))
    });
    assert!(!files.is_empty(), "no Rust files under {prefixes:?}; has a folder moved?");
    files
}

pub(crate) fn manifest(name: &str) -> toml::Table {
    let path = root().join("crates").join(name).join("Cargo.toml");
    let text = fs::read_to_string(&path).expect("every crate has a manifest");
    text.parse().expect("cargo has read this manifest already")
}

/// Panics with one line `path:line: message` for each violation.
#[track_caller]
pub(crate) fn assert_none(files: &[File], violations: impl Fn(&File) -> Vec<Violation>) {
    let mut found = Vec::new();
    for file in files {
        let lines =
            violations(file).into_iter().map(|(line, message)| format!("{}:{line}: {message}", file.path));
        found.extend(lines);
    }
    assert!(found.is_empty(), "\n{}\n", found.join("\n"));
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

// Skips hidden folders: they belong to tools or contain no source.
fn collect(folder: &Path, paths: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("a readable folder") {
        let path = entry.expect("a readable entry").path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if name.starts_with('.') || ["target", "holdpoint-data", "node_modules"].contains(&name.as_str()) {
            continue;
        }
        if path.is_dir() { collect(&path, paths) } else { paths.push(path) }
    }
}

fn read(path: &Path) -> Option<File> {
    let text = fs::read_to_string(path).ok()?;
    let path = path.strip_prefix(root()).expect("below the root").to_string_lossy().replace('\\', "/");
    Some(File { path, text })
}
