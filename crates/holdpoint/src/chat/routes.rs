//! The routes of the chat contract.

use holdpoint_api::chat::{Chat, ChatOutcome, ChatStanding, ChatStream};

use super::chats;
use crate::routes::Route;

pub(crate) fn all() -> Vec<Route> {
    vec![
        Route::post("/api/v1/ai/chat", "chat", chats::chat)
            .says("Start a graph, or answer its interrupt")
            .body::<Chat>()
            .response::<ChatOutcome>(200)
            .event_stream::<ChatStream>(200)
            .response::<ChatOutcome>(202)
            .not_kept()
            .fails(&[404, 409, 422]),
        Route::get("/api/v1/ai/chat/{stateKey}", "getChat", chats::show)
            .says("Get the state of a graph")
            .response::<ChatStanding>(200),
        Route::delete("/api/v1/ai/chat/{stateKey}", "cancelChat", chats::cancel)
            .says("Cancel a graph, also at its provider")
            .response::<ChatStanding>(200)
            .not_kept(),
    ]
}
