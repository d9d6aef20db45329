//! The place of the database: parsed from its URL, and shown without passwords.

use std::fmt;
use std::path::PathBuf;

/// Which database and where.
#[derive(Clone, PartialEq, Eq)]
pub enum Location {
    /// A file.
    Sqlite(PathBuf),
    /// An address such as `postgres://user@host/database`. It may hold a password.
    Postgres(String),
}

impl Location {
    /// Parses `sqlite:PATH` or `postgres://USER:PASSWORD@HOST:PORT/DATABASE`. The error never repeats the text, which may
    /// have a password in it.
    pub fn parse(url: &str) -> Result<Self, &'static str> {
        let postgres = ["postgres://", "postgresql://"].iter().find_map(|scheme| url.strip_prefix(scheme));
        let sqlite = url.strip_prefix("sqlite:").map(|rest| rest.strip_prefix("//").unwrap_or(rest));
        match (sqlite, postgres) {
            (Some(""), _) => Err("a path must follow, as in sqlite:/var/lib/holdpoint/holdpoint.db"),
            (Some(path), _) => Ok(Self::Sqlite(PathBuf::from(path))),
            (None, Some("")) => {
                Err("a host must follow, as in postgres://holdpoint@db.example.com/holdpoint")
            }
            (None, Some(_)) => Ok(Self::Postgres(url.to_owned())),
            (None, None) => {
                Err("there are two forms: sqlite:PATH, as in sqlite:/var/lib/holdpoint/holdpoint.db, \
                                 and postgres://USER:PASSWORD@HOST:PORT/DATABASE")
            }
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
        Some((who, place)) if who.contains(':') => {
            let user = who.split(':').next().unwrap_or_default();
            format!("{scheme}://{user}:{HIDDEN}@{place}")
        }
        _ => shown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_databases_are_known_and_no_other() {
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
