//! The queries that lock and read the rows of a batch, and their results, under the same names.

use crate::store::{Error, Query, QueryResult};

/// Declares [`LockSet`]. The list of the fields is the only place that states the order of the queries.
macro_rules! lock_set {
    ($($(#[$about:meta])* $field:ident,)+) => {
        /// One value for each query that locks or reads rows of a batch: the query, or its result.
        #[derive(Debug)]
        pub(super) struct LockSet<T> {
            $($(#[$about])* pub $field: T,)+
        }

        impl LockSet<Query> {
            /// Returns the queries in the order of their execution.
            pub(super) fn into_queries(self) -> Vec<Query> {
                vec![$(self.$field,)+]
            }
        }

        impl LockSet<QueryResult> {
            /// Names the results of [`LockSet::into_queries`].
            pub(super) fn from_results(results: Vec<QueryResult>) -> Result<Self, Error> {
                let mut results = results.into_iter();
                Ok(Self { $($field: results.next().ok_or_else(missing_result)?,)+ })
            }
        }
    };
}

// Receipts are locked before scopes before arrivals before threads before dispatches before runs, so that two batches
// cannot deadlock.
lock_set! {
    /// Reserves the keys of receipts; returns those that were free.
    reserved_receipts,
    stored_receipts,
    locked_scopes,
    /// The unfinished and the newest run of each scope.
    scopes,
    arrivals,
    new_threads,
    threads,
    busy_threads,
    ready_threads,
    dispatches,
    /// The epochs of the dispatches, read again after the rows are locked: an interruption may have raised them while
    /// the query waited for the locks.
    epochs,
    live_keys,
    revisions,
    runs,
    /// The revision of the list of subscriptions, read last, so that the subscriptions are as new as possible.
    webhooks,
}

pub(super) fn missing_result() -> Error {
    Error::Failed("the database returned fewer results than queries".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::committer::locks::Locks;
    use crate::store::{LockScope, dispatches, receipts, runs, webhooks};

    #[test]
    fn a_result_has_the_name_of_its_query() {
        let queries = Locks::default().queries(LockScope::Rows).into_queries();
        let result = |touched| QueryResult { touched, ..QueryResult::default() };
        let results = LockSet::from_results((0..queries.len() as u64).map(result).collect()).unwrap();
        let query_of = |result: &QueryResult| queries[result.touched as usize].sql;
        assert_eq!(query_of(&results.reserved_receipts), receipts::TAKE);
        assert_eq!(query_of(&results.dispatches), dispatches::BY_ID);
        assert_eq!(query_of(&results.runs), runs::SEQUENCE);
        assert_eq!(query_of(&results.webhooks), webhooks::REVISION);
    }

    #[test]
    fn a_missing_result_is_an_error() {
        let queries = Locks::default().queries(LockScope::Rows).into_queries();
        assert!(LockSet::from_results(vec![QueryResult::default(); queries.len() - 1]).is_err());
    }
}
