//! Answers to `/query` compressed for clients that ask for it, piece by piece, on the thread that
//! makes them.

use std::io::Write;
use std::ops::ControlFlow;

use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use http::HeaderMap;
use http::header::ACCEPT_ENCODING;
use store::query::encode::Out;

/// Compressed bytes that are gathered before they are handed out, where not each piece is.
const PIECE_BYTES: usize = 16 << 10;

/// Whether a request's `Accept-Encoding` names gzip (RFC 9110, section 12.5.3).
pub fn accepts_gzip(headers: &HeaderMap) -> bool {
    let named = headers.get_all(ACCEPT_ENCODING).iter().filter_map(|value| value.to_str().ok());
    let mut codings = named.flat_map(|value| value.split(','));
    codings.any(|coding| {
        let (name, parameter) = coding.split_once(';').unwrap_or((coding, ""));
        let weight = parameter.trim().strip_prefix("q=").map(|weight| weight.trim().parse::<f32>());
        let is_refused = matches!(weight, Some(Ok(0.0)));
        name.trim().eq_ignore_ascii_case("gzip") && !is_refused
    })
}

/// Compresses the pieces of an answer on their way to `out`. With `each` every piece can be read
/// as soon as it comes, as chunked answers are.
pub fn compressed(out: Out, each: bool) -> Out {
    let mut gzip = Gzip { out, encoder: GzEncoder::new(Vec::new(), Compression::fast()), each };
    Box::new(move |piece| gzip.push(&piece))
}

struct Gzip {
    out: Out,
    encoder: GzEncoder<Vec<u8>>,
    each: bool,
}

impl Gzip {
    fn push(&mut self, piece: &[u8]) -> ControlFlow<()> {
        let written = self.encoder.write_all(piece);
        let flushed = if self.each { self.encoder.flush() } else { Ok(()) };
        // Writing to memory does not fail.
        match written.and(flushed) {
            Ok(()) if self.each || self.encoder.get_ref().len() >= PIECE_BYTES => self.hand_out(),
            Ok(()) => ControlFlow::Continue(()),
            Err(_) => ControlFlow::Break(()),
        }
    }

    fn hand_out(&mut self) -> ControlFlow<()> {
        match std::mem::take(self.encoder.get_mut()) {
            nothing if nothing.is_empty() => ControlFlow::Continue(()),
            bytes => (self.out)(Bytes::from(bytes)),
        }
    }
}

impl Drop for Gzip {
    /// The answer's end. One that a panic breaks off has none, which its client sees.
    fn drop(&mut self) {
        if !std::thread::panicking() && self.encoder.try_finish().is_ok() {
            let _ = self.hand_out();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::sync::mpsc;

    use super::*;

    fn asks(value: &str) -> bool {
        let mut headers = HeaderMap::new();
        headers.insert(ACCEPT_ENCODING, value.parse().unwrap());
        accepts_gzip(&headers)
    }

    #[test]
    fn gzip_is_sent_to_who_names_it() {
        for yes in ["gzip", "deflate, GZIP;q=0.5", "gzip;q=1", "br,gzip"] {
            assert!(asks(yes), "{yes}");
        }
        for no in ["", "identity", "gzip;q=0", "deflate, gzip; q=0.0", "xgzip"] {
            assert!(!asks(no), "{no}");
        }
        assert!(!accepts_gzip(&HeaderMap::new()));
    }

    #[test]
    fn pieces_are_one_stream_and_each_can_be_read_when_it_comes() {
        for each in [false, true] {
            let (sender, pieces) = mpsc::channel::<Bytes>();
            let out = move |piece| match sender.send(piece) {
                Ok(()) => ControlFlow::Continue(()),
                Err(_) => ControlFlow::Break(()),
            };
            let mut out = compressed(Box::new(out), each);
            let mut so_far = Vec::new();
            for n in 0..20 {
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
            let mut text = String::new();
            flate2::read::GzDecoder::new(&so_far[..]).read_to_string(&mut text).unwrap();
            assert_eq!(text.lines().last(), Some("piece 19"));
        }
    }
}
