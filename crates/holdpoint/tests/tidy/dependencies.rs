//! Rules about dependencies: crates depend in one direction, the core is pure, SQL is in the store only, and protocols
//! do not import each other.

use crate::code::{code, named_after, numbered, words};
use crate::tree::{Violation, assert_none, files, manifest, rust_under};

const CORE: &str = "crates/holdpoint-core/";
const ENGINE: &str = "crates/holdpoint-engine/";
const EXTENSIONS: [&str; 3] =
    ["crates/holdpoint-agents/", "crates/holdpoint-providers/", "crates/holdpoint-samples/"];
const SERVER: &str = "crates/holdpoint/";
const STORE: &str = "crates/holdpoint-engine/src/store";
const OUTGOING: &str = "crates/holdpoint-engine/src/outgoing";
const PROTOCOLS: [&str; 8] = ["openwop", "agents", "agui", "chat", "holds", "inbox", "mailbox", "admin"];

#[test]
fn only_the_server_serves_http() {
    let serving = ["axum", "tower", "clap"];
    let below = [&[CORE, ENGINE], &EXTENSIONS[..]].concat();
    assert_none(&rust_under(&below), |file| crates_used(&file.text, &serving));
    assert_eq!(forbidden(&manifest("holdpoint-engine"), &serving), [""; 0]);
}

#[test]
fn the_command_line_does_not_depend_on_the_engine_or_the_server() {
    let server_parts = ["axum", "holdpoint-engine", "hyper", "rusqlite", "tokio-postgres"];
    assert_eq!(forbidden(&manifest("holdpoint-cli"), &server_parts), [""; 0]);
    assert_eq!(forbidden(&manifest("holdpoint-client"), &["clap", "holdpoint-core"]), [""; 0]);
}

#[test]
fn only_the_outgoing_module_uses_an_http_client() {
    let mut files = rust_under(&[&[CORE, ENGINE], &EXTENSIONS[..]].concat());
    files.retain(|file| !file.path.starts_with(OUTGOING));
    assert_none(&files, |file| crates_used(&file.text, &["hyper", "http_body", "ureq", "reqwest"]));
}

#[test]
fn only_the_store_uses_the_database_driver() {
    let mut files = rust_under(&[&[CORE, ENGINE, SERVER], &EXTENSIONS[..]].concat());
    files.retain(|file| !file.path.starts_with(STORE) && !is_test(&file.path));
    assert_none(&files, |file| crates_used(&file.text, &["rusqlite", "tokio_postgres"]));
    assert_eq!(forbidden(&manifest("holdpoint"), &["rusqlite", "tokio-postgres"]), [""; 0]);
}

#[test]
fn sql_is_written_in_the_store_only() {
    let mut files = rust_under(&[&[CORE, ENGINE, SERVER], &EXTENSIONS[..]].concat());
    files.retain(|file| !file.path.starts_with(STORE) && !is_test(&file.path));
    assert_none(&files, |file| sql(&file.text));
}

#[test]
fn the_core_depends_on_an_allow_list_only() {
    let allowed = [
        "croner",
        "holdpoint-ids",
        "icu_normalizer",
        "icu_properties",
        "jiff",
        "jsonschema",
        "regex",
        "serde",
        "serde_json",
        "serde_with",
        "sha2",
        "thiserror",
    ];
    assert_eq!(not_allowed(&manifest("holdpoint-core"), &allowed), [""; 0]);
}

#[test]
fn the_core_uses_no_clock_no_randomness_and_no_io() {
    assert_none(&rust_under(&["crates/holdpoint-core/src/"]), |file| impure(&file.text));
}

#[test]
fn dependencies_point_one_way() {
    for (name, below) in [
        ("holdpoint-ids", &[][..]),
        ("holdpoint-api", &["holdpoint-ids"]),
        ("holdpoint-core", &["holdpoint-ids"]),
        ("holdpoint-engine", &["holdpoint-core"]),
        ("holdpoint-agents", &["holdpoint-core", "holdpoint-engine"]),
        ("holdpoint-providers", &["holdpoint-core", "holdpoint-engine"]),
        ("holdpoint-samples", &["holdpoint-agents", "holdpoint-core", "holdpoint-engine"]),
        ("holdpoint-client", &["holdpoint-api"]),
        ("holdpoint-cli", &["holdpoint-api", "holdpoint-client", "holdpoint-core"]),
    ] {
        assert_eq!(forbidden(&manifest(name), &["holdpoint"]), below, "{name} depends on a crate above it");
    }
}

#[test]
fn no_protocol_imports_another() {
    let mut files = files();
    files.retain(|file| file.has_extension(&["rs"]) && protocol_of(&file.path).is_some());
    for protocol in PROTOCOLS {
        let exists = files.iter().any(|file| protocol_of(&file.path) == Some(protocol));
        assert!(exists, "`{protocol}` of PROTOCOLS has no file; has a folder moved?");
    }
    assert_none(&files, |file| other_protocols(protocol_of(&file.path).unwrap_or_default(), &file.text));
}

