//! Settings of the operator for connections and providers: the tenants that may use them, and requirements for
//! approvals. They apply to every definition.

mod approval;
mod key;
mod tenants;

pub use approval::{BadApproval, OperatorApproval, RequirementSource};
pub use key::{KeyRef, SecretText};
pub use tenants::{BadTenants, Tenants};
