//! Answers to `/query` compressed for clients that ask for it: those of the embedded store piece by
//! piece, on the thread that makes them; those that are there at once by the worker where they are
//! short, else on another thread. What a backend answers is compressed by the backend.

use std::io::Write;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use http::header::{ACCEPT, ACCEPT_ENCODING, CONTENT_ENCODING, USER_AGENT, VARY};
use http::{HeaderMap, HeaderValue, StatusCode};
use store::query::encode::Out;
use tokio::runtime::Handle;

use super::answer::{Answer, Content};

const GZIP: HeaderValue = HeaderValue::from_static("gzip");
/// What is shorter goes as it is: it is one packet either way.
const SMALL_BYTES: usize = 1024;
/// What the worker compresses itself, in about a millisecond.
const AT_ONCE_BYTES: usize = 64 << 10;
/// Compressed bytes that are gathered before they are handed out, where not each piece is.
const PIECE_BYTES: usize = 16 << 10;

/// Whether a request's `Accept-Encoding` names gzip, with no less weight than it gives to an answer
/// as it is (RFC 9110, section 12.5.3). Like InfluxDB, `*` is not taken for it.
pub fn accepts_gzip(headers: &HeaderMap) -> bool {
    let named = headers.get_all(ACCEPT_ENCODING).iter().filter_map(|value| value.to_str().ok());
    let (mut gzip, mut identity) = (None, None);
    for coding in named.flat_map(|value| value.split(',')) {
        let mut parts = coding.split(';').map(str::trim);
        let name = parts.next().unwrap_or_default();
        let weight = weight(parts);
        if name.eq_ignore_ascii_case("gzip") || name.eq_ignore_ascii_case("x-gzip") {
            gzip = Some(weight);
        } else if name.eq_ignore_ascii_case("identity") {
            identity = Some(weight);
        }
    }
    gzip.is_some_and(|gzip| gzip > 0.0 && identity.is_none_or(|identity| gzip >= identity))
}

/// The weight among the parameters of a coding; none at all where it can not be read.
fn weight<'a>(mut parameters: impl Iterator<Item = &'a str>) -> f32 {
    let weight = parameters.find_map(|parameter| {
        let (name, value) = parameter.split_once('=')?;
        name.trim().eq_ignore_ascii_case("q").then_some(value)
    });
    weight.map_or(1.0, |weight| weight.trim().parse().unwrap_or(0.0))
}

/// What a backend is told of a request's headers: that it may compress only if Weir's client takes
/// it, in the one form in which every backend understands it.
pub fn for_backend(asked: &HeaderMap) -> HeaderMap {
    let mut told = HeaderMap::new();
    for name in [ACCEPT, USER_AGENT] {
        if let Some(value) = asked.get(&name) {
            told.insert(name, value.clone());
        }
    }
    if accepts_gzip(asked) {
        told.insert(ACCEPT_ENCODING, GZIP);
    }
    told
}

/// An answer as its client wants it: compressed where it is there as a whole and is not yet.
pub async fn finished(mut answer: Answer, asked: &HeaderMap, control: &Handle) -> Answer {
    if answer.status() != StatusCode::OK {
        return answer;
    }
    answer.headers_mut().append(VARY, HeaderValue::from_static("Accept-Encoding"));
    let whole = match answer.body() {
        Content::Full(whole) if whole.len() >= SMALL_BYTES => whole.clone(),
        _ => return answer,
    };
    if answer.headers().contains_key(CONTENT_ENCODING) || !accepts_gzip(asked) {
        return answer;
    }
    let compressed = if whole.len() <= AT_ONCE_BYTES {
        folded(&whole)
    } else {
        control.spawn_blocking(move || folded(&whole)).await.ok().flatten()
    };
    if let Some(compressed) = compressed {
        *answer.body_mut() = Content::Full(compressed);
        answer.headers_mut().insert(CONTENT_ENCODING, GZIP);
    }
    answer
}

