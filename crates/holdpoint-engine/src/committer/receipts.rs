//! The receipt keys that a transaction has reserved, and the stored receipts of the others.

use std::collections::{HashMap, HashSet};

use super::work::{CommitReply, Precondition};
use crate::store::receipts::{Receipt, ReceiptKey};
use crate::store::{Error, QueryResult};

#[derive(Debug, Default)]
pub(super) struct Receipts {
    /// Keys that are reserved and not used by a job yet.
    fresh: HashSet<ReceiptKey>,
    /// Keys that a job of this transaction uses. The outcome of that job is known only after the commit.
    used: HashSet<ReceiptKey>,
    stored: HashMap<ReceiptKey, Receipt>,
}

impl Receipts {
    /// Adds the results of `TAKE` and `BY_KEY`.
    pub(super) fn add(&mut self, taken: &QueryResult, found: &QueryResult) -> Result<(), Error> {
        for row in &taken.rows {
            self.fresh.insert(ReceiptKey::read(row)?);
        }
        for row in &found.rows {
            self.stored.insert(ReceiptKey::read(row)?, Receipt::read(row)?);
        }
        Ok(())
    }

    /// Gives the key to the first job that asks for it and returns None. Returns the reply to any other job.
    pub(super) fn find_conflict(&mut self, key: &ReceiptKey) -> Option<CommitReply> {
        if self.fresh.remove(key) {
            self.used.insert(key.clone());
            return None;
        }
        match self.stored.get(key) {
            Some(receipt) if !self.used.contains(key) => {
                Some(CommitReply::Duplicate(Box::new(receipt.clone())))
            }
            _ => Some(CommitReply::Conflict(Precondition::Receipt)),
        }
    }
}
