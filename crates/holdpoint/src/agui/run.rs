//! Handler of `POST /ag-ui/{agentId}`. It reads the state of the thread and starts a run, adds messages to it or
//! answers its interrupts. The engine makes all decisions.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;
use holdpoint_agents::{AgentInput, EngineAgents};
use holdpoint_api::agui::{self as wire, Event, InputMessage, RunAgentInput};
use holdpoint_core::agent::Message;
use holdpoint_core::{Answer, Command, InterruptId, Run, RunId, RunRef, Transport, hex};
use holdpoint_engine::{Engine, Error, Once, RequestKey};
use holdpoint_providers::is_provider_graph;
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};

use super::client_order::ClientOrder;
use super::history::{History, ThreadSource};
use super::messages::{MESSAGES_MAX, RECENT_MESSAGES, snapshot_size};
use super::resume_plan::{self, AgUiViolation};
use super::stream::{self, LogSegment, StreamContent, StreamContext};
use super::target::AgUiTarget;
use super::translate::{ClientVersion, SegmentEnd, Translator};
use super::{answers, ids, input, interrupts, state};
use crate::app::App;
use crate::auth::{Caller, CanAnswer, CanCreateRuns, Permission};
use crate::body::{InPath, JsonBody};
use crate::error::ApiError;
use crate::idempotency::KeyedBody;
use crate::json::to_json;

/// The time for which messages to a running agent are deduplicated.
const DEDUP_TTL_MS: u64 = 24 * 3_600_000;

pub(crate) async fn run(
    State(app): State<App>,
    CanCreateRuns(caller): CanCreateRuns,
    InPath(agent): InPath<String>,
    KeyedBody(_, JsonBody(input)): KeyedBody<JsonBody<RunAgentInput>>,
) -> Result<Response, ApiError> {
    input::check(&input)?;
    if !input.resume.is_empty() {
        caller.clone().require(CanAnswer::ACCESS)?;
    }
    let target = AgUiTarget::find(&app.engine, caller.tenant(), &agent).await?;
    let permit = caller.open_stream(&app)?;
    let request = AgUiRequest { app: &app, caller: &caller, target: &target, input: &input };
    let content = app.engine.threads().repeat_input(|| request.try_execute()).await?;
    Ok(stream::response(&app, permit, stream_context(&caller, target, input), content))
}

fn stream_context(caller: &Caller, target: AgUiTarget, input: RunAgentInput) -> StreamContext {
    let client = if input.protocol_version.is_some() { ClientVersion::V1 } else { ClientVersion::V0 };
    let state = input.state.map_or_else(|| Value::Object(Map::new()), |given| given.0);
    let order = ClientOrder::new(input.messages.iter().filter_map(|message| message.id.as_deref()));
    let translator = Translator::new(&input.thread_id, &input.run_id, client, state);
    let translator = translator.with_parent(input.parent_run_id.clone());
    StreamContext { tenant: caller.tenant().clone(), thread: input.thread_id, target, translator, order }
}

/// A request with its caller and its target.
pub(super) struct AgUiRequest<'a> {
    pub app: &'a App,
    pub caller: &'a Caller,
    pub target: &'a AgUiTarget,
    pub input: &'a RunAgentInput,
}

/// The newest run of a thread.
pub(super) type LatestRun = Option<(RunRef, Arc<Run>)>;

