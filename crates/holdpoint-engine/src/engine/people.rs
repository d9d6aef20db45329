//! Warnings about people that nobody of a tenant is.

use holdpoint_core::{Principal, TenantId, named_in_definition};
use serde_json::Value;

use super::Engine;
use crate::error::Error;
use crate::store::keys::{self, ApiKey};

/// Keys that are looked at. A tenant with more gets no warnings rather than wrong ones.
const KEYS_MAX: u64 = 10_000;

impl ApiKey {
    /// The principal that holds the key.
    pub fn holder(&self) -> Principal {
        let Self { principal, roles, groups, scopes, .. } = self.clone();
        Principal { name: principal, roles, groups, scopes }
    }
}

impl Engine {
    /// Returns the entries that mean no holder of a key of the tenant that is neither revoked nor expired.
    pub async fn unknown_people(&self, tenant: &TenantId, entries: &[String]) -> Result<Vec<String>, Error> {
        if entries.is_empty() {
            return Ok(Vec::new());
        }
        let known = keys::of_tenant(&self.0.db, tenant, KEYS_MAX).await?;
        if known.len() as u64 >= KEYS_MAX {
            return Ok(Vec::new());
        }
        let now = self.now();
        let is_good = |key: &&ApiKey| key.revoked_at.is_none() && key.expires_at.is_none_or(|at| at > now);
        let holders: Vec<Principal> = known.iter().filter(is_good).map(ApiKey::holder).collect();
        let is_unknown = |entry: &&String| !holders.iter().any(|holder| holder.is_meant_by(entry));
        Ok(entries.iter().filter(is_unknown).cloned().collect())
    }

    /// Returns one line for each name in a definition that no key of the tenant has.
    pub async fn warn_of_people(&self, tenant: &TenantId, definition: &Value) -> Result<Vec<String>, Error> {
        let named = named_in_definition(definition);
        let entries: Vec<String> = named.iter().map(|(_, entry)| entry.clone()).collect();
        let unknown = self.unknown_people(tenant, &entries).await?;
        let lines = named.iter().filter(|(_, entry)| unknown.contains(entry));
        Ok(lines.map(|(node, entry)| format!("node {node}: {}", Self::unknown_person(entry))).collect())
    }

    /// Says that nobody is meant by an entry.
    pub fn unknown_person(entry: &str) -> String {
        match entry.split_once(':') {
            Some((what @ ("role" | "group" | "scope"), name)) => {
                format!("no key of this tenant has the {what} {name:?}")
            }
            _ => format!("no key of this tenant has the name, role or group {entry:?}"),
        }
    }
}
