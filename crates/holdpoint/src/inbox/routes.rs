//! The routes for signing in and out.

use holdpoint_api::sessions::{CreateSessionLink, Session, SessionLink, SessionList, SignIn};

use super::sessions;
use crate::routes::Content::Empty;
use crate::routes::Route;

/// Returns the routes. No response is stored for a repeated request: the responses contain secrets or concern one
/// browser.
pub(crate) fn all() -> Vec<Route> {
    vec![
        Route::post_public("/v1/session", "createSession", sessions::create)
            .summary("Sign in with a key, or once with a link; the response sets a cookie")
            .body::<SignIn>()
            .response::<Session>(201)
            .errors(&[401, 403, 429, 500, 503])
            .not_idempotent(),
        Route::get("/v1/session", "getSession", sessions::show)
            .summary("Get the caller and its session; renews the cookie")
            .response::<Session>(200),
        Route::delete("/v1/session", "endSession", sessions::end)
            .summary("Sign out")
            .response_content(204, Empty)
            .not_idempotent(),
        Route::post("/v1/session:link", "createSessionLink", sessions::link)
            .summary("Create a sign-in link, which works once, within half an hour")
            .optional_body::<CreateSessionLink>()
            .response::<SessionLink>(201)
            .errors(&[404])
            .not_idempotent(),
        Route::get("/v1/sessions", "listSessions", sessions::list)
            .summary("List the sessions of the caller's key")
            .response::<SessionList>(200),
        Route::delete("/v1/sessions/{sessionId}", "revokeSession", sessions::revoke)
            .summary("End a session of the caller's key")
            .response_content(204, Empty)
            .not_idempotent(),
    ]
}