/// All of a body; writing to memory does not fail.
fn folded(whole: &[u8]) -> Option<Bytes> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(whole).ok()?;
    encoder.finish().ok().map(Bytes::from)
}

/// That a client takes gzip, and whether its answer has become that, which is known once the first
/// of it is handed out.
#[derive(Clone, Default)]
pub struct GzipNegotiation(Arc<AtomicBool>);

impl GzipNegotiation {
    /// `None` where the request does not ask for it.
    pub fn by(headers: &HeaderMap) -> Option<Self> {
        accepts_gzip(headers).then(Self::default)
    }

    /// Compresses the pieces of an answer on their way to `out`, but for an answer that ends before
    /// it is worth it. With `each` every piece can be read as soon as it comes, as chunked answers
    /// are.
    pub fn compress(&self, out: Out, each: bool) -> Out {
        let encoder = GzEncoder::new(Vec::new(), Compression::fast());
        let small = if each { None } else { Some(Vec::new()) };
        let mut gzip = Gzip { out, small, encoder, each, wanted: self.clone() };
        Box::new(move |piece| gzip.push(&piece))
    }

    /// Whether the answer is compressed; asked once its first piece has come.
    pub fn is_used(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}

struct Gzip {
    out: Out,
    /// The answer as long as it is small.
    small: Option<Vec<u8>>,
    encoder: GzEncoder<Vec<u8>>,
    each: bool,
    wanted: GzipNegotiation,
}

impl Gzip {
    fn push(&mut self, piece: &[u8]) -> ControlFlow<()> {
        let begun = match self.small.take() {
            Some(mut small) => {
                small.extend_from_slice(piece);
                if small.len() < SMALL_BYTES {
                    self.small = Some(small);
                    return ControlFlow::Continue(());
                }
                self.encoder.write_all(&small)
            }
            None => self.encoder.write_all(piece),
        };
        let flushed = if self.each { self.encoder.flush() } else { Ok(()) };
        // Writing to memory does not fail.
        match begun.and(flushed) {
            Ok(()) if self.each || self.encoder.get_ref().len() >= PIECE_BYTES => self.hand_out(),
            Ok(()) => ControlFlow::Continue(()),
            Err(_) => ControlFlow::Break(()),
        }
    }

