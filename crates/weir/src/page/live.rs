//! The stream of frames: one is encoded a second, and is the same bytes for every viewer.
//!
//! A frame is an event of a server-sent event stream. For viewers who take gzip each frame is a
//! run of whole deflate blocks that refer to nothing before them: whoever joins reads it behind a
//! gzip header of its own, and whoever was slow has skipped frames without losing its place.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, LazyLock};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use flate2::{Compress, Compression, FlushCompress, Status as Progress};
use hyper::body::{Body, Frame as BodyFrame};
use tokio::sync::{Notify, Semaphore, mpsc, watch};

use crate::diagnosis::frame::Frame;

/// How many viewers there are at once.
pub const VIEWERS_MAX: usize = 16;
/// A viewer who takes nothing for so long is gone.
const STUCK: Duration = Duration::from_secs(30);
/// A gzip header without a name, a time or an operating system (RFC 1952 section 2.3).
const GZIP_HEADER: [u8; 10] = [0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 0xff];
/// What a stream begins with, so that its head goes out at once.
const HELLO: &[u8] = b": the state of Weir, once a second\n\n";
static HELLO_GZIP: LazyLock<Bytes> = LazyLock::new(|| {
    // Compressing so little into memory can't fail.
    let packed = deflated(HELLO).unwrap_or_default();
    [&GZIP_HEADER[..], &packed].concat().into()
});
/// How well frames are compressed: once a second for all viewers.
const LEVEL: u32 = 6;

/// A frame as it is sent.
#[derive(Debug, Clone, Default)]
struct Encoded {
    plain: Bytes,
    gzip: Bytes,
}

/// The stream of frames.
pub struct Live {
    newest: watch::Sender<Encoded>,
    seats: Arc<Semaphore>,
    /// How long a viewer may take nothing.
    patience: Duration,
}

impl Default for Live {
    fn default() -> Self {
        Self {
            newest: watch::Sender::new(Encoded::default()),
            seats: Arc::new(Semaphore::new(VIEWERS_MAX)),
            patience: STUCK,
        }
    }
}

impl Live {
    /// Whether there is any viewer.
    pub fn has_viewers(&self) -> bool {
        self.seats.available_permits() < VIEWERS_MAX
    }

    /// Hands a frame to all viewers.
    ///
    /// # Errors
    /// It can't be encoded.
    pub fn send(&self, frame: &Frame) -> io::Result<()> {
        let mut plain = b"data: ".to_vec();
        serde_json::to_writer(&mut plain, frame)?;
        plain.extend_from_slice(b"\n\n");
        let gzip = deflated(&plain)?;
        self.newest.send_replace(Encoded { plain: plain.into(), gzip });
        Ok(())
    }

    /// A seat for one more viewer; `None` where all are taken.
    pub fn join(&self, gzip: bool) -> Option<Viewer> {
        let permit = Arc::clone(&self.seats).try_acquire_owned().ok()?;
        let mut newest = self.newest.subscribe();
        // The newest frame is of this second or of when somebody looked last.
        newest.mark_unchanged();
        // One frame on its way, and the next is the newest by then.
        let (sender, frames) = mpsc::channel(1);
        let stuck = Arc::new(Notify::new());
        let told = Arc::clone(&stuck);
        let patience = self.patience;
        tokio::spawn(async move {
            if feed(newest, sender, gzip, patience).await == StreamEnd::Stuck {
                told.notify_one();
            }
            drop(permit);
        });
        Some(Viewer { frames, stuck })
    }
}

/// A viewer's answer, without an end.
pub struct Viewer {
    frames: mpsc::Receiver<Bytes>,
    stuck: Arc<Notify>,
}

impl Viewer {
    /// Told once the viewer has taken nothing for long: then its connection is to be closed.
    pub fn stuck(&self) -> Arc<Notify> {
        Arc::clone(&self.stuck)
    }
}

impl Body for Viewer {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<BodyFrame<Bytes>, Self::Error>>> {
        self.frames.poll_recv(context).map(|bytes| Some(Ok(BodyFrame::data(bytes?))))
    }
}

/// Why a viewer gets no more frames.
#[derive(Debug, PartialEq, Eq)]
enum StreamEnd {
    /// The viewer, or the process, has gone.
    Gone,
    /// It has taken nothing for too long.
    Stuck,
}

