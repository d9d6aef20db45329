//! Converts a statement for one set of values to one for many, so that each statement is written once, in its simple
//! form. The values are passed as arrays, which the statement joins as the table `u`.

use std::fmt::Write;

use super::super::Param;
use super::super::statement::Lock;

/// Returns the SQL for one set of values.
pub(super) fn single(sql: &str, lock: Option<Lock>) -> String {
    let mut text = flat(sql);
    add_lock(&mut text, lock);
    text
}

/// Returns the SQL for many sets of values with the types of `sample`.
pub(super) fn many(sql: &str, sample: &[Param], lock: Option<Lock>) -> String {
    numbered(sql, sample, lock, 1)
}

/// Returns one statement that executes several writing statements, each for many sets. Their parameters are
/// concatenated.
pub(super) fn joined<'q>(statements: impl Iterator<Item = (&'q str, &'q [Param])>) -> String {
    let (mut text, mut first) = (String::from("WITH "), 1);
    for (at, (sql, sample)) in statements.enumerate() {
        let comma = if at == 0 { "" } else { ", " };
        // Writing to a string cannot fail.
        let _ = write!(text, "{comma}w{at} AS ({})", numbered(sql, sample, None, first));
        first += sample.len();
    }
    text.push_str(" SELECT 1");
    text
}

fn numbered(sql: &str, sample: &[Param], lock: Option<Lock>, first: usize) -> String {
    let text = named(&flat(sql));
    let source = source(sample, first);
    let mut text = match text.split(' ').next() {
        Some("INSERT") => insert(&text, &source),
        Some("UPDATE") => before(&text, " WHERE ", &format!(" FROM {source}")),
        Some("DELETE") => before(&text, " WHERE ", &format!(" USING {source}")),
        _ => after(&text, " FROM ", &format!("{source}, ")),
    };
    add_lock(&mut text, lock);
    text
}

fn add_lock(text: &mut String, lock: Option<Lock>) {
    let Some(lock) = lock else { return };
    if let Some(order) = lock.order {
        text.push_str(" ORDER BY ");
        text.push_str(order);
    }
    text.push_str(" FOR UPDATE OF ");
    text.push_str(lock.of);
    if lock.skip {
        text.push_str(" SKIP LOCKED");
    }
}

/// Puts the statement on one line with single blanks, so that clauses can be found. Quoted texts stay as they are.
fn flat(sql: &str) -> String {
    let (mut flat, mut is_quoted, mut has_blank) = (String::with_capacity(sql.len()), false, false);
    for letter in sql.trim().chars() {
        is_quoted ^= letter == '\'';
        if letter.is_whitespace() && !is_quoted {
            has_blank = true;
            continue;
        }
        if std::mem::take(&mut has_blank) {
            flat.push(' ');
        }
        flat.push(letter);
    }
    flat
}

/// Replaces `$3` by `u.p3`.
fn named(sql: &str) -> String {
    sql.replace('$', "u.p")
}

fn source(sample: &[Param], first: usize) -> String {
    let (mut arrays, mut names) = (String::new(), String::new());
    for (at, param) in sample.iter().enumerate() {
        let (comma, number) = (if at == 0 { "" } else { ", " }, at + 1);
        let kind = match param {
            Param::Int(_) => "bigint[]",
            Param::Text(_) => "text[]",
        };
        let _ = write!(arrays, "{comma}${}::{kind}", first + at);
        let _ = write!(names, "{comma}p{number}");
    }
    format!("unnest({arrays}) AS u({names})")
}

/// Replaces `VALUES (…)` by `SELECT … FROM source`.
fn insert(text: &str, source: &str) -> String {
    const VALUES: &str = "VALUES (";
    let Some(begin) = find(text, VALUES) else { return text.to_owned() };
    let inside = &text[begin + VALUES.len()..];
    let Some(end) = find(inside, ")") else { return text.to_owned() };
    format!("{}SELECT {} FROM {source}{}", &text[..begin], &inside[..end], &inside[end + 1..])
}

