//! The principal of a command.

/// An actor: an opaque name with the roles, groups and scopes that the host gave it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Principal {
    pub name: String,
    pub roles: Vec<String>,
    pub groups: Vec<String>,
    pub scopes: Vec<String>,
}

impl Principal {
    /// Returns a principal without roles, groups and scopes.
    pub fn named(name: impl Into<String>) -> Self {
        Self { name: name.into(), roles: Vec::new(), groups: Vec::new(), scopes: Vec::new() }
    }
}
