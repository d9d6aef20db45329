//! All tools of an agent under unique names, and the toolbox that executes a call.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use holdpoint_core::permission::PermissionDecision;
use holdpoint_core::{TenantId, WorkflowId};
use serde_json::Value;

use super::{Call, CallOutcome, NAME_CHARS_MAX, ToolError, ToolSpec, Toolbox};
use crate::rules::ConnectionRules;

mod listing;

use listing::Completeness;
pub(crate) use listing::{RequiredTools, ToolList};

/// The tools of an agent. A server is started at the first list or call.
#[derive(Default)]
pub struct Tools {
    entries: Vec<ToolEntry>,
    workflows: Vec<WorkflowTool>,
    /// The owner of each tool by its name. Updated with each list.
    known: Mutex<BTreeMap<String, ToolOwner>>,
}

/// A workflow as a tool. The agent loop starts it as a child run.
#[derive(Clone, Debug, PartialEq)]
pub struct WorkflowTool {
    /// The name of the tool.
    pub name: String,
    /// The workflow that a call starts.
    pub workflow: WorkflowId,
    /// The description for the model.
    pub description: String,
    /// JSON Schema of the inputs. None for the variables that the workflow declares.
    pub parameters: Option<Value>,
}

struct ToolEntry {
    name: String,
    toolbox: Arc<dyn Toolbox>,
    /// The entry is a single tool, and the definition sets its name.
    single: bool,
    origin: Option<Arc<ToolOrigin>>,
    /// The last list of its tools.
    last: Mutex<Option<Vec<Arc<ToolSpec>>>>,
}

/// The connection that an entry of a definition uses, with its name, tools and rules.
#[derive(Debug)]
pub(crate) struct ToolOrigin {
    pub connection: String,
    /// The tenant of the definition.
    pub tenant: TenantId,
    /// The name of a single tool in the rules of the connection. A definition cannot change it.
    pub tool_name: String,
    /// The globs of the tools that the connection offers. A definition can only narrow them.
    pub tools: Option<Value>,
    pub rules: Option<Arc<ConnectionRules>>,
}

/// The toolbox that a tool belongs to, and the rules of its connection.
#[derive(Clone)]
pub(crate) struct ToolOwner {
    toolbox: Arc<dyn Toolbox>,
    /// The name of the tool at its toolbox.
    own_name: String,
    ruled: Option<RuledTool>,
}

/// The rules of the operator for a tool, and the name and primary argument that they use.
#[derive(Clone)]
struct RuledTool {
    rules: Arc<ConnectionRules>,
    name: String,
    primary: Option<String>,
}

impl ToolOwner {
    /// Makes a call of the tool.
    pub(crate) async fn call(&self, call: &Call) -> Result<CallOutcome, ToolError> {
        if self.own_name == call.name {
            return self.toolbox.call(call).await;
        }
        self.toolbox.call(&Call { name: self.own_name.clone(), ..call.clone() }).await
    }

    /// See [`Toolbox::reach`].
    pub(crate) async fn reach(&self) -> Result<(), ToolError> {
        self.toolbox.reach().await
    }

    /// Returns the rules of the tool's connection, if the operator gave it any.
    pub(crate) fn rules(&self) -> Option<&ConnectionRules> {
        self.ruled.as_ref().map(|ruled| &*ruled.rules)
    }

    /// Evaluates the permission rules of the tool's connection for a call. None if it has no permission rules.
    pub(crate) fn judge(&self, arguments: &Value) -> Option<PermissionDecision> {
        let RuledTool { rules, name, primary } = self.ruled.as_ref()?;
        rules.judge(name, primary.as_deref(), arguments)
    }

    /// Returns true if the rules of the tool's connection deny every call.
    pub(crate) fn is_hidden(&self) -> bool {
        self.ruled.as_ref().is_some_and(|ruled| ruled.rules.hides(&ruled.name))
    }

    /// See [`Toolbox::is_local`].
    pub(crate) fn is_local(&self) -> bool {
        self.toolbox.is_local()
    }
}

impl fmt::Debug for Tools {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.entries.iter().map(|entry| entry.name.as_str()).collect();
        f.debug_struct("Tools")
            .field("entries", &names)
            .field("workflows", &self.workflows)
            .finish_non_exhaustive()
    }
}

impl Tools {
    /// Lists all tools under unique names. Fails if a server cannot be reached, because the name of a tool depends on
    /// all others.
    pub async fn list(&self, tenant: &TenantId) -> Result<Vec<Arc<ToolSpec>>, ToolError> {
        let ToolList { specs, unreachable, refused, .. } =
            self.list_required(tenant, RequiredTools::All).await;
        let error = refused.map(ToolError::NotCalled).or(unreachable.map(ToolError::Unreachable));
        error.map_or(Ok(specs), Err)
    }

