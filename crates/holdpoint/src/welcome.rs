//! The first start: a tenant, keys of two principals, a sample workflow, and three lines that show what Holdpoint does.

use std::io::{IsTerminal, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use anyhow::{Context, bail};
use holdpoint_core::TenantId;
use holdpoint_engine::{ApiKey, CredentialLimits, Engine};
use serde_json::Value;

use crate::auth::{TEST_KEY_PREFIX, fresh_secret, stored_key};
use crate::config::Config;
use crate::inbox::sessions::make_link;

/// What the command line reads: address and key.
const CLIENT_FILE: &str = "client.json";

/// The id of the key that a first start makes for the command line, whichever node is first.
const FIRST_KEY: &str = "key_first";
/// The principal of that key. The page has another principal, so that it can answer holds that were made in a terminal.
const FIRST_PRINCIPAL: &str = "cli";
/// The id of the key that the sign-in link of a first start signs in with. Its secret is not kept.
const OWNER_KEY: &str = "key_owner";
const OWNER_PRINCIPAL: &str = "owner";

const SAMPLE: &str = include_str!("welcome/sample-approval.json");

/// The readers of the greeting. Secrets are for terminals only: other output ends up in logs and journals.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Audience {
    Terminal,
    Log,
}

impl Audience {
    fn of(output: &impl IsTerminal) -> Self {
        if output.is_terminal() { Self::Terminal } else { Self::Log }
    }
}

/// What the first start made, for the greeting.
#[derive(Debug)]
pub(crate) struct Prepared {
    audience: Audience,
    /// This start made the first key.
    is_first: bool,
    /// A key that nobody has seen yet.
    shown_key: Option<String>,
    /// Another node made the first key at the same time, and showed it.
    key_is_elsewhere: bool,
    /// Whether the command line finds a key in the data folder.
    key_is_left: bool,
    /// A link that signs in once as the owner; only if this start created the first key and greets a terminal.
    sign_in: Option<String>,
    /// The owner has an active key, for which further links can be made.
    has_owner: bool,
}

impl Prepared {
    /// The result of a start after another node made the first key.
    fn by_another_node(audience: Audience) -> Self {
        Self {
            audience,
            is_first: false,
            shown_key: None,
            key_is_elsewhere: true,
            key_is_left: false,
            sign_in: None,
            has_owner: true,
        }
    }
}

/// Makes the store usable and leaves in the data folder what the command line needs.
pub(crate) async fn prepare(
    engine: &Engine,
    tenant: &TenantId,
    config: &Config,
    address: SocketAddr,
) -> anyhow::Result<Prepared> {
    let audience = Audience::of(&std::io::stdout());
    let first = engine.key_count().await? == 0;
    if first {
        let sample: Value = serde_json::from_str(SAMPLE).context("the built-in sample workflow")?;
        engine.register_for_operator(tenant, sample).await?;
    }
    let left = read_client_file(&config.data);
    let shown_key = match (&config.access.bootstrap_key, first) {
        (None, true) => Some(match &left {
            // A start that got no further than this file: its key is still to be stored.
            Some(key) => key.clone(),
            None => fresh_secret(false).map_err(broken)?,
        }),
        _ => None,
    };
    // The file comes first: a key that is stored and known to nobody would lock everybody out.
    let key = shown_key.clone().or(left);
    let server = client_url(config, address);
    leave_client_file(&config.data, &server, key.as_deref())?;
    let mut made = None;
    if let Some(secret) = &config.access.bootstrap_key {
        let mut stored = stored_key(secret, tenant.clone(), engine.now()).map_err(broken)?;
        stored.principal = "bootstrap".to_owned();
        // Stored before, by an earlier start or by another node, is as good.
        let added = if first {
            engine.add_first_keys(&stored, &owner_key(engine, tenant, stored.test)?).await?
        } else {
            engine.add_key(&stored, None).await?
        };
        let kept = !added;
        if kept && engine.tenant_is_test(tenant).await? == Some(!stored.test) {
            bail!(
                "--bootstrap-key: a key that begins with {TEST_KEY_PREFIX} is a test key, and a database with live \
                 keys takes none, nor the other way round; use another database"
            );
        }
        made = (first && !kept).then_some(OWNER_KEY);
    } else if let Some(secret) = &shown_key {
        if !store_first_key(engine, tenant, secret).await? {
            leave_client_file(&config.data, &server, None)?;
            return Ok(Prepared::by_another_node(audience));
        }
        made = Some(OWNER_KEY);
    }
    let sign_in = match made {
        Some(key_id) if audience == Audience::Terminal => {
            let public_url = config.link_settings(address).public_url;
            Some(
                make_link(engine, &public_url, key_id, &CredentialLimits::default()).await.map_err(broken)?.0,
            )
        }
        _ => None,
    };
    let owner = engine.key(tenant, OWNER_KEY).await?;
    let has_owner = owner.is_some_and(|owner| owner.is_active(engine.now()));
    let (key_is_elsewhere, key_is_left) = (false, key.is_some());
    let is_first = made.is_some();
    Ok(Prepared { audience, is_first, shown_key, key_is_elsewhere, key_is_left, sign_in, has_owner })
}

