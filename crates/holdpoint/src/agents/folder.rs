//! The operator's folder of agents: connections, and agents that are registered at the start. Definitions in this folder
//! may have members that no API caller may write: keys, addresses of models, programs. The loader keeps these in this
//! process; the registered definition refers to them by name.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow, bail};
use holdpoint_agents::{AgentFlaw, Connection, Connections, EngineAgents};
use holdpoint_core::{Refusal, TenantId, parse_strict};
use holdpoint_engine::{Engine, Error};
use serde_json::{Map, Value};

use crate::config::InvalidFiles;

const CONNECTIONS: &str = "connections.json";
/// The largest `outageMs`: a week.
const OUTAGE_MS_MAX: u64 = 7 * 24 * 3_600_000;
/// The largest `programsMax`.
const PROGRAMS_MAX: u64 = 1000;
/// Prefix of the names of connections that are made from definitions.
const CONNECTION_PREFIX: &str = "agent:";
/// Members of a model, and of a tool, that only an operator may write.
const MODEL_OPERATOR_MEMBERS: [&str; 4] = ["apiKey", "baseUrl", "headers", "file"];
const TOOL_OPERATOR_MEMBERS: [&str; 2] = ["command", "env"];

type ParseConnection = fn(Value) -> Result<Connection, AgentFlaw>;

#[derive(Debug, Default)]
pub(crate) struct AgentFolder {
    pub connections: Connections,
    agents: Vec<(PathBuf, Value)>,
    flawed: Vec<String>,
}

/// Reads a folder, before the engine is opened. Invalid connections stop the start: agents would have no models.
pub(crate) fn read(folder: &Path) -> anyhow::Result<AgentFolder> {
    let paths = holdpoint_cli::values::json_files(folder)
        .with_context(|| format!("cannot read --agents {}", folder.display()))?;
    let mut read = AgentFolder::default();
    for path in paths {
        let bytes = std::fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?;
        let parsed = parse_strict(&bytes).map_err(|error| format!("is not valid JSON: {error}"));
        if path.file_name().is_some_and(|name| name == CONNECTIONS) {
            let taken = parsed.and_then(|value| read.add_connections(value));
            taken.map_err(|why| anyhow!("{}: {why}", path.display()))?;
            continue;
        }
        match parsed.and_then(|value| read.add_agent(value)) {
            Ok(definition) => read.agents.push((path, definition)),
            Err(why) => read.flawed.push(format!("{}: {why}", path.display())),
        }
    }
    Ok(read)
}

impl AgentFolder {
    /// Registers the agents. With [`InvalidFiles::Skip`], invalid definitions are logged.
    pub(crate) async fn register(
        self,
        engine: &Engine,
        tenant: &TenantId,
        invalid: InvalidFiles,
    ) -> anyhow::Result<()> {
        let (files, mut flawed) = (self.agents.len() + self.flawed.len(), self.flawed);
        for (path, definition) in self.agents {
            match engine.agents().put_of_file(tenant, definition).await {
                Ok(made) => tracing::info!(id = %made.workflow.id, stored = made.stored, "agent registered"),
                Err(Error::Refused(Refusal::InvalidRequest { field, message })) => {
                    flawed.push(format!("{}: {field}: {message}", path.display()));
                }
                Err(Error::InvalidWorkflow(flaws)) => {
                    let lines: Vec<String> = flaws.iter().map(ToString::to_string).collect();
                    flawed.push(format!("{}: {}", path.display(), lines.join("; ")));
                }
                Err(other) => return Err(other.into()),
            }
        }
        let summary = format!("{} of {files} agent files were not registered", flawed.len());
        if invalid == InvalidFiles::Stop && !flawed.is_empty() {
            bail!("{summary}:\n  {}", flawed.join("\n  "));
        }
        for flaw in &flawed {
            tracing::error!("an agent was not registered: {flaw}");
        }
        if !flawed.is_empty() {
            tracing::error!("{summary}; with --strict the server does not start");
        }
        Ok(())
    }

