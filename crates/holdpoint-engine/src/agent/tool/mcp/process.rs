//! Servers that are programs of this machine: started with little of our environment, in a process group of their
//! own, and killed as a group when nobody needs them any longer.

use std::io;
use std::path::PathBuf;
use std::pin::Pin;
use std::process::Stdio;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncReadExt, ReadBuf};
use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command};
use tokio::sync::{OwnedSemaphorePermit, oneshot};

use crate::agent::tool::cut::TAKEN_BYTES_MAX;
use crate::agent::tool::secret::Secret;

/// What a program may know of our environment without being told.
const INHERITED: [&str; 3] = ["PATH", "HOME", "LANG"];

/// Of what a program complains about: bytes of a line, and altogether.
const PIECE_BYTES: usize = 1024;
const COMPLAINTS_BYTES_MAX: usize = 256 * 1024;

#[derive(Debug)]
pub(super) struct Program {
    pub(super) command: Vec<String>,
    pub(super) env: Vec<(String, Secret)>,
    pub(super) folder: Option<PathBuf>,
}

/// A program that runs. Dropped, it is killed, with everything that it has started in its group.
#[derive(Debug)]
pub(super) struct Process {
    _running: oneshot::Sender<()>,
    flaw: Arc<OnceLock<&'static str>>,
}

impl Process {
    /// What the program did that ended it, if it was our decision.
    pub(super) fn flaw(&self) -> Option<&'static str> {
        self.flaw.get().copied()
    }
}

impl Program {
    /// Starts the program. It has its place until the process is gone.
    pub(super) fn start(
        &self,
        server: &str,
        place: OwnedSemaphorePermit,
    ) -> Result<(Process, Spoken, ChildStdin), String> {
        let Some((name, arguments)) = self.command.split_first() else {
            return Err("no program is named".to_owned());
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
        let group = Group::of(&child);
        let (Some(stdin), Some(stdout), Some(stderr)) =
            (child.stdin.take(), child.stdout.take(), child.stderr.take())
        else {
            return Err(format!("{name} was started without its pipes"));
        };
        let ((running, stopped), (speaking, silent)) = (oneshot::channel(), oneshot::channel());
        tokio::spawn(async move {
            keep(child, group, stopped, silent).await;
            drop(place);
        });
        tokio::spawn(listen(stderr, server.to_owned()));
        let flaw = Arc::new(OnceLock::new());
        let spoken = Spoken { from: stdout, line_bytes: 0, flaw: flaw.clone(), _speaking: speaking };
        Ok((Process { _running: running, flaw }, spoken, stdin))
    }
}

/// Holds a program until nobody uses it or listens to it any longer. The group is killed before its first process is
/// reaped: until then nobody else can have its number.
async fn keep(
    mut child: Child,
    mut group: Group,
    stopped: oneshot::Receiver<()>,
    silent: oneshot::Receiver<()>,
) {
    // Nothing is ever sent: that the other end is dropped is the news.
    tokio::select! {
        _ = stopped => {}
        _ = silent => {}
    }
    group.kill();
    #[cfg(not(unix))]
    let _ = child.start_kill();
    if let Err(error) = child.wait().await {
        tracing::warn!(%error, "a server's process could not be waited for");
    }
}

/// A process group that does not outlive this value.
struct Group {
    #[cfg(unix)]
    leader: Option<rustix::process::Pid>,
}

impl Group {
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
            // A group in which nobody lives any longer is what we want.
            let _ = rustix::process::kill_process_group(leader, rustix::process::Signal::KILL);
        }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Reads to the end, whatever is logged of it: a full pipe would stop the program. By pieces, because nobody promises
/// lines.
async fn listen(mut stderr: ChildStderr, server: String) {
    let mut piece = [0; PIECE_BYTES];
    let mut left = COMPLAINTS_BYTES_MAX;
    while let Ok(count @ 1..) = stderr.read(&mut piece).await {
        if left > 0 {
            left = left.saturating_sub(count);
            for line in String::from_utf8_lossy(&piece[..count]).lines() {
                tracing::debug!(server, "{line}");
            }
        }
    }
}

/// What a program says, as long as its lines have a reasonable length. One that is longer ends the connection: its
/// answer could not be taken, and whoever waits for it should not have to wait for the time-out.
#[derive(Debug)]
pub(super) struct Spoken {
    from: ChildStdout,
    line_bytes: usize,
    flaw: Arc<OnceLock<&'static str>>,
    _speaking: oneshot::Sender<()>,
}

impl AsyncRead for Spoken {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = into.filled().len();
        std::task::ready!(Pin::new(&mut self.from).poll_read(cx, into))?;
        for byte in &into.filled()[before..] {
            self.line_bytes = if *byte == b'\n' { 0 } else { self.line_bytes + 1 };
            if self.line_bytes > TAKEN_BYTES_MAX {
                let _ = self.flaw.set("it said more than is taken in one message");
                return Poll::Ready(Err(io::Error::other("a message is too long")));
            }
        }
        Poll::Ready(Ok(()))
    }
}
