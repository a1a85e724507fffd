//! Which bytes are a request of the plainest form, as a pure function.

use std::mem::MaybeUninit;

use flow::scratch;
use http::HeaderMap;
use http::header::{AUTHORIZATION, CONTENT_ENCODING, HeaderName, HeaderValue};

use super::super::request_id;
use super::super::requests::is_blank;
use super::super::write::Api;

/// Headers of a request on the short way.
const HEADERS_MAX: usize = 32;

/// What the bytes of a connection are, as far as they have come.
pub enum RequestFraming<'a> {
    /// Nothing that a request begins with.
    Nothing,
    /// One request and nothing behind it but empty lines.
    Whole(Plain<'a>),
    /// The beginning of one; whether its head is complete.
    Part { head: bool },
    /// Something for the long way.
    Other,
}

/// A request of the plainest form.
pub struct Plain<'a> {
    /// The endpoint that the path names.
    pub api: Api,
    /// The query string, without its `?`.
    pub query: &'a str,
    /// Those that matter to a write.
    pub headers: HeaderMap,
    /// What came behind the head, up to the request's end.
    pub body: &'a [u8],
}

/// What `bytes` are, for a head and a body that may have so many bytes.
pub fn cut(bytes: &[u8], head_max: usize, body_max: usize) -> RequestFraming<'_> {
    if is_blank(bytes) {
        return RequestFraming::Nothing;
    }
    let mut fields = [const { MaybeUninit::uninit() }; HEADERS_MAX];
    let mut head = httparse::Request::new(&mut []);
    let head_len = match head.parse_with_uninit_headers(bytes, &mut fields) {
        Ok(httparse::Status::Complete(len)) if len <= head_max => len,
        Ok(httparse::Status::Partial) if bytes.len() < head_max => {
            return RequestFraming::Part { head: false };
        }
        _ => return RequestFraming::Other,
    };
    match Plain::of(&head, &bytes[head_len..]) {
        Some((plain, length))
            if length <= body_max && head_len.saturating_add(length) <= scratch::SIZE =>
        {
            match plain.body.split_at_checked(length) {
                None => RequestFraming::Part { head: true },
                Some((body, behind)) if is_blank(behind) => {
                    RequestFraming::Whole(Plain { body, ..plain })
                }
                Some(_) => RequestFraming::Other,
            }
        }
        _ => RequestFraming::Other,
    }
}

impl<'a> Plain<'a> {
    /// A write by its head and what has come of its body, and how long that is to be.
    fn of(head: &httparse::Request<'_, 'a>, body: &'a [u8]) -> Option<(Self, usize)> {
        if head.method != Some("POST") || head.version != Some(1) {
            return None;
        }
        let target = head.path?;
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let api = Api::at(path)?;
        if !query.bytes().all(is_plain) {
            return None;
        }
        let mut headers = HeaderMap::new();
        let mut length = None;
        for field in head.headers.iter() {
            let is = |name: &str| field.name.eq_ignore_ascii_case(name);
            if is("content-length") {
                let text = std::str::from_utf8(field.value).ok()?;
                let digits = text.bytes().all(|byte| byte.is_ascii_digit());
                if !digits || length.replace(text.parse().ok()?).is_some() {
                    return None;
                }
            } else if let Some(name) = KEPT.iter().find(|name| is(name.as_str())) {
                headers.append(name, HeaderValue::from_bytes(field.value).ok()?);
            } else if is("connection") && !field.value.eq_ignore_ascii_case(b"keep-alive")
                || OTHER.iter().any(|name| is(name))
            {
                return None;
            }
        }
        Some((Self { api, query, headers, body }, length?))
    }
}

/// The headers that a write is told by.
const KEPT: [HeaderName; 4] =
    [AUTHORIZATION, CONTENT_ENCODING, request_id::X_REQUEST_ID, request_id::REQUEST_ID];
/// Those that change how the request or its answer is to be read.
const OTHER: [&str; 7] =
    ["transfer-encoding", "expect", "upgrade", "origin", "sec-fetch-site", "te", "x-weir-via"];

