//! Server-sent events for all protocols: permits of open streams, the response, the queue of its frames, and the wait for
//! changes of a run or a thread. A protocol implements [`FrameSource`], which translates changes into frames.

mod frames;
mod log_wait;
mod permit;
mod response;

pub(crate) use frames::{FrameQueue, FrameSource};
pub(crate) use log_wait::{LogWait, Wakeup};
pub(crate) use permit::{StreamPermit, Streams};
pub(crate) use response::{accept_weight, comment, respond};
