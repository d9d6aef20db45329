//! Rules about the modules of the engine: each module imports only the modules that are listed for it, and each facet
//! has at most 15 public methods.

use std::collections::{BTreeMap, BTreeSet};

use crate::code::code;
use crate::tree::{File, rust_under};

const ENGINE: &str = "crates/holdpoint-engine/src/";
const METHODS_MAX: usize = 15;

/// The modules that each module of the engine may import. A module that is not listed imports none. `engine`, `worker`,
/// `lib` and `extension` may import any module.
const IMPORTS: [(&str, &[&str]); 21] = [
    ("approval_check", &["context", "nodes", "permitted_effects"]),
    ("batched_reads", &["store"]),
    ("bus", &["peers", "store", "work_signal"]),
    (
        "committer",
        &["bus", "error", "feed", "local_handoff", "metrics", "peers", "run_cache", "store", "webhooks"],
    ),
    ("context", &["approval_check", "engine", "error", "trace", "worker"]),
    ("draft", &["committer", "context", "engine", "nodes"]),
    ("error", &["engine", "outgoing", "seal", "store"]),
    ("local_handoff", &["committer", "work_signal"]),
    ("mailbox", &["committer", "engine", "error", "store"]),
    ("metrics", &["committer"]),
    ("nodes", &["approval_check", "context", "engine", "outgoing", "permitted_effects"]),
    ("outgoing", &[]),
    ("peers", &["bus", "store", "webhooks"]),
    ("permitted_effects", &["approval_check", "nodes"]),
    ("recent_commits", &["committer", "store"]),
    ("run_cache", &["recent_commits"]),
    ("run_end", &["bus", "context", "engine"]),
    ("store", &["committer", "error", "location", "mailbox"]),
    ("webhooks", &["committer", "engine", "error", "outgoing", "store"]),
    ("work_signal", &["committer", "store"]),
    ("workflow_registry", &["error", "store"]),
];
const ABOVE: [&str; 4] = ["engine", "worker", "lib", "extension"];

#[test]
fn modules_of_the_engine_import_only_the_listed_modules() {
    let allowed: BTreeMap<_, BTreeSet<_>> =
        IMPORTS.into_iter().map(|(module, names)| (module, names.iter().copied().collect())).collect();
    let mut wrong = Vec::new();
    for file in rust_under(&[ENGINE]) {
        let module = module_of(&file.path);
        if ABOVE.contains(&module) || file.path.ends_with("tests.rs") {
            continue;
        }
        let none = BTreeSet::new();
        let listed = allowed.get(module).unwrap_or(&none);
        let imported = imports(&file.text);
        let others = imported.iter().filter(|name| *name != module && !listed.contains(name.as_str()));
        wrong.extend(others.map(|name| format!("{}: `{module}` must not import `{name}`", file.path)));
    }
    assert_eq!(wrong, Vec::<String>::new());
}

#[test]
fn every_listed_import_exists() {
    let files = rust_under(&[ENGINE]);
    for (module, names) in IMPORTS {
        let own = files.iter().filter(|file| module_of(&file.path) == module);
        let imported: BTreeSet<String> = own.flat_map(|file| imports(&file.text)).collect();
        let unused: Vec<_> = names.iter().filter(|name| !imported.contains(**name)).collect();
        assert!(unused.is_empty(), "`{module}` no longer imports {unused:?}: remove the entries");
    }
}

#[test]
fn no_facet_has_more_than_15_public_methods() {
    let mut methods = BTreeMap::<String, Vec<String>>::new();
    for file in rust_under(&[
        "crates/holdpoint-engine/src/",
        "crates/holdpoint-agents/src/",
        "crates/holdpoint-providers/src/",
    ]) {
        for (facet, method) in facet_methods(&file) {
            methods.entry(facet).or_default().push(method);
        }
    }
    for name in ["Runs", "Interrupts", "Grants", "Holds", "Webhooks", "Keys", "Threads", "Agents", "Graphs"] {
        assert!(methods.contains_key(name), "the facet {name} has no methods; has it moved?");
    }
    let wide: Vec<_> = methods.iter().filter(|(_, names)| names.len() > METHODS_MAX).collect();
    assert!(wide.is_empty(), "split these facets: {wide:?}");
}

/// Returns the top-level module of a file of the engine.
fn module_of(path: &str) -> &str {
    path.trim_start_matches(ENGINE).split(['/', '.']).next().unwrap_or_default()
}

/// Returns the modules of the crate that a file names. Tests inside of the file do not count.
fn imports(text: &str) -> BTreeSet<String> {
    let shipped = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
    let code = code(shipped);
    let mut found = BTreeSet::new();
    for (at, _) in code.match_indices("crate::") {
        let rest = &code[at + "crate::".len()..];
        let names: Vec<&str> = match rest.strip_prefix('{') {
            Some(list) => list.split('}').next().unwrap_or_default().split(',').collect(),
            None => vec![rest],
        };
        let first = |name: &str| {
            let name = name.trim_start();
            let end = name.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(name.len());
            name[..end].to_owned()
        };
        found.extend(
            names.into_iter().map(first).map(|name| if name == "Error" { "error".to_owned() } else { name }),
        );
    }
    found.retain(|name| name.starts_with(|first: char| first.is_ascii_lowercase()));
    found
}

/// Returns the public methods of types that borrow the engine, and of the engine and the mailbox themselves. Hidden
/// methods are for tests and do not count.
fn facet_methods(file: &File) -> Vec<(String, String)> {
    let (mut found, mut facet, mut is_hidden) = (Vec::new(), None, false);
    for line in file.text.lines() {
        if let Some(rest) = line.strip_prefix("impl") {
            let name = rest.trim_start_matches("<'e>").trim().trim_end_matches(" {");
            let borrowed = name.strip_suffix("<'_>").or_else(|| name.strip_suffix("<'e>"));
            facet =
                borrowed.or(["Engine", "Mailbox"].into_iter().find(|own| *own == name)).map(str::to_owned);
        }
        is_hidden |= line.trim() == "#[doc(hidden)]";
        let method = line.strip_prefix("    pub async fn ").or_else(|| line.strip_prefix("    pub fn "));
        if let (Some(facet), Some(method)) = (&facet, method) {
            let name = method.split(['(', '<']).next().unwrap_or_default();
            if !std::mem::take(&mut is_hidden) {
                found.push((facet.clone(), name.to_owned()));
            }
        }
    }
    found
}

#[test]
fn the_rules_find_what_they_forbid() {
    assert_eq!(module_of("crates/holdpoint-engine/src/store/runs.rs"), "store");
    let found =
        imports("use crate::store::{self, Row};\nuse crate::{bus, peers::Peers};\nfn f() -> crate::Error {}");
    assert_eq!(found.into_iter().collect::<Vec<_>>(), ["bus", "error", "peers", "store"]);
    let text =
        "impl Runs<'_> {\n    pub async fn get(self) {}\n    #[doc(hidden)]\n    pub fn plans(self) {}\n}\n";
    let file = File { path: "a.rs".to_owned(), text: text.to_owned() };
    assert_eq!(facet_methods(&file), [("Runs".to_owned(), "get".to_owned())]);
}
