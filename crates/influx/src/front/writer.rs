//! Who a connection's points are written by: the tags that they get, and the source that they are
//! told from others by.

use std::borrow::Cow;
use std::cell::RefCell;
use std::net::SocketAddr;
use std::sync::Arc;

use wire::line::StampTag;

use super::auth::User;
use crate::collisions::{Collisions, Source};

/// Who writes the points of one request.
pub struct Writer<'a> {
    /// The tags that they get, in the order of their keys.
    pub stamp: Cow<'a, [StampTag]>,
    /// The source, where collisions are looked for.
    pub source: Option<Source>,
}

/// A connection as a source of points, once it has written some.
pub struct ConnectionSource {
    peer: SocketAddr,
    known: RefCell<Option<(Source, Option<Arc<User>>)>>,
}

impl ConnectionSource {
    /// Of a connection that has written nothing.
    pub fn new(peer: SocketAddr) -> Self {
        Self { peer, known: RefCell::default() }
    }

    /// The source as which `user` writes.
    pub fn of(&self, collisions: &Collisions, user: Option<&Arc<User>>) -> Source {
        let mut known = self.known.borrow_mut();
        let name = user.map(|user| &*user.name);
        match &mut *known {
            Some((source, writer)) => {
                if writer.as_ref().map(Arc::as_ptr) != user.map(Arc::as_ptr) {
                    collisions.set_user(*source, name);
                    *writer = user.cloned();
                }
                *source
            }
            None => {
                let source = collisions.add_source(self.peer, name);
                *known = Some((source, user.cloned()));
                source
            }
        }
    }
}
