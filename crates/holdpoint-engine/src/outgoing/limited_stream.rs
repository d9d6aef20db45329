//! A connection with a limit for the bytes before the response body. Without it, a server could send interim responses
//! until the timeout.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

const NO_LIMIT: usize = usize::MAX;

#[derive(Debug)]
pub(super) struct LimitedStream<S> {
    stream: S,
    left: Arc<AtomicUsize>,
}

/// The read limit of a connection.
#[derive(Debug)]
pub(super) struct ReadLimit(Arc<AtomicUsize>);

impl<S> LimitedStream<S> {
    pub(super) fn new(stream: S) -> (Self, ReadLimit) {
        let left = Arc::new(AtomicUsize::new(NO_LIMIT));
        (Self { stream, left: left.clone() }, ReadLimit(left))
    }

    fn spend(&self, bytes: usize) -> io::Result<()> {
        let left = self.left.load(Ordering::Relaxed);
        if left == NO_LIMIT {
            return Ok(());
        }
        let rest =
            left.checked_sub(bytes).ok_or_else(|| io::Error::other("too much data before the response"))?;
        self.left.store(rest, Ordering::Relaxed);
        Ok(())
    }
}

impl ReadLimit {
    /// Limits the number of bytes that are read from now on.
    pub(super) fn set(&self, bytes_max: usize) {
        self.0.store(bytes_max, Ordering::Relaxed);
    }

    /// Returns whether so many bytes may still be read.
    pub(super) fn is_left(&self, bytes: usize) -> bool {
        self.0.load(Ordering::Relaxed) == bytes
    }

    /// Removes the limit.
    pub(super) fn lift(&self) {
        self.set(NO_LIMIT);
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for LimitedStream<S> {
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

impl<S: AsyncWrite + Unpin> AsyncWrite for LimitedStream<S> {
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
