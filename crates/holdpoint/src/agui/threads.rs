//! Threads for clients that lost their memory: what was said, where the thread stands, and its stream once more.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::response::Response;
use holdpoint_api::agui::AgUiThread;
use holdpoint_core::limits;
use serde_json::Value;

use super::history::History;
use super::order::ClientOrder;
use super::stream::{self, Audience};
use super::target::Target;
use super::translate::{Rest, Translator};
use super::{input, interrupts, run, state};
use crate::app::App;
use crate::auth::CanReadRuns;
use crate::body::InPath;
use crate::error::ApiError;

pub(crate) async fn show(
    State(app): State<App>,
    CanReadRuns(caller): CanReadRuns,
    InPath((agent, thread)): InPath<(String, String)>,
) -> Result<Json<AgUiThread>, ApiError> {
    let target = Target::find(&app.engine, caller.tenant(), &agent).await?;
    input::check_name("threadId", &thread, limits::THREAD_CHARS_MAX)?;
    let (_, run) = run::latest(&app, &caller, &thread).await?.ok_or_else(|| ApiError::not_found("thread"))?;
    let history = History::read(&app.engine, caller.tenant(), &thread, &target).await?;
    Ok(Json(AgUiThread {
        thread_id: thread,
        run_id: run.id.clone(),
        status: run.status(),
        running: Rest::of(&run).is_none(),
        state: Arc::unwrap_or_clone(state::of(&run)),
        messages: history.snapshot(),
        interrupts: interrupts::open(&run).map(|asked| interrupts::shown(&run, asked)).collect(),
        pending_tool_call_ids: interrupts::of_client(&run).map(|(call, _)| call).collect(),
    }))
}

/// A run at work is told from its beginning; one that waits or has ended only says so. The stream of a thread without runs
/// is empty: a front end joins its thread before it has said anything.
pub(crate) async fn stream(
    State(app): State<App>,
    CanReadRuns(caller): CanReadRuns,
    InPath((agent, thread)): InPath<(String, String)>,
) -> Result<Response, ApiError> {
    let target = Target::find(&app.engine, caller.tenant(), &agent).await?;
    input::check_name("threadId", &thread, limits::THREAD_CHARS_MAX)?;
    let Some((of, run)) = run::latest(&app, &caller, &thread).await? else {
        return Ok(stream::empty(caller.open_stream(&app)?));
    };
    let segment = match Rest::of(&run) {
        Some(_) => run::restate((of, run.clone())),
        None => {
            let history = History::read(&app.engine, caller.tenant(), &thread, &target).await?;
            run::join(&of, &run, history)
        }
    };
    // Nobody said which version the reader is of, so that it is told only what all of them know.
    let translator = Translator::new(&thread, run.id.as_str(), false, Value::Null);
    let (tenant, order) = (caller.tenant().clone(), ClientOrder::default());
    let audience = Audience { tenant, thread, target, translator, order };
    Ok(stream::response(&app, caller.open_stream(&app)?, audience, segment))
}
