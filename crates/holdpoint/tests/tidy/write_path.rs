//! Rules about `docs/internals/write-path.md`: it names existing functions and follows at most 30 calls.

use crate::tree::{File, Violation, assert_none, files};

const PAGE: &str = "docs/internals/write-path.md";
const HOPS_MAX: usize = 30;
/// The folders that the page abbreviates.
const FOLDERS: [(&str, &str); 3] = [
    ("server", "crates/holdpoint/src"),
    ("engine", "crates/holdpoint-engine/src"),
    ("core", "crates/holdpoint-core/src"),
];

#[test]
fn the_functions_of_the_write_path_exist() {
    let files = files();
    let page: Vec<&File> = files.iter().filter(|file| file.path == PAGE).collect();
    assert_eq!(page.len(), 1, "{PAGE} is missing");
    assert_none(std::slice::from_ref(page[0]), |page| missing_functions(&page.text, &files));
}

#[test]
fn the_write_path_has_at_most_30_hops() {
    let page = files().into_iter().find(|file| file.path == PAGE).expect("the page exists");
    let hops: Vec<usize> = page.text.lines().filter_map(hop).map(|hop| hop.number).collect();
    assert_eq!(hops, (1..=hops.len()).collect::<Vec<_>>(), "the hops are numbered in order");
    assert!((10..=HOPS_MAX).contains(&hops.len()), "{} hops", hops.len());
}

/// One row of a table of the page.
struct Hop<'a> {
    number: usize,
    function: &'a str,
    folder: &'a str,
    file: &'a str,
}

fn hop(line: &str) -> Option<Hop<'_>> {
    let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
    let [number, function, place, _] = cells[..] else { return None };
    let (folder, file) = place.split_once(": ")?;
    let (function, file) = (function.trim_matches('`'), file.trim_matches('`'));
    Some(Hop { number: number.parse().ok()?, function, folder, file })
}

/// Returns the rows whose file does not define the function.
fn missing_functions(page: &str, files: &[File]) -> Vec<Violation> {
    let defines = |hop: &Hop<'_>| {
        let folder = FOLDERS.iter().find(|(name, _)| *name == hop.folder).map(|(_, folder)| *folder);
        let path = format!("{}/{}", folder.unwrap_or_default(), hop.file);
        let file = files.iter().find(|file| file.path == path);
        file.is_some_and(|file| {
            ["(", "<"].iter().any(|next| file.text.contains(&format!("fn {}{next}", hop.function)))
        })
    };
    let rows = page.lines().enumerate().filter_map(|(index, line)| Some((index, hop(line)?)));
    rows.filter(|(_, hop)| !defines(hop))
        .map(|(index, hop)| (index + 1, format!("{} does not define `{}`", hop.file, hop.function)))
        .collect()
}

#[test]
fn a_function_that_does_not_exist_is_found() {
    let file =
        File { path: "crates/holdpoint-core/src/decide.rs".to_owned(), text: "pub fn decide(".to_owned() };
    let page =
        "| 1 | `decide` | core: `decide.rs` | decides |\n| 2 | `other` | core: `decide.rs` | is missing |\n";
    let lines: Vec<usize> = missing_functions(page, &[file]).into_iter().map(|(line, _)| line).collect();
    assert_eq!(lines, [2]);
}