    fn hand_out(&mut self) -> ControlFlow<()> {
        match std::mem::take(self.encoder.get_mut()) {
            nothing if nothing.is_empty() => ControlFlow::Continue(()),
            bytes => {
                self.wanted.0.store(true, Ordering::Release);
                (self.out)(Bytes::from(bytes))
            }
        }
    }
}

impl Drop for Gzip {
    /// The answer's end. One that a panic breaks off has none, which its client sees.
    fn drop(&mut self) {
        if std::thread::panicking() {
            return;
        }
        if let Some(small) = self.small.take() {
            if !small.is_empty() {
                let _ = (self.out)(Bytes::from(small));
            }
        } else if self.encoder.try_finish().is_ok() {
            let _ = self.hand_out();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::sync::mpsc;

    use super::super::answer;
    use super::*;

    fn asking(value: &str) -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert(ACCEPT_ENCODING, value.parse().unwrap());
        headers
    }

    fn unfolded(bytes: &[u8]) -> String {
        let mut text = String::new();
        flate2::read::GzDecoder::new(bytes).read_to_string(&mut text).unwrap();
        text
    }

    #[test]
    fn gzip_is_sent_to_who_names_it() {
        for yes in [
            "gzip",
            "x-gzip",
            "deflate, GZIP;q=0.5",
            "gzip;q=1",
            "br,gzip",
            "gzip ; Q=0.001",
            "gzip;q=0.5, identity;q=0.5",
            "identity;q=0, gzip;q=0.1",
            "gzip;q=0.2, *;q=0",
        ] {
            assert!(accepts_gzip(&asking(yes)), "{yes}");
        }
        for no in [
            "",
            "identity",
            "gzip;q=0",
            "deflate, gzip; q=0.0",
            "gzip;q=0.000",
            "xgzip",
            "*",
            "gzip;q=0.5, identity",
            "identity;q=0.8, gzip;q=0.7",
            "gzip;q=much",
        ] {
            assert!(!accepts_gzip(&asking(no)), "{no}");
        }
        assert!(!accepts_gzip(&HeaderMap::new()));
    }

    #[test]
    fn a_backend_is_asked_for_gzip_only_if_the_client_takes_it() {
        let told = |value: &str| for_backend(&asking(value)).get(ACCEPT_ENCODING).cloned();
        assert_eq!(told("gzip;q=0, br").as_ref(), None);
        assert_eq!(told("br, gzip;q=0.4"), Some(GZIP));
    }

    #[test]
    fn pieces_are_one_stream_and_each_can_be_read_when_it_comes() {
        for each in [false, true] {
            let (sender, pieces) = mpsc::channel::<Bytes>();
            let out = move |piece| match sender.send(piece) {
                Ok(()) => ControlFlow::Continue(()),
                Err(_) => ControlFlow::Break(()),
            };
            let wanted = GzipNegotiation::default();
            let mut out = wanted.compress(Box::new(out), each);
            let mut so_far = Vec::new();
            for n in 0..200 {
                assert!(out(Bytes::from(format!("piece {n}\n"))).is_continue());
                so_far.extend(pieces.try_iter().flatten());
                if each {
                    let mut text = String::new();
                    // It ends before its end.
                    let _ = flate2::read::GzDecoder::new(&so_far[..]).read_to_string(&mut text);
                    assert_eq!(text.lines().count(), n + 1, "{text}");
                }
            }
            drop(out);
            so_far.extend(pieces.iter().flatten());
            assert!(wanted.is_used());
            assert_eq!(unfolded(&so_far).lines().last(), Some("piece 199"));
        }
    }

    #[test]
    fn a_small_answer_goes_as_it_is() {
        let (sender, pieces) = mpsc::channel::<Bytes>();
        let out = move |piece| match sender.send(piece) {
            Ok(()) => ControlFlow::Continue(()),
            Err(_) => ControlFlow::Break(()),
        };
        let wanted = GzipNegotiation::default();
        let mut out = wanted.compress(Box::new(out), false);
        assert!(out(Bytes::from_static(b"{\"results\":")).is_continue());
        assert!(out(Bytes::from_static(b"[]}\n")).is_continue());
        drop(out);
        assert!(!wanted.is_used());
        assert_eq!(pieces.iter().flatten().collect::<Vec<u8>>(), b"{\"results\":[]}\n");
    }

    #[tokio::test]
    async fn an_answer_that_is_there_is_compressed_once_and_only_where_it_is_one() {
        let control = Handle::current();
        let asked = asking("gzip");
        for size in [SMALL_BYTES - 1, SMALL_BYTES, AT_ONCE_BYTES + 1] {
            let whole = answer::json(StatusCode::OK, "x".repeat(size));
            let answer = finished(whole, &asked, &control).await;
            assert_eq!(answer.headers()[VARY], "Accept-Encoding");
            let is = answer.headers().get(CONTENT_ENCODING) == Some(&GZIP);
            assert_eq!(is, size >= SMALL_BYTES, "{size}");
            let Content::Full(bytes) = answer.body().to_owned() else { panic!("not whole") };
            assert!(!is || unfolded(bytes).len() == size);
        }
        let plain = answer::json(StatusCode::OK, "x".repeat(5000));
        let answer = finished(plain, &asking("gzip;q=0"), &control).await;
        assert!(!answer.headers().contains_key(CONTENT_ENCODING));
        let refused = answer::error(StatusCode::BAD_REQUEST, &"x".repeat(5000));
        let answer = finished(refused, &asked, &control).await;
        assert!(!answer.headers().contains_key(CONTENT_ENCODING));
    }
}
