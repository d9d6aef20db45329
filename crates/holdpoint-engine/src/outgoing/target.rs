//! From the text of a URL to what will be called, and everything that can be refused without asking for an address.

use std::net::IpAddr;

use url::{Host, Url};

use super::error::Refused;
use super::policy::Policy;

/// A URL that may be called as far as its text tells.
#[derive(Clone, Debug)]
pub(super) struct Target {
    pub(super) url: Url,
    pub(super) host: Named,
    pub(super) port: u16,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Named {
    /// In lower case, in ASCII, without the dot at its end.
    Name(String),
    Address(IpAddr),
}

impl Target {
    pub(super) fn parse(text: &str, policy: &Policy) -> Result<Self, Refused> {
        check_text(text)?;
        let mut url = Url::parse(text).map_err(|_| Refused::Url("cannot be understood"))?;
        match url.scheme() {
            "https" => {}
            "http" if policy.allow_loopback || !policy.plain.is_empty() => {}
            _ => return Err(Refused::Scheme),
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err(Refused::UserInfo);
        }
        let port = match url.port_or_known_default() {
            None | Some(0) => return Err(Refused::Url("has no port that can be called")),
            Some(port) => port,
        };
        let host = match url.host() {
            Some(Host::Ipv4(address)) => Named::Address(address.into()),
            Some(Host::Ipv6(address)) => Named::Address(address.into()),
            Some(Host::Domain(name)) => Named::Name(plain_name(name, policy)?),
            None => return Err(Refused::Url("names no host")),
        };
        if let Named::Name(name) = &host {
            url.set_host(Some(name)).map_err(|_| Refused::Url("names no host"))?;
        }
        // It is for whoever reads the answer, never for the server.
        url.set_fragment(None);
        let target = Self { url, host, port };
        if let Named::Address(address) = target.host {
            target.check_address(address, policy)?;
        }
        Ok(target)
    }

    /// Judges one address that the host has, or is.
    pub(super) fn check_address(&self, address: IpAddr, policy: &Policy) -> Result<(), Refused> {
        policy.judge(self.host_text(), address).map_err(|refused| refused.logged(address))?;
        if !self.tls() && !policy.plain_text(address) {
            return Err(Refused::PlainText { host: self.host_text() });
        }
        Ok(())
    }

    pub(super) fn tls(&self) -> bool {
        self.url.scheme() == "https"
    }

    /// Scheme, host and port: what may be told of the URL.
    pub(super) fn origin(&self) -> String {
        self.url.origin().ascii_serialization()
    }

    pub(super) fn host_text(&self) -> String {
        match &self.host {
            Named::Name(name) => name.clone(),
            Named::Address(address) => address.to_string(),
        }
    }

    /// For the `Host` header: the port only where it is not the usual one.
    pub(super) fn authority(&self) -> String {
        let host = self.url.host_str().unwrap_or_default();
        match self.url.port() {
            Some(port) => format!("{host}:{port}"),
            None => host.to_owned(),
        }
    }

    /// For the request line.
    pub(super) fn path_and_query(&self) -> String {
        match self.url.query() {
            Some(query) => format!("{}?{query}", self.url.path()),
            None => self.url.path().to_owned(),
        }
    }
}

/// Browsers forgive a lot in a URL, and so does the parser. What it would silently repair is refused, because the
/// next program that reads the same text may repair it into something else.
fn check_text(text: &str) -> Result<(), Refused> {
    if text.len() > URL_BYTES_MAX {
        return Err(Refused::Url("is longer than 8192 bytes"));
    }
    if text.chars().any(|c| c.is_whitespace() || c.is_control() || c == '\\') {
        return Err(Refused::Url("contains blanks, control characters or backslashes"));
    }
    let Some((scheme, rest)) = text.split_once("://") else {
        return Err(Refused::Url("must begin with a scheme and two slashes"));
    };
    if !scheme.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
        return Err(Refused::Scheme);
    }
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    if authority.is_empty() {
        return Err(Refused::Url("names no host"));
    }
    if authority.contains('@') {
        return Err(Refused::UserInfo);
    }
    Ok(())
}

/// The name without the dot at its end, unless it stands for the inside of some network. The list is for good
/// messages and for resolvers with answers of their own; what counts is the address.
fn plain_name(name: &str, policy: &Policy) -> Result<String, Refused> {
    let name = name.strip_suffix('.').unwrap_or(name).to_ascii_lowercase();
    if name.is_empty() || name.split('.').any(str::is_empty) {
        return Err(Refused::Url("has a host name with an empty part"));
    }
    let last = name.rsplit('.').next().unwrap_or_default();
    let local = last == "localhost" || name == "localhost.localdomain";
    let metadata = ["metadata", "metadata.google.internal", "instance-data", "instance-data.ec2.internal"];
    if (local && !policy.names_this_machine()) || metadata.contains(&name.as_str()) {
        return Err(Refused::Name(name));
    }
    Ok(name)
}

const URL_BYTES_MAX: usize = 8192;
