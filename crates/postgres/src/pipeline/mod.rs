//! What a client's messages become on a server connection that others use too: its statements under
//! Weir's names, its settings applied, and the answers that are under way.
//!
//! Nothing in here reads or writes a socket, or knows which server it is about. The path: [`round`]
//! cuts what a client sends, [`summary`] says what a round comes to, and [`judgement`] for how long
//! that holds; [`compose`] writes a round as one server is to see it, by the client's
//! own [`names`], the worker's [`statements`] and what that server has [`prepared`]; [`script`]
//! goes through the answers, [`point_errors`] tells errors as of the client's text, and
//! [`elsewhere`] which of them another server would not give.
//! [`settings`] are what a connection takes on for its session, and [`shape`] is what a statement
//! takes and gives. [`effect`] says what a statement does to its session and to the servers,
//! [`spans`] where those about the session are in a text, and [`study`] what a long text is.
//! [`lease`] follows a client that has a server connection of its own.

pub mod compose;
pub mod effect;
pub mod elsewhere;
pub mod judgement;
pub mod lease;
pub mod names;
pub mod point_errors;
pub mod prepared;
pub mod round;
pub mod script;
pub mod settings;
pub mod shape;
pub mod spans;
pub mod statements;
pub mod study;
pub mod summary;
