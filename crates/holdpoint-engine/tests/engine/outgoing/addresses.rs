//! The IANA registries of special-purpose addresses, repeated here: all addresses of each network are rejected, and the
//! addresses next to it are accepted.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use holdpoint_engine::outgoing::{Error, Network, Outgoing, OutgoingPolicy, OutgoingRefusal};

use crate::peer::get;

pub(crate) const CLOSED: [&str; 58] = [
    "0.0.0.0/8",
    "0.0.0.0/32",
    "10.0.0.0/8",
    "100.64.0.0/10",
    "127.0.0.0/8",
    "168.63.129.16/32",
    "169.254.0.0/16",
    "169.254.169.254/32",
    "172.16.0.0/12",
    "192.0.0.0/24",
    "192.0.0.0/29",
    "192.0.0.8/32",
    "192.0.0.9/32",
    "192.0.0.10/32",
    "192.0.0.170/31",
    "192.0.0.192/32",
    "192.0.2.0/24",
    "192.31.196.0/24",
    "192.52.193.0/24",
    "192.88.99.0/24",
    "192.168.0.0/16",
    "192.175.48.0/24",
    "198.18.0.0/15",
    "198.51.100.0/24",
    "203.0.113.0/24",
    "224.0.0.0/4",
    "240.0.0.0/4",
    "255.255.255.255/32",
    "::/128",
    "::1/128",
    "::/96",
    "::ffff:0:0/96",
    "::ffff:0:0:0/96",
    "64:ff9b::/96",
    "64:ff9b:1::/48",
    "100::/64",
    "100:0:0:1::/64",
    "2001::/23",
    "2001::/32",
    "2001:1::1/128",
    "2001:1::2/128",
    "2001:1::3/128",
    "2001:2::/48",
    "2001:3::/32",
    "2001:4:112::/48",
    "2001:10::/28",
    "2001:20::/28",
    "2001:30::/28",
    "2001:db8::/32",
    "2002::/16",
    "2620:4f:8000::/48",
    "3fff::/20",
    "4000::/2",
    "5f00::/16",
    "fc00::/7",
    "fe80::/10",
    "fec0::/10",
    "ff00::/8",
];

const OPEN: [&str; 56] = [
    "1.0.0.0",
    "1.1.1.1",
    "8.8.8.8",
    "9.255.255.255",
    "11.0.0.0",
    "100.63.255.255",
    "100.128.0.0",
    "126.255.255.255",
    "128.0.0.0",
    "168.63.129.15",
    "168.63.129.17",
    "169.253.255.255",
    "169.255.0.0",
    "172.15.255.255",
    "172.32.0.0",
    "191.255.255.255",
    "192.0.1.0",
    "192.0.1.255",
    "192.0.3.0",
    "192.31.195.255",
    "192.31.197.0",
    "192.52.192.255",
    "192.52.194.0",
    "192.88.98.255",
    "192.88.100.0",
    "192.167.255.255",
    "192.169.0.0",
    "192.175.47.255",
    "192.175.49.0",
    "198.17.255.255",
    "198.20.0.0",
    "198.51.99.255",
    "198.51.101.0",
    "203.0.112.255",
    "203.0.114.0",
    "223.255.255.255",
    "2000::",
    "2001:200::1",
    "2001:db7:ffff:ffff:ffff:ffff:ffff:ffff",
    "2001:db9::",
    "2001:4860:4860::8888",
    "2003::",
    "2606:4700:4700::1111",
    "2620:4f:7fff:ffff:ffff:ffff:ffff:ffff",
    "2620:4f:8001::",
    "2620:fe::fe",
    "2a00:1450:4001:82a::200e",
    "2a03:2880:f10c:83:face:b00c:0:25de",
    "2c0f::1",
    "3000::1",
    "3ffe:ffff:ffff:ffff:ffff:ffff:ffff:ffff",
    "3fff:1000::",
    "3fff:ffff:ffff:ffff:ffff:ffff:ffff:ffff",
    "2001:4998:44:3507::8000",
    "2400:cb00:2048:1::c629:d7a2",
    "2001:1ff:ffff:ffff:ffff:ffff:ffff:ffff",
];

/// Returns the first and the last address of a network, and some between them.
fn samples(network: &str) -> Vec<IpAddr> {
    let (base, prefix) = network.split_once('/').unwrap();
    let prefix: u32 = prefix.parse().unwrap();
    let walk = |hosts: u128| [0, 1, 0x5a5a_5a5a, hosts / 2, hosts / 3, hosts].map(|step| step & hosts);
    match base.parse().unwrap() {
        IpAddr::V4(base) => {
            let hosts = u128::from(u32::MAX.checked_shr(prefix).unwrap_or(0));
            let at = |step: u128| Ipv4Addr::from_bits(base.to_bits() + u32::try_from(step).unwrap());
            walk(hosts).map(|step| at(step).into()).to_vec()
        }
        IpAddr::V6(base) => {
            let hosts = u128::MAX.checked_shr(prefix).unwrap_or(0);
            walk(hosts).map(|step| Ipv6Addr::from_bits(base.to_bits() + step).into()).to_vec()
        }
    }
}

