//! Lists the tools that an agent needs now. Calls that do not need an unreachable server do not wait for it.

use std::sync::{Arc, PoisonError};

use futures_util::future::join_all;
use holdpoint_core::TenantId;

use super::{Entry, ToolError, ToolSpec, Tools};

/// The set of tools that a step needs, from none to all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Needed {
    #[default]
    Nothing,
    /// Those that the definition itself names. No server is asked.
    Fixed,
    All,
}

/// The tools that were listed.
#[derive(Debug, Default)]
pub(crate) struct Survey {
    pub specs: Vec<Arc<ToolSpec>>,
    /// Why a server could not be asked. Tools of it are missing, or are those of an earlier list.
    pub away: Option<String>,
    /// Why a server must not be called. Its tools are missing like those of a server that is away, and stay so.
    pub refused: Option<String>,
    of: Needed,
}

impl Survey {
    /// Returns whether nothing of what is needed is missing.
    pub(crate) fn covers(&self, needed: Needed) -> bool {
        let is_complete = self.away.is_none() && self.refused.is_none();
        self.of >= needed && (is_complete || needed == Needed::Nothing)
    }
}

impl Tools {
    /// Returns which tools must be known to make a call.
    pub(crate) fn needed_for(&self, name: &str) -> Needed {
        let mut singles = self.entries.iter().filter(|entry| entry.single).map(|entry| entry.name.as_str());
        let fixed = singles.any(|single| single == name) || self.workflows.iter().any(|one| one.name == name);
        if fixed { Needed::Fixed } else { Needed::All }
    }

    /// Lists what is needed, under unique names. Of a server that is away the last list still tells its tools apart from
    /// others. If it was never listed here, tools of other servers are known by their longer names only: the shorter ones
    /// might be those of the server that is away.
    pub(crate) async fn survey(&self, tenant: &TenantId, of: Needed) -> Survey {
        let entries: Vec<&Entry> =
            self.entries.iter().filter(|entry| entry.single || of == Needed::All).collect();
        let lists = join_all(entries.iter().map(|entry| entry.toolbox.list(tenant))).await;
        let (mut offered, mut away, mut refused) = (Vec::new(), None, None);
        let mut complete = of == Needed::All;
        for (entry, list) in entries.into_iter().zip(lists) {
            let list = match list {
                Ok(list) => {
                    *entry.last.lock().unwrap_or_else(PoisonError::into_inner) = Some(list.clone());
                    Some(list)
                }
                Err(error) => {
                    let why = match error {
                        ToolError::NotCalled(_) => &mut refused,
                        ToolError::Unreachable(_) | ToolError::Unknown(_) => &mut away,
                    };
                    why.get_or_insert(error.to_string());
                    entry.last.lock().unwrap_or_else(PoisonError::into_inner).clone()
                }
            };
            complete &= list.is_some();
            offered.extend(list.into_iter().flatten().map(|spec| (entry, spec)));
        }
        let (specs, owners) = self.named(&offered, complete);
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if complete {
            *known = owners;
        } else {
            known.extend(owners);
        }
        Survey { specs, away, refused, of }
    }
}
