//! The routes of the chat contract.

use super::chats;
use crate::routes::Route;
use crate::routes::{Events, Json};

pub(crate) fn all() -> Vec<Route> {
    vec![
        Route::post("/api/v1/ai/chat", "chat", chats::chat)
            .says("Start a graph, or answer what it waits for, by its state key")
            .body_named("Chat")
            .answers(200, Json("ChatOutcome"))
            .answers(200, Events("ChatStream"))
            .answers(202, Json("ChatOutcome"))
            .not_kept()
            .fails(&[404, 409, 422]),
        Route::get("/api/v1/ai/chat/{stateKey}", "getChat", chats::show)
            .says("Where a graph stands")
            .answers(200, Json("ChatStanding")),
        Route::delete("/api/v1/ai/chat/{stateKey}", "cancelChat", chats::cancel)
            .says("Cancel a graph, also at its provider")
            .answers(200, Json("ChatStanding"))
            .not_kept(),
    ]
}
