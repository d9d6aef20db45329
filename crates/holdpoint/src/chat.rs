//! One contract over graphs wherever they run: started and answered by their state key, told of in three outcomes. No
//! rules live here.

pub(crate) mod chats;
pub(crate) mod routes;
mod stream;
#[cfg(test)]
mod tests;
mod translate;
