//! The inbox: a page on which people decide, and how they sign in to it. The page is a client of the public API and has
//! no routes of its own but its files.

mod accept;
pub(crate) mod assets;
pub(crate) mod page;
pub(crate) mod routes;
pub(crate) mod sessions;
