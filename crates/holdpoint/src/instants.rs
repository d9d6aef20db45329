//! Instants in requests, for every protocol.

use holdpoint_core::Timestamp;

use crate::error::ApiError;

/// Parses an instant in ISO 8601, if there is one.
pub(crate) fn parse_instant(field: &str, text: Option<&str>) -> Result<Option<Timestamp>, ApiError> {
    let Some(text) = text else { return Ok(None) };
    let parsed = text.parse::<jiff::Timestamp>().map(|at| Timestamp(at.as_millisecond()));
    parsed.map(Some).map_err(|_| ApiError::invalid(field, "must be an instant such as 2026-05-01T10:00:00Z"))
}
