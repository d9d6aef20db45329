//! Spellings of addresses: every spelling of a private address is rejected, and every spelling of a public address is
//! parsed to that address.

use std::net::Ipv4Addr;

use holdpoint_engine::outgoing::{Error, Outgoing, OutgoingPolicy, OutgoingRefusal, ScriptedResolver};

use crate::peer::{get, scripted};

const CLOSED: [[u8; 4]; 22] = [
    [0, 0, 0, 0],
    [0, 1, 2, 3],
    [10, 0, 0, 1],
    [10, 255, 255, 254],
    [100, 64, 0, 1],
    [100, 100, 100, 200],
    [127, 0, 0, 1],
    [127, 1, 2, 3],
    [168, 63, 129, 16],
    [169, 254, 169, 254],
    [169, 254, 170, 2],
    [172, 16, 0, 1],
    [172, 31, 255, 255],
    [192, 0, 0, 192],
    [192, 0, 2, 1],
    [192, 88, 99, 1],
    [192, 168, 1, 1],
    [198, 18, 0, 1],
    [198, 51, 100, 7],
    [224, 0, 0, 1],
    [240, 0, 0, 1],
    [255, 255, 255, 255],
];

/// Returns the spellings of an IPv4 address that browsers, and so the URL parser, accept.
pub(crate) fn of_v4([a, b, c, d]: [u8; 4]) -> Vec<String> {
    let whole = u32::from_be_bytes([a, b, c, d]);
    let (low24, low16) = (whole & 0xff_ffff, whole & 0xffff);
    let dotted = format!("{a}.{b}.{c}.{d}");
    let in_script = |zero: u32, dot: char| -> String {
        dotted.chars().map(|c| c.to_digit(10).map_or(dot, |n| char::from_u32(zero + n).unwrap())).collect()
    };
    let encoded: String = dotted.bytes().map(|byte| format!("%{byte:02x}")).collect();
    vec![
        dotted.clone(),
        format!("{dotted}."),
        whole.to_string(),
        format!("{whole}."),
        format!("0x{whole:x}"),
        format!("0X{whole:08X}"),
        format!("0{whole:o}"),
        format!("{a}.{low24}"),
        format!("{a}.{b}.{low16}"),
        format!("0x{a:x}.0x{b:x}.0x{c:x}.0x{d:x}"),
        format!("0x{a:x}.{low24}"),
        format!("0{a:o}.0{b:o}.0{c:o}.0{d:o}"),
        format!("000{a:o}.000{b:o}.000{c:o}.000{d:o}"),
        format!("0x{a:x}.0{b:o}.{c}.{d}"),
        format!("0{a:o}.0x{low24:x}"),
        // Full-width, bold and double-struck digits; East Asian full stops; characters that IDNA ignores.
        in_script(0xff10, '。'),
        in_script(0xff10, '．'),
        in_script(0x1d7ce, '.'),
        in_script(0x1d7d8, '｡'),
        dotted.replace('.', ".\u{ad}"),
        format!("{a}.{b}.{c}\u{200b}.{d}"),
        encoded,
        format!("{a}.{b}.{c}%2e{d}"),
    ]
}

/// Returns IPv6 addresses that embed the IPv4 address.
pub(crate) fn in_v6([a, b, c, d]: [u8; 4]) -> Vec<String> {
    let (high, low) = (u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d]));
    let (client_high, client_low) = (!high, !low);
    vec![
        format!("[::ffff:{a}.{b}.{c}.{d}]"),
        format!("[::FFFF:{high:x}:{low:x}]"),
        format!("[0:0:0:0:0:ffff:{high:x}:{low:x}]"),
        format!("[::{a}.{b}.{c}.{d}]"),
        format!("[::{high:x}:{low:x}]"),
        format!("[::ffff:0:{a}.{b}.{c}.{d}]"),
        format!("[64:ff9b::{a}.{b}.{c}.{d}]"),
        format!("[64:ff9b:1::{a}.{b}.{c}.{d}]"),
        format!("[64:ff9b:1:{high:x}:{:x}:{:x}::]", low >> 8, (low & 0xff) << 8),
        format!("[2002:{high:x}:{low:x}::1]"),
        // Teredo, with 8.8.8.8 as the client or as the server.
        format!("[2001:0:{high:x}:{low:x}:0:0:f7f7:f7f7]"),
        format!("[2001:0:808:808:0:0:{client_high:x}:{client_low:x}]"),
        format!("[2a00:1450:4001:82a:0:5efe:{high:x}:{low:x}]"),
        format!("[2a00:1450:4001:82a:200:5efe:{high:x}:{low:x}]"),
    ]
}

