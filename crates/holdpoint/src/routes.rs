//! Routes. Each protocol lists its own in its `routes.rs`; the router, the OpenAPI document and the test of access are made
//! from these lists. The permissions are read from the signatures of the handlers.

pub(crate) mod verbs;

use axum::extract::State;
use axum::handler::Handler;
use axum::http::{HeaderValue, header};
use axum::middleware::map_response;
use axum::response::Response;
use axum::routing::{MethodRouter, delete, get, post, put};

use schemars::{JsonSchema, Schema, SchemaGenerator};

use crate::app::App;
use crate::auth::{Access, Permission};

/// An operation and what carries it out.
pub(crate) struct Route {
    pub operation: Operation,
    pub handler: MethodRouter<App>,
}

/// The public description of a route. Bodies, parameters and responses are types of `holdpoint-api`.
#[derive(Clone, Debug)]
pub(crate) struct Operation {
    /// In lower case, as OpenAPI writes it.
    pub method: &'static str,
    /// With `{names}` of parameters. The last segment may end in a verb: `/v1/runs/{runId}:fork`.
    pub path: &'static str,
    pub id: &'static str,
    pub summary: &'static str,
    /// Kept for older clients.
    pub deprecated: bool,
    pub access: Access,
    /// Requests accept an `Idempotency-Key`.
    pub idempotent: bool,
    /// Types whose members are query parameters or headers.
    pub parameters: Vec<(ParameterPlace, SchemaOf)>,
    pub body: Option<Body>,
    pub answers: Vec<(u16, Content)>,
    errors: Vec<u16>,
    never: Vec<u16>,
}

/// Makes the JSON Schema of a type.
pub(crate) type SchemaOf = fn(&mut SchemaGenerator) -> Schema;

/// The place of parameters in a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ParameterPlace {
    Query,
    Header,
}

impl ParameterPlace {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Query => "query",
            Self::Header => "header",
        }
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Body {
    pub schema: SchemaOf,
    pub required: bool,
}

/// The body of a success. One status may have several media types.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Content {
    Json(SchemaOf),
    /// Text of this media type.
    Text(&'static str),
    /// Server-sent events, each of them like this.
    Events(SchemaOf),
    Nothing,
}

/// A handler whose signature names a permission. The state comes first and the permission second.
pub(crate) trait Guarded {
    const ACCESS: Access;
}

macro_rules! guarded {
    ($($rest:ident)*) => {
        impl<M, P: Permission, $($rest),*> Guarded for (M, State<App>, P, $($rest,)*) {
            const ACCESS: Access = P::ACCESS;
        }
    };
}

guarded!();
guarded!(A);
guarded!(A B);
guarded!(A B C);
guarded!(A B C D);
guarded!(A B C D E);
guarded!(A B C D E F);

impl Route {
    pub(crate) fn get<H, T>(path: &'static str, id: &'static str, handler: H) -> Self
    where
        H: Handler<T, App>,
        T: Guarded + 'static,
    {
        Self::new("get", path, id, T::ACCESS, get(handler))
    }

    pub(crate) fn post<H, T>(path: &'static str, id: &'static str, handler: H) -> Self
    where
        H: Handler<T, App>,
        T: Guarded + 'static,
    {
        Self::new("post", path, id, T::ACCESS, post(handler))
    }

    pub(crate) fn put<H, T>(path: &'static str, id: &'static str, handler: H) -> Self
    where
        H: Handler<T, App>,
        T: Guarded + 'static,
    {
        Self::new("put", path, id, T::ACCESS, put(handler))
    }

    pub(crate) fn delete<H, T>(path: &'static str, id: &'static str, handler: H) -> Self
    where
        H: Handler<T, App>,
        T: Guarded + 'static,
    {
        Self::new("delete", path, id, T::ACCESS, delete(handler))
    }

    /// For everybody, without a key. Said out loud, so that nobody forgets a permission.
    pub(crate) fn get_public<H, T>(path: &'static str, id: &'static str, handler: H) -> Self
    where
        H: Handler<T, App>,
        T: 'static,
    {
        Self::new("get", path, id, Access::Public, get(handler))
    }

