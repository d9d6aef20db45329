//! TLS of the server: certificate, key and authorities of client certificates. The files are read again when they
//! change.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use anyhow::{Context, anyhow, bail};
use tokio::signal::unix::{SignalKind, signal};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::server::WebPkiClientVerifier;
use tokio_rustls::rustls::{Error, RootCertStore, ServerConfig};

/// The interval of checks for changed files.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// The files of TLS, all in PEM format.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TlsFiles {
    /// The certificate of the server, followed by those of intermediate authorities.
    pub certificate: PathBuf,
    pub key: PathBuf,
    /// The authorities of client certificates. If set, every client must send a certificate.
    pub client_ca: Option<PathBuf>,
}

/// The TLS configuration that is in use now.
#[derive(Debug)]
pub(crate) struct ReloadableTls {
    files: TlsFiles,
    current: RwLock<Arc<ServerConfig>>,
}

impl ReloadableTls {
    pub(crate) fn load(files: &TlsFiles) -> anyhow::Result<Self> {
        Ok(Self { files: files.clone(), current: RwLock::new(Arc::new(files.load()?)) })
    }

    pub(super) fn acceptor(&self) -> TlsAcceptor {
        self.current.read().unwrap_or_else(PoisonError::into_inner).clone().into()
    }

    /// Reads the files again when they change and on SIGHUP. If they are invalid, the previous configuration stays in
    /// use.
    pub(crate) async fn follow_files(self: Arc<Self>) {
        let mut hang_up = match signal(SignalKind::hangup()) {
            Ok(hang_up) => hang_up,
            Err(error) => {
                return tracing::error!(%error, "TLS files are not read again: cannot listen for SIGHUP");
            }
        };
        let mut check = tokio::time::interval(CHECK_INTERVAL);
        let mut loaded = self.files.versions().await;
        let mut seen = loaded.clone();
        loop {
            let is_signal = tokio::select! {
                _ = hang_up.recv() => true,
                _ = check.tick() => false,
            };
            let now = self.files.versions().await;
            // A certificate and its key are two files: they are read when neither has changed for one interval.
            let is_settled = now == seen && now != loaded;
            seen.clone_from(&now);
            if is_signal || is_settled {
                loaded = now;
                self.reload().await;
            }
        }
    }

    async fn reload(&self) {
        let files = self.files.clone();
        let read = tokio::task::spawn_blocking(move || files.load()).await;
        match read.map_err(anyhow::Error::from).and_then(|read| read) {
            Ok(config) => {
                *self.current.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(config);
                tracing::info!("the TLS certificate was read again and is in use for new connections");
            }
            Err(error) => {
                let error = format!("{error:#}");
                tracing::error!(error, "the TLS files cannot be used; the previous certificate stays in use");
            }
        }
    }
}

/// The version of a file: mtime, size and inode. None if the file does not exist.
type FileVersion = Option<(i64, i64, u64, u64)>;

impl TlsFiles {
    async fn versions(&self) -> Vec<FileVersion> {
        let files = self.clone();
        let read = tokio::task::spawn_blocking(move || {
            let paths = [Some(files.certificate), Some(files.key), files.client_ca];
            paths.into_iter().flatten().map(|path| file_version(&path)).collect()
        });
        read.await.unwrap_or_default()
    }

    fn load(&self) -> anyhow::Result<ServerConfig> {
        let chain = certificates("--tls-cert", &self.certificate)?;
        let key = PrivateKeyDer::from_pem_slice(&read("--tls-key", &self.key)?);
        // The error of the parser is not shown: it may quote a line of the key.
        let key =
            key.map_err(|_| anyhow!("--tls-key {}: is not a private key in PEM format", self.key.display()))?;
        let provider = Arc::new(ring::default_provider());
        let builder =
            ServerConfig::builder_with_provider(provider.clone()).with_safe_default_protocol_versions()?;
        let builder = match &self.client_ca {
            None => builder.with_no_client_auth(),
            Some(path) => {
                let roots = Arc::new(authorities(path)?);
                let verifier = WebPkiClientVerifier::builder_with_provider(roots, provider).build();
                let verifier = verifier.with_context(|| format!("--tls-client-ca {}", path.display()))?;
                builder.with_client_cert_verifier(verifier)
            }
        };
        let config = builder.with_single_cert(chain, key);
        let mut config = config.map_err(|error| match error {
            Error::InconsistentKeys(_) => anyhow!(
                "--tls-key {}: is not the key of the certificate in --tls-cert {}",
                self.key.display(),
                self.certificate.display()
            ),
            other => anyhow!("--tls-cert {}: {other}", self.certificate.display()),
        })?;
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(config)
    }
}

fn file_version(path: &Path) -> FileVersion {
    let metadata = std::fs::metadata(path).ok()?;
    Some((metadata.mtime(), metadata.mtime_nsec(), metadata.size(), metadata.ino()))
}

fn read(setting: &str, path: &Path) -> anyhow::Result<Vec<u8>> {
    std::fs::read(path).with_context(|| format!("{setting} {}: cannot be read", path.display()))
}

fn certificates(setting: &str, path: &Path) -> anyhow::Result<Vec<CertificateDer<'static>>> {
    let pem = read(setting, path)?;
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&pem).collect();
    match found {
        Ok(found) if !found.is_empty() => Ok(found),
        _ => bail!("{setting} {}: has no certificate in PEM format", path.display()),
    }
}

fn authorities(path: &Path) -> anyhow::Result<RootCertStore> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates("--tls-client-ca", path)? {
        roots
            .add(certificate)
            .with_context(|| format!("--tls-client-ca {}: not an authority", path.display()))?;
    }
    Ok(roots)
}
