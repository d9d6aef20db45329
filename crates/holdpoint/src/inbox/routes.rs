//! The routes for signing in and out.

use super::sessions;
use crate::routes::Content::Nothing;
use crate::routes::Json;
use crate::routes::Route;

/// Answers carry secrets or concern one browser: none is kept for whoever sends the same again.
pub(crate) fn all() -> Vec<Route> {
    vec![
        Route::post_public("/v1/session", "createSession", sessions::create)
            .says("Sign in: with a key, or once with a link; the answer sets a cookie")
            .body_named("SignIn")
            .answers(201, Json("Session"))
            .fails(&[401, 403, 429, 500, 503])
            .not_kept()
            .private(),
        Route::get("/v1/session", "getSession", sessions::show)
            .says("Who is signed in, or whose key this is; renews the cookie")
            .answers(200, Json("Session"))
            .private(),
        Route::delete("/v1/session", "endSession", sessions::end)
            .says("Sign out")
            .answers(204, Nothing)
            .not_kept(),
        Route::post("/v1/session:link", "createSessionLink", sessions::link)
            .says("Make a link that signs in once, within half an hour: as the caller, or with another key of the tenant")
            .optional_body_named("WantedSessionLink")
            .answers(201, Json("SessionLink"))
            .fails(&[404])
            .not_kept()
            .private(),
        Route::get("/v1/sessions", "listSessions", sessions::list)
            .says("Where the caller's key is signed in")
            .answers(200, Json("Sessions")),
        Route::delete("/v1/sessions/{sessionId}", "revokeSession", sessions::revoke)
            .says("End a session of the caller's key at once")
            .answers(204, Nothing)
            .not_kept(),
    ]
}