/// Whether a byte is one that every reading of URLs takes in a query.
fn is_plain(byte: u8) -> bool {
    matches!(byte, 0x21 | 0x24..=0x3b | 0x3d | 0x3f..=0x7e)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{Api, RequestFraming, cut};

    const HEAD_MAX: usize = 16 << 10;
    const BODY_MAX: usize = 1 << 20;

    fn write(extra: &str, body: &str) -> Vec<u8> {
        let length = body.len();
        let head = "POST /write?db=a&precision=ms HTTP/1.1\r\nHost: weir\r\nUser-Agent: test\r\n";
        format!("{head}{extra}Content-Length: {length}\r\n\r\n{body}").into_bytes()
    }

    /// In a word, what bytes are taken for.
    fn kind(bytes: &[u8]) -> &'static str {
        match cut(bytes, HEAD_MAX, BODY_MAX) {
            RequestFraming::Nothing => "nothing",
            RequestFraming::Whole(_) => "whole",
            RequestFraming::Part { head: false } => "part of a head",
            RequestFraming::Part { head: true } => "part of a body",
            RequestFraming::Other => "other",
        }
    }

    #[test]
    fn a_plain_write_is_cut_into_what_matters() {
        let extra = "Connection: keep-alive\r\nAUTHORIZATION: Token a:b\r\nX-Thing: 1\r\n";
        let bytes = write(extra, "cpu v=1\n");
        let RequestFraming::Whole(plain) = cut(&bytes, HEAD_MAX, BODY_MAX) else {
            panic!("not taken");
        };
        assert_eq!((plain.api, plain.query), (Api::V1, "db=a&precision=ms"));
        assert_eq!(plain.body, b"cpu v=1\n");
        assert_eq!(plain.headers.len(), 1);
        assert_eq!(plain.headers["authorization"], "Token a:b");
    }

    #[test]
    fn what_has_not_come_whole_is_waited_for() {
        let bytes = write("", "cpu v=1\n");
        let head = bytes.len() - 8;
        for len in 0..bytes.len() {
            let expected = match len {
                0 => "nothing",
                _ if len < head => "part of a head",
                _ => "part of a body",
            };
            assert_eq!(kind(&bytes[..len]), expected, "{len} bytes");
        }
        assert_eq!(kind(&bytes), "whole");
    }

    #[test]
    fn empty_lines_around_a_request_are_no_part_of_it() {
        for blank in ["\n", "\r\n", "\r\n\r\n"] {
            assert_eq!(kind(blank.as_bytes()), "nothing");
            let bytes = [blank.as_bytes(), &write("", "cpu v=1\n"), blank.as_bytes()].concat();
            let RequestFraming::Whole(plain) = cut(&bytes, HEAD_MAX, BODY_MAX) else {
                panic!("not taken: {blank:?}");
            };
            assert_eq!(plain.body, b"cpu v=1\n");
        }
        let next = [write("", "cpu v=1\n"), b"\r\nPOST".to_vec()].concat();
        assert_eq!(kind(&next), "other");
    }

    #[test]
    fn whatever_is_special_goes_the_long_way() {
        let plain = |from: &str, to: &str| {
            let text = String::from_utf8(write("", "cpu v=1\n")).unwrap();
            assert!(text.contains(from), "{from}");
            text.replacen(from, to, 1).into_bytes()
        };
        let mut all = vec![
            plain("POST", "GET"),
            plain("POST", "post"),
            plain("/write", "/query"),
            plain("/write?", "/write/?"),
            plain("/write", "http://weir/write"),
            plain("db=a", "db=a#b"),
            plain("db=a", "db=\u{e9}"),
            plain("db=a", "db=a b"),
            plain("HTTP/1.1", "HTTP/1.0"),
            plain("HTTP/1.1", "HTTP/2.0"),
            plain("Content-Length: 8", "Content-Length: +8"),
            plain("Content-Length: 8", "Content-Length: 0x8"),
            plain("Content-Length: 8", "Content-Length: 8, 8"),
            plain("Content-Length: 8", "Content-Length:"),
            plain("Content-Length: 8", "Content-Length: 99999999999999999999"),
            plain("Content-Length: 8", "Content-Length: 1048577"),
            plain("Content-Length: 8", "Content-Length: 65536"),
            plain("Content-Length: 8", "Content-Length : 8"),
            plain("Content-Length: 8\r\n", ""),
            plain("Host", "Content-Length: 8\r\nHost"),
            plain("cpu v=1\n", "cpu v=1\nPOST /write"),
            vec![b'x'; HEAD_MAX],
            [b"POST /write?db=".as_slice(), &vec![b'x'; HEAD_MAX]].concat(),
        ];
        for name in [
            "Transfer-Encoding",
            "Expect",
            "Upgrade",
            "Origin",
            "Sec-Fetch-Site",
            "TE",
            "X-Weir-Via",
        ] {
            all.push(write(&format!("{name}: x\r\n"), "cpu v=1\n"));
        }
        for value in ["close", "Upgrade", "keep-alive, TE", ""] {
            all.push(write(&format!("Connection: {value}\r\n"), "cpu v=1\n"));
        }
        all.push(write(&"X-A: b\r\n".repeat(super::HEADERS_MAX), "cpu v=1\n"));
        for bytes in all {
            assert_eq!(kind(&bytes), "other", "{}", String::from_utf8_lossy(&bytes));
        }
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_stumble(
            at in 0_usize..90,
            piece in proptest::collection::vec(any::<u8>(), 0..8),
            body in "[a-z =\n]{0,20}",
        ) {
            let mut bytes = write("Accept: */*\r\n", &body);
            let at = at.min(bytes.len());
            bytes.splice(at..(at + piece.len()).min(bytes.len()), piece);
            if let RequestFraming::Whole(plain) = cut(&bytes, HEAD_MAX, BODY_MAX) {
                let (body, whole) = (plain.body.as_ptr_range(), bytes.as_ptr_range());
                prop_assert!(whole.start < body.start && body.end <= whole.end);
                prop_assert!(plain.query.len() + plain.body.len() < bytes.len());
            }
        }
    }
}
