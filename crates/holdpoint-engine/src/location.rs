//! The location of the database, parsed from a URL and shown without passwords.

use std::fmt;
use std::path::PathBuf;

/// The location of a database.
#[derive(Clone, PartialEq, Eq)]
pub enum Location {
    /// The path of an SQLite file.
    Sqlite(PathBuf),
    /// A URL such as `postgres://user@host/database`. It can contain a password.
    Postgres(String),
}

impl Location {
    /// Parses `sqlite:PATH` or `postgres://USER:PASSWORD@HOST:PORT/DATABASE`. The error does not repeat the text, which
    /// can contain a password.
    pub fn parse(url: &str) -> Result<Self, &'static str> {
        let postgres = ["postgres://", "postgresql://"].iter().find_map(|scheme| url.strip_prefix(scheme));
        let sqlite = url.strip_prefix("sqlite:").map(|rest| rest.strip_prefix("//").unwrap_or(rest));
        match (sqlite, postgres) {
            (Some(""), _) => {
                Err("the path is missing; use sqlite:/var/lib/holdpoint/holdpoint.db, for example")
            }
            (Some(path), _) => Ok(Self::Sqlite(PathBuf::from(path))),
            (None, Some("")) => {
                Err("the host is missing; use postgres://holdpoint@db.example.com/holdpoint, for example")
            }
            (None, Some(_)) => Ok(Self::Postgres(url.to_owned())),
            (None, None) => Err("must be sqlite:PATH, as in sqlite:/var/lib/holdpoint/holdpoint.db, \
                                 or postgres://USER:PASSWORD@HOST:PORT/DATABASE"),
        }
    }
}

impl fmt::Debug for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Sqlite(path) => f.debug_tuple("Sqlite").field(path).finish(),
            Self::Postgres(_) => f.write_str("Postgres(…)"),
        }
    }
}

/// Shows the location without passwords.
impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Sqlite(path) => write!(f, "sqlite:{}", path.display()),
            Self::Postgres(url) => f.write_str(&masked(url)),
        }
    }
}

/// Hides the password of a URL. An unescaped `/`, `?` or `@` in a password hides more than the password.
fn masked(url: &str) -> String {
    const HIDDEN: &str = "***";
    let mut shown = String::new();
    let mut rest = url;
    while let Some((before, after)) = rest.split_once("password=") {
        shown.push_str(&format!("{before}password={HIDDEN}"));
        rest = after.find('&').map_or("", |end| &after[end..]);
    }
    shown.push_str(rest);
    let Some((scheme, rest)) = shown.split_once("://") else { return HIDDEN.to_owned() };
    match rest.rsplit_once('@') {
        Some((credentials, place)) if credentials.contains(':') => {
            let user = credentials.split(':').next().unwrap_or_default();
            format!("{scheme}://{user}:{HIDDEN}@{place}")
        }
        _ => shown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_sqlite_and_postgres_urls_are_accepted() {
        let at = |url: &str| Location::parse(url);
        assert_eq!(at("sqlite:///a/b.db").unwrap(), Location::Sqlite("/a/b.db".into()));
        for url in ["postgres://u@h/db", "postgresql://u:p@a,b:5433/db?target_session_attrs=read-write"] {
            assert_eq!(at(url).unwrap(), Location::Postgres(url.to_owned()));
        }
        for url in ["mysql://u:secret@h/db", "host=h password=secret", "sqlite:", "postgres://", ""] {
            let error = at(url).unwrap_err();
            assert!(!error.contains("secret"), "{error}");
        }
        let error = at("mysql://x").unwrap_err();
        assert!(error.contains("sqlite:PATH") && error.contains("postgres://USER"), "{error}");
    }

    #[test]
    fn a_password_is_never_shown() {
        for (url, text) in [
            ("postgres://u@h/db", "postgres://u@h/db"),
            ("postgres://h:5432/db", "postgres://h:5432/db"),
            ("postgres://u:secret@a,b:5432/db?schema=x", "postgres://u:***@a,b:5432/db?schema=x"),
            ("postgres://u:se@cret@h/db", "postgres://u:***@h/db"),
            ("postgres://u:se/cret?secret@h/db", "postgres://u:***@h/db"),
            (
                "postgres://h:5432/db?user=u&password=se@cret&schema=x",
                "postgres://h:5432/db?user=u&password=***&schema=x",
            ),
            ("postgres://h/db?sslpassword=secret", "postgres://h/db?sslpassword=***"),
        ] {
            assert_eq!(Location::Postgres(url.to_owned()).to_string(), text);
        }
        assert_eq!(Location::Sqlite("a/b.db".into()).to_string(), "sqlite:a/b.db");
    }
}
