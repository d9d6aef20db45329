//! Forward-only migrations. A released file never changes; the next one is added below it.

use super::Error;

/// In order; the version is the position, from 1.
pub(super) const MIGRATIONS: &[&str] = &[include_str!("migrations/0001_foundation.sql")];

pub(super) const CREATE_VERSIONS: &str =
    "CREATE TABLE IF NOT EXISTS schema_versions (version BIGINT NOT NULL PRIMARY KEY)";
pub(super) const CURRENT_VERSION: &str = "SELECT COALESCE(MAX(version), 0) FROM schema_versions";
pub(super) const RECORD_VERSION: &str = "INSERT INTO schema_versions (version) VALUES ($1)";

/// The version this build brings a database to.
pub(super) fn known() -> i64 {
    i64::try_from(MIGRATIONS.len()).unwrap_or(i64::MAX)
}

/// The migrations a database at `found` still needs, with their versions.
pub(super) fn missing(found: i64) -> Result<impl Iterator<Item = (i64, &'static str)>, Error> {
    let skip = usize::try_from(found).map_err(|error| super::unreadable("schema version", error))?;
    Ok((found + 1..).zip(MIGRATIONS.iter().copied().skip(skip)))
}
