//! Statistics of a process from /proc: name, parent, CPU time and memory. Linux only.

/// The kernel's unit in /proc/PID/stat; fixed at 100 on every architecture we build for.
const TICKS_PER_SECOND: f64 = 100.0;
const PAGE_BYTES: f64 = 4096.0;

/// Statistics of a process.
#[derive(Clone, Debug, PartialEq)]
pub struct ProcessStats {
    /// Name of the program.
    pub name: String,
    /// Id of the parent process.
    pub parent: u32,
    /// User and system CPU time.
    pub cpu_seconds: f64,
    /// CPU time of ended descendants whose exit status was collected.
    pub ended_children_cpu_seconds: f64,
    /// Resident memory.
    pub resident_bytes: f64,
}

impl ProcessStats {
    /// Reads the statistics of a process by its id; `self` is this process. Returns None if the process does not exist,
    /// and on systems other than Linux.
    pub fn read(pid: &str) -> Option<Self> {
        Self::parse(&std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
    }

    fn parse(stat: &str) -> Option<Self> {
        // The second field is the name in parentheses. It can contain spaces and parentheses.
        let (head, fields) = stat.rsplit_once(')')?;
        let fields: Vec<&str> = fields.split_whitespace().collect();
        let number = |index: usize| fields.get(index)?.parse::<f64>().ok();
        Some(Self {
            name: head.split_once('(')?.1.to_owned(),
            parent: fields.get(1)?.parse().ok()?,
            cpu_seconds: (number(11)? + number(12)?) / TICKS_PER_SECOND,
            ended_children_cpu_seconds: (number(13)? + number(14)?) / TICKS_PER_SECOND,
            resident_bytes: number(21)? * PAGE_BYTES,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_spaces_and_parentheses_does_not_shift_the_fields() {
        let stat = "7 (a (b) c) S 3 7 7 0 -1 0 0 0 0 0 150 50 20 5 20 0 1 0 9 4096 2 18446744073709551615 1";
        let expected = ProcessStats {
            name: "a (b) c".to_owned(),
            parent: 3,
            cpu_seconds: 2.0,
            ended_children_cpu_seconds: 0.25,
            resident_bytes: 8192.0,
        };
        assert_eq!(ProcessStats::parse(stat), Some(expected));
        assert_eq!(ProcessStats::parse("7 (a) S 3"), None);
    }
}
