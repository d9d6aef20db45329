//! Patterns: globs, regular expressions and tool names. Matching is case-sensitive and does not normalize text.

use std::fmt;

use regex::{Regex, RegexBuilder};
use serde::Deserialize;

use super::specificity::ToolRank;
use super::{MatchMode, PATTERN_CHARS_MAX, REGEX_BYTES_MAX};

/// A pattern in which `*` matches any number of characters and `?` matches one. There is no escape: use an equality or
/// a regular expression for a literal star.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(transparent)]
pub struct Glob(String);

impl Glob {
    /// Creates a glob of any length. The parser of rules limits the length.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    pub(super) fn parse(text: &str) -> Result<Self, String> {
        check_length(text)?;
        Ok(Self(text.to_owned()))
    }

    pub(super) fn text(&self) -> &str {
        &self.0
    }

    /// Returns true if the whole text matches. Each part between stars is matched at its first position: a later
    /// position leaves less text for the other parts.
    pub fn matches(&self, text: &str) -> bool {
        let mut pieces = self.0.split('*');
        let Some(mut rest) = pieces.next().and_then(|first| without_start(text, first)) else { return false };
        let Some(last) = pieces.next_back() else { return rest.is_empty() };
        let Some(shorter) = without_end(rest, last) else { return false };
        rest = shorter;
        for piece in pieces {
            let Some(after) = after_first(rest, piece) else { return false };
            rest = after;
        }
        true
    }

    pub(super) fn literal_chars(&self) -> usize {
        self.0.chars().filter(|c| !matches!(c, '*' | '?')).count()
    }
}

fn without_start<'t>(text: &'t str, piece: &str) -> Option<&'t str> {
    let mut rest = text.chars();
    piece
        .chars()
        .all(|wanted| rest.next().is_some_and(|c| wanted == '?' || wanted == c))
        .then_some(rest.as_str())
}

fn without_end<'t>(text: &'t str, piece: &str) -> Option<&'t str> {
    let mut rest = text.chars();
    let fits = |wanted| rest.next_back().is_some_and(|c| wanted == '?' || wanted == c);
    piece.chars().rev().all(fits).then_some(rest.as_str())
}

fn after_first<'t>(text: &'t str, piece: &str) -> Option<&'t str> {
    if !piece.contains('?') {
        return text.find(piece).map(|at| &text[at + piece.len()..]);
    }
    let starts = text.char_indices().map(|(at, _)| at);
    starts.into_iter().find_map(|at| without_start(&text[at..], piece))
}

/// A regular expression that matches in linear time. In strict mode the whole text must match, in broad mode any part.
#[derive(Clone, Debug)]
pub(super) struct RegexPattern {
    source: String,
    compiled: Regex,
}

impl RegexPattern {
    pub(super) fn parse(source: &str, mode: MatchMode) -> Result<Self, String> {
        check_length(source)?;
        if source.is_empty() {
            return Err("the regular expression is empty".to_owned());
        }
        // Compiled without the added group first, because the invalid source `a)|(b` would be valid inside the group.
        let alone = compile(source)?;
        let compiled = match mode {
            MatchMode::Broad => alone,
            MatchMode::Strict => compile(&format!(r"\A(?:{source})\z"))?,
        };
        Ok(Self { source: source.to_owned(), compiled })
    }

    pub(super) fn source(&self) -> &str {
        &self.source
    }

    pub(super) fn matches(&self, text: &str) -> bool {
        self.compiled.is_match(text)
    }
}

fn compile(source: &str) -> Result<Regex, String> {
    RegexBuilder::new(source).size_limit(REGEX_BYTES_MAX).build().map_err(|error| match error {
        regex::Error::CompiledTooBig(_) => format!(
            "the compiled regular expression is larger than {REGEX_BYTES_MAX} bytes; a class such as \\w contains \
             all of Unicode, use (?-u:\\w) for ASCII"
        ),
        other => {
            let text = other.to_string();
            // The last line is the message; the lines before it show the position.
            let what = text.lines().last().unwrap_or_default().trim_start_matches("error: ").to_owned();
            format!("is not a valid regular expression: {what}")
        }
    })
}

fn check_length(text: &str) -> Result<(), String> {
    let chars = text.chars().count();
    if chars > PATTERN_CHARS_MAX {
        return Err(format!("has {chars} characters; a pattern has at most {PATTERN_CHARS_MAX}"));
    }
    Ok(())
}

/// The tools that a rule applies to.
#[derive(Clone, Debug)]
pub(super) enum ToolPattern {
    Exact(String),
    Glob(Glob),
    Regex(RegexPattern),
}

impl ToolPattern {
    pub(super) fn parse(text: &str, mode: MatchMode) -> Result<Self, String> {
        if text.is_empty() {
            return Err("is empty; write * for every tool".to_owned());
        }
        if let Some(source) = text.strip_prefix('/') {
            return match find_closing_slash(source) {
                Some(end) if end + 1 == source.len() => {
                    Ok(Self::Regex(RegexPattern::parse(&source[..end], mode)?))
                }
                Some(_) => Err("a regular expression ends at the first / that is not written \\/".to_owned()),
                None => Err("a regular expression must be enclosed in slashes: /^read_/".to_owned()),
            };
        }
        if let Some(odd) = text.chars().find(|c| c.is_whitespace() || c.is_control() || "(),\"".contains(*c))
        {
            return Err(format!(
                "a tool name cannot contain {odd:?}; put conditions into `when`, or into brackets in the short form"
            ));
        }
        if text.contains(['*', '?']) {
            return Ok(Self::Glob(Glob::parse(text)?));
        }
        check_length(text)?;
        Ok(Self::Exact(text.to_owned()))
    }

    pub(super) fn matches(&self, tool: &str) -> bool {
        match self {
            Self::Exact(name) => name == tool,
            Self::Glob(glob) => glob.matches(tool),
            Self::Regex(expression) => expression.matches(tool),
        }
    }

    /// Returns the rank of the pattern and the number of its literal characters.
    pub(super) fn rank(&self) -> (ToolRank, usize) {
        match self {
            Self::Exact(_) => (ToolRank::Exact, 0),
            Self::Glob(glob) if glob.literal_chars() == 0 => (ToolRank::Any, 0),
            Self::Glob(glob) => (ToolRank::Glob, glob.literal_chars()),
            Self::Regex(_) => (ToolRank::Regex, 0),
        }
    }

    pub(super) fn is_regex(&self) -> bool {
        matches!(self, Self::Regex(_))
    }
}

impl fmt::Display for ToolPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exact(name) => f.write_str(name),
            Self::Glob(glob) => f.write_str(glob.text()),
            Self::Regex(expression) => write!(f, "/{}/", expression.source()),
        }
    }
}

/// Returns the position of the first slash that is not escaped with a backslash.
pub(super) fn find_closing_slash(text: &str) -> Option<usize> {
    let mut escaped = false;
    for (at, c) in text.char_indices() {
        match c {
            '/' if !escaped => return Some(at),
            '\\' => escaped = !escaped,
            _ => escaped = false,
        }
    }
    None
}
