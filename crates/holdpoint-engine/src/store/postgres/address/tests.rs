//! Tests of valid addresses and of the errors for invalid ones.

use std::time::Duration;

use tokio_postgres::config::{SslMode, TargetSessionAttrs};

use super::super::tls::{ClientCertificate, ServerTrust};
use super::PostgresSettings;

fn parse(url: &str) -> PostgresSettings {
    PostgresSettings::parse(url).unwrap_or_else(|error| panic!("{url}: {error}"))
}

fn refused(url: &str) -> String {
    PostgresSettings::parse(url).expect_err(url).to_string()
}

#[test]
fn a_short_address_gets_the_defaults() {
    let settings = parse("postgres://ann@db.example/flows");
    assert_eq!((settings.connections, settings.committers), (10, 2));
    assert_eq!(settings.statement_timeout, Duration::from_secs(30));
    assert!(settings.notify && !settings.pooled);
    assert_eq!(settings.schema, None);
    assert_eq!(settings.tls.trust, ServerTrust::Any);
    assert_eq!(settings.config.get_ssl_mode(), SslMode::Prefer);
    assert_eq!(settings.config.get_application_name(), Some("holdpoint"));
    assert_eq!(settings.config.get_connect_timeout(), Some(&Duration::from_secs(5)));
    assert_eq!(settings.config.get_tcp_user_timeout(), Some(&Duration::from_secs(15)));
    assert_eq!(settings.config.get_keepalives_idle(), Duration::from_secs(30));
}

#[test]
fn parameters_of_the_address_override_the_defaults() {
    let settings = parse(
        "postgresql://ann@db/flows?application_name=a@b&connect_timeout=9&keepalives_idle=7&connections=20\
         &committers=4&statement_timeout=1500&notify=off&schema=t_1&target_session_attrs=read-write",
    );
    assert_eq!((settings.connections, settings.committers), (20, 4));
    assert_eq!(settings.statement_timeout, Duration::from_millis(1500));
    assert!(!settings.notify);
    assert_eq!(settings.schema.as_deref(), Some("t_1"));
    assert_eq!(settings.config.get_application_name(), Some("a@b"));
    assert_eq!(settings.config.get_user(), Some("ann"));
    assert_eq!(settings.config.get_connect_timeout(), Some(&Duration::from_secs(9)));
    assert_eq!(settings.config.get_keepalives_idle(), Duration::from_secs(7));
    assert_eq!(settings.config.get_target_session_attrs(), TargetSessionAttrs::ReadWrite);
}

#[test]
fn the_password_is_decoded_and_never_shown() {
    let settings = parse("postgres://ann:p%40s%2Fs%3Fw%25rd@db/flows?schema=x");
    assert_eq!(settings.config.get_password(), Some(&b"p@s/s?w%rd"[..]));
    for shown in [format!("{settings:?}"), settings.place()] {
        assert!(!shown.contains("p@s") && !shown.contains("p%40s"), "{shown}");
    }
}

#[test]
fn the_error_for_an_unencoded_password_does_not_contain_it() {
    for url in [
        "postgres://ann:secret?more@db/flows",
        "postgres://ann:secret@more@db/flows",
        "postgres://ann:secret?more=@db/flows",
        "ann:secret@more/flows",
    ] {
        let error = refused(url);
        assert!(!error.contains("secret") && !error.contains("more@"), "{error}");
    }
    assert!(refused("postgres://ann:p@ss@db/flows").contains("%40"));
    assert!(refused("postgres://ann:p?ss@db/flows").contains("%3F"));
}

#[test]
fn the_place_names_every_host_and_the_database() {
    assert_eq!(parse("postgres://ann:x@a,b:5433/flows").place(), "a:5432,b:5433/flows");
    assert_eq!(parse("postgres://ann@a").place(), "a:5432/ann");
    assert_eq!(parse("postgres://ann@[::1]:6000/flows").place(), "::1:6000/flows");
    assert_eq!(parse("postgres://ann@%2Frun%2Fpg:5440/flows").place(), "/run/pg:5440/flows");
    assert_eq!(parse("postgres:///flows?host=/run/pg&user=ann").place(), "/run/pg:5432/flows");
}

