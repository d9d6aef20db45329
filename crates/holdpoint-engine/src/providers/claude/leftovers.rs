//! Programs that outlived whoever started them. A number of a process may be somebody else's by now, so that it counts
//! only with the time at which it began; and what a program started in sessions of its own is known by its environment.

use serde::{Deserialize, Serialize};

/// A process that we started.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Started {
    pid: i32,
    /// In ticks of the machine since it started.
    since: u64,
    /// The machine's own start, because ticks begin anew with it.
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

    use super::Started;

    /// How long the machine may take to end what was killed.
    const GONE_WITHIN: Duration = Duration::from_secs(5);
    const LOOK: Duration = Duration::from_millis(5);
    /// How often it is looked for processes that were begun by those that were just killed.
    const SWEEPS: usize = 20;

    impl Started {
        /// Nothing when it is gone.
        pub(in super::super) fn of(pid: u32) -> Option<Self> {
            let pid = i32::try_from(pid).ok()?;
            Some(Self { pid, since: began(pid)?, boot: boot() })
        }

        fn lives(&self) -> bool {
            self.boot == boot() && began(self.pid) == Some(self.since)
        }
    }

    pub(in super::super) fn kill(started: &Started) {
        let Some(pid) = Pid::from_raw(started.pid) else { return };
        let until = Instant::now() + GONE_WITHIN;
        while started.lives() && Instant::now() < until {
            // It leads a group of its own.
            let _ = kill_process_group(pid, Signal::KILL);
            std::thread::sleep(LOOK);
        }
    }

    /// Kills every process that was started for this folder, however far from its parents it has gone. One that becomes another
    /// program has no environment for a moment: so there is none only when there was none twice.
    pub(in super::super) fn sweep(root: &Path) {
        let mut seen = true;
        for _ in 0..SWEEPS {
            let found = of_folder(root);
            if found.is_empty() && !std::mem::take(&mut seen) {
                return;
            }
            seen |= !found.is_empty();
            for pid in found {
                let _ = kill_process(pid, Signal::KILL);
            }
            std::thread::sleep(LOOK);
        }
    }

    fn of_folder(root: &Path) -> Vec<Pid> {
        let (home, config) =
            (variable("HOME", &root.join("home")), variable("CLAUDE_CONFIG_DIR", &root.join("config")));
        let ours = |entry: &[u8]| entry == home || entry == config;
        let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
        let numbers = processes.filter_map(|process| process.file_name().to_str()?.parse::<i32>().ok());
        let ours = numbers.filter(|pid| {
            let environment = fs::read(file(*pid, "environ")).unwrap_or_default();
            environment.split(|byte| *byte == 0).any(ours) && began(*pid).is_some()
        });
        ours.filter_map(Pid::from_raw).collect()
    }

    fn variable(name: &str, value: &Path) -> Vec<u8> {
        [name.as_bytes(), b"=", value.as_os_str().as_bytes()].concat()
    }

    fn file(pid: i32, name: &str) -> PathBuf {
        Path::new("/proc").join(pid.to_string()).join(name)
    }

    /// When a process began; nothing when it is gone, or only waits to be taken note of.
    fn began(pid: i32) -> Option<u64> {
        let stat = fs::read_to_string(file(pid, "stat")).ok()?;
        // The name in parentheses may hold anything.
        let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
        let state = fields.next()?;
        (!["Z", "X"].contains(&state)).then_some(())?;
        fields.nth(18)?.parse().ok()
    }

    fn boot() -> u64 {
        let id = fs::read("/proc/sys/kernel/random/boot_id").unwrap_or_default();
        let digest = Sha256::digest(id);
        digest.iter().take(8).fold(0, |number, byte| number << 8 | u64::from(*byte))
    }
}

#[cfg(target_os = "linux")]
pub(super) use linux::{kill, sweep};

// Elsewhere a program that outlived us is only stopped by its stdin being closed.
#[cfg(not(target_os = "linux"))]
impl Started {
    pub(super) fn of(_: u32) -> Option<Self> {
        None
    }
}

#[cfg(not(target_os = "linux"))]
pub(super) fn kill(_: &Started) {}

#[cfg(not(target_os = "linux"))]
pub(super) fn sweep(_: &std::path::Path) {}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn a_number_counts_only_with_its_time() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let started = Started::of(child.id()).unwrap();
        kill(&Started { since: started.since + 1, ..started });
        kill(&Started { boot: started.boot ^ 1, ..started });
        assert!(child.try_wait().unwrap().is_none(), "it was somebody else's number");
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(Started::of(child.id()), None);
    }

    #[test]
    fn what_was_started_for_a_folder_is_found_by_its_environment() {
        let place = tempfile::tempdir().unwrap();
        let mut child = std::process::Command::new("sleep")
            .arg("60")
            .env("HOME", place.path().join("home"))
            .spawn()
            .unwrap();
        let mut other = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        // Under load it takes its time to become the program that it is to be.
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
