//! Rules about language: openings of comments, indefinite pronouns, lengths of the main documents.

use crate::tree::{File, Violation, assert_none, files};

/// Words that no comment starts with. A comment starts with a verb or with the name of its subject.
const FORBIDDEN_OPENINGS: [&str; 7] = ["What", "Who", "Whether", "Where", "How", "Nothing", "Those"];
/// Pronouns that hide the actor. Spelled in two halves, so that this file passes its own rule.
const FORBIDDEN_WORDS: [&str; 4] =
    [concat!("who", "ever"), concat!("some", "body"), concat!("no", "body"), concat!("any", "body")];
/// Files with one of these words in data: the name of a Unix user, and a text in stored events that replays compare.
const WORDS_IN_DATA: [&str; 4] = [
    "crates/holdpoint-bench/src/cluster.rs",
    "crates/holdpoint/tests/nodes/cluster.rs",
    "crates/holdpoint-samples/src/content_review/draft.rs",
    "crates/holdpoint-samples/src/content_review/review.rs",
];
const README_LINES_MAX: usize = 150;
const ARCHITECTURE_LINES_MAX: usize = 200;

#[test]
fn comments_open_with_a_verb_or_a_noun() {
    assert_none(&with_extension(&["rs", "js", "mjs"]), |file| forbidden_openings(&file.text));
}

#[test]
fn comments_and_documents_name_actors_instead_of_pronouns() {
    let mut files = with_extension(&["rs", "js", "mjs", "md", "html", "json"]);
    files.retain(|file| !WORDS_IN_DATA.contains(&file.path.as_str()));
    assert_none(&files, |file| forbidden_pronouns(&file.text));
}

#[test]
fn the_main_documents_are_short() {
    for (path, limit) in [("README.md", README_LINES_MAX), ("ARCHITECTURE.md", ARCHITECTURE_LINES_MAX)] {
        let document = files().into_iter().find(|file| file.path == path).expect("the document exists");
        let lines = document.text.lines().count();
        assert!(lines <= limit, "{path} has {lines} lines, at most {limit} are allowed");
    }
}

fn with_extension(extensions: &[&str]) -> Vec<File> {
    let mut files = files();
    files.retain(|file| file.has_extension(extensions));
    files
}

/// Returns the first line of each block of comment lines that opens with a forbidden word.
fn forbidden_openings(text: &str) -> Vec<Violation> {
    let (mut found, mut is_inside) = (Vec::new(), false);
    for (index, line) in text.lines().enumerate() {
        let comment = comment(line);
        let opening = comment.filter(|_| !is_inside).and_then(|words| {
            let first = words.split(|c: char| !c.is_alphabetic()).next()?;
            FORBIDDEN_OPENINGS.contains(&first).then_some(first)
        });
        found.extend(opening.map(|word| {
            (index + 1, format!("the comment opens with `{word}`: start with a verb or with a noun"))
        }));
        is_inside = comment.is_some();
    }
    found
}

/// Returns the words of a line that is a comment.
fn comment(line: &str) -> Option<&str> {
    let line = line.trim_start();
    let marks = ["///", "//!", "//", "/**", "* "];
    marks.iter().find_map(|mark| line.strip_prefix(mark)).map(str::trim_start)
}

fn forbidden_pronouns(text: &str) -> Vec<Violation> {
    let mut found = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let words = line.split(|c: char| !c.is_alphabetic()).map(str::to_lowercase);
        let forbidden = words.filter(|word| FORBIDDEN_WORDS.contains(&word.as_str()));
        found.extend(forbidden.map(|word| {
            (
                index + 1,
                format!("`{word}` is not the name of an actor: write the caller, the approver, the worker …"),
            )
        }));
    }
    found
}

#[test]
fn a_comment_with_a_forbidden_opening_is_found() {
    let text = "//! What is here.\n\n/// Returns it.\n/// What follows is fine.\nfn a() {}\n    // Nothing: x.\n/** Who asks. */\n";
    let lines: Vec<_> = forbidden_openings(text).into_iter().map(|(line, _)| line).collect();
    assert_eq!(lines, [1, 6]);
    assert!(forbidden_openings("/// Whatsoever\n// The one.\nlet what = \"What\";\n").is_empty());
}

#[test]
fn a_forbidden_pronoun_is_found() {
    let text = format!(
        "fn {}_asks() {{}}\nlet a = \"for {}\";\nthe caller\n",
        FORBIDDEN_WORDS[1], FORBIDDEN_WORDS[2]
    );
    let lines: Vec<_> = forbidden_pronouns(&text).into_iter().map(|(line, _)| line).collect();
    assert_eq!(lines, [1, 2]);
}