/// Returns the first and the last address of a network, and the public addresses next to it.
pub(crate) fn neighbours(network: &str) -> (Vec<IpAddr>, Vec<IpAddr>) {
    let ends = samples(network);
    let (first, last) = (ends[0], ends[ends.len() - 1]);
    let step = |address: IpAddr, up: bool| match address {
        IpAddr::V4(address) => {
            let bits = address.to_bits();
            let next = if up { bits.checked_add(1) } else { bits.checked_sub(1) };
            next.map(|bits| IpAddr::V4(Ipv4Addr::from_bits(bits)))
        }
        IpAddr::V6(address) => {
            let bits = address.to_bits();
            let next = if up { bits.checked_add(1) } else { bits.checked_sub(1) };
            next.map(|bits| IpAddr::V6(Ipv6Addr::from_bits(bits)))
        }
    };
    let unicast: Network = "2000::/3".parse().unwrap();
    let is_open = |address: &IpAddr| {
        let closed = CLOSED.iter().any(|network| network.parse::<Network>().unwrap().contains(*address));
        !closed && (address.is_ipv4() || unicast.contains(*address))
    };
    let outside = [step(first, false), step(last, true)].into_iter().flatten().filter(is_open).collect();
    (vec![first, last], outside)
}

pub(crate) fn url(address: IpAddr) -> String {
    match address {
        IpAddr::V4(address) => format!("https://{address}/x"),
        IpAddr::V6(address) => format!("https://[{address}]/x"),
    }
}

#[tokio::test]
async fn no_special_purpose_address_is_connected_to() {
    let outgoing = Outgoing::new(OutgoingPolicy::default());
    for network in CLOSED {
        for address in samples(network) {
            let refused = outgoing.send(get(&url(address))).await;
            assert!(
                matches!(refused, Err(Error::Refused(OutgoingRefusal::Address { .. }))),
                "{address} of {network}: {refused:?}"
            );
        }
    }
    assert_eq!(outgoing.connects(), 0);
}

#[test]
fn addresses_next_to_special_purpose_networks_are_accepted() {
    let outgoing = Outgoing::new(OutgoingPolicy::default());
    let closed: Vec<_> =
        OPEN.iter().filter(|address| outgoing.check_url(&url(address.parse().unwrap())).is_err()).collect();
    assert_eq!(
        closed,
        [&"2001:1ff:ffff:ffff:ffff:ffff:ffff:ffff"],
        "the last address of 2001::/23 shows that this test detects rejections"
    );
}

#[test]
fn allow_loopback_allows_only_loopback() {
    let outgoing = Outgoing::new(OutgoingPolicy { allow_loopback: true, ..OutgoingPolicy::default() });
    for network in CLOSED {
        for address in samples(network) {
            let loopback = network == "127.0.0.0/8" || address == IpAddr::V6(Ipv6Addr::LOCALHOST);
            for url in [url(address), url(address).replace("https:", "http:")] {
                assert_eq!(outgoing.check_url(&url).is_ok(), loopback, "{url}");
            }
        }
    }
    let plain = outgoing.check_url("http://8.8.8.8/");
    assert_eq!(plain, Err(OutgoingRefusal::PlainText { host: "8.8.8.8".to_owned() }));
}

#[test]
fn denied_networks_take_precedence_over_allowed_networks() {
    let networks = |texts: &[&str]| texts.iter().map(|text| text.parse::<Network>().unwrap()).collect();
    let outgoing = Outgoing::new(OutgoingPolicy {
        allow: networks(&["10.1.0.0/16", "fd00:1::/32", "64:ff9b::/96"]),
        deny: networks(&["10.1.9.0/24", "8.8.0.0/16", "2606:4700::/32"]),
        ..OutgoingPolicy::default()
    });
    let check = |host: &str| outgoing.check_url(&format!("https://{host}/")).err();
    let denied = |host: &str| Some(OutgoingRefusal::Denied { host: host.to_owned() });
    for open in ["10.1.2.3", "[fd00:1::7]", "1.1.1.1", "[64:ff9b::1.1.1.1]", "[64:ff9b::10.1.2.3]"] {
        assert_eq!(check(open), None, "{open}");
    }
    for closed in
        ["10.2.0.1", "[fd00:2::7]", "[64:ff9b::10.2.0.1]", "[64:ff9b::127.0.0.1]", "[::ffff:10.1.2.3]"]
    {
        assert!(matches!(check(closed), Some(OutgoingRefusal::Address { .. })), "{closed}");
    }
    assert_eq!(check("10.1.9.1"), denied("10.1.9.1"));
    assert_eq!(check("8.8.8.8"), denied("8.8.8.8"));
    assert_eq!(check("[2606:4700::1]"), denied("2606:4700::1"));
    assert_eq!(check("[64:ff9b::8.8.8.8]"), denied("64:ff9b::808:808"), "also behind NAT64");
}

#[test]
fn an_invalid_network_is_rejected() {
    for good in ["10.0.0.0/8", "0.0.0.0/0", "::/0", "192.0.2.7", "192.0.2.7/32", "2001:db8::/32", "::1"] {
        assert!(good.parse::<Network>().is_ok(), "{good}");
    }
    for bad in
        ["", "10.0.0.1/8", "10.0.0.0/33", "::/129", "10/8", "10.0.0.0/", "10.0.0.0/+8", "a/8", "::1/64"]
    {
        assert!(bad.parse::<Network>().is_err(), "{bad}");
    }
    let everything: Network = "0.0.0.0/0".parse().unwrap();
    assert!(everything.contains("203.0.113.7".parse().unwrap()));
    assert!(!everything.contains("::1".parse().unwrap()));
}
