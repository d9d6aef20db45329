//! The parser and formatter of the short form of rules: `allow sendEmail(to ~ *@example.com, cc = null)`. The parser
//! rejects ambiguous texts, because a rule that is not understood as its author meant it gives no protection.

use serde_json::Value;

use super::argument_path::ArgumentPath;
use super::condition::{Condition, FieldTest};
use super::pattern::{Glob, RegexPattern, find_closing_slash};
use super::{MatchMode, VALUE_BYTES_MAX};
use crate::StrictValue;

/// The place of a condition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Placement {
    /// An element of `when`: it ends with its text.
    Alone,
    /// An element of a list in brackets: it ends at a comma.
    Listed,
}

/// Parses one condition, an element of `when`.
pub(super) fn parse_condition(text: &str, mode: MatchMode) -> Result<Condition, String> {
    match parse_one(text, Placement::Alone, mode)? {
        (condition, "") => Ok(condition),
        (_, rest) => Err(format!("unexpected `{rest}` after the value")),
    }
}

/// Parses a list of conditions separated by commas.
pub(super) fn parse_conditions(text: &str, mode: MatchMode) -> Result<Vec<Condition>, String> {
    let (mut found, mut rest) = (Vec::new(), text);
    loop {
        let (condition, after) = parse_one(rest, Placement::Listed, mode)?;
        if matches!(condition, Condition::Primary(_)) && !found.is_empty() {
            return Err("a pattern without a field must be the first condition; quote a value that contains a comma: \
                        to ~ \"a,b\""
                .to_owned());
        }
        found.push(condition);
        match after.strip_prefix(',') {
            Some(more) => rest = more,
            None if after.is_empty() => return Ok(found),
            None => {
                return Err(format!("unexpected `{after}` after a value; separate conditions with commas"));
            }
        }
    }
}

/// Splits a rule into behaviour, tool and the text in brackets.
pub(super) fn split_rule(text: &str) -> Result<(&str, &str, Option<&str>), String> {
    let Some((behaviour, rest)) = text.trim().split_once(char::is_whitespace) else {
        return Err("write a behaviour and a tool: allow Bash(git *)".to_owned());
    };
    let rest = rest.trim_start();
    let end = match rest.strip_prefix('/') {
        Some(source) => find_closing_slash(source)
            .map(|at| at + 2)
            .ok_or("a regular expression must be enclosed in slashes")?,
        None => rest.find('(').unwrap_or(rest.len()),
    };
    let (tool, brackets) = (rest[..end].trim_end(), rest[end..].trim_start());
    if brackets.is_empty() {
        return Ok((behaviour, tool, None));
    }
    let inside = brackets.strip_prefix('(').and_then(|inside| inside.strip_suffix(')'));
    inside.map(|inside| (behaviour, tool, Some(inside))).ok_or_else(|| {
        "after the tool, only conditions in brackets are allowed, and ) must be the last character".to_owned()
    })
}

fn parse_one(text: &str, place: Placement, mode: MatchMode) -> Result<(Condition, &str), String> {
    let text = text.trim();
    if text.is_empty() || (place == Placement::Listed && text.starts_with(',')) {
        return Err("a condition is empty; remove it, or write * for any text".to_owned());
    }
    if let Some((path, rest)) = ArgumentPath::parse_prefix(text).map_err(|why| format!("{why}; {QUOTE}"))? {
        let rest = rest.trim_start();
        let is_test = rest.starts_with(['~', '=']);
        let path = if is_test { path.check_limits()? } else { path };
        if let Some(value) = rest.strip_prefix("=~") {
            let (source, rest) = regex_source(value.trim_start(), place)?;
            return Ok((Condition::Field(path, FieldTest::Regex(RegexPattern::parse(&source, mode)?)), rest));
        }
        if let Some(value) = rest.strip_prefix('~') {
            let (glob, rest) = parse_text(value.trim_start(), place)?;
            return Ok((Condition::Field(path, FieldTest::Glob(Glob::parse(&glob)?)), rest));
        }
        if let Some(value) = rest.strip_prefix('=') {
            let (value, rest) = parse_json(value)?;
            return Ok((Condition::Field(path, FieldTest::Equals(value)), rest));
        }
        if rest.starts_with(['!', '<', '>']) {
            return Err(format!("the tests of a field are ~, =~ and =; {QUOTE}"));
        }
    }
    let (glob, rest) = parse_text(text, place)?;
    let bare = !text.starts_with('"');
    if bare && (glob.starts_with('=') || [" ~ ", " =~ ", " = "].iter().any(|sign| glob.contains(sign))) {
        return Err(format!("looks like a test of a field, but does not begin with a field; {QUOTE}"));
    }
    if bare && (glob.starts_with("~ ") || glob == "~") {
        return Err(format!("a test needs a field before it; {QUOTE}"));
    }
    Ok((Condition::Primary(Glob::parse(&glob)?), rest))
}

