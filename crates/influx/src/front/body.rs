//! Reads a request's body, plain or gzipped, within its limits.

use std::io::Read;

use bytes::{Bytes, BytesMut};
use flate2::read::MultiGzDecoder;
use http::{HeaderMap, StatusCode, header};
use http_body::Body;
use http_body_util::BodyExt;
use watch::watchdog::{Pulse, Stage};

use super::answer::{self, Answer};

/// How large a body may be.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Bytes on the wire.
    pub body_max: usize,
    /// Bytes after decompression.
    pub decompressed_max: usize,
}

/// The whole body, decompressed.
///
/// # Errors
/// The answer to give: 413 past a limit, 400 where it does not arrive whole or is no good gzip.
pub async fn read<B>(
    headers: &HeaderMap,
    body: B,
    limits: Limits,
    pulse: &Pulse,
) -> Result<Bytes, Answer>
where
    B: Body<Data = Bytes> + Unpin,
    B::Error: std::fmt::Display,
{
    if body.size_hint().lower() > limits.body_max as u64 {
        return Err(too_large());
    }
    let bytes = collect(body, limits.body_max).await?;
    Ok(unfolded(headers, &bytes, limits, pulse)?.unwrap_or(bytes))
}

/// A body that has come whole, decompressed; `None` where it is not compressed.
///
/// # Errors
/// As of [`read`].
pub fn unfolded(
    headers: &HeaderMap,
    bytes: &[u8],
    limits: Limits,
    pulse: &Pulse,
) -> Result<Option<Bytes>, Answer> {
    let gzip = headers.get(header::CONTENT_ENCODING).is_some_and(|v| v == "gzip");
    let unfold = || {
        let _stage = pulse.enter(Stage::Decompress);
        gunzip(bytes, limits.decompressed_max)
    };
    gzip.then(unfold).transpose()
}

/// One frame, which is what a small write has, is taken as it is.
async fn collect<B>(mut body: B, max: usize) -> Result<Bytes, Answer>
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
fn gunzip(bytes: &[u8], max: usize) -> Result<Bytes, Answer> {
    let mut out = Vec::with_capacity(bytes.len().saturating_mul(4).min(max));
    let read = MultiGzDecoder::new(bytes).take(max as u64 + 1).read_to_end(&mut out);
    match read {
        Err(error) => {
            // Go's words for a stream that is cut, and for one that is none.
            let message = match error.kind() {
                std::io::ErrorKind::UnexpectedEof if bytes.is_empty() => "EOF".to_owned(),
                std::io::ErrorKind::UnexpectedEof => "unexpected EOF".to_owned(),
                std::io::ErrorKind::InvalidInput if bytes.len() < 10 => "unexpected EOF".to_owned(),
                std::io::ErrorKind::InvalidInput => "gzip: invalid header".to_owned(),
                _ => format!("gzip: {error}"),
            };
            Err(answer::error(StatusCode::BAD_REQUEST, &message))
        }
        Ok(_) if out.len() > max => Err(too_large()),
        Ok(_) => Ok(out.into()),
    }
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

    const LIMITS: Limits = Limits { body_max: 100, decompressed_max: 1000 };

    fn gzip(data: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
        encoder.write_all(data).unwrap();
        encoder.finish().unwrap()
    }

    async fn gzipped(body: Vec<u8>) -> Result<Bytes, Answer> {
        let mut headers = HeaderMap::new();
        headers.insert(header::CONTENT_ENCODING, "gzip".parse().unwrap());
        read(&headers, Full::<Bytes>::from(body), LIMITS, &Pulse::new("test")).await
    }

    #[tokio::test]
    async fn bodies_in_one_or_many_frames_are_whole_or_refused() {
        for (frames, good) in [(1, true), (3, true), (10, true), (11, false)] {
            let frame =
                |_| Ok::<_, hyper::Error>(http_body::Frame::data(Bytes::from_static(&[7; 10])));
            let body = StreamBody::new(futures_util::stream::iter((0..frames).map(frame)));
            match read(&HeaderMap::new(), body, LIMITS, &Pulse::new("test")).await {
                Ok(bytes) => assert!(good && bytes.len() == frames * 10),
                Err(answer) => assert!(!good && answer.status() == 413),
            }
        }
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
