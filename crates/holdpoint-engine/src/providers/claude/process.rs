//! The agent's program while it runs: with an environment of our choosing, in a group of its own that does not outlive
//! whoever listens to it, and believed only as far as it keeps its lines short.

use std::io;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command};

use super::hygiene::scrubbed;
use super::leftovers;

const LINE_BYTES_MAX: usize = 16 * 1024 * 1024;
/// Of everything that a program says in a turn.
const TURN_BYTES_MAX: usize = 256 * 1024 * 1024;
const PIECE_BYTES: usize = 64 * 1024;
/// Of what it complains about.
const COMPLAINTS_BYTES_MAX: usize = 16 * 1024;
/// How long a program that was killed may take to be gone.
const GONE_WITHIN: Duration = Duration::from_secs(5);

/// A program that runs. Dropped, it is killed with everything that it has started.
pub(super) struct Running {
    child: Child,
    stdin: Option<ChildStdin>,
    lines: Lines,
    complaints: tokio::task::JoinHandle<String>,
    /// The folder it was started for.
    root: PathBuf,
    /// It was waited for.
    ended: bool,
    buried: bool,
}

/// What a program does next.
pub(super) enum Next {
    Says(Vec<u8>),
    /// It has ended; what it said before may still be on its way.
    Ends,
    /// There is nothing more to hear.
    IsSilent,
    /// It said more than anybody should have to hear.
    SaysTooMuch,
}

impl Running {
    pub(super) fn start(mut command: Command, root: PathBuf) -> io::Result<Self> {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
        #[cfg(unix)]
        command.process_group(0);
        let mut child = command.spawn()?;
        let pipes = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let (Some(stdin), Some(stdout), Some(stderr)) = pipes else {
            return Err(io::Error::other("a program was started without its pipes"));
        };
        let lines = Lines { from: stdout, read: Vec::new(), looked: 0, total: 0 };
        let complaints = tokio::spawn(listen(stderr));
        Ok(Self { child, stdin: Some(stdin), lines, complaints, root, ended: false, buried: false })
    }

    pub(super) fn pid(&self) -> Option<u32> {
        self.child.id()
    }

    /// May be dropped and asked again.
    pub(super) async fn next(&mut self) -> Next {
        tokio::select! {
            biased;
            next = self.lines.next() => next,
            _ = self.child.wait(), if !self.ended => {
                self.ended = true;
                Next::Ends
            }
        }
    }

    pub(super) async fn say(&mut self, line: &serde_json::Value) -> io::Result<()> {
        let Some(stdin) = &mut self.stdin else { return Ok(()) };
        let mut text = line.to_string();
        text.push('\n');
        stdin.write_all(text.as_bytes()).await?;
        stdin.flush().await
    }

    /// There is nothing more to say to it.
    pub(super) fn hush(&mut self) {
        self.stdin = None;
    }

    pub(super) fn ask_to_end(&self) {
        #[cfg(unix)]
        self.signal(rustix::process::Signal::TERM);
    }

    #[cfg(unix)]
    fn signal(&self, signal: rustix::process::Signal) {
        // Until it is waited for, nobody else can have its number.
        let leader =
            self.child.id().and_then(|id| i32::try_from(id).ok()).and_then(rustix::process::Pid::from_raw);
        if let Some(leader) = leader {
            let _ = rustix::process::kill_process_group(leader, signal);
        }
    }

    /// Gives it time to end by itself.
    pub(super) async fn let_end(&mut self, within: Duration) {
        if !self.ended {
            self.ended = tokio::time::timeout(within, self.child.wait()).await.is_ok();
        }
    }

    fn kill(&mut self) {
        #[cfg(unix)]
        self.signal(rustix::process::Signal::KILL);
        let _ = self.child.start_kill();
    }

    /// Waits for its end, and sees to it. With what it complained about.
    pub(super) async fn bury(mut self) -> String {
        self.hush();
        self.kill();
        // What it started in sessions of their own.
        let root = self.root.clone();
        let _ = tokio::task::spawn_blocking(move || leftovers::sweep(&root)).await;
        if tokio::time::timeout(GONE_WITHIN, self.child.wait()).await.is_err() {
            tracing::warn!("a program that was killed is still there");
        }
        self.buried = true;
        let complaints = tokio::time::timeout(GONE_WITHIN, &mut self.complaints).await;
        complaints.ok().and_then(Result::ok).unwrap_or_default()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if !self.buried {
            self.kill();
            leftovers::sweep(&self.root);
        }
        self.complaints.abort();
    }
}

struct Lines {
    from: ChildStdout,
    read: Vec<u8>,
    /// Up to where there is no end of a line.
    looked: usize,
    total: usize,
}

impl Lines {
    /// May be dropped and asked again.
    async fn next(&mut self) -> Next {
        loop {
            if let Some(at) = self.read[self.looked..].iter().position(|byte| *byte == b'\n') {
                let rest = self.read.split_off(self.looked + at + 1);
                let line = std::mem::replace(&mut self.read, rest);
                self.looked = 0;
                return Next::Says(line);
            }
            self.looked = self.read.len();
            if self.looked > LINE_BYTES_MAX || self.total > TURN_BYTES_MAX {
                return Next::SaysTooMuch;
            }
            self.read.reserve(PIECE_BYTES);
            match self.from.read_buf(&mut self.read).await {
                Ok(count @ 1..) => self.total += count,
                Ok(0) | Err(_) => return Next::IsSilent,
            }
        }
    }
}

/// Reads to the end, because a full pipe would stop the program, and keeps the beginning.
async fn listen(mut stderr: ChildStderr) -> String {
    let (mut piece, mut kept) = ([0; 4096], Vec::new());
    while let Ok(count @ 1..) = stderr.read(&mut piece).await {
        let room = COMPLAINTS_BYTES_MAX.saturating_sub(kept.len()).min(count);
        kept.extend_from_slice(&piece[..room]);
    }
    let text = String::from_utf8_lossy(&kept).into_owned();
    if !text.is_empty() {
        tracing::debug!(said = scrubbed(&text), "the agent's program complained");
    }
    text
}
