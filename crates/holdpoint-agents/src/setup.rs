//! Builds the setup of an agent from its definition: the model, the tools and the rules. Caches it for each revision.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use holdpoint_core::agent::{AgentStep, ApprovalSettings, ToolCall};
use holdpoint_core::permission::PermissionDecision;
use holdpoint_core::workflow::{self, AGENT_PREFIX, DefinitionFlaw};
use holdpoint_core::{Run, RunRef, TenantId, Workflow, WorkflowId};
use holdpoint_engine::extension::{DecidedChange, Extension, HookFuture, NodeTypes, config_flaw};
use holdpoint_engine::outgoing::{Outgoing, OutgoingPolicy};
use holdpoint_engine::{EffectContext, Engine, Stop};
use serde_json::{Map, Value, json};

use super::connection::{ConnectionUser, Connections, fallback_field};
use super::definition::{AgentFlaw, Definition};
use super::history::ThreadHistory;
use super::model::{self, Model};
use super::node::AgentNode;
use super::rules::{ConnectionRules, stricter};
use super::tool::{
    self, McpServers, RequiredTools, ToolDependencies, ToolList, ToolOwner, ToolSpec, Toolbox, Tools,
    WorkflowTool,
};
use super::{edits, workflow_tools};

/// The type of agent nodes.
pub(crate) const NODE_TYPE: &str = "core.agent";
/// The id of the only node of the workflow that an agent is registered as.
pub(crate) const NODE: &str = "agent";
/// The default time that runs wait for a server that cannot be reached.
const OUTAGE_MS: u64 = 600_000;
/// The step of a node that records the revision of the agent that it names.
const PINNED_REVISION: &str = "agent";
/// The number of setups at which the cache is cleared.
const SETUPS_MAX: usize = 256;

/// The connections, tools and network policies of the agents of this process.
#[derive(Clone)]
pub struct AgentSettings {
    /// The operator's models, tool servers and tools, by name.
    pub connections: Connections,
    /// The tools of type `rust`, by name.
    pub rust: BTreeMap<String, Arc<dyn Toolbox>>,
    /// The HTTP client for models, which belong to the operator.
    pub models: Outgoing,
    /// The HTTP client for tools, whose addresses can come from definitions.
    pub tools: Outgoing,
    /// The folder that paths in connections are relative to.
    pub folder: Option<PathBuf>,
}

impl Default for AgentSettings {
    fn default() -> Self {
        Self {
            connections: Connections::default(),
            rust: BTreeMap::new(),
            models: Outgoing::new(OutgoingPolicy { allow_loopback: true, ..OutgoingPolicy::default() }),
            tools: Outgoing::new(OutgoingPolicy::default()),
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

/// The extension for agents: their settings, caches and MCP servers. Add it with
/// [`Options::extension`](holdpoint_engine::Options::extension).
#[derive(Debug, Default)]
pub struct AgentRuntime {
    pub(crate) settings: AgentSettings,
    pub(crate) history: ThreadHistory,
    setups: Mutex<HashMap<SetupKey, Arc<Setup>>>,
    /// The MCP servers that definitions share.
    mcp_servers: McpServers,
}

/// The key of a cached setup: a node in a revision of a workflow.
pub(crate) type SetupKey = (TenantId, WorkflowId, u64, String);

pub(crate) struct Setup {
    pub definition: Definition,
    pub model: Arc<dyn Model>,
    /// See [`Model::is_instant`]. False if the thread has a budget.
    pub instant: bool,
    tools: Tools,
}

impl fmt::Debug for Setup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Setup").field("agent", &self.definition.id).finish_non_exhaustive()
    }
}

/// Returns the runtime of an engine that has agent nodes. Only the extension adds their node type.
pub(crate) fn runtime(engine: &Engine) -> &AgentRuntime {
    engine.extension().expect("the extension that added the node type")
}

impl Extension for AgentRuntime {
    fn add_nodes(&self, types: &mut NodeTypes) {
        types.effect(NODE_TYPE, AgentNode);
    }

