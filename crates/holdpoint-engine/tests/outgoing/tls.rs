//! TLS: the name in the URL is the one that counts, whichever address was called.

use std::sync::Arc;

use holdpoint_engine::outgoing::{Authorities, Error, Outgoing, Policy, Resolver, Script};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};

use crate::certificates::Certificates;
use crate::peer::{Peer, Reply, get, ip};

struct Secured {
    peer: Peer,
    authority: Authorities,
    stranger: Authorities,
    // Last, so that files are there as long as anything may read them.
    _folder: tempfile::TempDir,
}

/// A server with a certificate for `localhost` and 127.0.0.1.
async fn secured() -> Secured {
    let folder = tempfile::tempdir().unwrap();
    let certificates = Certificates::new(folder.path().join("certificates"));
    certificates.authority("ours");
    certificates.authority("theirs");
    certificates.signed("server", "server", "ours");
    let peer = Peer::securely([Reply::json(200, "{}")], acceptor(&certificates, "server")).await;
    let trusted =
        |name: &str| Authorities::from_pem(&std::fs::read(certificates.certificate(name)).unwrap()).unwrap();
    Secured { peer, authority: trusted("ours"), stranger: trusted("theirs"), _folder: folder }
}

pub(crate) fn acceptor(certificates: &Certificates, name: &str) -> TlsAcceptor {
    let chain = CertificateDer::pem_file_iter(certificates.certificate(name)).unwrap();
    let key = PrivateKeyDer::from_pem_file(certificates.key(name)).unwrap();
    let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(chain.collect::<Result<_, _>>().unwrap(), key)
        .unwrap();
    TlsAcceptor::from(Arc::new(config))
}

fn trusting(authorities: &Authorities) -> Outgoing {
    let script =
        Script::default().answer("localhost", &[ip("127.0.0.1")]).answer("other.test", &[ip("127.0.0.1")]);
    Outgoing::new(Policy {
        allow_loopback: true,
        authorities: authorities.clone(),
        resolver: Resolver::Scripted(script),
        ..Policy::default()
    })
}

#[tokio::test]
async fn a_certificate_of_a_trusted_authority_for_the_name_is_good() {
    let secured = secured().await;
    let port = secured.peer.address.port();
    for host in ["localhost", "localhost.", "127.0.0.1"] {
        let url = format!("https://{host}:{port}/");
        assert_eq!(trusting(&secured.authority).send(get(&url)).await.unwrap().status, 200, "{host}");
    }
}

#[tokio::test]
async fn any_other_certificate_is_not() {
    let secured = secured().await;
    let port = secured.peer.address.port();
    for (host, authority) in [
        ("other.test", &secured.authority),
        ("localhost", &secured.stranger),
        ("localhost", &Authorities::default()),
    ] {
        let failed = trusting(authority).send(get(&format!("https://{host}:{port}/?key=secret"))).await;
        let failed = failed.unwrap_err();
        assert!(matches!(failed, Error::Tls { .. }), "{host}: {failed:?}");
        assert!(!failed.to_string().contains("secret"), "{failed}");
    }
    assert!(secured.peer.heard().is_empty(), "nothing was said to a stranger");
}

#[tokio::test]
async fn a_server_that_does_not_speak_tls_is_not_trusted() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("https://localhost:{}/", listener.local_addr().unwrap().port());
    tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        stream.write_all(b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n").await.unwrap();
    });
    let failed = trusting(&secured().await.authority).send(get(&url)).await.unwrap_err();
    assert!(matches!(failed, Error::Tls { .. }), "{failed:?}");
}

#[tokio::test]
async fn a_server_that_never_shakes_hands_is_given_up() {
    // Connections are taken by the system, and nobody ever looks at them.
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("https://127.0.0.1:{}/", listener.local_addr().unwrap().port());
    let connect_timeout = std::time::Duration::from_millis(100);
    let authorities = secured().await.authority;
    let outgoing =
        Outgoing::new(Policy { allow_loopback: true, authorities, connect_timeout, ..Policy::default() });
    let failed = outgoing.send(get(&url)).await.unwrap_err();
    assert!(matches!(&failed, Error::Tls { why, .. } if why.contains("100 ms")), "{failed:?}");
}
