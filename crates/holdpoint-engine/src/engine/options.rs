//! Options of an engine: location of the database, clock, node types, limits and settings.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use super::Quotas;
use super::families::CASCADE_MAX;
use super::sealing::SealSource;
use crate::answerer::{Answerer, AnyAnswerer};
use crate::clock::Clock;
use crate::committer::{CommitFault, CommitterOptions};
use crate::extension::{Extension, Extensions};
use crate::location::Location;
use crate::nodes::http::HttpNode;
use crate::nodes::{Node, NodeTypes, PureNode};
use crate::outgoing::Outgoing;
use crate::seal::SealKey;
use crate::webhooks::WebhookSettings;

const LEASE: Duration = Duration::from_secs(30);
/// The default limit of kept external events of a tenant.
const EVENTS_KEPT_MAX: u64 = 100_000;
const RETENTION: Duration = Duration::from_secs(24 * 3600);

/// Options for [`Engine::open`](super::Engine::open).
#[derive(Debug)]
pub struct Options {
    pub(super) location: Location,
    /// The reason why the URL of the database is invalid. [`Engine::open`](super::Engine::open) reports it.
    pub(super) invalid_location: Option<&'static str>,
    pub(super) clock: Clock,
    pub(super) nodes: NodeTypes,
    pub(super) answerer: Option<AnyAnswerer>,
    pub(super) committer_options: CommitterOptions,
    /// True if the engine must be the only user of the file. For SQLite only.
    pub(super) exclusive: bool,
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
    /// The HTTP client of nodes, and of deliveries unless `webhook_outgoing` is set.
    pub(super) outgoing: Option<Outgoing>,
    pub(super) webhook_outgoing: Option<Outgoing>,
    pub(super) webhooks: WebhookSettings,
    pub(super) extensions: Extensions,
    pub(super) starts_worker: bool,
}

impl From<Location> for Options {
    fn from(location: Location) -> Self {
        Self::new(location)
    }
}

impl From<PathBuf> for Options {
    fn from(path: PathBuf) -> Self {
        Self::new(Location::Sqlite(path))
    }
}

impl From<&Path> for Options {
    fn from(path: &Path) -> Self {
        path.to_owned().into()
    }
}

/// A URL such as `postgres://user@host/database`, or the path of an SQLite file.
impl From<&str> for Options {
    fn from(text: &str) -> Self {
        let is_url =
            ["://", "password="].iter().any(|part| text.contains(part)) || text.starts_with("sqlite:");
        match Location::parse(text) {
            Ok(location) => Self::new(location),
            Err(why) if is_url => {
                Self { invalid_location: Some(why), ..Self::new(Location::Sqlite("".into())) }
            }
            Err(_) => Self::new(Location::Sqlite(text.into())),
        }
    }
}

impl Options {
    /// Returns the default options for a database.
    pub fn new(location: Location) -> Self {
        Self {
            location,
            invalid_location: None,
            clock: Clock::System,
            nodes: NodeTypes::built_in(),
            answerer: None,
            committer_options: CommitterOptions { fault: None, batch_max: None },
            exclusive: true,
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
            extensions: Extensions::default(),
            starts_worker: true,
        }
    }

    /// Starts no worker in the background: the caller runs the [`Worker`](crate::Worker).
    #[must_use]
    pub fn manual_worker(mut self) -> Self {
        self.starts_worker = false;
        self
    }

    /// Sets the clock.
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

    /// Enables or disables conversation nodes. If disabled, definitions that use them are rejected.
    #[must_use]
    pub fn conversations(mut self, on: bool) -> Self {
        self.nodes.set_conversations(on);
        self
    }

    /// Sets the HTTP client of nodes, with the policy for the addresses that they may call.
    #[must_use]
    pub fn outgoing(mut self, outgoing: Outgoing) -> Self {
        outgoing.warn_if_loopback_allowed();
        self.nodes.effect("core.http", HttpNode::new(outgoing.clone()));
        self.outgoing = Some(outgoing);
        self
    }

