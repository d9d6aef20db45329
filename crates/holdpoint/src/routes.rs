//! Routes. Each protocol lists its routes in its `routes.rs`; the router, the OpenAPI document and the test of access use
//! these lists. The permissions are read from the signatures of the handlers.

pub(crate) mod verbs;

use axum::extract::State;
use axum::handler::Handler;
use axum::routing::{MethodRouter, delete, get, post, put};

use schemars::{JsonSchema, Schema, SchemaGenerator};

use crate::app::App;
use crate::auth::{Access, Permission};

/// An operation and its handler.
pub(crate) struct Route {
    pub operation: Operation,
    pub handler: MethodRouter<App>,
}

/// The public description of a route. Bodies, parameters and responses are types of `holdpoint-api`.
#[derive(Clone, Debug)]
pub(crate) struct Operation {
    /// The method in lower case, as in OpenAPI.
    pub method: &'static str,
    /// The path with `{names}` of parameters. The last segment may end in a verb: `/v1/runs/{runId}:fork`.
    pub path: &'static str,
    pub id: &'static str,
    pub summary: &'static str,
    /// True if the operation only exists for older clients.
    pub deprecated: bool,
    pub access: Access,
    /// True if requests accept an `Idempotency-Key`.
    pub idempotent: bool,
    /// Types whose members are query parameters or headers.
    pub parameters: Vec<(ParameterLocation, SchemaOf)>,
    pub body: Option<RequestBody>,
    pub responses: Vec<(u16, Content)>,
    errors: Vec<u16>,
    excluded_errors: Vec<u16>,
}

/// A function that returns the JSON Schema of a type.
pub(crate) type SchemaOf = fn(&mut SchemaGenerator) -> Schema;

/// The place of parameters in a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ParameterLocation {
    Query,
    Header,
}

impl ParameterLocation {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Query => "query",
            Self::Header => "header",
        }
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct RequestBody {
    pub schema: SchemaOf,
    pub required: bool,
}

/// The body of a successful response. One status may have several media types.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Content {
    Json(SchemaOf),
    /// Text of this media type.
    Text(&'static str),
    /// Server-sent events with this schema.
    Events(SchemaOf),
    Empty,
}

/// A handler whose signature names a permission. The state comes first and the permission second.
pub(crate) trait HasPermission {
    const ACCESS: Access;
}

macro_rules! impl_has_permission {
    ($($rest:ident)*) => {
        impl<M, P: Permission, $($rest),*> HasPermission for (M, State<App>, P, $($rest,)*) {
            const ACCESS: Access = P::ACCESS;
        }
    };
}

impl_has_permission!();
impl_has_permission!(A);
impl_has_permission!(A B);
impl_has_permission!(A B C);
impl_has_permission!(A B C D);
impl_has_permission!(A B C D E);
impl_has_permission!(A B C D E F);

impl Route {
    pub(crate) fn get<H, T>(path: &'static str, id: &'static str, handler: H) -> Self
    where
        H: Handler<T, App>,
        T: HasPermission + 'static,
    {
        Self::new("get", path, id, T::ACCESS, get(handler))
    }

    pub(crate) fn post<H, T>(path: &'static str, id: &'static str, handler: H) -> Self
    where
        H: Handler<T, App>,
        T: HasPermission + 'static,
    {
        Self::new("post", path, id, T::ACCESS, post(handler))
    }

    pub(crate) fn put<H, T>(path: &'static str, id: &'static str, handler: H) -> Self
    where
        H: Handler<T, App>,
        T: HasPermission + 'static,
    {
        Self::new("put", path, id, T::ACCESS, put(handler))
    }

    pub(crate) fn delete<H, T>(path: &'static str, id: &'static str, handler: H) -> Self
    where
        H: Handler<T, App>,
        T: HasPermission + 'static,
    {
        Self::new("delete", path, id, T::ACCESS, delete(handler))
    }

    /// Returns a route that needs no credential. This is a separate function, so that a handler without a permission
    /// does not compile with the others.
    pub(crate) fn get_public<H, T>(path: &'static str, id: &'static str, handler: H) -> Self
    where
        H: Handler<T, App>,
        T: 'static,
    {
        Self::new("get", path, id, Access::Public, get(handler))
    }

    /// Returns a route that needs no credential and changes state.
    pub(crate) fn post_public<H, T>(path: &'static str, id: &'static str, handler: H) -> Self
    where
        H: Handler<T, App>,
        T: 'static,
    {
        Self::new("post", path, id, Access::Public, post(handler))
    }

    fn new(
        method: &'static str,
        path: &'static str,
        id: &'static str,
        access: Access,
        handler: MethodRouter<App>,
    ) -> Self {
        // Every operation that changes state accepts an Idempotency-Key.
        let changes = method != "get";
        let errors = if changes { vec![409] } else { Vec::new() };
        let operation = Operation {
            method,
            path,
            id,
            summary: "",
            deprecated: false,
            access,
            idempotent: changes,
            parameters: Vec::new(),
            body: None,
            responses: Vec::new(),
            errors,
            excluded_errors: Vec::new(),
        };
        Self { operation, handler }
    }

