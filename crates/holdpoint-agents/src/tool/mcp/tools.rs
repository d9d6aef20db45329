//! The tools of an MCP server for one definition: the selected tools, their names and their settings.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use holdpoint_core::TenantId;
use holdpoint_core::permission::Glob;
use holdpoint_engine::extension::excerpt;
use rmcp::model::{CallToolRequestParams, JsonObject, Tool};
use serde_json::{Value, json};

use super::McpServer;
use super::session::TOOLS_MAX;
use crate::tool::definition::{BadTools, SCHEMA_BYTES_MAX, ToolDependencies, ToolMembers};
use crate::tool::set::ToolOrigin;
use crate::tool::{
    Call, CallFuture, CallOutcome, ListFuture, NAME_CHARS_MAX, ReachFuture, ToolError, ToolSpec, Toolbox,
};

const DESCRIPTION_BYTES_MAX: usize = 8 * 1024;

/// The tools of a server that one definition uses. Other definitions may use the same server.
pub(in crate::tool) struct McpTools {
    server: Arc<McpServer>,
    settings: McpToolSettings,
    /// The name of each tool at the server, by the name that models see. Updated with each list.
    names: Mutex<BTreeMap<String, String>>,
}

/// The definition's settings for the server's tools.
#[derive(Debug)]
struct McpToolSettings {
    /// The tools that the definition selects. None for all tools.
    tools: Option<Vec<Glob>>,
    /// The tools that the connection offers. The definition can select among them only.
    offered: Option<Vec<Glob>>,
    idempotent: Vec<Glob>,
    trust_annotations: bool,
    primary: BTreeMap<String, String>,
}

impl fmt::Debug for McpTools {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("McpTools").field("server", &self.server).finish_non_exhaustive()
    }
}

const KNOWN: [&str; 12] = [
    "type",
    "name",
    "command",
    "env",
    "url",
    "headers",
    "tools",
    "idempotent",
    "trustAnnotations",
    "primary",
    "timeoutMs",
    "idleMs",
];

impl McpTools {
    /// Parses an entry of a definition. Definitions of a tenant that use the same connection share its server.
    pub(in crate::tool) fn parse(
        members: &ToolMembers<'_>,
        name: &str,
        origin: Option<&ToolOrigin>,
        dependencies: ToolDependencies<'_>,
    ) -> Result<Self, BadTools> {
        if members.value("use").is_some() {
            return Err(members.bad("use", "names no known connection"));
        }
        members.reject_unknown(&KNOWN)?;
        let offered = origin.and_then(|origin| origin.tools.as_ref());
        let offered = offered.map(|globs| members.globs_of("tools", globs)).transpose()?;
        let settings = McpToolSettings {
            tools: members.globs("tools")?,
            offered,
            idempotent: members.globs("idempotent")?.unwrap_or_default(),
            trust_annotations: members.flag("trustAnnotations")?,
            primary: members.named_texts("primary")?,
        };
        let slots = dependencies.mcp_servers.slots();
        let server = match origin {
            None => Arc::new(McpServer::parse(members, name, dependencies, slots)?),
            Some(origin) => dependencies.mcp_servers.shared(&origin.tenant, &origin.connection, || {
                McpServer::parse(members, &origin.tool_name, dependencies, slots)
            })?,
        };
        Ok(Self { server, settings, names: Mutex::default() })
    }

    async fn list_tools(&self) -> Result<Vec<Arc<ToolSpec>>, ToolError> {
        let (tools, server) = (self.server.tools().await?, &self.server.name);
        if tools.len() > TOOLS_MAX {
            tracing::warn!(server, "the server has too many tools; only the first {TOOLS_MAX} are used");
        }
        let offered = tools.iter().take(TOOLS_MAX).filter(|tool| self.settings.allow(server, tool));
        let mut names = BTreeMap::new();
        let mut specs = Vec::new();
        for tool in offered {
            let spec = self.settings.spec(tool);
            // The first of two tools with the same name is used, as in `Tools`.
            if names.contains_key(&spec.name) {
                tracing::warn!(server, tool = spec.name, "skipping a tool: another tool has its name");
                continue;
            }
            names.insert(spec.name.clone(), tool.name.clone().into_owned());
            specs.push(Arc::new(spec));
        }
        *self.names.lock().unwrap_or_else(PoisonError::into_inner) = names;
        Ok(specs)
    }

    async fn call_tool(&self, call: &Call) -> Result<CallOutcome, ToolError> {
        let name = self.own_name(&call.name).await?;
        let arguments = match &call.arguments {
            Value::Object(arguments) => arguments.clone(),
            Value::Null => JsonObject::new(),
            _ => {
                return Err(ToolError::NotCalled(
                    "the arguments are wrong: they must be an object".to_owned(),
                ));
            }
        };
        let mut params = CallToolRequestParams::new(name).with_arguments(arguments);
        let key = JsonObject::from_iter([("idempotencyKey".to_owned(), json!(call.idempotency_key))]);
        params.meta = Some(key.into());
        self.server.call(params, &call.reporter).await
    }

    async fn own_name(&self, name: &str) -> Result<String, ToolError> {
        let known = || self.names.lock().unwrap_or_else(PoisonError::into_inner).get(name).cloned();
        if let Some(own) = known() {
            return Ok(own);
        }
        self.list_tools().await?;
        let missing = || format!("the MCP server {} has no tool {name}", self.server.name);
        known().ok_or_else(|| ToolError::NotCalled(missing()))
    }
}

impl Toolbox for McpTools {
    fn list<'a>(&'a self, _: &'a TenantId) -> ListFuture<'a> {
        Box::pin(self.list_tools())
    }

    fn reach(&self) -> ReachFuture<'_> {
        Box::pin(async { self.server.session().await.map(drop) })
    }

    fn call<'a>(&'a self, call: &'a Call) -> CallFuture<'a> {
        Box::pin(self.call_tool(call))
    }
}

impl McpToolSettings {
    fn allow(&self, server: &str, tool: &Tool) -> bool {
        let fits = |globs: &Vec<Glob>| globs.iter().any(|glob| glob.matches(&tool.name));
        let wanted = [&self.tools, &self.offered].into_iter().flatten().all(fits);
        if wanted && Value::Object((*tool.input_schema).clone()).to_string().len() > SCHEMA_BYTES_MAX {
            tracing::warn!(server, tool = %tool.name, "skipping a tool: its schema is too large");
            return false;
        }
        wanted
    }

    /// Builds the spec of a tool. Annotations of the server are used only with `trustAnnotations`.
    fn spec(&self, tool: &Tool) -> ToolSpec {
        let named = self.idempotent.iter().any(|glob| glob.matches(&tool.name));
        let hinted = tool
            .annotations
            .as_ref()
            .is_some_and(|hints| hints.idempotent_hint == Some(true) || hints.read_only_hint == Some(true));
        let description = tool.description.as_deref().unwrap_or_default();
        let mut parameters = (*tool.input_schema).clone();
        parameters.entry("type").or_insert_with(|| json!("object"));
        ToolSpec {
            name: model_safe_name(&tool.name),
            description: excerpt(description, DESCRIPTION_BYTES_MAX).to_owned(),
            parameters: Value::Object(parameters),
            idempotent: named || (self.trust_annotations && hinted),
            primary: self.primary.get(tool.name.as_ref()).cloned(),
        }
    }
}

/// Replaces the characters that models do not accept in a name, and truncates it.
fn model_safe_name(name: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() || c == '-' { c } else { '_' };
    let name: String = name.chars().map(plain).take(NAME_CHARS_MAX).collect();
    if name.is_empty() { "_".to_owned() } else { name }
}
