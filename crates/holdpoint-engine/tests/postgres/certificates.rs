//! Certificate authorities and certificates for tests, made with `openssl`.

use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The `openssl` configuration, with one section for each purpose. It is complete, so that the configuration of the
/// machine is not used.
const PURPOSES: &str = "
[req]
distinguished_name = subject
prompt = no
[subject]
CN = unused
[authority]
basicConstraints = critical, CA:true
keyUsage = critical, keyCertSign
[server]
basicConstraints = critical, CA:false
extendedKeyUsage = serverAuth
subjectAltName = DNS:localhost, IP:127.0.0.1
[elsewhere]
basicConstraints = critical, CA:false
extendedKeyUsage = serverAuth
subjectAltName = DNS:hook.example
[client]
basicConstraints = critical, CA:false
extendedKeyUsage = clientAuth
";

/// The `openssl ca` configuration for expired certificates. All other certificates are signed with `openssl req`.
const CA_DATABASE: &str = "
[expired_ca]
database = FOLDER/index
serial = FOLDER/serial
new_certs_dir = FOLDER
default_md = sha256
policy = names
[names]
commonName = supplied
";

/// Files of certificates and keys in one folder.
pub(crate) struct Certificates(PathBuf);

impl Certificates {
    pub(crate) fn new(folder: PathBuf) -> Self {
        std::fs::create_dir(&folder).unwrap();
        std::fs::write(folder.join("index"), "").unwrap();
        let ca_database = CA_DATABASE.replace("FOLDER", folder.to_str().unwrap());
        std::fs::write(folder.join("purposes"), format!("{PURPOSES}{ca_database}")).unwrap();
        Self(folder)
    }

    pub(crate) fn authority(&self, name: &str) {
        self.make(name, "authority", None);
    }

    /// Signs a certificate. The purpose is `server`, `elsewhere` (a server of another name) or `client`.
    pub(crate) fn signed(&self, name: &str, purpose: &str, by: &str) {
        self.make(name, purpose, Some(by));
    }

    /// Signs a server certificate that was valid for one day in 2020. Some test targets do not use it.
    #[allow(dead_code)]
    pub(crate) fn expired(&self, name: &str, by: &str) {
        let csr = self.0.join(format!("{name}.csr"));
        let mut request = Command::new("openssl");
        request.args(["req", "-new", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]);
        request.args(["-subj", &format!("/CN={name}"), "-config"]).arg(self.0.join("purposes"));
        run(request.arg("-keyout").arg(self.key(name)).arg("-out").arg(&csr));
        let mut sign = Command::new("openssl");
        sign.args([
            "ca",
            "-batch",
            "-notext",
            "-rand_serial",
            "-name",
            "expired_ca",
            "-extensions",
            "server",
        ]);
        sign.args(["-startdate", "20200101000000Z", "-enddate", "20200102000000Z", "-config"]);
        sign.arg(self.0.join("purposes")).arg("-in").arg(&csr).arg("-out").arg(self.certificate(name));
        run(sign.arg("-cert").arg(self.certificate(by)).arg("-keyfile").arg(self.key(by)));
    }

    pub(crate) fn certificate(&self, name: &str) -> PathBuf {
        self.0.join(format!("{name}.pem"))
    }

    pub(crate) fn key(&self, name: &str) -> PathBuf {
        self.0.join(format!("{name}.key"))
    }

    fn make(&self, name: &str, purpose: &str, by: Option<&str>) {
        let mut openssl = Command::new("openssl");
        openssl.args(["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]);
        openssl.args(["-days", "2", "-subj", &format!("/CN={name}"), "-extensions", purpose, "-config"]);
        openssl.arg(self.0.join("purposes")).arg("-keyout").arg(self.key(name));
        openssl.arg("-out").arg(self.certificate(name));
        if let Some(by) = by {
            openssl.arg("-CA").arg(self.certificate(by)).arg("-CAkey").arg(self.key(by));
        }
        run(&mut openssl);
    }
}

fn run(openssl: &mut Command) {
    let made = openssl.output().unwrap();
    assert!(made.status.success(), "openssl: {}", String::from_utf8_lossy(&made.stderr));
}

/// Gives a key to the owner of a path, with mode 600. PostgreSQL rejects keys that other users can read.
pub(crate) fn give_key(key: &Path, to_owner_of: &Path) {
    let owner = std::fs::metadata(to_owner_of).unwrap();
    std::fs::set_permissions(key, std::fs::Permissions::from_mode(0o600)).unwrap();
    chown(key, Some(owner.uid()), Some(owner.gid())).unwrap();
}
