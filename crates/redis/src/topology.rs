//! Where servers are that others know of.
//!
//! Nothing here knows of clients, lanes or connections: [`cluster`] reads what a node says of all
//! nodes, [`redirect`] what one says of a key that is not with it, [`replication`] what a server
//! says of its replicas.

pub mod cluster;
pub mod redirect;
pub mod replication;

/// Where a node listens, as another one says.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct At {
    /// Its host; `None`: that of the node which says so.
    pub host: Option<String>,
    pub port: u16,
}
