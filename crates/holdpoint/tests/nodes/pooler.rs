//! Three nodes that reach PostgreSQL only through a PgBouncer in transaction mode.

use std::path::Path;
use std::process::{Child, Stdio};
use std::time::Duration;

use tempfile::TempDir;

use crate::cluster::{Cluster, chown_to_unprivileged, free_port, unprivileged_command};
use crate::harness::accept;
use crate::ledger::Ledger;
use crate::load::{GATE, paying};
use crate::node::{Deployment, until};
use crate::three_nodes::measure_delays;

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
        chown_to_unprivileged(folder.path());
        let port = free_port();
        let settings = format!(
            "[databases]\n* = host=127.0.0.1 port={} user=postgres\n[pgbouncer]\nlisten_addr = 127.0.0.1\n\
             listen_port = {port}\nunix_socket_dir =\nauth_type = any\npool_mode = transaction\n\
             default_pool_size = 10\nmax_client_conn = 200\n",
            cluster.port()
        );
        let (file, log) = (folder.path().join("pgbouncer.ini"), folder.path().join("pgbouncer.log"));
        std::fs::write(&file, settings).unwrap();
        let mut command = unprivileged_command(program);
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
            eprintln!("--- the log of pgbouncer:\n{}", self.log());
        }
    }
}

#[test]
fn three_nodes_complete_runs_through_a_pooler_in_transaction_mode() {
    let cluster = Cluster::start();
    let direct = cluster.database("pooled");
    let pooler = Pooler::start(&cluster);
    let through = direct.replace(&format!(":{}/", cluster.port()), &format!(":{}/", pooler.port));
    let folder = tempfile::tempdir().unwrap();
    let deployment = Deployment::new(&format!("{through}?pooler=transaction"), folder.path());
    let nodes = deployment.start(3);
    assert!(
        *measure_delays(&nodes, 8).last().unwrap() < Duration::from_secs(2),
        "a reader saw an answer at another node too late"
    );

    let client = |index: usize| nodes[index % nodes.len()].client();
    assert_eq!(client(0).put("/v1/workflows/paying", &paying()).status, 201);
    let runs: Vec<String> = (0..30).map(|index| client(index).start_run("paying")).collect();
    for (index, run) in runs.iter().enumerate() {
        assert_eq!(client(index + 1).answer(run, GATE, &accept()).status, 200);
    }
    let completed = || runs.iter().all(|run| client(2).status(run) == "completed");
    assert!(until(Duration::from_secs(30), completed).is_some(), "some runs are stuck");
    let ledger = Ledger::read(&deployment.ledger());
    for run in &runs {
        assert_eq!(ledger.payments_of(run).len(), 1, "{run} is paid once");
    }
}
