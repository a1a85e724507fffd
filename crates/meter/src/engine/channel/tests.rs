use std::future::poll_fn;
use std::task::{Context, Poll, Waker};

use flow::dial::Socket;
use proptest::prelude::*;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, ReadBuf};
use tokio::net::UnixStream;
use tokio::runtime::Builder;
use wire::dubbo::{Event, FrameReader, Kind, Response, ResponseBody, put_event, put_response};
use wire::hessian2::{Encoder, Value};

use super::{Channel, ChannelEnd};
use crate::dubbo::CallChannel;

const USERS: usize = 4;
/// Bytes of the header of a frame.
const HEADER: usize = 16;

/// What a server says next.
#[derive(Debug, Clone)]
enum Saying {
    /// The answer to the call of that user.
    Answer(usize),
    /// An answer to a call that nobody has made.
    Strange(u64),
    Heartbeat,
    ReadOnly,
    /// An answer with a byte that is another one.
    Damaged(usize, prop::sample::Index, u8),
    Noise(Vec<u8>),
}

fn saying() -> impl Strategy<Value = Saying> {
    prop_oneof![
        8 => (0..USERS).prop_map(Saying::Answer),
        1 => any::<u64>().prop_map(Saying::Strange),
        1 => Just(Saying::Heartbeat),
        1 => Just(Saying::ReadOnly),
        1 => (0..USERS, any::<prop::sample::Index>(), any::<u8>())
            .prop_map(|(user, at, byte)| Saying::Damaged(user, at, byte)),
        1 => prop::collection::vec(any::<u8>(), 0..40).prop_map(Saying::Noise),
    ]
}

/// The number of a user's call on the connection: they call in their order.
fn id(user: usize) -> u64 {
    (user as u64 + 1) << 20 | user as u64
}

/// The number that a user's call had before.
fn number(user: usize) -> u64 {
    1000 + user as u64
}

fn answer(id: u64, text: &str) -> Vec<u8> {
    let mut out = Vec::new();
    let response = Response { body: ResponseBody::Value(Value::from(text)), attachments: None };
    put_response(&mut out, &mut Encoder::default(), id.cast_signed(), &response);
    out
}

fn bytes(said: &Saying) -> Vec<u8> {
    let mut out = Vec::new();
    match said {
        Saying::Answer(user) => out = answer(id(*user), &format!("for {user}")),
        Saying::Strange(id) => out = answer(*id, "for nobody"),
        Saying::Heartbeat => {
            put_event(&mut out, Kind::Request { is_two_way: true }, 1, &Event::Heartbeat);
        }
        Saying::ReadOnly => {
            put_event(&mut out, Kind::Request { is_two_way: false }, 1, &Event::ReadOnly);
        }
        Saying::Damaged(user, at, byte) => {
            out = answer(id(*user), &format!("for {user}"));
            let at = at.index(out.len());
            out[at] = *byte;
        }
        Saying::Noise(noise) => out.clone_from(noise),
    }
    out
}

/// All that a user hears, and whether the connection has ended below its call.
fn heard(channel: &Channel, user: usize) -> (Vec<u8>, bool) {
    let cx = Context::from_waker(Waker::noop());
    let (mut all, mut buffer) = (Vec::new(), [0; 32]);
    loop {
        let mut read = ReadBuf::new(&mut buffer);
        match channel.poll_receive(user, &cx, &mut read) {
            Poll::Pending => return (all, false),
            Poll::Ready(Ok(())) if !read.filled().is_empty() => {
                all.extend_from_slice(read.filled());
            }
            Poll::Ready(_) => return (all, true),
        }
    }
}

/// Has all users call, the server say all that in pieces, and reads until the end.
async fn talk(said: &[u8], written: usize, scratch: usize) -> (Channel, ChannelEnd) {
    let (ours, theirs) = UnixStream::pair().unwrap();
    let channel = Channel::new(Socket::from(ours), CallChannel::boxed);
    let mut cx = Context::from_waker(Waker::noop());
    for user in 0..USERS {
        assert_eq!(channel.join(), user);
        let mut call = answer(0, "a call");
        call[4..12].copy_from_slice(&number(user).to_be_bytes());
        assert!(channel.poll_send(user, &cx, &call).is_ready());
    }
    assert!(channel.poll_drive(&mut cx, &mut [0; 8]).is_pending());
    let (mut came, mut says) = theirs.into_split();
    let server = async {
        for piece in said.chunks(written) {
            if says.write_all(piece).await.is_err() {
                return;
            }
            tokio::task::yield_now().await;
        }
        let _ = says.shutdown().await;
    };
    let listens = async {
        let mut chunk = [0; 4096];
        while let Ok(1..) = came.read(&mut chunk).await {}
    };
    let mut scratch = vec![0; scratch];
    let end = async {
        let end = poll_fn(|cx| channel.poll_drive(cx, &mut scratch)).await;
        channel.close(&end);
        end
    };
    let (end, (), ()) = tokio::join!(end, server, listens);
    (channel, end)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    /// Whatever a server says, in whatever pieces: nothing panics, the connection ends, and each
    /// user hears its own answer at most, once.
    #[test]
    fn whatever_a_server_says_each_user_hears_at_most_its_own_answer(
        sayings in prop::collection::vec(saying(), 0..12),
        written in 1_usize..100,
        scratch in 1_usize..100,
    ) {
        let said: Vec<u8> = sayings.iter().flat_map(bytes).collect();
        let runtime = Builder::new_current_thread().enable_all().build().unwrap();
        let (channel, end) = runtime.block_on(talk(&said, written, scratch));
        let is_whole = sayings.iter().all(|said| {
            matches!(said, Saying::Answer(_) | Saying::Heartbeat | Saying::ReadOnly)
        });
        prop_assert!(!is_whole || !matches!(end, ChannelEnd::Malformed(_)), "{end:?}");
        for user in 0..USERS {
            let (own, has_ended) = heard(&channel, user);
            let (mut frames, mut rest) = (FrameReader::new(1 << 20), &own[..]);
            let first = frames.read(&mut rest).unwrap().map(|frame| {
                (frame.header.id.cast_unsigned(), frame.body.len())
            });
            if let Some((id, _)) = first {
                prop_assert_eq!(id, number(user));
            }
            prop_assert!(rest.is_empty(), "{} bytes behind it", rest.len());
            // A call without an answer hears of the end, and one with an answer does not fail.
            prop_assert!(first.is_some() || has_ended);
            let is_own = |said: &Saying| matches!(said, Saying::Answer(of) if *of == user);
            if is_whole && sayings.iter().any(is_own) {
                let words = format!("for {user}");
                let wanted = answer(number(user), &words);
                prop_assert_eq!(first.map(|(_, len)| len), Some(wanted.len() - HEADER));
                prop_assert_eq!(own, wanted);
            }
        }
    }
}
