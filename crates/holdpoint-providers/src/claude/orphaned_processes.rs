//! Finds and kills processes that outlived the server that started them. A process id can be reused, so it is valid
//! only together with the start time of the process. Descendants in other process groups are found by their
//! environment.

use serde::{Deserialize, Serialize};

/// The identity of a process that this server started.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct ProcessIdentity {
    pid: i32,
    /// Start time in clock ticks since boot.
    since: u64,
    /// Digest of the boot id, because ticks restart with every boot.
    boot: u64,
}

#[cfg(target_os = "linux")]
mod linux {
    use std::fs;
    use std::os::unix::ffi::OsStrExt;
    use std::path::{Path, PathBuf};
    use std::time::{Duration, Instant};

    use rustix::process::{Pid, Signal, kill_process, kill_process_group};
    use sha2::{Digest, Sha256};

    use super::ProcessIdentity;

    /// The time limit for the kernel to end a killed process.
    const EXIT_TIMEOUT: Duration = Duration::from_secs(5);
    const POLL_INTERVAL: Duration = Duration::from_millis(5);
    /// The maximum number of searches for processes that were started by processes that were just killed.
    const SWEEPS: usize = 20;

    impl ProcessIdentity {
        /// Returns None if the process has ended.
        pub(in super::super) fn of(pid: u32) -> Option<Self> {
            let pid = i32::try_from(pid).ok()?;
            Some(Self { pid, since: start_time(pid)?, boot: boot_id() })
        }

        fn is_alive(&self) -> bool {
            self.boot == boot_id() && start_time(self.pid) == Some(self.since)
        }
    }

    pub(in super::super) fn kill(started: &ProcessIdentity) {
        let Some(pid) = Pid::from_raw(started.pid) else { return };
        let until = Instant::now() + EXIT_TIMEOUT;
        while started.is_alive() && Instant::now() < until {
            // The process leads its own group.
            let _ = kill_process_group(pid, Signal::KILL);
            std::thread::sleep(POLL_INTERVAL);
        }
    }

    /// Kills every process that was started for this folder, including detached descendants. A process has no
    /// environment for a moment during exec, so the search ends only after two empty results in a row.
    pub(in super::super) fn sweep(root: &Path) {
        let mut seen = true;
        for _ in 0..SWEEPS {
            let found = find_by_folder(root);
            if found.is_empty() && !std::mem::take(&mut seen) {
                return;
            }
            seen |= !found.is_empty();
            for pid in found {
                let _ = kill_process(pid, Signal::KILL);
            }
            std::thread::sleep(POLL_INTERVAL);
        }
    }

    fn find_by_folder(root: &Path) -> Vec<Pid> {
        let (home, config) = (
            environment_entry("HOME", &root.join("home")),
            environment_entry("CLAUDE_CONFIG_DIR", &root.join("config")),
        );
        let ours = |entry: &[u8]| entry == home || entry == config;
        let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
        let numbers = processes.filter_map(|process| process.file_name().to_str()?.parse::<i32>().ok());
        let ours = numbers.filter(|pid| {
            let environment = fs::read(proc_file(*pid, "environ")).unwrap_or_default();
            environment.split(|byte| *byte == 0).any(ours) && start_time(*pid).is_some()
        });
        ours.filter_map(Pid::from_raw).collect()
    }

    fn environment_entry(name: &str, value: &Path) -> Vec<u8> {
        [name.as_bytes(), b"=", value.as_os_str().as_bytes()].concat()
    }

    fn proc_file(pid: i32, name: &str) -> PathBuf {
        Path::new("/proc").join(pid.to_string()).join(name)
    }

    /// Returns the start time of a process, or None if it has ended or is a zombie.
    fn start_time(pid: i32) -> Option<u64> {
        let stat = fs::read_to_string(proc_file(pid, "stat")).ok()?;
        // The name in parentheses can contain spaces and parentheses.
        let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
        let state = fields.next()?;
        (!["Z", "X"].contains(&state)).then_some(())?;
        fields.nth(18)?.parse().ok()
    }

    fn boot_id() -> u64 {
        let id = fs::read("/proc/sys/kernel/random/boot_id").unwrap_or_default();
        let digest = Sha256::digest(id);
        digest.iter().take(8).fold(0, |number, byte| number << 8 | u64::from(*byte))
    }
}

#[cfg(target_os = "linux")]
pub(super) use linux::{kill, sweep};

// On other systems only the closed stdin ends an orphaned program.
#[cfg(not(target_os = "linux"))]
impl ProcessIdentity {
    pub(super) fn of(_: u32) -> Option<Self> {
        None
    }
}

#[cfg(not(target_os = "linux"))]
pub(super) fn kill(_: &ProcessIdentity) {}

#[cfg(not(target_os = "linux"))]
pub(super) fn sweep(_: &std::path::Path) {}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn a_process_id_with_another_start_time_is_not_killed() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let started = ProcessIdentity::of(child.id()).unwrap();
        kill(&ProcessIdentity { since: started.since + 1, ..started });
        kill(&ProcessIdentity { boot: started.boot ^ 1, ..started });
        assert!(child.try_wait().unwrap().is_none(), "the process has another start time");
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(ProcessIdentity::of(child.id()), None);
    }

    #[test]
    fn processes_of_a_folder_are_found_by_their_environment() {
        let place = tempfile::tempdir().unwrap();
        let mut child = std::process::Command::new("sleep")
            .arg("60")
            .env("HOME", place.path().join("home"))
            .spawn()
            .unwrap();
        let mut other = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        // The environment is empty until exec has completed.
        while std::fs::read(format!("/proc/{}/environ", child.id())).unwrap().is_empty() {
            std::thread::yield_now();
        }
        sweep(place.path());
        assert!(!child.wait().unwrap().success());
        assert!(other.try_wait().unwrap().is_none());
        other.kill().unwrap();
        other.wait().unwrap();
    }
}
