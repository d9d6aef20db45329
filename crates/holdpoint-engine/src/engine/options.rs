//! How an engine is opened: where it keeps its data, which clock it reads, which nodes it knows.

use std::path::PathBuf;
use std::time::Duration;

use super::Quotas;
use super::families::CASCADE_MAX;
use super::sealing::SealSource;
use crate::agent::AgentSettings;
use crate::answering::{Answerer, AnyAnswerer};
use crate::clock::Clock;
use crate::committer::{Fault, Troubles};
use crate::location::Location;
use crate::nodes::http::Http;
use crate::nodes::{Node, NodeTypes, PureNode, content_review};
use crate::outgoing::Outgoing;
use crate::providers::ProviderSettings;
use crate::seal::SealKey;
use crate::webhooks::WebhookSettings;

const LEASE: Duration = Duration::from_secs(30);
/// Events that a tenant keeps for who comes later.
const EVENTS_KEPT_MAX: u64 = 100_000;
const RETENTION: Duration = Duration::from_secs(24 * 3600);

/// How to open an engine.
#[derive(Debug)]
pub struct Options {
    pub(super) location: Location,
    pub(super) clock: Clock,
    pub(super) nodes: NodeTypes,
    pub(super) answerer: Option<AnyAnswerer>,
    pub(super) troubles: Troubles,
    /// Whether nobody else may have the database open, where that can be known.
    pub(super) alone: bool,
    pub(super) name: String,
    pub(super) lease: Duration,
    /// None selects the default of the database.
    pub(super) backstop: Option<Duration>,
    pub(super) retention: Duration,
    pub(super) events_kept: Duration,
    pub(super) events_kept_max: u64,
    pub(super) cascade_max: usize,
    pub(super) quotas: Quotas,
    pub(super) seal: Option<SealSource>,
    /// What nodes and deliveries call with; each may have its own.
    pub(super) outgoing: Option<Outgoing>,
    pub(super) webhook_outgoing: Option<Outgoing>,
    pub(super) webhooks: WebhookSettings,
    pub(super) agents: AgentSettings,
    pub(super) providers: ProviderSettings,
}

impl Options {
    pub fn new(location: Location) -> Self {
        Self {
            location,
            clock: Clock::System,
            nodes: NodeTypes::built_in(),
            answerer: None,
            troubles: Troubles { fault: None, batch_max: None },
            alone: true,
            name: "worker".to_owned(),
            lease: LEASE,
            backstop: None,
            retention: RETENTION,
            events_kept: RETENTION,
            events_kept_max: EVENTS_KEPT_MAX,
            cascade_max: CASCADE_MAX,
            quotas: Quotas::default(),
            seal: None,
            outgoing: None,
            webhook_outgoing: None,
            webhooks: WebhookSettings::default(),
            agents: AgentSettings::default(),
            providers: ProviderSettings::default(),
        }
    }

    #[must_use]
    pub fn clock(mut self, clock: Clock) -> Self {
        self.clock = clock;
        self
    }

    /// Adds a node type with outside effects.
    #[must_use]
    pub fn node(mut self, type_id: &str, node: impl Node) -> Self {
        self.nodes.effect(type_id, node);
        self
    }

    /// Adds a node type without outside effects.
    #[must_use]
    pub fn pure_node(mut self, type_id: &str, node: impl PureNode + 'static) -> Self {
        self.nodes.pure(type_id, node);
        self
    }

    /// Whether nodes may hold conversations. Without them, definitions that need them are refused.
    #[must_use]
    pub fn conversations(mut self, on: bool) -> Self {
        self.nodes.set_conversations(on);
        self
    }

    /// Which hosts the nodes of this engine may call, and how.
    #[must_use]
    pub fn outgoing(mut self, outgoing: Outgoing) -> Self {
        outgoing.warn_of_loopback();
        self.nodes.effect("core.http", Http::new(outgoing.clone()));
        self.nodes.effect(content_review::PUBLISH, content_review::publishing(outgoing.clone()));
        self.outgoing = Some(outgoing);
        self
    }

