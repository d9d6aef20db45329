//! `POST /ag-ui/{agentId}`: what an input does to its thread. Whatever decides is the engine's; this looks where the
//! thread stands, asks for one thing, and looks again when somebody else was faster.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;
use holdpoint_api::agui::{self as wire, Event, RunAgentInput};
use holdpoint_core::agent::Message;
use holdpoint_core::{Answer, Command, InterruptId, Refusal, Run, RunId, RunRef, hex};
use holdpoint_engine::{Error, Once, RequestKey, Talk};
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};

use super::history::History;
use super::order::ClientOrder;
use super::resume::{self, Violation};
use super::stream::{self, Audience, Segment, Stretch};
use super::target::Target;
use super::translate::{Rest, Translator};
use super::{answers, ids, input, interrupts, state};
use crate::app::App;
use crate::auth::{Caller, CanAnswer, CanCreateRuns, Permission};
use crate::body::{Body, InPath};
use crate::error::ApiError;
use crate::idempotency::Keyed;
use crate::json::to_json;

/// How often somebody else may come in between.
const ATTEMPTS_MAX: usize = 16;
/// How long it is remembered what was told to a run at work.
const TOLD_MS: u64 = 24 * 3_600_000;

pub(crate) async fn run(
    State(app): State<App>,
    CanCreateRuns(caller): CanCreateRuns,
    InPath(agent): InPath<String>,
    Keyed(_, Body(input)): Keyed<Body<RunAgentInput>>,
) -> Result<Response, ApiError> {
    input::check(&input)?;
    if !input.resume.is_empty() {
        caller.clone().require(CanAnswer::ACCESS)?;
    }
    let target = Target::find(&app.engine, caller.tenant(), &agent).await?;
    let permit = caller.open_stream(&app)?;
    let asked = Asked { app: &app, caller: &caller, target: &target, input: &input };
    let segment = asked.carry_out().await?;
    let state =
        input.state.as_ref().map(|given| given.0.clone()).unwrap_or_else(|| Value::Object(Map::new()));
    let modern = input.protocol_version.is_some();
    let audience = Audience {
        tenant: caller.tenant().clone(),
        thread: input.thread_id.clone(),
        translator: Translator::new(&input.thread_id, &input.run_id, modern, state),
        order: ClientOrder::new(input.messages.iter().filter_map(|message| message.id.as_deref())),
        target,
    };
    Ok(stream::response(&app, permit, audience, segment))
}

/// A request, and the thread that it is about.
pub(super) struct Asked<'a> {
    pub app: &'a App,
    pub caller: &'a Caller,
    pub target: &'a Target,
    pub input: &'a RunAgentInput,
}

/// The newest run of the thread.
pub(super) type Latest = Option<(RunRef, Arc<Run>)>;

