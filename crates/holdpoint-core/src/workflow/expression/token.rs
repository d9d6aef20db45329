//! The tokenizer of expressions: names, strings, numbers and symbols.

use std::fmt;

use serde_json::{Number, Value};

use super::ParseError;
use crate::limits::EXPRESSION_BYTES_MAX;

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Token {
    Name(String),
    Text(String),
    Number(Number),
    Symbol(&'static str),
    End,
}

/// Shows a token in error messages.
impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Token::Name(name) => write!(f, "`{name}`"),
            Token::Text(_) => f.write_str("a string"),
            Token::Number(number) => write!(f, "`{number}`"),
            Token::Symbol(symbol) => write!(f, "`{symbol}`"),
            Token::End => f.write_str("the end"),
        }
    }
}

// Longer symbols come first, so that `<=` is not read as `<`.
const SYMBOLS: [&str; 18] =
    ["==", "!=", "<=", ">=", "&&", "||", "<", ">", "!", "(", ")", "[", "]", ".", "+", "-", "*", "/"];

/// Returns all tokens with their positions. The last token is always [`Token::End`].
pub(super) fn tokens(text: &str) -> Result<Vec<(usize, Token)>, ParseError> {
    if text.len() > EXPRESSION_BYTES_MAX {
        return error(EXPRESSION_BYTES_MAX, format!("the text is longer than {EXPRESSION_BYTES_MAX} bytes"));
    }
    let mut found = Vec::new();
    let mut position = 0;
    loop {
        position += text[position..].len() - text[position..].trim_start().len();
        let (token, bytes) = next(text, position)?;
        let done = token == Token::End;
        found.push((position, token));
        position += bytes;
        if done {
            return Ok(found);
        }
    }
}

pub(super) fn error<T>(position: usize, message: impl Into<String>) -> Result<T, ParseError> {
    Err(ParseError { message: message.into(), position })
}

/// Returns the token at this position and its length in bytes.
fn next(text: &str, position: usize) -> Result<(Token, usize), ParseError> {
    let rest = &text[position..];
    let Some(first) = rest.chars().next() else {
        return Ok((Token::End, 0));
    };
    if first == '"' || first == '\'' {
        return quoted(rest, first, position);
    }
    if first.is_ascii_digit() {
        return number(rest, position);
    }
    if is_name_start(first) {
        let bytes = rest.find(|c| !is_name_start(c) && !c.is_numeric()).unwrap_or(rest.len());
        return Ok((Token::Name(rest[..bytes].to_owned()), bytes));
    }
    if let Some(symbol) = SYMBOLS.into_iter().find(|symbol| rest.starts_with(symbol)) {
        return Ok((Token::Symbol(symbol), symbol.len()));
    }
    match first {
        '=' => error(position, "a single `=` is not an operator, use `==`,"),
        '&' | '|' => error(position, format!("a single `{first}` is not an operator, use `{first}{first}`,")),
        other => error(position, format!("unexpected `{}`", other.escape_debug())),
    }
}

fn is_name_start(c: char) -> bool {
    c.is_alphabetic() || c == '_' || c == '$'
}

fn number(rest: &str, position: usize) -> Result<(Token, usize), ParseError> {
    let digits = |from: usize| rest[from..].bytes().take_while(u8::is_ascii_digit).count();
    let mut bytes = digits(0);
    if rest[bytes..].starts_with('.') && digits(bytes + 1) > 0 {
        bytes += 1 + digits(bytes + 1);
    }
    if rest[bytes..].starts_with(['e', 'E']) {
        let sign = usize::from(rest[bytes + 1..].starts_with(['+', '-']));
        let exponent = digits(bytes + 1 + sign);
        bytes += if exponent > 0 { 1 + sign + exponent } else { 0 };
    }
    if rest[bytes..].starts_with(is_name_start) {
        return error(position, "a name cannot begin with a digit");
    }
    // Only JSON numbers are accepted: no leading zeros, and no numbers beyond the range of a double.
    match serde_json::from_str(&rest[..bytes]) {
        Ok(Value::Number(number)) => Ok((Token::Number(number), bytes)),
        _ => error(position, format!("`{}` is not a valid JSON number", &rest[..bytes])),
    }
}

fn quoted(rest: &str, quote: char, position: usize) -> Result<(Token, usize), ParseError> {
    let mut text = String::new();
    let mut chars = rest.char_indices().skip(1);
    while let Some((at, c)) = chars.next() {
        if c == quote {
            return Ok((Token::Text(text), at + 1));
        }
        if c != '\\' {
            text.push(c);
            continue;
        }
        let Some((c, bytes)) = escape(&rest[at + 1..]) else {
            return error(position + at, "unknown escape in a string");
        };
        text.push(c);
        // Escapes are ASCII, so the number of bytes is the number of characters.
        chars.nth(bytes - 1);
    }
    error(position, format!("the closing {quote} is missing for the string that begins"))
}

/// Returns the character of an escape after the backslash, and the length of the escape in bytes.
fn escape(rest: &str) -> Option<(char, usize)> {
    let c = rest.chars().next()?;
    let meant = match c {
        '\\' | '\'' | '"' | '/' => c,
        'n' => '\n',
        'r' => '\r',
        't' => '\t',
        'b' => '\u{8}',
        'f' => '\u{c}',
        'u' => return unicode_escape(rest),
        _ => return None,
    };
    Some((meant, 1))
}

/// Decodes `u0041`, or a surrogate pair such as `ud83d\ude00` for a character beyond 16 bits.
fn unicode_escape(rest: &str) -> Option<(char, usize)> {
    let high = hex(rest.get(1..5)?)?;
    if let Some(c) = char::from_u32(high) {
        return Some((c, 5));
    }
    let low = hex(rest.get(5..)?.strip_prefix("\\u")?.get(..4)?)?;
    let pair = [u16::try_from(high).ok()?, u16::try_from(low).ok()?];
    let c = char::decode_utf16(pair).next()?.ok()?;
    Some((c, 11))
}

fn hex(digits: &str) -> Option<u32> {
    // `from_str_radix` alone would accept a sign.
    digits.bytes().all(|b| b.is_ascii_hexdigit()).then(|| u32::from_str_radix(digits, 16).ok())?
}