    /// Sets the HTTP client of webhook deliveries, if it differs from that of nodes.
    #[must_use]
    pub fn webhook_outgoing(mut self, outgoing: Outgoing) -> Self {
        self.webhook_outgoing = Some(outgoing);
        self
    }

    /// Sets the settings of webhooks.
    #[must_use]
    pub fn webhooks(mut self, settings: WebhookSettings) -> Self {
        self.webhooks = settings;
        self
    }

    /// Adds an extension with its node types. It replaces an earlier extension of the same type.
    #[must_use]
    pub fn extension(mut self, extension: impl Extension) -> Self {
        extension.add_nodes(&mut self.nodes);
        self.extensions.add(Arc::new(extension));
        self
    }

    /// Returns an extension that was added, by its type.
    pub fn added_extension<E: Extension>(&self) -> Option<&E> {
        self.extensions.get()
    }

    /// Sets the answerer of side questions. Without one, only principals answer them.
    #[must_use]
    pub fn answerer(mut self, answerer: impl Answerer) -> Self {
        self.answerer = Some(AnyAnswerer::new(answerer));
        self
    }

    /// Injects a fault into a commit. For tests of recovery.
    #[must_use]
    pub fn fault(mut self, fault: CommitFault) -> Self {
        self.committer_options.fault = Some(fault);
        self
    }

    /// Limits the number of changes in one commit. For benchmarks.
    #[doc(hidden)]
    #[must_use]
    pub fn batch_max(mut self, most: usize) -> Self {
        self.committer_options.batch_max = Some(most);
        self
    }

    /// Limits the number of runs that end with another run in one commit. For tests.
    #[doc(hidden)]
    #[must_use]
    pub fn cascade_max(mut self, most: usize) -> Self {
        self.cascade_max = most;
        self
    }

    /// Opens a file that another engine of this process has open. For tests that simulate several processes.
    #[doc(hidden)]
    #[must_use]
    pub fn second_handle(mut self) -> Self {
        self.exclusive = false;
        self
    }

    /// Sets the interval at which the worker and the delivery worker read the store without a wake-up. For tests of the
    /// wake-ups.
    #[doc(hidden)]
    #[must_use]
    pub fn backstop(mut self, every: Duration) -> Self {
        self.backstop = Some(every);
        self
    }

    /// Sets the name under which this node claims work. Operators see it with the claimed dispatches.
    #[must_use]
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = name.into();
        self
    }

    /// Sets the duration of a lease, after which other nodes take over the work of a node. The worker renews a
    /// lease three times in that time.
    #[must_use]
    pub fn lease(mut self, lease: Duration) -> Self {
        self.lease = lease;
        self
    }

    /// Sets the key that seals secrets in the database. All nodes of a database need the same key. Without a key, an
    /// engine on SQLite creates a key file next to the database, and an engine on PostgreSQL cannot store secrets.
    #[must_use]
    pub fn seal_key(mut self, key: SealKey) -> Self {
        self.seal = Some(SealSource::Key(key));
        self
    }

    /// Sets the file of the seal key. Creates the file if it does not exist, unless the database is already sealed.
    #[must_use]
    pub fn seal_key_file(mut self, path: impl Into<PathBuf>) -> Self {
        self.seal = Some(SealSource::File(path.into()));
        self
    }

    /// Sets the time for which an external event is kept for interrupts that open later. Zero disables keeping.
    #[must_use]
    pub fn keep_events(mut self, retention: Duration) -> Self {
        self.events_kept = retention;
        self
    }

    /// Limits the number of kept events of a tenant. The engine rejects further events that it would have to keep.
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

    /// Sets the retention of dispatches that have ended.
    #[must_use]
    pub fn keep_dispatches(mut self, retention: Duration) -> Self {
        self.retention = retention;
        self
    }
}
