//! Parses the `tools` of an agent definition. Each flaw names its field.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use holdpoint_core::permission::Glob;
use holdpoint_core::{WorkflowId, check_schema};
use holdpoint_engine::outgoing::Outgoing;
use serde_json::{Map, Value};

use super::http::HttpTool;
use super::mcp::{McpServers, McpTools};
use super::scripted::ScriptedTool;
use super::secret::SecretRef;
use super::set::{ToolOrigin, Tools, WorkflowTool};
use super::{NAME_CHARS_MAX, Toolbox, is_name};

/// A flaw of the `tools` of a definition.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field} {message}")]
pub struct BadTools {
    /// The path of the field, such as `tools[0].url`.
    pub field: String,
    /// The reason why the field is invalid.
    pub message: String,
}

impl BadTools {
    pub(super) fn new(field: impl Into<String>, message: impl Into<String>) -> Self {
        Self { field: field.into(), message: message.into() }
    }
}

/// Returns the first member that only an operator may set: one that starts a program, or that reads environment
/// variables or files of the machine. Definitions that arrive over the network are checked with this first.
pub fn only_for_operators(tools: &Value) -> Option<BadTools> {
    let tools = tools.as_array()?;
    tools.iter().enumerate().find_map(|(index, tool)| {
        let at = format!("tools[{index}]");
        if tool.get("command").is_some() {
            return Some(BadTools::new(
                format!("{at}.command"),
                "is reserved for operators: it starts a program",
            ));
        }
        ["headers", "env"].into_iter().find_map(|member| {
            let texts = tool.get(member)?.as_object()?;
            let (name, _) = texts.iter().find(|(_, value)| !value.is_string())?;
            Some(BadTools::new(
                format!("{at}.{member}.{name}"),
                "is reserved for operators: it reads a secret",
            ))
        })
    })
}

/// The dependencies for building the tools of a definition.
#[derive(Clone, Copy)]
pub(crate) struct ToolDependencies<'a> {
    /// The folder that paths are relative to, and in which programs are started.
    pub base: Option<&'a Path>,
    pub outgoing: &'a Outgoing,
    /// The tools of type `rust`, by name.
    pub rust: &'a BTreeMap<String, Arc<dyn Toolbox>>,
    /// The MCP servers that definitions share.
    pub mcp_servers: &'a McpServers,
}

impl Tools {
    /// Builds the tools of a definition. `base` is the folder that paths are relative to, and in which programs are
    /// started. `rust` has the tools of type `rust` by name.
    pub fn from_definition(
        tools: &Value,
        base: Option<&Path>,
        outgoing: &Outgoing,
        rust: &BTreeMap<String, Arc<dyn Toolbox>>,
    ) -> Result<Self, BadTools> {
        let Some(list) = tools.as_array() else { return Err(BadTools::new("tools", "must be a list")) };
        let list = list.iter().map(|tool| (tool.clone(), None)).collect();
        Self::from_connections(
            list,
            ToolDependencies { base, outgoing, rust, mcp_servers: &McpServers::new(None) },
        )
    }

    /// Builds the tools of a definition, each with the connection that it uses.
    pub(crate) fn from_connections(
        list: Vec<(Value, Option<ToolOrigin>)>,
        dependencies: ToolDependencies<'_>,
    ) -> Result<Self, BadTools> {
        if list.len() > TOOLS_MAX {
            return Err(BadTools::new("tools", format!("must not have more than {TOOLS_MAX} entries")));
        }
        let ToolDependencies { base, outgoing, rust, .. } = dependencies;
        let mut found = Self::default();
        for (index, (tool, origin)) in list.into_iter().enumerate() {
            let members = ToolMembers::of(&tool, &format!("tools[{index}]"))?;
            let (name, origin) = (members.name()?, origin.map(Arc::new));
            let is_free = match members.needed_text("type")? {
                "mcp" => {
                    let tools = McpTools::parse(&members, name, origin.as_deref(), dependencies)?;
                    found.add_several(name, origin, Arc::new(tools))
                }
                "http" => {
                    found.add_one(name, origin, Arc::new(HttpTool::parse(&members, name, base, outgoing)?))
                }
                "workflow" if origin.as_ref().is_some_and(|origin| origin.rules.is_some()) => {
                    return Err(
                        members.bad("use", "names a connection with rules, which a workflow cannot have")
                    );
                }
                "workflow" => found.add_workflow(parse_workflow_tool(&members, name)?),
                "scripted" => found.add_one(name, origin, Arc::new(ScriptedTool::parse(&members, name)?)),
                "rust" => found.add_several(name, origin, find_rust_tool(&members, name, rust)?),
                _ => return Err(members.bad("type", "must be mcp, http, workflow, scripted or rust")),
            };
            if !is_free {
                return Err(members.bad("name", TAKEN));
            }
        }
        Ok(found)
    }
}