const QUOTE: &str = "enclose it in double quotes if it is a pattern for the primary argument";

/// Parses a JSON string or an unquoted text.
fn parse_text(text: &str, place: Placement) -> Result<(String, &str), String> {
    if text.starts_with('"') {
        let mut read = serde_json::Deserializer::from_str(text).into_iter::<String>();
        return match read.next() {
            Some(Ok(word)) => Ok((word, text[read.byte_offset()..].trim())),
            _ => Err("a value that begins with a double quote must be a JSON string".to_owned()),
        };
    }
    let end = match place {
        Placement::Alone => text.len(),
        Placement::Listed => text.find(',').unwrap_or(text.len()),
    };
    let word = text[..end].trim();
    if word.is_empty() {
        return Err("a value is missing; write \"\" for an empty text".to_owned());
    }
    Ok((word.to_owned(), &text[end..]))
}

fn regex_source(text: &str, place: Placement) -> Result<(String, &str), String> {
    if let Some(source) = text.strip_prefix('/') {
        let end =
            find_closing_slash(source).ok_or("a regular expression that begins with / must end with it")?;
        return Ok((source[..end].to_owned(), source[end + 1..].trim()));
    }
    // Without slashes, a comma would end the regular expression, and the part before it may be valid with another
    // meaning.
    if place == Placement::Listed && !text.starts_with('"') {
        return Err("a regular expression in brackets must be enclosed in slashes: to =~ /@example\\.com$/"
            .to_owned());
    }
    parse_text(text, place)
}

fn parse_json(text: &str) -> Result<(Value, &str), String> {
    let mut read = serde_json::Deserializer::from_str(text).into_iter::<StrictValue>();
    let value = match read.next() {
        Some(Ok(StrictValue(value))) => value,
        Some(Err(error)) => {
            return Err(format!("the value after = must be JSON, with text in double quotes: {error}"));
        }
        None => return Err("a value is missing after =".to_owned()),
    };
    let bytes = value.to_string().len();
    if bytes > VALUE_BYTES_MAX {
        return Err(format!("the value has {bytes} bytes; at most {VALUE_BYTES_MAX} are accepted"));
    }
    Ok((value, text[read.byte_offset()..].trim()))
}

/// Writes a pattern for the primary argument: unquoted if it is parsed as the same pattern, otherwise as a JSON string.
pub(super) fn format_primary(glob: &str) -> String {
    let same = |place| match parse_one(glob, place, MatchMode::Broad) {
        Ok((Condition::Primary(found), "")) => found.text() == glob,
        _ => false,
    };
    quote_if_needed(glob, same)
}

pub(super) fn format_glob(glob: &str) -> String {
    quote_if_needed(glob, |place| {
        parse_text(glob, place).is_ok_and(|(found, rest)| found == glob && rest.is_empty())
    })
}

fn quote_if_needed(text: &str, same: impl Fn(Placement) -> bool) -> String {
    if same(Placement::Alone) && same(Placement::Listed) && !text.contains(char::is_control) {
        return text.to_owned();
    }
    Value::from(text).to_string()
}

pub(super) fn format_regex(source: &str) -> String {
    match find_closing_slash(source) {
        None if !source.contains(char::is_control) => format!("/{source}/"),
        _ => Value::from(source).to_string(),
    }
}
