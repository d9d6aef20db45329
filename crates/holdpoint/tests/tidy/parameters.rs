//! Rule about parameters: no boolean, because a call does not show its meaning, and no tuple, because it hides names.

use crate::code::{code, list_items, signatures, without_test_items};
use crate::tree::{File, Violation, assert_none, rust_under};

/// Functions whose parameter is a boolean by nature, with the reason.
const ALLOWED: [(&str, &str, &str); 4] = [
    ("crates/holdpoint-engine/src/engine/options.rs", "conversations", "stores a setting"),
    ("crates/holdpoint-engine/src/nodes/conversations.rs", "set_conversations", "stores the same setting"),
    ("crates/holdpoint-ids/src/strict.rs", "visit_bool", "is a method of a trait of serde"),
    ("crates/holdpoint/src/telemetry/otlp.rs", "flag", "is the value of an attribute"),
];

#[test]
fn no_parameter_is_a_boolean_or_a_tuple() {
    assert_none(&shipped_files(), |file| {
        let mut found = unclear_parameters(&file.text);
        found
            .retain(|found| !ALLOWED.iter().any(|(path, name, _)| *path == file.path && *name == found.name));
        found.into_iter().map(UnclearParameter::violation).collect()
    });
}

#[test]
fn every_allowed_parameter_exists() {
    let files = shipped_files();
    for (path, name, _) in ALLOWED {
        let file = files.iter().find(|file| file.path == path);
        let is_used =
            file.is_some_and(|file| unclear_parameters(&file.text).iter().any(|one| one.name == name));
        assert!(is_used, "{path}: `{name}` has no boolean or tuple parameter: remove the entry");
    }
}

/// A parameter that is a boolean or a tuple, and its function.
struct UnclearParameter {
    line: usize,
    name: String,
    parameter: String,
    remedy: &'static str,
}

impl UnclearParameter {
    fn violation(self) -> Violation {
        let Self { line, name, parameter, remedy } = self;
        (line, format!("`{name}` has the parameter `{parameter}`: {remedy}"))
    }
}

/// Returns the files of the crates that are not compiled for tests only.
fn shipped_files() -> Vec<File> {
    let mut files = rust_under(&["crates/"]);
    files.retain(|file| file.path.split('/').nth(2) == Some("src"));
    let tests: Vec<String> = files.iter().flat_map(test_modules).collect();
    let is_test = |path: &str| {
        let of = |module: &String| path.strip_prefix(module.as_str());
        tests.iter().filter_map(of).any(|rest| rest == ".rs" || rest.starts_with('/'))
    };
    files.retain(|file| !is_test(&file.path));
    files
}

/// Returns the paths, without the extension, of the modules that a file declares for tests only.
fn test_modules(file: &File) -> Vec<String> {
    let stem = file.path.trim_end_matches(".rs");
    let folder = ["/lib", "/main"].iter().find_map(|root| stem.strip_suffix(root)).unwrap_or(stem);
    let declared = file.text.split("#[cfg(test)]\n").skip(1).filter_map(|rest| rest.lines().next());
    let names = declared.filter_map(|line| line.trim().strip_suffix(';')?.split_once("mod "));
    names.map(|(_, name)| format!("{folder}/{name}")).collect()
}

fn unclear_parameters(text: &str) -> Vec<UnclearParameter> {
    let shipped = without_test_items(&code(text));
    let mut found = Vec::new();
    for signature in signatures(&shipped) {
        for parameter in signature.parameters {
            if let Some(remedy) = remedy(parameter) {
                let parameter = parameter.split_whitespace().collect::<Vec<_>>().join(" ");
                let (line, name) = (signature.line, signature.name.to_owned());
                found.push(UnclearParameter { line, name, parameter, remedy });
            }
        }
    }
    found
}

/// Returns the remedy for a parameter that is a boolean or a tuple, or a reference to one.
fn remedy(parameter: &str) -> Option<&'static str> {
    let pattern = if parameter.starts_with('(') { list_items(parameter).1 } else { 0 };
    let (_, kind) = parameter[pattern..].split_once(':')?;
    let kind = kind.trim_start().trim_start_matches('&');
    let kind = match kind.strip_prefix('\'').and_then(|lifetime| lifetime.split_once(' ')) {
        Some((_, kind)) => kind,
        None => kind,
    };
    let kind = kind.strip_prefix("mut ").unwrap_or(kind);
    if kind == "bool" {
        return Some("use an enum with two named variants, or two functions");
    }
    // A type in parentheses, such as `&(dyn A + B)`, is not a tuple.
    let is_tuple = kind.starts_with('(') && list_items(kind).0.len() > 1;
    is_tuple.then_some("use separate parameters, or a struct with named fields")
}

#[test]
fn boolean_and_tuple_parameters_are_found() {
    let text = "fn a(x: bool) {}\nfn b<F: Fn(u8) -> bool>(\n    f: F,\n    (x, y): (u8, &str),\n) {}\n\
        trait T {\n    fn c(&self, of: &'a mut (u8, u8));\n    fn d(x: &bool);\n}\n";
    let found: Vec<_> =
        unclear_parameters(text).into_iter().map(|one| (one.line, one.name, one.parameter)).collect();
    let expected = [
        (1, "a", "x: bool"),
        (2, "b", "(x, y): (u8, &str)"),
        (7, "c", "of: &'a mut (u8, u8)"),
        (8, "d", "x: &bool"),
    ];
    let expected = expected.map(|(line, name, parameter)| (line, name.to_owned(), parameter.to_owned()));
    assert_eq!(found, expected);
}

#[test]
fn other_parameters_and_tests_are_not_found() {
    let text = "fn a(x: Option<bool>, y: &(impl A + B), z: &[(u8, u8)], f: impl Fn(bool, u8) -> bool) {}\n\
        fn b(Path((x, y)): Path<(u8, u8)>, z: ()) -> bool { |x: bool| x }\n\
        #[cfg(test)]\nfn c(x: bool) {}\n#[cfg(test)]\nmod tests {\n    fn d(x: bool) {}\n}\nfn e(x: bool) {}\n";
    let found: Vec<_> = unclear_parameters(text).into_iter().map(|one| (one.line, one.name)).collect();
    assert_eq!(found, [(9, "e".to_owned())]);
}

#[test]
fn modules_for_tests_are_found() {
    let file = |path: &str| File {
        path: path.to_owned(),
        text: "mod a;\n#[cfg(test)]\nmod b;\n#[cfg(test)]\npub(crate) mod c;\n#[cfg(test)]\nmod d {}\n"
            .to_owned(),
    };
    assert_eq!(test_modules(&file("crates/x/src/lib.rs")), ["crates/x/src/b", "crates/x/src/c"]);
    assert_eq!(test_modules(&file("crates/x/src/e.rs")), ["crates/x/src/e/b", "crates/x/src/e/c"]);
}
