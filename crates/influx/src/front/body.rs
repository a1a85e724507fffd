//! Reads a request's body, plain or gzipped, within its limits and those of all bodies together.

use std::io::Read;

use bytes::{Bytes, BytesMut};
use flate2::read::MultiGzDecoder;
use flow::memory::{Memory, MemoryShare};
use http::{HeaderMap, StatusCode, header};
use http_body::Body;
use http_body_util::BodyExt;
use watch::watchdog::Pulse;

use super::answer::{self, Answer};
use super::stages::DECOMPRESS;
use crate::settings::Settings;

/// What is decompressed before it is looked whether there may be more.
const PIECE_BYTES: usize = 64 << 10;
/// Compressed bytes that are tried at once: nothing but empty parts takes time, too.
const COMPRESSED_AT_ONCE_MAX: usize = 64 << 10;

/// How large a request may be.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Bytes of the head.
    pub head_max: usize,
    /// Bytes on the wire.
    pub body_max: usize,
    /// Bytes of the body after decompression.
    pub decompressed_max: usize,
}

impl Limits {
    /// Those of the settings.
    pub fn of(settings: &Settings) -> Self {
        Self {
            head_max: settings.max_header_size.len(),
            body_max: settings.max_body_size.len(),
            decompressed_max: settings.max_decompressed_size.len(),
        }
    }
}

/// A body that has come whole, and its share of the memory that all bodies have.
#[derive(Debug)]
pub struct Whole {
    /// The body, as it came or decompressed.
    pub bytes: Bytes,
    /// To be kept for as long as the bytes are, or what is made of them.
    pub share: MemoryShare,
    /// Whether it is compressed.
    gzip: bool,
    decompressed_max: usize,
}

/// The whole body.
///
/// # Errors
/// The answer to give: 413 past a limit, 503 where all bodies together are too much, 400 where it
/// does not arrive whole.
pub async fn read<B>(
    headers: &HeaderMap,
    body: B,
    limits: Limits,
    memory: &Memory,
) -> Result<Whole, Answer>
where
    B: Body<Data = Bytes> + Unpin,
    B::Error: std::fmt::Display,
{
    if body.size_hint().lower() > limits.body_max as u64 {
        return Err(too_large());
    }
    let mut share = memory.none();
    let bytes = collect(body, limits.body_max, &mut share).await?;
    let decompressed_max = limits.decompressed_max;
    Ok(Whole { bytes, share, gzip: is_gzip(headers), decompressed_max })
}

impl Whole {
    /// The body decompressed, where that has no more than `most` bytes and does not take long.
    ///
    /// # Errors
    /// As of [`unfolded`](Self::unfolded).
    pub fn at_once(&self, most: usize, pulse: &Pulse) -> Result<Option<Bytes>, Answer> {
        if !self.gzip {
            return Ok((self.bytes.len() <= most).then(|| self.bytes.clone()));
        }
        unfolded_at_once(&self.bytes, most, self.decompressed_max, pulse)
    }

    /// The body decompressed, which may take long.
    ///
    /// # Errors
    /// 413 past the limit, 503 where all bodies together are too much, 400 where it is no good
    /// gzip.
    pub fn unfolded(mut self) -> Result<Self, Answer> {
        if std::mem::take(&mut self.gzip) {
            let share = &mut self.share;
            let mut more = |bytes| if share.grow(bytes) { Ok(()) } else { Err(no_memory()) };
            self.bytes = gunzip(&self.bytes, self.decompressed_max, &mut more)?.into();
            self.share.shrink_to(self.bytes.len());
        }
        Ok(self)
    }
}

/// Whether a body is compressed.
pub fn is_gzip(headers: &HeaderMap) -> bool {
    headers.get(header::CONTENT_ENCODING).is_some_and(|coding| coding == "gzip")
}