    /// Returns the rules of the connection of each entry. None for an entry without rules.
    pub(crate) fn rules(&self) -> impl Iterator<Item = Option<&ConnectionRules>> {
        self.entries.iter().map(|entry| entry.origin.as_ref()?.rules.as_deref())
    }

    /// Makes a call. Workflow tools cannot be called with this.
    pub async fn call(&self, call: &Call) -> Result<CallOutcome, ToolError> {
        let owner = match self.owner(&call.name) {
            Some(owner) => owner,
            // Another process may have read the list that this call comes from.
            None => {
                self.list(&call.of.tenant).await?;
                let missing = || ToolError::NotCalled(format!("there is no tool {}", call.name));
                self.owner(&call.name).ok_or_else(missing)?
            }
        };
        owner.call(call).await
    }

    /// Returns true if all toolboxes are local (see [`Toolbox::is_local`]) and there is no workflow tool, which starts
    /// another run.
    pub(crate) fn are_local(&self) -> bool {
        self.workflows.is_empty() && self.entries.iter().all(|entry| entry.toolbox.is_local())
    }

    /// Returns the workflow tools. The caller starts them instead of calling them.
    pub fn workflows(&self) -> &[WorkflowTool] {
        &self.workflows
    }

    pub(super) fn add_one(
        &mut self,
        name: &str,
        origin: Option<Arc<ToolOrigin>>,
        toolbox: Arc<dyn Toolbox>,
    ) -> bool {
        self.add(ToolEntry { name: name.to_owned(), toolbox, single: true, origin, last: Mutex::default() })
    }

    pub(super) fn add_several(
        &mut self,
        name: &str,
        origin: Option<Arc<ToolOrigin>>,
        toolbox: Arc<dyn Toolbox>,
    ) -> bool {
        self.add(ToolEntry { name: name.to_owned(), toolbox, single: false, origin, last: Mutex::default() })
    }

    pub(super) fn add_workflow(&mut self, workflow: WorkflowTool) -> bool {
        let is_free = self.is_free(&workflow.name);
        self.workflows.push(workflow);
        is_free
    }

    fn add(&mut self, entry: ToolEntry) -> bool {
        let is_free = self.is_free(&entry.name);
        self.entries.push(entry);
        is_free
    }

    fn is_free(&self, name: &str) -> bool {
        let entries = self.entries.iter().map(|entry| &entry.name);
        entries.chain(self.workflows.iter().map(|workflow| &workflow.name)).all(|taken| taken != name)
    }

    /// Returns the owner of the tool of this name, from the last list.
    pub(crate) fn owner(&self, name: &str) -> Option<ToolOwner> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner).get(name).cloned()
    }

    /// Assigns unique names. A tool that the definition names keeps its name. A tool of a server keeps its name if no
    /// other tool has it; otherwise it gets the name of its server as a prefix. The prefixed name always works in a
    /// call, so a call still reaches its tool after another server has added a tool of the same name. If the list is
    /// not complete, all tools of servers get prefixed names.
    fn assign_names(
        &self,
        offered: &[(&ToolEntry, Arc<ToolSpec>)],
        completeness: Completeness,
    ) -> (Vec<Arc<ToolSpec>>, BTreeMap<String, ToolOwner>) {
        let fixed = offered.iter().filter(|(entry, _)| entry.single).map(|(_, spec)| spec.name.as_str());
        let fixed: BTreeSet<&str> =
            fixed.chain(self.workflows.iter().map(|tool| tool.name.as_str())).collect();
        let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
        for (_, spec) in offered {
            *counts.entry(&spec.name).or_default() += 1;
        }
        let (mut specs, mut known, mut aliases) = (Vec::new(), BTreeMap::new(), Vec::new());
        for (entry, spec) in offered {
            let owner = entry.owner(spec);
            let long = prefixed(&entry.name, &spec.name);
            let alone = completeness == Completeness::Complete
                && counts[spec.name.as_str()] == 1
                && !fixed.contains(spec.name.as_str());
            let name = if entry.single || alone { spec.name.clone() } else { long.clone() };
            if known.contains_key(&name) || (!entry.single && fixed.contains(name.as_str())) {
                tracing::warn!(tool = name, from = entry.name, "skipping a tool: another tool has its name");
                continue;
            }
            let spec = if name == spec.name {
                spec.clone()
            } else {
                Arc::new(ToolSpec { name: name.clone(), ..(**spec).clone() })
            };
            specs.push(spec);
            known.insert(name, owner.clone());
            if !entry.single {
                aliases.push((long, owner));
            }
        }
        for (long, owner) in aliases {
            if !fixed.contains(long.as_str()) {
                known.entry(long).or_insert(owner);
            }
        }
        (specs, known)
    }
}

