//! All tools of an agent under names that tell them apart, and who gets a call by its name.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use holdpoint_core::permission::Verdict;
use holdpoint_core::{TenantId, WorkflowId};
use serde_json::Value;

use super::{Call, NAME_CHARS_MAX, Returned, ToolError, ToolSpec, Toolbox};
use crate::agent::rules::ConnectionRules;

mod survey;

pub(crate) use survey::{Needed, Survey};

/// The tools of an agent. Servers are started when somebody first asks, and end with this.
#[derive(Default)]
pub struct Tools {
    entries: Vec<Entry>,
    workflows: Vec<WorkflowTool>,
    /// Who has which name, as of the last list.
    known: Mutex<BTreeMap<String, Owner>>,
}

/// A workflow that is offered as a tool. The loop starts it.
#[derive(Clone, Debug, PartialEq)]
pub struct WorkflowTool {
    pub name: String,
    pub workflow: WorkflowId,
    pub description: String,
    /// JSON Schema of the inputs, where it is not what the workflow itself declares.
    pub parameters: Option<Value>,
}

struct Entry {
    name: String,
    toolbox: Arc<dyn Toolbox>,
    /// It is one tool, and its name was chosen for this agent.
    single: bool,
    origin: Option<Arc<Origin>>,
    /// The last list of its tools.
    last: Mutex<Option<Vec<Arc<ToolSpec>>>>,
}

/// The connection that an entry of a definition uses, and what it says besides its settings.
#[derive(Debug)]
pub(crate) struct Origin {
    pub connection: String,
    /// The tenant of the definition.
    pub tenant: TenantId,
    /// The name that rules of the connection have for it if it is one tool. A definition cannot change it.
    pub tool_name: String,
    /// The globs of the tools that the connection offers. A definition can only narrow them.
    pub tools: Option<Value>,
    pub rules: Option<Arc<ConnectionRules>>,
}

/// The toolbox that a tool belongs to, and the rules of its connection.
#[derive(Clone)]
pub(crate) struct Owner {
    toolbox: Arc<dyn Toolbox>,
    /// What the tool is called where it comes from.
    own_name: String,
    ruled: Option<RuledTool>,
}

/// The rules of the operator for a tool, and what they know it by.
#[derive(Clone)]
struct RuledTool {
    rules: Arc<ConnectionRules>,
    name: String,
    primary: Option<String>,
}

impl Owner {
    /// Makes a call of the tool.
    pub(crate) async fn call(&self, call: &Call) -> Result<Returned, ToolError> {
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

    /// Returns what the rules of the tool's connection say of a call.
    pub(crate) fn judge(&self, arguments: &Value) -> Option<Verdict> {
        let RuledTool { rules, name, primary } = self.ruled.as_ref()?;
        rules.judge(name, primary.as_deref(), arguments)
    }

    /// Returns whether the rules of the tool's connection deny every call of it.
    pub(crate) fn is_hidden(&self) -> bool {
        self.ruled.as_ref().is_some_and(|ruled| ruled.rules.hides(&ruled.name))
    }

    /// See [`Toolbox::is_inside`].
    pub(crate) fn is_inside(&self) -> bool {
        self.toolbox.is_inside()
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
    /// What there is, under unique names. Fails when a server cannot be asked: a tool's name may depend on all others.
    pub async fn list(&self, tenant: &TenantId) -> Result<Vec<Arc<ToolSpec>>, ToolError> {
        let Survey { specs, away, refused, .. } = self.survey(tenant, Needed::All).await;
        let error = refused.map(ToolError::NotCalled).or(away.map(ToolError::Unreachable));
        error.map_or(Ok(specs), Err)
    }

    /// Makes a call of one of them; workflows are not among them.
    pub async fn call(&self, call: &Call) -> Result<Returned, ToolError> {
        let owner = match self.owner(&call.name) {
            Some(owner) => owner,
            // Another node may have made the list that this call comes from.
            None => {
                self.list(&call.of.tenant).await?;
                let missing = || ToolError::NotCalled(format!("there is no tool {}", call.name));
                self.owner(&call.name).ok_or_else(missing)?
            }
        };
        owner.call(call).await
    }

    /// See [`Toolbox::is_inside`]. A workflow is a run of its own.
    pub(crate) fn are_inside(&self) -> bool {
        self.workflows.is_empty() && self.entries.iter().all(|entry| entry.toolbox.is_inside())
    }

    /// Tools that are workflows, which are not called but started.
    pub fn workflows(&self) -> &[WorkflowTool] {
        &self.workflows
    }

    pub(super) fn add_one(
        &mut self,
        name: &str,
        origin: Option<Arc<Origin>>,
        toolbox: Arc<dyn Toolbox>,
    ) -> bool {
        self.add(Entry { name: name.to_owned(), toolbox, single: true, origin, last: Mutex::default() })
    }

    pub(super) fn add_several(
        &mut self,
        name: &str,
        origin: Option<Arc<Origin>>,
        toolbox: Arc<dyn Toolbox>,
    ) -> bool {
        self.add(Entry { name: name.to_owned(), toolbox, single: false, origin, last: Mutex::default() })
    }

    pub(super) fn add_workflow(&mut self, workflow: WorkflowTool) -> bool {
        let fresh = self.is_fresh(&workflow.name);
        self.workflows.push(workflow);
        fresh
    }

    fn add(&mut self, entry: Entry) -> bool {
        let fresh = self.is_fresh(&entry.name);
        self.entries.push(entry);
        fresh
    }

    fn is_fresh(&self, name: &str) -> bool {
        let entries = self.entries.iter().map(|entry| &entry.name);
        entries.chain(self.workflows.iter().map(|workflow| &workflow.name)).all(|taken| taken != name)
    }

    /// Returns the toolbox that has a tool of this name, as of the last list.
    pub(crate) fn owner(&self, name: &str) -> Option<Owner> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner).get(name).cloned()
    }

