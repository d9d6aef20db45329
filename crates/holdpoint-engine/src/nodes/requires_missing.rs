//! `conformance.requiresMissing`: requires what no engine provides, so that it can be seen what happens then.

use super::{Outputs, PureNode};
use crate::context::{Context, Stop};

pub(super) struct RequiresMissing;

impl PureNode for RequiresMissing {
    fn requires(&self) -> &'static [&'static str] {
        &["conformance.never-provided"]
    }

    fn run(&self, _context: &mut Context) -> Result<Outputs, Stop> {
        Ok(Outputs::new())
    }
}
