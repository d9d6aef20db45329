//! Rules about the requirements of OpenWOP: each test that the table in `docs/protocols/openwop.md` names exists, and
//! signatures are compared in constant time, which no test can observe from outside.

use crate::tree::{File, Violation, assert_none, files, rust_under};

const DOCUMENT: &str = "docs/protocols/openwop.md";
const HEADING: &str = "## Every MUST and SHOULD of the interrupt text, and its test";
/// The entry of rows that bind clients instead of the server, in place of a test.
const BINDS_CLIENTS: &str = "binds clients";

#[test]
fn every_test_that_the_table_of_requirements_names_exists() {
    let files = files();
    let document: Vec<File> = files.iter().filter(|file| file.path == DOCUMENT).map(copy).collect();
    assert_eq!(document.len(), 1, "{DOCUMENT} has moved");
    assert!(rows(&document[0].text).count() > 30, "the table has fewer rows than expected");
    assert_none(&document, |document| untested(&document.text, &files));
}

#[test]
fn the_signature_of_a_link_is_compared_in_constant_time() {
    let token = rust_under(&["crates/holdpoint/src/links/token.rs"]);
    assert!(token[0].text.contains(".verify_slice("), "`verify_slice` compares in constant time");
    assert_none(&token, |file| compares_signatures(&file.text));
}

fn copy(file: &File) -> File {
    File { path: file.path.clone(), text: file.text.clone() }
}

/// Returns the rows of the table below the heading with their line numbers. The cells of a row are the requirement, its
/// strength and its tests.
fn rows(text: &str) -> impl Iterator<Item = (usize, Vec<&str>)> {
    let lines = text.lines().enumerate().skip_while(|(_, line)| *line != HEADING).skip(1);
    let section = lines.take_while(|(_, line)| !line.starts_with("## "));
    let rows = section.filter(|(_, line)| line.starts_with("| ") && !line.starts_with("| ---"));
    // The first row is the header of the table.
    rows.skip(1).map(|(at, line)| (at + 1, line.trim_matches('|').split(" | ").map(str::trim).collect()))
}

fn untested(text: &str, files: &[File]) -> Vec<Violation> {
    let mut found = Vec::new();
    for (line, cells) in rows(text) {
        let [_, strength, proof] = cells[..] else {
            found.push((line, format!("{} cells instead of three", cells.len())));
            continue;
        };
        if !["MUST", "SHOULD", "stated"].contains(&strength) {
            found.push((line, format!("`{strength}` is neither MUST nor SHOULD nor stated")));
        }
        let names: Vec<&str> = proof.split('`').skip(1).step_by(2).collect();
        if names.is_empty() && proof != BINDS_CLIENTS {
            found.push((line, format!("names no test and is not `{BINDS_CLIENTS}`")));
        }
        let missing = names.into_iter().filter(|name| !exists(name, files));
        found.extend(missing.map(|name| (line, format!("there is no test `{name}`"))));
    }
    found
}

/// Returns true if a test exists. Its name is `crate/target module::name`; the target is `lib` or a folder of tests.
fn exists(name: &str, files: &[File]) -> bool {
    let Some(((package, target), path)) =
        name.split_once(' ').and_then(|(place, path)| Some((place.split_once('/')?, path)))
    else {
        return false;
    };
    let (module, test) = path.rsplit_once("::").unwrap_or(("main", path));
    let module = module.replace("::", "/");
    let folder = match target {
        "lib" => format!("crates/{package}/src"),
        _ => format!("crates/{package}/tests/{target}"),
    };
    // A file without a `mod` line is never compiled.
    let named = |file: &File| file.text.lines().any(|line| line == format!("mod {module};"));
    let root = files.iter().find(|file| file.path == format!("{folder}/main.rs"));
    if target != "lib" && module != "main" && !root.is_some_and(named) {
        return false;
    }
    // Tests of a module are in a file of their own or at the end of the file of the module.
    let inline = module.strip_suffix("/tests").unwrap_or(&module);
    let places = [format!("{folder}/{module}.rs"), format!("{folder}/{inline}.rs")];
    files.iter().any(|file| places.contains(&file.path) && has_test(&file.text, test))
}