#[test]
fn tls_is_disabled_for_unix_sockets() {
    let settings = parse("postgres://ann@%2Frun%2Fpg/flows?sslmode=require");
    assert_eq!(settings.config.get_ssl_mode(), SslMode::Disable);
}

#[test]
fn the_tls_modes_are_those_of_libpq() {
    let file = || "/tls/ca.pem".into();
    for (query, mode, trust) in [
        ("sslmode=disable", SslMode::Disable, ServerTrust::Any),
        ("sslmode=prefer", SslMode::Prefer, ServerTrust::Any),
        ("sslmode=require", SslMode::Require, ServerTrust::Any),
        ("sslmode=require&sslrootcert=/tls/ca.pem", SslMode::Require, ServerTrust::Authority(file())),
        ("sslmode=verify-ca&sslrootcert=/tls/ca.pem", SslMode::Require, ServerTrust::Authority(file())),
        (
            "sslmode=verify-full&sslrootcert=%2Ftls%2Fca.pem",
            SslMode::Require,
            ServerTrust::AuthorityAndName(file()),
        ),
        ("sslmode=verify-full", SslMode::Require, ServerTrust::SystemAndName),
        ("sslmode=verify-full&sslrootcert=system", SslMode::Require, ServerTrust::SystemAndName),
        ("sslrootcert=system", SslMode::Require, ServerTrust::SystemAndName),
    ] {
        let settings = parse(&format!("postgres://ann@db/flows?{query}"));
        assert_eq!((settings.config.get_ssl_mode(), &settings.tls.trust), (mode, &trust), "{query}");
    }
}

#[test]
fn a_client_certificate_has_a_certificate_and_a_key() {
    let settings = parse("postgres://ann@db/flows?sslmode=require&sslcert=/tls/ann.pem&sslkey=/tls/ann.key");
    let identity = ClientCertificate { certificate: "/tls/ann.pem".into(), key: "/tls/ann.key".into() };
    assert_eq!(settings.tls.identity, Some(identity));
}

#[test]
fn a_transaction_pooler_turns_notifications_off() {
    let settings = parse("postgres://ann@db/flows?pooler=transaction&notify=on");
    assert!(settings.pooled && !settings.notify);
}

#[test]
fn an_invalid_address_is_rejected_with_a_reason() {
    for (rest, reason) in [
        ("mysql://ann@db/flows", "must start with postgres://"),
        ("postgres:///flows", "the host is missing"),
        ("postgres://ann@db:x/flows", "port"),
        (
            "postgres://ann@db/flows?sslmod=require",
            "unknown parameter `sslmod`; known parameters are application_name, ",
        ),
        ("postgres://ann@db/flows?sslmode=always", "disable, prefer, require, verify-ca, verify-full"),
        ("postgres://ann@db/flows?sslrootcert=/tls/ca.pem", "has no effect with sslmode=prefer"),
        ("postgres://ann@db/flows?sslmode=verify-ca", "does not authenticate the server"),
        ("postgres://ann@db/flows?sslmode=require&sslrootcert=system", "does not authenticate the server"),
        ("postgres://ann@db/flows?sslcert=/tls/ann.pem", "must be given together"),
        ("postgres://ann@db/flows?connections=3", "from 4 to 200, not `3`"),
        ("postgres://ann@db/flows?connections=many", "not `many`"),
        ("postgres://ann@db/flows?committers=17", "from 1 to 16"),
        ("postgres://ann@db/flows?connections=4&committers=3", "too few for committers=3"),
        ("postgres://ann@db/flows?statement_timeout=0", "from 1 to"),
        ("postgres://ann@db/flows?pooler=session", "none or transaction, not `session`"),
        ("postgres://ann@db/flows?notify=yes", "on or off, not `yes`"),
        ("postgres://ann@db/flows?schema=a%22b", "only letters, digits and `_`"),
        ("postgres://ann@db/flows?schema=x&pooler=transaction", "ALTER ROLE"),
        ("postgres://ann@db/flows?target_session_attrs=best", "target_session_attrs"),
    ] {
        let error = refused(rest);
        assert!(error.contains(reason), "{rest}: {error}");
    }
}
