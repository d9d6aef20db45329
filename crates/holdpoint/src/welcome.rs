//! The first start: creates a tenant, keys of two principals and a sample workflow. Every start prints a welcome text
//! with commands to try.

use std::io::{IsTerminal, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use anyhow::{Context, bail};
use holdpoint_core::TenantId;
use holdpoint_engine::{ApiKey, CredentialLimits, Engine};
use serde_json::Value;

use crate::auth::{KeyKind, TEST_KEY_PREFIX, fresh_secret, stored_key};
use crate::config::Config;
use crate::inbox::sessions::make_link;

/// The file that the command line reads: address and key.
const CLIENT_FILE: &str = "client.json";

/// The id of the key that a first start creates for the command line. It is the same on every node.
const FIRST_KEY: &str = "key_first";
/// The principal of that key. The sign-in link is for another principal, because by default a requester may not answer
/// its own holds.
const FIRST_PRINCIPAL: &str = "cli";
/// The id of the key behind the sign-in link of a first start. Its secret is not stored.
const OWNER_KEY: &str = "key_owner";
const OWNER_PRINCIPAL: &str = "owner";

const SAMPLE: &str = include_str!("welcome/sample-approval.json");

/// The output of the welcome text. Secrets are printed to terminals only: other output is stored in logs and journals.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum WelcomeOutput {
    Terminal,
    Log,
}

impl WelcomeOutput {
    fn of(output: &impl IsTerminal) -> Self {
        if output.is_terminal() { Self::Terminal } else { Self::Log }
    }
}

/// The first start on a database, which has no keys yet, or a later one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum StartKind {
    First,
    Later,
}

/// The results of a start, for the welcome text.
#[derive(Debug)]
pub(crate) struct StartReport {
    output: WelcomeOutput,
    /// True if this start created the first key.
    is_first: bool,
    /// The new key, which was not shown before.
    shown_key: Option<String>,
    /// True if another node created the first key at the same time, and showed it.
    other_node_has_key: bool,
    /// True if the data folder has a key for the command line.
    client_file_has_key: bool,
    /// A sign-in link of the owner; only if this start created the first key and the output is a terminal.
    sign_in: Option<String>,
    /// True if the owner has an active key, for which more links can be created.
    has_owner: bool,
}

impl StartReport {
    /// Returns the report of a start after another node created the first key.
    fn by_another_node(output: WelcomeOutput) -> Self {
        Self {
            output,
            is_first: false,
            shown_key: None,
            other_node_has_key: true,
            client_file_has_key: false,
            sign_in: None,
            has_owner: true,
        }
    }
}

/// Creates the first keys and the sample workflow if there are none, and writes the file of the command line.
pub(crate) async fn prepare(
    engine: &Engine,
    tenant: &TenantId,
    config: &Config,
    address: SocketAddr,
) -> anyhow::Result<StartReport> {
    let output = WelcomeOutput::of(&std::io::stdout());
    let start = if engine.keys().count().await? == 0 { StartKind::First } else { StartKind::Later };
    if start == StartKind::First {
        let sample: Value = serde_json::from_str(SAMPLE).context("the built-in sample workflow")?;
        engine.workflows().register_for_operator(tenant, sample).await?;
    }
    let left = read_client_file(&config.data);
    let shown_key = match (&config.access.bootstrap_key, start) {
        (None, StartKind::First) => Some(match &left {
            // An earlier start ended after it wrote this file: its key is not stored yet.
            Some(key) => key.clone(),
            None => fresh_secret(KeyKind::Live).map_err(key_error)?,
        }),
        _ => None,
    };
    // The file is written before the key is stored: in the other order, a crash between the two steps would leave a
    // stored key that no user knows.
    let key = shown_key.clone().or(left);
    let server = client_url(config, address);
    write_client_file(&config.data, &server, key.as_deref())?;
    let mut made = None;
    if let Some(secret) = &config.access.bootstrap_key {
        let added = store_bootstrap_key(engine, tenant, secret, start).await?;
        made = (start == StartKind::First && added).then_some(OWNER_KEY);
    } else if let Some(secret) = &shown_key {
        if !store_first_key(engine, tenant, secret).await? {
            write_client_file(&config.data, &server, None)?;
            return Ok(StartReport::by_another_node(output));
        }
        made = Some(OWNER_KEY);
    }
    let sign_in = match made {
        Some(key_id) if output == WelcomeOutput::Terminal => {
            let public_url = config.link_settings(address).public_url;
            Some(
                make_link(engine, &public_url, key_id, &CredentialLimits::default())
                    .await
                    .map_err(key_error)?
                    .0,
            )
        }
        _ => None,
    };
    let owner = engine.keys().get(tenant, OWNER_KEY).await?;
    let has_owner = owner.is_some_and(|owner| owner.is_active(engine.now()));
    let (other_node_has_key, client_file_has_key) = (false, key.is_some());
    let is_first = made.is_some();
    Ok(StartReport {
        output,
        is_first,
        shown_key,
        other_node_has_key,
        client_file_has_key,
        sign_in,
        has_owner,
    })
}

