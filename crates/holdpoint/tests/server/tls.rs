//! TLS of the server: the certificate and its reload, client certificates, and the URLs that follow from it.

use std::io::{BufRead, BufReader, Read};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use ureq::tls::{Certificate, ClientCert, PrivateKey, RootCerts, TlsConfig};

use crate::certificates::Certificates;
use crate::harness::{KEY, PROGRAM, Server, clear_env};

const WAIT_LIMIT: Duration = Duration::from_secs(30);

/// Certificates of two authorities, with a server and a client of each.
struct Files {
    folder: tempfile::TempDir,
    made: Certificates,
}

impl Files {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let made = Certificates::new(folder.path().join("made"));
        for authority in ["ours", "theirs"] {
            made.authority(authority);
            made.signed(&format!("server-of-{authority}"), "server", authority);
            made.signed(&format!("client-of-{authority}"), "client", authority);
        }
        let files = Self { folder, made };
        files.install("server-of-ours");
        files
    }

    fn path(&self, name: &str) -> String {
        self.folder.path().join(name).to_str().unwrap().to_owned()
    }

    fn authority(&self, name: &str) -> String {
        self.made.certificate(name).to_str().unwrap().to_owned()
    }

    /// Puts a certificate and its key where the server reads them.
    fn install(&self, name: &str) {
        std::fs::copy(self.made.certificate(name), self.path("cert.pem")).unwrap();
        std::fs::copy(self.made.key(name), self.path("key.pem")).unwrap();
    }

    fn start(&self, more: &[&str]) -> (Server, std::path::PathBuf) {
        let (certificate, key) = (self.path("cert.pem"), self.path("key.pem"));
        let flags = [&["--tls-cert", &certificate, "--tls-key", &key], more].concat();
        Server::start_logging(&flags, "info")
    }

    /// A client that trusts one authority and may have a certificate.
    fn client(&self, authority: &str, own: Option<&str>) -> ureq::Agent {
        let read = |path: &Path| std::fs::read(path).unwrap();
        let root = Certificate::from_pem(&read(&self.made.certificate(authority))).unwrap();
        let identity = own.map(|name| {
            let certificate = Certificate::from_pem(&read(&self.made.certificate(name))).unwrap();
            ClientCert::new_with_certs(
                &[certificate],
                PrivateKey::from_pem(&read(&self.made.key(name))).unwrap(),
            )
        });
        let tls = TlsConfig::builder().root_certs(RootCerts::new_with_certs(&[root])).client_cert(identity);
        let config = ureq::Agent::config_builder().http_status_as_error(false).tls_config(tls.build());
        config.timeout_global(Some(WAIT_LIMIT)).build().new_agent()
    }
}

fn status(client: &ureq::Agent, server: &Server) -> Result<u16, ureq::Error> {
    client.get(format!("{}/healthz", server.url)).call().map(|answer| answer.status().as_u16())
}

/// Runs the command line in the data folder of a server.
fn command_line(server: &Server, more: &[&str]) -> Output {
    let mut command = Command::new(PROGRAM);
    clear_env(&mut command).args(["pending", "--key", KEY, "--data"]).arg(server.data()).args(more);
    command.output().unwrap()
}