/// Hands a viewer the newest frame whenever it has taken the one before.
async fn feed(
    mut newest: watch::Receiver<Encoded>,
    sender: mpsc::Sender<Bytes>,
    gzip: bool,
    patience: Duration,
) -> StreamEnd {
    let mut next = if gzip { HELLO_GZIP.clone() } else { Bytes::from_static(HELLO) };
    loop {
        match tokio::time::timeout(patience, sender.send(next)).await {
            Ok(Ok(())) => {}
            Ok(Err(_)) => return StreamEnd::Gone,
            Err(_) => return StreamEnd::Stuck,
        }
        tokio::select! {
            changed = newest.changed() => if changed.is_err() { return StreamEnd::Gone },
            () = sender.closed() => return StreamEnd::Gone,
        }
        let frame = newest.borrow_and_update();
        next = if gzip { frame.gzip.clone() } else { frame.plain.clone() };
    }
}

/// Whole blocks that end at a byte, and that refer to nothing before them.
fn deflated(plain: &[u8]) -> io::Result<Bytes> {
    let mut compress = Compress::new(Compression::new(LEVEL), false);
    // More than it takes, whatever is in it, with the empty block behind it.
    let mut out = Vec::with_capacity(plain.len() + plain.len() / 1000 + 128);
    let progress = compress.compress_vec(plain, &mut out, FlushCompress::Sync)?;
    let is_whole = compress.total_in() == plain.len() as u64 && out.len() < out.capacity();
    match progress {
        // What it may have taken is not kept.
        Progress::Ok if is_whole => Ok(Bytes::copy_from_slice(&out)),
        _ => Err(io::Error::other("a frame was not compressed whole")),
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use http_body_util::BodyExt as _;

    use super::*;

    fn frame(number: u64) -> Frame {
        let status = serde_json::json!({ "words": "x".repeat(5000), "number": number });
        Frame { number, status, ..Frame::default() }
    }

    async fn chunk(viewer: &mut Viewer) -> Bytes {
        viewer.frame().await.unwrap().unwrap().into_data().unwrap()
    }

    /// What a browser makes of a stream that is cut off after these bytes.
    fn inflated(bytes: &[u8]) -> String {
        let mut text = Vec::new();
        let mut decoder = flate2::read::MultiGzDecoder::new(bytes);
        let mut piece = [0; 1000];
        while let Ok(read @ 1..) = decoder.read(&mut piece) {
            text.extend_from_slice(&piece[..read]);
        }
        String::from_utf8(text).unwrap()
    }

    #[tokio::test]
    async fn whoever_joins_or_skips_can_read_every_frame() {
        let live = Live::default();
        live.send(&frame(1)).unwrap();
        let (mut early, mut plain) = (live.join(true).unwrap(), live.join(false).unwrap());
        let mut read = chunk(&mut early).await.to_vec();
        assert!(String::from_utf8(chunk(&mut plain).await.to_vec()).unwrap().starts_with(": "));
        live.send(&frame(2)).unwrap();
        read.extend(chunk(&mut early).await);
        let text = String::from_utf8(chunk(&mut plain).await.to_vec()).unwrap();
        assert!(text.starts_with("data: {\"number\":2,") && text.ends_with("\n\n"), "{text}");
        let mut late = live.join(true).unwrap();
        let mut read_late = chunk(&mut late).await.to_vec();
        // The early one takes none of those, and then the newest.
        for number in 3..=9 {
            live.send(&frame(number)).unwrap();
            tokio::task::yield_now().await;
        }
        read_late.extend(chunk(&mut late).await);
        while !inflated(&read).contains("\"number\":9,") {
            read.extend(chunk(&mut early).await);
        }
        let text = inflated(&read);
        assert!(text.contains("\"number\":2,") && text.matches("data: ").count() < 5, "{text}");
        assert!(inflated(&read_late).contains("data: {\"number\":"));
        assert!(read.len() < 2000, "frames are small: {}", read.len());
    }

    #[tokio::test]
    async fn the_seventeenth_viewer_has_no_seat_until_another_goes() {
        let live = Live::default();
        let mut viewers: Vec<_> = (0..VIEWERS_MAX).map(|_| live.join(true).unwrap()).collect();
        assert!(live.join(true).is_none() && live.has_viewers());
        viewers.pop();
        tokio::time::timeout(Duration::from_secs(60), async {
            while live.join(false).is_none() {
                tokio::task::yield_now().await;
            }
        })
        .await
        .unwrap();
    }

    #[tokio::test]
    async fn one_who_takes_nothing_is_told_to_go() {
        let live = Live { patience: Duration::from_millis(20), ..Live::default() };
        let viewer = live.join(true).unwrap();
        let stuck = viewer.stuck();
        let sending = async {
            loop {
                live.send(&frame(1)).unwrap();
                tokio::task::yield_now().await;
            }
        };
        tokio::select! {
            () = stuck.notified() => {}
            () = sending => {}
        }
        drop(viewer);
    }
}