const TOOLS_MAX: usize = 128;

fn parse_workflow_tool(members: &ToolMembers<'_>, name: &str) -> Result<WorkflowTool, BadTools> {
    members.reject_unknown(&["type", "name", "workflowId", "description", "parameters"])?;
    let workflow = WorkflowId::parse(members.needed_text("workflowId")?);
    let parameters = members.value("parameters").map(|_| members.schema("parameters"));
    Ok(WorkflowTool {
        name: name.to_owned(),
        workflow: workflow.map_err(|error| members.bad("workflowId", error.to_string()))?,
        description: members.text("description")?.unwrap_or_default().to_owned(),
        parameters: parameters.transpose()?,
    })
}

/// Returns the first flaw that does not depend on connections: a repeated name, or an invalid workflow tool.
pub(crate) fn declared_flaw(tools: &[Value]) -> Option<BadTools> {
    let name_of = |tool: &Value| tool.get("name").and_then(Value::as_str).map(str::to_owned);
    let mut taken = BTreeSet::new();
    tools.iter().enumerate().find_map(|(index, tool)| {
        let at = format!("tools[{index}]");
        if name_of(tool).is_some_and(|name| !taken.insert(name)) {
            return Some(BadTools::new(format!("{at}.name"), TAKEN));
        }
        if tool.get("type").and_then(Value::as_str) != Some("workflow") {
            return None;
        }
        let parsed =
            ToolMembers::of(tool, &at).and_then(|members| parse_workflow_tool(&members, members.name()?));
        parsed.err()
    })
}

/// Returns the first schema of a new tool that exceeds the limits for schemas that callers supply.
pub(crate) fn schema_flaw(tools: &[Value]) -> Option<BadTools> {
    tools.iter().enumerate().find_map(|(index, tool)| {
        ["parameters", "asks/responseSchema"].into_iter().find_map(|member| {
            let why = check_schema(tool.pointer(&format!("/{member}"))?).err()?;
            Some(BadTools::new(format!("tools[{index}].{}", member.replace('/', ".")), why))
        })
    })
}

const TAKEN: &str = "is the name of another tool of this agent";

fn find_rust_tool(
    members: &ToolMembers<'_>,
    name: &str,
    rust: &BTreeMap<String, Arc<dyn Toolbox>>,
) -> Result<Arc<dyn Toolbox>, BadTools> {
    members.reject_unknown(&["type", "name"])?;
    rust.get(name).cloned().ok_or_else(|| members.bad("name", "is not a registered Rust tool"))
}

/// An object of a definition with its path.
pub(super) struct ToolMembers<'a> {
    at: String,
    map: &'a Map<String, Value>,
}

impl<'a> ToolMembers<'a> {
    pub(super) fn of(value: &'a Value, at: &str) -> Result<Self, BadTools> {
        let map = value.as_object().ok_or_else(|| BadTools::new(at, "must be an object"))?;
        Ok(Self { at: at.to_owned(), map })
    }

    pub(super) fn reject_unknown(&self, known: &[&str]) -> Result<(), BadTools> {
        match self.map.keys().find(|name| !known.contains(&name.as_str())) {
            Some(name) => Err(self.bad(name, "is not known")),
            None => Ok(()),
        }
    }

    pub(super) fn bad(&self, member: &str, message: impl Into<String>) -> BadTools {
        BadTools::new(format!("{}.{member}", self.at), message)
    }

