//! Prints the progress of long work on standard error.

use std::cell::Cell;
use std::io::IsTerminal;
use std::time::{Duration, Instant};

const PRINT_INTERVAL: Duration = Duration::from_millis(100);

/// A counter on standard error. Prints only to a terminal.
#[derive(Debug)]
pub(super) struct Progress {
    label: &'static str,
    total: u32,
    done: Cell<u32>,
    shown: Cell<Option<Instant>>,
    visible: bool,
}

impl Progress {
    pub(super) fn new(label: &'static str, total: u32) -> Self {
        let visible = std::io::stderr().is_terminal();
        Self { label, total, done: Cell::new(0), shown: Cell::new(None), visible }
    }

    pub(super) fn step(&self) {
        self.done.set(self.done.get() + 1);
        let due = self.shown.get().is_none_or(|at| at.elapsed() >= PRINT_INTERVAL);
        if self.visible && due {
            eprint!("\r\u{1b}[K{} {}/{}", self.label, self.done.get(), self.total);
            self.shown.set(Some(Instant::now()));
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if self.shown.get().is_some() {
            eprint!("\r\u{1b}[K");
        }
    }
}
