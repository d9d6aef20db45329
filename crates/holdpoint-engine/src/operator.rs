//! What an operator says about everything that definitions only name: which tenants may use it, and what holds for
//! approvals of its calls, whatever the definition says.

mod tenants;

pub use tenants::{BadTenants, Tenants};
