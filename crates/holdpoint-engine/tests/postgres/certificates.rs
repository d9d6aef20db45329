//! Certificates for a test, made with `openssl`: authorities, and what they sign.

use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::Command;

/// What a certificate is for. Everything is said here, so that the settings of the machine do not count.
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

/// For certificates with dates that are over; everything else signs for as long as it needs.
const LEDGER: &str = "
[ledger]
database = FOLDER/ledger
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
        std::fs::write(folder.join("ledger"), "").unwrap();
        let ledger = LEDGER.replace("FOLDER", folder.to_str().unwrap());
        std::fs::write(folder.join("purposes"), format!("{PURPOSES}{ledger}")).unwrap();
        Self(folder)
    }

    pub(crate) fn authority(&self, name: &str) {
        self.make(name, "authority", None);
    }

    /// For `server`, `elsewhere` (a server of another name) or `client`.
    pub(crate) fn signed(&self, name: &str, purpose: &str, by: &str) {
        self.make(name, purpose, Some(by));
    }

    /// For `server`, as it was right for one day in 2020. Of the tests that share this file not all need it.
    #[allow(dead_code)]
    pub(crate) fn expired(&self, name: &str, by: &str) {
        let asked = self.0.join(format!("{name}.asked"));
        let mut request = Command::new("openssl");
        request.args(["req", "-new", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]);
        request.args(["-subj", &format!("/CN={name}"), "-config"]).arg(self.0.join("purposes"));
        run(request.arg("-keyout").arg(self.key(name)).arg("-out").arg(&asked));
        let mut sign = Command::new("openssl");
        sign.args(["ca", "-batch", "-notext", "-rand_serial", "-name", "ledger", "-extensions", "server"]);
        sign.args(["-startdate", "20200101000000Z", "-enddate", "20200102000000Z", "-config"]);
        sign.arg(self.0.join("purposes")).arg("-in").arg(&asked).arg("-out").arg(self.certificate(name));
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

/// PostgreSQL takes a key only if nobody else can read it.
pub(crate) fn give_key(key: &Path, to_owner_of: &Path) {
    let owner = std::fs::metadata(to_owner_of).unwrap();
    std::fs::set_permissions(key, std::fs::Permissions::from_mode(0o600)).unwrap();
    chown(key, Some(owner.uid()), Some(owner.gid())).unwrap();
}
