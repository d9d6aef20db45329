//! The inbox: a page on which people answer interrupts, and the sign-in for it. The page is a client of the public API;
//! only its files have routes of their own.

mod accept;
pub(crate) mod assets;
pub(crate) mod page;
pub(crate) mod routes;
pub(crate) mod sessions;