    /// Which hosts deliveries may go to, where that is not the same.
    #[must_use]
    pub fn webhook_outgoing(mut self, outgoing: Outgoing) -> Self {
        self.webhook_outgoing = Some(outgoing);
        self
    }

    #[must_use]
    pub fn webhooks(mut self, settings: WebhookSettings) -> Self {
        self.webhooks = settings;
        self
    }

    /// What agents can use: models, servers of tools, and tools of this program.
    #[must_use]
    pub fn agents(mut self, settings: AgentSettings) -> Self {
        self.agents = settings;
        self
    }

    /// Where graphs run that are not ours.
    #[must_use]
    pub fn providers(mut self, settings: ProviderSettings) -> Self {
        self.providers = settings;
        self
    }

    /// Who answers what approvers want to know beside a decision. Until there is somebody, people do.
    #[must_use]
    pub fn answerer(mut self, answerer: impl Answerer) -> Self {
        self.answerer = Some(AnyAnswerer::new(answerer));
        self
    }

    /// Stops writing at a chosen commit, as a crash would. For tests of recovery.
    #[must_use]
    pub fn fault(mut self, stop: Fault) -> Self {
        self.troubles.fault = Some(stop);
        self
    }

    /// How many changes may share a commit. For measuring what sharing is worth.
    #[doc(hidden)]
    #[must_use]
    pub fn batch_max(mut self, most: usize) -> Self {
        self.troubles.batch_max = Some(most);
        self
    }

    /// How many runs end with another in one commit. For tests of what happens beyond.
    #[doc(hidden)]
    #[must_use]
    pub fn cascade_max(mut self, most: usize) -> Self {
        self.cascade_max = most;
        self
    }

    /// Opens a file that another engine of this process has open. For tests that stand for several processes.
    #[doc(hidden)]
    #[must_use]
    pub fn second_handle(mut self) -> Self {
        self.alone = false;
        self
    }

    /// Sets how often the worker and the courier look at the store without being woken. For tests of the wake-ups.
    #[doc(hidden)]
    #[must_use]
    pub fn backstop(mut self, every: Duration) -> Self {
        self.backstop = Some(every);
        self
    }

    /// The name under which this node claims work; operators see it beside what is in flight.
    #[must_use]
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = name.into();
        self
    }

    /// How long a node may be silent before others take over what it was doing. Renewed three times in that time.
    #[must_use]
    pub fn lease(mut self, lease: Duration) -> Self {
        self.lease = lease;
        self
    }

    /// Seals what the database must not show. Nodes that share a database need the same key. Without one, an engine on a
    /// file keeps its own beside it, and one on a server can keep no secrets.
    #[must_use]
    pub fn seal_key(mut self, key: SealKey) -> Self {
        self.seal = Some(SealSource::Key(key));
        self
    }

    /// Seals with the key in this file. If there is no such file it is created, unless the database was sealed with
    /// another key before.
    #[must_use]
    pub fn seal_key_file(mut self, path: impl Into<PathBuf>) -> Self {
        self.seal = Some(SealSource::File(path.into()));
        self
    }

    /// How long an event from outside is kept for an interrupt that does not wait yet; with zero, not at all.
    #[must_use]
    pub fn keep_events(mut self, retention: Duration) -> Self {
        self.events_kept = retention;
        self
    }

    /// How many events of a tenant are kept; one more is refused.
    #[must_use]
    pub fn kept_events_max(mut self, most: u64) -> Self {
        self.events_kept_max = most;
        self
    }

    /// Sets the limits of each tenant.
    #[must_use]
    pub fn quotas(mut self, quotas: Quotas) -> Self {
        self.quotas = quotas;
        self
    }

    /// How long dispatches are kept once they have ended.
    #[must_use]
    pub fn keep_dispatches(mut self, retention: Duration) -> Self {
        self.retention = retention;
        self
    }
}
