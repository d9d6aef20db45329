//! Finds the postmaster of a PostgreSQL server on this machine, and reads the CPU time of all its processes. Linux
//! only.

use std::path::{Path, PathBuf};

use holdpoint_engine::ProcessStats;

const PORT_DEFAULT: u16 = 5432;
/// The state of a listening socket in /proc/net/tcp.
const LISTENING: &str = "0A";

/// Returns the user and system time of the postmaster, its children, and children that have ended.
pub(super) fn cpu_seconds(postmaster: u32) -> Option<f64> {
    let whole = |process: &ProcessStats| process.cpu_seconds + process.ended_children_cpu_seconds;
    let lead = ProcessStats::read(&postmaster.to_string())?;
    let children =
        pids().filter_map(|pid| ProcessStats::read(&pid)).filter(|process| process.parent == postmaster);
    Some(whole(&lead) + children.map(|process| whole(&process)).sum::<f64>())
}

/// Returns the postmaster of the server at an address, if it runs on this machine and is visible.
pub(super) fn find(url: &str) -> Option<u32> {
    match local_address(url)? {
        LocalAddress::Socket(folder, port) => by_lock(&folder, port),
        LocalAddress::Port(port) => by_port(port),
    }
}

#[derive(Debug, PartialEq)]
enum LocalAddress {
    Socket(PathBuf, u16),
    Port(u16),
}

/// Returns the socket or port of a URL on this machine; None for another machine or several hosts.
fn local_address(url: &str) -> Option<LocalAddress> {
    let (_, rest) = url.split_once("://")?;
    let (base, query) = rest.split_once('?').unwrap_or((rest, ""));
    let parameter = |name: &str| {
        query
            .split('&')
            .filter_map(|pair| pair.split_once('='))
            .find(|(key, _)| *key == name)
            .map(|(_, value)| value)
    };
    let host_and_port = base.split('/').next()?.rsplit('@').next()?;
    let (host, port) = match host_and_port.rsplit_once(':') {
        Some((host, port)) if !port.ends_with(']') => (host, Some(port)),
        _ => (host_and_port, None),
    };
    let port = port.or(parameter("port")).map_or(Some(PORT_DEFAULT), |port| port.parse().ok())?;
    let host = if host.is_empty() { parameter("host")? } else { host };
    let host = host.replace("%2F", "/").replace("%2f", "/");
    match host.as_str() {
        "localhost" | "127.0.0.1" | "[::1]" => Some(LocalAddress::Port(port)),
        folder if folder.starts_with('/') => Some(LocalAddress::Socket(folder.into(), port)),
        _ => None,
    }
}

/// Reads the lock file beside the socket, which has the process id in its first line.
fn by_lock(folder: &Path, port: u16) -> Option<u32> {
    let lock = std::fs::read_to_string(folder.join(format!(".s.PGSQL.{port}.lock"))).ok()?;
    lock.lines().next()?.trim().parse().ok()
}

fn by_port(port: u16) -> Option<u32> {
    let tables =
        ["/proc/net/tcp", "/proc/net/tcp6"].into_iter().filter_map(|path| std::fs::read_to_string(path).ok());
    let sockets: Vec<String> = tables.flat_map(|table| listening(&table, port)).collect();
    let holds = |pid: &String| {
        let open = std::fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
        open.filter_map(|file| std::fs::read_link(file.path()).ok())
            .any(|target| sockets.iter().any(|socket| target.as_os_str() == socket.as_str()))
    };
    // Selects the postmaster: another program, such as a pooler, may listen on the port, and a new child process of the
    // postmaster still has the socket.
    let leads = |pid: &String| {
        let parent = ProcessStats::read(pid)
            .filter(|process| process.name == "postgres")
            .map(|process| process.parent);
        parent.is_some_and(|parent| {
            ProcessStats::read(&parent.to_string()).is_none_or(|parent| parent.name != "postgres")
        })
    };
    pids().filter(holds).find(leads)?.parse().ok()
}

/// Returns the sockets in a table that listen on a port, named as in the links of /proc/PID/fd.
fn listening(table: &str, port: u16) -> Vec<String> {
    let ending = format!(":{port:04X}");
    let rows = table.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    rows.filter(|row| {
        row.get(1).is_some_and(|local| local.ends_with(&ending)) && row.get(3) == Some(&LISTENING)
    })
    .filter_map(|row| row.get(9).map(|inode| format!("socket:[{inode}]")))
    .collect()
}

fn pids() -> impl Iterator<Item = String> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    entries
        .filter_map(|entry| entry.file_name().into_string().ok())
        .filter(|name| name.bytes().all(|byte| byte.is_ascii_digit()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_urls_of_this_machine_have_a_local_address() {
        for (url, expected) in [
            ("postgres://u:p@127.0.0.1:5433/db", Some(LocalAddress::Port(5433))),
            ("postgres://localhost/db", Some(LocalAddress::Port(5432))),
            ("postgres://u@[::1]:5433/db?schema=x", Some(LocalAddress::Port(5433))),
            ("postgres://u@[::1]/db", Some(LocalAddress::Port(5432))),
            ("postgres://u@%2Frun%2Fpg:5433/db", Some(LocalAddress::Socket("/run/pg".into(), 5433))),
            ("postgres:///db?host=/run/pg&port=5434", Some(LocalAddress::Socket("/run/pg".into(), 5434))),
            ("postgres://u@db.example.com/db", None),
            ("postgres://u@127.0.0.1:1,127.0.0.1:2/db", None),
        ] {
            assert_eq!(local_address(url), expected, "{url}");
        }
    }

    #[test]
    fn only_sockets_that_listen_on_the_port_are_found() {
        let table = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n\
            0: 0100007F:1538 00000000:0000 0A 00000000:00000000 00:00000000 00000000 104 0 4711 1\n\
            1: 0100007F:1538 0100007F:9999 01 00000000:00000000 00:00000000 00000000 104 0 4712 1\n\
            2: 0100007F:1539 00000000:0000 0A 00000000:00000000 00:00000000 00000000 104 0 4713 1\n";
        assert_eq!(listening(table, 5432), ["socket:[4711]"]);
    }
}
