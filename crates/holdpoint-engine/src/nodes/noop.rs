//! `core.noop`: completes at once.

use super::{Outputs, PureNode};
use crate::context::{Context, Stop};

pub(super) struct Noop;

impl PureNode for Noop {
    fn run(&self, _context: &mut Context) -> Result<Outputs, Stop> {
        Ok(Outputs::new())
    }
}
