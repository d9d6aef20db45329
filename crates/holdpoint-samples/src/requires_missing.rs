//! `conformance.requiresMissing`: requires a capability that no engine provides, to test the resulting failure.

use holdpoint_engine::{Context, Outputs, PureNode, Stop};

pub(super) struct RequiresMissing;

impl PureNode for RequiresMissing {
    fn requires(&self) -> &'static [&'static str] {
        &["conformance.never-provided"]
    }

    fn run(&self, _context: &mut Context) -> Result<Outputs, Stop> {
        Ok(Outputs::new())
    }
}
