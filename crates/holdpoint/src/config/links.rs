//! Settings of signed links: public URL, maximum lifetime, rate limit.

use clap::Args;
use holdpoint_engine::LinkSecrets;

pub(super) use crate::links::LinkConfig;

const HEADING: &str = "Signed links";
const LIFE_SECONDS_MIN: u64 = 60;
const LIFE_SECONDS_MAX: u64 = LinkSecrets::LIFE_MS_MAX / 1000;

#[derive(Clone, Debug, Args)]
pub(crate) struct LinkArgs {
    /// Base URL of links, at which users reach this server, such as https://holdpoint.example.com
    /// [default: http:// or, with TLS, https:// and the listen address]
    #[arg(long, help_heading = HEADING, env = "HOLDPOINT_PUBLIC_URL", value_name = "URL", value_parser = parse_base_url)]
    public_url: Option<String>,
    /// Maximum lifetime of a link in seconds, up to 2592000 (30 days). The default is a week
    #[arg(long, help_heading = HEADING, env = "HOLDPOINT_LINK_SECONDS_MAX", value_name = "N", default_value_t = LinkConfig::LIFE_SECONDS_MAX_DEFAULT, value_parser = clap::value_parser!(u64).range(LIFE_SECONDS_MIN..=LIFE_SECONDS_MAX))]
    link_seconds_max: u64,
    /// Requests per second over the links of one principal to one interrupt, and invalid links per second from one
    /// address and from all addresses together; more get 429. 0 means no limit
    #[arg(long, help_heading = HEADING, env = "HOLDPOINT_LINK_RATE_LIMIT", value_name = "N", default_value_t = LinkConfig::RATE_DEFAULT)]
    link_rate_limit: u32,
}

/// Settings without the address of the server, which is known once the server listens.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct LinkSettings {
    public_url: Option<String>,
    life_ms_max: u64,
    rate_limit: Option<u32>,
}

impl LinkArgs {
    pub(super) fn into_settings(self) -> LinkSettings {
        LinkSettings {
            public_url: self.public_url,
            life_ms_max: self.link_seconds_max * 1000,
            rate_limit: (self.link_rate_limit > 0).then_some(self.link_rate_limit),
        }
    }
}

impl LinkSettings {
    pub(crate) fn public_url(&self) -> Option<&str> {
        self.public_url.as_deref()
    }

    /// Returns the settings of a server that clients on this machine reach at `own_url`.
    pub(crate) fn at(&self, own_url: &str) -> LinkConfig {
        LinkConfig {
            public_url: self.public_url().unwrap_or(own_url).to_owned(),
            page_base: self.public_url().unwrap_or_default().to_owned(),
            life_ms_max: self.life_ms_max,
            rate_limit: self.rate_limit,
        }
    }
}

/// Parses a URL to which a path can be appended.
fn parse_base_url(text: &str) -> Result<String, String> {
    let text = text.trim_end_matches('/');
    let rest = ["https://", "http://"].iter().find_map(|scheme| text.strip_prefix(scheme));
    let fits = rest.is_some_and(|rest| !rest.is_empty() && !rest.starts_with('/'));
    let odd = |c: char| !c.is_ascii_graphic() || "?#@\"<>\\".contains(c);
    if !fits || text.contains(odd) {
        return Err("must be like https://holdpoint.example.com or https://example.com/holdpoint".to_owned());
    }
    Ok(text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    use crate::config::tests::load;

    fn settings(flags: &[&str]) -> Option<LinkConfig> {
        load(flags).ok().map(|config| config.links.at("http://127.0.0.1:8484"))
    }

    #[test]
    fn links_lead_to_the_listen_address_unless_set() {
        let found = settings(&[]).unwrap();
        assert_eq!(
            found,
            LinkConfig { public_url: "http://127.0.0.1:8484".to_owned(), ..LinkConfig::default() }
        );
    }

    #[test]
    fn a_public_url_has_a_host_and_no_query_or_credentials() {
        let of = |url: &str| settings(&["--public-url", url]).map(|settings| settings.public_url);
        for (given, base) in [
            ("https://a.example", Some("https://a.example")),
            ("https://a.example/", Some("https://a.example")),
            ("http://a.example:1/b/", Some("http://a.example:1/b")),
            ("ftp://a.example", None),
            ("a.example", None),
            ("https://", None),
            ("https:///b", None),
            ("https://u:p@a.example", None),
            ("https://a.example?b", None),
            ("https://a.example/#b", None),
            ("https://a b", None),
        ] {
            assert_eq!(of(given).as_deref(), base, "{given}");
        }
    }

    #[test]
    fn the_maximum_life_of_links_is_bounded() {
        let life = |seconds| settings(&["--link-seconds-max", seconds]).map(|settings| settings.life_ms_max);
        assert_eq!((life("60"), life("2592000")), (Some(60_000), Some(LinkSecrets::LIFE_MS_MAX)));
        assert_eq!((life("59"), life("2592001")), (None, None));
        assert_eq!(settings(&["--link-rate-limit", "0"]).unwrap().rate_limit, None);
    }
}