/// A gzip body decompressed; `None` where it has more than `most` bytes, or may take long.
///
/// # Errors
/// 413 past `max`, 400 where it is no good gzip.
pub fn unfolded_at_once(
    bytes: &[u8],
    most: usize,
    max: usize,
    pulse: &Pulse,
) -> Result<Option<Bytes>, Answer> {
    if bytes.len() > COMPRESSED_AT_ONCE_MAX {
        return Ok(None);
    }
    let _stage = pulse.enter_sized(&DECOMPRESS, most);
    let within = max.min(most);
    match gunzip(bytes, within, &mut |_| Ok(())) {
        Err(refusal) if refusal.status() == StatusCode::PAYLOAD_TOO_LARGE && within < max => {
            Ok(None)
        }
        unfolded => unfolded.map(|unfolded| Some(unfolded.into())),
    }
}

/// One frame, which is what a small write has, is taken as it is.
async fn collect<B>(mut body: B, max: usize, share: &mut MemoryShare) -> Result<Bytes, Answer>
where
    B: Body<Data = Bytes> + Unpin,
    B::Error: std::fmt::Display,
{
    let expected = body.size_hint().exact().unwrap_or(0).min(max as u64) as usize;
    let mut first = Bytes::new();
    let mut all = BytesMut::new();
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|e| answer::error(StatusCode::BAD_REQUEST, &e.to_string()))?;
        let Ok(data) = frame.into_data() else { continue };
        if !share.grow(data.len()) {
            return Err(no_memory());
        }
        if first.is_empty() && all.is_empty() {
            first = data;
        } else {
            if all.is_empty() {
                all.reserve(expected.max(first.len() + data.len()));
                all.extend_from_slice(&first);
            }
            all.extend_from_slice(&data);
        }
        if first.len().max(all.len()) > max {
            return Err(too_large());
        }
        if body.is_end_stream() {
            break;
        }
    }
    Ok(if all.is_empty() { first } else { all.freeze() })
}

/// InfluxDB does not cap what a gzip body unfolds to; a thousandfold bomb must not cost memory.
/// `more` is asked about each piece.
fn gunzip(
    bytes: &[u8],
    max: usize,
    more: &mut dyn FnMut(usize) -> Result<(), Answer>,
) -> Result<Vec<u8>, Answer> {
    let mut decoder = MultiGzDecoder::new(bytes);
    let mut out = Vec::with_capacity(bytes.len().saturating_mul(4).min(max));
    loop {
        let piece = PIECE_BYTES.min(max - out.len() + 1);
        let read = decoder.by_ref().take(piece as u64).read_to_end(&mut out);
        let read = read.map_err(|e| answer::error(StatusCode::BAD_REQUEST, &words(&e, bytes)))?;
        if out.len() > max {
            return Err(too_large());
        }
        more(read)?;
        if read < piece {
            return Ok(out);
        }
    }
}

/// Go's words for a stream that is cut, and for one that is none.
fn words(error: &std::io::Error, bytes: &[u8]) -> String {
    match error.kind() {
        std::io::ErrorKind::UnexpectedEof if bytes.is_empty() => "EOF".to_owned(),
        std::io::ErrorKind::UnexpectedEof => "unexpected EOF".to_owned(),
        std::io::ErrorKind::InvalidInput if bytes.len() < 10 => "unexpected EOF".to_owned(),
        std::io::ErrorKind::InvalidInput => "gzip: invalid header".to_owned(),
        _ => format!("gzip: {error}"),
    }
}

/// The answer where all bodies that are under way take as much memory as they may.
pub fn no_memory() -> Answer {
    answer::unavailable("too many request bodies are under way; see bodies-memory", 1)
}

