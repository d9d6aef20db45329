//! An agent's definition made ready: its model, its tools and its rules, once for each revision.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use holdpoint_core::agent::{Asking, Next, ToolCall};
use holdpoint_core::permission::Verdict;
use holdpoint_core::workflow::{self, AGENT_PREFIX, Flaw};
use holdpoint_core::{Run, RunRef, TenantId, Workflow, WorkflowId};
use serde_json::{Map, Value, json};

use super::connection::{Connections, User};
use super::definition::{AgentFlaw, Definition};
use super::earlier::Earlier;
use super::model::{self, Model};
use super::rules::stricter;
use super::tool::{self, Needed, Owner, Programs, Survey, ToolSpec, Toolbox, Tools, Workbench, WorkflowTool};
use super::workflows;
use crate::context::{EffectContext, Stop};
use crate::engine::Engine;
use crate::nodes::config_flaw;
use crate::outgoing::{Outgoing, Policy};

/// The node of a workflow that is an agent and nothing else.
pub(crate) const NODE: &str = "agent";
/// Time that runs wait for a server that is away, unless the operator says otherwise.
const OUTAGE_MS: u64 = 600_000;
/// The step of a node that records the revision of the agent that it names.
const PINNED: &str = "agent";
/// Definitions that are kept ready.
const READY_MAX: usize = 256;

/// What agents of this process can use.
#[derive(Clone)]
pub struct AgentSettings {
    /// The operator's models and servers of tools, by name.
    pub connections: Connections,
    /// Tools that this program has itself, by name.
    pub rust: BTreeMap<String, Arc<dyn Toolbox>>,
    /// How models are reached, which are the operator's, and how tools are that definitions name.
    pub models: Outgoing,
    pub tools: Outgoing,
    /// Where files are that connections name.
    pub folder: Option<PathBuf>,
}

impl Default for AgentSettings {
    fn default() -> Self {
        Self {
            connections: Connections::default(),
            rust: BTreeMap::new(),
            models: Outgoing::new(Policy { allow_loopback: true, ..Policy::default() }),
            tools: Outgoing::new(Policy::default()),
            folder: None,
        }
    }
}

impl fmt::Debug for AgentSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AgentSettings")
            .field("connections", &self.connections)
            .field("rust", &self.rust.keys())
            .finish_non_exhaustive()
    }
}

/// Definitions that were made ready lately.
#[derive(Debug, Default)]
pub(crate) struct Agents {
    pub settings: AgentSettings,
    pub earlier: Earlier,
    ready: Mutex<HashMap<Place, Arc<Setup>>>,
    /// The MCP servers that definitions share.
    programs: Programs,
}

/// A node of a revision of a workflow.
type Place = (TenantId, WorkflowId, u64, String);

pub(crate) struct Setup {
    pub definition: Definition,
    pub model: Arc<dyn Model>,
    /// See [`Model::is_instant`].
    pub instant: bool,
    tools: Tools,
}

impl fmt::Debug for Setup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Setup").field("agent", &self.definition.id).finish_non_exhaustive()
    }
}

impl Agents {
    pub(crate) fn new(settings: AgentSettings) -> Self {
        let programs = Programs::new(settings.connections.programs_max);
        Self { settings, earlier: Earlier::default(), ready: Mutex::default(), programs }
    }

    /// Returns how long runs wait for a model or a server of tools that is away.
    pub(crate) fn outage_ms(&self) -> u64 {
        self.settings.connections.outage_ms.unwrap_or(OUTAGE_MS)
    }

    fn prepare(&self, place: Place, definition: &Map<String, Value>) -> Result<Arc<Setup>, AgentFlaw> {
        if let Some(setup) = self.ready.lock().unwrap_or_else(PoisonError::into_inner).get(&place) {
            return Ok(setup.clone());
        }
        let user = User { tenant: &place.0, workflow: &place.1 };
        let setup = Arc::new(self.make(&Value::Object(definition.clone()), user)?);
        let mut ready = self.ready.lock().unwrap_or_else(PoisonError::into_inner);
        if ready.len() >= READY_MAX {
            ready.clear();
        }
        ready.insert(place, setup.clone());
        Ok(setup)
    }