    fn add_connections(&mut self, value: Value) -> Result<(), String> {
        for (kind, named) in object("the file", value)? {
            let (known, parse): (_, ParseConnection) = match kind.as_str() {
                "models" => (&mut self.connections.models, Connection::model),
                "tools" => (&mut self.connections.tools, Connection::tool),
                "programsMax" => {
                    let most = named.as_u64().filter(|most| (1..=PROGRAMS_MAX).contains(most));
                    let most = most.and_then(|most| usize::try_from(most).ok());
                    let wrong = || format!("programsMax: must be a whole number from 1 to {PROGRAMS_MAX}");
                    self.connections.programs_max = Some(most.ok_or_else(wrong)?);
                    continue;
                }
                "outageMs" => {
                    let most = named.as_u64().filter(|most| (1..=OUTAGE_MS_MAX).contains(most));
                    let wrong = || format!("outageMs: must be a whole number from 1 to {OUTAGE_MS_MAX}");
                    self.connections.outage_ms = Some(most.ok_or_else(wrong)?);
                    continue;
                }
                _ => {
                    return Err(format!(
                        "{kind}: is unknown; known members: models, tools, programsMax, outageMs"
                    ));
                }
            };
            for (name, connection) in object(&kind, named)? {
                if name.starts_with(CONNECTION_PREFIX) {
                    return Err(format!("{kind}.{name}: must not begin with {CONNECTION_PREFIX}"));
                }
                let connection = parse(connection).map_err(|flaw| {
                    let place = [kind.as_str(), &name, &flaw.field].join(".");
                    format!("{}: {}", place.trim_end_matches('.'), flaw.message)
                })?;
                known.insert(name, connection);
            }
        }
        Ok(())
    }

    /// Moves the members that only an operator may write into connections, and returns the definition to register.
    fn add_agent(&mut self, value: Value) -> Result<Value, String> {
        let mut definition = object("the file", value)?;
        let id = definition.get("agentId").and_then(Value::as_str).unwrap_or_default().to_owned();
        if id.is_empty() {
            return Err("agentId: is missing".to_owned());
        }
        if let Some(model) = definition.get_mut("model") {
            let own = MODEL_OPERATOR_MEMBERS.iter().find(|member| model.get(**member).is_some()).copied();
            let place =
                OperatorPart { agent: &id, field: "model", name: format!("{CONNECTION_PREFIX}{id}:model") };
            place.extract_connection(own, model, &mut self.connections.models)?;
        }
        let tools = definition.get_mut("tools").and_then(Value::as_array_mut);
        for (at, tool) in tools.into_iter().flatten().enumerate() {
            let (field, name) = (format!("tools[{at}]"), format!("{CONNECTION_PREFIX}{id}:tool:{at}"));
            let place = OperatorPart { agent: &id, field: &field, name };
            place.extract_connection(operator_member(tool), tool, &mut self.connections.tools)?;
        }
        Ok(Value::Object(definition))
    }
}

/// Returns the first member of a tool that only an operator may write. `headers` is such a member if a header refers to
/// a secret.
fn operator_member(tool: &Value) -> Option<&'static str> {
    let secret = |headers: &Value| headers.as_object().is_some_and(|all| all.values().any(Value::is_object));
    let plain = TOOL_OPERATOR_MEMBERS.iter().find(|member| tool.get(**member).is_some()).copied();
    plain.or_else(|| tool.get("headers").is_some_and(secret).then_some("headers"))
}

/// A model or a tool in the file of an agent, and the name of the connection that replaces it.
struct OperatorPart<'a> {
    agent: &'a str,
    field: &'a str,
    name: String,
}

