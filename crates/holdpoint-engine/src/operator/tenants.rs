//! The tenants that may use a connection or a provider.

use holdpoint_core::TenantId;
use serde::Deserialize;
use serde_json::Value;

/// The tenant that may use a connection or a provider that names no tenants.
const DEFAULT: &str = "default";
/// The entry that stands for all tenants.
const ALL: &str = "*";

/// The tenants that may use a connection or a provider: those that are listed, or all with `["*"]`. The default is
/// `["default"]`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "Value")]
pub struct Tenants(Vec<String>);

/// The error for an invalid list of tenants.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("tenants: {message}")]
pub struct BadTenants {
    /// The reason, and what to do.
    pub message: String,
}

impl Default for Tenants {
    fn default() -> Self {
        Self(vec![DEFAULT.to_owned()])
    }
}

impl TryFrom<Value> for Tenants {
    type Error = BadTenants;

    fn try_from(value: Value) -> Result<Self, BadTenants> {
        let names: Option<Vec<&str>> =
            value.as_array().and_then(|list| list.iter().map(Value::as_str).collect());
        let Some(names) = names.filter(|names| !names.is_empty()) else {
            let message = "must be a list with at least one tenant; use [\"*\"] for all tenants".to_owned();
            return Err(BadTenants { message });
        };
        if names != [ALL]
            && let Some(wrong) = names.iter().find(|name| TenantId::parse(name).is_err() || **name == ALL)
        {
            let message = format!("{wrong:?} is not a valid tenant name; use [\"*\"] alone for all tenants");
            return Err(BadTenants { message });
        }
        Ok(Self(names.into_iter().map(str::to_owned).collect()))
    }
}

impl Tenants {
    /// Returns whether the tenant is in the list.
    pub fn admit(&self, tenant: &TenantId) -> bool {
        self.0.iter().any(|name| name == ALL || name == tenant.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn admits(tenants: &Tenants, name: &str) -> bool {
        tenants.admit(&TenantId::parse(name).unwrap())
    }

    #[test]
    fn only_listed_tenants_are_admitted_and_a_star_admits_all() {
        let default = Tenants::default();
        assert!(admits(&default, "default") && !admits(&default, "acme"));
        let listed = Tenants::try_from(json!(["acme", "beta"])).unwrap();
        assert!(admits(&listed, "acme") && admits(&listed, "beta") && !admits(&listed, "default"));
        assert!(admits(&Tenants::try_from(json!(["*"])).unwrap(), "acme"));
    }

    #[test]
    fn lists_that_name_no_tenant_are_rejected() {
        for wrong in [json!([]), json!("*"), json!([5]), json!(["*", "acme"]), json!([""]), json!(null)] {
            assert!(Tenants::try_from(wrong.clone()).is_err(), "{wrong}");
        }
    }
}