fn too_large() -> Answer {
    answer::error(StatusCode::PAYLOAD_TOO_LARGE, "Request Entity Too Large")
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use flate2::{Compression, write::GzEncoder};
    use http_body_util::{Full, StreamBody};

    use super::*;

    const AT_ONCE_MAX: usize = 10_000;
    const LIMITS: Limits = Limits { head_max: 100, body_max: 100, decompressed_max: 1000 };

    fn gzip(data: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
        encoder.write_all(data).unwrap();
        encoder.finish().unwrap()
    }

    async fn gzipped(body: Vec<u8>) -> Result<Bytes, Answer> {
        let mut headers = HeaderMap::new();
        headers.insert(header::CONTENT_ENCODING, "gzip".parse().unwrap());
        let memory = Memory::new(3000);
        let whole = read(&headers, Full::<Bytes>::from(body), LIMITS, &memory).await?;
        let at_once = whole.at_once(AT_ONCE_MAX, &Pulse::new("test"));
        let unfolded = whole.unfolded();
        let (here, elsewhere) = (at_once.as_ref(), unfolded.as_ref());
        assert_eq!(
            here.map_or_else(Answer::status, |_| StatusCode::OK),
            elsewhere.map_or_else(Answer::status, |_| StatusCode::OK)
        );
        assert_eq!(here.ok().and_then(Option::as_ref), elsewhere.ok().map(|whole| &whole.bytes));
        unfolded.map(|whole| whole.bytes)
    }

    #[tokio::test]
    async fn bodies_in_one_or_many_frames_are_whole_or_refused() {
        for (frames, good) in [(1, true), (3, true), (10, true), (11, false)] {
            let frame =
                |_| Ok::<_, hyper::Error>(http_body::Frame::data(Bytes::from_static(&[7; 10])));
            let body = StreamBody::new(futures_util::stream::iter((0..frames).map(frame)));
            let memory = Memory::new(1000);
            match read(&HeaderMap::new(), body, LIMITS, &memory).await {
                Ok(whole) => {
                    assert!(good && whole.bytes.len() == frames * 10);
                    assert_eq!(memory.used(), whole.bytes.len());
                }
                Err(answer) => assert!(!good && answer.status() == 413),
            }
        }
    }

    #[tokio::test]
    async fn all_bodies_together_take_no_more_than_they_may() {
        let memory = Memory::new(100);
        let mut headers = HeaderMap::new();
        let plain = || Full::<Bytes>::from(vec![7; 60]);
        let first = read(&headers, plain(), LIMITS, &memory).await.unwrap();
        let refusal = read(&headers, plain(), LIMITS, &memory).await.unwrap_err();
        assert_eq!(refusal.status(), 503);
        assert_eq!(refusal.headers()[header::RETRY_AFTER], "1");
        drop(first);
        // Few bytes, and many once they are unfolded.
        headers.insert(header::CONTENT_ENCODING, "gzip".parse().unwrap());
        let body = Full::<Bytes>::from(gzip(&[0; 90]));
        let whole = read(&headers, body, LIMITS, &memory).await.unwrap();
        assert_eq!(whole.unfolded().unwrap_err().status(), 503);
        assert_eq!(memory.used(), 0);
    }

    #[test]
    fn what_unfolds_to_much_is_left_to_another_thread() {
        let pulse = Pulse::new("test");
        let at_once = |bytes: &[u8], max| unfolded_at_once(bytes, AT_ONCE_MAX, max, &pulse);
        let most = AT_ONCE_MAX * 3;
        assert_eq!(
            at_once(&gzip(&vec![0; AT_ONCE_MAX]), most).unwrap().unwrap().len(),
            AT_ONCE_MAX
        );
        assert!(at_once(&gzip(&vec![0; AT_ONCE_MAX + 1]), most).unwrap().is_none());
        assert!(at_once(&vec![0; COMPRESSED_AT_ONCE_MAX + 1], most).unwrap().is_none());
        let refusal = at_once(&gzip(&vec![0; AT_ONCE_MAX + 1]), AT_ONCE_MAX).unwrap_err();
        assert_eq!(refusal.status(), 413);
    }

    #[tokio::test]
    async fn gzip_bodies_are_unfolded_within_the_limit() {
        assert_eq!(gzipped(gzip(b"cpu v=1")).await.unwrap(), "cpu v=1");
        assert_eq!(gzipped(gzip(&[0; 1000])).await.unwrap().len(), 1000);
        assert_eq!(gzipped(gzip(&[0; 1001])).await.unwrap_err().status(), 413);
        assert_eq!(gzipped(b"no gzip at all".to_vec()).await.unwrap_err().status(), 400);
        let mut cut = gzip(b"cpu v=1");
        cut.truncate(cut.len() - 4);
        assert_eq!(gzipped(cut).await.unwrap_err().status(), 400);
        let members = [gzip(b"a v=1\n"), gzip(b"b v=1\n")].concat();
        assert_eq!(gzipped(members).await.unwrap(), "a v=1\nb v=1\n");
    }
}