impl ToolEntry {
    fn owner(&self, spec: &ToolSpec) -> ToolOwner {
        let ruled = self.origin.as_ref().and_then(|origin| {
            let name = if self.single { &origin.tool_name } else { &spec.name };
            let (name, primary) = (name.clone(), spec.primary.clone());
            Some(RuledTool { rules: origin.rules.clone()?, name, primary })
        });
        ToolOwner { toolbox: self.toolbox.clone(), own_name: spec.name.clone(), ruled }
    }
}

fn prefixed(server: &str, tool: &str) -> String {
    // Both are ASCII.
    let mut name = format!("{server}__{tool}");
    name.truncate(NAME_CHARS_MAX);
    name
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tool::RustTool;
    use futures_util::future::try_join_all;
    use holdpoint_core::{RunId, RunRef};
    use serde_json::json;

    struct Several(Vec<Arc<dyn Toolbox>>);

    impl Toolbox for Several {
        fn list<'a>(&'a self, tenant: &'a TenantId) -> super::super::ListFuture<'a> {
            Box::pin(async move {
                let lists = try_join_all(self.0.iter().map(|one| one.list(tenant))).await?;
                Ok(lists.concat())
            })
        }

        fn call<'a>(&'a self, call: &'a Call) -> super::super::CallFuture<'a> {
            self.0[0].call(call)
        }
    }

    fn tool(name: &str, says: &'static str) -> Arc<dyn Toolbox> {
        let spec = ToolSpec {
            name: name.to_owned(),
            description: String::new(),
            parameters: json!({"type": "object"}),
            idempotent: false,
            primary: None,
        };
        Arc::new(RustTool::new(spec, move |call| async move {
            Ok(CallOutcome::Result(json!(format!("{says}:{}", call.name))))
        }))
    }

    fn call(name: &str) -> Call {
        Call {
            of: RunRef { tenant: TenantId::parse("acme").unwrap(), run: RunId::parse("r").unwrap() },
            id: "c".to_owned(),
            name: name.to_owned(),
            arguments: json!({}),
            idempotency_key: "k".to_owned(),
            decision: None,
            reporter: crate::tool::CallReporter::default(),
        }
    }

    async fn names(tools: &Tools) -> Vec<String> {
        let specs = tools.list(&call("x").of.tenant).await.unwrap();
        specs.iter().map(|spec| spec.name.clone()).collect()
    }

    #[tokio::test]
    async fn a_tool_keeps_its_name_unless_another_tool_has_it() {
        let mut tools = Tools::default();
        assert!(tools.add_several("one", None, tool("search", "1")));
        assert!(tools.add_several("two", None, tool("search", "2")));
        assert!(tools.add_several("three", None, tool("read", "3")));
        assert!(tools.add_several("four", None, tool("refund", "4")));
        assert!(tools.add_one("send", None, tool("send", "5")));
        let refund = WorkflowTool {
            name: "refund".to_owned(),
            workflow: WorkflowId::parse("refund").unwrap(),
            description: String::new(),
            parameters: None,
        };
        assert!(tools.add_workflow(refund.clone()));
        assert!(!tools.add_workflow(refund), "names are unique");
        // The tools were not listed before, so the call lists them.
        assert_eq!(tools.call(&call("two__search")).await, Ok(CallOutcome::Result(json!("2:search"))));
        assert_eq!(names(&tools).await, ["one__search", "two__search", "read", "four__refund", "send"]);
        for (name, says) in [("read", "3:read"), ("three__read", "3:read"), ("four__refund", "4:refund")] {
            assert_eq!(tools.call(&call(name)).await, Ok(CallOutcome::Result(json!(says))), "{name}");
        }
        for unknown in ["search", "refund", "send__send", "x"] {
            assert!(matches!(tools.call(&call(unknown)).await, Err(ToolError::NotCalled(_))), "{unknown}");
        }
    }

    #[tokio::test]
    async fn the_second_tool_of_a_server_with_the_same_name_is_skipped() {
        let mut tools = Tools::default();
        tools.add_several("one", None, Arc::new(Several(vec![tool("a", "1"), tool("a", "2")])));
        assert_eq!(names(&tools).await, ["one__a"]);
        assert_eq!(tools.call(&call("one__a")).await, Ok(CallOutcome::Result(json!("1:a"))));
    }
}