impl AgUiRequest<'_> {
    /// Executes the request once. Returns None after a concurrent change.
    async fn try_execute(&self) -> Result<Option<StreamContent>, ApiError> {
        let (engine, thread) = (&self.app.engine, &self.input.thread_id);
        let latest = latest(self.app, self.caller, thread).await?;
        let history = self.read_history(engine).await?;
        let new = self.new_messages(engine, &history).await?;
        let open = latest.as_ref().filter(|(_, run)| !run.finished());
        if let Some((_, run)) = open.filter(|(_, run)| run.workflow.id != *self.target.workflow()) {
            let message =
                format!("run {} of another agent is open in this thread; wait until it has ended", run.id);
            return Ok(Some(StreamContent::Refused(AgUiViolation::new("THREAD_BUSY", message))));
        }
        let branch = match self.find_branch(&latest).await? {
            Ok(branch) => branch,
            Err(violation) => return Ok(Some(StreamContent::Refused(violation))),
        };
        if !self.input.resume.is_empty() {
            return self.resume(&latest, history, new).await;
        }
        match branch {
            None => self.deliver_input(&latest, history, new).await,
            Some(parent) => self.branch(&latest, &parent, history.until(&parent.id), new).await,
        }
    }

    /// Reads the last messages of the thread. The history has more messages if the client has more and lacks some.
    async fn read_history(&self, engine: &Engine) -> Result<History, ApiError> {
        let (tenant, thread) = (self.caller.tenant(), &self.input.thread_id);
        let source = ThreadSource { engine, tenant, thread, target: self.target };
        let history = source.read(RECENT_MESSAGES).await?;
        let shown = snapshot_size(self.input.messages.len());
        if shown > RECENT_MESSAGES && history.is_cut() && self.lacks_any(history.messages()) {
            return source.read(shown).await;
        }
        Ok(history)
    }

    /// Returns the messages that the thread does not have.
    async fn new_messages(&self, engine: &Engine, history: &History) -> Result<Vec<Message>, ApiError> {
        let mut new = input::unknown_messages(self.input, history, self.caller.name());
        if history.is_cut() {
            let (tenant, ids) = (self.caller.tenant(), new.iter().map(|message| message.id.as_str()));
            let known = engine.threads().input_ids(tenant, &self.input.thread_id, ids).await?;
            new.retain(|message| !known.contains(&message.id));
        }
        input::add_client_metadata(&mut new, self.input);
        Ok(new)
    }

    /// Adds the new messages to the open run, or starts a new run with them.
    pub(super) async fn deliver_input(
        &self,
        latest: &LatestRun,
        history: History,
        new: Vec<Message>,
    ) -> Result<Option<StreamContent>, ApiError> {
        let Some((of, run)) = latest.as_ref().filter(|(_, run)| !run.finished()) else {
            if new.is_empty() && (latest.is_some() || !history.is_empty()) {
                return Ok(latest.as_ref().map(|(of, run)| report_state(of.clone(), run)));
            }
            // The state of another agent is not taken over.
            let own = latest.as_ref().filter(|(_, run)| run.workflow.id == *self.target.workflow());
            return self.start(own.map(|(_, run)| run.as_ref()), history, new).await;
        };
        let own = interrupts::open_for_people(run).map(|asked| ids::interrupt_id(&run.id, asked.id));
        let below = run.child_interrupts().map(|(child, open)| open.name(&child.run));
        let open_ids: Vec<_> = own.chain(below).collect();
        if !open_ids.is_empty() {
            let message =
                format!("the thread has open interrupts; resume must address: {}", open_ids.join(", "));
            return Ok(Some(StreamContent::Refused(AgUiViolation::new("PENDING_INTERRUPTS", message))));
        }
        let results = self.client_tool_results(run)?;
        if !results.is_empty() {
            return self.deliver_results(of, run, results, history, &new).await;
        }
        match (new.is_empty(), SegmentEnd::of(run)) {
            (false, _) => self.add_messages(of, run, history, new).await,
            (true, Some(_)) => Ok(Some(report_state(of.clone(), run))),
            (true, None) => {
                let (tenant, thread) = (self.caller.tenant(), &self.input.thread_id);
                let source = ThreadSource { engine: &self.app.engine, tenant, thread, target: self.target };
                Ok(Some(join_run(of, run, source.read(MESSAGES_MAX).await?)))
            }
        }
    }

    /// Returns the answers to open calls of client tools, from the results in the input.
    pub(super) fn client_tool_results(&self, run: &Run) -> Result<BTreeMap<InterruptId, Answer>, ApiError> {
        let mut answers = BTreeMap::new();
        for (call, asked) in interrupts::client_tool_calls(run) {
            let Some(given) = input::result_of(self.input, &call) else { continue };
            let content = given.content.as_ref().map(|content| content.0.clone()).unwrap_or_default();
            let result = match &given.error {
                None => content,
                Some(error) => Map::from_iter([("error".to_owned(), error.0.clone())]).into(),
            };
            let mut answer = self.caller.answer(answers::resume(&result), None);
            answer.decision = Some(format!("ag-ui:result:{}", random_suffix()?));
            answers.insert(asked.id, answer);
        }
        Ok(answers)
    }

    async fn deliver_results(
        &self,
        of: &RunRef,
        run: &Run,
        answers: BTreeMap<InterruptId, Answer>,
        history: History,
        new: &[Message],
    ) -> Result<Option<StreamContent>, ApiError> {
        // In one change with the new messages: the run could end before a second change.
        let (engine, resolve) = (&self.app.engine, Command::Resolve { answers });
        let given = match new.is_empty() {
            true => engine.runs().execute(of, &resolve).await,
            false => {
                let once = self.dedup_request(of, new);
                engine.agents().execute_and_send(of, vec![resolve], new.to_vec(), Some(&once).into()).await
            }
        };
        match given {
            Ok(after) => {
                let opening = self.missing_history(history.with_new(run, new));
                Ok(Some(follow(of, run.clone(), after.seq, opening)))
            }
            Err(Error::Refused(refusal)) => {
                Ok(resume_plan::violation_of(&refusal).map(StreamContent::Refused))
            }
            // The messages were already added, or the run has ended: try again.
            Err(Error::Duplicate(_) | Error::NotFound("agent")) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Adds messages to the open run.
    async fn add_messages(
        &self,
        of: &RunRef,
        run: &Run,
        history: History,
        new: Vec<Message>,
    ) -> Result<Option<StreamContent>, ApiError> {
        match self
            .app
            .engine
            .agents()
            .send_messages(of, new.clone(), Some(&self.dedup_request(of, &new)).into())
            .await
        {
            Ok(after) => {
                let opening = self.missing_history(history.with_new(run, &new));
                Ok(Some(follow(of, run.clone(), after.seq, opening)))
            }
            Err(Error::NotFound("agent")) => Ok(Some(StreamContent::Refused(accepts_no_input(&of.run)))),
            Err(Error::Duplicate(_)) => Ok(None),
            Err(error) if error.is_thread_change(&self.input.thread_id) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Returns the idempotency request for these messages, so that messages that are sent twice are added once.
    pub(super) fn dedup_request(&self, of: &RunRef, new: &[Message]) -> Once<Run> {
        let names: Vec<&str> = new.iter().map(|one| one.id.as_str()).collect();
        let key =
            hex(&Sha256::digest(to_json(&(&self.input.thread_id, &of.run, names)).to_string().as_bytes()));
        let request = RequestKey {
            tenant: self.caller.tenant().clone(),
            operation: "ag-ui say".to_owned(),
            key_hash: key.clone(),
            body_hash: key,
            ttl_ms: DEDUP_TTL_MS,
        };
        Once { request, respond: Arc::new(|_| (204, String::new())) }
    }

    pub(super) async fn start(
        &self,
        previous: Option<&Run>,
        history: History,
        new: Vec<Message>,
    ) -> Result<Option<StreamContent>, ApiError> {
        self.start_after(previous, None, history, new).await
    }

    /// Starts a run that continues the previous one. With `branch_of`, the thread continues after that run.
    pub(super) async fn start_after(
        &self,
        previous: Option<&Run>,
        branch_of: Option<RunId>,
        history: History,
        new: Vec<Message>,
    ) -> Result<Option<StreamContent>, ApiError> {
        let engine = &self.app.engine;
        let owner = self.caller.owner();
        let mut state = state::initial_variables(previous, self.input.state.as_ref().map(|given| &given.0));
        if previous.is_some_and(is_provider_graph) {
            // The provider has the state of the last turn. Its input and output are not part of the next input.
            state.retain(|name, _| name != "input" && name != "output");
        }
        let thread = self.input.thread_id.clone();
        let mut start = self.caller.start(Transport::Agui);
        start.branch_of = branch_of;
        start.client_run = Some(self.input.run_id.clone());
        let started = match self.target {
            AgUiTarget::Agent { id, .. } => {
                start.inputs = state;
                let (agent, start) = (id.clone(), Some(Box::new(start)));
                let messages = new.clone();
                let request = AgentInput { agent, thread: Some(thread), messages, owner, start, once: None };
                engine.agents().start(request).await
            }
            AgUiTarget::Workflow(workflow) => {
                let props = self.input.forwarded_props.as_ref().map(|props| &props.0);
                start.inputs = input::inputs_of_workflow(state, props, &new);
                engine.threads().start(workflow, &thread, start, None).await
            }
        };
        let run = match started {
            Ok(run) => run,
            Err(error) if error.is_thread_change(&self.input.thread_id) => return Ok(None),
            Err(Error::ScopeBusy { active_run }) => {
                return Ok(Some(StreamContent::Refused(accepts_no_input(&active_run))));
            }
            Err(error) => return Err(error.into()),
        };
        let of = RunRef { tenant: self.caller.tenant().clone(), run: run.id.clone() };
        let initial = Run::new(run.id.clone(), run.workflow.clone());
        let opening = self.missing_history(history.with_new(&initial, &new));
        Ok(Some(follow(&of, initial, run.seq, opening)))
    }

    /// Returns whether the client lacks any of these messages, or has another text of the user.
    fn lacks_any<'m>(&self, mut messages: impl Iterator<Item = &'m wire::Message>) -> bool {
        let known: HashMap<&str, &InputMessage> =
            self.input.messages.iter().filter_map(|one| Some((one.id.as_deref()?, one))).collect();
        messages.any(|message| known.get(message.id()).is_none_or(|known| input::was_edited(known, message)))
    }

    /// Returns the snapshots that give the client the messages it lacks, or no events if it has all. A client keeps the
    /// order of its messages and appends others, so an empty snapshot comes first to make it accept the whole order.
    pub(super) fn missing_history(&self, history: History) -> Vec<Event> {
        if !self.lacks_any(history.messages()) {
            return Vec::new();
        }
        let empty = Event::MessagesSnapshot { messages: Vec::new() };
        let cleared = (!self.input.messages.is_empty()).then_some(empty);
        cleared.into_iter().chain([Event::MessagesSnapshot { messages: history.snapshot() }]).collect()
    }
}

pub(super) async fn latest(app: &App, caller: &Caller, thread: &str) -> Result<LatestRun, ApiError> {
    let Some(summary) = app.engine.threads().latest_run(caller.tenant(), thread).await? else {
        return Ok(None);
    };
    let of = RunRef { tenant: caller.tenant().clone(), run: summary.run };
    let run = app.engine.runs().get(&of).await?;
    Ok(Some((of, run)))
}

pub(super) fn accepts_no_input(run: &RunId) -> AgUiViolation {
    AgUiViolation::new(
        "THREAD_BUSY",
        format!("run {run} is open in this thread and accepts no messages; wait until it has ended"),
    )
}

/// Returns a stream of all events of a run after the state `from`.
pub(super) fn follow(of: &RunRef, from: Run, until: u64, opening: Vec<Event>) -> StreamContent {
    StreamContent::Follow(Box::new(LogSegment { of: of.clone(), from, until, state_only: false, opening }))
}

/// Returns a stream with only the state of a run, when it waits or has ended.
pub(super) fn report_state(of: RunRef, run: &Run) -> StreamContent {
    let from = run.clone();
    StreamContent::Follow(Box::new(LogSegment { of, from, until: 0, state_only: true, opening: Vec::new() }))
}

/// Returns a stream of a running run from its first event, after a snapshot of the earlier messages.
pub(super) fn join_run(of: &RunRef, run: &Run, history: History) -> StreamContent {
    let initial = Run::new(run.id.clone(), run.workflow.clone());
    let opening = vec![Event::MessagesSnapshot { messages: history.before_run(&run.id).snapshot() }];
    follow(of, initial, run.seq, opening)
}

pub(super) fn random_suffix() -> Result<String, ApiError> {
    let mut bytes = [0; 8];
    getrandom::fill(&mut bytes).map_err(ApiError::internal)?;
    Ok(hex(&bytes))
}