    fn make(&self, definition: &Value, user: User<'_>) -> Result<Setup, AgentFlaw> {
        let definition = Definition::parse(definition)?;
        let settings = &self.settings;
        let model = settings.connections.resolve_model(&definition.model, user)?;
        let tools = definition.tools.iter().enumerate();
        let tools = tools.map(|(at, tool)| settings.connections.resolve_tool(at, tool, user));
        let tools = tools.collect::<Result<Vec<_>, _>>()?;
        let folder = settings.folder.as_deref();
        let model = model::from_definition(&model, folder, &settings.models)
            .map_err(|bad| AgentFlaw::new(format!("model.{}", bad.field), bad.message))?;
        let bench = Workbench {
            base: folder,
            outgoing: &settings.tools,
            rust: &settings.rust,
            programs: &self.programs,
        };
        let tools =
            Tools::from_connections(tools, bench).map_err(|bad| AgentFlaw::new(bad.field, bad.message))?;
        let instant = model.is_instant();
        Ok(Setup { definition, model, instant, tools })
    }
}

impl Setup {
    /// Returns a tool by its name. None if there is none, or if its server cannot be asked now.
    pub(super) async fn tool(&self, engine: &Engine, tenant: &TenantId, name: &str) -> Option<Arc<ToolSpec>> {
        let own = self.workflow(name).map(std::slice::from_ref);
        let listed = match own {
            Some(tool) => workflows::specs(engine, tenant, tool).await.ok()?,
            None => self.tools.survey(tenant, self.tools.needed_for(name)).await.specs,
        };
        listed.into_iter().find(|spec| spec.name == name)
    }

    /// Lists the tools that are needed next, if `listed` does not have them.
    pub(super) async fn survey(
        &self,
        context: &EffectContext,
        listed: Survey,
        next: &Next,
    ) -> Result<Survey, Stop> {
        let needed = match next {
            Next::Model => Needed::All,
            Next::Calls(ready) => ready.iter().map(|call| self.needed_for(call)).max().unwrap_or_default(),
            Next::Overruled | Next::Wait | Next::Finish => Needed::Nothing,
        };
        if listed.covers(needed) {
            return Ok(listed);
        }
        let tenant = tenant_of(context);
        let mut survey = self.tools.survey(&tenant, needed).await;
        survey.specs.extend(workflows::specs(context.engine(), &tenant, self.tools.workflows()).await?);
        Ok(survey)
    }

    fn needed_for(&self, call: &ToolCall) -> Needed {
        if call.client || call.run.is_some() { Needed::Fixed } else { self.tools.needed_for(&call.name) }
    }

    pub(super) fn workflow(&self, tool: &str) -> Option<&WorkflowTool> {
        self.tools.workflows().iter().find(|workflow| workflow.name == tool)
    }

    /// Whether the agent reaches nobody and waits for nothing but people.
    fn stays_inside(&self) -> bool {
        self.instant && self.tools.are_inside()
    }

    /// Returns the toolbox that a tool belongs to now.
    pub(super) fn owner(&self, tool: &str) -> Option<Owner> {
        self.tools.owner(tool)
    }

    /// Judges a call by the rules of the definition and those of the tool's connection: the stricter verdict holds.
    pub(super) fn judge(&self, tool: &str, primary: Option<&str>, arguments: &Value) -> Verdict {
        let own = self.definition.permissions.judge(tool, primary, arguments);
        stricter(own, self.owner(tool).and_then(|owner| owner.judge(arguments)))
    }

    /// Returns whether every call of a tool is denied, so that the model need not know of it.
    pub(super) fn hides(&self, tool: &str) -> bool {
        self.definition.permissions.hidden(tool) || self.owner(tool).is_some_and(|owner| owner.is_hidden())
    }

    /// Returns who is asked about calls of a tool, and how: by the definition joined with the tool's connection.
    pub(super) fn asking(&self, owner: Option<&Owner>) -> Cow<'_, Asking> {
        let own = &self.definition.asking;
        owner.and_then(Owner::rules).map_or(Cow::Borrowed(own), |rules| rules.join(own))
    }
}

/// Returns the tenant that a run belongs to. A run that is only replayed has no claim that says so.
fn tenant_of(context: &EffectContext) -> TenantId {
    context.started().map_or_else(|| context.of().tenant, |started| started.owner.tenant.clone())
}

/// What is wrong with a node of this type: it declares an agent, or names one.
pub(super) fn flaws(node: &workflow::Node) -> Vec<Flaw> {
    if node.config.contains_key("model") {
        let parsed = Definition::parse(&Value::Object(node.config.clone()));
        let flaw = match parsed {
            Ok(definition) => tool::schema_flaw(&definition.tools).map(|bad| (bad.field, bad.message)),
            Err(flaw) => Some((flaw.field, flaw.message)),
        };
        return flaw.into_iter().map(|(field, message)| config_flaw(node, &field, message)).collect();
    }
    let named = node.config.get("agentId").and_then(Value::as_str).is_some_and(|id| !id.is_empty());
    let other = node.config.keys().find(|name| *name != "agentId");
    match (named, other) {
        (true, None) => Vec::new(),
        (true, Some(name)) => vec![config_flaw(node, name, "is not known beside agentId")],
        (false, _) => vec![config_flaw(node, "agentId", "must name an agent")],
    }
}

