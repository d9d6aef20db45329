//! Parses a URL and performs all checks that need no address lookup.

use std::net::IpAddr;

use url::{Host, Url};

use super::error::OutgoingRefusal;
use super::policy::OutgoingPolicy;

/// A URL whose text passed the checks.
#[derive(Clone, Debug)]
pub(super) struct OutgoingTarget {
    pub(super) url: Url,
    pub(super) host: TargetHost,
    pub(super) port: u16,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum TargetHost {
    /// A host name in lower case ASCII without a trailing dot.
    Name(String),
    Address(IpAddr),
}

impl OutgoingTarget {
    pub(super) fn parse(text: &str, policy: &OutgoingPolicy) -> Result<Self, OutgoingRefusal> {
        check_text(text)?;
        let mut url = Url::parse(text).map_err(|_| OutgoingRefusal::Url("cannot be parsed"))?;
        match url.scheme() {
            "https" => {}
            "http" if policy.allow_loopback || !policy.plain.is_empty() => {}
            _ => return Err(OutgoingRefusal::Scheme),
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err(OutgoingRefusal::UserInfo);
        }
        let port = match url.port_or_known_default() {
            None | Some(0) => return Err(OutgoingRefusal::Url("has an invalid port")),
            Some(port) => port,
        };
        let host = match url.host() {
            Some(Host::Ipv4(address)) => TargetHost::Address(address.into()),
            Some(Host::Ipv6(address)) => TargetHost::Address(address.into()),
            Some(Host::Domain(name)) => TargetHost::Name(normalize_name(name, policy)?),
            None => return Err(OutgoingRefusal::Url("has no host")),
        };
        if let TargetHost::Name(name) = &host {
            url.set_host(Some(name)).map_err(|_| OutgoingRefusal::Url("has no host"))?;
        }
        // The fragment is not sent to the server.
        url.set_fragment(None);
        let target = Self { url, host, port };
        if let TargetHost::Address(address) = target.host {
            target.check_address(address, policy)?;
        }
        Ok(target)
    }

    /// Checks one address of the host.
    pub(super) fn check_address(
        &self,
        address: IpAddr,
        policy: &OutgoingPolicy,
    ) -> Result<(), OutgoingRefusal> {
        policy.check_address(self.host_text(), address).map_err(|refused| refused.logged(address))?;
        if !self.is_tls() && !policy.allows_plain_http(address) {
            return Err(OutgoingRefusal::PlainText { host: self.host_text() });
        }
        Ok(())
    }

    pub(super) fn is_tls(&self) -> bool {
        self.url.scheme() == "https"
    }

    /// Returns scheme, host and port: the part of the URL that messages may contain.
    pub(super) fn origin(&self) -> String {
        self.url.origin().ascii_serialization()
    }

    pub(super) fn host_text(&self) -> String {
        match &self.host {
            TargetHost::Name(name) => name.clone(),
            TargetHost::Address(address) => address.to_string(),
        }
    }

    /// Returns the `Host` header. It contains the port only if it is not the default.
    pub(super) fn authority(&self) -> String {
        let host = self.url.host_str().unwrap_or_default();
        match self.url.port() {
            Some(port) => format!("{host}:{port}"),
            None => host.to_owned(),
        }
    }

    /// Returns path and query for the request line.
    pub(super) fn path_and_query(&self) -> String {
        match self.url.query() {
            Some(query) => format!("{}?{query}", self.url.path()),
            None => self.url.path().to_owned(),
        }
    }
}

/// Rejects texts that the URL parser would silently repair, because another program may repair them differently.
fn check_text(text: &str) -> Result<(), OutgoingRefusal> {
    if text.len() > URL_BYTES_MAX {
        return Err(OutgoingRefusal::Url("is longer than 8192 bytes"));
    }
    if text.chars().any(|c| c.is_whitespace() || c.is_control() || c == '\\') {
        return Err(OutgoingRefusal::Url("contains whitespace, control characters or backslashes"));
    }
    let Some((scheme, rest)) = text.split_once("://") else {
        return Err(OutgoingRefusal::Url("must begin with a scheme and two slashes"));
    };
    if !scheme.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
        return Err(OutgoingRefusal::Scheme);
    }
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    if authority.is_empty() {
        return Err(OutgoingRefusal::Url("has no host"));
    }
    if authority.contains('@') {
        return Err(OutgoingRefusal::UserInfo);
    }
    Ok(())
}

/// Returns the name without a trailing dot. Rejects names of internal hosts: this gives better messages and covers
/// resolvers with local answers. The check of the resolved address decides.
fn normalize_name(name: &str, policy: &OutgoingPolicy) -> Result<String, OutgoingRefusal> {
    let name = name.strip_suffix('.').unwrap_or(name).to_ascii_lowercase();
    if name.is_empty() || name.split('.').any(str::is_empty) {
        return Err(OutgoingRefusal::Url("has a host name with an empty label"));
    }
    let last = name.rsplit('.').next().unwrap_or_default();
    let local = last == "localhost" || name == "localhost.localdomain";
    let metadata = ["metadata", "metadata.google.internal", "instance-data", "instance-data.ec2.internal"];
    if (local && !policy.allows_local_names()) || metadata.contains(&name.as_str()) {
        return Err(OutgoingRefusal::Name(name));
    }
    Ok(name)
}

const URL_BYTES_MAX: usize = 8192;