    fn check_change<'a>(&'a self, change: DecidedChange<'a>) -> Option<HookFuture<'a>> {
        edits::check(change)
    }
}

impl AgentRuntime {
    /// Returns the extension with these settings.
    pub fn new(settings: AgentSettings) -> Self {
        let mcp_servers = McpServers::new(settings.connections.programs_max);
        Self { settings, history: ThreadHistory::default(), setups: Mutex::default(), mcp_servers }
    }

    /// Returns the time in milliseconds that runs wait for a model or a tool server that cannot be reached.
    pub(crate) fn outage_ms(&self) -> u64 {
        self.settings.connections.outage_ms.unwrap_or(OUTAGE_MS)
    }

    pub(crate) fn prepare(
        &self,
        key: SetupKey,
        definition: &Map<String, Value>,
    ) -> Result<Arc<Setup>, AgentFlaw> {
        if let Some(setup) = self.setups.lock().unwrap_or_else(PoisonError::into_inner).get(&key) {
            return Ok(setup.clone());
        }
        let user = ConnectionUser { tenant: &key.0, workflow: &key.1 };
        let setup = Arc::new(self.build(&Value::Object(definition.clone()), user)?);
        let mut setups = self.setups.lock().unwrap_or_else(PoisonError::into_inner);
        if setups.len() >= SETUPS_MAX {
            setups.clear();
        }
        setups.insert(key, setup.clone());
        Ok(setup)
    }

    fn build(&self, definition: &Value, user: ConnectionUser<'_>) -> Result<Setup, AgentFlaw> {
        let definition = Definition::parse(definition)?;
        let settings = &self.settings;
        let tools = definition.tools.iter().enumerate();
        let tools = tools.map(|(at, tool)| settings.connections.resolve_tool(at, tool, user));
        let tools = tools.collect::<Result<Vec<_>, _>>()?;
        let folder = settings.folder.as_deref();
        let model = self.build_model(&definition, user)?;
        let dependencies = ToolDependencies {
            base: folder,
            outgoing: &settings.tools,
            rust: &settings.rust,
            mcp_servers: &self.mcp_servers,
        };
        let tools = Tools::from_connections(tools, dependencies)
            .map_err(|bad| AgentFlaw::new(bad.field, bad.message))?;
        // A budget depends on other runs, so that the call of the model is not repeatable.
        let instant = model.is_instant() && definition.thread_tokens_max.is_none();
        Ok(Setup { definition, model, instant, tools })
    }

    /// Builds the model of a definition, with its fallbacks and the source of its confidence.
    fn build_model(
        &self,
        definition: &Definition,
        user: ConnectionUser<'_>,
    ) -> Result<Arc<dyn Model>, AgentFlaw> {
        let settings = &self.settings;
        let resolved = settings.connections.resolve_models(&definition.model, user)?;
        let build = |(at, model): (usize, &Value)| {
            let field = at.checked_sub(1).map_or("model".to_owned(), fallback_field);
            model::from_definition(model, settings.folder.as_deref(), &settings.models)
                .map_err(|bad| AgentFlaw::new(format!("{field}.{}", bad.field), bad.message))
        };
        let models: Result<Vec<_>, _> = resolved.iter().enumerate().map(build).collect();
        let mut models = models?.into_iter();
        let first = models.next().ok_or_else(|| AgentFlaw::new("model", "is missing"))?;
        let model = model::with_fallbacks(first, models.collect());
        match definition.confidence {
            None => Ok(model),
            Some(rule) => {
                model::with_confidence(model, rule).map_err(|why| AgentFlaw::new("confidence", why))
            }
        }
    }
}

impl Setup {
    /// Returns a tool by its name. None if it does not exist or its server cannot be reached.
    pub(super) async fn tool(&self, engine: &Engine, tenant: &TenantId, name: &str) -> Option<Arc<ToolSpec>> {
        let own = self.workflow(name).map(std::slice::from_ref);
        let listed = match own {
            Some(tool) => workflow_tools::specs(engine, tenant, tool).await.ok()?,
            None => self.tools.list_required(tenant, self.tools.required_for(name)).await.specs,
        };
        listed.into_iter().find(|spec| spec.name == name)
    }