/// Stores the bootstrap key. Returns false if an earlier start or another node has stored it.
async fn store_bootstrap_key(
    engine: &Engine,
    tenant: &TenantId,
    secret: &str,
    start: StartKind,
) -> anyhow::Result<bool> {
    let mut stored = stored_key(secret, tenant.clone(), engine.now()).map_err(key_error)?;
    stored.principal = "bootstrap".to_owned();
    let added = match start {
        StartKind::First => {
            let owner = owner_key(engine, tenant, KeyKind::of(&stored))?;
            engine.keys().add_first(&stored, &owner).await?
        }
        StartKind::Later => engine.keys().add(&stored, None).await?,
    };
    if !added && engine.keys().tenant_is_test(tenant).await? == Some(!stored.test) {
        bail!(
            "--bootstrap-key: a tenant has either test keys, which begin with {TEST_KEY_PREFIX}, or live keys, and \
             this key does not match the keys in the database; use another database"
        );
    }
    Ok(added)
}

/// Returns the key of the owner. Its secret is discarded: only sign-in links use it.
fn owner_key(engine: &Engine, tenant: &TenantId, kind: KeyKind) -> anyhow::Result<ApiKey> {
    let secret = fresh_secret(kind).map_err(key_error)?;
    first_key(engine, tenant, &secret, OWNER_KEY, OWNER_PRINCIPAL)
}

/// Returns a key of a first start. Every node gives it the same id.
fn first_key(
    engine: &Engine,
    tenant: &TenantId,
    secret: &str,
    id: &str,
    principal: &str,
) -> anyhow::Result<ApiKey> {
    let fresh = stored_key(secret, tenant.clone(), engine.now()).map_err(key_error)?;
    Ok(ApiKey { key_id: id.to_owned(), lineage: id.to_owned(), principal: principal.to_owned(), ..fresh })
}

/// Stores the first keys. Nodes that start at the same time on an empty database use the same ids, so the primary key
/// of the table accepts the keys of one node. Returns false on the others.
async fn store_first_key(engine: &Engine, tenant: &TenantId, secret: &str) -> anyhow::Result<bool> {
    let first = first_key(engine, tenant, secret, FIRST_KEY, FIRST_PRINCIPAL)?;
    Ok(engine.keys().add_first(&first, &owner_key(engine, tenant, KeyKind::of(&first))?).await?)
}

fn key_error(error: crate::error::ApiError) -> anyhow::Error {
    anyhow::anyhow!("cannot create a key: {error:?}")
}

/// Returns the key that an earlier start wrote, if there is one.
fn read_client_file(data: &Path) -> Option<String> {
    let left: Value = serde_json::from_slice(&std::fs::read(data.join(CLIENT_FILE)).ok()?).ok()?;
    left.get("key")?.as_str().map(str::to_owned)
}