fn before(text: &str, clause: &str, addition: &str) -> String {
    let at = find(text, clause).unwrap_or(text.len());
    format!("{}{addition}{}", &text[..at], &text[at..])
}

fn after(text: &str, clause: &str, addition: &str) -> String {
    let at = find(text, clause).map_or(text.len(), |at| at + clause.len());
    format!("{}{addition}{}", &text[..at], &text[at..])
}

/// Returns the position of the first `clause` outside of parentheses.
fn find(text: &str, clause: &str) -> Option<usize> {
    let mut depth = 0_i32;
    for (at, byte) in text.bytes().enumerate() {
        if depth == 0 && text.as_bytes()[at..].starts_with(clause.as_bytes()) {
            return Some(at);
        }
        match byte {
            b'(' => depth += 1,
            b')' => depth -= 1,
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> [Param; 2] {
        [Param::Text(None), Param::Int(None)]
    }

    const SOURCE: &str = "unnest($1::text[], $2::bigint[]) AS u(p1, p2)";

    #[test]
    fn only_blanks_outside_of_quotes_are_joined() {
        assert_eq!(
            flat(" SELECT a\n    FROM t WHERE b = 'x  \ny'\n  AND c = '' "),
            "SELECT a FROM t WHERE b = 'x  \ny' AND c = ''"
        );
    }

    #[test]
    fn the_values_of_an_insert_become_a_select() {
        let text = many(
            "INSERT INTO t (a, b, c)\n    VALUES ($1, COALESCE((SELECT x FROM y WHERE z = $1), 0), $2) ON CONFLICT DO NOTHING",
            &sample(),
            None,
        );
        let expected = format!(
            "INSERT INTO t (a, b, c) SELECT u.p1, COALESCE((SELECT x FROM y WHERE z = u.p1), 0), u.p2 FROM {SOURCE} ON CONFLICT DO NOTHING"
        );
        assert_eq!(text, expected);
    }

    #[test]
    fn several_writes_are_joined_to_one_statement() {
        let (a, b) = ("INSERT INTO t (a, b) VALUES ($1, $2)", "DELETE FROM s WHERE b = $1");
        let samples = [sample().to_vec(), vec![Param::Int(None)]];
        let text = joined([(a, &samples[0][..]), (b, &samples[1][..])].into_iter());
        assert_eq!(
            text,
            format!(
                "WITH w0 AS (INSERT INTO t (a, b) SELECT u.p1, u.p2 FROM {SOURCE}), \
                 w1 AS (DELETE FROM s USING unnest($3::bigint[]) AS u(p1) WHERE b = u.p1) SELECT 1"
            )
        );
    }

    #[test]
    fn updates_and_deletes_join_the_values() {
        let update = many("UPDATE t SET a = $1 WHERE b = $2 RETURNING b", &sample(), None);
        assert_eq!(update, format!("UPDATE t SET a = u.p1 FROM {SOURCE} WHERE b = u.p2 RETURNING b"));
        let delete = many("DELETE FROM t WHERE a = $1 AND b = $2", &sample(), None);
        assert_eq!(delete, format!("DELETE FROM t USING {SOURCE} WHERE a = u.p1 AND b = u.p2"));
    }

    #[test]
    fn selects_join_the_values_and_lock_in_order() {
        let lock = Some(Lock { of: "t", order: Some("t.a"), skip: false });
        let many = many(
            "SELECT t.a, (SELECT 1 FROM y) AS one FROM t LEFT JOIN s ON s.a = t.a WHERE t.a = $1 AND t.b = $2",
            &sample(),
            lock,
        );
        assert_eq!(
            many,
            format!(
                "SELECT t.a, (SELECT 1 FROM y) AS one FROM {SOURCE}, t LEFT JOIN s ON s.a = t.a WHERE t.a = u.p1 AND t.b = u.p2 ORDER BY t.a FOR UPDATE OF t"
            )
        );
        let free = Some(Lock { of: "t", order: None, skip: true });
        assert_eq!(
            single("SELECT 1 FROM t LIMIT $1", free),
            "SELECT 1 FROM t LIMIT $1 FOR UPDATE OF t SKIP LOCKED"
        );
    }
}
