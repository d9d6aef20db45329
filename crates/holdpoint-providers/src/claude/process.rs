//! The running program of the agent, in its own process group. Dropping the value kills the program. The size of its
//! output is limited.

use std::io;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command};

use super::orphaned_processes;
use super::redaction::scrubbed;

const LINE_BYTES_MAX: usize = 16 * 1024 * 1024;
/// Limit for the whole output of a turn.
const TURN_BYTES_MAX: usize = 256 * 1024 * 1024;
const PIECE_BYTES: usize = 64 * 1024;
/// Limit for the part of stderr that is kept.
const STDERR_BYTES_MAX: usize = 16 * 1024;
/// The time limit for a killed program to exit.
const EXIT_TIMEOUT: Duration = Duration::from_secs(5);

/// A running program. Dropping the value kills the program with all of its descendants.
pub(super) struct AgentProcess {
    child: Child,
    stdin: Option<ChildStdin>,
    lines: LineReader,
    stderr: tokio::task::JoinHandle<String>,
    /// The session folder.
    root: PathBuf,
    /// The exit status was collected.
    ended: bool,
    finished: bool,
}

/// The next event of a program.
pub(super) enum ProcessEvent {
    Line(Vec<u8>),
    /// The program has exited. Output may remain to be read.
    Exited,
    /// Stdout is closed.
    EndOfOutput,
    /// The output exceeds a limit.
    TooMuchOutput,
}

impl AgentProcess {
    pub(super) fn start(mut command: Command, root: PathBuf) -> io::Result<Self> {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
        #[cfg(unix)]
        command.process_group(0);
        let mut child = command.spawn()?;
        let pipes = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let (Some(stdin), Some(stdout), Some(stderr)) = pipes else {
            return Err(io::Error::other("the program was started without pipes"));
        };
        let lines = LineReader { stdout, buffer: Vec::new(), searched: 0, total: 0 };
        let stderr = tokio::spawn(read_stderr(stderr));
        Ok(Self { child, stdin: Some(stdin), lines, stderr, root, ended: false, finished: false })
    }

    pub(super) fn pid(&self) -> Option<u32> {
        self.child.id()
    }

    /// Returns the next event. Cancel safe.
    pub(super) async fn next(&mut self) -> ProcessEvent {
        tokio::select! {
            biased;
            next = self.lines.next() => next,
            _ = self.child.wait(), if !self.ended => {
                self.ended = true;
                ProcessEvent::Exited
            }
        }
    }

    pub(super) async fn write_line(&mut self, line: &serde_json::Value) -> io::Result<()> {
        let Some(stdin) = &mut self.stdin else { return Ok(()) };
        let mut text = line.to_string();
        text.push('\n');
        stdin.write_all(text.as_bytes()).await?;
        stdin.flush().await
    }

    /// Closes stdin, which tells the program to exit.
    pub(super) fn close_stdin(&mut self) {
        self.stdin = None;
    }

    pub(super) fn terminate(&self) {
        #[cfg(unix)]
        self.signal(rustix::process::Signal::TERM);
    }

    #[cfg(unix)]
    fn signal(&self, signal: rustix::process::Signal) {
        // The kernel does not reuse the process id before the exit status is collected.
        let leader =
            self.child.id().and_then(|id| i32::try_from(id).ok()).and_then(rustix::process::Pid::from_raw);
        if let Some(leader) = leader {
            let _ = rustix::process::kill_process_group(leader, signal);
        }
    }

    /// Waits up to `within` for the program to exit by itself.
    pub(super) async fn wait_for_exit(&mut self, within: Duration) {
        if !self.ended {
            self.ended = tokio::time::timeout(within, self.child.wait()).await.is_ok();
        }
    }

    fn kill(&mut self) {
        #[cfg(unix)]
        self.signal(rustix::process::Signal::KILL);
        let _ = self.child.start_kill();
    }

    /// Kills the program, waits for its exit, and returns its stderr output.
    pub(super) async fn finish(mut self) -> String {
        self.close_stdin();
        self.kill();
        // Kills descendants in other process groups.
        let root = self.root.clone();
        let _ = tokio::task::spawn_blocking(move || orphaned_processes::sweep(&root)).await;
        if tokio::time::timeout(EXIT_TIMEOUT, self.child.wait()).await.is_err() {
            tracing::warn!("a killed program has not exited");
        }
        self.finished = true;
        let stderr = tokio::time::timeout(EXIT_TIMEOUT, &mut self.stderr).await;
        stderr.ok().and_then(Result::ok).unwrap_or_default()
    }
}

impl Drop for AgentProcess {
    fn drop(&mut self) {
        if !self.finished {
            self.kill();
            orphaned_processes::sweep(&self.root);
        }
        self.stderr.abort();
    }
}

struct LineReader {
    stdout: ChildStdout,
    buffer: Vec<u8>,
    /// The length of the beginning of the buffer that is known to have no line end.
    searched: usize,
    total: usize,
}

impl LineReader {
    /// Returns the next line. Cancel safe.
    async fn next(&mut self) -> ProcessEvent {
        loop {
            if let Some(at) = self.buffer[self.searched..].iter().position(|byte| *byte == b'\n') {
                let rest = self.buffer.split_off(self.searched + at + 1);
                let line = std::mem::replace(&mut self.buffer, rest);
                self.searched = 0;
                return ProcessEvent::Line(line);
            }
            self.searched = self.buffer.len();
            if self.searched > LINE_BYTES_MAX || self.total > TURN_BYTES_MAX {
                return ProcessEvent::TooMuchOutput;
            }
            self.buffer.reserve(PIECE_BYTES);
            match self.stdout.read_buf(&mut self.buffer).await {
                Ok(count @ 1..) => self.total += count,
                Ok(0) | Err(_) => return ProcessEvent::EndOfOutput,
            }
        }
    }
}

/// Reads stderr to its end, because a full pipe would block the program. Keeps the beginning.
async fn read_stderr(mut stderr: ChildStderr) -> String {
    let (mut piece, mut kept) = ([0; 4096], Vec::new());
    while let Ok(count @ 1..) = stderr.read(&mut piece).await {
        let room = STDERR_BYTES_MAX.saturating_sub(kept.len()).min(count);
        kept.extend_from_slice(&piece[..room]);
    }
    let text = String::from_utf8_lossy(&kept).into_owned();
    if !text.is_empty() {
        tracing::debug!(text = scrubbed(&text), "the program of the agent wrote to stderr");
    }
    text
}
