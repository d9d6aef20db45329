//! The first start: a tenant, a key, a sample workflow, and three lines that show what Holdpoint does.

use std::io::Write;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use anyhow::Context;
use holdpoint_core::TenantId;
use holdpoint_engine::Engine;
use serde_json::{Value, json};

use crate::admin::keys::{fresh_secret, stored_key};
use crate::config::Config;

/// What the command line reads: address and key.
const CLIENT_FILE: &str = "client.json";

const SAMPLE: &str = include_str!("welcome/sample-approval.json");

/// What the first start made, for the greeting.
#[derive(Debug)]
pub(crate) struct Prepared {
    /// A key that nobody has seen yet.
    shown_key: Option<String>,
    /// Whether the command line finds a key in the data folder.
    key_is_left: bool,
}

/// Makes the store usable and leaves in the data folder what the command line needs.
pub(crate) async fn prepare(
    engine: &Engine,
    tenant: &TenantId,
    config: &Config,
    address: SocketAddr,
) -> anyhow::Result<Prepared> {
    let first = engine.key_count().await? == 0;
    if first {
        let sample: Value = serde_json::from_str(SAMPLE).context("the built-in sample workflow")?;
        engine.register(tenant, sample).await?;
    }
    let left = read_client_file(&config.data);
    let shown_key = match (&config.bootstrap_key, first) {
        (None, true) => Some(match &left {
            // A start that got no further than this file: its key is still to be stored.
            Some(key) => key.clone(),
            None => fresh_secret().map_err(broken)?,
        }),
        _ => None,
    };
    // The file comes first: a key that is stored and known to nobody would lock everybody out.
    let key = shown_key.clone().or(left);
    leave_client_file(&config.data, address, key.as_deref())?;
    if let Some(secret) = config.bootstrap_key.as_ref().or(shown_key.as_ref()) {
        let mut stored = stored_key(secret, tenant.clone(), engine.now()).map_err(broken)?;
        stored.principal = if shown_key.is_some() { "admin" } else { "bootstrap" }.to_owned();
        engine.add_key(&stored).await?;
    }
    Ok(Prepared { shown_key, key_is_left: key.is_some() })
}

fn broken(error: crate::error::ApiError) -> anyhow::Error {
    anyhow::anyhow!("cannot make a key: {error:?}")
}

/// The key that an earlier start left, if there is one.
fn read_client_file(data: &Path) -> Option<String> {
    let left: Value = serde_json::from_slice(&std::fs::read(data.join(CLIENT_FILE)).ok()?).ok()?;
    left.get("key")?.as_str().map(str::to_owned)
}

/// Written beside and moved into place: a crash leaves the old file or the new one. Only the owner may read it.
fn leave_client_file(data: &Path, address: SocketAddr, key: Option<&str>) -> anyhow::Result<()> {
    let mut content = json!({"server": format!("http://{}", reachable(address))});
    if let Some(key) = key {
        content["key"] = json!(key);
    }
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
fn reachable(address: SocketAddr) -> SocketAddr {
    let ip = if address.ip().is_unspecified() { IpAddr::V4(Ipv4Addr::LOCALHOST) } else { address.ip() };
    SocketAddr::new(ip, address.port())
}

pub(crate) fn greet(config: &Config, address: SocketAddr, prepared: &Prepared) {
    let server = format!("http://{}", reachable(address));
    let mut lines = vec![format!("Holdpoint {} is ready on {server}", env!("CARGO_PKG_VERSION"))];
    lines.push(format!("  data folder  {}", config.data.display()));
    if let Some(key) = &prepared.shown_key {
        lines.push(format!("  API key      {key}"));
        lines.push(format!("               shown once; also in {}", config.data.join(CLIENT_FILE).display()));
    }
    let program = std::env::args().next().unwrap_or_else(|| "holdpoint".to_owned());
    let data = if config.data == Path::new("./holdpoint-data") {
        String::new()
    } else {
        format!(" --data {}", config.data.display())
    };
    lines.push(String::new());
    lines.push("Try it, in another terminal:".to_owned());
    if !prepared.key_is_left {
        lines.push("  export HOLDPOINT_KEY=…   # a key of this server, such as the bootstrap key".to_owned());
    }
    lines.push(format!("  {program} runs start sample-approval{data}"));
    lines.push(format!("  {program} pending{data}"));
    lines.push(format!("  {program} answer latest review accept{data}"));
    println!("{}", lines.join("\n"));
}
