//! The instants of a cron expression in a time zone.

use std::collections::VecDeque;

use croner::Cron;
use croner::parser::{CronParser, Seconds, Year};
use jiff::tz::{TimeZone, TimeZoneDatabase};

use crate::limits;
use crate::{Timestamp, trigger::MissedPolicy};

/// The time after an instant within which its run is not late.
const ON_TIME_MS: i64 = 60_000;
const HOUR_MS: i64 = 3_600_000;
const DAY_MS: i64 = 24 * HOUR_MS;
/// The lengths of the periods before now in which missed instants are searched, so that a long outage costs no more than
/// a short one.
const PERIODS_MS: [i64; 5] = [HOUR_MS, DAY_MS, 31 * DAY_MS, 366 * DAY_MS, 9 * 366 * DAY_MS];

/// A cron expression of five fields in a time zone of the tz database. The database is part of the program.
#[derive(Clone, Debug)]
pub struct Schedule {
    cron: Cron,
    zone: TimeZone,
}

/// A part of a schedule is invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field} {message}")]
pub struct BadSchedule {
    /// The JSON name of the field.
    pub field: &'static str,
    /// The rule that the field violates.
    pub message: String,
}

/// The instants of a schedule that are due.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DueInstants {
    /// The instants for which runs start, oldest first.
    pub fire: Vec<Timestamp>,
    /// The next instant in the future.
    pub next: Option<Timestamp>,
}

impl Schedule {
    /// Parses a cron expression and the name of a time zone.
    pub fn parse(cron: &str, time_zone: &str) -> Result<Self, BadSchedule> {
        let bad = |field, message: String| BadSchedule { field, message };
        if cron.chars().count() > limits::TRIGGER_CRON_CHARS_MAX {
            let max = limits::TRIGGER_CRON_CHARS_MAX;
            return Err(bad("schedule.cron", format!("must have at most {max} characters")));
        }
        let parser = CronParser::builder().seconds(Seconds::Disallowed).year(Year::Disallowed).build();
        let cron = parser.parse(cron).map_err(|error| {
            let form = "must have the five fields minute, hour, day of month, month and day of week, or be @hourly, \
                        @daily, @weekly, @monthly or @yearly";
            bad("schedule.cron", format!("{form}: {error}"))
        })?;
        let zone = TimeZoneDatabase::bundled().get(time_zone).map_err(|_| {
            let message = "is no time zone of the tz database; use a name such as Europe/Berlin or UTC";
            bad("schedule.timeZone", message.to_owned())
        })?;
        let schedule = Self { cron, zone };
        if schedule.next_after(Timestamp(0)).is_none() {
            return Err(bad("schedule.cron", "names no date that exists".to_owned()));
        }
        Ok(schedule)
    }

    /// Returns the first instant after another instant; None if there is none.
    pub fn next_after(&self, after: Timestamp) -> Option<Timestamp> {
        let from = jiff::Timestamp::from_millisecond(after.0).ok()?.to_zoned(self.zone.clone());
        let next = self.cron.find_next_occurrence(&from, false).ok()?;
        Some(Timestamp(next.timestamp().as_millisecond())).filter(|next| *next > after)
    }

    /// Returns the next instants, for people.
    pub fn preview(&self, after: Timestamp, count: usize) -> Vec<Timestamp> {
        std::iter::successors(self.next_after(after), |last| self.next_after(*last)).take(count).collect()
    }

    /// Returns the due instants of a schedule whose first unhandled instant is `first`. An instant is missed if a later
    /// one is also due, or if it is more than a minute late.
    pub fn due(&self, first: Timestamp, now: Timestamp, missed: MissedPolicy) -> DueInstants {
        let next = self.next_after(first.max(now));
        let wanted = match missed {
            MissedPolicy::Skip | MissedPolicy::Last => 1,
            MissedPolicy::All => limits::TRIGGER_MISSED_MAX,
        };
        let mut fire = self.latest(first, now, wanted);
        if missed == MissedPolicy::Skip {
            fire.retain(|at| now.0.saturating_sub(at.0) <= ON_TIME_MS);
        }
        DueInstants { fire, next }
    }

    /// Returns the last instants from `first` to `now`, oldest first, at most `count`.
    fn latest(&self, first: Timestamp, now: Timestamp, count: usize) -> Vec<Timestamp> {
        let mut found = VecDeque::with_capacity(count);
        let starts = PERIODS_MS.map(|period| now.0.saturating_sub(period)).into_iter().chain([i64::MIN]);
        for start in starts {
            found.clear();
            // `first` is an instant of the schedule, so that the search begins just before it.
            let begin = Timestamp(start.max(first.0.saturating_sub(1)));
            let instants = std::iter::successors(self.next_after(begin), |last| self.next_after(*last));
            for at in instants.take_while(|at| *at <= now) {
                if found.len() == count {
                    found.pop_front();
                }
                found.push_back(at);
            }
            if found.len() == count || begin.0 < first.0 {
                break;
            }
        }
        found.into()
    }
}

#[cfg(test)]
mod tests;
