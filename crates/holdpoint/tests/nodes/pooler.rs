//! Three nodes that reach PostgreSQL only through a real PgBouncer in transaction mode.

use std::path::Path;
use std::process::{Child, Stdio};
use std::time::Duration;

use tempfile::TempDir;

use crate::cluster::{Cluster, as_nobody, free_port, give_away};
use crate::harness::accept;
use crate::ledger::Ledger;
use crate::load::{GATE, paying};
use crate::node::{Site, until};
use crate::together::news;

struct Pooler {
    process: Child,
    port: u16,
    folder: TempDir,
}

impl Pooler {
    fn start(cluster: &Cluster) -> Self {
        let program = Path::new("/usr/sbin/pgbouncer");
        assert!(program.exists(), "there is no pgbouncer: install it, or run scripts/check, which does");
        let folder = tempfile::tempdir().unwrap();
        give_away(folder.path());
        let port = free_port();
        let settings = format!(
            "[databases]\n* = host=127.0.0.1 port={} user=postgres\n[pgbouncer]\nlisten_addr = 127.0.0.1\n\
             listen_port = {port}\nunix_socket_dir =\nauth_type = any\npool_mode = transaction\n\
             default_pool_size = 10\nmax_client_conn = 200\n",
            cluster.port()
        );
        let (file, log) = (folder.path().join("pgbouncer.ini"), folder.path().join("pgbouncer.log"));
        std::fs::write(&file, settings).unwrap();
        let mut command = as_nobody(program);
        command.arg(&file).stdout(Stdio::null()).stderr(std::fs::File::create(log).unwrap());
        let pooler = Self { process: command.spawn().unwrap(), port, folder };
        let up = || std::net::TcpStream::connect(("127.0.0.1", port)).is_ok();
        assert!(until(Duration::from_secs(30), up).is_some(), "pgbouncer does not start:\n{}", pooler.log());
        pooler
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.folder.path().join("pgbouncer.log")).unwrap_or_default()
    }
}

impl Drop for Pooler {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
        if std::thread::panicking() {
            eprintln!("--- what pgbouncer said:\n{}", self.log());
        }
    }
}

#[test]
fn everything_works_through_a_pooler_that_shares_sessions() {
    let cluster = Cluster::start();
    let direct = cluster.database("pooled");
    let pooler = Pooler::start(&cluster);
    let through = direct.replace(&format!(":{}/", cluster.port()), &format!(":{}/", pooler.port));
    let folder = tempfile::tempdir().unwrap();
    let site = Site::new(&format!("{through}?pooler=transaction"), folder.path());
    let nodes = site.start(3);
    assert!(*news(&nodes, 8).last().unwrap() < Duration::from_secs(2), "readers see what others answer");

    let client = |index: usize| nodes[index % nodes.len()].client();
    assert_eq!(client(0).put("/v1/workflows/paying", &paying()).status, 201);
    let runs: Vec<String> = (0..30).map(|index| client(index).start_run("paying")).collect();
    for (index, run) in runs.iter().enumerate() {
        assert_eq!(client(index + 1).answer(run, GATE, &accept()).status, 200);
    }
    let completed = || runs.iter().all(|run| client(2).status(run) == "completed");
    assert!(until(Duration::from_secs(30), completed).is_some(), "some runs are stuck");
    let ledger = Ledger::read(&site.ledger());
    for run in &runs {
        assert_eq!(ledger.payments_of(run).len(), 1, "{run} is paid once");
    }
}
