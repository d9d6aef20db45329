//! The verifier of the certificate of the server. It always checks that the server has the key of its certificate.

use std::sync::Arc;

use tokio_rustls::rustls::client::WebPkiServerVerifier;
use tokio_rustls::rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use tokio_rustls::rustls::crypto::{
    CryptoProvider, WebPkiSupportedAlgorithms, verify_tls12_signature, verify_tls13_signature,
};
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use tokio_rustls::rustls::{CertificateError, DigitallySignedStruct, Error, RootCertStore, SignatureScheme};

/// A verifier that accepts any certificate, or only those with a valid chain.
#[derive(Debug)]
pub(super) struct Verifier {
    algorithms: WebPkiSupportedAlgorithms,
    chain: Option<Chain>,
}

#[derive(Debug)]
struct Chain {
    verifier: Arc<WebPkiServerVerifier>,
    names: NameCheck,
}

/// The check that a certificate is for the name of the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NameCheck {
    Required,
    Skipped,
}

impl Verifier {
    pub(super) fn accept_any(provider: &CryptoProvider) -> Self {
        Self { algorithms: provider.signature_verification_algorithms, chain: None }
    }

    pub(super) fn signed_by(
        roots: RootCertStore,
        names: NameCheck,
        provider: Arc<CryptoProvider>,
    ) -> Result<Self, String> {
        let algorithms = provider.signature_verification_algorithms;
        let verifier = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider).build();
        let verifier = verifier.map_err(|error| error.to_string())?;
        Ok(Self { algorithms, chain: Some(Chain { verifier, names }) })
    }
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let Some(chain) = &self.chain else { return Ok(ServerCertVerified::assertion()) };
        let verified =
            chain.verifier.verify_server_cert(certificate, intermediates, name, ocsp_response, now);
        match verified {
            // The name is checked last, after the chain was verified.
            Err(Error::InvalidCertificate(
                CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
            )) if chain.names == NameCheck::Skipped => Ok(ServerCertVerified::assertion()),
            verified => verified,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, certificate, signature, &self.algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, certificate, signature, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}