    /// Lists the tools that the next step needs. Returns `listed` if it contains them.
    pub(super) async fn list_tools(
        &self,
        context: &mut EffectContext,
        listed: ToolList,
        next: &AgentStep,
    ) -> Result<ToolList, Stop> {
        let needed = match next {
            AgentStep::Model => RequiredTools::All,
            AgentStep::Calls(ready) => {
                ready.iter().map(|call| self.required_for(call)).max().unwrap_or_default()
            }
            AgentStep::Overruled | AgentStep::Wait | AgentStep::Finish => RequiredTools::None,
        };
        if listed.covers(needed) {
            return Ok(listed);
        }
        if !self.tools.are_local() && !context.is_replay() {
            context.require_claim()?;
            self.commit_reply(context).await?;
        }
        let tenant = context.of().tenant;
        let mut list = self.tools.list_required(&tenant, needed).await;
        list.specs.extend(workflow_tools::specs(context.engine(), &tenant, self.tools.workflows()).await?);
        Ok(list)
    }

    fn required_for(&self, call: &ToolCall) -> RequiredTools {
        if call.client || call.run.is_some() {
            RequiredTools::Fixed
        } else {
            self.tools.required_for(&call.name)
        }
    }

    pub(super) fn workflow(&self, tool: &str) -> Option<&WorkflowTool> {
        self.tools.workflows().iter().find(|workflow| workflow.name == tool)
    }

    /// Commits the last reply of the model, so that a crash does not repeat a call that has a cost. Called before the
    /// agent waits. A reply that leads to the end of the turn or to an interrupt is committed with the outcome of the
    /// node.
    pub(super) async fn commit_reply(&self, context: &mut EffectContext) -> Result<(), Stop> {
        if self.instant || !context.has_pending_reply() { Ok(()) } else { context.commit_actions().await }
    }

    /// Returns the rules of the connection of each tool or tool server. None for one without rules of its own.
    pub(crate) fn tool_rules(&self) -> impl Iterator<Item = Option<&ConnectionRules>> {
        self.tools.rules().chain(self.tools.workflows().iter().map(|_| None))
    }

    /// Returns true if some tools start other runs.
    pub(crate) fn delegates(&self) -> bool {
        !self.tools.workflows().is_empty()
    }

    /// Returns the toolbox that a tool belongs to now.
    pub(super) fn owner(&self, tool: &str) -> Option<ToolOwner> {
        self.tools.owner(tool)
    }

    /// Evaluates the permission rules of the definition and of the tool's connection for a call. The stricter result
    /// applies.
    pub(super) fn judge(&self, tool: &str, primary: Option<&str>, arguments: &Value) -> PermissionDecision {
        let own = self.definition.permissions.evaluate(tool, primary, arguments);
        stricter(own, self.owner(tool).and_then(|owner| owner.judge(arguments)))
    }

    /// Returns true if every call of a tool is denied. Prompts omit such a tool.
    pub(super) fn hides(&self, tool: &str) -> bool {
        self.definition.permissions.always_denies(tool)
            || self.owner(tool).is_some_and(|owner| owner.is_hidden())
    }

    /// Returns the approval settings for calls of a tool: those of the definition combined with those of the tool's
    /// connection.
    pub(super) fn approval(&self, owner: Option<&ToolOwner>) -> Cow<'_, ApprovalSettings> {
        let own = &self.definition.approval;
        owner.and_then(ToolOwner::rules).map_or(Cow::Borrowed(own), |rules| rules.join(own))
    }
}

/// Returns the flaws of an agent node. Its config either declares an agent or names one.
pub(super) fn flaws(node: &workflow::Node) -> Vec<DefinitionFlaw> {
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
        (true, Some(name)) => vec![config_flaw(node, name, "cannot be combined with agentId")],
        (false, _) => vec![config_flaw(node, "agentId", "must name an agent")],
    }
}

/// Returns the id of the workflow that an agent is registered as.
pub fn workflow_id(agent: &str) -> Result<WorkflowId, AgentFlaw> {
    WorkflowId::parse(&format!("{AGENT_PREFIX}{agent}"))
        .map_err(|error| AgentFlaw::new("agentId", error.to_string()))
}

