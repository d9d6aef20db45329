//! Instants as every protocol here writes them: ISO 8601 in UTC with milliseconds.

use holdpoint_core::Timestamp;
use serde::Serializer;

use crate::error::ApiError;

pub(crate) fn iso<S: Serializer>(at: &Timestamp, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(at)
}

pub(crate) fn optional_iso<S: Serializer>(at: &Option<Timestamp>, serializer: S) -> Result<S::Ok, S::Error> {
    match at {
        Some(at) => iso(at, serializer),
        None => serializer.serialize_none(),
    }
}

/// What a caller may say for an instant.
pub(crate) fn instant(field: &str, text: Option<&str>) -> Result<Option<Timestamp>, ApiError> {
    let Some(text) = text else { return Ok(None) };
    let parsed = text.parse::<jiff::Timestamp>().map(|at| Timestamp(at.as_millisecond()));
    parsed.map(Some).map_err(|_| ApiError::invalid(field, "must be an instant such as 2026-05-01T10:00:00Z"))
}
