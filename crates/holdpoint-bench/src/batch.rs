//! Runs work of many concurrent clients on one thread and collects the results.

use std::cell::{Cell, RefCell};
use std::time::{Duration, Instant};

use futures_util::future::join_all;

use super::measure::{Percentiles, round};
use super::{Failure, Progress, ReportFields};

pub(super) struct Batch<T> {
    pub(super) done: Vec<T>,
    pub(super) failures: Vec<Failure>,
    pub(super) seconds: f64,
}

impl<T> Batch<T> {
    pub(super) fn new(results: impl IntoIterator<Item = Result<T, Failure>>, begun: Instant) -> Self {
        let mut batch =
            Self { done: Vec::new(), failures: Vec::new(), seconds: begun.elapsed().as_secs_f64() };
        for result in results {
            match result {
                Ok(value) => batch.done.push(value),
                Err(failure) => batch.failures.push(failure),
            }
        }
        batch
    }

    pub(super) fn per_second(&self) -> f64 {
        self.done.len() as f64 / self.seconds
    }

    /// Returns the results, or the first error with `what` as its context.
    pub(super) fn all(self, what: &str) -> Result<Vec<T>, Failure> {
        match self.failures.into_iter().next() {
            Some(failure) => Err(failure.about(what)),
            None => Ok(self.done),
        }
    }

    pub(super) fn finish(&self, fields: ReportFields) -> super::Report {
        fields.finish(self.failures.len(), self.failures.first())
    }

    /// Adds the number of results, the time they took and their rate.
    pub(super) fn rate(&self, fields: ReportFields, what: &str, manner: &str) -> ReportFields {
        let (count, per_second) = (self.done.len(), self.per_second());
        fields
            .member(what, count)
            .member("seconds", round(self.seconds))
            .member(format!("{what}PerSecond"), round(per_second))
            .line(what, format!("{count} in {:.2} s, {manner}", self.seconds))
            .line(format!("{what}/s"), format!("{per_second:.0}"))
    }
}

/// Runs `work` `count` times, `concurrency` at a time.
pub(super) async fn repeat<T>(
    label: &'static str,
    count: u32,
    concurrency: u32,
    work: impl AsyncFn() -> Result<T, Failure>,
) -> Batch<T> {
    let left = Cell::new(count);
    let take = || {
        left.set(left.get().checked_sub(1)?);
        Some(())
    };
    run_all(label, count, concurrency, take, async |()| work().await).await
}

/// Runs `work` for each item that `take` returns, `concurrency` at a time, until `take` returns None.
pub(super) async fn run_all<I, T>(
    label: &'static str,
    total: u32,
    concurrency: u32,
    take: impl Fn() -> Option<I>,
    work: impl AsyncFn(I) -> Result<T, Failure>,
) -> Batch<T> {
    let (progress, begun) = (Progress::new(label, total), Instant::now());
    let results = RefCell::new(Vec::with_capacity(total as usize));
    let client = || async {
        while let Some(item) = take() {
            let result = work(item).await;
            results.borrow_mut().push(result);
            progress.step();
        }
    };
    join_all((0..concurrency).map(|_| client())).await;
    Batch::new(results.into_inner(), begun)
}

/// Runs `work` `count` times, one after another, and returns the percentiles of the durations.
pub(super) async fn sample(
    count: u32,
    work: impl AsyncFn() -> Result<(), Failure>,
) -> Result<Option<Percentiles>, Failure> {
    let mut samples = Vec::new();
    for _ in 0..count {
        samples.push(measure_time(&work).await?);
    }
    Ok(Percentiles::of(samples))
}

pub(super) async fn measure_time(work: impl AsyncFn() -> Result<(), Failure>) -> Result<Duration, Failure> {
    let begun = Instant::now();
    work().await?;
    Ok(begun.elapsed())
}