/// Returns the URL for the command line on this machine. With TLS it is the public URL, if there is one, because the
/// certificate is for that name.
fn client_url(config: &Config, address: SocketAddr) -> String {
    match config.links.public_url().filter(|_| config.tls.is_some()) {
        Some(public_url) => public_url.to_owned(),
        None => config.own_url(address),
    }
}

/// Writes a new file and renames it, so that a crash leaves the old file or the new one. Only the owner may read it.
fn write_client_file(data: &Path, server: &str, key: Option<&str>) -> anyhow::Result<()> {
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

/// Returns an address that a client on this machine can use.
pub(crate) fn reachable(address: SocketAddr) -> SocketAddr {
    let ip = if address.ip().is_unspecified() { IpAddr::V4(Ipv4Addr::LOCALHOST) } else { address.ip() };
    SocketAddr::new(ip, address.port())
}

/// Prints the welcome text.
pub(crate) fn print_welcome(config: &Config, address: SocketAddr, prepared: &StartReport) {
    let server = config.own_url(address);
    let mut lines = vec![format!("Holdpoint {} is ready on {server}", env!("CARGO_PKG_VERSION"))];
    lines.push(format!("  data folder  {}", config.data.display()));
    lines.push(format!("  database     {}", config.location));
    if let Some(key) = &prepared.shown_key {
        let file = config.data.join(CLIENT_FILE);
        lines.extend(match prepared.output {
            WelcomeOutput::Terminal => [
                format!("  API key      {key}"),
                format!(
                    "               of the principal {FIRST_PRINCIPAL}; shown once, also in {}",
                    file.display()
                ),
            ],
            WelcomeOutput::Log => [
                format!("  API key      written to {}", file.display()),
                format!("               of the principal {FIRST_PRINCIPAL}; printed to terminals only"),
            ],
        });
    }
    if prepared.other_node_has_key {
        lines.push(
            "  API key      another node created the first key; it is in client.json of that node's data folder"
                .to_owned(),
        );
        lines.push(
            "               for a key that all nodes share, start one of them with --bootstrap-key"
                .to_owned(),
        );
    }
    match &prepared.sign_in {
        Some(link) => {
            lines.push(format!("  inbox        {link}"));
            lines.push(format!(
                "               a sign-in link of the principal {OWNER_PRINCIPAL}; it works once, within half an hour"
            ));
        }
        None => lines.push(format!("  inbox        {}/inbox", config.link_settings(address).public_url)),
    }
    lines.extend(next_steps(config, prepared));
    if config.demo {
        lines.extend(crate::demo::welcome_lines(&server));
    }
    println!("{}", lines.join("\n"));
}

/// Returns commands to copy. After a first start they show a run with an approval. If no sign-in link was printed, the
/// last command creates one.
fn next_steps(config: &Config, prepared: &StartReport) -> Vec<String> {
    let program = std::env::args().next().unwrap_or_else(|| "holdpoint".to_owned());
    let data = if config.data == Path::new("./holdpoint-data") {
        String::new()
    } else {
        format!(" --data {}", config.data.display())
    };
    let key = "  export HOLDPOINT_KEY=…   # a key of this server, such as the bootstrap key".to_owned();
    let key = (!prepared.client_file_has_key).then_some(key);
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
        lines
            .push(format!("  {program} inbox --link{owner}{data}   # prints a sign-in link that works once"));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use holdpoint_engine::{Location, Options};

    #[tokio::test]
    async fn one_of_several_nodes_that_start_together_creates_the_first_key() {
        let folder = tempfile::tempdir().unwrap();
        let location = Location::Sqlite(folder.path().join("holdpoint.db"));
        let engine =
            Engine::open(crate::extensions::add_default(Options::new(location.clone()).manual_worker()))
                .await
                .unwrap();
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
            (shown.len(), engine.keys().count().await.unwrap()),
            (1, 2),
            "one key for the command line, one for the page"
        );
        let left: Vec<String> = [&a, &b].iter().filter_map(|node| read_client_file(&node.data)).collect();
        assert_eq!(left, shown, "no file has a key that was not shown");
        assert!(!store_first_key(&engine, &tenant, "another").await.unwrap());
    }
}
