//! MCP servers that are local programs. They start with a minimal environment in their own process group, and are
//! killed as a group when their session ends.

use std::io;
use std::path::PathBuf;
use std::pin::Pin;
use std::process::Stdio;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncReadExt, ReadBuf};
use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command};
use tokio::sync::{OwnedSemaphorePermit, oneshot};

use crate::tool::RECEIVED_BYTES_MAX;
use crate::tool::secret::SecretRef;

/// The environment variables that a program inherits.
const INHERITED: [&str; 3] = ["PATH", "HOME", "LANG"];

/// The bytes of stderr that are read at a time, and the bytes of stderr that are logged in all.
const PIECE_BYTES: usize = 1024;
const STDERR_BYTES_MAX: usize = 256 * 1024;

#[derive(Debug)]
pub(super) struct ServerProgram {
    pub(super) command: Vec<String>,
    pub(super) env: Vec<(String, SecretRef)>,
    pub(super) folder: Option<PathBuf>,
}

/// A running program. Dropping it kills the program with its process group.
#[derive(Debug)]
pub(super) struct ServerProcess {
    _running: oneshot::Sender<()>,
    flaw: Arc<OnceLock<&'static str>>,
}

impl ServerProcess {
    /// Returns the reason why the engine ended the program, if it did.
    pub(super) fn flaw(&self) -> Option<&'static str> {
        self.flaw.get().copied()
    }
}

impl ServerProgram {
    /// Starts the program. It holds its slot until the process has ended.
    pub(super) fn start(
        &self,
        server: &str,
        slot: OwnedSemaphorePermit,
    ) -> Result<(ServerProcess, ProgramOutput, ChildStdin), String> {
        let Some((name, arguments)) = self.command.split_first() else {
            return Err("command is empty".to_owned());
        };
        let mut command = Command::new(name);
        command.args(arguments).env_clear();
        for name in INHERITED {
            if let Some(value) = std::env::var_os(name) {
                command.env(name, value);
            }
        }
        for (name, secret) in &self.env {
            command.env(name, secret.read()?);
        }
        if let Some(folder) = &self.folder {
            command.current_dir(folder);
        }
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
        #[cfg(unix)]
        command.process_group(0);
        let mut child = command.spawn().map_err(|error| format!("{name} cannot be started: {error}"))?;
        let group = ProcessGroup::of(&child);
        let (Some(stdin), Some(stdout), Some(stderr)) =
            (child.stdin.take(), child.stdout.take(), child.stderr.take())
        else {
            return Err(format!("{name} was started without its pipes"));
        };
        let ((running, stopped), (open, closed)) = (oneshot::channel(), oneshot::channel());
        tokio::spawn(async move {
            supervise(child, group, stopped, closed).await;
            drop(slot);
        });
        tokio::spawn(log_stderr(stderr, server.to_owned()));
        let flaw = Arc::new(OnceLock::new());
        let output = ProgramOutput { from: stdout, line_bytes: 0, flaw: flaw.clone(), _open: open };
        Ok((ServerProcess { _running: running, flaw }, output, stdin))
    }
}

/// Waits until the process handle or the output of a program is dropped, then kills its group. The group is killed
/// before its leader is reaped, because until then the operating system cannot reuse the process id.
async fn supervise(
    mut child: Child,
    mut group: ProcessGroup,
    stopped: oneshot::Receiver<()>,
    closed: oneshot::Receiver<()>,
) {
    // No value is ever sent: the receivers resolve when their senders are dropped.
    tokio::select! {
        _ = stopped => {}
        _ = closed => {}
    }
    group.kill();
    #[cfg(not(unix))]
    let _ = child.start_kill();
    if let Err(error) = child.wait().await {
        tracing::warn!(%error, "waiting for the process of an MCP server failed");
    }
}

/// A process group that is killed when this value is dropped.
struct ProcessGroup {
    #[cfg(unix)]
    leader: Option<rustix::process::Pid>,
}

impl ProcessGroup {
    #[cfg(unix)]
    fn of(child: &Child) -> Self {
        let leader =
            child.id().and_then(|id| i32::try_from(id).ok()).and_then(rustix::process::Pid::from_raw);
        Self { leader }
    }

    #[cfg(not(unix))]
    fn of(_: &Child) -> Self {
        Self {}
    }

    fn kill(&mut self) {
        #[cfg(unix)]
        if let Some(leader) = self.leader.take() {
            // An error means that the group has no processes.
            let _ = rustix::process::kill_process_group(leader, rustix::process::Signal::KILL);
        }
    }
}

impl Drop for ProcessGroup {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Reads stderr to its end, because a full pipe would block the program, and logs the beginning. Reads in blocks,
/// because lines can have any length.
async fn log_stderr(mut stderr: ChildStderr, server: String) {
    let mut piece = [0; PIECE_BYTES];
    let mut left = STDERR_BYTES_MAX;
    while let Ok(count @ 1..) = stderr.read(&mut piece).await {
        if left > 0 {
            left = left.saturating_sub(count);
            for line in String::from_utf8_lossy(&piece[..count]).lines() {
                tracing::debug!(server, "{line}");
            }
        }
    }
}

/// The output of a program with a limit for the length of lines. A longer line ends the connection at once, so
/// that the caller does not wait for the timeout.
#[derive(Debug)]
pub(super) struct ProgramOutput {
    from: ChildStdout,
    line_bytes: usize,
    flaw: Arc<OnceLock<&'static str>>,
    _open: oneshot::Sender<()>,
}

impl AsyncRead for ProgramOutput {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = into.filled().len();
        std::task::ready!(Pin::new(&mut self.from).poll_read(cx, into))?;
        for byte in &into.filled()[before..] {
            self.line_bytes = if *byte == b'\n' { 0 } else { self.line_bytes + 1 };
            if self.line_bytes > RECEIVED_BYTES_MAX {
                let _ = self.flaw.set("it sent a message above the size limit");
                return Poll::Ready(Err(io::Error::other("a message is too long")));
            }
        }
        Poll::Ready(Ok(()))
    }
}
