//! Where the database is, from its URL; and the URL as it may be shown.

use std::path::{Path, PathBuf};

use anyhow::bail;
use holdpoint_engine::Location;

pub(crate) fn location(database: Option<&str>, data: &Path) -> anyhow::Result<Location> {
    let Some(url) = database else { return Ok(Location::Sqlite(data.join("holdpoint.db"))) };
    let postgres = ["postgres://", "postgresql://"].iter().find_map(|scheme| url.strip_prefix(scheme));
    let sqlite = url.strip_prefix("sqlite:").map(|rest| rest.strip_prefix("//").unwrap_or(rest));
    match (sqlite, postgres) {
        (Some(""), _) => {
            bail!("--database {url}: a path must follow, as in sqlite:/var/lib/holdpoint/holdpoint.db")
        }
        (Some(path), _) => Ok(Location::Sqlite(PathBuf::from(path))),
        (None, Some("")) => {
            bail!("--database {url}: a host must follow, as in postgres://holdpoint@db.example.com/holdpoint")
        }
        (None, Some(_)) => Ok(Location::Postgres(url.to_owned())),
        // What was given is not repeated: there may be a password in it.
        (None, None) => bail!(
            "--database: there are two forms: sqlite:PATH, as in sqlite:/var/lib/holdpoint/holdpoint.db, and \
             postgres://USER:PASSWORD@HOST:PORT/DATABASE"
        ),
    }
}

/// A location as people may see it: without passwords.
pub(crate) fn shown(location: &Location) -> String {
    match location {
        Location::Sqlite(path) => format!("sqlite:{}", path.display()),
        Location::Postgres(url) => masked(url),
    }
}

/// Rather too much is hidden than too little: an unescaped `/`, `?` or `@` in a password must not bring it to light.
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
        let at = |url: &str| location(Some(url), Path::new("data"));
        assert_eq!(at("sqlite:///a/b.db").unwrap(), Location::Sqlite("/a/b.db".into()));
        for url in ["postgres://u@h/db", "postgresql://u:p@a,b:5433/db?target_session_attrs=read-write"] {
            assert_eq!(at(url).unwrap(), Location::Postgres(url.to_owned()));
        }
        for url in ["mysql://u:secret@h/db", "host=h password=secret", "sqlite:", "postgres://", ""] {
            let error = format!("{:#}", at(url).unwrap_err());
            assert!(!error.contains("secret"), "{error}");
        }
        let error = format!("{:#}", at("mysql://x").unwrap_err());
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
            assert_eq!(shown(&Location::Postgres(url.to_owned())), text);
        }
        assert_eq!(shown(&Location::Sqlite("a/b.db".into())), "sqlite:a/b.db");
    }
}
