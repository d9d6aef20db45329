//! The output of commands: JSON lines for scripts, or aligned tables with colours.

use std::io::{ErrorKind, IsTerminal, Write};

use holdpoint_api::Instant as WireInstant;
use holdpoint_client::{ListPage, Reply};
use jiff::Timestamp;
use serde::Serialize;
use serde_json::Value;

use super::connection::Connection;

#[derive(Debug)]
pub struct Output {
    pub json: bool,
    colour: bool,
    is_terminal: bool,
    /// The program name in suggested commands.
    program: String,
    /// The flags after the arguments of suggested commands.
    flags: String,
}

impl Output {
    /// Returns an output of aligned texts, with colours on a terminal.
    pub fn text() -> Self {
        let refused = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        let is_terminal = std::io::stdout().is_terminal();
        let colour = !refused && is_terminal;
        Self { json: false, colour, is_terminal, program: "holdpoint".to_string(), flags: String::new() }
    }

    /// Returns an output of JSON lines for scripts.
    pub fn json() -> Self {
        Self { json: true, colour: false, ..Self::text() }
    }

    /// Returns the output for the flags of a command. Suggested commands have the same program name and the same flags.
    pub fn of(connection: &Connection) -> Self {
        let called = std::env::args_os().next().filter(|name| !name.is_empty());
        let program = called.map_or("holdpoint".to_string(), |name| quoted(&name.to_string_lossy()));
        let output = if connection.json { Self::json() } else { Self::text() };
        Self { program, flags: connection.to_flags(), ..output }
    }

    /// Returns a suggested command with these arguments.
    pub fn command(&self, words: &str) -> String {
        format!("{} {words}{}", self.program, self.flags)
    }

    /// Shortens a text for a terminal. A file or another program gets the whole text.
    pub fn fit(&self, text: &str, chars_max: usize) -> String {
        if self.is_terminal { shorten(text, chars_max) } else { text.to_string() }
    }

    /// Returns the width of the terminal in columns; None for a file or another program.
    pub fn width(&self) -> Option<usize> {
        let size = terminal_size::terminal_size_of(std::io::stdout()).filter(|_| self.is_terminal);
        size.map(|(width, _)| usize::from(width.0)).filter(|width| *width > 0)
    }

    /// Prints the JSON of the server for scripts, or the text that `describe` returns.
    pub fn show<T>(&self, reply: &Reply<T>, describe: impl FnOnce(&T) -> String) {
        self.line(&if self.json { one_line(&reply.text) } else { describe(&reply.value) });
    }

    /// Prints a document of the command itself as one line of JSON.
    pub fn json_line(&self, document: &impl Serialize) {
        self.line(&serde_json::to_string(document).unwrap_or_default());
    }

    pub fn line(&self, text: &str) {
        if text.is_empty() {
            return;
        }
        if let Err(error) = writeln!(std::io::stdout(), "{text}") {
            // A reader such as `head` closes the pipe early, which is not an error.
            std::process::exit(if error.kind() == ErrorKind::BrokenPipe { 0 } else { 3 });
        }
    }

    /// Prints a note if the list has more entries. Scripts read `nextCursor`.
    pub fn more<T: ListPage>(&self, reply: &Reply<T>, limit: u32) {
        if !self.json && reply.value.next_cursor().is_some() {
            eprintln!("only the first {limit} entries; use --limit to show more");
        }
    }

    /// Returns aligned columns with a heading, or `empty` if there are no rows.
    pub fn table(&self, heads: &[&str], rows: &[Vec<String>], empty: &str) -> String {
        if rows.is_empty() {
            return empty.to_string();
        }
        let width = |column: usize| {
            let cells = rows.iter().map(|row| row[column].chars().count());
            cells.chain([heads[column].chars().count()]).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..heads.len()).map(width).collect();
        let head: Vec<String> = heads.iter().map(ToString::to_string).collect();
        let mut lines = vec![self.paint("1", &row_text(&head, &widths, |_, cell| cell))];
        for row in rows {
            lines.push(row_text(row, &widths, |column, cell| match heads[column] {
                "STATUS" => self.status(&cell),
                _ => cell,
            }));
        }
        lines.join("\n")
    }

