//! TLS: the certificate must be valid for the name in the URL, independently of the address.

use std::sync::Arc;

use holdpoint_engine::outgoing::{Authorities, Error, Outgoing, OutgoingPolicy, Resolver, ScriptedResolver};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};

use crate::certificates::Certificates;
use crate::peer::{Peer, PeerReply, get, ip};

/// A server with TLS, its authority, and another authority.
struct HttpsServer {
    peer: Peer,
    authority: Authorities,
    other_authority: Authorities,
    // The last field, so that the files exist as long as the server.
    _folder: tempfile::TempDir,
}

/// Starts a server with a certificate for `localhost` and 127.0.0.1.
async fn start_server() -> HttpsServer {
    let folder = tempfile::tempdir().unwrap();
    let certificates = Certificates::new(folder.path().join("certificates"));
    certificates.authority("ours");
    certificates.authority("theirs");
    certificates.signed("server", "server", "ours");
    let peer = Peer::with_tls([PeerReply::json(200, "{}")], acceptor(&certificates, "server")).await;
    let trusted =
        |name: &str| Authorities::from_pem(&std::fs::read(certificates.certificate(name)).unwrap()).unwrap();
    HttpsServer { peer, authority: trusted("ours"), other_authority: trusted("theirs"), _folder: folder }
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
    let script = ScriptedResolver::default()
        .answer("localhost", &[ip("127.0.0.1")])
        .answer("other.test", &[ip("127.0.0.1")]);
    Outgoing::new(OutgoingPolicy {
        allow_loopback: true,
        authorities: authorities.clone(),
        resolver: Resolver::Scripted(script),
        ..OutgoingPolicy::default()
    })
}

#[tokio::test]
async fn a_trusted_certificate_for_the_name_is_accepted() {
    let server = start_server().await;
    let port = server.peer.address.port();
    for host in ["localhost", "localhost.", "127.0.0.1"] {
        let url = format!("https://{host}:{port}/");
        assert_eq!(trusting(&server.authority).send(get(&url)).await.unwrap().status, 200, "{host}");
    }
}

#[tokio::test]
async fn an_untrusted_certificate_is_rejected() {
    let server = start_server().await;
    let port = server.peer.address.port();
    for (host, authority) in [
        ("other.test", &server.authority),
        ("localhost", &server.other_authority),
        ("localhost", &Authorities::default()),
    ] {
        let failed = trusting(authority).send(get(&format!("https://{host}:{port}/?key=secret"))).await;
        let failed = failed.unwrap_err();
        assert!(matches!(failed, Error::Tls { .. }), "{host}: {failed:?}");
        assert!(!failed.to_string().contains("secret"), "{failed}");
    }
    assert!(server.peer.requests().is_empty(), "no request is sent to an untrusted server");
}

#[tokio::test]
async fn a_server_without_tls_is_rejected() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("https://localhost:{}/", listener.local_addr().unwrap().port());
    tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        stream.write_all(b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n").await.unwrap();
    });
    let failed = trusting(&start_server().await.authority).send(get(&url)).await.unwrap_err();
    assert!(matches!(failed, Error::Tls { .. }), "{failed:?}");
}

#[tokio::test]
async fn a_tls_handshake_that_does_not_complete_times_out() {
    // The system accepts connections; the test does not read them.
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("https://127.0.0.1:{}/", listener.local_addr().unwrap().port());
    let connect_timeout = std::time::Duration::from_millis(100);
    let authorities = start_server().await.authority;
    let outgoing = Outgoing::new(OutgoingPolicy {
        allow_loopback: true,
        authorities,
        connect_timeout,
        ..OutgoingPolicy::default()
    });
    let failed = outgoing.send(get(&url)).await.unwrap_err();
    assert!(matches!(&failed, Error::Tls { why, .. } if why.contains("100 ms")), "{failed:?}");
}
