//! A connection from which only so much is read before its answer has begun. Interim answers are no part of the answer,
//! and would otherwise be read for as long as there is time.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

const NO_LIMIT: usize = usize::MAX;

#[derive(Debug)]
pub(super) struct Limited<S> {
    stream: S,
    left: Arc<AtomicUsize>,
}

/// Lifts the limit of a connection.
#[derive(Debug)]
pub(super) struct Allowance(Arc<AtomicUsize>);

impl<S> Limited<S> {
    pub(super) fn new(stream: S, bytes_max: usize) -> (Self, Allowance) {
        let left = Arc::new(AtomicUsize::new(bytes_max));
        (Self { stream, left: left.clone() }, Allowance(left))
    }

    fn spend(&self, bytes: usize) -> io::Result<()> {
        let left = self.left.load(Ordering::Relaxed);
        if left == NO_LIMIT {
            return Ok(());
        }
        let rest =
            left.checked_sub(bytes).ok_or_else(|| io::Error::other("too much came before an answer"))?;
        self.left.store(rest, Ordering::Relaxed);
        Ok(())
    }
}

impl Allowance {
    pub(super) fn lift(self) {
        self.0.store(NO_LIMIT, Ordering::Relaxed);
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Limited<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        ready!(Pin::new(&mut self.stream).poll_read(cx, buf))?;
        Poll::Ready(self.spend(buf.filled().len() - before))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Limited<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