#[tokio::test]
async fn every_spelling_of_a_private_address_is_rejected() {
    let script = ScriptedResolver::default();
    let outgoing = scripted(&script, false);
    let mut rows = 0;
    for address in CLOSED {
        for host in of_v4(address).into_iter().chain(in_v6(address)) {
            for rest in ["/", ":443/", ":8443/x?y=z"] {
                let refused = outgoing.send(get(&format!("https://{host}{rest}"))).await;
                assert!(
                    matches!(refused, Err(Error::Refused(OutgoingRefusal::Address { .. }))),
                    "{host}: {refused:?}"
                );
                rows += 1;
            }
        }
    }
    assert!(rows > 2000, "{rows} rows");
    assert_eq!((outgoing.connects(), script.lookups()), (0, 0), "no lookup and no connection");
}

#[test]
fn every_spelling_of_a_public_address_is_parsed_to_that_address() {
    let outgoing = Outgoing::new(OutgoingPolicy::default());
    for address in [[8, 8, 8, 8], [1, 1, 1, 1], [93, 184, 216, 34]] {
        for host in of_v4(address) {
            let url = outgoing.check_url(&format!("https://{host}/")).unwrap();
            assert_eq!(url.host_str().unwrap(), Ipv4Addr::from(address).to_string(), "{host}");
        }
    }
    // ISATAP has no network of its own: the embedded address decides.
    assert!(outgoing.check_url("https://[2a00:1450:4001:82a:0:5efe:808:808]/").is_ok());
}

#[test]
fn an_allowed_tunnel_is_checked_by_its_embedded_address() {
    let tunnels = ["::/64", "64:ff9b::/96", "64:ff9b:1::/48", "2002::/16", "2001::/32"];
    let allow = tunnels.iter().map(|network| network.parse().unwrap()).collect();
    let outgoing = Outgoing::new(OutgoingPolicy { allow, ..OutgoingPolicy::default() });
    for host in CLOSED.into_iter().filter(|address| *address != [0, 0, 0, 0]).flat_map(in_v6) {
        assert!(outgoing.check_url(&format!("https://{host}/")).is_err(), "{host}");
    }
    // Some prefixes with 0.0.0.0 embed no address; these are rejected.
    for host in ["[::]", "[::ffff:0.0.0.0]", "[64:ff9b::0.0.0.0]", "[2002::1]"] {
        assert!(outgoing.check_url(&format!("https://{host}/")).is_err(), "{host}");
    }
    for open in in_v6([8, 8, 8, 8]) {
        assert!(outgoing.check_url(&format!("https://{open}/")).is_ok(), "{open}");
    }
}

#[tokio::test]
async fn internal_names_are_rejected_in_every_spelling() {
    let script = ScriptedResolver::default();
    let outgoing = scripted(&script, false);
    for host in [
        "localhost",
        "LOCALHOST",
        "LocalHost.",
        "localhost.",
        "foo.localhost",
        "a.b.localhost.",
        "localhost.localdomain",
        "loc%61lhost",
        "%6c%6f%63%61%6c%68%6f%73%74",
        "localhost%2e",
        "localhost:8443",
        "ｌｏｃａｌｈｏｓｔ",
        "ⓛⓞⓒⓐⓛⓗⓞⓢⓣ",
        "lo\u{ad}calhost",
        "𝗅𝗈𝖼𝖺𝗅𝗁𝗈𝗌𝗍",
        "a.b。ＬＯＣＡＬＨＯＳＴ",
        "metadata\u{200b}",
        "Instance-Data.EC2.internal.",
        "metadata",
        "metadata.",
        "METADATA.google.internal",
        "metadata.google.internal.",
        "metadata。google。internal",
        "instance-data",
    ] {
        let refused = outgoing.send(get(&format!("https://{host}/"))).await;
        assert!(matches!(refused, Err(Error::Refused(OutgoingRefusal::Name(_)))), "{host}: {refused:?}");
    }
    assert_eq!((outgoing.connects(), script.lookups()), (0, 0));
}