    /// Returns names and values in two columns. Fields without a value are omitted.
    pub fn fields(&self, fields: &[(&str, String)]) -> String {
        let fields: Vec<_> = fields.iter().filter(|(_, value)| !value.is_empty() && value != "-").collect();
        let width = fields.iter().map(|(name, _)| name.chars().count()).max().unwrap_or(0);
        let line = |(name, value): &&(&str, String)| {
            let value = if *name == "status" { self.status(value) } else { value.clone() };
            let value = value.replace('\n', &format!("\n{:width$}  ", ""));
            format!("{}  {value}", self.paint("2", &format!("{name:width$}")))
        };
        fields.iter().map(line).collect::<Vec<_>>().join("\n")
    }

    /// Returns a status in its colour.
    pub fn status(&self, text: &str) -> String {
        let code = match text.trim() {
            "completed" | "run.completed" | "approved" | "answered" => "32",
            "rejected" | "timed_out" | "failed" | "cancelled" | "dead_letter" | "run.failed"
            | "run.cancelled" | "node.failed" => "31",
            "paused" | "interrupt.requested" | "run.paused" => "33",
            waiting if waiting.starts_with("waiting") => "33",
            _ => return text.to_string(),
        };
        self.paint(code, text)
    }

    fn paint(&self, code: &str, text: &str) -> String {
        if self.colour { format!("\u{1b}[{code}m{text}\u{1b}[0m") } else { text.to_string() }
    }
}

/// Returns a JSON text on one line. Text that has one line stays unchanged.
fn one_line(text: &str) -> String {
    let text = text.trim();
    if !text.contains('\n') {
        return text.to_owned();
    }
    serde_json::from_str::<Value>(text).map_or_else(|_| text.replace('\n', " "), |value| value.to_string())
}

/// Removes a column of a table.
pub fn remove_column(heads: &mut Vec<&str>, rows: &mut [Vec<String>], head: &str) {
    if let Some(column) = heads.iter().position(|known| *known == head) {
        heads.remove(column);
        rows.iter_mut().for_each(|row| drop(row.remove(column)));
    }
}

/// Removes the optional columns that have no value in any row.
pub fn remove_empty_columns(heads: &mut Vec<&str>, rows: &mut [Vec<String>], optional: &[&str]) {
    for head in optional {
        let column = heads.iter().position(|known| known == head);
        if column.is_some_and(|column| rows.iter().all(|row| matches!(row[column].as_str(), "-" | "0"))) {
            remove_column(heads, rows, head);
        }
    }
}

fn row_text(cells: &[String], widths: &[usize], paint: impl Fn(usize, String) -> String) -> String {
    let last = cells.len().saturating_sub(1);
    let padded = cells.iter().enumerate().map(|(column, cell)| {
        let width = if column == last { 0 } else { widths[column] };
        paint(column, format!("{cell:width$}"))
    });
    padded.collect::<Vec<_>>().join("  ")
}

/// Returns a value as a cell of a table: a text or a word of an enum without quotes, `-` for an empty value.
pub fn cell(value: impl Serialize) -> String {
    match serde_json::to_value(value).unwrap_or_default() {
        Value::Null => "-".to_string(),
        Value::String(text) if text.is_empty() => "-".to_string(),
        Value::String(text) => clean(&text),
        Value::Array(list) if list.is_empty() => "-".to_string(),
        Value::Array(list) => list.iter().map(cell).collect::<Vec<_>>().join(","),
        other => clean(&other.to_string()),
    }
}

/// Returns a value as JSON on several lines.
pub fn pretty(value: impl Serialize) -> String {
    serde_json::to_string_pretty(&value).unwrap_or_default()
}

