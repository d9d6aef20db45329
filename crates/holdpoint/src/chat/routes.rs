//! The routes of the chat contract.

use holdpoint_api::Page;
use holdpoint_api::chat::{Chat, ChatHistory, ChatOutcome, ChatStanding, ChatStream};

use super::handlers;
use crate::routes::Route;

pub(crate) fn all() -> Vec<Route> {
    vec![
        Route::post("/api/v1/ai/chat", "chat", handlers::chat)
            .summary("Start a graph or its next turn, or answer its interrupt")
            .body::<Chat>()
            .response::<ChatOutcome>(200)
            .event_stream::<ChatStream>(200)
            .response::<ChatOutcome>(202)
            .not_idempotent()
            .errors(&[404, 409, 422]),
        Route::get("/api/v1/ai/chat/{stateKey}", "getChat", handlers::show)
            .summary("Get the state of a graph")
            .response::<ChatStanding>(200),
        Route::get("/api/v1/ai/chat/{stateKey}/history", "getChatHistory", handlers::history)
            .summary("List the turns of a graph, the newest first")
            .query::<Page>()
            .response::<ChatHistory>(200),
        Route::delete("/api/v1/ai/chat/{stateKey}", "cancelChat", handlers::cancel)
            .summary("End a conversation: cancel its graph and delete its state, also at its provider")
            .response::<ChatStanding>(200)
            .not_idempotent(),
    ]
}