    /// The same for what changes something.
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
        // Whatever changes something can be asked for once.
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
            answers: Vec::new(),
            errors,
            never: Vec::new(),
        };
        Self { operation, handler }
    }

    /// One line for people.
    pub(crate) fn says(mut self, summary: &'static str) -> Self {
        self.operation.summary = summary;
        self
    }

    /// Disables caching and the Referer header, for a path or a response with a secret.
    pub(crate) fn private(mut self) -> Self {
        self.handler = self.handler.layer(map_response(unkept));
        self
    }

    pub(crate) fn deprecated(mut self) -> Self {
        self.operation.deprecated = true;
        self
    }

    /// Removes the support of Idempotency-Key: a stream cannot be stored as a receipt.
    pub(crate) fn not_kept(mut self) -> Self {
        self.operation.idempotent = false;
        self.operation.errors.retain(|status| *status != 409);
        self
    }

    /// Query parameters: the members of `T`.
    pub(crate) fn query<T: JsonSchema>(mut self) -> Self {
        self.operation.parameters.push((ParameterPlace::Query, T::json_schema));
        self
    }

    /// Headers: the members of `T`.
    pub(crate) fn headers<T: JsonSchema>(mut self) -> Self {
        self.operation.parameters.push((ParameterPlace::Header, T::json_schema));
        self
    }

    pub(crate) fn body<T: JsonSchema>(mut self) -> Self {
        self.operation.body = Some(Body { schema: SchemaGenerator::subschema_for::<T>, required: true });
        self
    }

    /// A body that may be left out.
    pub(crate) fn optional_body<T: JsonSchema>(mut self) -> Self {
        self.operation.body = Some(Body { schema: SchemaGenerator::subschema_for::<T>, required: false });
        self
    }

    /// A success with a JSON body.
    pub(crate) fn response<T: JsonSchema>(self, status: u16) -> Self {
        self.answers(status, Content::Json(SchemaGenerator::subschema_for::<T>))
    }

    /// A success with server-sent events, each of them a `T`.
    pub(crate) fn event_stream<T: JsonSchema>(self, status: u16) -> Self {
        self.answers(status, Content::Events(SchemaGenerator::subschema_for::<T>))
    }

    /// A success.
    pub(crate) fn answers(mut self, status: u16, content: Content) -> Self {
        self.operation.answers.push((status, content));
        self
    }

    /// Statuses beyond those that follow from the shape of the route.
    pub(crate) fn fails(mut self, statuses: &[u16]) -> Self {
        self.operation.errors.extend(statuses);
        self
    }

    /// Statuses that follow from the shape of the route, and yet never happen.
    pub(crate) fn never_fails(mut self, statuses: &[u16]) -> Self {
        self.operation.never.extend(statuses);
        self
    }
}

async fn unkept(mut response: Response) -> Response {
    let headers = response.headers_mut();
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(header::REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    response
}

impl Operation {
    /// The parameters in the path, in order.
    pub(crate) fn path_parameters(&self) -> Vec<&'static str> {
        self.path.split('{').skip(1).filter_map(|rest| rest.split_once('}')).map(|(name, _)| name).collect()
    }

    /// Every status but successes, in order.
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
        errors.retain(|status| !self.never.contains(status));
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
    fn who_may_call_is_read_from_the_signature() {
        assert_eq!(Route::get("/a", "a", read).operation.access, Access::All(&["runs:read"]));
        let either = Access::Any(&["approvals:respond", "runs:read"]);
        assert_eq!(Route::post("/a/{b}", "a", see).operation.access, either);
        assert_eq!(Route::get_public("/a", "a", || async {}).operation.access, Access::Public);
    }

    #[test]
    fn statuses_follow_from_the_shape_of_a_route() {
        let route = Route::post("/a/{b}:c", "a", see)
            .body::<holdpoint_api::Nothing>()
            .fails(&[409])
            .never_fails(&[404]);
        assert_eq!(route.operation.path_parameters(), ["b"]);
        assert_eq!(route.operation.errors(), [400, 401, 403, 408, 409, 413, 429, 500, 503]);
        assert_eq!(Route::get_public("/a", "a", || async {}).operation.errors(), [0; 0]);
    }
}
