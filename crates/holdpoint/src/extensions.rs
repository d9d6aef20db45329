//! The extensions of the server: agents, the sample graph `content-review`, nodes of the conformance suite, and
//! providers of graphs.

use holdpoint_agents::{AgentRuntime, AgentSettings};
use holdpoint_engine::Options;
use holdpoint_providers::{ProviderSettings, Providers};
use holdpoint_samples::{Conformance, ContentReview};

/// Adds the extensions.
pub(crate) fn add(options: Options, agents: AgentSettings, providers: Providers) -> Options {
    options
        .extension(AgentRuntime::new(agents))
        .extension(ContentReview)
        .extension(Conformance)
        .extension(providers)
}

/// Adds the extensions without connections of the operator.
pub(crate) fn add_default(options: Options) -> Options {
    let providers = Providers::new(ProviderSettings::default()).expect("an empty file of providers is valid");
    add(options, AgentSettings::default(), providers)
}
