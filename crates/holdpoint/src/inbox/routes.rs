//! The routes for signing in and out.

use holdpoint_api::sessions::{CreateSessionLink, Session, SessionLink, SessionList, SignIn};

use super::sessions;
use crate::routes::Content::Nothing;
use crate::routes::Route;

/// Answers carry secrets or concern one browser: none is kept for whoever sends the same again.
pub(crate) fn all() -> Vec<Route> {
    vec![
        Route::post_public("/v1/session", "createSession", sessions::create)
            .says("Sign in with a key, or once with a link; the response sets a cookie")
            .body::<SignIn>()
            .response::<Session>(201)
            .fails(&[401, 403, 429, 500, 503])
            .not_kept()
            .private(),
        Route::get("/v1/session", "getSession", sessions::show)
            .says("Get the caller and its session; renews the cookie")
            .response::<Session>(200)
            .private(),
        Route::delete("/v1/session", "endSession", sessions::end)
            .says("Sign out")
            .answers(204, Nothing)
            .not_kept(),
        Route::post("/v1/session:link", "createSessionLink", sessions::link)
            .says("Create a link that signs in once, within half an hour")
            .optional_body::<CreateSessionLink>()
            .response::<SessionLink>(201)
            .fails(&[404])
            .not_kept()
            .private(),
        Route::get("/v1/sessions", "listSessions", sessions::list)
            .says("List the sessions of the caller's key")
            .response::<SessionList>(200),
        Route::delete("/v1/sessions/{sessionId}", "revokeSession", sessions::revoke)
            .says("End a session of the caller's key")
            .answers(204, Nothing)
            .not_kept(),
    ]
}
