//! Warnings about names in approver lists that no key of the tenant has.

use holdpoint_core::workflow::DefinitionFlaw;
use holdpoint_core::{
    Principal, TenantId, check_new_entry, find_named_assignees, find_unrestricted_audiences,
};
use serde_json::{Value, json};

use super::Approvers;
use crate::error::Error;
use crate::store::keys::{self, ApiKey};

/// The maximum number of keys that are read. A tenant with this many keys or more gets no warnings.
const KEYS_MAX: u64 = 10_000;

impl ApiKey {
    /// Returns the principal that holds the key.
    pub fn holder(&self) -> Principal {
        let Self { principal, roles, groups, scopes, .. } = self;
        let (roles, groups, scopes) = (roles.clone(), groups.clone(), scopes.clone());
        Principal { name: principal.clone(), roles, groups, scopes }
    }
}

impl Approvers<'_> {
    /// Returns the entries that match no holder of an active key of the tenant.
    pub async fn find_unknown(self, tenant: &TenantId, entries: &[String]) -> Result<Vec<String>, Error> {
        if entries.is_empty() {
            return Ok(Vec::new());
        }
        let known = keys::of_tenant(&self.engine.0.db, tenant, KEYS_MAX).await?;
        if known.len() as u64 >= KEYS_MAX {
            return Ok(Vec::new());
        }
        let now = self.engine.now();
        let is_active = |key: &&ApiKey| key.is_active(now);
        let holders: Vec<Principal> = known.iter().filter(is_active).map(ApiKey::holder).collect();
        let is_unknown = |entry: &&String| !holders.iter().any(|holder| holder.is_meant_by(entry));
        Ok(entries.iter().filter(is_unknown).cloned().collect())
    }

    /// Returns a warning for each name in a definition that no active key of the tenant has, and for each `audience`
    /// without approvers. Rejects a name that no new principal could have.
    pub async fn find_warnings(self, tenant: &TenantId, definition: &Value) -> Result<Vec<String>, Error> {
        let named = find_named_assignees(definition);
        let entries: Vec<String> = named.iter().map(|(_, entry)| entry.clone()).collect();
        let unknown = self.find_unknown(tenant, &entries).await?;
        let lines: Vec<&(String, String)> =
            named.iter().filter(|(_, entry)| unknown.contains(entry)).collect();
        let flaw = |(node, entry): &&(String, String)| {
            let bad = check_new_entry(entry).err()?;
            let message = format!("node {node}: the approver {entry:?} is not accepted: {bad}");
            Some(DefinitionFlaw::at_top("nodes", message))
        };
        let flaws: Vec<DefinitionFlaw> = lines.iter().filter_map(flaw).collect();
        if !flaws.is_empty() {
            return Err(Error::InvalidWorkflow(flaws));
        }
        let unknown =
            lines.into_iter().map(|(node, entry)| format!("node {node}: {}", Self::describe_unknown(entry)));
        let open = find_unrestricted_audiences(definition).into_iter().map(|node| {
            format!(
                "node {node}: audience does not restrict who may approve; name approvers in approversList, \
                 approverRoleRefs or approverGroupRefs"
            )
        });
        Ok(unknown.chain(open).collect())
    }

    /// Rejects the definition of an agent if an approver has a name that no new principal could have.
    pub async fn check_agent(self, tenant: &TenantId, definition: &Value) -> Result<(), Error> {
        let config = json!({"approval": definition.get("approval")});
        let workflow = json!({"nodes": [{"id": "agent", "config": config}]});
        self.find_warnings(tenant, &workflow).await.map(drop)
    }

    /// Returns the warning about an entry that no key of the tenant matches.
    pub fn describe_unknown(entry: &str) -> String {
        match entry.split_once(':') {
            Some((what @ ("role" | "group" | "scope"), name)) => {
                format!("no key of this tenant has the {what} {name:?}")
            }
            _ => format!("no key of this tenant has the name, role or group {entry:?}"),
        }
    }
}
