//! Rules about the shape of files: length, module header, length of functions, no unfinished code.

use crate::code::{code, functions, numbered};
use crate::tree::{Violation, assert_none, files, rust_under};

const FILE_LINES_MAX: usize = 400;
const FUNCTION_LINES_MAX: usize = 70;

#[test]
fn no_file_is_longer_than_400_lines() {
    let mut files = files();
    files.retain(|file| {
        let script = file.path.starts_with("scripts/") && !file.path.contains('.');
        let generated = file.text.starts_with("//! Generated: ");
        !generated && (script || file.has_extension(&["rs", "js", "css", "py", "sh"]))
    });
    assert_none(&files, |file| too_long(&file.text));
}

#[test]
fn every_rust_file_has_a_module_header() {
    assert_none(&rust_under(&["crates/"]), |file| without_header(&file.text));
}

#[test]
fn no_function_is_longer_than_70_lines() {
    assert_none(&rust_under(&["crates/"]), |file| long_functions(&file.text));
}

#[test]
fn no_test_is_ignored_and_no_function_is_unimplemented() {
    assert_none(&rust_under(&["crates/"]), |file| unfinished(&file.text));
}

#[test]
fn todo_comments_name_an_issue() {
    let mut files = files();
    files.retain(|file| !file.path.ends_with(".lock"));
    assert_none(&files, |file| todo_without_issue(&file.text));
}

fn too_long(text: &str) -> Vec<Violation> {
    let lines = text.lines().count();
    let message = format!("{lines} lines, at most {FILE_LINES_MAX} are allowed: split it by meaning");
    if lines > FILE_LINES_MAX { vec![(lines, message)] } else { Vec::new() }
}

fn without_header(text: &str) -> Vec<Violation> {
    let header = text.strip_prefix("//!").and_then(|rest| rest.lines().next()).unwrap_or_default();
    if header.trim().is_empty() {
        return vec![(1, "must open with a `//!` header that describes the module".to_owned())];
    }
    Vec::new()
}

fn long_functions(text: &str) -> Vec<Violation> {
    let code = code(text);
    let long = functions(&code).into_iter().filter(|function| function.lines > FUNCTION_LINES_MAX);
    long.map(|function| {
        let (name, lines) = (function.name, function.lines);
        (function.line, format!("`{name}` has {lines} lines, at most {FUNCTION_LINES_MAX} are allowed"))
    })
    .collect()
}

fn unfinished(text: &str) -> Vec<Violation> {
    let code = code(text);
    let mut found = Vec::new();
    for (number, line) in numbered(&code) {
        let shapes = ["#[ignore", "todo!(", "unimplemented!("];
        let used = shapes.iter().filter(|shape| line.contains(**shape));
        found.extend(
            used.map(|shape| (number, format!("`{shape}` is not allowed: finish or remove the code"))),
        );
    }
    found
}

fn todo_without_issue(text: &str) -> Vec<Violation> {
    // Spelled in two halves, so that this file passes its own rule.
    let marks = [concat!("TO", "DO"), concat!("FIX", "ME")];
    let mut found = Vec::new();
    for (number, line) in numbered(text) {
        for mark in marks {
            let unnamed = line.match_indices(mark).any(|(at, _)| !names_an_issue(&line[at + mark.len()..]));
            if unnamed {
                found.push((number, format!("`{mark}` must name its issue: `{mark}(#12)`")));
            }
        }
    }
    found
}

fn names_an_issue(after: &str) -> bool {
    let Some((number, _)) = after.strip_prefix("(#").and_then(|rest| rest.split_once(')')) else {
        return false;
    };
    !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit())
}

fn lines_of(violations: &[Violation]) -> Vec<usize> {
    violations.iter().map(|(line, _)| *line).collect()
}

#[test]
fn a_file_that_is_too_long_is_found() {
    assert_eq!(lines_of(&too_long(&"x\n".repeat(401))), [401]);
    assert_eq!(lines_of(&too_long(&"x\n".repeat(400))), []);
}

#[test]
fn a_file_without_a_module_header_is_found() {
    for text in ["", "use std::fs;", "//!", "//! \nuse x;", "// A comment.", "\n//! Late."] {
        assert_eq!(lines_of(&without_header(text)), [1], "{text:?}");
    }
    assert_eq!(lines_of(&without_header("//! The module.\n")), []);
}

#[test]
fn a_function_that_is_too_long_is_found() {
    let function =
        |lines: usize| format!("fn a() {{\n{}}}\n\nfn b() {{}}\n", "    x(\"}\");\n".repeat(lines - 2));
    assert_eq!(lines_of(&long_functions(&function(71))), [1]);
    assert_eq!(lines_of(&long_functions(&function(70))), []);
}

#[test]
fn ignored_tests_and_unimplemented_functions_are_found() {
    let text =
        "#[test]\n#[ignore = \"slow\"]\nfn a() { todo!() }\nfn b() { unimplemented!(\"x\") } // todo!()\n";
    assert_eq!(lines_of(&unfinished(text)), [2, 3, 4]);
}

#[test]
fn a_todo_comment_without_an_issue_is_found() {
    let mark = concat!("TO", "DO");
    let text =
        format!("// {mark}: later\n// {mark}(#12): soon\n# {mark}(#)\n{mark}(ada)\n{mark}(#1) {mark}\n");
    assert_eq!(lines_of(&todo_without_issue(&text)), [1, 3, 4, 5]);
}
