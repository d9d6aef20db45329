//! A minimal reader of Rust source for the rules: separates code from comments and literals, and finds words, imports
//! and functions. Expects text that is formatted by rustfmt.

use std::ops::Range;

/// Returns the text with comments and literals replaced by spaces. Lines and columns stay the same.
pub(crate) fn code(text: &str) -> String {
    let mut code = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let in_word = code.ends_with(is_word);
        match text_bytes(rest, in_word) {
            Some(bytes) => {
                code.extend(rest[..bytes].chars().map(|c| if c == '\n' { '\n' } else { ' ' }));
                rest = &rest[bytes..];
            }
            None => {
                code.push(first);
                rest = &rest[first.len_utf8()..];
            }
        }
    }
    code
}

/// Returns every word of the code with its line number.
pub(crate) fn words(code: &str) -> impl Iterator<Item = (usize, &str)> {
    numbered(code).flat_map(|(number, line)| {
        line.split(|c| !is_word(c)).filter(|word| !word.is_empty()).map(move |word| (number, word))
    })
}

pub(crate) fn numbered(text: &str) -> impl Iterator<Item = (usize, &str)> {
    text.lines().enumerate().map(|(index, line)| (index + 1, line))
}

/// Returns the names directly after a path such as `crate::`, including the first level of a group: `crate::{a, b::c}`.
pub(crate) fn named_after<'a>(code: &'a str, path: &str) -> Vec<(usize, &'a str)> {
    let mut named = Vec::new();
    for (at, _) in code.match_indices(path) {
        if code[..at].ends_with(is_word) {
            continue;
        }
        let after = at + path.len();
        let line = code[..at].matches('\n').count() + 1;
        match code[after..].strip_prefix('{') {
            Some(group) => named.extend(first_level(group).into_iter().map(|name| (line, name))),
            None => named.push((line, leading_word(&code[after..]))),
        }
    }
    named
}

/// A function: the line of its `fn`, its name, the number of lines up to its closing brace, and the code between its
/// braces.
pub(crate) struct Function<'a> {
    pub(crate) line: usize,
    pub(crate) name: &'a str,
    pub(crate) lines: usize,
    pub(crate) body: &'a str,
}

pub(crate) fn functions(code: &str) -> Vec<Function<'_>> {
    let mut functions = Vec::new();
    let mut at = 0;
    for (index, line) in code.split_inclusive('\n').enumerate() {
        if let Some(name) = function_name(line)
            && let Some(body) = body_range(&code[at..])
        {
            let lines = code[at..at + body.end].matches('\n').count() + 1;
            let body = &code[at + body.start..at + body.end];
            functions.push(Function { line: index + 1, name, lines, body });
        }
        at += line.len();
    }
    functions
}

/// A declared function, with or without a body: the line of its `fn`, its name and its parameters.
pub(crate) struct Signature<'a> {
    pub(crate) line: usize,
    pub(crate) name: &'a str,
    pub(crate) parameters: Vec<&'a str>,
}

pub(crate) fn signatures(code: &str) -> Vec<Signature<'_>> {
    let mut signatures = Vec::new();
    let mut at = 0;
    for (index, line) in code.split_inclusive('\n').enumerate() {
        if let Some(name) = function_name(line) {
            let after = at + line.find("fn ").unwrap_or_default() + "fn ".len() + name.len();
            let after = &code[after..];
            let generics = if after.starts_with('<') { list_items(after).1 } else { 0 };
            let (parameters, _) = list_items(&after[generics..]);
            signatures.push(Signature { line: index + 1, name, parameters });
        }
        at += line.len();
    }
    signatures
}

/// Returns the code without the content of items that are compiled for tests only. Lines stay the same.
pub(crate) fn without_test_items(code: &str) -> String {
    let mut shipped = String::with_capacity(code.len());
    let mut rest = code;
    while let Some((before, item)) = rest.split_once("#[cfg(test)]") {
        let end = body_range(item).map_or(0, |body| body.end);
        shipped.push_str(before);
        shipped.extend(item[..end].chars().filter(|c| *c == '\n'));
        rest = &item[end..];
    }
    shipped + rest
}