impl Asked<'_> {
    async fn carry_out(&self) -> Result<Segment, ApiError> {
        for _ in 0..ATTEMPTS_MAX {
            if let Some(segment) = self.attempt().await? {
                return Ok(segment);
            }
        }
        Err(Error::Busy.into())
    }

    /// Nothing when somebody else was faster.
    async fn attempt(&self) -> Result<Option<Segment>, ApiError> {
        let (engine, thread) = (&self.app.engine, &self.input.thread_id);
        let latest = latest(self.app, self.caller, thread).await?;
        let history = History::read(engine, self.caller.tenant(), thread, self.target).await?;
        let new = input::new_messages(self.input, &history, &self.caller.principal().name);
        let open = latest.as_ref().filter(|(_, run)| !run.finished());
        if let Some((_, run)) = open.filter(|(_, run)| run.workflow.id != *self.target.workflow()) {
            let message = format!("run {} of another agent is open in this thread", run.id);
            return Ok(Some(Segment::Refused(Violation::new("THREAD_BUSY", message))));
        }
        if !self.input.resume.is_empty() {
            return self.resume(&latest, history, new).await;
        }
        self.take_input(&latest, history, new).await
    }

    /// Tells new messages to the run that is open, or begins another one with them.
    pub(super) async fn take_input(
        &self,
        latest: &Latest,
        history: History,
        new: Vec<Message>,
    ) -> Result<Option<Segment>, ApiError> {
        let Some((of, run)) = latest.as_ref().filter(|(_, run)| !run.finished()) else {
            if new.is_empty() && (latest.is_some() || !history.is_empty()) {
                return Ok(latest.clone().map(restate));
            }
            // What another agent has in its state is its own.
            let own = latest.as_ref().filter(|(_, run)| run.workflow.id == *self.target.workflow());
            return self.start(own.map(|(_, run)| run.as_ref()), history, new).await;
        };
        let asks: Vec<_> = interrupts::open(run).map(|asked| ids::interrupt(&run.id, asked.id)).collect();
        if !asks.is_empty() {
            let message = format!("the thread waits for answers; resume it with: {}", asks.join(", "));
            return Ok(Some(Segment::Refused(Violation::new("PENDING_INTERRUPTS", message))));
        }
        let results = self.results(run)?;
        if !results.is_empty() {
            return self.give((of, run), results, history, &new).await;
        }
        match (new.is_empty(), Rest::of(run)) {
            (false, _) => self.tell((of, run), history, new).await,
            (true, Some(_)) => Ok(Some(restate((of.clone(), run.clone())))),
            (true, None) => Ok(Some(join(of, run, history))),
        }
    }

    /// What the client's own tools have returned to calls that wait for it.
    pub(super) fn results(&self, run: &Run) -> Result<BTreeMap<InterruptId, Answer>, ApiError> {
        let mut answers = BTreeMap::new();
        for (call, asked) in interrupts::of_client(run) {
            let Some(given) = input::result_of(self.input, &call) else { continue };
            let content = given.content.as_ref().map(|content| content.0.clone()).unwrap_or_default();
            let result = match &given.error {
                None => content,
                Some(error) => Map::from_iter([("error".to_owned(), error.0.clone())]).into(),
            };
            let mut answer = self.caller.answer(answers::resume(&result), None);
            answer.decision = Some(format!("ag-ui:result:{}", fresh()?));
            answers.insert(asked.id, answer);
        }
        Ok(answers)
    }

    async fn give(
        &self,
        (of, run): (&RunRef, &Arc<Run>),
        answers: BTreeMap<InterruptId, Answer>,
        history: History,
        new: &[Message],
    ) -> Result<Option<Segment>, ApiError> {
        // With the words: what the results carry on may be over before they come.
        let given = match new.is_empty() {
            true => self.app.engine.execute(of, &Command::Resolve { answers }).await,
            false => {
                let once = self.once_for(of, new);
                self.app.engine.answer_and_say(of, answers, new.to_vec(), Some(&once)).await
            }
        };
        match given {
            Ok(after) => {
                Ok(Some(follow(of, Run::clone(run), after.seq, self.remind(history.with(run, new)))))
            }
            Err(Error::Refused(refusal)) => Ok(resume::refused(&refusal).map(Segment::Refused)),
            // Said or over by now: look again.
            Err(Error::Duplicate(_) | Error::NotFound("agent")) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Says something to the run that is open.
    async fn tell(
        &self,
        (of, run): (&RunRef, &Arc<Run>),
        history: History,
        new: Vec<Message>,
    ) -> Result<Option<Segment>, ApiError> {
        match self.app.engine.say(of, new.clone(), Some(&self.once_for(of, &new))).await {
            Ok(after) => {
                Ok(Some(follow(of, Run::clone(run), after.seq, self.remind(history.with(run, &new)))))
            }
            Err(Error::NotFound("agent")) => Ok(Some(Segment::Refused(takes_no_input(&of.run)))),
            Err(Error::Duplicate(_) | Error::Refused(Refusal::RunFinished(_) | Refusal::NodeNotRunning)) => {
                Ok(None)
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Returns the request that adds these messages to a run. The same messages that are sent twice are added once.
    pub(super) fn once_for(&self, of: &RunRef, new: &[Message]) -> Once<Run> {
        let names: Vec<&str> = new.iter().map(|one| one.id.as_str()).collect();
        let key =
            hex(&Sha256::digest(to_json(&(&self.input.thread_id, &of.run, names)).to_string().as_bytes()));
        let request = RequestKey {
            tenant: self.caller.tenant().clone(),
            operation: "ag-ui say".to_owned(),
            key_hash: key.clone(),
            body_hash: key,
            ttl_ms: TOLD_MS,
        };
        Once { request, respond: Arc::new(|_| (204, String::new())) }
    }

    pub(super) async fn start(
        &self,
        previous: Option<&Run>,
        history: History,
        new: Vec<Message>,
    ) -> Result<Option<Segment>, ApiError> {
        let engine = &self.app.engine;
        let owner = self.caller.owner();
        let state = state::initial(previous, self.input.state.as_ref().map(|given| &given.0));
        let thread = self.input.thread_id.clone();
        let mut start = self.caller.start();
        let begun = match self.target {
            Target::Agent { id, .. } => {
                start.inputs = state;
                let (agent, start) = (id.clone(), Some(Box::new(start)));
                let talk = Talk { agent, thread: Some(thread), messages: new, owner, start, once: None };
                engine.start_agent(talk).await
            }
            Target::Workflow(workflow) => {
                let props = self.input.forwarded_props.as_ref().map(|props| &props.0);
                start.inputs = input::inputs_of_workflow(state, props, &new);
                engine.start_in_thread(workflow, &thread, start).await
            }
        };
        let run = match begun {
            Ok(run) => run,
            // A thread that is a run of a workflow's own has no others until that has ended.
            Err(Error::ScopeBusy { active_run }) if active_run.as_str() == self.input.thread_id => {
                return Ok(Some(Segment::Refused(takes_no_input(&active_run))));
            }
            Err(Error::ScopeBusy { .. }) => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        let of = RunRef { tenant: self.caller.tenant().clone(), run: run.id.clone() };
        let unborn = Run::unborn(run.id.clone(), run.workflow.clone());
        let mut opening = Vec::new();
        if self.lacks(&history.snapshot()) {
            let history =
                History::read(engine, self.caller.tenant(), &self.input.thread_id, self.target).await?;
            opening = self.remind(history.before(&run.id));
        }
        Ok(Some(follow(&of, unborn, run.seq, opening)))
    }

    /// Whether the client has forgotten any of it.
    fn lacks(&self, said: &[wire::Message]) -> bool {
        let known: BTreeSet<&str> = self.input.messages.iter().filter_map(|one| one.id.as_deref()).collect();
        said.iter().any(|message| !known.contains(message.id()))
    }

    /// What was said before goes first, where the client does not have it. Clients keep the place of what they have, and
    /// put the rest behind it; only one that has nothing takes the order from here.
    pub(super) fn remind(&self, messages: Vec<wire::Message>) -> Vec<Event> {
        if !self.lacks(&messages) {
            return Vec::new();
        }
        let nothing = Event::MessagesSnapshot { messages: Vec::new() };
        let cleared = (!self.input.messages.is_empty()).then_some(nothing);
        cleared.into_iter().chain([Event::MessagesSnapshot { messages }]).collect()
    }
}

pub(super) async fn latest(app: &App, caller: &Caller, thread: &str) -> Result<Latest, ApiError> {
    let found = app.engine.thread_runs(caller.tenant(), thread, None, 1).await?;
    let Some(summary) = found.into_iter().next() else { return Ok(None) };
    let of = RunRef { tenant: caller.tenant().clone(), run: summary.run };
    let run = app.engine.run(&of).await?;
    Ok(Some((of, run)))
}

pub(super) fn takes_no_input(run: &RunId) -> Violation {
    Violation::new(
        "THREAD_BUSY",
        format!("run {run} is open in this thread and accepts no messages; wait until it has ended"),
    )
}

/// From where a run stood, with everything that comes.
pub(super) fn follow(of: &RunRef, from: Run, until: u64, opening: Vec<Event>) -> Segment {
    Segment::Follow(Box::new(Stretch { of: of.clone(), from, until, quiet: false, opening }))
}

/// Where a run stands, once it does.
pub(super) fn restate((of, run): (RunRef, Arc<Run>)) -> Segment {
    let from = Run::clone(&run);
    Segment::Follow(Box::new(Stretch { of, from, until: 0, quiet: true, opening: Vec::new() }))
}

/// A run at work from its beginning, behind what was there before.
pub(super) fn join(of: &RunRef, run: &Run, history: History) -> Segment {
    let unborn = Run::unborn(run.id.clone(), run.workflow.clone());
    let opening = vec![Event::MessagesSnapshot { messages: history.before(&run.id) }];
    follow(of, unborn, run.seq, opening)
}

pub(super) fn fresh() -> Result<String, ApiError> {
    let mut bytes = [0; 8];
    getrandom::fill(&mut bytes).map_err(ApiError::internal)?;
    Ok(hex(&bytes))
}
