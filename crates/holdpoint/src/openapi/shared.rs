//! Shared components of the OpenAPI document: error responses and the Idempotency-Key header.

use serde_json::{Map, Value, json};

use crate::routes::Operation;

/// Statuses of errors with their descriptions.
const ERRORS: [(u16, &str); 13] = [
    (400, "The body, a parameter, a path segment or a header is invalid."),
    (401, "The key is missing, unknown, revoked or expired."),
    (403, "The caller lacks a permission. details.scopeRequired names the missing scope, if it is a scope."),
    (404, "The tenant has no such resource."),
    (408, "The body did not arrive in time."),
    (409, "The request conflicts with the current state or with an earlier request."),
    (410, "The resource has expired or was removed."),
    (413, "The body or a value in it exceeds its limit."),
    (422, "The request is well-formed but cannot be executed."),
    (429, "Too many requests. Retry after the time in Retry-After."),
    (500, "Internal error. The log of the server has details under details.correlationId."),
    (501, "This server does not implement the operation."),
    (503, "The server is temporarily unavailable."),
];

pub(super) fn response_name(status: u16) -> String {
    format!("Error{status}")
}

/// Returns the error responses that at least one route uses.
pub(super) fn responses(operations: &[Operation]) -> Value {
    let used = |status: u16| operations.iter().any(|operation| operation.errors().contains(&status));
    let shown = ERRORS.iter().filter(|(status, _)| used(*status)).map(|(status, description)| {
        let mut response = json!({
            "description": description,
            "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Error"}}},
        });
        if [429, 503].contains(status) {
            response["headers"] = json!({"Retry-After": {
                "description": "Whole seconds.", "required": true, "schema": {"type": "integer", "minimum": 1},
            }});
        }
        (response_name(*status), response)
    });
    Value::Object(shown.collect::<Map<_, _>>())
}

pub(super) const IDEMPOTENCY_KEY: &str = "Idempotency-Key";

pub(super) fn parameters() -> Value {
    json!({
        IDEMPOTENCY_KEY: {
            "name": IDEMPOTENCY_KEY, "in": "header",
            "description": "A request that is repeated with the same key within 24 hours is not executed again: it \
                gets the same response, with the header openwop-Idempotent-Replay.",
            "schema": {"type": "string", "minLength": 1, "maxLength": 255, "pattern": "^[!-~]([ -~]*[!-~])?$"},
        },
    })
}