/// Returns the setup of the current node. A named agent keeps the revision that it had when the node began.
pub(super) async fn load(context: &mut EffectContext) -> Result<Arc<Setup>, Stop> {
    let tenant = context.of().tenant;
    let engine = context.engine().clone();
    let invalid = |flaw: AgentFlaw| Stop::failed("agent_unusable", flaw.to_string());
    if let Some(own) = declared_setup(&engine, &tenant, context.run(), context.node()) {
        return own.map_err(invalid);
    }
    let named = context.config().get("agentId").and_then(Value::as_str).unwrap_or_default().to_owned();
    let id = workflow_id(&named).map_err(invalid)?;
    let broken = |error: holdpoint_engine::Error| Stop::Broken(error.to_string());
    let (agent, of, from) = (id.clone(), tenant.clone(), engine.clone());
    let pinned = context.step(PINNED_REVISION, || async move {
        match from.workflows().latest(&of, &agent).await {
            Ok(Some(latest)) => Ok(json!({ "revision": latest.revision })),
            Ok(None) => Err(Stop::failed("agent_not_found", format!("there is no agent {named}"))),
            Err(error) => Err(Stop::Broken(error.to_string())),
        }
    });
    let revision = pinned.await?.get("revision").and_then(Value::as_u64).unwrap_or(1);
    let workflow = engine.workflows().revision(&tenant, &id, revision).await.map_err(broken)?;
    let node = workflow
        .nodes
        .first()
        .ok_or_else(|| Stop::failed("agent_unusable", "the workflow of the agent has no node"))?;
    let key = (tenant, id, revision, NODE.to_owned());
    runtime(&engine).prepare(key, &node.config).map_err(invalid)
}

/// Returns the setup of a node as [`load`] does, but from the record only. None if the node has not recorded a revision
/// or the definition is invalid now.
pub(super) async fn load_recorded(
    engine: &Engine,
    tenant: &TenantId,
    run: &Run,
    node: &workflow::Node,
) -> Result<Option<Arc<Setup>>, holdpoint_engine::Error> {
    if let Some(own) = declared_setup(engine, tenant, run, node) {
        return Ok(own.ok());
    }
    let named = node.config.get("agentId").and_then(Value::as_str).map(workflow_id);
    let pinned = run
        .node_state(&node.id)
        .and_then(|state| state.steps.get(PINNED_REVISION)?.get("revision")?.as_u64());
    let (Some(Ok(id)), Some(revision)) = (named, pinned) else { return Ok(None) };
    let workflow = engine.workflows().revision(tenant, &id, revision).await?;
    let key = (tenant.clone(), id, revision, NODE.to_owned());
    let prepared = workflow.nodes.first().map(|node| runtime(engine).prepare(key, &node.config));
    Ok(prepared.and_then(Result::ok))
}

/// Returns the setup of the agent that the config of a node declares. None if the config names an agent.
fn declared_setup(
    engine: &Engine,
    tenant: &TenantId,
    run: &Run,
    node: &workflow::Node,
) -> Option<Result<Arc<Setup>, AgentFlaw>> {
    let Workflow { id, revision, .. } = &*run.workflow;
    let key = || (tenant.clone(), id.clone(), *revision, node.id.to_string());
    node.config.contains_key("model").then(|| runtime(engine).prepare(key(), &node.config))
}

/// Returns true if the agent of a node can be executed without a claim until it calls a model that is not instant or
/// uses a tool that is not local. The earlier messages of a thread are final only after the run has started in it, so
/// they must be in the cache for an instant model.
pub(super) fn begins_without_claim(engine: &Engine, run: &Run, node: &workflow::Node) -> bool {
    let Some(started) = &run.started else { return false };
    let tenant = &started.owner.tenant;
    let of = || RunRef { tenant: tenant.clone(), run: run.id.clone() };
    let contains = |thread: &String| runtime(engine).history.contains(&of(), thread);
    let is_history_known = || started.thread.as_ref().is_none_or(contains);
    let Some(Ok(setup)) = declared_setup(engine, tenant, run, node) else { return false };
    !setup.instant || is_history_known()
}
