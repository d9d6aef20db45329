//! Instants in requests, for every protocol.

use holdpoint_core::Timestamp;

use crate::error::ApiError;

/// Parses an instant in ISO 8601, if there is one.
pub(crate) fn parse_instant(field: &str, text: Option<&str>) -> Result<Option<Timestamp>, ApiError> {
    let Some(text) = text else { return Ok(None) };
    let parsed = Timestamp::parse_rfc3339(text);
    parsed
        .map(Some)
        .ok_or_else(|| ApiError::invalid(field, "must be an instant such as 2026-05-01T10:00:00Z"))
}
