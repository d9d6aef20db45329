//! Connections over TLS to a server that lets nobody in without it. One server for all that is promised.

use crate::certificates::{Certificates, give_key};
use crate::cluster::Cluster;
use crate::place;
use crate::server::{needs_change, open, whole_run};

/// Passwords over TLS for all but ann, whose certificate says who she is.
const WHO: &str = "hostssl all ann 127.0.0.1/32 cert\nhostssl all all 127.0.0.1/32 scram-sha-256";
const USERS: &str = "CREATE ROLE keeper LOGIN PASSWORD 'open sesame'; CREATE ROLE ann LOGIN IN ROLE keeper; \
                     GRANT CREATE ON SCHEMA public TO keeper";

struct House {
    cluster: Cluster,
    certificates: Certificates,
}

impl House {
    async fn build() -> Self {
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
        cluster.configure(&settings, WHO);
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

    /// Opens, works, and every connection of it is encrypted.
    async fn works(&self, url: &str) {
        let engine = open(url).await;
        whole_run(&engine).await;
        let open = "SELECT ssl FROM pg_stat_ssl JOIN pg_stat_activity USING (pid) \
                    WHERE application_name = 'holdpoint'";
        let found = place::read(&self.cluster.socket("postgres"), open).await;
        assert!(!found.is_empty(), "{url}: nobody is there");
        assert!(found.iter().all(|row| row[0].1.as_deref() == Some("t")), "{url}: {found:?}");
        engine.close().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_is_trusted_as_far_as_the_address_says() {
    let house = House::build().await;
    let (ours, theirs) = (house.authority("ours"), house.authority("theirs"));
    let elsewhere = "elsewhere.test";

    house.works(&house.address("127.0.0.1", &format!("sslmode=verify-full&{ours}"))).await;
    house.works(&house.address("localhost", &format!("sslmode=verify-full&{ours}"))).await;
    let wrong_name = house.address(elsewhere, &format!("hostaddr=127.0.0.1&sslmode=verify-full&{ours}"));
    needs_change(&wrong_name, "its certificate is for another host").await;
    let name_aside = house.address(elsewhere, &format!("hostaddr=127.0.0.1&sslmode=verify-ca&{ours}"));
    house.works(&name_aside).await;
    for mode in ["verify-full", "verify-ca", "require"] {
        let untrusted = house.address("127.0.0.1", &format!("sslmode={mode}&{theirs}"));
        needs_change(&untrusted, "not signed by an authority that we trust").await;
    }
    house.works(&house.address("127.0.0.1", "sslmode=require")).await;
    house.works(&house.address("127.0.0.1", "sslmode=prefer")).await;
    house.works(&house.address("127.0.0.1", "")).await;
    let plain = house.address("127.0.0.1", "sslmode=disable");
    needs_change(&plain, "lets it in from this machine, with or without TLS as `sslmode` says").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_signs_in_proves_who_they_are() {
    let house = House::build().await;
    let ours = format!("sslmode=verify-full&{}", house.authority("ours"));

    // The password is tied to the certificate of the server.
    house.works(&house.address("127.0.0.1", &format!("channel_binding=require&{ours}"))).await;
    let wrong = house.address_of("keeper:wrong-guess", "127.0.0.1", &ours);
    let said = needs_change(&wrong, "check the user and the password in the address").await;
    assert!(!said.contains("wrong-guess"), "{said}");
    let none = house.address_of("keeper", "127.0.0.1", &ours);
    needs_change(&none, "the address has no password").await;

    let (certificate, key) = (house.certificates.certificate("ann"), house.certificates.key("ann"));
    let identity = format!("{ours}&sslcert={}&sslkey={}", certificate.display(), key.display());
    house.works(&house.address_of("ann", "127.0.0.1", &identity)).await;
    needs_change(&house.address_of("ann", "127.0.0.1", &ours), "check that the user exists").await;
    needs_change(&house.address_of("keeper", "127.0.0.1", &identity), "the address has no password").await;
}