/// Replaces control characters, so that text of a server cannot control the terminal or break a table.
pub fn clean(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

/// Replaces control characters like [`clean`], but keeps line breaks.
pub fn clean_lines(text: &str) -> String {
    text.lines().map(clean).collect::<Vec<_>>().join("\n")
}

/// Returns a word of a command line, in quotes if a shell would change it.
pub fn quoted(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:@%+=,~".contains(c);
    if !text.is_empty() && text.chars().all(plain) {
        return text.to_string();
    }
    format!("'{}'", clean(text).replace('\'', "'\\''"))
}

pub fn shorten(text: &str, chars_max: usize) -> String {
    if text.chars().count() <= chars_max {
        return text.to_string();
    }
    text.chars().take(chars_max.saturating_sub(1)).chain(['…']).collect()
}

/// Returns a time span in one unit: `12s`, `3m`, `5h`, `2d`. Ignores the sign.
pub fn age(ms: i64) -> String {
    let seconds = ms.unsigned_abs() / 1000;
    match seconds {
        0..60 => format!("{seconds}s"),
        60..3600 => format!("{}m", seconds / 60),
        3600..172_800 => format!("{}h", seconds / 3600),
        _ => format!("{}d", seconds / 86400),
    }
}

/// Returns the milliseconds since an instant; negative if it is in the future.
pub fn elapsed_ms(at: WireInstant) -> i64 {
    Timestamp::now().as_millisecond() - at.0.0
}

/// Returns the time since an instant, in one unit.
pub fn age_since(at: WireInstant) -> String {
    age(elapsed_ms(at))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_for_scripts_is_the_text_of_the_server_on_one_line() {
        assert_eq!(one_line("{\"b\":1, \"a\":2}\n"), "{\"b\":1, \"a\":2}");
        assert_eq!(one_line("{\n \"b\": 1 }"), "{\"b\":1}");
    }

    #[test]
    fn columns_line_up_and_the_last_one_has_no_trailing_blanks() {
        let rows = [
            vec!["a".into(), "completed".into(), "x".into()],
            vec!["bücher".into(), "-".into(), "yy".into()],
        ];
        let plain = Output { colour: false, ..Output::text() };
        let table = plain.table(&["RUN", "STATUS", "TITLE"], &rows, "none");
        assert_eq!(table, "RUN     STATUS     TITLE\na       completed  x\nbücher  -          yy");
        assert_eq!(plain.table(&["RUN"], &[], "none"), "none");
    }

    #[test]
    fn colour_does_not_move_the_columns() {
        let colour = Output { colour: true, ..Output::text() };
        let table = colour.table(&["STATUS", "N"], &[vec!["failed".into(), "1".into()]], "");
        assert!(table.ends_with("\u{1b}[31mfailed\u{1b}[0m  1"), "{table:?}");
    }

    #[test]
    fn ages_have_one_unit() {
        let minute = 60_000;
        let ages = [
            (999, "0s"),
            (59_999, "59s"),
            (3 * minute, "3m"),
            (47 * 60 * minute, "47h"),
            (-2 * minute, "2m"),
        ];
        for (ms, text) in ages {
            assert_eq!(age(ms), text);
        }
        assert_eq!(age(48 * 60 * minute), "2d");
    }

    #[test]
    fn cells_have_no_control_characters() {
        assert_eq!(cell(None::<u8>), "-");
        assert_eq!(cell(["a", "b"]), "a,b");
        assert_eq!(cell("a\u{1b}[2Jb\nc"), "a [2Jb c");
        assert_eq!(shorten("äöü", 2), "ä…");
        assert_eq!(clean_lines("a\u{9b}2J\nb"), "a 2J\nb");
    }

    #[test]
    fn words_with_special_characters_are_quoted() {
        for (word, text) in [("./a-b", "./a-b"), ("", "''"), ("a b", "'a b'"), ("it's", "'it'\\''s'")] {
            assert_eq!(quoted(word), text);
        }
    }
}
