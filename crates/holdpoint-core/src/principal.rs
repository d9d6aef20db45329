//! Who acts.

/// Who acts: an opaque name, and the roles, groups and scopes the host gave it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Principal {
    pub name: String,
    pub roles: Vec<String>,
    pub groups: Vec<String>,
    pub scopes: Vec<String>,
}

impl Principal {
    /// Somebody without roles, groups and scopes.
    pub fn named(name: impl Into<String>) -> Self {
        Self { name: name.into(), roles: Vec::new(), groups: Vec::new(), scopes: Vec::new() }
    }
}
