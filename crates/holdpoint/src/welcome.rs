//! The first start: a tenant, a key, a sample workflow, and three lines that show what Holdpoint does.

use std::io::Write;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use anyhow::Context;
use holdpoint_core::TenantId;
use holdpoint_engine::Engine;
use serde_json::{Value, json};

use crate::admin::keys::{new_key, stored_key};
use crate::config::Config;

const SAMPLE: &str = include_str!("welcome/sample-approval.json");

/// Makes the store usable. Returns the key that was made, if this is the first start.
pub(crate) async fn prepare(
    engine: &Engine,
    tenant: &TenantId,
    bootstrap_key: Option<&str>,
) -> anyhow::Result<Option<String>> {
    let first = engine.key_count().await? == 0;
    let made = match bootstrap_key {
        Some(secret) => {
            let mut key = stored_key(secret, tenant.clone(), engine.now()).map_err(broken)?;
            key.principal = "bootstrap".to_owned();
            engine.add_key(&key).await?;
            None
        }
        None if first => {
            let (secret, mut key) = new_key(tenant.clone(), engine.now()).map_err(broken)?;
            key.principal = "admin".to_owned();
            engine.add_key(&key).await?;
            Some(secret)
        }
        None => None,
    };
    if first {
        let sample: Value = serde_json::from_str(SAMPLE).context("the built-in sample workflow")?;
        engine.register(tenant, sample).await?;
    }
    Ok(made)
}

fn broken(error: crate::error::ApiError) -> anyhow::Error {
    anyhow::anyhow!("cannot make a key: {error:?}")
}

/// Leaves the address, and the key if one was made, where the command line finds them. Only the owner may read it.
pub(crate) fn leave_client_file(
    data: &Path,
    address: SocketAddr,
    key: Option<&str>,
) -> anyhow::Result<ClientFile> {
    let path = data.join("client.json");
    let known = std::fs::read(&path).ok().and_then(|bytes| serde_json::from_slice::<Value>(&bytes).ok());
    let key = key.map(Value::from).or_else(|| known.as_ref()?.get("key").cloned());
    let mut content = json!({"server": format!("http://{}", reachable(address))});
    if let Some(key) = key {
        content["key"] = key;
    }
    // Written beside and moved into place: a crash leaves the old file or the new one.
    let fresh = data.join("client.json.new");
    let mut options = std::fs::OpenOptions::new();
    let opened = options.write(true).create(true).truncate(true).mode(0o600).open(&fresh);
    let written = opened.and_then(|mut file| {
        file.write_all(content.to_string().as_bytes())?;
        file.sync_all()?;
        std::fs::rename(&fresh, &path)
    });
    written.with_context(|| format!("cannot write {}", path.display()))?;
    Ok(ClientFile { has_key: content.get("key").is_some() })
}

/// What the command line will find.
#[derive(Debug)]
pub(crate) struct ClientFile {
    has_key: bool,
}

/// An address that a client on this machine can use.
fn reachable(address: SocketAddr) -> SocketAddr {
    let ip = if address.ip().is_unspecified() { IpAddr::V4(Ipv4Addr::LOCALHOST) } else { address.ip() };
    SocketAddr::new(ip, address.port())
}

pub(crate) fn greet(config: &Config, address: SocketAddr, key: Option<&str>, left: &ClientFile) {
    let server = format!("http://{}", reachable(address));
    let mut lines = vec![format!("Holdpoint {} is ready on {server}", env!("CARGO_PKG_VERSION"))];
    lines.push(format!("  data folder  {}", config.data.display()));
    if let Some(key) = key {
        lines.push(format!("  API key      {key}"));
        lines.push(format!(
            "               shown once; also in {}",
            config.data.join("client.json").display()
        ));
    }
    let program = std::env::args().next().unwrap_or_else(|| "holdpoint".to_owned());
    let data = if config.data == Path::new("./holdpoint-data") {
        String::new()
    } else {
        format!(" --data {}", config.data.display())
    };
    lines.push(String::new());
    lines.push("Try it, in another terminal:".to_owned());
    if !left.has_key {
        lines.push("  export HOLDPOINT_KEY=…   # a key of this server, such as the bootstrap key".to_owned());
    }
    lines.push(format!("  {program} runs start sample-approval{data}"));
    lines.push(format!("  {program} pending{data}"));
    lines.push(format!("  {program} answer latest review accept{data}"));
    println!("{}", lines.join("\n"));
}
