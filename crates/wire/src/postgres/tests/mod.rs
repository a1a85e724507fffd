//! Every message there and back, streams cut anywhere, and bytes of any kind.

mod messages;
mod replies;
mod startup;
