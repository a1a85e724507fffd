//! The id that every answer carries: the client's own, or one made here.

use std::cell::Cell;

use http::{HeaderMap, HeaderName, HeaderValue};

/// The header that clients give an id by, and answers carry.
pub const X_REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
/// The older name of the same.
pub const REQUEST_ID: HeaderName = HeaderName::from_static("request-id");

/// The id of a request.
pub enum RequestId {
    /// Made here, since the client sent none.
    Made([u8; 36]),
    /// Sent by the client, and answered as it is.
    Given(HeaderValue),
}

impl RequestId {
    /// As it stands in a header.
    pub fn as_bytes(&self) -> &[u8] {
        match self {
            Self::Made(text) => text,
            Self::Given(value) => value.as_bytes(),
        }
    }

    /// As a header's value.
    pub fn to_value(&self) -> HeaderValue {
        match self {
            Self::Made(text) => {
                HeaderValue::from_bytes(text).unwrap_or(HeaderValue::from_static("0"))
            }
            Self::Given(value) => value.clone(),
        }
    }
}

/// Makes request ids on one worker: UUID-shaped, unique in the process and all but surely beyond.
pub struct RequestIds {
    /// The random half, drawn once.
    node: u64,
    count: Cell<u64>,
}

impl RequestIds {
    /// A source with a random node of its own.
    pub fn new() -> Self {
        Self { node: rand::random(), count: Cell::new(u64::from(rand::random::<u32>())) }
    }

    /// The id of a request: `X-Request-Id`, else `Request-Id`, else a new one
    /// (`services/httpd/handler.go`, `requestID`).
    pub fn of(&self, request: &HeaderMap) -> RequestId {
        let given = |name| request.get(name).filter(|v: &&HeaderValue| !v.is_empty());
        match given(X_REQUEST_ID).or_else(|| given(REQUEST_ID)) {
            Some(value) => RequestId::Given(value.clone()),
            None => RequestId::Made(self.make()),
        }
    }

    fn make(&self) -> [u8; 36] {
        let count = self.count.get().wrapping_add(1);
        self.count.set(count);
        let mut text = *b"00000000-0000-1000-8000-000000000000";
        hex(&mut text[0..8], count & 0xffff_ffff);
        hex(&mut text[9..13], (count >> 32) & 0xffff);
        hex(&mut text[15..18], self.node >> 52);
        hex(&mut text[20..23], (self.node >> 40) & 0xfff);
        hex(&mut text[24..36], self.node & 0xff_ffff_ffff);
        text
    }
}

fn hex(out: &mut [u8], mut value: u64) {
    for digit in out.iter_mut().rev() {
        *digit = b"0123456789abcdef"[(value & 15) as usize];
        value >>= 4;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_made_where_the_client_gave_none() {
        let ids = RequestIds::new();
        let of = |headers: &HeaderMap| {
            let id = ids.of(headers);
            assert_eq!(id.to_value().as_bytes(), id.as_bytes());
            id.to_value()
        };
        let (a, b) = (of(&HeaderMap::new()), of(&HeaderMap::new()));
        assert_ne!(a, b);
        assert_eq!(a.len(), 36);
        let mut headers = HeaderMap::new();
        headers.insert(REQUEST_ID, HeaderValue::from_static("second"));
        assert_eq!(of(&headers), "second");
        headers.insert(X_REQUEST_ID, HeaderValue::from_static("first"));
        assert_eq!(of(&headers), "first");
    }
}
