//! Instants as every protocol here writes them: ISO 8601 in UTC with milliseconds.

use holdpoint_core::Timestamp;

use crate::error::ApiError;

/// What a caller may say for an instant.
pub(crate) fn instant(field: &str, text: Option<&str>) -> Result<Option<Timestamp>, ApiError> {
    let Some(text) = text else { return Ok(None) };
    let parsed = text.parse::<jiff::Timestamp>().map(|at| Timestamp(at.as_millisecond()));
    parsed.map(Some).map_err(|_| ApiError::invalid(field, "must be an instant such as 2026-05-01T10:00:00Z"))
}
