//! The tools of a server as one definition offers them: which of them, under which names, and what it says of them.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use holdpoint_core::TenantId;
use holdpoint_core::permission::Glob;
use rmcp::model::{CallToolRequestParams, JsonObject, Tool};
use serde_json::{Value, json};

use super::Server;
use super::session::TOOLS_MAX;
use crate::agent::tool::cut::excerpt;
use crate::agent::tool::definition::{BadTools, Members, SCHEMA_BYTES_MAX, Workbench};
use crate::agent::tool::set::Origin;
use crate::agent::tool::{
    Call, Calling, Listing, NAME_CHARS_MAX, Reaching, Returned, ToolError, ToolSpec, Toolbox,
};

const DESCRIPTION_BYTES_MAX: usize = 8 * 1024;

/// The tools of a server, which other definitions may use too.
pub(in crate::agent::tool) struct Offer {
    server: Arc<Server>,
    rules: Rules,
    /// From the names that models get to those of the server, as of the last list.
    names: Mutex<BTreeMap<String, String>>,
}

/// The definition's settings for the server's tools.
#[derive(Debug)]
struct Rules {
    /// None for all tools.
    tools: Option<Vec<Glob>>,
    /// The tools that the connection offers. The definition can choose among them only.
    offered: Option<Vec<Glob>>,
    idempotent: Vec<Glob>,
    trust_annotations: bool,
    primary: BTreeMap<String, String>,
}

impl fmt::Debug for Offer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Offer").field("server", &self.server).finish_non_exhaustive()
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

impl Offer {
    /// Reads an entry of a definition. Definitions of a tenant that use the same connection share its server.
    pub(in crate::agent::tool) fn parse(
        members: &Members<'_>,
        name: &str,
        origin: Option<&Origin>,
        bench: Workbench<'_>,
    ) -> Result<Self, BadTools> {
        if members.value("use").is_some() {
            return Err(members.bad("use", "names a connection, and there is none of that name"));
        }
        members.only(&KNOWN)?;
        let offered = origin.and_then(|origin| origin.tools.as_ref());
        let offered = offered.map(|globs| members.globs_of("tools", globs)).transpose()?;
        let rules = Rules {
            tools: members.globs("tools")?,
            offered,
            idempotent: members.globs("idempotent")?.unwrap_or_default(),
            trust_annotations: members.flag("trustAnnotations")?,
            primary: members.named_texts("primary")?,
        };
        let places = bench.programs.places();
        let server = match origin {
            None => Arc::new(Server::parse(members, name, bench, places)?),
            Some(origin) => bench.programs.shared(&origin.tenant, &origin.connection, || {
                Server::parse(members, &origin.tool_name, bench, places)
            })?,
        };
        Ok(Self { server, rules, names: Mutex::default() })
    }

    async fn listed(&self) -> Result<Vec<Arc<ToolSpec>>, ToolError> {
        let (tools, server) = (self.server.tools().await?, &self.server.name);
        if tools.len() > TOOLS_MAX {
            tracing::warn!(server, "only the first {TOOLS_MAX} tools are taken");
        }
        let offered = tools.iter().take(TOOLS_MAX).filter(|tool| self.rules.allow(server, tool));
        let mut names = BTreeMap::new();
        let mut specs = Vec::new();
        for tool in offered {
            let spec = self.rules.spec(tool);
            // Of two that cannot be told apart the first is meant, here as in the list of all tools.
            if names.contains_key(&spec.name) {
                tracing::warn!(server, tool = spec.name, "a tool is left out: another one has its name");
                continue;
            }
            names.insert(spec.name.clone(), tool.name.clone().into_owned());
            specs.push(Arc::new(spec));
        }
        *self.names.lock().unwrap_or_else(PoisonError::into_inner) = names;
        Ok(specs)
    }

    async fn carry_out(&self, call: &Call) -> Result<Returned, ToolError> {
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
        self.server.call(params).await
    }

    async fn own_name(&self, name: &str) -> Result<String, ToolError> {
        let known = || self.names.lock().unwrap_or_else(PoisonError::into_inner).get(name).cloned();
        if let Some(own) = known() {
            return Ok(own);
        }
        self.listed().await?;
        let missing = || format!("the MCP server {} has no tool {name}", self.server.name);
        known().ok_or_else(|| ToolError::NotCalled(missing()))
    }
}

impl Toolbox for Offer {
    fn list<'a>(&'a self, _: &'a TenantId) -> Listing<'a> {
        Box::pin(self.listed())
    }

    fn reach(&self) -> Reaching<'_> {
        Box::pin(async { self.server.session().await.map(drop) })
    }

    fn call<'a>(&'a self, call: &'a Call) -> Calling<'a> {
        Box::pin(self.carry_out(call))
    }
}

impl Rules {
    fn allow(&self, server: &str, tool: &Tool) -> bool {
        let fits = |globs: &Vec<Glob>| globs.iter().any(|glob| glob.matches(&tool.name));
        let wanted = [&self.tools, &self.offered].into_iter().flatten().all(fits);
        if wanted && Value::Object((*tool.input_schema).clone()).to_string().len() > SCHEMA_BYTES_MAX {
            tracing::warn!(server, tool = %tool.name, "a tool is left out: its schema is too large");
            return false;
        }
        wanted
    }

    /// Builds the spec of a tool. Annotations of the server count only with `trustAnnotations`.
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
            name: plain(&tool.name),
            description: excerpt(description, DESCRIPTION_BYTES_MAX).to_owned(),
            parameters: Value::Object(parameters),
            idempotent: named || (self.trust_annotations && hinted),
            primary: self.primary.get(tool.name.as_ref()).cloned(),
        }
    }
}

/// A name as models take it.
fn plain(name: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() || c == '-' { c } else { '_' };
    let name: String = name.chars().map(plain).take(NAME_CHARS_MAX).collect();
    if name.is_empty() { "_".to_owned() } else { name }
}