/// Returns the key of the owner. Its secret is discarded: only sign-in links use it.
fn owner_key(engine: &Engine, tenant: &TenantId, test: bool) -> anyhow::Result<ApiKey> {
    let secret = fresh_secret(test).map_err(broken)?;
    first_key(engine, tenant, &secret, (OWNER_KEY, OWNER_PRINCIPAL))
}

/// Returns a key of a first start. Every node gives it the same id.
fn first_key(
    engine: &Engine,
    tenant: &TenantId,
    secret: &str,
    (id, principal): (&str, &str),
) -> anyhow::Result<ApiKey> {
    let fresh = stored_key(secret, tenant.clone(), engine.now()).map_err(broken)?;
    Ok(ApiKey { key_id: id.to_owned(), lineage: id.to_owned(), principal: principal.to_owned(), ..fresh })
}

/// Nodes that start together on an empty database all come here with keys of their own. They store them under one id,
/// so that the primary key lets one through. False for the others.
async fn store_first_key(engine: &Engine, tenant: &TenantId, secret: &str) -> anyhow::Result<bool> {
    let first = first_key(engine, tenant, secret, (FIRST_KEY, FIRST_PRINCIPAL))?;
    Ok(engine.add_first_keys(&first, &owner_key(engine, tenant, first.test)?).await?)
}

fn broken(error: crate::error::ApiError) -> anyhow::Error {
    anyhow::anyhow!("cannot make a key: {error:?}")
}

/// The key that an earlier start left, if there is one.
fn read_client_file(data: &Path) -> Option<String> {
    let left: Value = serde_json::from_slice(&std::fs::read(data.join(CLIENT_FILE)).ok()?).ok()?;
    left.get("key")?.as_str().map(str::to_owned)
}

/// Returns the URL for the command line on this machine. A certificate is for the public name of the server, if it has
/// one.
fn client_url(config: &Config, address: SocketAddr) -> String {
    match config.links.public_url().filter(|_| config.tls.is_some()) {
        Some(public_url) => public_url.to_owned(),
        None => config.own_url(address),
    }
}

/// Written beside and moved into place: a crash leaves the old file or the new one. Only the owner may read it.
fn leave_client_file(data: &Path, server: &str, key: Option<&str>) -> anyhow::Result<()> {
    let members = [("server", Some(server)), ("key", key)];
    let members = members.into_iter().filter_map(|(name, text)| Some((name.to_owned(), text?.into())));
    let content = Value::Object(members.collect());
    let (path, fresh) = (data.join(CLIENT_FILE), data.join("client.json.new"));
    let mut options = std::fs::OpenOptions::new();
    let opened = options.write(true).create(true).truncate(true).mode(0o600).open(&fresh);
    let written = opened.and_then(|mut file| {
        file.write_all(content.to_string().as_bytes())?;
        file.sync_all()?;
        std::fs::rename(&fresh, &path)?;
        std::fs::File::open(data)?.sync_all()
    });
    written.with_context(|| format!("cannot write {}", path.display()))
}

/// An address that a client on this machine can use.
pub(crate) fn reachable(address: SocketAddr) -> SocketAddr {
    let ip = if address.ip().is_unspecified() { IpAddr::V4(Ipv4Addr::LOCALHOST) } else { address.ip() };
    SocketAddr::new(ip, address.port())
}