    /// Sets the one-line summary.
    pub(crate) fn summary(mut self, summary: &'static str) -> Self {
        self.operation.summary = summary;
        self
    }

    pub(crate) fn deprecated(mut self) -> Self {
        self.operation.deprecated = true;
        self
    }

    /// Removes the support of Idempotency-Key: a stream cannot be stored as a receipt.
    pub(crate) fn not_idempotent(mut self) -> Self {
        self.operation.idempotent = false;
        self.operation.errors.retain(|status| *status != 409);
        self
    }

    /// Adds the members of `T` as query parameters.
    pub(crate) fn query<T: JsonSchema>(mut self) -> Self {
        self.operation.parameters.push((ParameterLocation::Query, T::json_schema));
        self
    }

    /// Adds the members of `T` as headers.
    pub(crate) fn headers<T: JsonSchema>(mut self) -> Self {
        self.operation.parameters.push((ParameterLocation::Header, T::json_schema));
        self
    }

    pub(crate) fn body<T: JsonSchema>(mut self) -> Self {
        self.operation.body =
            Some(RequestBody { schema: SchemaGenerator::subschema_for::<T>, required: true });
        self
    }

    /// Sets a body that may be omitted.
    pub(crate) fn optional_body<T: JsonSchema>(mut self) -> Self {
        self.operation.body =
            Some(RequestBody { schema: SchemaGenerator::subschema_for::<T>, required: false });
        self
    }

    /// Adds a successful response with a JSON body.
    pub(crate) fn response<T: JsonSchema>(self, status: u16) -> Self {
        self.response_content(status, Content::Json(SchemaGenerator::subschema_for::<T>))
    }

    /// Adds a successful response with server-sent events, each of them a `T`.
    pub(crate) fn event_stream<T: JsonSchema>(self, status: u16) -> Self {
        self.response_content(status, Content::Events(SchemaGenerator::subschema_for::<T>))
    }

    /// Adds a successful response.
    pub(crate) fn response_content(mut self, status: u16, content: Content) -> Self {
        self.operation.responses.push((status, content));
        self
    }

    /// Adds error statuses that do not follow from the access rule, the path, the parameters and the body.
    pub(crate) fn errors(mut self, statuses: &[u16]) -> Self {
        self.operation.errors.extend(statuses);
        self
    }

    /// Excludes error statuses that follow from the access rule, the path, the parameters and the body but never occur.
    pub(crate) fn without_errors(mut self, statuses: &[u16]) -> Self {
        self.operation.excluded_errors.extend(statuses);
        self
    }
}

impl Operation {
    /// Returns the names of the path parameters, in order.
    pub(crate) fn path_parameters(&self) -> Vec<&'static str> {
        self.path.split('{').skip(1).filter_map(|rest| rest.split_once('}')).map(|(name, _)| name).collect()
    }

    /// Returns the statuses of errors, in order.
    pub(crate) fn errors(&self) -> Vec<u16> {
        let mut errors = self.errors.clone();
        if self.access != Access::Public {
            errors.extend([401, 403, 429, 500, 503]);
        }
        if !self.path_parameters().is_empty() {
            errors.extend([400, 404]);
        }
        if self.idempotent || !self.parameters.is_empty() {
            errors.push(400);
        }
        if self.body.is_some() {
            errors.extend([400, 408, 413]);
        }
        errors.retain(|status| !self.excluded_errors.contains(status));
        errors.sort_unstable();
        errors.dedup();
        errors
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::auth::{CanReadRuns, CanSeePending};

    async fn read(_: State<App>, _: CanReadRuns) {}
    async fn see(_: State<App>, _: CanSeePending, _: crate::body::InPath<String>) {}

    #[test]
    fn the_access_rule_is_read_from_the_signature() {
        assert_eq!(Route::get("/a", "a", read).operation.access, Access::All(&["runs:read"]));
        let either = Access::Any(&["approvals:respond", "runs:read"]);
        assert_eq!(Route::post("/a/{b}", "a", see).operation.access, either);
        assert_eq!(Route::get_public("/a", "a", || async {}).operation.access, Access::Public);
    }

    #[test]
    fn error_statuses_follow_from_access_path_parameters_and_body() {
        let route = Route::post("/a/{b}:c", "a", see)
            .body::<holdpoint_api::EmptyBody>()
            .errors(&[409])
            .without_errors(&[404]);
        assert_eq!(route.operation.path_parameters(), ["b"]);
        assert_eq!(route.operation.errors(), [400, 401, 403, 408, 409, 413, 429, 500, 503]);
        assert_eq!(Route::get_public("/a", "a", || async {}).operation.errors(), [0; 0]);
    }
}