    /// A tool keeps its name if nobody else has it; what the definition itself names keeps it in any case. Others are
    /// called by their server too, and that longer name always reaches them, so that a call is still understood
    /// after another server has grown a tool of the same name. Without the tools of all servers only that longer name is safe.
    fn named(
        &self,
        offered: &[(&Entry, Arc<ToolSpec>)],
        complete: bool,
    ) -> (Vec<Arc<ToolSpec>>, BTreeMap<String, Owner>) {
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
            let alone = complete && counts[spec.name.as_str()] == 1 && !fixed.contains(spec.name.as_str());
            let name = if entry.single || alone { spec.name.clone() } else { long.clone() };
            if known.contains_key(&name) || (!entry.single && fixed.contains(name.as_str())) {
                tracing::warn!(
                    tool = name,
                    from = entry.name,
                    "a tool is left out: another one has its name"
                );
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

impl Entry {
    fn owner(&self, spec: &ToolSpec) -> Owner {
        let ruled = self.origin.as_ref().and_then(|origin| {
            let name = if self.single { &origin.tool_name } else { &spec.name };
            let (name, primary) = (name.clone(), spec.primary.clone());
            Some(RuledTool { rules: origin.rules.clone()?, name, primary })
        });
        Owner { toolbox: self.toolbox.clone(), own_name: spec.name.clone(), ruled }
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
    use crate::agent::tool::RustTool;
    use futures_util::future::try_join_all;
    use holdpoint_core::{RunId, RunRef};
    use serde_json::json;

    struct Several(Vec<Arc<dyn Toolbox>>);

    impl Toolbox for Several {
        fn list<'a>(&'a self, tenant: &'a TenantId) -> super::super::Listing<'a> {
            Box::pin(async move {
                let lists = try_join_all(self.0.iter().map(|one| one.list(tenant))).await?;
                Ok(lists.concat())
            })
        }

        fn call<'a>(&'a self, call: &'a Call) -> super::super::Calling<'a> {
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
            Ok(Returned::Result(json!(format!("{says}:{}", call.name))))
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
        }
    }

    async fn names(tools: &Tools) -> Vec<String> {
        let specs = tools.list(&call("x").of.tenant).await.unwrap();
        specs.iter().map(|spec| spec.name.clone()).collect()
    }

    #[tokio::test]
    async fn a_tool_keeps_its_name_unless_another_one_has_it_too() {
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
        assert!(!tools.add_workflow(refund), "a name is given once");
        // Nobody has listed before: the call does.
        assert_eq!(tools.call(&call("two__search")).await, Ok(Returned::Result(json!("2:search"))));
        assert_eq!(names(&tools).await, ["one__search", "two__search", "read", "four__refund", "send"]);
        for (name, says) in [("read", "3:read"), ("three__read", "3:read"), ("four__refund", "4:refund")] {
            assert_eq!(tools.call(&call(name)).await, Ok(Returned::Result(json!(says))), "{name}");
        }
        for unknown in ["search", "refund", "send__send", "x"] {
            assert!(matches!(tools.call(&call(unknown)).await, Err(ToolError::NotCalled(_))), "{unknown}");
        }
    }

    #[tokio::test]
    async fn of_two_tools_that_cannot_be_told_apart_the_second_is_left_out() {
        let mut tools = Tools::default();
        tools.add_several("one", None, Arc::new(Several(vec![tool("a", "1"), tool("a", "2")])));
        assert_eq!(names(&tools).await, ["one__a"]);
        assert_eq!(tools.call(&call("one__a")).await, Ok(Returned::Result(json!("1:a"))));
    }
}
