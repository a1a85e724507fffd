//! PostgreSQL's SQL as text: tokens, statements, the normal form that a plan is known by, and
//! directives in a leading comment.
//!
//! It cuts text exactly where the server's own lexer does (`scan.l`); what the server would refuse
//! or what differs between its versions is [`TokenKind::Odd`]. It never parses, knows no catalogue
//! and never allocates but into a buffer that it is given.
//!
//! The one path: [`normalise`] makes the key of a cached plan in one pass; on a miss [`statements`]
//! cuts the text into statements of [`Token`]s for whoever classifies it.

mod bytes;
mod directive;
mod lexer;
mod lift;
mod normal;
mod number;
mod origin;
mod split;
mod strings;
#[cfg(test)]
mod tests;
mod token;

pub use directive::{Directive, directive};
pub use lexer::Lexer;
pub use lift::Lifted;
pub use normal::{LITERAL, normalise};
pub use origin::{constant_position, written_position};
pub use split::{Statements, statements};
pub use token::{Strings, Token, TokenKind};
