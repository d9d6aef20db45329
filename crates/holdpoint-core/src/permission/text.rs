//! The short form of conditions and rules as text, read and written: `allow sendEmail(to ~ *@example.com, cc = null)`.
//! What could be meant in two ways is refused, not guessed: a rule that is misread protects nothing.

use serde_json::Value;

use super::condition::{Condition, Test};
use super::path::Path;
use super::pattern::{Expression, Glob, slash};
use super::{Reading, VALUE_BYTES_MAX};
use crate::StrictValue;

/// Where a condition stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// By itself: it ends with its text.
    Alone,
    /// In brackets with others: it ends at a comma.
    Listed,
}

/// One condition, as an element of `when`.
pub(super) fn condition(text: &str, reading: Reading) -> Result<Condition, String> {
    match read(text, Place::Alone, reading)? {
        (condition, "") => Ok(condition),
        (_, rest) => Err(format!("`{rest}` follows the value, and nothing may")),
    }
}

/// Conditions with commas between them.
pub(super) fn conditions(text: &str, reading: Reading) -> Result<Vec<Condition>, String> {
    let (mut found, mut rest) = (Vec::new(), text);
    loop {
        let (condition, after) = read(rest, Place::Listed, reading)?;
        if matches!(condition, Condition::Primary(_)) && !found.is_empty() {
            return Err("a pattern without a field stands first and alone; quote a value that has a comma: \
                        to ~ \"a,b\""
                .to_owned());
        }
        found.push(condition);
        match after.strip_prefix(',') {
            Some(more) => rest = more,
            None if after.is_empty() => return Ok(found),
            None => return Err(format!("`{after}` follows a value; conditions have a comma between them")),
        }
    }
}

/// The parts of a rule: behaviour, tool, and what stands in brackets.
pub(super) fn rule_parts(text: &str) -> Result<(&str, &str, Option<&str>), String> {
    let Some((behaviour, rest)) = text.trim().split_once(char::is_whitespace) else {
        return Err("write a behaviour and a tool: allow Bash(git *)".to_owned());
    };
    let rest = rest.trim_start();
    let end = match rest.strip_prefix('/') {
        Some(source) => {
            slash(source).map(|at| at + 2).ok_or("a regular expression stands between slashes")?
        }
        None => rest.find('(').unwrap_or(rest.len()),
    };
    let (tool, brackets) = (rest[..end].trim_end(), rest[end..].trim_start());
    if brackets.is_empty() {
        return Ok((behaviour, tool, None));
    }
    let inside = brackets.strip_prefix('(').and_then(|inside| inside.strip_suffix(')'));
    inside.map(|inside| (behaviour, tool, Some(inside))).ok_or_else(|| {
        "after the tool comes nothing, or conditions between ( and a ) that is the last character".to_owned()
    })
}

fn read(text: &str, place: Place, reading: Reading) -> Result<(Condition, &str), String> {
    let text = text.trim();
    if text.is_empty() || (place == Place::Listed && text.starts_with(',')) {
        return Err("is empty; leave it out, or write * for any text".to_owned());
    }
    if let Some((path, rest)) = Path::at_start(text).map_err(|why| format!("{why}; {QUOTE}"))? {
        let rest = rest.trim_start();
        let is_test = rest.starts_with(['~', '=']);
        let path = if is_test { path.checked()? } else { path };
        if let Some(value) = rest.strip_prefix("=~") {
            let (source, rest) = regex_source(value.trim_start(), place)?;
            return Ok((Condition::Field(path, Test::Regex(Expression::parse(&source, reading)?)), rest));
        }
        if let Some(value) = rest.strip_prefix('~') {
            let (glob, rest) = word(value.trim_start(), place)?;
            return Ok((Condition::Field(path, Test::Glob(Glob::parse(&glob)?)), rest));
        }
        if let Some(value) = rest.strip_prefix('=') {
            let (value, rest) = json(value)?;
            return Ok((Condition::Field(path, Test::Equals(value)), rest));
        }
        if rest.starts_with(['!', '<', '>']) {
            return Err(format!("a field is tested with ~, =~ or =; {QUOTE}"));
        }
    }
    let (glob, rest) = word(text, place)?;
    let bare = !text.starts_with('"');
    if bare && (glob.starts_with('=') || [" ~ ", " =~ ", " = "].iter().any(|sign| glob.contains(sign))) {
        return Err(format!("looks like a test of a field, but begins with no field; {QUOTE}"));
    }
    if bare && (glob.starts_with("~ ") || glob == "~") {
        return Err(format!("a test needs a field before it; {QUOTE}"));
    }
    Ok((Condition::Primary(Glob::parse(&glob)?), rest))
}

const QUOTE: &str = "put the whole into double quotes if it is a pattern for the primary argument";

/// A string of JSON, or text as it is.
fn word(text: &str, place: Place) -> Result<(String, &str), String> {
    if text.starts_with('"') {
        let mut read = serde_json::Deserializer::from_str(text).into_iter::<String>();
        return match read.next() {
            Some(Ok(word)) => Ok((word, text[read.byte_offset()..].trim())),
            _ => Err("a value that begins with a double quote must be a string of JSON".to_owned()),
        };
    }
    let end = match place {
        Place::Alone => text.len(),
        Place::Listed => text.find(',').unwrap_or(text.len()),
    };
    let word = text[..end].trim();
    if word.is_empty() {
        return Err("a value is missing; write \"\" for the empty text".to_owned());
    }
    Ok((word.to_owned(), &text[end..]))
}

fn regex_source(text: &str, place: Place) -> Result<(String, &str), String> {
    if let Some(source) = text.strip_prefix('/') {
        let end = slash(source).ok_or("a regular expression that begins with / must end with it")?;
        return Ok((source[..end].to_owned(), source[end + 1..].trim()));
    }
    // Commas are common in regular expressions, and half of one may well be another.
    if place == Place::Listed && !text.starts_with('"') {
        return Err(
            "in brackets a regular expression stands between slashes: to =~ /@example\\.com$/".to_owned()
        );
    }
    word(text, place)
}

fn json(text: &str) -> Result<(Value, &str), String> {
    let mut read = serde_json::Deserializer::from_str(text).into_iter::<StrictValue>();
    let value = match read.next() {
        Some(Ok(StrictValue(value))) => value,
        Some(Err(error)) => {
            return Err(format!("what comes after = must be JSON, text in double quotes: {error}"));
        }
        None => return Err("a value is missing after =".to_owned()),
    };
    let bytes = value.to_string().len();
    if bytes > VALUE_BYTES_MAX {
        return Err(format!("the value has {bytes} bytes; at most {VALUE_BYTES_MAX} are taken"));
    }
    Ok((value, text[read.byte_offset()..].trim()))
}

/// As it is where that is read as the same, else as a string of JSON.
pub(super) fn written_primary(glob: &str) -> String {
    let same = |place| match read(glob, place, Reading::Broad) {
        Ok((Condition::Primary(found), "")) => found.text() == glob,
        _ => false,
    };
    written(glob, same)
}

pub(super) fn written_glob(glob: &str) -> String {
    written(glob, |place| word(glob, place).is_ok_and(|(found, rest)| found == glob && rest.is_empty()))
}

fn written(text: &str, same: impl Fn(Place) -> bool) -> String {
    if same(Place::Alone) && same(Place::Listed) && !text.contains(char::is_control) {
        return text.to_owned();
    }
    Value::from(text).to_string()
}

pub(super) fn written_regex(source: &str) -> String {
    match slash(source) {
        None if !source.contains(char::is_control) => format!("/{source}/"),
        _ => Value::from(source).to_string(),
    }
}
