//! Rule about handlers: a handler authenticates, parses, calls the engine and responds, in a few lines. The handlers are
//! those that the tables of routes name.

use crate::code::{code, functions};
use crate::tree::{File, rust_under};

/// The maximum number of lines of code in the body of a handler. Comments do not count.
const HANDLER_LINES_MAX: usize = 10;
const METHODS: [&str; 6] = ["get", "get_public", "post", "post_public", "put", "delete"];

#[test]
fn no_handler_is_longer_than_10_lines() {
    let files: Vec<File> = rust_under(&["crates/holdpoint/src/"]);
    let files: Vec<File> =
        files.into_iter().map(|file| File { text: code(&file.text), path: file.path }).collect();
    let mut long = Vec::new();
    let mut count = 0;
    for table in &files {
        for handler in handlers(&table.text) {
            let (path, lines) = measure(&files, &table.path, handler);
            count += 1;
            if lines > HANDLER_LINES_MAX {
                long.push(format!(
                    "{path}: `{handler}` has {lines} lines, at most {HANDLER_LINES_MAX} are allowed"
                ));
            }
        }
    }
    assert!(count > 50, "found only {count} handlers; have the tables of routes moved?");
    assert!(long.is_empty(), "move code into named functions:\n{}", long.join("\n"));
}

/// Returns the paths of the handlers in a table of routes, such as `runs::create`. Routes in tests are ignored.
fn handlers(code: &str) -> Vec<&str> {
    let code = code.split("mod tests {").next().unwrap_or_default();
    let calls = code.split("Route::").skip(1).filter_map(|call| call.split_once('('));
    let calls = calls.filter(|(method, _)| METHODS.contains(method));
    // The path and the operation id are literals, which are blank here.
    calls.filter_map(|(_, arguments)| arguments.split([',', ')']).nth(2)).map(str::trim).collect()
}

/// Returns the file of a handler and the number of lines of its body. A table in `a/routes.rs` names handlers of `a.rs`
/// and of the modules in `a`.
fn measure<'a>(files: &'a [File], table: &str, handler: &str) -> (&'a str, usize) {
    let folder = table.rsplit_once('/').map_or("", |(folder, _)| folder);
    let candidates = match handler.rsplit_once("::") {
        Some((module, _)) => vec![format!("{folder}/{}.rs", module.replace("::", "/"))],
        None => vec![table.to_owned(), format!("{folder}.rs")],
    };
    let name = handler.rsplit("::").next().unwrap_or_default();
    let found = files.iter().filter(|file| candidates.contains(&file.path)).find_map(|file| {
        let mut functions = functions(&file.text).into_iter();
        let function = functions.find(|function| function.name == name)?;
        Some((file.path.as_str(), body_lines(function.body)))
    });
    found.unwrap_or_else(|| panic!("{table}: no function `{handler}` in {candidates:?}"))
}

fn body_lines(body: &str) -> usize {
    body.lines().filter(|line| !line.trim().is_empty()).count()
}

#[test]
fn handlers_of_a_table_are_found_and_measured() {
    let sample = |path: &str, text: &str| File { path: path.to_owned(), text: code(text) };
    let files = [
        sample(
            "src/a/routes.rs",
            "Route::get(\"/b\", \"b\", b::c::show),\nRoute::post_public(\n    \"/b\",\n    \"b\",\n    list,\n)\n.body()\n\
             mod tests {\n    Route::get(\"/d\", \"d\", d) }",
        ),
        sample(
            "src/a/b/c.rs",
            "async fn show(\n    A { x }: A,\n) -> X {\n    // One.\n    one();\n\n    two()\n}\n",
        ),
        sample("src/a.rs", "async fn list() {\n    one(\n        1,\n    )\n}\n"),
    ];
    let table = &files[0];
    assert_eq!(handlers(&table.text), ["b::c::show", "list"]);
    assert_eq!(measure(&files, &table.path, "b::c::show"), ("src/a/b/c.rs", 2));
    assert_eq!(measure(&files, &table.path, "list"), ("src/a.rs", 3));
}
