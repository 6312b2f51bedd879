//! Memory, files and processor time of the process, from the system.

use std::fs;

use rustix::process::{Resource, getrlimit};
use rustix::time::{ClockId, clock_gettime};

/// Use of the machine by the process. What the system does not report is `None`.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct ProcessStats {
    /// Resident memory in bytes.
    pub(crate) memory: Option<u64>,
    /// Virtual memory in bytes.
    pub(crate) virtual_memory: Option<u64>,
    pub(crate) open_files: Option<u64>,
    /// Limit on open files.
    pub(crate) max_files: Option<u64>,
    pub(crate) threads: Option<u64>,
    /// Processor time in seconds.
    pub(crate) cpu: f64,
}

impl ProcessStats {
    /// Reads the numbers of this process. Blocks for the kernel: a list of 10,000 files takes a few
    /// milliseconds.
    pub(crate) fn read() -> Self {
        let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
        let cpu = clock_gettime(ClockId::ProcessCPUTime);
        // Without the descriptor of the list itself.
        let open_files =
            fs::read_dir("/proc/self/fd").ok().map(|files| files.count().saturating_sub(1) as u64);
        Self {
            memory: kib(&status, "VmRSS:"),
            virtual_memory: kib(&status, "VmSize:"),
            open_files,
            max_files: getrlimit(Resource::Nofile).current,
            threads: number(&status, "Threads:"),
            cpu: cpu.tv_sec as f64 + cpu.tv_nsec as f64 / 1e9,
        }
    }
}

/// Returns the number of a line of `/proc/self/status`.
fn number(status: &str, name: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix(name))?;
    line.split_ascii_whitespace().next()?.parse().ok()
}

/// Returns the number of a line in KiB, in bytes.
fn kib(status: &str, name: &str) -> Option<u64> {
    number(status, name)?.checked_mul(1 << 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_lines_of_the_status() {
        let status = "Name:\tgarth\nVmSize:\t   2048 kB\nVmRSS:\t    1024 kB\nThreads:\t12\n";
        assert_eq!(kib(status, "VmRSS:"), Some(1 << 20));
        assert_eq!(kib(status, "VmSize:"), Some(2 << 20));
        assert_eq!(number(status, "Threads:"), Some(12));
        assert_eq!(number(status, "VmSwap:"), None);
        assert_eq!(number("Threads:\n", "Threads:"), None);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn numbers_of_this_process_are_known() {
        let read = ProcessStats::read();
        assert!(read.memory.is_some_and(|bytes| bytes > 1 << 20), "{read:?}");
        assert!(read.open_files.is_some_and(|files| files > 0), "{read:?}");
        assert!(read.threads.is_some_and(|threads| threads > 0) && read.cpu > 0.0, "{read:?}");
    }
}
