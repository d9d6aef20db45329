//! Lists the tools that an agent needs now. A call waits for an unreachable server only if it needs a tool of it.

use std::sync::{Arc, PoisonError};

use futures_util::future::join_all;
use holdpoint_core::TenantId;

use super::{ToolEntry, ToolError, ToolSpec, Tools};

/// The tools that a step needs, from none to all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum RequiredTools {
    #[default]
    None,
    /// The tools that the definition itself names. No server is called.
    Fixed,
    All,
}

/// The extent of a list of tools.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Completeness {
    Complete,
    /// The tools of at least one server are missing.
    Partial,
}

/// The tools that were listed.
#[derive(Debug, Default)]
pub(crate) struct ToolList {
    pub specs: Vec<Arc<ToolSpec>>,
    /// The reason why a server could not list its tools. They are missing, or are those of an earlier list.
    pub unreachable: Option<String>,
    /// The reason why the outgoing policy forbids a server. Its tools are missing like those of an unreachable server,
    /// but a retry does not help.
    pub refused: Option<String>,
    of: RequiredTools,
}

impl ToolList {
    /// Returns true if all required tools were listed.
    pub(crate) fn covers(&self, needed: RequiredTools) -> bool {
        let is_complete = self.unreachable.is_none() && self.refused.is_none();
        self.of >= needed && (is_complete || needed == RequiredTools::None)
    }
}

impl Tools {
    /// Returns the tools that must be listed before a call of this name.
    pub(crate) fn required_for(&self, name: &str) -> RequiredTools {
        let mut singles = self.entries.iter().filter(|entry| entry.single).map(|entry| entry.name.as_str());
        let fixed = singles.any(|single| single == name) || self.workflows.iter().any(|one| one.name == name);
        if fixed { RequiredTools::Fixed } else { RequiredTools::All }
    }

    /// Lists the required tools under unique names. Uses the last list of a server that cannot be reached. If this
    /// process has no list of that server, the tools of other servers only get prefixed names, because that server
    /// might have tools with their short names.
    pub(crate) async fn list_required(&self, tenant: &TenantId, of: RequiredTools) -> ToolList {
        let entries: Vec<&ToolEntry> =
            self.entries.iter().filter(|entry| entry.single || of == RequiredTools::All).collect();
        let lists = join_all(entries.iter().map(|entry| entry.toolbox.list(tenant))).await;
        let (mut offered, mut unreachable, mut refused) = (Vec::new(), None, None);
        let mut completeness = match of {
            RequiredTools::All => Completeness::Complete,
            RequiredTools::None | RequiredTools::Fixed => Completeness::Partial,
        };
        for (entry, list) in entries.into_iter().zip(lists) {
            let list = match list {
                Ok(list) => {
                    *entry.last.lock().unwrap_or_else(PoisonError::into_inner) = Some(list.clone());
                    Some(list)
                }
                Err(error) => {
                    let why = match error {
                        ToolError::NotCalled(_) => &mut refused,
                        ToolError::Unreachable(_) | ToolError::Unknown(_) => &mut unreachable,
                    };
                    why.get_or_insert(error.to_string());
                    entry.last.lock().unwrap_or_else(PoisonError::into_inner).clone()
                }
            };
            if list.is_none() {
                completeness = Completeness::Partial;
            }
            offered.extend(list.into_iter().flatten().map(|spec| (entry, spec)));
        }
        let (specs, owners) = self.assign_names(&offered, completeness);
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        match completeness {
            Completeness::Complete => *known = owners,
            Completeness::Partial => known.extend(owners),
        }
        ToolList { specs, unreachable, refused, of }
    }
}
