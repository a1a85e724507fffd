use proptest::prelude::{any, prop_assert_eq, proptest};

use super::Answers;
use crate::recorder::Kind;
use crate::workload::{Answer, Malformed, Reader};

/// What comes of bytes that arrive in pieces of so many: the answer before the close, or at it.
fn read(bytes: &[u8], piece: usize, is_head: bool) -> Result<Option<Answer>, Malformed> {
    let mut answers = Answers::new(is_head);
    let (mut found, mut behind) = (None, false);
    for piece in bytes.chunks(piece.max(1)) {
        if found.is_some() {
            behind = true;
            break;
        }
        found = answers.read(piece)?;
    }
    if behind {
        return Err(Malformed("the server went on behind the end of its answer"));
    }
    Ok(found.or_else(|| answers.ended()))
}

fn in_any_pieces(bytes: &str, is_head: bool) -> Result<Option<Answer>, Malformed> {
    let whole = read(bytes.as_bytes(), bytes.len(), is_head);
    for piece in 1..bytes.len() {
        assert_eq!(read(bytes.as_bytes(), piece, is_head), whole, "{bytes:?} by {piece}");
    }
    whole
}

#[track_caller]
fn answered(bytes: &str, is_head: bool, code: u16, reusable: bool) {
    let kind = if (200..400).contains(&code) { Kind::Succeeded } else { Kind::Server };
    let expected = Answer { kind, code, commands: 1, reusable };
    assert_eq!(in_any_pieces(bytes, is_head), Ok(Some(expected)), "{bytes:?}");
}

#[test]
fn an_answer_ends_where_its_head_says() {
    answered("HTTP/1.1 204 No Content\r\n\r\n", false, 204, true);
    answered("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc", false, 200, true);
    answered("HTTP/1.1 503 Busy\r\ncontent-length: 0\r\n\r\n", false, 503, true);
    answered("HTTP/1.1 304 Same\r\nContent-Length: 9\r\n\r\n", false, 304, true);
    answered("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n", true, 200, true);
    answered(
        "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nConnection: close\r\n\r\na",
        false,
        200,
        false,
    );
    answered("HTTP/1.0 200 OK\r\nContent-Length: 1\r\n\r\na", false, 200, false);
    answered(
        "HTTP/1.0 200 OK\r\nConnection: Keep-Alive\r\nContent-Length: 1\r\n\r\na",
        false,
        200,
        true,
    );
}

#[test]
fn chunks_trailers_and_what_comes_before_an_answer_are_read() {
    let chunked = "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n";
    answered(&format!("{chunked}3;x=\"y\"\r\nabc\r\n0\r\n\r\n"), false, 200, true);
    answered(&format!("{chunked}A\r\n0123456789\r\n0\r\nT: 1\r\nU: 2\r\n\r\n"), false, 200, true);
    answered(&format!("{chunked}0\n\n"), false, 200, true);
    let capital = chunked.replace("gzip, chunked", "Chunked");
    answered(&format!("{capital}3\r\nabc\r\n0\r\n\r\n"), false, 200, true);
    answered(
        "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early\r\nLink: x\r\n\r\nHTTP/1.1 204 No\r\n\r\n",
        false,
        204,
        true,
    );
}

#[test]
fn an_answer_without_a_length_ends_with_the_connection() {
    answered("HTTP/1.1 200 OK\r\n\r\nwhatever comes", false, 200, false);
    answered("HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\nxyz", false, 200, false);
}

#[test]
fn a_connection_that_ends_within_an_answer_gives_none() {
    for bytes in [
        "",
        "HTTP/1.1 200",
        "HTTP/1.1 100 Continue\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nab",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n",
    ] {
        assert_eq!(in_any_pieces(bytes, false), Ok(None), "{bytes:?}");
    }
}

#[test]
fn what_is_no_answer_is_told() {
    for bytes in [
        "garbage\r\n\r\n",
        "HTTP/2 200 OK\r\n\r\n",
        "HTTP/1.1 101 Switching\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\na",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nab\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffffff\r\n",
        "HTTP/1.1 204 No\r\n\r\nmore",
    ] {
        let found = in_any_pieces(bytes, false);
        assert!(found.is_err(), "{bytes:?}: {found:?}");
    }
}

#[test]
fn heads_and_trailers_without_end_are_given_up() {
    let mut answers = Answers::new(false);
    assert_eq!(answers.read(b"HTTP/1.1 200 OK\r\n"), Ok(None));
    let one = (0..10_000).map(|_| answers.read(b"a: ")).find(Result::is_err);
    assert!(one.is_some() || (0..100_000).any(|_| answers.read(b"b").is_err()));
    let mut answers = Answers::new(false);
    answers.read(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n").unwrap();
    assert!((0..20_000).any(|_| answers.read(b"a: b\r\n").is_err()));
    let many = format!("HTTP/1.1 200 OK\r\n{}\r\n", "a: b\r\n".repeat(101));
    assert!(in_any_pieces(&many, false).is_err());
}

proptest! {
    #[test]
    fn no_bytes_panic_and_pieces_change_nothing(
        bytes in proptest::collection::vec(any::<u8>(), 0..80),
        piece in 1..9_usize,
        begin in 0..3_usize,
    ) {
        let head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
        let bytes = [&head[..[0, 17, head.len()][begin]], &bytes].concat();
        let (whole, pieces) = (read(&bytes, bytes.len(), false), read(&bytes, piece, false));
        // What is wrong within a line may be told at the line's end only.
        if whole.is_ok() {
            prop_assert_eq!(whole, pieces);
        }
    }
}
