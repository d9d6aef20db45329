//! Which keys of receipts a transaction has taken, and what stands under the others.

use std::collections::{HashMap, HashSet};

use super::work::{Guard, Reply};
use crate::store::receipts::{Key, Receipt};
use crate::store::{Answer, Error};

#[derive(Debug, Default)]
pub(super) struct Receipts {
    /// Taken for the job that comes next.
    fresh: HashSet<Key>,
    /// Taken by a job of this transaction. Whether it was done is known when it is committed.
    used: HashSet<Key>,
    stored: HashMap<Key, Receipt>,
}

impl Receipts {
    /// The answers to `TAKE` and `BY_KEY`.
    pub(super) fn add(&mut self, taken: &Answer, found: &Answer) -> Result<(), Error> {
        for row in &taken.rows {
            self.fresh.insert(Key::read(row)?);
        }
        for row in &found.rows {
            self.stored.insert(Key::read(row)?, Receipt::read(row)?);
        }
        Ok(())
    }

    /// The first who asks gets the key. Why others do not.
    pub(super) fn stands_against(&mut self, key: &Key) -> Option<Reply> {
        if self.fresh.remove(key) {
            self.used.insert(key.clone());
            return None;
        }
        match self.stored.get(key) {
            Some(receipt) if !self.used.contains(key) => Some(Reply::Duplicate(Box::new(receipt.clone()))),
            _ => Some(Reply::Conflict(Guard::Receipt)),
        }
    }
}
