//! The operator's connections: models, tool servers and tools, with the tenants that may use them. Definitions refer to
//! them with `use`.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use holdpoint_core::workflow::AGENT_PREFIX;
use holdpoint_core::{TenantId, WorkflowId};
use holdpoint_engine::Tenants;
use serde_json::{Map, Value};

use super::definition::AgentFlaw;
use super::rules::ConnectionRules;
use super::tool::ToolOrigin;

/// Members that a model or a tool with `use` may have. All others are reserved for the operator: with them a definition
/// could send the operator's secrets to another server.
const MODEL_MEMBERS: [&str; 6] = ["use", "model", "temperature", "maxTokens", "options", FALLBACKS];
const TOOL_MEMBERS: [&str; 5] = ["use", "type", "name", "tools", "idempotent"];

/// The member of a model with the models that are called while it is not available.
pub(super) const FALLBACKS: &str = "fallbacks";
const FALLBACKS_MAX: usize = 8;

/// The connections of a server, by name.
#[derive(Clone, Debug, Default)]
pub struct Connections {
    /// The models.
    pub models: BTreeMap<String, Connection>,
    /// The tool servers and tools.
    pub tools: BTreeMap<String, Connection>,
    /// The number of programs of MCP connections that may run at a time; 32 if it is None.
    pub programs_max: Option<usize>,
    /// The time in milliseconds that runs wait for a model or a tool server that cannot be reached; ten minutes if it
    /// is None.
    pub outage_ms: Option<u64>,
}

/// A model, a tool server or a tool of the operator, with the tenants that may use it.
#[derive(Clone)]
pub struct Connection {
    settings: Map<String, Value>,
    tenants: Tenants,
    rules: Option<ConnectionRules>,
    /// The agent whose file declares the connection. No other agent may use it.
    agent: Option<String>,
}

impl fmt::Debug for Connection {
    // Settings may hold keys.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connection")
            .field("tenants", &self.tenants)
            .field("agent", &self.agent)
            .field("rules", &self.rules)
            .finish_non_exhaustive()
    }
}

/// The tenant and the workflow of the definition that refers to a connection.
#[derive(Clone, Copy)]
pub(super) struct ConnectionUser<'a> {
    pub tenant: &'a TenantId,
    pub workflow: &'a WorkflowId,
}

impl Connection {
    /// Parses the connection of a model from the operator's configuration: its settings, and the `tenants` that may
    /// use it (`["default"]` if the member is missing).
    pub fn model(value: Value) -> Result<Self, AgentFlaw> {
        let model = Self::tool(value)?;
        match model.rules {
            None => Ok(model),
            Some(_) => Err(AgentFlaw::new("permissions, approval", "are only valid for tool connections")),
        }
    }

    /// Parses the connection of a tool server or a tool: settings and `tenants` as for a model, and in `permissions`
    /// and `approval` the rules for its calls. Definitions cannot relax these rules.
    pub fn tool(value: Value) -> Result<Self, AgentFlaw> {
        let Value::Object(mut settings) = value else {
            return Err(AgentFlaw::new("", "must be an object"));
        };
        let rules = ConnectionRules::take(&mut settings)?;
        let tenants = settings.shift_remove("tenants").map(Tenants::try_from).transpose();
        let tenants = tenants.map_err(|bad| AgentFlaw::new("tenants", bad.message))?.unwrap_or_default();
        Ok(Self { settings, tenants, rules, agent: None })
    }

    /// Returns a connection that the file of an agent declares. Only that agent may use it, in the tenant `default`.
    pub fn of_agent(agent: &str, settings: Map<String, Value>) -> Self {
        Self { settings, tenants: Tenants::default(), rules: None, agent: Some(agent.to_owned()) }
    }

    /// Returns the settings of the model or the tool.
    pub fn settings(&self) -> &Map<String, Value> {
        &self.settings
    }

    fn admits(&self, user: ConnectionUser<'_>) -> bool {
        let is_its_agent = |agent: &String| user.workflow.as_str().strip_prefix(AGENT_PREFIX) == Some(agent);
        self.tenants.admit(user.tenant) && self.agent.as_ref().is_none_or(is_its_agent)
    }
}

