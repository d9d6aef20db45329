//! The principal of a command.

/// An actor: an opaque name with the roles, groups and scopes that the host gave it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Principal {
    /// The name of the principal.
    pub name: String,
    /// The roles of the principal.
    pub roles: Vec<String>,
    /// The groups of the principal.
    pub groups: Vec<String>,
    /// The permissions of the credential.
    pub scopes: Vec<String>,
}

impl Principal {
    /// Returns a principal without roles, groups and scopes.
    pub fn named(name: impl Into<String>) -> Self {
        Self { name: name.into(), roles: Vec::new(), groups: Vec::new(), scopes: Vec::new() }
    }
}