pub(crate) fn greet(config: &Config, address: SocketAddr, prepared: &Prepared) {
    let server = config.own_url(address);
    let mut lines = vec![format!("Holdpoint {} is ready on {server}", env!("CARGO_PKG_VERSION"))];
    lines.push(format!("  data folder  {}", config.data.display()));
    lines.push(format!("  database     {}", config.location));
    if let Some(key) = &prepared.shown_key {
        let file = config.data.join(CLIENT_FILE);
        lines.extend(match prepared.audience {
            Audience::Terminal => [
                format!("  API key      {key}"),
                format!(
                    "               of the principal {FIRST_PRINCIPAL}; shown once, also in {}",
                    file.display()
                ),
            ],
            Audience::Log => [
                format!("  API key      written to {}", file.display()),
                format!("               of the principal {FIRST_PRINCIPAL}; shown here in terminals only"),
            ],
        });
    }
    if prepared.key_is_elsewhere {
        lines.push(
            "  API key      another node created the first key; it is in client.json of that node's data folder"
                .to_owned(),
        );
        lines.push(
            "               for one that all nodes know, start any of them with --bootstrap-key".to_owned(),
        );
    }
    match &prepared.sign_in {
        Some(link) => {
            lines.push(format!("  inbox        {link}"));
            lines.push(format!(
                "               signs in once, within half an hour, as the principal {OWNER_PRINCIPAL}"
            ));
        }
        None => lines.push(format!("  inbox        {}/inbox", config.link_settings(address).public_url)),
    }
    lines.extend(what_next(config, prepared));
    if config.demo {
        lines.extend(crate::demo::greeting(&server));
    }
    println!("{}", lines.join("\n"));
}

/// Lines to copy: the first start shows what the server is for. Where no sign-in link was printed, the last line makes one.
fn what_next(config: &Config, prepared: &Prepared) -> Vec<String> {
    let program = std::env::args().next().unwrap_or_else(|| "holdpoint".to_owned());
    let data = if config.data == Path::new("./holdpoint-data") {
        String::new()
    } else {
        format!(" --data {}", config.data.display())
    };
    let key = "  export HOLDPOINT_KEY=…   # a key of this server, such as the bootstrap key".to_owned();
    let key = (!prepared.key_is_left).then_some(key);
    let mut lines = vec![String::new()];
    if prepared.is_first {
        let steps = ["runs start sample-approval", "pending", "answer latest review accept"];
        lines.push("Try it, in another terminal:".to_owned());
        lines.extend(key.clone());
        lines.extend(steps.map(|step| format!("  {program} {step}{data}")));
    }
    if prepared.sign_in.is_none() {
        let owner = if prepared.has_owner { format!(" --as {OWNER_KEY}") } else { String::new() };
        lines.push("To sign in, in another terminal:".to_owned());
        lines.extend(key.filter(|_| !prepared.is_first));
        lines.push(format!("  {program} inbox --link{owner}{data}   # prints a link that signs in, once"));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use holdpoint_engine::{Location, Options};

    #[tokio::test]
    async fn of_nodes_that_start_together_one_makes_the_first_key() {
        let folder = tempfile::tempdir().unwrap();
        let location = Location::Sqlite(folder.path().join("holdpoint.db"));
        let engine = Engine::open(Options::new(location.clone())).await.unwrap();
        let tenant = TenantId::parse("default").unwrap();
        let address = SocketAddr::from(([127, 0, 0, 1], 8484));
        let node = |name: &str| {
            let data = folder.path().join(name);
            std::fs::create_dir(&data).unwrap();
            let location = location.clone();
            let defaults = crate::config::tests::load(&[]).unwrap();
            Config { listen: address, data, location, ..defaults }
        };
        let (a, b) = (node("a"), node("b"));
        let start = |node| prepare(&engine, &tenant, node, address);
        let (one, other) = tokio::join!(start(&a), start(&b));
        let shown: Vec<String> =
            [one.unwrap(), other.unwrap()].into_iter().filter_map(|node| node.shown_key).collect();
        assert_eq!(
            (shown.len(), engine.key_count().await.unwrap()),
            (1, 2),
            "one for the terminal, one for the page"
        );
        let left: Vec<String> = [&a, &b].iter().filter_map(|node| read_client_file(&node.data)).collect();
        assert_eq!(left, shown, "no file keeps a key that nobody knows");
        assert!(!store_first_key(&engine, &tenant, "another").await.unwrap());
    }
}