impl Connections {
    /// Returns the model of a definition and its fallbacks, each with the settings of the connection that it names.
    pub(super) fn resolve_models(
        &self,
        model: &Value,
        user: ConnectionUser<'_>,
    ) -> Result<Vec<Value>, AgentFlaw> {
        let resolve = |field: &str, model: &Value| {
            resolve(field, model, &self.models, &MODEL_MEMBERS, user).map(|resolved| resolved.value)
        };
        let mut first = resolve("model", model)?;
        let is_inherited = model.get(FALLBACKS).is_none();
        let fallbacks = take_fallbacks(&mut first);
        let mut models = vec![first];
        for (at, fallback) in fallbacks_of(fallbacks.as_ref())?.iter().enumerate() {
            // The tenant can use a shared connection although the connection has fallbacks of other tenants.
            if is_inherited && self.is_foreign_model(fallback, user) {
                continue;
            }
            let mut model = resolve(&fallback_field(at), fallback)?;
            // A connection that is a fallback is used without its own fallbacks.
            take_fallbacks(&mut model);
            models.push(model);
        }
        Ok(models)
    }

    /// Returns true if a model names a connection that the definition may not use.
    fn is_foreign_model(&self, model: &Value, user: ConnectionUser<'_>) -> bool {
        let name = model.get("use").and_then(Value::as_str);
        name.and_then(|name| self.models.get(name)).is_some_and(|connection| !connection.admits(user))
    }

    /// Returns the tool at this index of a definition with the settings of the connection that it names, and the origin
    /// with the rules of that connection.
    pub(super) fn resolve_tool(
        &self,
        at: usize,
        tool: &Value,
        user: ConnectionUser<'_>,
    ) -> Result<(Value, Option<ToolOrigin>), AgentFlaw> {
        let ResolvedEntry { value, used } =
            resolve(&format!("tools[{at}]"), tool, &self.tools, &TOOL_MEMBERS, user)?;
        let origin = used.map(|(name, connection)| {
            let settings = &connection.settings;
            ToolOrigin {
                tool_name: settings.get("name").and_then(Value::as_str).unwrap_or(name).to_owned(),
                tools: settings.get("tools").cloned(),
                rules: connection.rules.as_ref().map(|rules| Arc::new(rules.named(name))),
                connection: name.to_owned(),
                tenant: user.tenant.clone(),
            }
        });
        Ok((value, origin))
    }
}

/// Returns the field of a fallback in a definition.
pub(super) fn fallback_field(at: usize) -> String {
    format!("model.{FALLBACKS}[{at}]")
}

/// Returns the fallbacks of a model.
pub(super) fn fallbacks_of(fallbacks: Option<&Value>) -> Result<&[Value], AgentFlaw> {
    let Some(fallbacks) = fallbacks else { return Ok(&[]) };
    let listed = fallbacks.as_array().filter(|all| all.len() <= FALLBACKS_MAX);
    listed.map(Vec::as_slice).ok_or_else(|| {
        let message = format!("must be a list of at most {FALLBACKS_MAX} models");
        AgentFlaw::new(format!("model.{FALLBACKS}"), message)
    })
}

fn take_fallbacks(model: &mut Value) -> Option<Value> {
    model.as_object_mut()?.shift_remove(FALLBACKS)
}

/// A model or a tool of a definition, and the connection that it uses.
struct ResolvedEntry<'a> {
    value: Value,
    used: Option<(&'a str, &'a Connection)>,
}

/// Merges the other members of an entry with `use` into the settings of the connection. A connection that the
/// definition may not use is rejected with the same message as one that does not exist.
fn resolve<'a>(
    field: &str,
    value: &Value,
    connections: &'a BTreeMap<String, Connection>,
    allowed: &[&str],
    user: ConnectionUser<'_>,
) -> Result<ResolvedEntry<'a>, AgentFlaw> {
    let Some(name) = value.get("use") else {
        return Ok(ResolvedEntry { value: value.clone(), used: None });
    };
    let known = name.as_str().and_then(|name| connections.get_key_value(name));
    let (name, connection) = known.filter(|(_, connection)| connection.admits(user)).ok_or_else(|| {
        let message = format!("{name} is not a connection of this server; see its configuration folder");
        AgentFlaw::new(format!("{field}.use"), message)
    })?;
    let given = || value.as_object().into_iter().flatten();
    if let Some((name, _)) = given().find(|(name, _)| !allowed.contains(&name.as_str())) {
        let message = format!("cannot be combined with use; only {} can", allowed.join(", "));
        return Err(AgentFlaw::new(format!("{field}.{name}"), message));
    }
    let settings = &connection.settings;
    if let (Some(own), Some(wanted)) = (settings.get("type"), value.get("type"))
        && own != wanted
    {
        let message = format!("must be {own}, the type of the connection, or be left out");
        return Err(AgentFlaw::new(format!("{field}.type"), message));
    }
    let mut merged = settings.clone();
    let own = given().filter(|(name, _)| *name != "use");
    merged.extend(own.map(|(name, value)| (name.clone(), value.clone())));
    Ok(ResolvedEntry { value: Value::Object(merged), used: Some((name, connection)) })
}