/// Files of the server that may use `json!`: the OpenAPI document itself, and data for tests.
const JSON_MACRO_ALLOWED: [&str; 3] =
    ["openapi", "agui/test_runs.rs", "openwop/events/many_readers_tests.rs"];

#[test]
fn the_server_builds_json_from_types() {
    for allowed in JSON_MACRO_ALLOWED {
        rust_under(&[&format!("crates/holdpoint/src/{allowed}")]);
    }
    let mut files = rust_under(&["crates/holdpoint/src/"]);
    files.retain(|file| {
        let name = file.path.trim_start_matches("crates/holdpoint/src/");
        !is_test(name) && !JSON_MACRO_ALLOWED.iter().any(|start| name.starts_with(start))
    });
    assert_none(&files, |file| json_macros(&file.text));
}

fn json_macros(text: &str) -> Vec<Violation> {
    let shipped = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
    let code = code(shipped);
    let used = numbered(&code).filter(|(_, line)| line.contains("json!"));
    used.map(|(line, _)| (line, "write the document as a type of holdpoint-api".to_owned())).collect()
}

/// Returns the protocol to which a file belongs: `chat.rs` and the files of the folder `chat` belong to `chat`.
fn protocol_of(path: &str) -> Option<&str> {
    let name = path.strip_prefix("crates/holdpoint/src/")?.split(['/', '.']).next()?;
    PROTOCOLS.contains(&name).then_some(name)
}

fn is_test(path: &str) -> bool {
    path.split('/').any(|part| part == "tests" || part == "tests.rs")
}

/// Finds uses of these crates and of crates with the same prefix: `tower` includes `tower_http`.
fn crates_used(text: &str, crates: &[&str]) -> Vec<Violation> {
    let code = code(text);
    let used = words(&code).filter(|(_, word)| crates.iter().any(|name| is_of_family(word, name)));
    used.map(|(line, word)| (line, format!("`{word}` must not be used here"))).collect()
}

fn is_of_family(found: &str, name: &str) -> bool {
    found.strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest.starts_with(['_', '-']))
}

fn other_protocols(own: &str, text: &str) -> Vec<Violation> {
    let code = code(text);
    let named = named_after(&code, "crate::").into_iter();
    let others = named.filter(|(_, name)| *name != own && PROTOCOLS.contains(name));
    others.map(|(line, name)| (line, format!("the protocol `{own}` must not import `{name}`"))).collect()
}

fn impure(text: &str) -> Vec<Violation> {
    let words_forbidden = ["SystemTime", "Instant", "tokio", "rand", "getrandom", "uuid", "async", "await"];
    let std_forbidden = ["fs", "net", "thread", "env", "process"];
    let code = code(text);
    let mut found: Vec<Violation> = words(&code)
        .filter(|(_, word)| words_forbidden.contains(word))
        .map(|(line, word)| (line, format!("`{word}` must not be used in the core")))
        .collect();
    let named = named_after(&code, "std::").into_iter().filter(|(_, name)| std_forbidden.contains(name));
    found.extend(named.map(|(line, name)| (line, format!("`std::{name}` must not be used in the core"))));
    found
}

/// Finds string literals that begin with an SQL statement. The second word counts too: `"DELETE /v1/keys"` is not SQL.
fn sql(text: &str) -> Vec<Violation> {
    let mut found = Vec::new();
    for (at, _) in text.match_indices('"') {
        let literal = text[at + 1..].trim_start_matches(|c: char| c.is_whitespace() || c == '\\');
        let mut words = literal.split(|c: char| !c.is_alphanumeric() && !"_*$(/\"".contains(c));
        let mut word = || words.by_ref().find(|word| !word.is_empty()).unwrap_or_default();
        let (first, second, third) = (word(), word(), word());
        let is_statement = match first {
            "SELECT" => !second.is_empty(),
            "INSERT" => ["INTO", "OR"].contains(&second),
            "UPDATE" => third == "SET",
            "DELETE" => second == "FROM",
            "CREATE" => ["TABLE", "INDEX", "UNIQUE", "VIEW", "TRIGGER", "TEMPORARY"].contains(&second),
            "DROP" | "ALTER" => ["TABLE", "INDEX", "VIEW", "TRIGGER"].contains(&second),
            "PRAGMA" => !second.is_empty(),
            _ => false,
        };
        if is_statement {
            let line = text[..at].matches('\n').count() + 1;
            found.push((line, format!("`{first} {} …` belongs in the store", second.trim_matches('"'))));
        }
    }
    found
}

fn forbidden(manifest: &toml::Table, families: &[&str]) -> Vec<String> {
    let mut found = dependencies(manifest);
    found.retain(|name| families.iter().any(|family| is_of_family(name, family)));
    found
}