    pub(super) fn value(&self, member: &str) -> Option<&'a Value> {
        self.map.get(member)
    }

    /// Returns a member that is an object, if it is present.
    pub(super) fn within(&self, member: &str) -> Result<Option<ToolMembers<'a>>, BadTools> {
        self.map.get(member).map(|value| ToolMembers::of(value, &format!("{}.{member}", self.at))).transpose()
    }

    pub(super) fn text(&self, member: &str) -> Result<Option<&'a str>, BadTools> {
        match self.map.get(member) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(_) => Err(self.bad(member, "must be a string")),
        }
    }

    pub(super) fn needed_text(&self, member: &str) -> Result<&'a str, BadTools> {
        self.text(member)?.ok_or_else(|| self.bad(member, "is missing"))
    }

    fn name(&self) -> Result<&'a str, BadTools> {
        let name = self.needed_text("name")?;
        if is_name(name) {
            return Ok(name);
        }
        let message = format!("must be 1 to {NAME_CHARS_MAX} letters, digits, _ and -");
        Err(self.bad("name", message))
    }

    pub(super) fn texts(&self, member: &str) -> Result<Option<Vec<&'a str>>, BadTools> {
        let wrong = || self.bad(member, "must be a list of strings");
        match self.map.get(member) {
            None => Ok(None),
            Some(Value::Array(items)) => {
                items.iter().map(|item| item.as_str().ok_or_else(wrong)).collect::<Result<_, _>>().map(Some)
            }
            Some(_) => Err(wrong()),
        }
    }

    pub(super) fn globs(&self, member: &str) -> Result<Option<Vec<Glob>>, BadTools> {
        self.map.get(member).map(|globs| self.globs_of(member, globs)).transpose()
    }

    /// Parses the list of globs of a member.
    pub(super) fn globs_of(&self, member: &str, globs: &Value) -> Result<Vec<Glob>, BadTools> {
        let texts: Option<Vec<&str>> =
            globs.as_array().and_then(|items| items.iter().map(Value::as_str).collect());
        let texts = texts.ok_or_else(|| self.bad(member, "must be a list of strings"))?;
        Ok(texts.into_iter().map(Glob::new).collect())
    }

    pub(super) fn flag(&self, member: &str) -> Result<bool, BadTools> {
        match self.map.get(member) {
            None => Ok(false),
            Some(Value::Bool(flag)) => Ok(*flag),
            Some(_) => Err(self.bad(member, "must be true or false")),
        }
    }

    /// Returns a number of milliseconds, from 1 to one day.
    pub(super) fn milliseconds(&self, member: &str, default: u64) -> Result<u64, BadTools> {
        const MAX: u64 = 24 * 60 * 60 * 1000;
        let Some(value) = self.map.get(member) else { return Ok(default) };
        let number = value.as_u64().filter(|number| (1..=MAX).contains(number));
        number.ok_or_else(|| self.bad(member, format!("must be a whole number from 1 to {MAX}")))
    }

    /// Returns the strings of an object by name. Each of them may be a reference to a secret.
    pub(super) fn secrets(
        &self,
        member: &str,
        base: Option<&Path>,
    ) -> Result<Vec<(String, SecretRef)>, BadTools> {
        let Some(value) = self.map.get(member) else { return Ok(Vec::new()) };
        let at = format!("{}.{member}", self.at);
        let members = ToolMembers::of(value, &at)?;
        let secret = |(name, value): (&String, &Value)| {
            Ok((name.clone(), SecretRef::parse(value, &format!("{at}.{name}"), base)?))
        };
        members.map.iter().map(secret).collect()
    }

    /// Returns the strings of an object by name.
    pub(super) fn named_texts(&self, member: &str) -> Result<BTreeMap<String, String>, BadTools> {
        let Some(value) = self.map.get(member) else { return Ok(BTreeMap::new()) };
        let members = ToolMembers::of(value, &format!("{}.{member}", self.at))?;
        members.map.keys().map(|name| Ok((name.clone(), members.needed_text(name)?.to_owned()))).collect()
    }

    /// Returns a JSON Schema with `"type": "object"`. If the member is missing, the schema accepts any object.
    pub(super) fn schema(&self, member: &str) -> Result<Value, BadTools> {
        let schema = match self.map.get(member) {
            None => return Ok(serde_json::json!({"type": "object"})),
            Some(schema) => schema,
        };
        if schema.to_string().len() > SCHEMA_BYTES_MAX {
            return Err(self.bad(member, format!("must not be larger than {SCHEMA_BYTES_MAX} bytes")));
        }
        if schema.get("type") != Some(&Value::String("object".to_owned())) {
            return Err(self.bad(member, "must be a JSON Schema with \"type\": \"object\""));
        }
        let _checks = holdpoint_core::compile_checker(schema).map_err(|why| self.bad(member, why))?;
        Ok(schema.clone())
    }
}

/// The limit of the schema of a tool, in bytes.
pub(super) const SCHEMA_BYTES_MAX: usize = 64 * 1024;