/// Rejects a definition that names a connection of an agent file. `own` is the agent whose file contains the
/// definition; the definition may name the connections of that file.
pub(crate) fn check_reserved_names(definition: &Value, own: Option<&str>) -> Result<(), AgentFlaw> {
    let own = own.map(|agent| format!("{AGENT_PREFIX}{agent}:"));
    let is_foreign = |value: &Value| {
        let name = value.get("use").and_then(Value::as_str).unwrap_or_default();
        name.starts_with(AGENT_PREFIX) && own.as_ref().is_none_or(|own| !name.starts_with(own.as_str()))
    };
    let model = definition.get("model");
    let fallbacks = model.and_then(|model| model.get(FALLBACKS)?.as_array()).into_iter().flatten();
    let fallbacks = fallbacks.enumerate().map(|(at, model)| (fallback_field(at), model));
    let models = model.map(|model| ("model".to_owned(), model)).into_iter().chain(fallbacks);
    let tools = definition.get("tools").and_then(Value::as_array).into_iter().flatten().enumerate();
    let tools = tools.map(|(at, tool)| (format!("tools[{at}]"), tool));
    match models.chain(tools).find(|(_, value)| is_foreign(value)) {
        None => Ok(()),
        Some((field, _)) => {
            let message = format!(
                "must not begin with {AGENT_PREFIX}: such connections belong to an agent file in the operator's \
                 folder, and only that file can use them"
            );
            Err(AgentFlaw::new(format!("{field}.use"), message))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn resolved(
        connections: &Connections,
        tool: Value,
        tenant: &str,
        workflow: &str,
    ) -> Result<Value, String> {
        let (tenant, workflow) = (TenantId::parse(tenant).unwrap(), WorkflowId::parse(workflow).unwrap());
        let user = ConnectionUser { tenant: &tenant, workflow: &workflow };
        connections.resolve_tool(0, &tool, user).map(|(merged, _)| merged).map_err(|flaw| flaw.to_string())
    }

    fn connections() -> Connections {
        let shell = json!({"type": "mcp", "command": ["sh"], "tools": ["read"]});
        let shared = json!({"type": "mcp", "url": "https://a.example/", "tenants": ["*"]});
        let file = json!({"type": "http", "url": "https://mail.example/"}).as_object().unwrap().clone();
        let tools = [
            ("shell".to_owned(), Connection::tool(shell).unwrap()),
            ("shared".to_owned(), Connection::tool(shared).unwrap()),
            ("agent:mailer:tool:0".to_owned(), Connection::of_agent("mailer", file)),
        ];
        Connections { tools: tools.into(), ..Connections::default() }
    }

    #[test]
    fn a_connection_of_other_tenants_is_rejected_like_one_that_does_not_exist() {
        let all = connections();
        let shell = json!({"use": "shell"});
        assert!(resolved(&all, shell.clone(), "default", "agent:pwn").is_ok());
        let foreign = resolved(&all, shell, "evil", "agent:pwn").unwrap_err();
        let missing = resolved(&all, json!({"use": "nothing"}), "evil", "agent:pwn").unwrap_err();
        assert_eq!(foreign, missing.replace("nothing", "shell"));
        // Other flaws of the entry do not reveal that the connection exists.
        let flawed =
            resolved(&all, json!({"use": "shell", "command": ["id"]}), "evil", "agent:pwn").unwrap_err();
        assert_eq!(flawed, foreign);
        let shared = resolved(&all, json!({"use": "shared"}), "evil", "agent:pwn").unwrap();
        assert_eq!(shared, json!({"type": "mcp", "url": "https://a.example/"}), "without tenants");
    }

    #[test]
    fn only_the_agent_of_a_file_can_use_the_connections_of_the_file() {
        let all = connections();
        let mailer = || json!({"use": "agent:mailer:tool:0"});
        assert!(resolved(&all, mailer(), "default", "agent:mailer").is_ok());
        for (tenant, workflow) in [
            ("evil", "agent:mailer"),
            ("default", "agent:mailer2"),
            ("default", "mailer"),
            ("default", "agent:pwn"),
            ("default", "agent:agent:mailer"),
        ] {
            let refused = resolved(&all, mailer(), tenant, workflow).unwrap_err();
            assert!(refused.contains("is not a connection of this server"), "{tenant} {workflow}: {refused}");
        }
    }

    fn models(model: &Value, tenant: &str) -> Result<Vec<Value>, String> {
        let connection = |value: Value| Connection::model(value).unwrap();
        let main =
            json!({"provider": "scripted", "steps": [], "tenants": ["*"], "fallbacks": [{"use": "backup"}]});
        let backup = json!({"provider": "scripted", "steps": [1], "fallbacks": [{"use": "main"}]});
        let models = [("main".to_owned(), connection(main)), ("backup".to_owned(), connection(backup))];
        let all = Connections { models: models.into(), ..Connections::default() };
        let (tenant, workflow) = (TenantId::parse(tenant).unwrap(), WorkflowId::parse("agent:a").unwrap());
        let user = ConnectionUser { tenant: &tenant, workflow: &workflow };
        all.resolve_models(model, user).map_err(|flaw| flaw.to_string())
    }

    #[test]
    fn a_fallback_of_a_connection_that_the_tenant_may_not_use_is_skipped() {
        let own = models(&json!({"use": "main"}), "evil").unwrap();
        assert_eq!(own, [json!({"provider": "scripted", "steps": []})]);
        let both = models(&json!({"use": "main"}), "default").unwrap();
        assert_eq!(both[1], json!({"provider": "scripted", "steps": [1]}), "without further fallbacks");
    }

    #[test]
    fn a_fallback_of_a_definition_must_be_a_connection_that_the_tenant_may_use() {
        let named = json!({"use": "main", "fallbacks": [{"use": "backup"}]});
        let foreign = models(&named, "evil").unwrap_err();
        assert!(foreign.starts_with("model.fallbacks[0].use: \"backup\" is not a connection"), "{foreign}");
        let own = json!({"use": "main", "fallbacks": [{"use": "main", "baseUrl": "https://evil.example"}]});
        let changed = models(&own, "evil").unwrap_err();
        assert!(changed.starts_with("model.fallbacks[0].baseUrl: cannot be combined with use"), "{changed}");
        let alone = models(&json!({"use": "main", "fallbacks": []}), "evil").unwrap();
        assert_eq!(alone, [json!({"provider": "scripted", "steps": []})]);
        let many = models(&json!({"use": "main", "fallbacks": vec![json!({"use": "main"}); 9]}), "default");
        assert!(many.unwrap_err().contains("at most 8 models"));
    }

    #[test]
    fn rules_of_a_connection_are_not_settings_and_models_have_none() {
        let ruled =
            json!({"type": "mcp", "command": ["sh"], "permissions": {"default": "deny"}, "approval": {}});
        let connection = Connection::tool(ruled.clone()).unwrap();
        assert_eq!(Value::Object(connection.settings().clone()), json!({"type": "mcp", "command": ["sh"]}));
        assert_eq!(Connection::model(ruled).unwrap_err().field, "permissions, approval");
    }

    #[test]
    fn a_definition_cannot_turn_a_connection_into_another_type() {
        let flaw =
            resolved(&connections(), json!({"use": "shell", "type": "http"}), "default", "w").unwrap_err();
        assert!(flaw.starts_with("tools[0].type: must be \"mcp\""), "{flaw}");
    }

    #[test]
    fn names_of_agent_files_are_reserved() {
        let tool = |name: &str| json!({"model": {"use": "main"}, "tools": [{"use": "shell"}, {"use": name}]});
        let field =
            |definition: &Value, own| check_reserved_names(definition, own).map_err(|flaw| flaw.field);
        assert_eq!(field(&tool("shell"), None), Ok(()));
        assert_eq!(field(&tool("agent:mailer:tool:0"), None), Err("tools[1].use".to_owned()));
        assert_eq!(field(&tool("agent:mailer:tool:0"), Some("mailer")), Ok(()));
        assert_eq!(field(&tool("agent:mailer:tool:0"), Some("mail")), Err("tools[1].use".to_owned()));
        let model = json!({"model": {"use": "agent:mailer:model"}});
        assert_eq!(field(&model, None), Err("model.use".to_owned()));
        let fallback =
            json!({"model": {"use": "main", "fallbacks": [{"use": "a"}, {"use": "agent:mailer:model"}]}});
        assert_eq!(field(&fallback, None), Err("model.fallbacks[1].use".to_owned()));
    }
}
