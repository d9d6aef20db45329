//! Settings of the operator for connections and providers: the tenants that may use them, and requirements for
//! approvals. They apply to every definition.

mod approval;
mod tenants;

pub(crate) use approval::RequirementSource;
pub use approval::{BadApproval, OperatorApproval};
pub use tenants::{BadTenants, Tenants};