impl OperatorPart<'_> {
    /// Replaces a value that has `own`, a member only an operator may write, by the name of a new connection.
    fn extract_connection(
        self,
        own: Option<&str>,
        value: &mut Value,
        connections: &mut BTreeMap<String, Connection>,
    ) -> Result<(), String> {
        let (Some(own), Some(settings)) = (own, value.as_object()) else { return Ok(()) };
        if settings.contains_key("use") {
            let field = self.field;
            return Err(format!("{field}.{own}: cannot be combined with use; set it in {CONNECTIONS}"));
        }
        let mut named = Map::from_iter([("use".to_owned(), Value::from(self.name.as_str()))]);
        named.extend(settings.get("type").map(|kind| ("type".to_owned(), kind.clone())));
        connections.insert(self.name, Connection::of_agent(self.agent, settings.clone()));
        *value = named.into();
        Ok(())
    }
}

fn object(field: &str, value: Value) -> Result<Map<String, Value>, String> {
    match value {
        Value::Object(members) => Ok(members),
        _ => Err(format!("{field}: must be an object")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn members_that_only_an_operator_may_write_stay_in_this_process() {
        let mut folder = AgentFolder::default();
        let model =
            json!({"provider": "openai", "baseUrl": "http://127.0.0.1:1/v1", "apiKey": {"env": "KEY"}});
        let tools = json!([
            {"type": "http", "name": "a", "url": "https://a.example/", "headers": {"x": "y"}},
            {"type": "mcp", "name": "b", "command": ["serve"]},
            {"type": "http", "name": "c", "url": "https://c.example/", "headers": {"x": {"env": "KEY"}}},
        ]);
        let definition = json!({"agentId": "mailer", "model": model, "tools": tools});
        let registered = folder.add_agent(definition).unwrap();
        assert_eq!(registered["model"], json!({"use": "agent:mailer:model"}));
        assert_eq!(registered["tools"][0], tools[0], "members that callers may write stay in the definition");
        assert_eq!(registered["tools"][1], json!({"type": "mcp", "use": "agent:mailer:tool:1"}));
        assert_eq!(registered["tools"][2], json!({"type": "http", "use": "agent:mailer:tool:2"}));
        let made = |connection: &Connection| Value::Object(connection.settings().clone());
        assert_eq!(made(&folder.connections.models["agent:mailer:model"]), model);
        assert_eq!(made(&folder.connections.tools["agent:mailer:tool:1"]), tools[1]);
        assert_eq!(made(&folder.connections.tools["agent:mailer:tool:2"]), tools[2]);
    }

    #[test]
    fn flaws_name_the_member() {
        let mut folder = AgentFolder::default();
        let beside = json!({"agentId": "mailer", "model": {"use": "main", "apiKey": {"env": "KEY"}}});
        assert!(folder.add_agent(beside).unwrap_err().starts_with("model.apiKey: "));
        assert!(folder.add_agent(json!({"model": {}})).unwrap_err().starts_with("agentId: "));
        for (connections, field) in [
            (json!([]), "the file: "),
            (json!({"models": []}), "models: "),
            (json!({"models": {"main": "gpt"}}), "models.main: "),
            (json!({"models": {"main": {"tenants": "*"}}}), "models.main.tenants: "),
            (json!({"tools": {"shell": {"tenants": []}}}), "tools.shell.tenants: "),
            (json!({"tools": {"agent:x:tool:0": {}}}), "tools.agent:x:tool:0: "),
            (
                json!({"tools": {"shell": {"approval": {"approversList": []}}}}),
                "tools.shell.approval.approversList: ",
            ),
            (
                json!({"tools": {"shell": {"permissions": {"default": "no"}}}}),
                "tools.shell.permissions.default: ",
            ),
            (json!({"models": {"main": {"approval": {}}}}), "models.main.permissions, approval: "),
            (json!({"programsMax": 0}), "programsMax: "),
            (json!({"outageMs": 0}), "outageMs: "),
            (json!({"outageMs": "long"}), "outageMs: "),
            (json!({"model": {}}), "model: "),
        ] {
            let why = folder.add_connections(connections.clone()).unwrap_err();
            assert!(why.starts_with(field), "{connections}: {why}");
        }
    }
}