fn not_allowed(manifest: &toml::Table, allowed: &[&str]) -> Vec<String> {
    let mut found = dependencies(manifest);
    found.retain(|name| !allowed.contains(&name.as_str()));
    found
}

/// Returns the dependencies and build dependencies of a crate, for every target. Test dependencies are not restricted.
fn dependencies(manifest: &toml::Table) -> Vec<String> {
    let targets = manifest.get("target").and_then(toml::Value::as_table).into_iter().flatten();
    let tables = std::iter::once(manifest).chain(targets.filter_map(|(_, target)| target.as_table()));
    let sections = tables.flat_map(|table| [table.get("dependencies"), table.get("build-dependencies")]);
    let entries = sections.flatten().filter_map(toml::Value::as_table).flatten();
    entries.map(|(name, entry)| real_name(name, entry)).collect()
}

/// Returns the name of the package: `package` overrides the key of the entry.
fn real_name(name: &str, entry: &toml::Value) -> String {
    entry.get("package").and_then(toml::Value::as_str).unwrap_or(name).to_owned()
}

fn lines_of(violations: &[Violation]) -> Vec<usize> {
    violations.iter().map(|(line, _)| *line).collect()
}

#[test]
fn a_forbidden_crate_in_the_code_is_found() {
    let text = "use axum::Router;\n// axum\nlet a = \"axum\";\nuse tower_http::x;\nlet tower_of_babel = 1;\nlet flower = 2;";
    assert_eq!(lines_of(&crates_used(text, &["axum", "tower"])), [1, 4, 5]);
    assert_eq!(lines_of(&crates_used("fn a(db: &rusqlite::Connection) {}", &["rusqlite"])), [1]);
}

#[test]
fn a_forbidden_dependency_is_found_in_every_section_and_under_every_name() {
    let text = "[dependencies]\nserde = '1'\nweb = { package = 'axum', version = '1' }\n[build-dependencies]\nhyper-util = '1'\n\
                [target.'cfg(unix)'.dependencies]\nclap = '4'\n[dev-dependencies]\ntower = '1'\n";
    let manifest: toml::Table = text.parse().expect("a manifest");
    assert_eq!(forbidden(&manifest, &["axum", "hyper", "clap", "tower"]), ["axum", "hyper-util", "clap"]);
    assert_eq!(not_allowed(&manifest, &["serde"]), ["axum", "hyper-util", "clap"]);
}

#[test]
fn sql_outside_of_the_store_is_found() {
    for text in [
        "let a = \"SELECT 1\";",
        "x(\"INSERT INTO runs VALUES ($1)\")",
        "r#\"\n    UPDATE runs SET a = 1\"#",
        "\"\\\n   DELETE FROM runs\"",
        "\"CREATE TABLE runs (id TEXT)\"",
        "\"PRAGMA journal_mode = WAL\"",
    ] {
        assert_eq!(lines_of(&sql(text)), [1], "{text}");
    }
    for text in [
        "\"DELETE\"",
        "\"DELETE /v1/keys\"",
        "// SELECT 1",
        "\"Select one\"",
        "\"UPDATE\", a",
        "\"CREATE\" + b",
    ] {
        assert_eq!(lines_of(&sql(text)), [], "{text}");
    }
}

#[test]
fn an_impure_core_is_found() {
    for text in [
        "use std::time::{Duration, Instant};",
        "std::time::SystemTime::now()",
        "use std::fs;",
        "use std::{collections::BTreeMap, net::IpAddr};",
        "std::thread::spawn(f);",
        "std::env::var(name)",
        "tokio::spawn(f);",
        "rand::random()",
        "let id = uuid::Uuid::now_v7();",
        "pub async fn resolve() {}",
    ] {
        assert_eq!(lines_of(&impure(text)), [1], "{text}");
    }
    let pure = "//! No std::fs, no Instant.\nuse std::{collections::BTreeMap, fmt, time::Duration};\nlet random = \"rand\";";
    assert_eq!(lines_of(&impure(pure)), []);
}

#[test]
fn a_protocol_that_imports_another_is_found() {
    let text =
        "use crate::openwop::wire;\nuse crate::{auth, chat::translate};\nuse crate::error;\n// crate::agui\n";
    assert_eq!(lines_of(&other_protocols("openwop", text)), [2]);
    assert_eq!(lines_of(&other_protocols("agui", text)), [1, 2]);
    assert_eq!(protocol_of("crates/holdpoint/src/chat/wire.rs"), Some("chat"));
    assert_eq!(protocol_of("crates/holdpoint/src/chat.rs"), Some("chat"));
    assert_eq!(protocol_of("crates/holdpoint-cli/src/chat.rs"), None);
}

#[test]
fn a_use_of_the_json_macro_is_found() {
    let text = "fn a() {\n    json!(1);\n}\n// json!\n#[cfg(test)]\nmod tests {\n    json!(2);\n}\n";
    assert_eq!(lines_of(&json_macros(text)), [2]);
}
