//! What an operator says about everything that definitions only name: which tenants may use it, and what holds for
//! approvals of its calls, whatever the definition says.

mod approval;
mod tenants;

pub(crate) use approval::Source;
pub use approval::{BadApproval, OperatorApproval};
pub use tenants::{BadTenants, Tenants};