fn wait_for(what: &str, is_so: impl Fn() -> bool) {
    let until = Instant::now() + WAIT_LIMIT;
    while !is_so() {
        assert!(Instant::now() < until, "timed out: {what}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn a_server_with_a_certificate_serves_https_and_uses_https_urls() {
    let files = Files::new();
    let (server, _log) = files.start(&[]);
    assert!(server.url.starts_with("https://127.0.0.1:"), "{}", server.url);
    let client = files.client("ours", None);
    assert_eq!(status(&client, &server).unwrap(), 200);
    assert!(status(&files.client("theirs", None), &server).is_err());
    let plain = server.url.replacen("https://", "http://", 1);
    assert!(client.get(format!("{plain}/healthz")).call().is_err(), "no plain http on the same port");
    let left: Value =
        serde_json::from_slice(&std::fs::read(server.data().join("client.json")).unwrap()).unwrap();
    assert_eq!(left["server"], server.url.as_str());
    let bearer = format!("Bearer {KEY}");
    let mut link = client
        .post(format!("{}/v1/session:link", server.url))
        .header("authorization", &bearer)
        .send_empty()
        .unwrap();
    let link: Value = link.body_mut().read_json().unwrap();
    assert!(link["url"].as_str().unwrap().starts_with(&format!("{}/inbox#once=", server.url)), "{link}");
    let signed_in = client.post(format!("{}/v1/session", server.url)).send_json(json!({"key": KEY})).unwrap();
    let cookie = signed_in.headers()["set-cookie"].to_str().unwrap();
    assert!(cookie.starts_with("__Host-holdpoint_session=") && cookie.ends_with("; Secure"), "{cookie}");
    assert_eq!(signed_in.headers()["strict-transport-security"], "max-age=15768000");
}

#[test]
fn the_command_line_trusts_the_authority_that_it_is_given() {
    let files = Files::new();
    let (server, _log) = files.start(&[]);
    let trusting = command_line(&server, &["--ca", &files.authority("ours")]);
    assert!(trusting.status.success(), "{}", String::from_utf8_lossy(&trusting.stderr));
    for more in [vec![], vec!["--ca".to_owned(), files.authority("theirs")]] {
        let more: Vec<&str> = more.iter().map(String::as_str).collect();
        let refused = command_line(&server, &more);
        assert_eq!(refused.status.code(), Some(3), "{more:?}");
        let stderr = String::from_utf8_lossy(&refused.stderr);
        assert!(stderr.contains("hint: trust the authority"), "{stderr}");
    }
    let missing = command_line(&server, &["--ca", "/nonexistent.pem"]);
    assert_eq!(missing.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&missing.stderr).contains("--ca /nonexistent.pem"));
}

#[test]
fn invalid_tls_files_end_the_start() {
    let files = Files::new();
    let refused = |certificate: &str, key: &str, more: &[&str]| {
        let mut command = Command::new(PROGRAM);
        clear_env(&mut command).args(["serve", "--listen", "127.0.0.1:0", "--data", &files.path("data")]);
        let output = command.args(["--tls-cert", certificate, "--tls-key", key]).args(more).output().unwrap();
        assert!(!output.status.success());
        String::from_utf8(output.stderr).unwrap()
    };
    let (certificate, key) = (files.path("cert.pem"), files.path("key.pem"));
    let other = files.made.key("server-of-theirs").to_str().unwrap().to_owned();
    let stderr = refused(&certificate, &other, &[]);
    assert!(stderr.contains(&format!("--tls-key {other}: is not the key of the certificate")), "{stderr}");
    let stderr = refused(&certificate, "/nonexistent", &[]);
    assert!(stderr.contains("--tls-key /nonexistent: cannot be read"), "{stderr}");
    let stderr = refused(&certificate, &certificate, &[]);
    assert!(stderr.contains("is not a private key in PEM format"), "{stderr}");
    let stderr = refused(&key, &key, &[]);
    assert!(stderr.contains("has no certificate in PEM format") && !stderr.contains("BEGIN"), "{stderr}");
    let stderr = refused(&certificate, &key, &["--tls-client-ca", &key]);
    assert!(stderr.contains("--tls-client-ca") && stderr.contains("has no certificate"), "{stderr}");
}

#[test]
fn a_new_certificate_is_loaded_from_the_file_and_an_invalid_one_is_not() {
    let files = Files::new();
    let (server, log) = files.start(&[]);
    let is_trusted = |authority: &str| status(&files.client(authority, None), &server).is_ok();
    assert!(is_trusted("ours"));
    files.install("server-of-theirs");
    wait_for("the new certificate", || is_trusted("theirs"));
    assert!(!is_trusted("ours"));
    std::fs::write(files.path("cert.pem"), "broken").unwrap();
    let send_sighup = || {
        let sent = Command::new("kill").args(["-HUP", &server.pid().to_string()]).status();
        assert!(sent.unwrap().success());
    };
    send_sighup();
    let logged = |text: &str| std::fs::read_to_string(&log).unwrap().contains(text);
    wait_for("the error in the log", || logged("the previous certificate stays in use"));
    assert!(is_trusted("theirs"));
    files.install("server-of-ours");
    send_sighup();
    wait_for("the next certificate", || is_trusted("ours"));
}

#[test]
fn a_connection_without_the_required_client_certificate_is_rejected() {
    let files = Files::new();
    let authority = files.authority("ours");
    let (server, _log) = files.start(&["--tls-client-ca", &authority]);
    assert_eq!(status(&files.client("ours", Some("client-of-ours")), &server).unwrap(), 200);
    assert!(status(&files.client("ours", None), &server).is_err());
    assert!(status(&files.client("ours", Some("client-of-theirs")), &server).is_err());
    assert!(status(&files.client("ours", Some("server-of-ours")), &server).is_err(), "not for clients");
    let path = |path: std::path::PathBuf| path.to_str().unwrap().to_owned();
    let (own, key) = (path(files.made.certificate("client-of-ours")), path(files.made.key("client-of-ours")));
    let flags = ["--ca", authority.as_str(), "--client-cert", &own, "--client-key", &key];
    let known = command_line(&server, &flags);
    assert!(known.status.success(), "{}", String::from_utf8_lossy(&known.stderr));
    assert_eq!(command_line(&server, &flags[..2]).status.code(), Some(3));
    assert_eq!(command_line(&server, &flags[..4]).status.code(), Some(2), "a certificate needs its key");
}

#[test]
fn an_incomplete_handshake_is_closed_after_the_timeout() {
    let files = Files::new();
    let (mut server, _log) = files.start(&["--header-timeout", "1s"]);
    let mut silent = TcpStream::connect(server.url.strip_prefix("https://").unwrap()).unwrap();
    silent.set_read_timeout(Some(WAIT_LIMIT)).unwrap();
    assert_eq!(silent.read(&mut [0; 16]).unwrap(), 0);
    let client = files.client("ours", None);
    assert_eq!(status(&client, &server).unwrap(), 200);
    server.terminate();
    assert!(server.wait().success());
}

#[test]
fn the_command_line_warns_of_a_key_that_is_sent_without_encryption() {
    let stderr = |more: &[&str]| {
        let mut command = Command::new(PROGRAM);
        clear_env(&mut command).args([
            "pending",
            "--server",
            "http://holdpoint.invalid",
            "--key",
            "hp_secret",
        ]);
        let output = command.args(more).output().unwrap();
        assert_eq!(output.status.code(), Some(3));
        String::from_utf8(output.stderr).unwrap()
    };
    let warning = "warning: the API key is sent to http://holdpoint.invalid without encryption";
    assert!(stderr(&[]).starts_with(warning) && !stderr(&[]).contains("hp_secret"), "{}", stderr(&[]));
    assert!(!stderr(&["--json"]).contains("warning"), "with --json the output is only the error");
}

#[test]
fn a_server_that_listens_on_all_addresses_without_tls_logs_a_warning() {
    let folder = tempfile::tempdir().unwrap();
    let warned = |name: &str, more: &[&str]| {
        let mut command = Command::new(PROGRAM);
        let data = folder.path().join(name);
        clear_env(&mut command).args(["serve", "--listen", "0.0.0.0:0", "--data"]).arg(data).args(more);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut ready = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut ready).unwrap();
        child.kill().unwrap();
        let output = child.wait_with_output().unwrap();
        String::from_utf8(output.stderr).unwrap().contains("WITHOUT TLS")
    };
    assert!(warned("open", &[]));
    assert!(!warned("behind-a-proxy", &["--public-url", "https://holdpoint.example.com"]));
}
