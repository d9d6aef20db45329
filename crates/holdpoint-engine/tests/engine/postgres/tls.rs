//! Connections to a server that requires TLS.

use crate::certificates::{Certificates, give_key};
use crate::postgres::cluster::Cluster;
use crate::postgres::server::{needs_change, open, whole_run};
use crate::test_database;

/// The rules of `pg_hba.conf`: `ann` signs in with a client certificate, all other users with a password, all over TLS.
const RULES: &str = "hostssl all ann 127.0.0.1/32 cert\nhostssl all all 127.0.0.1/32 scram-sha-256";
const USERS: &str = "CREATE ROLE keeper LOGIN PASSWORD 'open sesame'; CREATE ROLE ann LOGIN IN ROLE keeper; \
                     GRANT CREATE ON SCHEMA public TO keeper";

/// A server with TLS and the certificates that it trusts.
struct TlsServer {
    cluster: Cluster,
    certificates: Certificates,
}

impl TlsServer {
    async fn start() -> Self {
        let cluster = Cluster::start();
        let certificates = Certificates::new(cluster.folder().join("certificates"));
        certificates.authority("ours");
        certificates.authority("theirs");
        certificates.signed("server", "server", "ours");
        certificates.signed("ann", "client", "ours");
        give_key(&certificates.key("server"), &cluster.data());
        let settings = format!(
            "ssl = on\nssl_cert_file = '{}'\nssl_key_file = '{}'\nssl_ca_file = '{}'",
            certificates.certificate("server").display(),
            certificates.key("server").display(),
            certificates.certificate("ours").display(),
        );
        cluster.configure(&settings, RULES);
        cluster.execute(USERS).await;
        Self { cluster, certificates }
    }

    fn address(&self, host: &str, parameters: &str) -> String {
        self.address_of("keeper:open%20sesame", host, parameters)
    }

    fn address_of(&self, user: &str, host: &str, parameters: &str) -> String {
        format!("postgres://{user}@{host}:{}/postgres?connections=4&{parameters}", self.cluster.port)
    }

    fn authority(&self, name: &str) -> String {
        format!("sslrootcert={}", self.certificates.certificate(name).display())
    }

    /// Opens an engine, completes a run and checks that all connections are encrypted.
    async fn works(&self, url: &str) {
        let engine = open(url).await;
        whole_run(&engine).await;
        let open = "SELECT ssl FROM pg_stat_ssl JOIN pg_stat_activity USING (pid) \
                    WHERE application_name = 'holdpoint'";
        let found = test_database::read(&self.cluster.socket("postgres"), open).await;
        assert!(!found.is_empty(), "{url}: the engine has no connection");
        assert!(found.iter().all(|row| row[0].1.as_deref() == Some("t")), "{url}: {found:?}");
        engine.close().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn server_certificates_are_verified_according_to_sslmode() {
    let server = TlsServer::start().await;
    let (ours, theirs) = (server.authority("ours"), server.authority("theirs"));
    let elsewhere = "elsewhere.test";

    server.works(&server.address("127.0.0.1", &format!("sslmode=verify-full&{ours}"))).await;
    server.works(&server.address("localhost", &format!("sslmode=verify-full&{ours}"))).await;
    let wrong_name = server.address(elsewhere, &format!("hostaddr=127.0.0.1&sslmode=verify-full&{ours}"));
    needs_change(&wrong_name, "the certificate of the server is for another host").await;
    let name_aside = server.address(elsewhere, &format!("hostaddr=127.0.0.1&sslmode=verify-ca&{ours}"));
    server.works(&name_aside).await;
    for mode in ["verify-full", "verify-ca", "require"] {
        let untrusted = server.address("127.0.0.1", &format!("sslmode={mode}&{theirs}"));
        needs_change(&untrusted, "not signed by a trusted authority").await;
    }
    server.works(&server.address("127.0.0.1", "sslmode=require")).await;
    server.works(&server.address("127.0.0.1", "sslmode=prefer")).await;
    server.works(&server.address("127.0.0.1", "")).await;
    let plain = server.address("127.0.0.1", "sslmode=disable");
    needs_change(&plain, "accepts it from this machine, with or without TLS according to `sslmode`").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_user_signs_in_with_the_right_password_or_client_certificate() {
    let server = TlsServer::start().await;
    let ours = format!("sslmode=verify-full&{}", server.authority("ours"));

    // Channel binding ties the password to the certificate of the server.
    server.works(&server.address("127.0.0.1", &format!("channel_binding=require&{ours}"))).await;
    let wrong = server.address_of("keeper:wrong-guess", "127.0.0.1", &ours);
    let message = needs_change(&wrong, "check the user and the password in the address").await;
    assert!(!message.contains("wrong-guess"), "{message}");
    let none = server.address_of("keeper", "127.0.0.1", &ours);
    needs_change(&none, "the address has no password").await;

    let (certificate, key) = (server.certificates.certificate("ann"), server.certificates.key("ann"));
    let identity = format!("{ours}&sslcert={}&sslkey={}", certificate.display(), key.display());
    server.works(&server.address_of("ann", "127.0.0.1", &identity)).await;
    needs_change(&server.address_of("ann", "127.0.0.1", &ours), "check that the user exists").await;
    needs_change(&server.address_of("keeper", "127.0.0.1", &identity), "the address has no password").await;
}