#[tokio::test]
async fn an_invalid_url_is_rejected() {
    let script = ScriptedResolver::default();
    let outgoing = scripted(&script, true);
    for url in [
        "",
        "example.com",
        "//example.com",
        "https:example.com",
        "https:/example.com",
        "https:///example.com",
        "https:////example.com",
        "https:\\\\example.com",
        "https://example.com\\@10.0.0.1/",
        " https://example.com",
        "https://example.com ",
        "https://exa mple.com/",
        "https://example.com/\r\nHost: x",
        "ht\ntps://example.com",
        "https://exam\tple.com",
        "https://",
        "https://?x",
        "https://#x",
        "https://:443/",
        "https://example.com:0/",
        "https://example.com:65536/",
        "https://example.com:443x/",
        "https://a..b/",
        "https://.example.com/",
        "https://example.com../",
        "https://./",
        "https://[localhost]/",
        "https://[example.com]/",
        "https://[127.0.0.1]/",
        "https://[10.0.0.1]:443/",
        "https://[::1",
        "https://::1/",
        "https://[fe80::1%25eth0]/",
        "https://[fe80::1%eth0]/",
        "https://[::1%25lo]/",
        "https://[::1]x/",
        "https://[[::1]]/",
        "https://1.2.3.4.5/",
        "https://256.1.1.1/",
        "https://1.2.3.0x100/",
        "https://4294967296/",
        "https://0x100000000/",
        "https://08.1.1.1/",
        "https://127.0.0.1%00.example.com/",
        "https://example.com%00/",
        "https://example.com%2f@10.0.0.1/",
        "https://exa%23mple.com/",
        "https://%5b::1%5d/",
        "https://xn--a/",
        "file:///etc/passwd",
        "unix:///run/x.sock",
        "javascript:alert(1)",
        "data:text/plain,x",
        "blob:https://example.com/x",
    ] {
        let refused = outgoing.send(get(url)).await;
        assert!(matches!(refused, Err(Error::Refused(_))), "{url:?}: {refused:?}");
        assert!(outgoing.check_url(url).is_err(), "{url:?}");
    }
    assert!(outgoing.check_url(&format!("https://example.com/{}", "x".repeat(9000))).is_err());
    assert_eq!((outgoing.connects(), script.lookups()), (0, 0));
}

#[test]
fn user_info_and_other_schemes_are_rejected() {
    let outgoing = Outgoing::new(OutgoingPolicy { allow_loopback: true, ..OutgoingPolicy::default() });
    for url in [
        "https://user@example.com/",
        "https://user:secret@example.com/",
        "https://:secret@example.com/",
        "https://@example.com/",
        "https://example.com@10.0.0.1/",
        "https://%75ser@example.com/",
    ] {
        assert_eq!(outgoing.check_url(url), Err(OutgoingRefusal::UserInfo), "{url}");
    }
    for url in [
        "ftp://example.com/",
        "gopher://example.com/",
        "ws://example.com/",
        "wss://example.com/",
        "http+unix://%2frun%2fx.sock/",
    ] {
        assert_eq!(outgoing.check_url(url), Err(OutgoingRefusal::Scheme), "{url}");
    }
}

#[test]
fn plain_http_is_rejected_unless_loopback_is_allowed() {
    let strict = Outgoing::new(OutgoingPolicy::default());
    assert_eq!(strict.check_url("http://example.com/"), Err(OutgoingRefusal::Scheme));
    assert_eq!(strict.check_url("HTTP://example.com/"), Err(OutgoingRefusal::Scheme));
    let relaxed = Outgoing::new(OutgoingPolicy { allow_loopback: true, ..OutgoingPolicy::default() });
    assert!(relaxed.check_url("http://localhost:8080/").is_ok());
    assert!(relaxed.check_url("http://a.localhost/").is_ok());
    assert!(relaxed.check_url("https://metadata.google.internal/").is_err(), "only loopback is allowed");
}

#[test]
fn a_valid_url_is_accepted_and_normalized() {
    let outgoing = Outgoing::new(OutgoingPolicy::default());
    for (text, normalized) in [
        ("https://example.com", "https://example.com/"),
        ("HTTPS://Example.COM:443/a/%2e%2e/b?x=%20y", "https://example.com/b?x=%20y"),
        ("https://example.com.:8443/x#part", "https://example.com:8443/x"),
        ("https://bücher.example/", "https://xn--bcher-kva.example/"),
        ("https://example.com/@user", "https://example.com/@user"),
        ("https://my_host.example/", "https://my_host.example/"),
    ] {
        assert_eq!(outgoing.check_url(text).unwrap().as_str(), normalized);
    }
}
