//! forks
