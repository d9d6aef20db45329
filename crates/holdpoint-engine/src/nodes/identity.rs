//! `core.identity`: its outputs are its inputs, whatever they are.

use super::{Outputs, PureNode};
use crate::context::{Context, Stop};

pub(super) struct Identity;

impl PureNode for Identity {
    fn run(&self, context: &mut Context) -> Result<Outputs, Stop> {
        Ok(context.inputs.clone())
    }
}
