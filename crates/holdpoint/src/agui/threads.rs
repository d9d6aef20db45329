//! Handlers that return the state of a thread and its stream, for clients that reconnect.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::response::Response;
use holdpoint_api::agui::AgUiThread;
use holdpoint_core::{Run, RunRef, limits};
use holdpoint_engine::OpenInterrupt;
use serde_json::Value;

use super::client_order::ClientOrder;
use super::history::{History, ThreadSource};
use super::messages::MESSAGES_MAX;
use super::open_interrupts::{describe_all, open_interrupts};
use super::stream::{self, StreamContent, StreamContext};
use super::target::AgUiTarget;
use super::translate::{ClientVersion, SegmentEnd, Translator};
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
    let target = AgUiTarget::find(&app.engine, caller.tenant(), &agent).await?;
    input::check_name("threadId", &thread, limits::THREAD_CHARS_MAX)?;
    let (_, run) = run::latest(&app, &caller, &thread).await?.ok_or_else(|| ApiError::not_found("thread"))?;
    let (engine, tenant) = (&app.engine, caller.tenant());
    let source = ThreadSource { engine, tenant, thread: &thread, target: &target };
    let history = source.read(MESSAGES_MAX).await?;
    let open = open_interrupts(engine, tenant, &run).await?;
    Ok(Json(describe(thread, &run, history, &open)))
}

fn describe(thread_id: String, run: &Run, history: History, open: &[OpenInterrupt]) -> AgUiThread {
    AgUiThread {
        thread_id,
        run_id: run.id.clone(),
        status: run.status(),
        running: SegmentEnd::of(run).is_none(),
        state: Arc::unwrap_or_clone(state::visible(run)),
        messages: history.snapshot(),
        interrupts: describe_all(run, open),
        pending_tool_call_ids: interrupts::client_tool_calls(run).map(|(call, _)| call).collect(),
    }
}

/// Streams the newest run of a thread: all its events if it is running, only its state if it waits or has ended. The
/// stream of a thread without runs is empty, because a front end connects before its first message.
pub(crate) async fn stream(
    State(app): State<App>,
    CanReadRuns(caller): CanReadRuns,
    InPath((agent, thread)): InPath<(String, String)>,
) -> Result<Response, ApiError> {
    let target = AgUiTarget::find(&app.engine, caller.tenant(), &agent).await?;
    input::check_name("threadId", &thread, limits::THREAD_CHARS_MAX)?;
    let Some((of, run)) = run::latest(&app, &caller, &thread).await? else {
        return Ok(stream::empty(caller.open_stream(&app)?));
    };
    // The version of the client is unknown, so the stream contains only events that all versions know.
    let translator = Translator::new(&thread, run.id.as_str(), ClientVersion::V0, Value::Null);
    let (tenant, order) = (caller.tenant().clone(), ClientOrder::default());
    let context = StreamContext { tenant, thread, target, translator, order };
    let content = content(&app, &context, of, run).await?;
    Ok(stream::response(&app, caller.open_stream(&app)?, context, content))
}

async fn content(
    app: &App,
    context: &StreamContext,
    of: RunRef,
    run: Arc<Run>,
) -> Result<StreamContent, ApiError> {
    if SegmentEnd::of(&run).is_some() {
        return Ok(run::report_state(of, &run));
    }
    let history = context.source(&app.engine).read(MESSAGES_MAX).await?;
    Ok(run::join_run(&of, &run, history))
}