/// Returns true if a text has this function with a test attribute or in the list of `on_both!`.
fn has_test(text: &str, name: &str) -> bool {
    let lines: Vec<&str> = text.lines().map(str::trim_start).collect();
    let Some(at) = lines.iter().position(|line| {
        let function = line.trim_start_matches("async ").strip_prefix("fn ");
        function.and_then(|rest| rest.strip_prefix(name)).is_some_and(|rest| rest.starts_with('('))
    }) else {
        return false;
    };
    let marked = at > 0 && (lines[at - 1] == "#[test]" || lines[at - 1].starts_with("#[tokio::test"));
    let listed = text.split_once("on_both!").and_then(|(_, rest)| rest.split_once(';'));
    marked
        || listed.is_some_and(|(list, _)| {
            list.split(|c: char| !c.is_alphanumeric() && c != '_').any(|one| one == name)
        })
}

fn compares_signatures(text: &str) -> Vec<Violation> {
    let lines = text.lines().enumerate();
    let compared = lines.filter(|(_, line)| {
        let words: Vec<&str> =
            line.split(|c: char| !c.is_alphanumeric() && c != '=' && c != '!' && c != '_').collect();
        words.iter().any(|word| ["==", "!="].contains(word))
            && words.iter().any(|word| word.contains("signature") || word.contains("mac"))
    });
    compared
        .map(|(at, _)| {
            (
                at + 1,
                "compare signatures with `verify_slice`: the duration of `==` depends on the data".to_owned(),
            )
        })
        .collect()
}

fn sample(path: &str, text: &str) -> File {
    File { path: path.to_owned(), text: text.to_owned() }
}

#[test]
fn a_test_that_does_not_exist_is_found() {
    let files = [
        sample(
            "crates/a/tests/t/m.rs",
            "on_both!(first);\nasync fn first(place: Place) {}\nfn not_a_test() {}",
        ),
        sample("crates/a/tests/t/main.rs", "mod m;\n#[test]\nfn second() {}"),
        sample("crates/a/tests/t/forgotten.rs", "#[test]\nfn fourth() {}"),
        sample("crates/a/src/x/y.rs", "mod tests {\n    #[test]\n    fn third() {}\n}"),
    ];
    let table = |rows: &[&str]| {
        format!(
            "{HEADING}\n\n| what | how | test |\n| --- | --- | --- |\n{}\n\n## Next\n| x |",
            rows.join("\n")
        )
    };
    let right = [
        "| one | MUST | `a/t m::first`, `a/t second` |",
        "| two | SHOULD | `a/lib x::y::tests::third` |",
        "| three | MUST | binds clients |",
    ];
    assert_eq!(untested(&table(&right), &files), []);
    for wrong in [
        "| one | MUST | `a/t m::missing` |",
        "| one | MUST | `a/t m::not_a_test` |",
        "| one | MUST | `a/t first` |",
        "| one | MUST | `a/t forgotten::fourth` |",
        "| one | MUST | `b/t m::first` |",
        "| one | MUST | `first` |",
        "| one | MUST | none |",
        "| one | MUST |  |",
        "| one | MAY | `a/t second` |",
        "| one | `a/t second` |",
    ] {
        let found = untested(&table(&[right[0], wrong]), &files);
        assert_eq!(found.iter().map(|(line, _)| *line).collect::<Vec<_>>(), [6], "{wrong}: {found:?}");
    }
}

#[test]
fn a_comparison_that_is_not_in_constant_time_is_found() {
    assert_eq!(compares_signatures("let ok = read.signature == expected;\n").len(), 1);
    assert_eq!(compares_signatures("if mac(key, text) != given {").len(), 1);
    assert_eq!(compares_signatures("mac(key, text).verify_slice(&read.signature).is_ok()").len(), 0);
    assert_eq!(compares_signatures("secret.kid == read.kid").len(), 0);
}