/// Returns the items of the list in brackets with which the text begins, and the number of its bytes.
pub(crate) fn list_items(text: &str) -> (Vec<&str>, usize) {
    let mut items = Vec::new();
    let (mut depth, mut from, mut before) = (0, 1, ' ');
    for (at, c) in text.char_indices() {
        match c {
            '(' | '[' | '{' | '<' => depth += 1,
            // The end of an arrow.
            '>' if ['-', '='].contains(&before) => {}
            ')' | ']' | '}' | '>' => depth -= 1,
            _ => {}
        }
        if depth == 0 || (depth == 1 && c == ',') {
            items.extend(text.get(from..at).map(str::trim).filter(|item| !item.is_empty()));
            from = at + 1;
        }
        if depth == 0 {
            break;
        }
        before = c;
    }
    (items, from)
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

fn leading_word(text: &str) -> &str {
    &text[..text.find(|c| !is_word(c)).unwrap_or(text.len())]
}

/// Returns the first word of each item in a group of imports, up to its closing brace.
fn first_level(group: &str) -> Vec<&str> {
    let mut names = Vec::new();
    let (mut depth, mut from) = (0, 0);
    for (at, c) in group.char_indices() {
        match c {
            '{' => depth += 1,
            ',' | '}' if depth == 0 => {
                names.push(leading_word(group[from..at].trim_start()));
                from = at + 1;
                if c == '}' {
                    break;
                }
            }
            '}' => depth -= 1,
            _ => {}
        }
    }
    names.retain(|name| !name.is_empty());
    names
}

/// Returns the name of the function that starts in this line. Types such as `fn(&str)` have no name.
fn function_name(line: &str) -> Option<&str> {
    let (before, after) = line.split_once("fn ")?;
    let modifiers = ["pub", "crate", "super", "in", "const", "async", "unsafe", "extern", "default"];
    let mut words = before.split(|c| !is_word(c)).filter(|word| !word.is_empty());
    let name = leading_word(after);
    (words.all(|word| modifiers.contains(&word)) && !before.ends_with(is_word) && !name.is_empty())
        .then_some(name)
}

/// Returns the bytes between the braces of an item, or `None` if the item or the braces around it end first.
fn body_range(code: &str) -> Option<Range<usize>> {
    let (mut braces, mut others, mut start) = (0, 0, 0);
    for (at, c) in code.char_indices() {
        match c {
            '(' | '[' => others += 1,
            ')' | ']' => others -= 1,
            '{' => {
                if braces == 0 && others == 0 {
                    start = at + 1;
                }
                braces += 1;
            }
            '}' => {
                braces -= 1;
                if braces == 0 && others == 0 {
                    return Some(start..at);
                }
                if braces < 0 {
                    return None;
                }
            }
            ';' if braces == 0 && others == 0 => return None,
            _ => {}
        }
    }
    None
}

/// Returns the number of bytes of the comment or literal that starts here.
fn text_bytes(rest: &str, in_word: bool) -> Option<usize> {
    if rest.starts_with("//") {
        return Some(rest.find('\n').unwrap_or(rest.len()));
    }
    if rest.starts_with("/*") {
        return Some(rest.find("*/").map_or(rest.len(), |at| at + 2));
    }
    if rest.starts_with('"') {
        return Some(quoted_bytes(rest));
    }
    if rest.starts_with('\'') {
        return character_bytes(rest);
    }
    if in_word { None } else { raw_bytes(rest) }
}

fn quoted_bytes(rest: &str) -> usize {
    let mut escaped = false;
    for (at, c) in rest.char_indices().skip(1) {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '"' => return at + 1,
            _ => {}
        }
    }
    rest.len()
}

/// Returns the number of bytes of a character literal such as `'a'` or `'\n'`. A lifetime such as `'a` is no literal.
fn character_bytes(rest: &str) -> Option<usize> {
    if rest.starts_with("'\\") {
        return rest[3..].find('\'').map(|at| at + 4);
    }
    let character = rest[1..].chars().next()?;
    let end = 1 + character.len_utf8();
    rest[end..].starts_with('\'').then_some(end + 1)
}

fn raw_bytes(rest: &str) -> Option<usize> {
    let opening = rest.strip_prefix("br").or_else(|| rest.strip_prefix('r'))?;
    let hashes = opening.len() - opening.trim_start_matches('#').len();
    let inside = opening[hashes..].strip_prefix('"')?;
    let closing = format!("\"{}", "#".repeat(hashes));
    let end = inside.find(&closing).map_or(inside.len(), |at| at + closing.len());
    Some(rest.len() - inside.len() + end)
}

#[test]
fn comments_and_literals_are_not_code() {
    let text = "a // b\n\"c \\\" d\" e /* f\n */ 'g' h::<'i>(r#\"j \" k\"#, '\\'', '\\u{1f600}') l";
    let found: Vec<_> = words(&code(text)).map(|(line, word)| format!("{line}{word}")).collect();
    assert_eq!(found, ["1a", "2e", "3h", "3i", "3l"]);
}

#[test]
fn single_and_grouped_imports_are_found() {
    let text = "use crate::a::b;\nuse crate::{c, d::{e, f}, g as h};\nlet x = mycrate::i;";
    assert_eq!(named_after(text, "crate::"), [(1, "a"), (2, "c"), (2, "d"), (2, "g")]);
}

#[test]
fn functions_are_measured_from_fn_to_brace() {
    let text = "trait T {\n    fn none(&self) -> [u8; 2];\n}\npub(crate) async fn three(\n    f: fn(u8) -> u8,\n) {}\nfn one() {}\n";
    let found: Vec<_> = functions(text).iter().map(|found| (found.line, found.name, found.lines)).collect();
    assert_eq!(found, [(4, "three", 3), (7, "one", 1)]);
}