/// The workflow that an agent is registered as.
pub(crate) fn workflow_id(agent: &str) -> Result<WorkflowId, AgentFlaw> {
    WorkflowId::parse(&format!("{AGENT_PREFIX}{agent}"))
        .map_err(|error| AgentFlaw::new("agentId", error.to_string()))
}

/// The agent of the node that is entered. One that is named stays what it was when the node began.
pub(super) async fn of(context: &mut EffectContext) -> Result<Arc<Setup>, Stop> {
    let tenant = tenant_of(context);
    let engine = context.engine().clone();
    let invalid = |flaw: AgentFlaw| Stop::failed("agent_unusable", flaw.to_string());
    if let Some(own) = own(&engine, &tenant, context.run(), context.node()) {
        return own.map_err(invalid);
    }
    let named = context.config().get("agentId").and_then(Value::as_str).unwrap_or_default().to_owned();
    let id = workflow_id(&named).map_err(invalid)?;
    let broken = |error: crate::Error| Stop::Broken(error.to_string());
    let (asked, of, from) = (id.clone(), tenant.clone(), engine.clone());
    let pinned = context.step(PINNED, || async move {
        match from.latest_revision(&of, &asked).await {
            Ok(Some(revision)) => Ok(json!({ "revision": revision })),
            Ok(None) => Err(Stop::failed("agent_not_found", format!("there is no agent {named}"))),
            Err(error) => Err(Stop::Broken(error.to_string())),
        }
    });
    let revision = pinned.await?.get("revision").and_then(Value::as_u64).unwrap_or(1);
    let workflow = engine.workflow_revision(&tenant, &id, revision).await.map_err(broken)?;
    let node = workflow.nodes.first().ok_or_else(|| Stop::failed("agent_unusable", "it has no node"))?;
    let place = (tenant, id, revision, NODE.to_owned());
    engine.agents().prepare(place, &node.config).map_err(invalid)
}

/// Returns the agent of a node that is or was entered: as [`of`] has it, from what is on record. None if nothing is.
pub(super) async fn recorded(
    engine: &Engine,
    tenant: &TenantId,
    run: &Run,
    node: &workflow::Node,
) -> Result<Option<Arc<Setup>>, crate::Error> {
    if let Some(own) = own(engine, tenant, run, node) {
        return Ok(own.ok());
    }
    let named = node.config.get("agentId").and_then(Value::as_str).map(workflow_id);
    let pinned =
        run.node_state(&node.id).and_then(|state| state.steps.get(PINNED)?.get("revision")?.as_u64());
    let (Some(Ok(id)), Some(revision)) = (named, pinned) else { return Ok(None) };
    let workflow = engine.workflow_revision(tenant, &id, revision).await?;
    let place = (tenant.clone(), id, revision, NODE.to_owned());
    let prepared = workflow.nodes.first().map(|node| engine.agents().prepare(place, &node.config));
    Ok(prepared.and_then(Result::ok))
}

/// The agent that a node declares itself; nothing where it names one.
fn own(
    engine: &Engine,
    tenant: &TenantId,
    run: &Run,
    node: &workflow::Node,
) -> Option<Result<Arc<Setup>, AgentFlaw>> {
    let Workflow { id, revision, .. } = &*run.workflow;
    let place = || (tenant.clone(), id.clone(), *revision, node.id.to_string());
    node.config.contains_key("model").then(|| engine.agents().prepare(place(), &node.config))
}

/// Whether the agent of a node can go on without anything outside. What was said before in a thread is not certain before
/// the run has its place there.
pub(super) fn stays_inside(engine: &Engine, run: &Run, node: &workflow::Node) -> bool {
    let Some(started) = &run.started else { return false };
    let tenant = &started.owner.tenant;
    let of = || RunRef { tenant: tenant.clone(), run: run.id.clone() };
    let certain = started.thread.is_none() || engine.agents().earlier.knows(&of());
    certain && own(engine, tenant, run, node).is_some_and(|own| own.is_ok_and(|own| own.stays_inside()))
}
