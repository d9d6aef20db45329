//! The settings of a LangGraph server in the operator's file: address, key and timeouts.

use std::path::Path;
use std::time::Duration;

use holdpoint_core::agent::ReasoningVisibility;
use holdpoint_engine::extension::KeyRef;
use holdpoint_engine::outgoing::{Network, Outgoing, OutgoingPolicy, is_settable_header};
use holdpoint_engine::{OperatorApproval, Tenants};
use serde::Deserialize;

use crate::BadProviders;

/// Private networks. Servers in them can also be called with `http://`. All other servers require TLS, because requests
/// contain the key. Metadata addresses of clouds are not included.
const OWN_NETWORKS: [&str; 7] =
    ["127.0.0.0/8", "::1", "10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10", "fc00::/7"];
/// The maximum number of concurrent calls to one server. Most of them wait for a graph.
const CALLS_MAX: usize = 1024;
const DAY_MS: u64 = 24 * 3_600_000;

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct LangGraphSettings {
    pub url: String,
    pub api_key: Option<KeyRef>,
    /// The header that contains the key. Without it, the key is sent as a bearer token.
    pub header: Option<String>,
    /// The tenants that may use the server.
    #[serde(default)]
    pub tenants: Tenants,
    /// Requirements for answers to its interrupts.
    #[serde(default)]
    pub approval: OperatorApproval,
    /// The visibility of the reasoning in its messages.
    #[serde(default)]
    pub reasoning: ReasoningVisibility,
    connect_timeout_ms: Option<u64>,
    call_timeout_ms: Option<u64>,
    /// The longest time that one call waits for a graph. Then the next call waits.
    wait_ms: Option<u64>,
    /// The longest outage of the server that is tolerated while it runs a graph.
    outage_ms: Option<u64>,
    max_run_ms: Option<u64>,
}

/// The time limits for calls to a server.
#[derive(Clone, Copy, Debug)]
pub(super) struct LangGraphTimeouts {
    pub call_ms: u64,
    pub wait: Duration,
    pub outage: Duration,
    pub run: Duration,
}

impl LangGraphSettings {
    pub(super) fn timeouts(&self) -> Result<LangGraphTimeouts, BadProviders> {
        Ok(LangGraphTimeouts {
            call_ms: check_ms("callTimeoutMs", self.call_timeout_ms, 15_000)?,
            wait: Duration::from_millis(check_ms("waitMs", self.wait_ms, 20_000)?),
            outage: Duration::from_millis(check_ms("outageMs", self.outage_ms, 30_000)?),
            run: Duration::from_millis(check_ms("maxRunMs", self.max_run_ms, 600_000)?),
        })
    }

    /// Returns the HTTP client for the server, and its base URL.
    pub(super) fn outgoing(&self) -> Result<(Outgoing, String), BadProviders> {
        let broken = |error| BadProviders::new("url", format!("cannot be checked: {error}"));
        let own: Result<Vec<Network>, _> = OWN_NETWORKS.iter().map(|network| network.parse()).collect();
        let connect_ms = check_ms("connectTimeoutMs", self.connect_timeout_ms, 5_000)?;
        let outgoing = Outgoing::new(OutgoingPolicy {
            connect_timeout: Duration::from_millis(connect_ms),
            calls_max: CALLS_MAX,
            ..OutgoingPolicy::for_operator_networks(own.map_err(broken)?)
        });
        let url = outgoing
            .check_url(&self.url)
            .map_err(|refused| BadProviders::new("url", format!("cannot be called: {refused}")))?;
        if url.query().is_some() || self.url.contains('#') {
            return Err(BadProviders::new("url", "must not have a query or a fragment"));
        }
        Ok((outgoing, url.as_str().trim_end_matches('/').to_owned()))
    }

    /// Returns the header of the key, and the location of the key.
    pub(super) fn key(&self, base: &Path) -> Result<Option<(String, KeyRef)>, BadProviders> {
        let name = self.header.clone().unwrap_or_else(|| "authorization".to_owned());
        if !is_settable_header(&name) {
            return Err(BadProviders::new("header", "is not a header that can be set"));
        }
        match &self.api_key {
            Some(key) => Ok(Some((name.to_ascii_lowercase(), key.clone().in_folder(base)))),
            None if self.header.is_some() => Err(BadProviders::new("header", "requires apiKey")),
            None => Ok(None),
        }
    }
}

fn check_ms(field: &str, given: Option<u64>, default: u64) -> Result<u64, BadProviders> {
    let ms = given.unwrap_or(default);
    if (1..=DAY_MS).contains(&ms) {
        return Ok(ms);
    }
    Err(BadProviders::new(field, format!("must be 1 to {DAY_MS}")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn settings(value: Value) -> LangGraphSettings {
        serde_json::from_value(value).unwrap()
    }

    fn refusal(url: &str) -> String {
        settings(json!({ "url": url })).outgoing().unwrap_err().to_string()
    }

    #[test]
    fn a_server_in_a_private_network_can_be_called_without_tls() {
        for url in
            ["http://127.0.0.1:2024", "http://localhost:2024/", "http://10.1.2.3", "https://graphs.test/a/"]
        {
            let (_, base) = settings(json!({ "url": url })).outgoing().unwrap();
            assert_eq!(base, url.trim_end_matches('/'));
        }
    }

    #[test]
    fn a_public_server_requires_https_and_metadata_addresses_are_rejected() {
        assert!(refusal("http://93.184.215.14").contains("must be called with https"));
        assert!(refusal("http://169.254.169.254").contains("must not be called"));
        assert!(refusal("http://metadata.google.internal").contains("internal network"));
        assert!(refusal("https://me:secret@graphs.test").contains("user name"));
        assert!(refusal("https://graphs.test/?key=1").contains("must not have a query or a fragment"));
    }

    #[test]
    fn a_key_is_a_bearer_token_unless_the_operator_names_a_header() {
        let key = |value| settings(value).key(Path::new("/etc/holdpoint"));
        let file = json!({ "file": "key" });
        let (name, place) = key(json!({ "url": "", "apiKey": file })).unwrap().unwrap();
        assert_eq!((name.as_str(), place), ("authorization", KeyRef::File("/etc/holdpoint/key".into())));
        let named = json!({ "url": "", "apiKey": file, "header": "X-Api-Key" });
        assert_eq!(key(named).unwrap().unwrap().0, "x-api-key");
        assert!(key(json!({ "url": "", "header": "X-Api-Key" })).is_err());
        assert!(key(json!({ "url": "", "apiKey": file, "header": "Host" })).is_err());
    }
}
