//! Grants over HTTP: the effects that a decision permits, and the use of a grant for effects outside of Holdpoint.

use holdpoint_api::grants::{PayloadFixed, Permit};
use holdpoint_core::{Interrupt, Run};
use holdpoint_engine::{Engine, PayloadBinding};

mod handlers;
pub(crate) mod routes;

/// Returns the effects that the decision of an interrupt permits, or None if it permits none.
pub(crate) fn permits(engine: &Engine, run: &Run, asked: &Interrupt) -> Option<Vec<Permit>> {
    let permits =
        if asked.is_gate() { engine.workflows().permits(&run.workflow, &asked.node) } else { Vec::new() };
    (!permits.is_empty()).then(|| permits.into_iter().map(permit).collect())
}

fn permit(permit: holdpoint_engine::PermittedEffect) -> Permit {
    let payload = match permit.payload {
        PayloadBinding::Fixed => PayloadFixed::Fixed,
        PayloadBinding::BodyFixed => PayloadFixed::BodyFixed,
        PayloadBinding::NotFixed => PayloadFixed::NotFixed,
        PayloadBinding::NoGrant => PayloadFixed::NeedsNoGrant,
    };
    Permit { node_id: permit.node, type_id: permit.type_id, payload, repeat: permit.repeat }
}
